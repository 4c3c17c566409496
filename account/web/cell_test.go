package web

import (
	"math/rand/v2"
	"testing"
)

// What a spreadsheet would run is quoted, and comes back as it was.
func TestGuardedCellsComeBackAsTheyWere(t *testing.T) {
	parts := []string{"'", "=", "+", "-", "@", "|", "%", "＝", ";", "\t", "\n", "\r", " ", "\u00a0", "\v", "a", "é"}
	for range 200_000 {
		s := ""
		for range rand.IntN(7) {
			s += parts[rand.IntN(len(parts))]
		}
		safe := GuardCell(s)
		if UnguardCell(safe) != s {
			t.Fatalf("%q became %q and then %q", s, safe, UnguardCell(safe))
		}
		for i := range len(safe) {
			if (i == 0 || endsField(safe[i-1])) && safe[i] != '\'' && startsFormula(safe[i:]) {
				t.Fatalf("%q begins a formula at %d", safe, i)
			}
		}
	}
}
