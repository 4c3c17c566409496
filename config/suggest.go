package config

import "strings"

// suggestion is the remedy for a name that nobody knows: the nearest one, or all of them.
func suggestion(name string, known []string) string {
	if n := nearest(name, known); n != "" {
		return "did you mean " + n + "?"
	}
	return "the names are " + strings.Join(known, ", ")
}

// nearest returns the known name that takes the fewest changed letters, or "" when none is near. Capitals and the
// choice between - and _ do not count as changes.
func nearest(name string, known []string) string {
	best, bestDistance := "", max(2, len(name)/5)+1
	for _, k := range known {
		if d := distance(plain(name), plain(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

func plain(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }

// distance is the Levenshtein distance in bytes, with one row of the table kept.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
