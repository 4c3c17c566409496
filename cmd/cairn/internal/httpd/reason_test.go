package httpd

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// logged returns the log line of the request that got this answer.
func (s *service) logged(got response) map[string]any {
	s.t.Helper()
	id := got.Header.Get("X-Request-Id")
	s.log.wait(s.t, id)
	for line := range strings.Lines(s.log.String()) {
		var v map[string]any
		if json.Unmarshal([]byte(line), &v) == nil && v["msg"] == "request" && v["request_id"] == id {
			return v
		}
	}
	s.t.Fatalf("no log line of request %s", id)
	return nil
}

// wantReason checks the client and the reason of the log line of an answer; "" is none.
func (s *service) wantReason(what string, got response, client, reason string) {
	s.t.Helper()
	line := s.logged(got)
	noted, _ := line["client"].(string)
	why, _ := line["reason"].(string)
	if noted != client || why != reason {
		s.t.Errorf("%s: logged client %q and reason %q, want %q and %q", what, noted, why, client, reason)
	}
}

// What is wrong with an authorization request is said to the application, in constant words, and
// noted for the operator.
func TestAuthorizationErrorNamesTheParameter(t *testing.T) {
	s, rp := startApp(t, nil)
	s.addClient("public", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	b := s.signedIn("ada")
	const evil = `EVIL"\<`
	for name, c := range map[string]struct {
		change              []string
		reason, description string
	}{
		"method":          {[]string{"code_challenge_method", evil}, "code_challenge_method", "code_challenge_method: It must be S256; without it the method is plain."},
		"no method":       {[]string{"code_challenge_method", ""}, "code_challenge_method", "code_challenge_method: It must be S256; without it the method is plain."},
		"short challenge": {[]string{"code_challenge", "abc"}, "code_challenge", "code_challenge: S256 gives 43 characters of A-Z, a-z, 0-9, - and _: the SHA-256 of the verifier in base64url without =."},
		"no challenge":    {[]string{"code_challenge", "", "client_id", "public", "redirect_uri", callbackOf("public")}, "code_challenge", "code_challenge: It is missing, and a public client has to send one (RFC 7636)."},
		"prompt":          {[]string{"prompt", evil}, "prompt", "prompt: The values are none, login, consent, select_account, create, separated by spaces."},
		"prompt none":     {[]string{"prompt", "none login"}, "prompt", "prompt: none excludes other values (OpenID Connect Core section 3.1.2.1)."},
		"max_age":         {[]string{"max_age", evil}, "max_age", "max_age: It must be a whole number of seconds."},
		"claims":          {[]string{"claims", evil}, "claims", "claims: It must be a claims request as JSON (OpenID Connect Core section 5.5)."},
		"id_token_hint":   {[]string{"id_token_hint", evil}, "id_token_hint", "id_token_hint: It must be an ID token of this service for this client, signed by a key that is published."},
		"response_type":   {[]string{"response_type", evil}, "response_type", "response_type: Only code is supported."},
		"request":         {[]string{"request", "a.b.c"}, "unsupported_parameter", "request: It is not supported: put the parameters into the address, or push them (RFC 9126)."},
		"silent":          {[]string{"prompt", "none"}, "consent_required", "The user has to give consent."},
	} {
		got := b.get(rp.authURL(c.change...))
		same(t, name+": error_description", answered(t, got).Get("error_description"), c.description)
		client := "app"
		if len(c.change) > 2 {
			client = "public"
		}
		s.wantReason(name, got, client, c.reason)
	}
	got := b.get(rp.authURL() + "&nonce=again")
	same(t, "repeated",
		answered(t, got).Get("error_description"), "nonce: It is given more than once (RFC 6749 section 3.1).")
	got = b.get(rp.authURL() + "&EVIL=1&EVIL=2")
	same(t, "repeated, unknown",
		answered(t, got).Get("error_description"), "a parameter: It is given more than once (RFC 6749 section 3.1).")
	for name, c := range map[string]struct{ address, client, reason, text string }{
		"unknown client": {rp.authURL("client_id", "nobody"), "", "client_unknown", "not registered"},
		"no client":      {rp.authURL("client_id", ""), "", "missing_parameter", "client_id is missing"},
		"redirect_uri":   {rp.authURL("redirect_uri", "https://evil.example/"), "app", "redirect_uri", "not registered for it"},
		"none":           {rp.authURL("redirect_uri", ""), "app", "redirect_uri", "redirect_uri is missing"},
		"continuation":   {s.URL + "/oauth2/authorize?continue=x", "", "expired_request", "took too long"},
	} {
		got := b.get(c.address)
		wantPage(t, name, got, http.StatusBadRequest)
		if !strings.Contains(got.Text, c.text) {
			t.Errorf("%s: %s", name, mainOf(got.Text))
		}
		s.wantReason(name, got, c.client, c.reason)
	}
	if line := s.logged(b.get(rp.authURL())); line["client"] != "app" || line["reason"] != nil {
		t.Errorf("a good request: %v", line)
	}
}

func TestTokenErrorNamesTheFault(t *testing.T) {
	s, db, rp := startDatabaseApp(t, nil)
	other := s.app("other", nil)
	b := s.signedIn("ada")
	code := func(more ...string) string {
		t.Helper()
		return b.authorize(rp.authURL(more...), "ada").Get("code")
	}
	changed := func(code string, pairs ...string) response {
		t.Helper()
		f := rp.codeForm(code)
		for i := 0; i+1 < len(pairs); i += 2 {
			f.Set(pairs[i], pairs[i+1])
			if pairs[i+1] == "" {
				f.Del(pairs[i])
			}
		}
		return rp.token(f)
	}
	used, rotated := code(), ""
	tokens := rp.redeem(used).JSON(t)
	rotated, _ = tokens["refresh_token"].(string)
	wantStatus(t, "refresh", rp.refresh(rotated), http.StatusOK)
	refresh := func(token string) url.Values {
		return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
	}
	kind := "application/x-www-form-urlencoded"
	ending := rp.redeem(code()).text(t, "refresh_token")
	db.exec("UPDATE tokens SET expires_at = 1 WHERE kind = 'r' AND used_at = 0")
	late := code()
	db.exec("UPDATE grants SET code_expires_at = code_expires_at - 100 WHERE code_used_at = 0")
	wrong := strings.Repeat("a", 43)
	for _, c := range []struct {
		name                string
		got                 response
		reason, description string
	}{
		{"expired", changed(late), "code_expired", "code: It has expired."},
		{"redirect_uri", changed(code(), "redirect_uri", "https://EVIL.example/"), "redirect_uri", "redirect_uri: It must be the same as in the authorization request."},
		{"no verifier", changed(code(), "code_verifier", ""), "code_verifier", "code_verifier: It is missing, and the authorization request had a code_challenge."},
		{"wrong verifier", changed(code(), "code_verifier", wrong), "code_verifier", "code_verifier: It does not belong to the code_challenge, or is not 43 to 128 of A-Z, a-z, 0-9, -, ., _ and ~."},
		{"needless verifier", changed(code("code_challenge", "", "code_challenge_method", "")), "code_verifier", "code_verifier: It is given, but the authorization request had no code_challenge."},
		{"unknown code", changed("EVIL.x"), "code_unknown", "code: It is not valid, or was issued to another client."},
		{"no code", changed("", "code", ""), "missing_parameter", "code: It is missing."},
		{"unknown refresh token", rp.token(refresh("EVIL.x")), "refresh_unknown", "refresh_token: It is not valid, or was issued to another client."},
		{"expired refresh token", rp.refresh(ending), "refresh_expired", "refresh_token: It has expired."},
		{"no refresh token", rp.token(refresh("")), "missing_parameter", "refresh_token: It is missing."},
		{"another client's code", other.token(rp.codeForm(code())), "code_unknown", "code: It is not valid, or was issued to another client."},
		{"used refresh token", rp.refresh(rotated), "refresh_used", "refresh_token: It was used before. That ends the tokens that it gave."},
		{"used code", rp.redeem(used), "code_used", "code: It was used before. That ends the tokens that it gave."},
		{"no grant", rp.token(url.Values{"code": {"x"}}), "missing_parameter", "grant_type: It is missing."},
		{"twice", rp.token(url.Values{"grant_type": {"x", "y"}}), "repeated_parameter", "grant_type: It is given more than once (RFC 6749 section 3.2)."},
		{"twice, unknown", rp.token(url.Values{"EVIL": {"x", "y"}}), "repeated_parameter", "a parameter: It is given more than once (RFC 6749 section 3.2)."},
		{"JSON", b.do("POST", "/oauth2/token", "application/json", `{"grant_type":"EVIL"}`), "form", "The parameters must be a form in the body, Content-Type: application/x-www-form-urlencoded: not JSON, and not in the query."},
		{"in the query", b.do("POST", "/oauth2/token?code=EVIL", kind, "grant_type=authorization_code"), "query_parameter", "code: It must be in the body, not in the query."},
		{"method", b.do("GET", "/oauth2/token", "", ""), "method", "The endpoint has other methods: see the header Allow."},
	} {
		if d := c.got.JSON(t)["error_description"]; d != c.description {
			t.Errorf("%s: %s", c.name, c.got.Text)
		}
		if c.reason == "missing_parameter" && c.got.JSON(t)["error"] != "invalid_request" { // RFC 6749 section 5.2
			t.Errorf("%s: %s", c.name, c.got.Text)
		}
		client := ""
		if strings.Contains(c.name, "another") {
			client = "other"
		} else if c.got.StatusCode == http.StatusBadRequest && c.got.Request.Header.Get("Authorization") != "" {
			client = "app"
		}
		s.wantReason(c.name, c.got, client, c.reason)
	}
}

// A failed authentication gets one answer; the log says why.
func TestLogNamesWhyAClientWasRefused(t *testing.T) {
	s, rp := startApp(t, nil)
	secret := rp.config.ClientSecret
	s.addClient("strict", func(c *provider.Client) { c.AuthMethod = provider.AuthBasic })
	s.addClient("public", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	const odd, percent = "odd+secret/of=ours-0123456789abcdef", "percent%secret-of-ours-0123456789abc"
	for id, secret := range map[string]string{"odd": odd, "percent": percent} {
		s.addClient(id, func(c *provider.Client) {
			c.Secrets = []provider.ClientSecret{{Hash: account.HashSecret(secret), CreatedAt: c.CreatedAt}}
		})
	}
	basic := func(credential string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(credential))
	}
	assertion := "client_assertion_type=urn:ietf:params:oauth:client-assertion-type:jwt-bearer&client_assertion="
	for name, c := range map[string]struct{ form, header, client, reason string }{
		"wrong":            {"", basic("app:EVIL"), "app", "secret_wrong"},
		"none":             {"client_id=app", "", "app", "secret_missing"},
		"line end":         {"", basic("app:" + secret + "\n"), "app", "secret_line_end"},
		"line end in post": {"client_id=app&client_secret=" + secret + "%0A", "", "app", "secret_line_end"},
		"not encoded":      {"", basic("odd:" + odd), "odd", "secret_not_encoded"},
		"nor decodable":    {"", basic("percent:" + percent), "percent", "secret_not_encoded"},
		"not decodable":    {"", basic("app:%zz"), "app", "auth_malformed"},
		"public, neither":  {"", basic("public:%zz"), "public", "secret_of_public_client"},
		"two methods":      {"client_secret=" + secret, basic("app:" + secret), "app", "auth_twice"},
		"with assertion":   {assertion + "a.b.c", basic("app:" + secret), "app", "auth_twice"},
		"other method":     {"client_id=strict&client_secret=x", "", "strict", "auth_method"},
		"unknown":          {"", basic("EVIL:x"), "", "client_unknown"},
		"public":           {"", basic("public:x"), "public", "secret_of_public_client"},
		"ids":              {"client_id=strict", basic("app:" + secret), "app", "auth_client_id"},
		"bearer":           {"", "Bearer " + secret, "", "auth_malformed"},
		"assertion":        {assertion + "a.b.c", "", "", "assertion"},
	} {
		var header []string
		if c.header != "" {
			header = []string{"Authorization", c.header}
		}
		got := s.browser().do("POST", "/oauth2/token", "application/x-www-form-urlencoded", "grant_type=authorization_code&code=x&"+c.form, header...)
		wantOAuthError(t, name, got, http.StatusUnauthorized, "invalid_client")
		if d := got.JSON(t)["error_description"]; d != "Client authentication failed." {
			t.Errorf("%s: the description %q says more than that", name, d)
		}
		s.wantReason(name, got, c.client, c.reason)
	}
	// A public client without a secret may leave out the colon of Basic.
	for _, endpoint := range []string{"token", "revoke"} {
		got := s.browser().do("POST", "/oauth2/"+endpoint, "application/x-www-form-urlencoded",
			"grant_type=authorization_code&code=x&token=x", "Authorization", basic("public"))
		if got.JSON(t)["error"] == "invalid_client" {
			t.Errorf("%s: Basic without a colon: %s", endpoint, got.Text)
		}
	}
	if got := s.browser().do("POST", "/oauth2/token", "application/x-www-form-urlencoded", "grant_type=authorization_code&code=x",
		"Authorization", basic("odd:"+url.QueryEscape(odd))); got.JSON(t)["error"] != "invalid_grant" {
		t.Errorf("the secret as RFC 6749 has it: %s", got.Text)
	}
	for _, text := range []string{"EVIL", secret, odd, percent} {
		lacks(t, "the log", s.log.String(), text)
	}
}

// Who may not use an application reads so here first, and takes the error back.
func TestPageSaysWhomAnApplicationIsFor(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	s.addUser("bob", "activity")
	contact := "keeper@example.org"
	s.addUser("keeper", account.FlagAdmin)
	needStatus(t, "contact", s.signedIn("keeper").api("PUT", "/api/admin/settings", map[string]string{"contact": contact}), 200)
	rp := s.app("wiki", func(c *provider.Client) { c.Name, c.RequireFlags = "Wiki", []string{"activity"} })
	b := s.browser()
	got := b.get(b.get(rp.authURL()).Header.Get("Location"))
	got = b.get(b.send(got, "handle", "ada", "password", password).Header.Get("Location"))
	if got.StatusCode != http.StatusForbidden || pageName(t, got.Text) != "access-denied" {
		t.Fatalf("%d %s", got.StatusCode, mainOf(got.Text))
	}
	for _, want := range []string{"Wiki", "activity", "Uses the activity application.", "mailto:" + contact, "Back to"} {
		has(t, "the page lacks", mainOf(got.Text), want)
	}
	s.wantReason("page", got, "wiki", "flag")
	back := attribute(elementByID(t, got.Text, "access-denied-back"), "href")
	for range 2 { // the page may be used again
		answer := answered(t, b.get(back))
		wantAnswer(t, "back", answer, "access_denied")
		if answer.Get("state") != rp.state || answer.Get("error_description") != "The user may not use this application: it is only for users of certain groups." {
			t.Errorf("back: %v", answer)
		}
	}
	wantAnswer(t, "silent", answered(t, b.get(rp.authURL("prompt", "none"))), "access_denied")
	wantAnswer(t, "who may", s.browser().authorize(rp.authURL(), "bob"), "code")
	// The link opens nothing for who may use it.
	wantAnswer(t, "link of another", s.browser().authorize(back, "bob"), "code")
	same(t, "a person who said no",
		b.decline(s.app("app", nil).authURL()).Get("error_description"), "The request was denied.")
}

// decline says no on the consent page.
func (b *browser) decline(address string) url.Values {
	b.t.Helper()
	return answered(b.t, b.get(b.decide(b.consentPage(address), "deny")))
}

// The number that somebody reads from an error page leads the administrators to the reason and to what mends it.
func TestNumberOfARefusedSignInLeadsToItsRemedy(t *testing.T) {
	s, rp := startApp(t, func(c *provider.Client) { c.RequireFlags = []string{account.FlagActivity} })
	s.addUser("keeper", account.FlagAdmin)
	s.addUser("bob")
	keeper, bob, stranger := s.signedIn("keeper"), s.signedIn("bob"), s.browser()
	number := func(got response, status int) string {
		t.Helper()
		n := elementByID(t, needStatus(t, "refused", got, status).Text, "request-id")
		if n == nil {
			t.Fatalf("no number: %s", got.Text)
		}
		return elementText(n)
	}
	elsewhere := strings.Replace(rp.authURL(), "callback", "elsewhere", 1)
	for _, c := range []struct {
		number, client, reason, command string
		in                              bool
	}{
		{number(bob.get(rp.authURL()), 403), "app", "flag", "cairn user flags USER +PERMISSION", true},
		{number(stranger.get(elsewhere), 400), "app", "redirect_uri", "cairn client update app --add-redirect-uri URI", false},
		{number(stranger.get("/oauth2/authorize?client_id=nobody"), 400), "", "client_unknown", "cairn client list", false},
	} {
		typed := strings.ToLower(c.number[:6])
		page := needStatus(t, "found", keeper.get("/admin/applications?number=+"+typed), 200).Text
		found := elementByID(t, page, "found")
		if found == nil || !strings.Contains(elementText(found), c.number) ||
			!strings.Contains(elementText(found), c.command) {
			t.Errorf("%s: %v", c.reason, found)
		}
		got := keeper.api("GET", "/api/admin/refused-sign-ins?number="+c.number, nil)
		list := needStatus(t, "API", got, 200).JSON(t)["refused_sign_ins"].([]any)
		if len(list) != 1 {
			t.Fatalf("%s: %s", c.reason, got.Text)
		}
		row := list[0].(map[string]any)
		id, _ := row["client_id"].(string)
		if id != c.client || row["reason"] != c.reason || row["signed_in"] != c.in || row["command"] != c.command {
			t.Errorf("%s: %v", c.reason, row)
		}
	}
	// Not a fault of anybody's: a silent question whether somebody is signed in.
	silent := s.logged(stranger.get(rp.authURL("prompt", "none")))["request_id"].(string)
	page := keeper.get("/admin/applications?number=" + silent).Text
	has(t, "silent", elementText(elementByID(t, page, "found")), "No refused sign-in of the last 30 days")
	has(t, "unknown applications", elementText(elementByID(t, page, "refused-unknown")), "client_unknown")
	wantProblem(t, "long", keeper.api("GET", "/api/admin/refused-sign-ins?number="+strings.Repeat("A", 65), nil), http.StatusBadRequest, "invalid_request")
	wantProblem(t, "member", bob.api("GET", "/api/admin/refused-sign-ins", nil), http.StatusForbidden, "admin_required")
}
