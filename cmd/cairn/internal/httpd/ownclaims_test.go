package httpd

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/provider"
)

// amend changes a user as the operator does.
func (s *service) amend(u account.User, change account.UserChange) {
	s.t.Helper()
	_, err := roster.NewAdministration(s.store, nil).Amend(s.t.Context(), account.Operator(), u, change)
	noError(s.t, err)
}

// lateClock is a clock for serviceOptions.Now that a test moves on, past what an instance remembers.
// It is never ahead of the real time.
func lateClock() (now func() time.Time, later func()) {
	var minutes atomic.Int64
	begin := time.Now().Add(-5 * time.Minute)
	return func() time.Time { return begin.Add(time.Duration(minutes.Load()) * time.Minute) }, func() { minutes.Add(1) }
}

// What a rule tells of a person is on the consent page, and in tokens only after they have agreed: in
// those of an earlier grant it never is.
func TestOwnClaimsFollowConsent(t *testing.T) {
	now, later := lateClock()
	s := startService(t, serviceOptions{Now: now})
	ada := s.addUserWithEmail("ada")
	s.addUser("eve", account.FlagActivity)
	rp := s.app("app", func(c *provider.Client) {
		c.Claims = []string{"role=editor if activity", "role=viewer", "preferred_username={email}", "sms={phone_number}", "tenant=club"}
	}, "openid", "offline_access")
	b := s.signedIn("ada")
	page := b.consentPage(rp.authURL())
	if got, want := scopesShown(t, page.Text), []string{"openid", "offline_access", "{flag:activity}", "{email}", "{phone_number}"}; !slices.Equal(got, want) {
		t.Fatalf("the page shows %q, want %q", got, want)
	}
	for _, told := range []string{"Your email (ada@example.org)", "Your phone number (none saved)", "Whether you are in the group activity"} {
		has(t, "the page", page.Text, told)
	}
	id, info, token := s.claimsOfFlow(rp, "ada")
	for place, claims := range map[string]map[string]any{"ID token": id, "userinfo": info} {
		if _, there := claims["preferred_username"]; there || claims["role"] != "viewer" || claims["tenant"] != "club" {
			t.Errorf("%s: %v: want the role viewer, and no address that is not verified", place, claims)
		}
	}
	for _, told := range []string{"Your email address", "Your phone number", "Whether you are in the group activity"} {
		has(t, "what the application sees", mainOf(b.get("/account/apps").Text), told)
	}
	s.amend(ada, account.UserChange{"email_verified": "true"})
	if got := s.userinfo(token.AccessToken); got["preferred_username"] != "ada@example.org" || got["email"] != nil {
		t.Errorf("with a verified address: %v", got)
	}
	if id, _, _ := s.claimsOfFlow(rp, "eve"); id["role"] != "editor" || id["preferred_username"] != nil {
		t.Errorf("eve's ID token: %v", id)
	}
	// The rules grow: the grant tells nothing new, not even the claim of the next rule, and the page asks.
	c, err := s.store.Client(t.Context(), "app")
	noError(t, err)
	c.Claims = append([]string{"role=guest if admin", "name_here={name}", "born={birthdate}"}, c.Claims...)
	noError(t, s.store.UpdateClient(t.Context(), c, operator(account.UpdateClient, "app", "")))
	later()
	if got := s.userinfo(token.AccessToken); got["role"] != nil || got["name_here"] != nil || got["tenant"] != "club" {
		t.Errorf("an earlier grant after the rules grew: %v", got)
	}
	wantAnswer(t, "without a page", answered(t, b.get(rp.authURL("prompt", "none"))), "consent_required")
	b = s.signedIn("ada")
	page = b.consentPage(rp.authURL())
	sameList(t, "the page asks again", scopesShown(t, page.Text), []string{"{flag:admin}", "{name}", "{birthdate}"})
	has(t, "the page", page.Text, "From your profile: birthdate")
	if id, _, _ := s.claimsOfFlow(rp, "ada"); id["role"] != "viewer" || id["name_here"] != "Ada" {
		t.Errorf("after the new consent: %v", id)
	}
	e := s.explain(rp.authURL(), "ada")
	if e.User.IDToken["role"] != "viewer" || !slices.Contains(e.User.Consented, "{name}") {
		t.Errorf("explain: %v", e.User)
	}
}

