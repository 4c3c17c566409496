package httpd

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// The whole way with somebody else's relying party: sign-in, consent, code,
// tokens, userinfo, refresh.
func TestCodeFlow(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada", account.FlagActivity)
	rp := s.app("app", nil)
	b := s.browser()
	answer := b.authorize(rp.authURL(), "ada")
	if answer.Get("state") != rp.state || answer.Get("iss") != s.URL {
		t.Fatalf("answer = %v", answer)
	}
	token, err := rp.exchange(answer.Get("code"))
	noError(t, err)
	id := rp.idToken(token)
	if id.Subject != u.Sub || id.Nonce != rp.nonce || len(id.Audience) != 1 || id.Audience[0] != "app" {
		t.Errorf("ID token of %q for %v with nonce %q", id.Subject, id.Audience, id.Nonce)
	}
	if err := id.VerifyAccessToken(token.AccessToken); err != nil {
		t.Errorf("at_hash: %v", err)
	}
	info, err := rp.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
	noError(t, err)
	var claims map[string]any
	noError(t, info.Claims(&claims))
	if info.Subject != u.Sub || claims["preferred_username"] != "ada" || claims["name"] != "Ada" {
		t.Errorf("userinfo = %v", claims)
	}
	refreshed, err := rp.config.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	noError(t, err)
	if refreshed.RefreshToken == "" || refreshed.RefreshToken == token.RefreshToken || refreshed.AccessToken == token.AccessToken {
		t.Error("the refresh did not rotate the tokens")
	}
	again := rp.idToken(refreshed)
	if again.Subject != u.Sub || again.Nonce != "" {
		t.Errorf("refreshed ID token of %q with nonce %q", again.Subject, again.Nonce)
	}
	// Consent is remembered and the session is there: no page in between.
	got := b.get(rp.authURL("prompt", "none"))
	has(t, fmt.Sprintf("prompt=none after consent: %d", got.StatusCode), got.Header.Get("Location"), "code=")
}

var challengeOf = oauth2.S256ChallengeFromVerifier

