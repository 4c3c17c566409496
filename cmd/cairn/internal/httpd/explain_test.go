package httpd

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// explain asks what would become of the request if handle signed in.
func (s *service) explain(address, handle string) *provider.Explanation {
	s.t.Helper()
	u, err := s.store.UserByHandle(s.t.Context(), handle)
	noError(s.t, err)
	e, err := provider.Explain(s.t.Context(), address, provider.Explainer{Storage: s.store, Issuer: s.URL,
		Keys: s.keys, User: &u, Nearest: config.NearestName, DocumentRoots: s.roots})
	if err != nil {
		s.t.Fatalf("%s: %v", address, err)
	}
	return e
}

// outcome returns what a browser that is signed in as handle really gets: the error,
// "code" or "page".
func (s *service) outcome(address, handle string) string {
	s.t.Helper()
	b := s.signedIn(handle)
	switch got := b.get(address); {
	case got.StatusCode == http.StatusBadRequest && got.Header.Get("Location") == "":
		return "page"
	case got.StatusCode == http.StatusOK && pageName(s.t, got.Text) == "form-post":
		return pageForm(s.t, got.Text).values.Get("error")
	}
	got := b.authorize(address, handle)
	if got.Has("code") {
		return "code"
	}
	return got.Get("error")
}

func TestExplainAgreesWithTheEndpoint(t *testing.T) {
	s := startService(t, serviceOptions{}, "bob")
	s.addUser("ada", "activity")
	rp := s.app("app", func(c *provider.Client) { c.Scopes = []string{"openid", "profile", "offline_access"} })
	s.addClient("phone", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	s.addClient("strict", func(c *provider.Client) { c.RequirePKCE = true })
	s.addClient("members", func(c *provider.Client) { c.RequireFlags, c.Trusted = []string{"activity"}, true })
	_, token := s.signedInTokens(s.relyingParty("members", s.addClientSecret("members")), "ada")
	hint := rawIDToken(token)
	at := func(id string, more ...string) string {
		return rp.authURL(append([]string{"client_id", id, "redirect_uri", callbackOf(id)}, more...)...)
	}
	cases := map[string]string{
		"plain": rp.authURL(), "without PKCE": rp.authURL("code_challenge", "", "code_challenge_method", ""), "public": at("phone"),
		"public without PKCE": at("phone", "code_challenge", "", "code_challenge_method", ""), "strict without PKCE": at("strict", "code_challenge", "", "code_challenge_method", ""),
		"PKCE plain": rp.authURL("code_challenge_method", "plain"), "PKCE no method": rp.authURL("code_challenge_method", ""), "PKCE short": rp.authURL("code_challenge", "abc"),
		"method alone": rp.authURL("code_challenge", ""), "token": rp.authURL("response_type", "token"), "no type": rp.authURL("response_type", ""),
		"form_post with a broken state": rp.authURL("response_mode", "form_post", "state", "a\r\nb"), "fragment": rp.authURL("response_mode", "fragment"),
		"prompt none before consent": at("strict", "prompt", "none"), "prompt none after consent": rp.authURL("prompt", "none"), "prompt login": rp.authURL("prompt", "login"),
		"prompt consent": rp.authURL("prompt", "consent"), "prompt odd": rp.authURL("prompt", "odd"), "prompt none login": rp.authURL("prompt", "none login"),
		"prompt none and max_age 0": rp.authURL("prompt", "none", "max_age", "0"), "max_age 0": rp.authURL("max_age", "0"), "max_age odd": rp.authURL("max_age", "soon"),
		"request": rp.authURL("request", "a.b.c"), "request_uri": rp.authURL("request_uri", "https://evil.example/"), "registration": rp.authURL("registration", "{}"),
		"state twice": rp.authURL() + "&state=again", "client twice": rp.authURL() + "&client_id=app", "extra": rp.authURL("extra", "1"), "no scope": rp.authURL("scope", ""),
		"claims": rp.authURL("claims", `{"userinfo":{"name":null}}`), "claims broken": rp.authURL("claims", `{"userinfo":`), "claims for another": rp.authURL("claims", `{"id_token":{"sub":{"value":"x"}}}`, "prompt", "none"),
		"hint": at("members", "id_token_hint", hint), "hint for another client": rp.authURL("id_token_hint", hint), "hint broken": rp.authURL("id_token_hint", "a.b.c"),
		"unknown client": at("nobody"), "wrong redirect": rp.authURL("redirect_uri", callbackOf("app")+"/"), "no redirect": rp.authURL("redirect_uri", ""),
		"too long": rp.authURL("x", strings.Repeat("a", 5000)), "flag": at("members"), "no query": s.URL + "/oauth2/authorize",
	}
	seen := map[string]bool{}
	for _, handle := range []string{"ada", "bob"} {
		for _, name := range slices.Sorted(maps.Keys(cases)) {
			e := s.explain(cases[name], handle)
			said := e.Answer
			if said == provider.AnswerError {
				said = e.Error
			}
			got := s.outcome(cases[name], handle)
			same(t, fmt.Sprintf("%s as %s: explained as (%s), really", name, handle, e.Why), said, got)
			wrong := slices.ContainsFunc(e.Findings,
				func(f provider.Finding) bool { return f.Verdict == provider.FindingWrong })
			if (got == "code") == (e.Why != "") || got == "code" && wrong {
				t.Errorf("%s as %s: %s because %q, findings %+v", name, handle, got, e.Why, e.Findings)
			}
			seen[got] = true
		}
	}
	for _, want := range []string{"code", "page", "access_denied", "consent_required", "login_required", "invalid_request"} {
		if !seen[want] {
			t.Errorf("no case ended with %s", want)
		}
	}
}

// addClientSecret gives a client another secret.
func (s *service) addClientSecret(id string) string {
	s.t.Helper()
	secret := "second-" + id + "-0123456789abcdefghij"
	now := time.Now().UTC()
	noError(s.t, s.store.RotateClientSecret(s.t.Context(), id, account.HashSecret(secret), now, now, account.Operator().Audit(time.Now(), account.RenewClient, "", "")))
	return secret
}

func TestExplainShowsTheClaimsOfTheTokens(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada", "activity")
	_, err := roster.NewAdministration(s.store, nil).Amend(t.Context(), account.Operator(), u, account.UserChange{
		"email": "ada@example.org", "given_name": "Ada", "address.locality": "Roma",
	})
	noError(t, err)
	for id, idTokenClaims := range map[string]bool{"lean": false, "rich": true} {
		rp := s.relyingParty(id, s.addClient(id, func(c *provider.Client) { c.IDTokenClaims = idTokenClaims }), "openid", "profile", "address")
		address := rp.authURL("claims", `{"id_token":{"email":null}}`, "acr_values", "1")
		said := s.explain(address, "ada").User
		token, err := rp.exchange(s.browser().authorize(address, "ada").Get("code"))
		noError(t, err)
		var really map[string]any
		noError(t, rp.idToken(token).Claims(&really))
		for _, moving := range []string{"iat", "exp", "auth_time", "jti", "at_hash"} {
			if said.IDToken[moving] == nil || really[moving] == nil {
				t.Errorf("%s: %s is missing", id, moving)
			}
			delete(said.IDToken, moving)
			delete(really, moving)
		}
		same(t, fmt.Sprintf("%s: ID token", id), cmp.Diff(really, asJSON(t, said.IDToken)), "")
		info := s.browser().get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken).JSON(t)
		same(t, fmt.Sprintf("%s: userinfo", id), cmp.Diff(info, asJSON(t, said.UserInfo)), "")
	}
}

