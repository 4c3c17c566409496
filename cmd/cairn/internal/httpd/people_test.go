package httpd

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// What is left out after it was granted ends the tokens that have it.
func TestScopeThatIsLeftOutLaterEndsEarlierTokens(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUserWithEmail("ada")
	rp := s.app("app", func(c *provider.Client) { c.OptionalScopes = []string{"email"} })
	b := s.signedIn("ada")
	tokens := func(scope []string, parameters ...string) map[string]any {
		t.Helper()
		page := b.consentPage(rp.authURL(append(parameters, "scope", "openid email offline_access")...))
		return rp.redeem(answered(t, b.get(b.allow(page, scope...).Header.Get("Location"))).Get("code")).JSON(t)
	}
	first := tokens([]string{"email"})
	same := tokens([]string{"email"}, "prompt", "consent")
	s.wantUserinfo("after the same decision", first["access_token"].(string), http.StatusOK)
	left := tokens(nil, "prompt", "consent")
	for _, earlier := range []map[string]any{first, same} {
		s.wantUserinfo("left out", earlier["access_token"].(string), http.StatusUnauthorized)
		wantInvalidGrant(t, "left out", rp.refresh(earlier["refresh_token"].(string)))
	}
	again := tokens(nil, "prompt", "consent")
	s.wantUserinfo("left out once more", left["access_token"].(string), http.StatusOK)
	if left["scope"] != "openid offline_access" || again["scope"] != left["scope"] {
		t.Errorf("%v, then %v", left["scope"], again["scope"])
	}
}

// Of several that are left out at once each ends what has it, whichever comes last.
func TestEachScopeThatIsLeftOutLaterEndsEarlierTokens(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUserWithEmail("ada")
	rp := s.app("app", func(c *provider.Client) { c.OptionalScopes = []string{"email", "groups", "phone"} }, "openid", "email", "groups", "phone")
	b := s.signedIn("ada")
	given := func(scope ...string) string {
		t.Helper()
		page := b.consentPage(rp.authURL("scope", "openid email groups phone", "prompt", "consent"))
		answer := answered(t, b.get(b.allow(page, scope...).Header.Get("Location")))
		return rp.redeem(answer.Get("code")).text(t, "access_token")
	}
	for _, kept := range []string{"email", "groups", "phone"} {
		token := given(kept)
		given()
		s.wantUserinfo(kept+" is left out with the others", token, http.StatusUnauthorized)
	}
}

// What a person leaves out on the consent page is not granted, by a scope or by the name of a
// claim, and is not asked for again; what is not optional cannot be left out, and a form adds nothing.
func TestOptionalScopesAreLeftOut(t *testing.T) {
	s := startService(t, serviceOptions{})
	ada := s.addUserWithEmail("ada")
	rp := s.app("app", func(c *provider.Client) {
		c.OptionalScopes = []string{"email", "groups"}
		c.Scopes = []string{"openid", "profile", "email", "groups", "offline_access"}
	})
	b := s.signedIn("ada")
	const asked, claims = "openid profile email offline_access", `{"userinfo":{"email":null,"name":null},"id_token":{"email_verified":null}}`
	request := func(more ...string) string {
		return rp.authURL(append([]string{"scope", asked, "claims", claims}, more...)...)
	}
	decide := func(page *response, scope ...string) string {
		t.Helper()
		got := b.allow(*page, scope...)
		wantStatus(t, "the form", got, http.StatusSeeOther)
		return got.Header.Get("Location")
	}
	granted := func(location string, want string) {
		t.Helper()
		_, answer := answerOf(t, b.get(location))
		token := s.tokenRequest("app", rp.config.ClientSecret, rp.codeForm(answer.Get("code"))).JSON(t)
		if token["scope"] != want {
			t.Errorf("granted %v, want %q", token["scope"], want)
		}
		info := s.userinfo(token["access_token"].(string))
		_, there := info["email"]
		_, signed := jwtPayload(t, token["id_token"].(string))["email_verified"]
		if email := strings.Contains(want, "email"); there != email || signed != email || info["name"] != "Ada" {
			t.Errorf("%q: userinfo %v, email_verified in the ID token %v", want, info, signed)
		}
	}
	page := consentPageOf(b, request())
	if got := pageForm(t, page.Text).values["scope"]; !slices.Equal(got, []string{"email"}) {
		t.Fatalf("optional on the page: %v", got)
	}
	// Only email is optional here: profile stays, and groups was not asked for.
	granted(decide(page, "groups", "address"), "openid profile offline_access")
	stored, err := s.store.ConsentedScopes(t.Context(), ada.Sub, "app")
	if noError(t, err); !slices.Equal(stored, []string{"offline_access", "openid", "profile"}) {
		t.Errorf("stored: %v", stored)
	}
	if consentPageOf(b, request()) != nil {
		t.Error("asked again for what was left out")
	}
	mail := s.app("mail", func(c *provider.Client) { c.OptionalScopes = []string{"email"} }, "email")
	if decide(consentPageOf(b, mail.authURL())); consentPageOf(b, mail.authURL()) != nil {
		t.Error("asked again where all was left out")
	}
	granted(request("prompt", "none"), "openid profile offline_access")
	// A new scope is asked for alone, and email stays left out.
	page = consentPageOf(b, request("scope", asked+" groups"))
	if shown := scopesShown(t, page.Text); !slices.Equal(shown, []string{"groups"}) {
		t.Fatalf("asked for %v", shown)
	}
	granted(decide(page, "groups", "email"), "openid profile offline_access groups")
	// prompt=consent shows all of it again; the last word counts.
	page = consentPageOf(b, request("prompt", "consent"))
	if shown := scopesShown(t, page.Text); !slices.Equal(shown, []string{"openid", "profile", "email", "offline_access"}) || pageForm(t, page.Text).values["scope"] != nil {
		t.Errorf("prompt=consent shows %v", shown)
	}
	allowed := decide(page, "email")
	// What another tab leaves out before the decision comes back is not granted either.
	decide(consentPageOf(b, request("prompt", "consent")))
	granted(allowed, "openid profile offline_access")
	granted(decide(consentPageOf(b, request("prompt", "consent")), "email"), asked)
	granted(request(), asked)
	// What is no longer optional is asked for; an application that was removed starts anew.
	decide(consentPageOf(b, request("prompt", "consent")))
	wantStatus(t, "remove", b.postForm("/account/apps/remove", map[string][]string{"client_id": {"app"}, "sure": {"yes"}}), http.StatusSeeOther)
	if page = consentPageOf(b, request()); page == nil || !slices.Equal(pageForm(t, page.Text).values["scope"], []string{"email"}) {
		t.Error("the refusal outlived the removal of the application")
	}
}