// Only the verifier itself counts, in the length and characters of RFC 7636, and a wrong
// one opens nothing for the next: fosite deletes the challenge before it checks the
// verifier, and asks for none where PKCE is not required.
func TestOnlyTheVerifierRedeemsACode(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	b := s.signedIn("ada")
	for _, rp := range []*relyingParty{s.app("app", nil), s.app("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })} {
		id := rp.config.ClientID
		challenge := challengeOf(rp.verifier)
		code := b.authorize(rp.authURL(), "ada").Get("code")
		for name, verifier := range map[string]string{
			"challenge as verifier": challenge, "first half": rp.verifier[:len(rp.verifier)-1], "longer": rp.verifier + "A", "upper case": strings.ToUpper(rp.verifier), "blank": "", "blanks": strings.Repeat(" ", 43),
			"line end": rp.verifier + "\n", "NUL": rp.verifier + "\x00", "another": strings.Repeat("A", 43), "hash of the challenge": challengeOf(challenge), "42 characters": strings.Repeat("x", 42), "129 characters": strings.Repeat("x", 129),
		} {
			form := rp.codeForm(code)
			form.Set("code_verifier", verifier)
			wantInvalidGrant(t, id+", "+name, rp.token(form))
			form.Del("code_verifier")
			wantInvalidGrant(t, id+", "+name+", then none", rp.token(form))
			form.Set("code_challenge", challengeOf(verifier))
			form.Set("code_challenge_method", "plain")
			form.Set("code_verifier", verifier)
			wantInvalidGrant(t, id+", "+name+", with a challenge of its own", rp.token(form))
		}
		wantStatus(t, id+", the verifier itself", rp.redeem(code), http.StatusOK)
		for verifier, want := range map[string]int{
			strings.Repeat("v", 43): 200, strings.Repeat("v", 128): 200, strings.Repeat("-._~", 11): 200, strings.Repeat("v", 42): 400, strings.Repeat("v", 129): 400, strings.Repeat("v", 42) + "+": 400,
			strings.Repeat("v", 42) + "=": 400, strings.Repeat("v", 42) + "é": 400, strings.Repeat("v", 42) + "%": 400,
		} {
			rp.verifier = verifier
			wantStatus(t, id+", verifier "+verifier, rp.redeem(b.authorize(rp.authURL("code_challenge", challengeOf(verifier)), "ada").Get("code")), want)
		}
	}
}

// Attacks 36 and 37 for every kind of client: who must use PKCE does, and a
// challenge that is there is a good one.
func TestRequiredChallenge(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	strict := s.addClient("strict", func(c *provider.Client) { c.RequirePKCE = true })
	open := s.addClient("open", nil)
	b := s.signedIn("ada")
	good := challengeOf(strings.Repeat("v", 43))
	for _, c := range []struct {
		id, secret string
		free       bool // may do without
	}{{"phone", "", false}, {"strict", strict, false}, {"open", open, true}} {
		rp := s.relyingParty(c.id, c.secret)
		without := b.authorize(rp.authURL("code_challenge", "", "code_challenge_method", ""), "ada")
		if (without.Get("code") != "") != c.free || !c.free && without.Get("error") != "invalid_request" {
			t.Errorf("%s without a challenge: %v", c.id, without)
		}
		if c.free {
			form := rp.codeForm(without.Get("code"))
			for _, verifier := range []string{strings.Repeat("v", 43), "x"} {
				form.Set("code_verifier", verifier)
				wantInvalidGrant(t, "verifier without a challenge", s.tokenRequest(c.id, c.secret, form))
			}
		}
		for name, pair := range map[string][2]string{
			"plain": {good, "plain"}, "no method": {good, ""}, "lower case": {good, "s256"}, "two methods": {good, "S256 plain"}, "none": {good, "none"}, "method alone": {"", "S256"}, "42 characters": {good[:42], "S256"}, "44 characters": {good + "A", "S256"}, "padding": {good[:42] + "=", "S256"}, "blank": {" ", "S256"},
			"standard alphabet": {"+" + good[1:], "S256"}, "line end": {good + "\n", "S256"}, "128 characters": {strings.Repeat("a", 128), "S256"},
		} {
			if got := b.authorize(rp.authURL("code_challenge", pair[0], "code_challenge_method", pair[1]),
				"ada"); got.Get("error") != "invalid_request" || got.Has("code") {
				t.Errorf("%s, %s: %v", c.id, name, got)
			}
		}
	}
}

func TestRedirectURIOfTheExchange(t *testing.T) {
	s, rp := startApp(t, func(c *provider.Client) { c.RedirectURIs = append(c.RedirectURIs, "https://app.example.org/other") })
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	form := rp.codeForm(code)
	for _, uri := range []string{"https://app.example.org/other", "", callbackOf("app") + "/"} {
		form.Set("redirect_uri", uri)
		wantInvalidGrant(t, "redirect_uri "+uri, rp.token(form))
	}
	form.Del("redirect_uri")
	wantInvalidGrant(t, "no redirect_uri", rp.token(form))
}

// Pitfall 9: a client that authenticates as itself presents another's code or
// refresh token; the owner keeps its grant.
func TestForeignClientNeitherEndsNorTakesAGrant(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	mine, evil := s.addClient("mine", nil), s.addClient("evil", nil)
	s.addClient("public", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	rp := s.relyingParty("mine", mine)
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	wantInvalidGrant(t, "code at another client", s.tokenRequest("evil", evil, rp.codeForm(code)))
	wantInvalidGrant(t, "code at a public client", s.tokenRequest("public", "", rp.codeForm(code)))
	tokens := s.tokenRequest("mine", mine, rp.codeForm(code)).JSON(t)
	refresh := func(id, secret, token string) response {
		return s.tokenRequest(id, secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
	}
	second := refresh("mine", mine, tokens["refresh_token"].(string)).JSON(t)
	wantInvalidGrant(t, "used code at another client", s.tokenRequest("evil", evil, rp.codeForm(code)))
	wantInvalidGrant(t, "rotated token at another client", refresh("evil", evil, tokens["refresh_token"].(string)))
	wantInvalidGrant(t, "live token at another client", refresh("evil", evil, second["refresh_token"].(string)))
	s.wantUserinfo("the owner's access token", second["access_token"].(string), http.StatusOK)
	wantStatus(t, "the owner's refresh", refresh("mine", mine, second["refresh_token"].(string)), http.StatusOK)
}

// spellings are other texts for the bytes of a code or token, and texts that
// share a half with it. None of them is it.
func spellings(token string) map[string]string {
	key, sig, _ := strings.Cut(token, ".")
	alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	// 32 bytes are 43 characters: the last one has two bits too many.
	last := strings.IndexByte(alphabet, key[len(key)-1])
	other := key[:len(key)-1] + string(alphabet[last^1])
	return map[string]string{
		"other trailing bits": other + "." + sig, "characters outside of base64": "!" + key[1:] + "." + sig, "a blank in it": key[:5] + " " + key[5:] + "." + sig,
		"line ends in it": key[:5] + "\r\n" + key[5:] + "." + sig, "line end at the end": token + "\n", "padding": key + "=." + sig, "standard alphabet": strings.NewReplacer("-", "+", "_", "/").Replace(key) + "+." + sig,
		"first half of another": strings.Repeat("A", len(key)) + "." + sig, "no first half": "." + sig, "no second half": key + ".", "first half alone": key, "second half alone": sig, "halves changed over": sig + "." + key,
		"three parts": token + "." + sig, "prefix": "ory_at_" + token, "upper case": strings.ToUpper(token), "first character cut": token[1:], "last character cut": token[:len(token)-1],
		"last character changed": token[:len(token)-1] + string(alphabet[strings.IndexByte(alphabet, token[len(token)-1])^1]), "NUL": token + "\x00", "quoted": `"` + token + `"`, "blank": " ", "wildcard": "%." + sig, "not UTF-8": "\xff\xfe." + sig,
	}
}

// Attacks 40, 51 and 56.
func TestOtherSpellingOfACodeOrToken(t *testing.T) {
	s, rp := startApp(t, nil)
	b, token := s.signedInTokens(rp, "ada")
	code := b.authorize(rp.authURL(), "ada").Get("code")
	for name, value := range spellings(token.AccessToken) {
		if !strings.ContainsAny(value, "\r\n\x00") {
			got := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+value)
			if got.StatusCode != http.StatusUnauthorized || !strings.Contains(got.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("access token in the header, %s: %d", name, got.StatusCode)
			}
		}
		got := s.browser().postForm("/oauth2/userinfo", url.Values{"access_token": {value}})
		same(t, fmt.Sprintf("access token in the body, %s", name), got.StatusCode, http.StatusUnauthorized)
	}
	for name, value := range spellings(code) {
		wantInvalidGrant(t, "code, "+name, rp.redeem(value))
	}
	for name, value := range spellings(token.RefreshToken) {
		wantInvalidGrant(t, "refresh token, "+name, rp.refresh(value))
	}
	for name, value := range map[string]string{"access token": token.AccessToken, "code": code, "cookie": b.cookie("cairn_session"), "ID token": token.Extra("id_token").(string)} {
		wantInvalidGrant(t, name+" as refresh token", rp.refresh(value))
	}
	wantInvalidGrant(t, "refresh token as code", rp.redeem(token.RefreshToken))
	wantStatus(t, "the code itself", rp.redeem(code), http.StatusOK)
	// Another spelling of a rotated token is no reuse: it must not end the family.
	second := rp.refresh(token.RefreshToken).JSON(t)
	for name, value := range spellings(token.RefreshToken) {
		wantInvalidGrant(t, "rotated token, "+name, rp.refresh(value))
	}
	wantStatus(t, "the successor", rp.refresh(second["refresh_token"].(string)), http.StatusOK)
	lacks(t, "the log calls a stranger's text an error of ours", s.log.String(), `"level":"ERROR"`)
}

// Attack 45: a code lives a minute, an access token an hour, a refresh token
// thirty days; after that they are nothing.
func TestLifetimesOfCodesAndTokens(t *testing.T) {
	s, db, rp := startDatabaseApp(t, nil)
	b, token := s.signedInTokens(rp, "ada")
	code := b.authorize(rp.authURL(), "ada").Get("code")
	now := time.Now().Unix()
	same(t, "codes live longer than a minute",
		db.count("SELECT count(*) FROM grants WHERE code_expires_at > ? OR code_expires_at < ?", now+60, now+50), 0)
	if n := db.count("SELECT count(*) FROM tokens WHERE kind = 'a' AND (expires_at > ? OR expires_at < ?)", now+3601, now+3590); n != 0 {
		t.Errorf("%d access tokens live longer than an hour", n)
	}
	if n := db.count("SELECT count(*) FROM tokens WHERE kind = 'r' AND (expires_at > ? OR expires_at < ?)", now+30*86400+1, now+30*86400-10); n != 0 {
		t.Errorf("%d refresh tokens live longer than 30 days", n)
	}
	db.exec("UPDATE grants SET code_expires_at = code_expires_at - 61, created_at = created_at - 61")
	wantInvalidGrant(t, "code after a minute", rp.redeem(code))
	db.exec("UPDATE tokens SET expires_at = expires_at - 3601 WHERE kind = 'a'")
	s.wantUserinfo("access token after an hour", token.AccessToken, http.StatusUnauthorized)
	db.exec("UPDATE tokens SET expires_at = expires_at - 30*86400 - 1 WHERE kind = 'r'")
	wantInvalidGrant(t, "refresh token after 30 days", rp.refresh(token.RefreshToken))
	same(t, "tokens came of expired ones", db.count("SELECT count(*) FROM tokens WHERE issued_at > ?", now+30), 0)
}

// What ends a person's access wins against every exchange, refresh and
// authorization that runs at the same time: afterwards nothing is alive, and
// nobody was told of an error of ours (security.md 46 and 47).
func TestNothingOutlivesTheEndOfAccess(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st})
		rp := s.app("app", nil)
		root := s.joined("root1", account.FlagAdmin)
		const fresh = "another long password 7"
		change := map[string]string{"current_password": password, "new_password": fresh}
		for name, c := range map[string]struct {
			end  func(b *browser, handle string) response
			want string // of authorize without a page, afterwards
		}{
			"suspended": {func(_ *browser, handle string) response {
				return root.api("POST", "/api/admin/users/"+handle+"/suspend", nil)
			}, "login_required"},
			"suspended-and-let-in": {func(b *browser, handle string) response {
				root.api("POST", "/api/admin/users/"+handle+"/suspend", nil)
				root.api("POST", "/api/admin/users/"+handle+"/unsuspend", nil)
				return b.login(handle, password)
			}, "consent_required"},
			"factors-reset": {func(b *browser, handle string) response {
				root.api("POST", "/api/admin/users/"+handle+"/reset-factors", nil)
				return b.login(handle, password)
			}, "consent_required"},
			"deleted": {func(_ *browser, handle string) response { return root.api("DELETE", "/api/admin/users/"+handle, nil) }, "login_required"},
			"deleted-by-herself": {func(b *browser, _ string) response {
				return b.api("DELETE", "/api/me", map[string]string{"password": password})
			}, "login_required"},
			"application-removed": {func(b *browser, _ string) response { return b.api("DELETE", "/api/me/apps/app", nil) }, "consent_required"},
			"password-changed":    {func(b *browser, _ string) response { return b.api("PUT", "/api/me/password", change) }, "consent_required"},
			"password-changed-far": {func(_ *browser, handle string) response {
				return s.signedIn(handle).api("PUT", "/api/me/password", change)
			}, "login_required"},
			"password-reset": {func(_ *browser, handle string) response {
				return s.visitor().reset(handle, root.resetCode(handle), fresh)
			}, "login_required"},
		} {
			for round := range 2 {
				if round == 1 && name == "application-removed" {
					continue // a request that has read the consent goes on
				}
				handle := name + string(rune('a'+round))
				s.addUser(handle)
				b, token := s.signedInTokens(rp, handle)
				code := b.authorize(rp.authURL(), handle).Get("code")
				var exchanged, refreshed, authorized, ended response
				steps := []func(){
					func() { exchanged = rp.redeem(code) }, func() { refreshed = rp.refresh(token.RefreshToken) }, func() { authorized = b.get(rp.authURL("prompt", "none")) },
				}
				if round == 0 { // one after the other
					ended = c.end(b, handle)
					atOnce(steps...)
					wantInvalidGrant(t, name+": code", exchanged)
					wantInvalidGrant(t, name+": refresh", refreshed)
				} else {
					atOnce(append(steps, func() { ended = c.end(b, handle) })...)
				}
				if ended.StatusCode/100 != 2 {
					t.Fatalf("%s: %d %s", name, ended.StatusCode, ended.Text)
				}
				tokens := []string{token.AccessToken}
				for what, got := range map[string]response{"exchange": exchanged, "refresh": refreshed} {
					if got.StatusCode != http.StatusOK {
						wantInvalidGrant(t, name+": "+what, got)
						continue
					}
					tokens = append(tokens, got.JSON(t)["access_token"].(string))
					wantInvalidGrant(t, name+": refresh with the fruit of "+what, rp.refresh(got.JSON(t)["refresh_token"].(string)))
				}
				answer := answered(t, authorized)
				if answer.Has("code") && c.want != "code" {
					wantInvalidGrant(t, name+": fresh code", rp.redeem(answer.Get("code")))
				} else if round == 0 {
					wantAnswer(t, name+": authorize", answer, c.want)
				}
				for _, access := range tokens {
					s.wantUserinfo(name, access, http.StatusUnauthorized)
				}
			}
		}
	})
}

