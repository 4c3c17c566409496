package httpd

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// atOnce runs the deeds together and waits for all.
func atOnce(deeds ...func()) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for _, deed := range deeds {
		wg.Go(func() { <-start; deed() })
	}
	close(start)
	wg.Wait()
}

// What ends a person's access wins against every exchange, refresh and
// authorization that runs at the same time: afterwards nothing is alive, and
// nobody was told of an error of ours.
func TestDeedThatEndsAccessNeverLosesARace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st})
		secret := s.addClient("app", func(c *provider.Client) { c.Trusted = true })
		rp := s.relyingParty("app", secret)
		deeds := map[string]func(b *browser, sub, handle string) error{
			"suspend": func(_ *browser, sub, handle string) error {
				return s.store.Suspend(t.Context(), sub, "", time.Now(), operator("x", handle, ""))
			},
			"delete": func(_ *browser, sub, handle string) error {
				return s.store.DeleteUser(t.Context(), sub, time.Now(), operator("x", handle, ""))
			},
			"password": func(_ *browser, _, handle string) error {
				other := s.browser()
				other.signIn(handle)
				return statusOf(other.api("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": "another long password 7"}), http.StatusOK)
			},
		}
		for name, deed := range deeds {
			for round := range 4 {
				handle := name + string(rune('a'+round))
				u := s.addUser(handle)
				b, token := s.signedInTokens(rp, handle)
				code := b.authorize(rp.authURL(), handle).Get("code")
				var exchanged, refreshed, fresh response
				var failed error
				atOnce(
					func() { exchanged = s.tokenRequest("app", secret, rp.codeForm(code)) },
					func() { refreshed = s.refreshRequest("app", secret, token.RefreshToken) },
					func() { fresh = b.get(rp.authURL("prompt", "none")) },
					func() { failed = deed(b, u.Sub, handle) },
				)
				if failed != nil {
					t.Fatalf("%s: %v", name, failed)
				}
				tokens := []string{token.AccessToken}
				for what, got := range map[string]response{"exchange": exchanged, "refresh": refreshed} {
					if got.StatusCode != http.StatusOK {
						wantOAuthError(t, name+": "+what, got, http.StatusBadRequest, "invalid_grant")
						continue
					}
					tokens = append(tokens, got.JSON(t)["access_token"].(string))
					wantOAuthError(t, name+": refresh with the fruit of "+what, s.refreshRequest("app", secret, got.JSON(t)["refresh_token"].(string)), http.StatusBadRequest, "invalid_grant")
				}
				_, answer := answerOf(t, fresh)
				if answer.Get("error") == "" {
					wantOAuthError(t, name+": fresh code", s.tokenRequest("app", secret, rp.codeForm(answer.Get("code"))), http.StatusBadRequest, "invalid_grant")
				} else if answer.Get("error") != "login_required" {
					t.Errorf("%s: authorize: %v", name, answer)
				}
				for _, access := range tokens {
					if got := s.userinfoStatus(access); got != http.StatusUnauthorized {
						t.Errorf("%s: an access token is alive: %d", name, got)
					}
				}
			}
		}
	})
}

// Attack 50 and the replay of a code at the moment of a refresh: one family at
// most, and after the reuse was seen none.
func TestReplayNeverLosesARaceAgainstARefresh(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st})
		s.addUser("ada")
		secret := s.addClient("app", func(c *provider.Client) { c.Trusted = true })
		rp := s.relyingParty("app", secret)
		b := s.browser()
		b.signIn("ada")
		for range 5 {
			code := b.authorize(rp.authURL(), "ada").Get("code")
			first := s.tokenRequest("app", secret, rp.codeForm(code)).JSON(t)
			var replay, refresh response
			atOnce(
				func() { replay = s.tokenRequest("app", secret, rp.codeForm(code)) },
				func() { refresh = s.refreshRequest("app", secret, first["refresh_token"].(string)) },
			)
			wantOAuthError(t, "replay", replay, http.StatusBadRequest, "invalid_grant")
			alive := []string{first["access_token"].(string)}
			if refresh.StatusCode == http.StatusOK {
				alive = append(alive, refresh.JSON(t)["access_token"].(string))
				wantOAuthError(t, "successor", s.refreshRequest("app", secret, refresh.JSON(t)["refresh_token"].(string)), http.StatusBadRequest, "invalid_grant")
			} else {
				wantOAuthError(t, "refresh", refresh, http.StatusBadRequest, "invalid_grant")
			}
			for _, access := range alive {
				if got := s.userinfoStatus(access); got != http.StatusUnauthorized {
					t.Errorf("an access token survived the replay: %d", got)
				}
			}
		}
	})
}