// A scope that tells the same covers it, unless the person leaves it out.
func TestOwnClaimsWithAScope(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.amend(s.addUserWithEmail("ada"), account.UserChange{"email_verified": "true"})
	rp := s.app("app", func(c *provider.Client) {
		c.Claims, c.ClaimIn, c.OptionalScopes = []string{"mail={email}"}, []string{"userinfo"}, []string{"email"}
	}, "openid", "email")
	b := s.signedIn("ada")
	page := b.consentPage(rp.authURL())
	if got := scopesShown(t, page.Text); !slices.Equal(got, []string{"openid", "email"}) {
		t.Fatalf("the page shows %q", got)
	}
	token, err := rp.exchange(answered(t, b.get(b.allow(page).Header.Get("Location"))).Get("code"))
	noError(t, err)
	if got := s.userinfo(token.AccessToken); got["mail"] != nil || got["email"] != nil {
		t.Errorf("what was left out: %v", got)
	}
	for name, scopes := range map[string][]string{"trusted": {"openid"}, "covered": {"openid", "email"}, "bare": {"openid"}} {
		rp := s.app(name, func(c *provider.Client) {
			c.Claims, c.ClaimIn, c.Trusted = []string{"mail={email}"}, []string{"userinfo"}, true
			if name == "bare" { // where the claims of scopes are
				c.ClaimIn, c.IDTokenClaims = nil, false
			}
		}, scopes...)
		if id, info, _ := s.claimsOfFlow(rp, "ada"); id["mail"] != nil || info["mail"] != "ada@example.org" {
			t.Errorf("%s, only at userinfo: %v, %v", name, id, info)
		}
	}
}

// The scope groups reveals whether somebody has a flag only if the client's groups name that flag.
func TestGroupsCoverNoFlagThatTheyLeaveOut(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", account.FlagActivity)
	rp := s.app("app", func(c *provider.Client) {
		c.Groups, c.Claims = []string{"coach"}, []string{"runner=yes if activity", "trainer=yes if coach"}
	}, "openid", "groups")
	page := s.signedIn("ada").consentPage(rp.authURL())
	sameList(t, "the page shows", scopesShown(t, page.Text), []string{"openid", "groups", "{flag:activity}"})
}

// Members type their number themselves: it is told to nobody as a claim before it is verified.
func TestOwnClaimHasNoNumberThatIsNotVerified(t *testing.T) {
	s := startService(t, serviceOptions{})
	ada := s.addUser("ada")
	rp := s.app("app", func(c *provider.Client) { c.Claims, c.Trusted = []string{"sms={phone_number}"}, true }, "openid")
	s.amend(ada, account.UserChange{"phone_number": "+39061234567"})
	if id, info, _ := s.claimsOfFlow(rp, "ada"); id["sms"] != nil || info["sms"] != nil {
		t.Errorf("not verified: %v, %v", id, info)
	}
	s.amend(ada, account.UserChange{"phone_number_verified": "true"})
	if id, _, _ := s.claimsOfFlow(rp, "ada"); id["sms"] != "+39061234567" {
		t.Errorf("verified: %v", id)
	}
}