// Attacks 29 and 30 with two instances of the service on one database.
func TestCodeIsSpentOnceAtTwoInstances(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		one := startService(t, serviceOptions{Store: storetest.Open(t, dsn)})
		two := startService(t, serviceOptions{Store: storetest.Open(t, dsn)})
		one.addUser("ada")
		secret := one.addClient("app", func(c *provider.Client) { c.Trusted = true })
		rp := one.relyingParty("app", secret)
		b := one.browser()
		b.signIn("ada")
		for range 5 {
			_, answer := answerOf(t, b.get(rp.authURL()))
			first := race(t, 16, func(i int) response {
				return []*service{one, two}[i%2].tokenRequest("app", secret, rp.codeForm(answer.Get("code")))
			})
			if len(first) != 1 {
				t.Fatalf("%d of 16 exchanges won", len(first))
			}
			second := race(t, 16, func(i int) response {
				return []*service{one, two}[i%2].refreshRequest("app", secret, first[0].JSON(t)["refresh_token"].(string))
			})
			if len(second) > 1 {
				t.Fatalf("%d of 16 refreshes won", len(second))
			}
		}
	})
}

// race runs n requests at once and returns those that succeeded; the others
// must be invalid_grant.
func race(t *testing.T, n int, do func(i int) response) (won []response) {
	t.Helper()
	for _, a := range together(n, do) {
		if a.StatusCode == http.StatusOK {
			won = append(won, a)
			continue
		}
		wantInvalidGrant(t, "loser", a)
	}
	return won
}

