package password_test

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// foreign is a hash with these parameters, which no password has.
func foreign(parameters string, key int) string {
	if strings.HasPrefix(parameters, "$2") {
		return parameters + strings.Repeat(".", 53)
	}
	return parameters + "$" + strings.Repeat("A", 22) + "$" + base64.RawStdEncoding.EncodeToString(make([]byte, key))
}

// A stranger must not learn from the time whose password came from another system.
func TestRefusalIsTheSameWorkForEveryHash(t *testing.T) {
	racetest.Skip(t)
	h, err := password.NewTestHasher()
	must(t, err)
	own, err := h.Hash(t.Context(), anchors)
	must(t, err)
	hashes := []string{
		foreign("$pbkdf2-sha256$3000", 32), foreign("$pbkdf2-sha256$2000", 64), foreign("$pbkdf2-sha256$1000", 32), foreign("$pbkdf2$500", 20),
		foreign("$2b$08$", 0), foreign("$2y$05$", 0), foreign("$argon2id$v=19$m=64,t=1,p=1", 32), foreign("$argon2i$v=19$m=64,t=2,p=1", 32),
		foreign("$scrypt$ln=4,r=8,p=1", 64), "no hash",
	}
	slices.Sort(hashes)
	refusal, err := h.RefusalWork(func(after string) (string, error) {
		for _, hash := range hashes {
			if hash > after {
				return hash, nil
			}
		}
		return "", nil
	})
	must(t, err)
	twice := maps.Clone(refusal) // of a password that has another form
	for kind := range twice {
		if strings.HasPrefix(kind, "$argon2id$") {
			twice[kind] = 2
		}
	}
	for wrong, want := range map[string]password.Work{"seven rusty anchorz": refusal, "seven ru\u0301sty anchors": twice, strings.Repeat("x", 100): refusal, "nul\x00": refusal} {
		for _, hash := range append(hashes, own, "") {
			done := h.CountWork()
			if h.Match(hash, wrong, refusal) || !maps.Equal(done, want) {
				t.Errorf("%q against %.30s: %v, want %v", wrong, hash, done, want)
			}
		}
	}
	if len(refusal) != 7 || refusal["$pbkdf2-sha256"] != 4000 || refusal["$2"] != 1<<8 {
		t.Errorf("%v", refusal)
	}
	done := h.CountWork()
	if !h.Match(own, anchors, refusal) || len(done) != 1 {
		t.Errorf("the right password: %v", done)
	}
	// However many kinds there are, a refusal takes no longer than two of the dearest hashes that are accepted.
	hashes = []string{foreign("$2b$12$", 0), foreign("$pbkdf2-sha256$1500000", 32), foreign("$scrypt$ln=17,r=8,p=1", 64)}
	n := 0
	bounded, err := h.RefusalWork(func(string) (string, error) { n++; return append(hashes, "")[n-1], nil })
	if err != nil || len(bounded) != 3 {
		t.Errorf("%v %v", bounded, err)
	}
}

// What is accepted has a bound of time and one of memory, whatever the other says.
func TestDearHashesAreNotImported(t *testing.T) {
	h, err := password.NewHasher()
	must(t, err)
	for parameters, ok := range map[string]bool{
		"$2b$12$": true, "$2b$13$": false,
		"$pbkdf2-sha256$1500000": true, "$pbkdf2-sha256$1500001": false, "$pbkdf2-sha512$600000": false,
		"$argon2id$v=19$m=102400,t=2,p=8": true, "$argon2id$v=19$m=65536,t=4,p=1": false, // too many passes
		"$argon2id$v=19$m=131072,t=1,p=1": true, "$argon2id$v=19$m=1048576,t=1,p=1": false, "$argon2id$v=19$m=131080,t=1,p=1": false, // too much memory
		"$scrypt$ln=17,r=8,p=1": true, "$scrypt$ln=17,r=8,p=2": false, "$scrypt$ln=999999999,r=999999999,p=1": false,
	} {
		key := 32
		if strings.Contains(parameters, "sha512") {
			key = 64
		}
		if _, err := h.Imported(foreign(parameters, key)); (err == nil) != ok {
			t.Errorf("%s: %v", parameters, err)
		}
	}
	if _, err := h.Imported(foreign("$pbkdf2-sha256$1000000", 64)); err == nil {
		t.Error("a key of two digests takes twice the time")
	}
}
