package config

import "strings"

// NearestName returns the known name with the fewest changed letters, the first if there are
// several, and reports whether it is close enough to be the intended one. Case and the choice
// between - and _ do not count as changes.
func NearestName(name string, known []string) (best string, near bool) {
	least := -1
	for _, k := range known {
		if d := distance(hyphenated(name), hyphenated(k)); least < 0 || d < least {
			best, least = k, d
		}
	}
	return best, least >= 0 && least <= max(2, len(name)/5)
}

// suggestion returns the remedy for an unknown name: the nearest one, or all of them.
func suggestion(name string, known []string) string {
	if best, near := NearestName(name, known); near {
		return "did you mean " + best + "?"
	}
	return "the names are " + strings.Join(known, ", ")
}

func hyphenated(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }

// distance returns the Levenshtein distance in bytes. It keeps one row of the table.
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