// RFC 6749 section 4.1.2 and RFC 9700 section 4.14.2: of two uses at once the
// loser is a second use. The winner's tokens are dead wherever they are shown.
func TestTwoUsesAtOnceLeaveNoTokenAlive(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st}, "ada")
		rp := s.app("app", func(c *provider.Client) { c.Trusted = true })
		b := s.signedIn("ada")
		for round := range 40 {
			form := rp.codeForm(b.authorize(rp.authURL(), "ada").Get("code"))
			if round%2 == 1 {
				token := rp.token(form).JSON(t)["refresh_token"].(string)
				form = url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
			}
			answers := together(2, func(int) response { return rp.token(form) })
			slices.SortFunc(answers, func(a, b response) int { return a.StatusCode - b.StatusCode })
			if answers[0].StatusCode != http.StatusOK {
				t.Fatalf("round %d: nobody won: %s", round, answers[0].Text)
			}
			wantInvalidGrant(t, "loser", answers[1])
			won := answers[0].JSON(t)
			access, refresh := won["access_token"].(string), won["refresh_token"].(string)
			if got := s.userinfoStatus(access); got != http.StatusUnauthorized {
				t.Fatalf("round %d: userinfo: %d", round, got)
			}
			s.wantInactive("access token", rp.introspect(access))
			s.wantInactive("refresh token", rp.introspect(refresh))
			wantInvalidGrant(t, "refresh", rp.refresh(refresh))
		}
		if log := s.log.String(); strings.Count(log, "code_replay") != 20 || strings.Count(log, "refresh_reuse") != 20 {
			t.Errorf("%d second uses of a code and %d of a refresh token were noted, want 20 each", strings.Count(log, "code_replay"), strings.Count(log, "refresh_reuse"))
		}
	})
}