// An API has claims of its own in its tokens, and those that the client has there; its introspection
// has them too. The client's own token speaks of nobody.
func TestOwnClaimsOfAPIs(t *testing.T) {
	now, later := lateClock()
	s, _, _ := startAPIs(t, serviceOptions{Now: now})
	const shop = "https://shop.example.org"
	for uri, opaque := range map[string]bool{shop: false, "urn:opaque": true} {
		s.addAPI(uri, "Shop", func(a *provider.API) {
			a.AllClients, a.Opaque, a.Claims = true, opaque, []string{"role=member if activity", "role=none", "who={handle}"}
		})
	}
	rp := s.app("buyer", func(c *provider.Client) {
		c.Claims, c.ClaimIn, c.ClientCredentials = []string{"lang={locale}", "shop=yes"}, []string{"access_token"}, true
	}, "openid")
	b := s.signedIn("ada")
	sameList(t, "the page shows", scopesShown(t, b.consentPage(rp.authURL("resource", shop)).Text),
		[]string{"openid", "{locale}", "{flag:activity}", "{handle}"})
	sameList(t, "without the API", scopesShown(t, b.consentPage(rp.authURL()).Text), []string{"openid", "{locale}"})
	id, _, token := s.claimsOfFlow(rp, "ada", "resource", shop)
	got := jwtPayload(t, token.AccessToken)
	if got["role"] != "member" || got["who"] != "ada" || got["shop"] != "yes" || got["lang"] != nil || id["shop"] != nil {
		t.Errorf("access token %v, ID token %v", got, id)
	}
	e := s.explain(rp.authURL("resource", shop), "ada")
	same(t, fmt.Sprintf("explain: %v", e.User.AccessToken), e.User.AccessToken["role"], "member")
	all, err := s.store.APIs(t.Context())
	noError(t, err)
	i := slices.IndexFunc(all, func(a *provider.API) bool { return a.URI == "urn:opaque" })
	_, _, token = s.claimsOfFlow(rp, "ada", "resource", "urn:opaque")
	secret, stored := provider.NewSecret(time.Now())
	noError(t, s.store.RotateAPISecret(t.Context(), "urn:opaque", stored, time.Now(), true, operator(account.RenewAPI, "", "")))
	later()
	if got := s.introspect(all[i].ID, secret, token.AccessToken); got["role"] != "member" || got["username"] != "ada" {
		t.Errorf("introspection: %v", got)
	}
	own := rp.token(map[string][]string{"grant_type": {"client_credentials"}, "resource": {shop}}).JSON(t)
	if got := jwtPayload(t, own["access_token"].(string)); got["role"] != nil || got["shop"] != nil {
		t.Errorf("the client's own token: %v", got)
	}
}

// A client may have other lifetimes than the usual ones: the shorter one of an API counts, and a chain
// of refreshes ends at its latest.
func TestLifetimesOfAClient(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{}, "ada")
	s.addAPI(maps3, "Maps", func(a *provider.API) { a.AllClients, a.Lifetime = true, 10*time.Minute })
	short := s.app("short", func(c *provider.Client) {
		c.AccessLifetime, c.RefreshLifetime, c.RefreshMaxLifetime = 5*time.Minute, 24*time.Hour, 48*time.Hour
	}, "openid", "offline_access")
	long := s.app("long", func(c *provider.Client) { c.AccessLifetime = 24 * time.Hour }, "openid")
	tokens := func(rp *relyingParty, seconds float64, more ...string) map[string]any {
		t.Helper()
		answer := rp.redeem(s.browser().authorize(rp.authURL(more...), "ada").Get("code")).JSON(t)
		if answer["expires_in"] != seconds {
			t.Errorf("%s: a lifetime of %v, want %v", rp.config.ClientID, answer["expires_in"], seconds)
		}
		return answer
	}
	api := jwtPayload(t, tokens(short, 300, "resource", maps3)["access_token"].(string))
	same(t, fmt.Sprintf("the token of an API: %v", api), api["exp"].(float64)-api["iat"].(float64), 300)
	tokens(long, 600, "resource", maps3)
	tokens(long, 86400)
	first := tokens(short, 300)
	if about := short.introspect(first["access_token"].(string)); about["exp"].(float64)-about["iat"].(float64) > 301 {
		t.Errorf("introspection: %v", about)
	}
	expires := func(token any) time.Duration {
		_, signature, _ := strings.Cut(token.(string), ".")
		stored, err := s.store.Token(t.Context(), signature)
		noError(t, err)
		return stored.Expires.Sub(stored.Grant.CreatedAt)
	}
	if a, r := expires(first["access_token"]), expires(first["refresh_token"]); a > 301*time.Second || r < 24*time.Hour || r > 24*time.Hour+2*time.Second {
		t.Errorf("stored lifetimes %v and %v", a, r)
	}
	// The sign-in was 47 hours ago, then 49.
	db.exec("UPDATE grants SET created_at = created_at - 47 * 3600")
	second := short.refresh(first["refresh_token"].(string)).JSON(t)
	same(t, "the last refresh token lives until, after the sign-in", expires(second["refresh_token"]), 48*time.Hour)
	db.exec("UPDATE grants SET created_at = created_at - 2 * 3600")
	wantInvalidGrant(t, "after the end of the chain", short.refresh(second["refresh_token"].(string)))
}

