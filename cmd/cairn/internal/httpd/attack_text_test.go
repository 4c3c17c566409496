package httpd

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// Fact S21: what one of the two databases refuses to keep (NUL, broken UTF-8)
// or takes for a pattern is a refusal at every door, never a 5xx, and a nonce comes back.
func TestOddTextNeverBreaksEitherDatabase(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st})
		s.addUser("ada")
		secret := s.addClient("app", func(c *provider.Client) { c.Trusted = true })
		rp := s.relyingParty("app", secret)
		b, token := s.signedInTokens(rp, "ada")
		odd := []string{"\x00", "a\x00b", "\xff", "a\xc3", "\xed\xa0\x80", "%", "_", "'", `"`, "\\", "' OR 1=1 --", "\u2028", "\ufeff", strings.Repeat("ü", 400), "$1", "?", "{}", "null", "\r\n"}
		check := func(where, text string, got response) {
			t.Helper()
			if got.StatusCode >= 500 {
				t.Errorf("%s = %q: %d %.200s", where, text, got.StatusCode, got.Text)
			}
		}
		for _, text := range odd {
			for _, name := range []string{"client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge", "prompt", "max_age", "id_token_hint", "login_hint", "ui_locales", "acr_values", "claims", "display", "response_mode", "continue", text} {
				check("authorize, "+name, text, b.get(rp.authURL(name, text)))
			}
			for _, name := range []string{"code", "redirect_uri", "code_verifier", "client_id", "client_secret", "scope", "refresh_token", "grant_type", "audience", "resource", text} {
				for _, grant := range []string{"authorization_code", "refresh_token"} {
					form := rp.codeForm("x.y")
					form.Set("grant_type", grant)
					form.Set("refresh_token", "x.y")
					form.Set(name, text)
					check("token, "+name, text, s.tokenRequest("app", secret, form))
				}
			}
			check("basic id", text, s.tokenRequest(text, secret, rp.codeForm("x")))
			check("basic secret", text, s.tokenRequest("app", text, rp.codeForm("x")))
			check("userinfo", text, s.browser().postForm("/oauth2/userinfo", url.Values{"access_token": {text}}))
			check("userinfo, beside", text, s.browser().postForm("/oauth2/userinfo", url.Values{"access_token": {token.AccessToken}, text: {text}}))
			for _, name := range []string{"continue", "token", "decision"} {
				check("consent, "+name, text, b.postForm("/oauth2/consent", url.Values{name: {text}}))
			}
			// What a client sends as nonce is its own business, and comes back.
			if _, answer := answerOf(t, b.get(rp.authURL("nonce", text))); answer.Get("code") != "" {
				got := s.tokenRequest("app", secret, rp.codeForm(answer.Get("code")))
				check("exchange, nonce", text, got)
				raw, _ := got.JSON(t)["id_token"].(string)
				if nonce := jwtPayload(t, raw)["nonce"]; utf8.ValidString(text) && nonce != text { // JSON has no other
					t.Errorf("nonce %q came back as %q", text, nonce)
				}
			}
		}
		if strings.Contains(s.log.String(), `"level":"ERROR"`) {
			t.Error("the log calls a stranger's text an error of ours")
		}
		if got := s.refreshRequest("app", secret, token.RefreshToken); got.StatusCode != 200 {
			t.Errorf("a bystander's refresh: %d", got.StatusCode)
		}
	})
}