// RFC 6749 section 4.1.2 and RFC 9700 section 4.14.2: of two uses at once the
// loser is a second use. The winner's tokens are dead wherever they are shown.
func TestTwoUsesAtOnceLeaveNoTokenAlive(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st})
		s.addUser("ada")
		secret := s.addClient("app", func(c *provider.Client) { c.Trusted = true })
		rp := s.relyingParty("app", secret)
		b := s.browser()
		b.signIn("ada")
		for round := range 200 {
			form := rp.codeForm(b.authorize(rp.authURL(), "ada").Get("code"))
			if round%2 == 1 {
				token := s.tokenRequest("app", secret, form).JSON(t)["refresh_token"].(string)
				form = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
			}
			answers := make([]response, 2)
			atOnce(
				func() { answers[0] = s.tokenRequest("app", secret, form) },
				func() { answers[1] = s.tokenRequest("app", secret, form) },
			)
			slices.SortFunc(answers, func(a, b response) int { return a.StatusCode - b.StatusCode })
			if answers[0].StatusCode != http.StatusOK {
				t.Fatalf("round %d: nobody won: %s", round, answers[0].Text)
			}
			wantOAuthError(t, "loser", answers[1], http.StatusBadRequest, "invalid_grant")
			won := answers[0].JSON(t)
			access, refresh := won["access_token"].(string), won["refresh_token"].(string)
			if got := s.userinfoStatus(access); got != http.StatusUnauthorized {
				t.Fatalf("round %d: userinfo: %d", round, got)
			}
			s.wantInactive("access token", s.introspect("app", secret, access))
			s.wantInactive("refresh token", s.introspect("app", secret, refresh))
			wantOAuthError(t, "refresh", s.refreshRequest("app", secret, refresh), http.StatusBadRequest, "invalid_grant")
		}
		if log := s.log.String(); strings.Count(log, "code_replay") != 100 || strings.Count(log, "refresh_reuse") != 100 {
			t.Errorf("%d second uses of a code and %d of a refresh token were noted, want 100 each", strings.Count(log, "code_replay"), strings.Count(log, "refresh_reuse"))
		}
	})
}

// Signing out while a code is made: the code is dead, and nobody is told of an
// error of ours.
func TestSignOutNeverLosesARaceAgainstACode(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", func(c *provider.Client) { c.Trusted = true })
	rp := s.relyingParty("app", secret, "openid")
	for range 10 {
		b := s.browser()
		b.signIn("ada")
		answers := make([]response, 4)
		deeds := []func(){func() { b.api("POST", "/api/auth/logout", nil) }}
		for i := range answers {
			deeds = append(deeds, func() { answers[i] = b.get(rp.authURL("prompt", "none")) })
		}
		atOnce(deeds...)
		for _, got := range answers {
			_, answer := answerOf(t, got)
			if code := answer.Get("code"); code != "" {
				wantOAuthError(t, "code", s.tokenRequest("app", secret, rp.codeForm(code)), http.StatusBadRequest, "invalid_grant")
			} else if answer.Get("error") != "login_required" {
				t.Errorf("authorize: %v", answer)
			}
		}
	}
}

// Two forms sent at once (a double click): both decisions are taken, neither is
// an error.
func TestDoubleClickOnConsentIsNeverAnError(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	b := s.browser()
	b.signIn("ada")
	f := pageForm(t, consentPageOf(b, rp.authURL()).Text)
	f.values.Set("decision", "allow")
	answers := make([]response, 8)
	deeds := make([]func(), len(answers))
	for i := range answers {
		deeds[i] = func() { answers[i] = b.follow(b.postForm(f.action, f.values), "ada") }
	}
	atOnce(deeds...)
	for _, got := range answers {
		_, answer := answerOf(t, got)
		if got := s.tokenRequest("app", secret, rp.codeForm(answer.Get("code"))); got.StatusCode != http.StatusOK {
			t.Errorf("%v: %d", answer, got.StatusCode)
		}
	}
}