// asJSON is how the claims are printed.
func asJSON(t *testing.T, claims map[string]any) (out map[string]any) {
	t.Helper()
	b, err := json.Marshal(claims)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	noError(t, err)
	return out
}

func TestExplainNamesTheSlip(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	s.addClient("photos", nil)
	s.addClient("staff", func(c *provider.Client) { c.Groups = []string{"admin", "activity"} })
	groups := func(address string) string { return strings.Replace(address, "scope=openid", "scope=groups", 1) }
	q := func(id, redirect string) string {
		return s.URL + "/oauth2/authorize?" + url.Values{"client_id": {id}, "redirect_uri": {redirect}, "response_type": {"code"}, "scope": {"openid"}}.Encode()
	}
	for address, want := range map[string]string{
		q("photoz", callbackOf("photos")):                                    "The nearest is photos.",
		q("something-else-entirely", callbackOf("photos")):                   `There is no client "something-else-entirely".`,
		q("photos", "https://photos.example.org/callbac"):                    `differs at character 35: it has "k", the request its end there.`,
		q("photos", "https://photos.example.org/callback/"):                  `differs at character 36: it has its end there, the request "/".`,
		q("photos", "http://photos.example.org/callback"):                    `differs at character 5: it has "s://photos.e", the request "://photos.ex".`,
		q("photos", "org.app:/cb"):                                           `differs at character 1: it has "https://phot", the request "org.app:/cb".`,
		s.URL + "/login/?continue=x":                                         "one of the service's own",
		"%zz":                                                                "This is not an address.",
		s.URL + "/oauth2/authorize?client_id=%zz":                            "check the percent-encoding",
		s.URL + "/oauth2/authorize?client_id=photos":                         "It is missing. Registered: https://photos.example.org/callback",
		q("photos", callbackOf("photos")) + "#x":                             "(# and what follows) never reaches",
		"https://elsewhere.example/authorize?client_id=photos":               "the authorization endpoint is " + s.URL,
		q("photos", callbackOf("photos")) + "&scope=a&a%0Ab=1":               `"a\nb"`,
		groups(q("photos", callbackOf("photos"))):                            "groups names the flags of the user but admin.",
		groups(q("staff", callbackOf("staff"))):                              "registered for (--group): admin activity",
		"client_id=photos&request_uri=urn:ietf:params:oauth:request_uri:abc": "A pushed request",
	} {
		e := s.explain(address, "ada")
		if !slices.ContainsFunc(e.Findings,
			func(f provider.Finding) bool { return strings.Contains(f.Text+f.Parameter, want) }) {
			t.Errorf("%s: %+v, want %q", address, e.Findings, want)
		}
	}
	s.addClient("ab", nil)
	if e := s.explain(q("", callbackOf("ab")), "ada"); e.Findings[0].Text != "There is no client_id." {
		t.Errorf("no client_id: %+v", e.Findings)
	}
}