// Attack 50 and the replay of a code at the moment of a refresh: one family at
// most, and after the reuse was seen none.
func TestReplayAtTheMomentOfARefresh(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st}, "ada")
		rp := s.app("app", func(c *provider.Client) { c.Trusted = true })
		b := s.signedIn("ada")
		for range 5 {
			code := b.authorize(rp.authURL(), "ada").Get("code")
			first := rp.redeem(code).JSON(t)
			var replay, refresh response
			atOnce(
				func() { replay = rp.redeem(code) },
				func() { refresh = rp.refresh(first["refresh_token"].(string)) },
			)
			wantInvalidGrant(t, "replay", replay)
			alive := []string{first["access_token"].(string)}
			if refresh.StatusCode == http.StatusOK {
				alive = append(alive, refresh.JSON(t)["access_token"].(string))
				wantInvalidGrant(t, "successor", rp.refresh(refresh.JSON(t)["refresh_token"].(string)))
			} else {
				wantInvalidGrant(t, "refresh", refresh)
			}
			for _, access := range alive {
				s.wantUserinfo("an access token survived the replay", access, http.StatusUnauthorized)
			}
		}
	})
}

// Signing out while a code is made: the code is dead, and nobody is told of an
// error of ours.
func TestSignOutAtTheMomentOfACode(t *testing.T) {
	s, rp := startApp(t, func(c *provider.Client) { c.Trusted = true }, "openid")
	for range 10 {
		b := s.signedIn("ada")
		answers := make([]response, 4)
		operations := []func(){func() { b.api("POST", "/api/auth/logout", nil) }}
		for i := range answers {
			operations = append(operations, func() { answers[i] = b.get(rp.authURL("prompt", "none")) })
		}
		atOnce(operations...)
		for _, got := range answers {
			_, answer := answerOf(t, got)
			if code := answer.Get("code"); code != "" {
				wantInvalidGrant(t, "code", rp.redeem(code))
			} else if answer.Get("error") != "login_required" {
				t.Errorf("authorize: %v", answer)
			}
		}
	}
}

