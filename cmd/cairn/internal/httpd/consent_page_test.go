package httpd

import (
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// The page shows the very values that the application would get.
func TestConsentShowsWhatIsGiven(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", account.FlagAdmin, account.FlagActivity)
	s.addUser("bob")
	b := s.browser()
	b.signIn("ada")
	b.api("PATCH", "/api/me", map[string]any{"display_name": "Ada Lovelace", "email": "ada@example.org", "birthdate": "1815-12-10"})
	plain := s.browser()
	plain.signIn("bob")
	s.addClient("roles", func(c *provider.Client) { c.Groups = []string{account.FlagAdmin} })
	rp := s.relyingParty("app", s.addClient("app", nil), "openid", "profile", "email", "groups", "phone", "offline_access")
	for _, k := range []struct {
		name   string
		page   response
		scopes map[string]string
	}{
		{"ada", b.consentPage(rp.authURL()), map[string]string{
			"openid": "Sign you in", "profile": "Your name (Ada Lovelace)With your handle (ada), birthdate", "email": "Your email (ada@example.org)", "groups": "Your groups: activity",
			"phone": "Your phone number (none is stored)", "offline_access": "Stay signed in while you are away",
		}},
		{"bob", plain.consentPage(rp.authURL()), map[string]string{"profile": "Your name (Bob)With your handle (bob)", "email": "Your email (none is stored)", "groups": "Your groups: none"}},
		{"the client's own groups", b.consentPage(rp.authURL("client_id", "roles", "redirect_uri", callbackOf("roles"))), map[string]string{"groups": "Your groups: admin"}},
	} {
		got := map[string]string{}
		doc, err := html.Parse(strings.NewReader(k.page.Text))
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if scope := attribute(n, "data-scope"); scope != "" {
				got[scope] = elementText(n)
			}
		}
		for scope, want := range k.scopes {
			if got[scope] != want {
				t.Errorf("%s, %s: %q, want %q", k.name, scope, got[scope], want)
			}
		}
	}
	if page := b.consentPage(rp.authURL()).Text; strings.Contains(page, "Application id") || !strings.Contains(page[strings.Index(page, `class="fine"`):], "<code>app</code>") {
		t.Errorf("the id is not in the small print: %s", mainOf(page))
	}
}

// consentPage follows an authorization request of a signed-in browser to the page.
func (b *browser) consentPage(authURL string) response {
	b.t.Helper()
	got := b.get(b.get(authURL).Header.Get("Location"))
	if pageName(b.t, got.Text) != "consent" {
		b.t.Fatalf("%d %s", got.StatusCode, mainOf(got.Text))
	}
	return got
}

func elementText(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}
