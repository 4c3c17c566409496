package account_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
)

func TestPasswordRules(t *testing.T) {
	for p, ok := range map[string]bool{
		password: true, "correct horse battery": true, strings.Repeat("ab ", 42) + "xy": true, "пароль из слов": true, "🦊🦊🦊 and the hen": true, "MixedCaseWords": true,
		"tenletters": true, "nineletrs": false, "": false, strings.Repeat("ab ", 43): false, "password12": false, "Sunshine!!2": false, "PASSWORD12": false, "1234567890": false,
		"passwordpassword": false, "qwertyuiop": false, "aaaaaaaaaaaa": false, "my name is ada!": false, "MY NAME IS ADA!": false, "tab\tinside it": false, "nul\x00inside it": false,
		"not utf8 \xff\xff\xff": false, "zero\u200bwidth it": false,
	} {
		err := account.CheckPassword(p, "ada", account.DefaultMinPassword)
		if (err == nil) != ok || (err != nil && !errors.Is(err, account.ErrWeakPassword)) {
			t.Errorf("%q: %v", p, err)
		}
		if err != nil && p != "" && strings.Contains(err.Error(), p) {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
	if account.CheckPassword("every letter is in here", "a", 10) != nil {
		t.Error("a handle of one letter forbids half the dictionary")
	}
	if account.CheckPassword("tenletters", "", 11) == nil || account.CheckPassword("eight ch", "", 8) != nil {
		t.Error("the minimum is not the setting's")
	}
}

func TestHashesTellNothingAndAreNeverTheSame(t *testing.T) {
	h, err := account.NewHasher()
	if err != nil {
		t.Fatal(err)
	}
	one, err := h.Hash(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	two, err := h.Hash(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	if one == two || !strings.HasPrefix(one, "$argon2id$v=19$m=19456,t=2,p=1$") || strings.Contains(one, password) {
		t.Errorf("%s %s", one, two)
	}
}
