package person_test

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/store/accounttest"
)

// With is a copy of claims with one changed.
func with(claims map[string]any, name string, v any) map[string]any {
	c := maps.Clone(claims)
	c[name] = v
	return c
}

// Who knows the claims of a session that was just looked at has not its signature.
func TestRememberedTokenIsTheWholeToken(t *testing.T) {
	t.Run("RS256", func(t *testing.T) { testRemembered(t, withKey) })
	t.Run("HS256", func(t *testing.T) { testRemembered(t) })
}

func testRemembered(t *testing.T, change ...func(*accounttest.Options)) {
	w := accounttest.New(t, change...)
	b := w.Member("ada")
	for range 2 {
		if !b.IsSignedIn() || w.Service.ProvenTokens() != 1 {
			t.Fatalf("%d tokens are remembered", w.Service.ProvenTokens())
		}
	}
	genuine := b.Cookies["cairn_session"]
	signed, signature := genuine[:strings.LastIndex(genuine, ".")+1], genuine[strings.LastIndex(genuine, ".")+1:]
	first := "A"
	if signature[:1] == first {
		first = "B"
	}
	for what, token := range map[string]string{
		"another signature": signed + first + signature[1:], "no signature": signed, "the secret's": signed + strings.Split(forged(t, accounttest.Secret, jose.HS256, claimsOf(t, genuine)), ".")[2],
		"other claims": signed[:len(signed)-2] + "A." + signature,
	} {
		thief := w.Browser()
		thief.Cookies["cairn_session"] = token
		if thief.IsSignedIn() || w.Service.ProvenTokens() != 1 {
			t.Errorf("%s: signed in %t, %d tokens are remembered", what, thief.IsSignedIn(), w.Service.ProvenTokens())
		}
	}
	if !b.IsSignedIn() {
		t.Error("the genuine one is refused afterwards")
	}
}

// The session lives on, so that nothing but the token's own end refuses it.
func TestTokenIsNotRememberedPastItsEnd(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	end := w.Clock.Now().Add(5 * time.Second)
	b.Cookies["cairn_session"] = forged(t, accounttest.Secret, jose.HS256, with(claimsOf(t, b.Cookies["cairn_session"]), "exp", end.Unix()))
	if !b.IsSignedIn() {
		t.Fatal("the token is refused while it is in force")
	}
	w.Clock.Advance(50 * time.Second) // less than a minute, and more than clocks may differ
	if b.IsSignedIn() {
		t.Error("a token was taken for proven after its end")
	}
}

func TestMemoryOfTokensIsBounded(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	claims, other := claimsOf(t, b.Cookies["cairn_session"]), w.Browser()
	for i := range person.MaxProvenTokens + person.MaxProvenTokens/2 {
		other.Cookies["cairn_session"] = forged(t, accounttest.Secret, jose.HS256, with(claims, "jti", fmt.Sprint(i)))
		if other.IsSignedIn() {
			t.Fatal("a forged token is a session")
		}
	}
	if n := w.Service.ProvenTokens(); n < person.MaxProvenTokens/2 || n > person.MaxProvenTokens {
		t.Errorf("%d tokens are remembered", n)
	}
	full := w.Service.ProvenTokens()
	for i := range 100 {
		other.Cookies["cairn_session"] = forged(t, bytes.Repeat([]byte("x"), 32), jose.HS256, with(claims, "jti", fmt.Sprint("wrong ", i)))
		other.IsSignedIn()
	}
	if n := w.Service.ProvenTokens(); n != full || !b.IsSignedIn() {
		t.Errorf("%d tokens are remembered after forged ones, %d before", n, full)
	}
}
