package httpd

import "testing"

// fosite says a second less of a token's life, every other time.
func TestAccessTokenLivesAnHour(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	for range 5 {
		token, err := rp.exchange(b.authorize(rp.authURL(), "ada").Get("code"))
		if err != nil {
			t.Fatal(err)
		}
		if got := token.Extra("expires_in"); got != float64(3600) {
			t.Errorf("expires_in %v", got)
		}
	}
}