// A second use stands in the log by name; what was revoked before, or never
// was ours, does not raise that alarm.
func TestReuseIsNoted(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{}, "ada")
	// A client of devices, whose polls are no second use of a code, exchanges codes as well.
	secret := s.addClient("app", func(c *provider.Client) { c.DeviceGrant = true })
	evil := s.addClient("evil", nil)
	rp := s.relyingParty("app", secret)
	b := s.browser()
	events := func(name string) int { return strings.Count(s.log.String(), `"event":"`+name+`"`) }
	want := func(when string, replays, reuses int) {
		t.Helper()
		if events("code_replay") != replays || events("refresh_reuse") != reuses {
			t.Errorf("%s: %d code_replay, %d refresh_reuse, want %d and %d", when, events("code_replay"), events("refresh_reuse"), replays, reuses)
		}
	}
	code := b.authorize(rp.authURL(), "ada").Get("code")
	s.tokenRequest("app", secret, rp.codeForm(code))
	s.tokenRequest("evil", evil, rp.codeForm(code))
	s.tokenRequest("app", secret, rp.codeForm("x.y"))
	want("honest use, another client, garbage", 0, 0)
	s.tokenRequest("app", secret, rp.codeForm(code))
	want("replay", 1, 0)
	s.tokenRequest("app", secret, rp.codeForm(code))
	want("replay of what is revoked", 1, 0)
	_, token := s.signedInTokens(rp, "ada")
	second := s.refreshRequest("app", secret, token.RefreshToken).JSON(t)
	s.refreshRequest("evil", evil, token.RefreshToken)
	want("refresh, another client", 1, 0)
	s.refreshRequest("app", secret, token.RefreshToken)
	want("reuse", 1, 1)
	revoked := db.count("SELECT max(revoked_at) FROM grants")
	s.refreshRequest("app", secret, second["refresh_token"].(string))
	want("the revoked successor", 1, 1)
	if revoked == 0 || db.count("SELECT max(revoked_at) FROM grants") != revoked {
		t.Error("revoked twice, or never")
	}
}

