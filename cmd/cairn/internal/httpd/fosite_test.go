package httpd

import (
	"testing"
)

// What fosite does otherwise, at the door where an application would notice, and what no
// other test sees: it ignores max_age=0, and says a second less of a token's life.
func TestMaxAgeOfZeroAsksForASignIn(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	continuationOf(t, b.get(rp.authURL("max_age", "0")), "/login/")
}

func TestAccessTokenLivesAnHour(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	for range 3 {
		token, err := rp.exchange(b.authorize(rp.authURL(), "ada").Get("code"))
		if err != nil {
			t.Fatal(err)
		}
		if got := token.Extra("expires_in"); got != float64(3600) {
			t.Errorf("expires_in %v", got)
		}
	}
}