// What administrators enter for a member is theirs alone to change, is shown to the member, and goes to
// the applications whose claims name it, once the member agrees.
func TestAttributesOfAMember(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("root1", account.FlagAdmin)
	s.addUser("ada")
	root, ada := s.signedIn("root1"), s.signedIn("ada")
	patch := func(b *browser, path, body string) response { return b.api("PATCH", path, body) }
	const path, number = "/api/admin/users/ada", `{"attributes":{"member_number":"4711"}}`
	if got := patch(root, path, number); got.StatusCode != 400 ||
		!strings.Contains(got.Text, `"/attributes/member_number"`) ||
		!strings.Contains(got.Text, "is not in the settings of this service") {
		t.Errorf("not declared: %d %s", got.StatusCode, got.Text)
	}
	root.api("PUT", "/api/admin/settings", `{"attributes":["member_number","squad"]}`)
	for _, body := range []string{number, `{"attributes":{"squad":"` + strings.Repeat("ü", 200) + `"}}`, `{"attributes":{"squad":null,"gone":""}}`} {
		if got := patch(root, path, body); got.StatusCode != 200 || got.JSON(t)["attributes"].(map[string]any)["member_number"] != "4711" {
			t.Errorf("%s: %d %s", body, got.StatusCode, got.Text)
		}
	}
	for body, pointer := range map[string]string{
		`{"attributes":{"squad":"` + strings.Repeat("x", 201) + `"}}`: "/attributes/squad", `{"attributes":{"squad":"a\u0007"}}`: "/attributes/squad",
		`{"attributes":{"member_number":"1","squad":7}}`: "/attributes/squad", `{"attributes":"x"}`: "/attributes", `{"attributes":{"member_number":"1","A":"1"}}`: "/attributes/A",
	} {
		if got := patch(root, path, body); got.StatusCode != 400 || !strings.Contains(got.Text, pointer+`"`) {
			t.Errorf("%.40s: %d %s", body, got.StatusCode, got.Text)
		}
	}
	if got := patch(ada, "/api/me", number); got.StatusCode != 400 {
		t.Errorf("by herself: %d %s", got.StatusCode, got.Text)
	}
	page := root.get("/admin/users/ada").Text
	f := pageForm(t, page[strings.Index(page, `id="profile"`):])
	if f.values.Get("attributes.member_number") != "4711" || !f.values.Has("attributes.squad") {
		t.Fatalf("the administrator's page has %v", f.values)
	}
	f.values.Set("attributes.squad", "Blue")
	if got := root.postForm(f.action, f.values); got.StatusCode != 303 {
		t.Errorf("saved: %d %s", got.StatusCode, got.Text)
	}
	for what, got := range map[string]response{"me": ada.get("/api/me"), "the data page": ada.get("/account/data"), "the export": ada.postForm("/account/export", nil)} {
		if !strings.Contains(got.Text, "4711") || !strings.Contains(got.Text, "Blue") {
			t.Errorf("%s does not show them: %s", what, got.Text)
		}
	}
	rp := s.app("app", func(c *provider.Client) { c.Claims = []string{"number=No. {attribute:member_number}"} }, "openid")
	if consent := ada.consentPage(rp.authURL()).Text; !strings.Contains(consent,
		"What administrators saved about you as member_number") || !strings.Contains(consent, "4711") {
		t.Error("the consent page does not say it")
	}
	id, info, _ := s.claimsOfFlow(rp, "ada")
	if id["number"] != "No. 4711" || info["number"] != "No. 4711" || len(info) != 2 {
		t.Errorf("ID token %v, userinfo %v", id, info)
	}
	same(t, "audit rows",
		db.count("SELECT count(*) FROM audit WHERE action = 'user.amend' AND detail LIKE 'attributes.%'"), 4)
	if got := root.call("DELETE /api/admin/users/ada"); got.StatusCode != 204 || db.count("SELECT count(*) FROM users WHERE profile LIKE '%4711%'") != 0 {
		t.Errorf("after the deletion: %d, or the number is still there", got.StatusCode)
	}
}

// Some applications accept a number or a boolean only: after json: a value has its type.
func TestOwnClaimsHaveTypes(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", account.FlagActivity)
	rp := s.app("app", func(c *provider.Client) {
		c.Claims, c.Trusted = []string{
			"immich_quota=json:10", "isadmin=json:true if activity", "isadmin=json:false", "who=json:[\"{handle}\", 2.5, false]",
			"word=json:\"10\"", "uid={sub}", "full={nickname} {handle}", "plain=10", "large=json:9007199254740992",
		}, true
	}, "openid")
	id, info, token := s.claimsOfFlow(rp, "ada")
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(rawIDToken(token), ".")[1])
	noError(t, err)
	if !strings.Contains(string(payload), `"large":9007199254740992`) { // without an exponent
		t.Errorf("ID token %s", payload)
	}
	for place, claims := range map[string]map[string]any{"ID token": id, "userinfo": info} {
		for name, want := range map[string]any{
			"immich_quota": 10.0, "isadmin": true, "who": []any{"ada", 2.5, false}, "word": "10", "plain": "10", "uid": claims["sub"], "full": nil, "large": float64(1 << 53),
		} {
			if !reflect.DeepEqual(claims[name], want) {
				t.Errorf("%s: %s is %#v, want %#v", place, name, claims[name], want)
			}
		}
	}
}