// Without a user and without keys: what the request needs, and nothing about what it does not lack.
func TestExplainSaysWhatARequestNeeds(t *testing.T) {
	s := startService(t, serviceOptions{})
	rp := s.app("app", nil)
	s.addClient("staff", func(c *provider.Client) {
		c.RequireFlags, c.RequireACR, c.RequireVerifiedEmail, c.AccessLifetime = []string{"activity"}, "2", true, 2*time.Hour
	})
	staff := func(more ...string) string {
		return rp.authURL(append([]string{"client_id", "staff", "redirect_uri", callbackOf("staff"), "scope", "openid"}, more...)...)
	}
	plain, long := []string{"code_challenge", "", "code_challenge_method", ""}, strings.Repeat("x", 70)
	const stolen = "with it a stolen code is worth nothing"
	const wish, must = "users with a factor for one of them are asked", "is essential: for other users"
	const forged, accepted = "cannot tell its own answers from forged ones", "It is missing, which is accepted."
	for _, c := range []struct {
		address    string
		says, lack string
	}{
		{staff(), "The client requires acr 2", "The request asks for"},
		{staff(), "Only users with the flag activity", "works only for a user who has agreed"},
		{staff(), "Only users with a verified email", "which passes"},
		{rp.authURL(), "the sign-in page, unless the browser signed in during the last 10m0s", accepted},
		{rp.authURL(), "outlives the session (offline_access)", stolen},
		{rp.authURL("max_age", "3600"), "unless the browser signed in during the last 10m0s", "1h0m0s"},
		{rp.authURL("max_age", "60"), "unless the browser signed in during the last 1m0s", "10m0s"},
		{rp.authURL("prompt", "select_account"), "may go on as they are", "the page on which people join"},
		{rp.authURL("prompt", "create"), "the page on which people join", "unless the browser"},
		{rp.authURL("prompt", "login"), "also for a browser that is signed in", "may go on as they are"},
		{rp.authURL("prompt", "none"), "works only for a user who has agreed", "the user must have signed in"},
		{rp.authURL("prompt", "none"), "without offline_access, unless", "since at most"},
		{staff("prompt", "none"), "already, since at most 10m0s", "without offline_access"},
		{rp.authURL("id_token_hint", "a.b.c"), "cannot be verified without the keys", "It must be an ID token"},
		{rp.authURL("acr_values", "2"), wish, must}, {rp.authURL("claims", essentialACR), must, wish},
		{rp.authURL(plain...), stolen, forged},
		{rp.authURL(append(plain, "state", "")...), forged, accepted}, {rp.authURL("state", ""), accepted, forged},
		{rp.authURL(), "can be granted; offline_access gives a refresh token", forged},
		{staff(), "{scope ok openid can be granted}", "gives a refresh token"},
		{rp.authURL(long, "1"), fmt.Sprintf("%.64q", long), long},
		{rp.authURL("scope", "profile", "nonce", ""), "Without openid this is plain OAuth 2.0", "the ID token will have none"},
		{rp.authURL(), "{redirect_uri ok", "{max_age ok"}, {rp.authURL(), "{response_type ok", "the ID token will have none"},
		{rp.authURL("response_type", "token"), "{response_type wrong", "{response_type ok"},
		{"?client_id=app", "Registered: " + callbackOf("app"), "The application sent"},
	} {
		e, err := provider.Explain(t.Context(), c.address, provider.Explainer{Storage: s.store, Issuer: s.URL})
		noError(t, err)
		text := fmt.Sprint(e.Findings, e.Steps)
		if !strings.Contains(text, c.says) || strings.Contains(text, c.lack) {
			t.Errorf("%s: want %q and not %q: %s %s", c.address, c.says, c.lack, e.Why, text)
		}
	}
	one := `{"id_token":{"sub":{"value":"x"}}}`
	e, err := provider.Explain(t.Context(), rp.authURL("claims", one), provider.Explainer{Storage: s.store, Issuer: s.URL})
	if noError(t, err); e.Answer != provider.AnswerCode {
		t.Errorf("for one user: %+v", e)
	}
}

