package httpd

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

func fileTexts(t *testing.T, paths ...string) string {
	t.Helper()
	var all strings.Builder
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
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
func TestOtherSpellingOfACodeOrTokenIsNeverTheSame(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
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
		if got.StatusCode != http.StatusUnauthorized {
			t.Errorf("access token in the body, %s: %d", name, got.StatusCode)
		}
	}
	for name, value := range spellings(code) {
		wantOAuthError(t, "code, "+name, s.tokenRequest("app", secret, rp.codeForm(value)), http.StatusBadRequest, "invalid_grant")
	}
	for name, value := range spellings(token.RefreshToken) {
		wantOAuthError(t, "refresh token, "+name, s.refreshRequest("app", secret, value), http.StatusBadRequest, "invalid_grant")
	}
	for name, value := range map[string]string{"access token": token.AccessToken, "code": code, "cookie": b.cookie("cairn_session"), "ID token": token.Extra("id_token").(string)} {
		wantOAuthError(t, name+" as refresh token", s.refreshRequest("app", secret, value), http.StatusBadRequest, "invalid_grant")
	}
	wantOAuthError(t, "refresh token as code", s.tokenRequest("app", secret, rp.codeForm(token.RefreshToken)), http.StatusBadRequest, "invalid_grant")
	if got := s.tokenRequest("app", secret, rp.codeForm(code)); got.StatusCode != http.StatusOK {
		t.Errorf("the code itself: %d %s", got.StatusCode, got.Text)
	}
	// Another spelling of a rotated token is no reuse: it must not end the family.
	second := s.refreshRequest("app", secret, token.RefreshToken).JSON(t)
	for name, value := range spellings(token.RefreshToken) {
		wantOAuthError(t, "rotated token, "+name, s.refreshRequest("app", secret, value), http.StatusBadRequest, "invalid_grant")
	}
	if got := s.refreshRequest("app", secret, second["refresh_token"].(string)); got.StatusCode != http.StatusOK {
		t.Errorf("the successor: %d %s", got.StatusCode, got.Text)
	}
	if strings.Contains(s.log.String(), `"level":"ERROR"`) {
		t.Error("the log calls a stranger's text an error of ours")
	}
}

// Attack 41 in the header: huge, odd, cut and doubled credentials.
func TestOddAuthorizationHeaderNeverGetsInOrBreaks(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	s.addClient("public", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	s.addClient("post", func(c *provider.Client) { c.AuthMethod = provider.AuthPost })
	rp := s.relyingParty("app", secret)
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	b64 := base64.StdEncoding.EncodeToString
	good := b64([]byte("app:" + secret))
	for name, header := range map[string][]string{
		"empty": {""}, "scheme alone": {"Basic"}, "scheme and blank": {"Basic "}, "no base64": {"Basic %%%"}, "no colon": {"Basic " + b64([]byte("app"))}, "binary": {"Basic " + b64([]byte("\x00\xff:\xfe"))},
		"20 kB": {"Basic " + b64([]byte("app:"+strings.Repeat("x", 15000)))}, "20 kB of id": {"Basic " + b64([]byte(strings.Repeat("a", 15000)+":x"))}, "cut": {"Basic " + good[:len(good)-4]}, "no scheme": {good},
		"twice": {"Basic " + good, "Basic " + good}, "with another": {"Basic " + good, "Bearer x"}, "joined": {"Basic " + good + ", Basic " + good}, "digest": {`Digest username="app"`}, "bearer": {"Bearer " + good},
		"id in upper case": {"Basic " + b64([]byte("APP:"+secret))}, "blank before the id": {"Basic " + b64([]byte(" app:"+secret))}, "NUL after the secret": {"Basic " + b64([]byte("app:"+secret+"\x00"))}, "escaped NUL": {"Basic " + b64([]byte("app%00:"+secret))},
		"bad escape": {"Basic " + b64([]byte("app:%"))}, "secret of a public client": {"Basic " + b64([]byte("public:x"))}, "basic at a client for post": {"Basic " + b64([]byte("post:secret-of-post-0123456789abcdefghij"))}, "no id": {"Basic " + b64([]byte(":"+secret))},
		"secret twice": {"Basic " + b64([]byte("app:"+secret+":"+secret))}, "wildcard": {"Basic " + b64([]byte("%25:"+secret))}, "SQL": {"Basic " + b64([]byte("' OR '1'='1:' OR '1'='1"))},
	} {
		var pairs []string
		for _, h := range header {
			pairs = append(pairs, "Authorization", h)
		}
		got := s.browser().do("POST", "/oauth2/token", "application/x-www-form-urlencoded", rp.codeForm(code).Encode(), pairs...)
		wantOAuthError(t, name, got, http.StatusUnauthorized, "invalid_client")
		if !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s: WWW-Authenticate %q", name, got.Header.Get("WWW-Authenticate"))
		}
	}
	got := s.browser().do("POST", "/oauth2/token", "application/x-www-form-urlencoded", rp.codeForm(code).Encode(), "Authorization", "Basic "+strings.Repeat("A", 60000))
	if got.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("60 kB: %d", got.StatusCode)
	}
	for name, kind := range map[string]string{"charset": "application/x-www-form-urlencoded; charset=utf-8", "upper case": "Application/X-WWW-Form-Urlencoded"} {
		form := rp.codeForm("x")
		form.Set("client_id", "app")
		form.Set("client_secret", secret)
		wantOAuthError(t, name, s.browser().do("POST", "/oauth2/token", kind, form.Encode()), http.StatusBadRequest, "invalid_grant")
	}
	got = s.browser().do("POST", "/oauth2/token", "application/x-www-form-urlencoded", rp.codeForm(code).Encode(), "Authorization", "bAsIc "+good)
	if got.StatusCode != http.StatusOK {
		t.Errorf("the scheme in other letters: %d %s", got.StatusCode, got.Text)
	}
}

// Attack 44 and RFC 6749 section 5: what the answers of the token endpoint look like.
func TestTokenAnswerNeverLacksWhatTheRFCWants(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	rp := s.relyingParty("app", secret)
	code := s.browser().authorize(rp.authURL(), "ada").Get("code")
	got := s.tokenRequest("app", secret, rp.codeForm(code))
	again := s.refreshRequest("app", secret, got.JSON(t)["refresh_token"].(string))
	for name, got := range map[string]response{"code": got, "refresh": again} {
		v := got.JSON(t)
		if v["token_type"] != "Bearer" || v["expires_in"] != float64(3600) || v["scope"] != "openid profile email groups offline_access" {
			t.Errorf("%s: token_type %v, expires_in %v, scope %v", name, v["token_type"], v["expires_in"], v["scope"])
		}
		if got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Pragma") != "no-cache" || got.Header.Get("Set-Cookie") != "" || got.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %v", name, got.Header)
		}
		for _, token := range []string{"access_token", "refresh_token", "id_token"} {
			if text, _ := v[token].(string); len(text) < 80 {
				t.Errorf("%s: %s of %d characters", name, token, len(text))
			}
		}
		if len(v) != 6 {
			t.Errorf("%s: %d members", name, len(v))
		}
	}
	for name, got := range map[string]response{"bad code": s.tokenRequest("app", secret, rp.codeForm("\"\\<script>ü")), "bad client": s.tokenRequest("\"\\<script>", "x", rp.codeForm("y"))} {
		d, _ := got.JSON(t)["error_description"].(string)
		if d == "" || strings.ContainsAny(d, "\"\\<") || strings.Contains(got.Text, "<script") || len(got.JSON(t)) != 2 {
			t.Errorf("%s: %s", name, got.Text)
		}
	}
}
