package policy

// suggest gives the word that a misspelt one was probably meant to be, "" if none is
// near: at most a third of its letters differ, two in short ones.
func suggest(given string, words []string) string {
	if len(given) > maxText {
		return ""
	}
	best, distance := "", max(2, len(given)/3)+1
	if len(given) < 4 {
		distance = 2
	}
	for _, w := range words {
		if d := editDistance(given, w); d < distance {
			best, distance = w, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours
// that turn a into b. Upper case is not a difference.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if lower(a[i-1]) == lower(b[j-1]) {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && lower(a[i-1]) == lower(b[j-2]) && lower(a[i-2]) == lower(b[j-1]) {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
