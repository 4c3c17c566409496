//go:build unix

package httpd

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// afterTTL is a time at which a verifier may no longer use the copy of the
// status list that it has now.
func (s *service) afterTTL(token string) time.Time {
	s.t.Helper()
	bit, answer := statusBit(s.t, s.browser(), token)
	if bit < 0 {
		s.t.Fatalf("status list: %d %s", answer.StatusCode, answer.Text)
	}
	ttl := time.Duration(jwtPayload(s.t, answer.Text)["ttl"].(float64)) * time.Second
	if ttl < time.Second || ttl > 10*time.Minute {
		s.t.Fatalf("ttl of %s", ttl)
	}
	return time.Now().Add(ttl + time.Second)
}

// wantPerson checks that a cookie is accepted as the right person's.
func (v *verifier) wantPerson(now time.Time, cookie, sub, handle string, groups ...any) {
	v.t.Helper()
	c := v.want(handle, "accepted", now, cookie).Claims
	got, _ := c["groups"].([]any)
	if c["sub"] != sub || c["preferred_username"] != handle || !slices.Equal(got, groups) {
		v.t.Errorf("%s: the cookie of %s says %v", v.name, handle, c)
	}
}

// What takes a session back reaches applications in other languages within the
// list's ttl, and no other session with it.
func TestRPVerifyNeverAcceptsAnEndedSessionLongerThanTheTTL(t *testing.T) {
	for scheme, hs := range map[string]bool{"HS256": true, "RS256": false} {
		t.Run(scheme, func(t *testing.T) {
			eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
				s := startService(t, serviceOptions{HS256: hs})
				s.addUser("keeper", "admin")
				keeper := s.signedIn("keeper")
				settings := verifierSettings{Issuer: s.URL, RS256: !hs}
				if hs {
					settings.Secret = new(string(s.secret))
				}
				v := p.verifier(t, scheme, settings)
				bystander := s.addUser("bob", "activity", "archive")
				bobs := s.signedIn("bob").cookie("cairn_session")
				for _, c := range []struct {
					handle, how string
					end         func(b *browser) response
				}{
					{"ada", "logout", func(b *browser) response { return b.api("POST", "/api/auth/logout", nil) }},
					{"grace", "end the others", func(*browser) response { return s.signedIn("grace").api("POST", "/api/me/sessions/end-others", nil) }},
					{"linus", "suspension", func(*browser) response { return keeper.api("POST", "/api/admin/users/linus/suspend", nil) }},
				} {
					u := s.addUser(c.handle, "activity")
					b := s.signedIn(c.handle)
					cookie := b.cookie("cairn_session")
					v.wantPerson(time.Now(), cookie, u.Sub, c.handle, "activity")
					if got := c.end(b); got.StatusCode >= http.StatusBadRequest {
						t.Fatalf("%s: %d %s", c.how, got.StatusCode, got.Text)
					}
					v.want(c.how, "refused", s.afterTTL(cookie), cookie)
				}
				v.wantPerson(s.afterTTL(bobs), bobs, bystander.Sub, "bob", "activity", "archive")
			})
		})
	}
}

// During the change from the secret to a key an application has both, and
// afterwards only what it says it has.
func TestRPVerifyNeverRefusesOldCookiesWhileTheSchemeChanges(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		first := startService(t, serviceOptions{HS256: true})
		u := first.addUser("ada", "activity")
		gone := first.signedIn("ada")
		old, ended := first.signedIn("ada").cookie("cairn_session"), gone.cookie("cairn_session")
		both := p.verifier(t, "both", verifierSettings{Issuer: first.URL, Secret: new(string(first.secret)), RS256: true})
		both.wantPerson(time.Now(), old, u.Sub, "ada", "activity")
		both.wantPerson(time.Now(), ended, u.Sub, "ada", "activity")

		first.server.Close()
		s := restartAt(t, first, first.URL)
		gone.client.CloseIdleConnections()
		if got := gone.api("POST", "/api/auth/logout", nil); got.StatusCode != http.StatusOK {
			t.Fatalf("logout: %d %s", got.StatusCode, got.Text)
		}
		fresh := s.signedIn("ada").cookie("cairn_session")
		if before, after := jwtHeader(t, old)["alg"], jwtHeader(t, fresh)["alg"]; before != "HS256" || after != "RS256" {
			t.Fatalf("the service changed from %v to %v", before, after)
		}
		later := s.afterTTL(old)
		both.wantPerson(later, old, u.Sub, "ada", "activity") // its list is signed with the key now
		both.wantPerson(later, fresh, u.Sub, "ada", "activity")
		both.want("ended after the change", "refused", later, ended)

		keys := p.verifier(t, "keys only", verifierSettings{Issuer: s.URL, RS256: true})
		keys.wantPerson(later, fresh, u.Sub, "ada", "activity")
		keys.want("a cookie of the secret", "refused", later, old)
		secret := p.verifier(t, "secret only", verifierSettings{Issuer: s.URL, Secret: new(string(s.secret))})
		secret.want("a cookie of the key", "refused", later, fresh)
		// It cannot read a list of the key: who does not follow the change has to notice.
		secret.want("a cookie of the secret", "unavailable", later, old)
	})
}

// Other tokens that the service signs with the same key are no cookies.
func TestRPVerifyNeverTakesAnotherTokenOfTheServiceForACookie(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		s := startService(t, serviceOptions{})
		s.addUser("ada", "activity")
		v := p.verifier(t, "RS256", verifierSettings{Issuer: s.URL, RS256: true})
		b, tokens := s.signedInTokens(s.relyingParty("app", s.addClient("app", nil)), "ada")
		cookie := b.cookie("cairn_session")
		_, list := statusBit(t, b, cookie)
		v.want("the cookie itself", "accepted", time.Now(), cookie)
		v.want("an ID token", "refused", time.Now(), tokens.Extra("id_token").(string))
		v.want("an access token", "refused", time.Now(), tokens.AccessToken)
		v.want("a status list", "refused", time.Now(), list.Text)
	})
}
