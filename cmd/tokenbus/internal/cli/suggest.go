package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// didYouMean is a clause to append to an error about the unknown name given, or
// nothing when no candidate is similar enough.
func didYouMean(given string, candidates []string) string {
	if guess := suggest(given, candidates); guess != "" {
		return fmt.Sprintf(", did you mean %q?", guess)
	}
	return ""
}

// suggest returns the candidate that given was probably meant to be: the
// nearest one within a third of its length (at least one, at least two from
// four letters on), or else the only one that given is the beginning of. Equal
// distances go to the first in alphabetical order.
func suggest(given string, candidates []string) string {
	candidates = slices.Sorted(slices.Values(candidates))
	limit := max(1, len(given)/3)
	if len(given) >= 4 {
		limit = max(2, limit)
	}
	best, distance := "", limit+1
	for _, candidate := range candidates {
		if d := editDistance(strings.ToLower(given), strings.ToLower(candidate)); d < distance {
			best, distance = candidate, d
		}
	}
	if best != "" || len(given) < 3 {
		return best
	}
	for _, candidate := range candidates {
		if strings.HasPrefix(candidate, given) {
			if best != "" {
				return ""
			}
			best = candidate
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	// Rows of the table for the last two and the current prefix of s.
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(t)]
}

// keys returns the keys of m in alphabetical order.
func keys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