// Members choose their handles: where a rule gives nothing, the handle must not stand for what it gives
// to others, neither in the client's claims nor at the introspection.
func TestClaimWithARuleIsNeverTheHandle(t *testing.T) {
	now, later := lateClock()
	s, _, _ := startAPIs(t, serviceOptions{Now: now})
	s.addUser("4711")
	s.addAPI("urn:members", "Members", func(a *provider.API) {
		a.AllClients, a.Opaque, a.Claims = true, true, []string{"username={attribute:member_number}"}
	})
	rp := s.app("shop", func(c *provider.Client) {
		c.Claims, c.Trusted = []string{"preferred_username={attribute:member_number}"}, true
	}, "openid", "profile")
	id, info, token := s.claimsOfFlow(rp, "4711", "resource", "urn:members")
	for place, claims := range map[string]map[string]any{"ID token": id, "userinfo": info} {
		if _, there := claims["preferred_username"]; there || claims["name"] == nil {
			t.Errorf("%s: %v: want no preferred_username", place, claims)
		}
	}
	all, err := s.store.APIs(t.Context())
	noError(t, err)
	i := slices.IndexFunc(all, func(a *provider.API) bool { return a.URI == "urn:members" })
	secret, stored := provider.NewSecret(time.Now())
	noError(t, s.store.RotateAPISecret(t.Context(), "urn:members", stored, time.Now(), true, operator(account.RenewAPI, "", "")))
	later()
	if got := s.introspect(all[i].ID, secret, token.AccessToken); got["username"] != nil || got["active"] != true {
		t.Errorf("introspection: %v", got)
	}
	if _, info, _ := s.claimsOfFlow(s.app("plain", nil, "openid", "profile"), "4711"); info["preferred_username"] != "4711" {
		t.Errorf("a client without rules: %v", info)
	}
}

// More flags than fit into the session cookie are possible, and the settings say which are in it. What
// could make it too large is refused when it is set.
func TestFlagsOfTheSessionCookie(t *testing.T) {
	s := startService(t, serviceOptions{})
	many := make([]string, 254)
	for i := range many {
		many[i] = fmt.Sprintf("flag%03d-%s", i, strings.Repeat("x", 24))
	}
	root := s.joined("root1", account.FlagAdmin)
	set := func(change map[string]any) (int, string) {
		t.Helper()
		got := root.api("PUT", "/api/admin/settings", change)
		return got.StatusCode, got.Text
	}
	for _, c := range []struct {
		flags, session []string
		why            string
	}{
		{many[:30], nil, ""}, {many[:31], nil, "name the ones in the session cookie"}, {many, many[:60], "larger than 3,500 bytes"},
		{many, []string{"captain"}, "only permissions that exist here"}, {append(many, "one-more"), many[:1], "at most 256 permissions"},
		{many, append([]string{account.FlagAdmin}, many[:31]...), ""},
	} {
		status, text := set(map[string]any{"flags": c.flags, "session_flags": c.session})
		if (status == 200) != (c.why == "") || !strings.Contains(text, c.why) {
			t.Errorf("%d flags, %d in the session: %d %s, want %q", len(c.flags), len(c.session), status, text, c.why)
		}
	}
	s.addUser("ada", append([]string{account.FlagActivity, account.FlagAdmin}, many...)...)
	ada := s.signedIn("ada")
	token := ada.cookie("cairn_session")
	if groups := jwtPayload(t, token)["groups"].([]any); len(groups) != 32 || len(token) > 3500 {
		t.Errorf("%d groups in %d bytes", len(groups), len(token))
	}
	if got := ada.get("/api/me").JSON(t)["flags"].(map[string]any); len(got) != 256 || got[many[200]] != true {
		t.Errorf("the service itself knows %d flags", len(got))
	}
}
