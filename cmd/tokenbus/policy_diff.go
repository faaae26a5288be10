package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// diffContext is how many equal lines are printed around a change.
const diffContext = 3

// diffCells bounds the work of a diff; longer texts are printed as replaced whole.
const diffCells = 16 << 20

// diffLine is a line of both texts (' '), of the old one ('-') or of the new one ('+').
type diffLine struct {
	mark byte
	text string
}

// writeDiff prints the changes from one text to another, with some lines around them.
func writeDiff(w io.Writer, was, is string) error {
	lines := diffLines(splitLines(was), splitLines(is))
	near := make([]bool, len(lines))
	for i, l := range lines {
		if l.mark == ' ' {
			continue
		}
		for j := max(i-diffContext, 0); j < min(i+diffContext+1, len(lines)); j++ {
			near[j] = true
		}
	}
	before, after := 1, 1 // the number of the line in each text
	for i, l := range lines {
		if near[i] {
			if i == 0 || !near[i-1] {
				if _, err := fmt.Fprintf(w, "@@ -%d +%d @@\n", before, after); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintf(w, "%c%s\n", l.mark, l.text); err != nil {
				return err
			}
		}
		if l.mark != '+' {
			before++
		}
		if l.mark != '-' {
			after++
		}
	}
	return nil
}

// diffLines gives the shortest way from one list of lines to the other, by their
// longest common subsequence.
func diffLines(a, b []string) []diffLine {
	var lines, tail []diffLine
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		lines = append(lines, diffLine{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, diffLine{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	slices.Reverse(tail)
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	var common [][]int32
	if (len(a)+1)*(len(b)+1) <= diffCells {
		common = make([][]int32, len(a)+1)
		for i := range common {
			common[i] = make([]int32, len(b)+1)
		}
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				if a[i] == b[j] {
					common[i][j] = common[i+1][j+1] + 1
				} else {
					common[i][j] = max(common[i+1][j], common[i][j+1])
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case common != nil && i < len(a) && j < len(b) && a[i] == b[j]:
			lines = append(lines, diffLine{' ', a[i]})
			i++
			j++
		case i < len(a) && (common == nil || j == len(b) || common[i+1][j] >= common[i][j+1]):
			lines = append(lines, diffLine{'-', a[i]})
			i++
		default:
			lines = append(lines, diffLine{'+', b[j]})
			j++
		}
	}
	return append(lines, tail...)
}

// splitLines gives the lines of a text. That the last has no newline is a difference.
func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	if !strings.HasSuffix(s, "\n") {
		s += " (no newline at the end)\n"
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

func withNewline(s string) string {
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return s
}