func TestRefreshGrace(t *testing.T) {
	s, db, rp := startDatabaseApp(t, func(c *provider.Client) { c.RefreshGrace = 30 * time.Second })
	_, token := s.signedInTokens(rp, "ada")
	won := race(t, 4, func(int) response { return rp.refresh(token.RefreshToken) })
	if len(won) != 4 {
		t.Fatalf("%d of 4 refreshes in the grace won", len(won))
	}
	for _, got := range won {
		s.wantUserinfo("token of the grace", got.JSON(t)["access_token"].(string), http.StatusOK)
	}
	same(t, "in the grace it is active", rp.introspect(token.RefreshToken)["active"], true)
	wantStatus(t, "a successor", rp.refresh(won[3].JSON(t)["refresh_token"].(string)), http.StatusOK)
	db.exec("UPDATE tokens SET used_at = used_at - 31 WHERE used_at > 0")
	wantInvalidGrant(t, "after the grace", rp.refresh(token.RefreshToken))
	wantInvalidGrant(t, "successor afterwards", rp.refresh(won[0].JSON(t)["refresh_token"].(string)))
}

// Attack 44 and RFC 6749 section 5: what the answers of the token endpoint look like.
func TestTokenAnswer(t *testing.T) {
	s, rp := startApp(t, nil)
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	got := rp.redeem(code)
	again := rp.refresh(got.JSON(t)["refresh_token"].(string))
	for name, got := range map[string]response{"code": got, "refresh": again} {
		v := got.JSON(t)
		if v["token_type"] != "Bearer" || v["expires_in"] != float64(3600) || v["scope"] != "openid profile email groups offline_access" {
			t.Errorf("%s: token_type %v, expires_in %v, scope %v", name, v["token_type"], v["expires_in"], v["scope"])
		}
		if got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "no-store" ||
			got.Header.Get("Pragma") != "no-cache" || got.Header.Get("Set-Cookie") != "" ||
			got.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %v", name, got.Header)
		}
		for _, token := range []string{"access_token", "refresh_token", "id_token"} {
			if text, _ := v[token].(string); len(text) < 80 {
				t.Errorf("%s: %s of %d characters", name, token, len(text))
			}
		}
		same(t, name+", members", len(v), 6)
	}
	b := s.signedIn("ada") // fosite says a second less of a token's life, every other time
	for range 4 {
		same(t, "expires_in", rp.redeem(b.authorize(rp.authURL(), "ada").Get("code")).JSON(t)["expires_in"], 3600.0)
	}
	for name, got := range map[string]response{"bad code": rp.redeem("\"\\<script>ü"), "bad client": s.tokenRequest("\"\\<script>", "x", rp.codeForm("y"))} {
		d, _ := got.JSON(t)["error_description"].(string)
		if d == "" || strings.ContainsAny(d, "\"\\<") || strings.Contains(got.Text, "<script") || len(got.JSON(t)) != 2 {
			t.Errorf("%s: %s", name, got.Text)
		}
	}
}

// Pitfall 7 and fact S4: a copy of the database holds no code, token or secret
// that could be used.
func TestDatabaseHoldsNoUsableCodeOrToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	s := startService(t, serviceOptions{Store: storetest.Open(t, path)}, "ada")
	rp := s.app("app", nil)
	secret := rp.config.ClientSecret
	b, token := s.signedInTokens(rp, "ada")
	code := b.authorize(rp.authURL(), "ada").Get("code")
	idToken := rawIDToken(token)
	held := fileTexts(t, path, path+"-wal")
	for name, value := range map[string]string{"code": code, "access token": token.AccessToken, "refresh token": token.RefreshToken, "ID token": idToken, "client secret": secret, "verifier": rp.verifier, "cookie": b.cookie("cairn_session")} {
		key, _, _ := strings.Cut(value, ".")
		if name == "ID token" || name == "cookie" {
			key = value[strings.LastIndex(value, ".")+1:]
		}
		if key == "" || strings.Contains(held, key) || strings.Contains(held, value) {
			t.Errorf("the database holds the %s", name)
		}
	}
	_, sig, _ := strings.Cut(code, ".")
	if !strings.Contains(held, sig) {
		t.Fatal("the test looks in the wrong place")
	}
	for _, guess := range []string{"." + sig, sig, sig + "." + sig, "AAAA." + sig} {
		wantInvalidGrant(t, "signature alone", rp.redeem(guess))
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {sig}}
	wantInvalidGrant(t, "signature as refresh token", rp.token(form))
	wantStatus(t, "the genuine code", rp.redeem(code), http.StatusOK)
}

func fileTexts(t *testing.T, paths ...string) string {
	t.Helper()
	var all strings.Builder
	for _, p := range paths {
		b, err := os.ReadFile(p)
		noError(t, err)
		all.Write(b)
	}
	return all.String()
}
