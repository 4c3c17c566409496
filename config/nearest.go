package config

import "strings"

// NearestName returns the known name that takes the fewest changed letters, the first of several, and whether it is near
// enough to be what was meant. Capitals and the choice between - and _ do not count as changes.
func NearestName(name string, known []string) (best string, near bool) {
	least := -1
	for _, k := range known {
		if d := distance(hyphenated(name), hyphenated(k)); least < 0 || d < least {
			best, least = k, d
		}
	}
	return best, least >= 0 && least <= max(2, len(name)/5)
}

// suggestion is the remedy for a name that is not known: the nearest one, or all of them.
func suggestion(name string, known []string) string {
	if best, near := NearestName(name, known); near {
		return "did you mean " + best + "?"
	}
	return "the names are " + strings.Join(known, ", ")
}

func hyphenated(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }

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