// The Apps page shows what the person may use and has let in, and nothing else.
func TestAppsPageShowsWhatThePersonMayUse(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", "activity")
	home := func(id, flag string) func(*provider.Client) {
		return func(c *provider.Client) {
			c.HomeURI, c.RequireFlags = "https://"+id+".example.org/start?a=1", strings.Fields(flag)
		}
	}
	var file bytes.Buffer
	noError(t, png.Encode(&file, image.NewGray(image.Rect(0, 0, 9, 9))))
	picture, err := account.NewPicture(file.Bytes())
	noError(t, err)
	maps := s.app("maps", func(c *provider.Client) { home("maps", "activity")(c); c.Logo = picture })
	s.addClient("board", home("board", "board"))
	s.addClient("tool", func(c *provider.Client) { home("tool", "")(c); c.RedirectURIs, c.ClientCredentials = nil, true })
	s.addClient("plainer", nil) // its redirect URI tells where it is
	plain := s.app("plain", nil)
	b := s.signedIn("ada")
	tiles := func(want ...string) string {
		t.Helper()
		page := b.get("/account/apps").Text
		var got []string
		for _, part := range strings.Split(page, `data-app="`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			got = append(got, id)
		}
		sameList(t, "tiles", got, want)
		return page
	}
	logo := "/logo/" + picture.Hash + ".png"
	for _, part := range []string{`<a class="name" href="https://maps.example.org/start?a=1">`, ">maps.example.org<", `src="` + logo, "You have not used it yet"} {
		if page := tiles("maps", "plain", "plainer"); !strings.Contains(page, part) {
			t.Errorf("%s is not on the page: %s", part, mainOf(page))
		}
	}
	b.authorize(plain.authURL(), "ada")
	if page := tiles("maps", "plain", "plainer"); !strings.Contains(page, `<span class="app-logo initial" aria-hidden="true">A</span>`) {
		t.Errorf("no initial: %s", mainOf(page))
	}
	// Sign-in and consent show the logo, which browsers keep and do not run.
	login := s.browser()
	has(t, "no logo on the sign-in page",
		login.get(login.get(maps.authURL()).Header.Get("Location")).Text, `src="`+logo)
	has(t, "no logo on the consent page", consentPageOf(b, maps.authURL()).Text, `src="`+logo)
	got := login.get(logo)
	h := got.Header
	if !bytes.Equal([]byte(got.Text), picture.PNG) || h.Get("Content-Type") != "image/png" || h.Get("X-Content-Type-Options") != "nosniff" ||
		h.Get("Content-Security-Policy") != "default-src 'none'; frame-ancestors 'none'" || !strings.Contains(h.Get("Cache-Control"), "immutable") {
		t.Errorf("%d %v", got.StatusCode, h)
	}
	// A change of something else keeps the logo.
	c, err := s.store.Client(t.Context(), "maps")
	noError(t, err)
	c.Name = "Karten"
	noError(t, s.store.UpdateClient(t.Context(), c, account.Operator().Audit(time.Now(), account.UpdateClient, "", "")))
	wantStatus(t, "kept", login.get(logo), http.StatusOK)
	c.Logo = account.Picture{}
	noError(t, s.store.UpdateClient(t.Context(), c, account.Operator().Audit(time.Now(), account.UpdateClient, "", "")))
	wantStatus(t, "removed", login.get(logo), http.StatusNotFound)
	wantStatus(t, "NUL", login.get("/logo/a%00b.png"), http.StatusNotFound)
}