func TestExplainAgreesWithTheAnswersOfADevice(t *testing.T) {
	s := startDevices(t, serviceOptions{})
	s.addClient("members", func(c *provider.Client) {
		c.DeviceGrant, c.RequireFlags, c.AuthMethod = true, []string{account.FlagAdmin}, provider.AuthNone
	})
	s.addClient("page", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	s.addAPI(trails, "Trails", func(a *provider.API) { a.Clients = []string{"tool"} })
	for query, want := range map[string]string{
		"client_id=tool&scope=openid+profile&prompt=none": "code", "client_id=tool": "code", "client_id=tool&resource=" + trails: "code",
		"client_id=members&scope=openid": "access_denied", "client_id=page&scope=openid": "unauthorized_client", "client_id=nobody": "invalid_client",
		"client_id=tool&resource=urn:x": "invalid_target", "client_id=tool&scope=a&scope=b": "invalid_request", "": "invalid_client",
		"client_id=tool&acr_values=" + strings.Repeat("a", 5000): "invalid_request",
	} {
		e := s.explain(s.URL+"/oauth2/device_authorization?"+query, "ada")
		form, err := url.ParseQuery(query)
		noError(t, err)
		got, from := s.clientPost("device_authorization", form.Get("client_id"), "", form), s.URL+"/oauth2/device_authorization"
		if got.StatusCode == http.StatusOK {
			d := s.startDevice(form.Get("client_id"), "", form)
			s.browser().typed(d.user, "ada", "allow")
			got, from = d.poll(), s.URL+"/oauth2/token"
		}
		said, really := e.Answer, "code"
		if said == provider.AnswerError {
			said = e.Error
		}
		if got.StatusCode != http.StatusOK {
			really = got.JSON(t)["error"].(string)
		}
		if said != want || really != want || e.SentTo != from || !e.Device {
			t.Errorf("%.60s: explained as %q (%s) from %s, really %q from %s", query, said, e.Why, e.SentTo, really, from)
		}
	}
	if e := s.explain("client_id=tool", "ada"); !strings.Contains(e.Findings[1].Text, "If a device asks, put "+s.URL) {
		t.Errorf("the parameters alone: %+v", e.Findings)
	}
}
