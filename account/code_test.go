package account_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
)

func TestCodesDoNotRepeat(t *testing.T) {
	seen, used := map[string]bool{}, map[rune]bool{}
	for range 20000 {
		c := account.NewCode(account.InviteCodeLength)
		if seen[c] || account.CanonicalCode(c, account.InviteCodeLength) != c {
			t.Fatalf("code %q", c)
		}
		seen[c] = true
		for _, r := range c {
			used[r] = true
		}
	}
	same(t, "characters are used: fewer bits than promised", len(used), 32)
	if bits := 5 * account.InviteCodeLength; bits < 64 {
		t.Errorf("an invite has %d bits", bits)
	}
	if bits := 5 * account.ResetCodeLength; bits < 128 {
		t.Errorf("a reset code has %d bits", bits)
	}
}

func TestCodesSurviveCopyingByHand(t *testing.T) {
	const code = "0123456789ABCDEF"
	for _, typed := range []string{code, "0123-4567-89AB-CDEF", "0123 4567 89ab cdef", " o123-4567-89ABCDEF\n", "OI23456789ABCDEF", "0l23456789abcdef", "0123–4567—89AB‑CDEF", "0123\u00a04567\u00a089AB\u202fCDEF"} {
		same(t, typed, account.CanonicalCode(typed, 16), code)
	}
	for _, typed := range []string{"", "-", "0123456789ABCDE", "0123456789ABCDEF0", "0123456789ABCDEU", "0123456789ABCDE%", "0123456789ABCDEＦ", "0123\x00456789ABCDEF", strings.Repeat(" ", 100) + code} {
		same(t, typed, account.CanonicalCode(typed, 16), "")
	}
	same(t, "Grouped", account.Grouped(code), "0123-4567-89AB-CDEF")
}

var codeSeeds = []string{
	"", "-", "0123-4567-89AB-CDEF", "oil0-oil0-oil0-oil0", "ıııııııııııııııı", "ſſſſſſſſſſſſſſſſ", "\xff\xfe0123456789ABCDEF", "0123456789ABCDEF\x00",
	"٠١٢٣٤٥٦٧٨٩٠١٢٣٤٥", "0123456789ABCDEF' OR 1=1", strings.Repeat("-", 48) + "0123456789ABCDEF", "\u202e0123456789ABCDEF",
}

func FuzzCanonicalCode(f *testing.F) {
	for _, s := range codeSeeds {
		f.Add(s)
	}
	form := regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{16}$`)
	f.Fuzz(func(t *testing.T, typed string) {
		got := account.CanonicalCode(typed, 16)
		if got == "" {
			return
		}
		if !form.MatchString(got) || account.CanonicalCode(got, 16) != got ||
			account.CanonicalCode(account.Grouped(got), 16) != got {
			t.Errorf("%q: %q", typed, got)
		}
	})
}

func TestSeedsAreAllThere(t *testing.T) {
	if len(codeSeeds) != 12 || len(handleSeeds) != 20 {
		t.Errorf("%d and %d seeds", len(codeSeeds), len(handleSeeds))
	}
}
