package session_test

import (
	"errors"
	"testing"

	"github.com/cairn-id/cairn/account/session"
)

// A class satisfies those before it. What an earlier version has signed, or a later one in words
// that are not known here, is no more than a password.
func TestRequiredClassIsHeld(t *testing.T) {
	for _, acr := range []any{nil, "", "1", "2", "phr", "3"} {
		token, rank := hsToken(with("acr", acr)), map[any]int{"2": 1, "phr": 2}[acr]
		for needed, required := range []string{"1", "2", "phr"} {
			v := verifier()
			v.RequireACR = required
			c, err := v.Verify(t.Context(), token)
			if rank >= needed {
				if err != nil || c.Subject != "u_7Q" || !c.SatisfiesACR(required) {
					t.Errorf("acr %v where %s is required: %+v, %v", acr, required, c, err)
				}
				continue
			}
			if !errors.Is(err, session.ErrInsufficientAuthentication) || errors.Is(err, session.ErrInvalid) || c.Subject != "" {
				t.Errorf("acr %v where %s is required: %+v, %v", acr, required, c, err)
			}
		}
		if c := mustVerify(t, verifier(), token); !c.SatisfiesACR("") || c.SatisfiesACR("mfa") {
			t.Errorf("acr %v satisfies no class, or an unknown one", acr)
		}
	}
}

// Who has no session in force is not told that a second factor would help.
func TestOnlyAGoodSessionIsOfALowerClass(t *testing.T) {
	v := verifier()
	v.RequireACR = session.ACRPhishingResistant
	mustRefuse(t, v, expiredToken())
	mustRefuse(t, v, hsToken(good())+"x")
	v.Status = checker(func(session.StatusRef) (bool, error) { return true, nil })
	mustRefuse(t, v, hsToken(good()))
}

// With and without RequireACR an application takes the visitor for the same person, whatever
// cookies a sibling host has planted.
func TestRequiredClassDoesNotChooseThePerson(t *testing.T) {
	planted := hsToken(changed(with("acr", "phr"), "sub", "u_evil"))
	r := visit("cairn_session=" + planted + "; __Host-cairn_session=" + hsToken(good()))
	v := verifier()
	if c, err := v.VerifyRequest(r); err != nil || c.Subject != "u_7Q" {
		t.Fatalf("%+v, %v", c, err)
	}
	v.RequireACR = session.ACRPhishingResistant
	if c, err := v.VerifyRequest(r); !errors.Is(err, session.ErrInsufficientAuthentication) || c.Subject != "" {
		t.Errorf("%+v, %v", c, err)
	}
}
