package provider_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/provider"
)

func TestClientIsHeldToTheRulesAsAWhole(t *testing.T) {
	good := func() *provider.Client {
		c := provider.NewClient("app", "App", time.Now())
		c.RedirectURIs = []string{"https://app.example.org/cb"}
		return c
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		member string
		change func(*provider.Client)
	}{
		{"client_id", func(c *provider.Client) { c.ID = "" }},
		{"client_id", func(c *provider.Client) { c.ID = "a b" }},
		{"client_id", func(c *provider.Client) { c.ID = strings.Repeat("a", 65) }},
		{"client_id", func(c *provider.Client) { c.ID = "activity" }},
		{"client_id", func(c *provider.Client) { c.ID = "ACTIVITY" }},
		{"client_name", func(c *provider.Client) { c.Name = "" }},
		{"client_name", func(c *provider.Client) { c.Name = "App\n" }},
		{"redirect_uris", func(c *provider.Client) { c.RedirectURIs = nil }},
		{"redirect_uris", func(c *provider.Client) { c.RedirectURIs = append(c.RedirectURIs, "javascript:alert(1)") }},
		{"redirect_uris", func(c *provider.Client) { c.RedirectURIs = []string{"http://app.example.org/cb"} }},
		{"post_logout_redirect_uris", func(c *provider.Client) { c.PostLogoutRedirectURIs = []string{"https://app.example.org/#x"} }},
		{"backchannel_logout_uri", func(c *provider.Client) { c.BackchannelLogoutURI = "https://10.0.0.1/logout" }},
		{"scopes", func(c *provider.Client) { c.Scopes = []string{"openid", "admin"} }},
		{"require_flag", func(c *provider.Client) { c.RequireFlag = "No" }},
		{"groups", func(c *provider.Client) { c.Groups = []string{"activity", ""} }},
		{"token_endpoint_auth_method", func(c *provider.Client) { c.AuthMethod = "" }},
		{"jwks", func(c *provider.Client) { c.AuthMethod = provider.AuthJWT }},
		{"jwks", func(c *provider.Client) { c.JWKS = []byte(`{"keys":[]}`) }},
		{"refresh_grace", func(c *provider.Client) { c.RefreshGrace = 61 * time.Second }},
		{"refresh_grace", func(c *provider.Client) { c.AuthMethod, c.RefreshGrace = provider.AuthNone, time.Second }},
		{"client_credentials", func(c *provider.Client) { c.AuthMethod, c.ClientCredentials = provider.AuthNone, true }},
	} {
		bad := good()
		c.change(bad)
		var broken *provider.RegistrationError
		if err := bad.Check(); !errors.As(err, &broken) || broken.Member != c.member {
			t.Errorf("%v, want an error about %s", err, c.member)
		}
	}
}

func TestOperatorIsWarnedOfLocalhostOnAnyPort(t *testing.T) {
	c := provider.NewClient("app", "App", time.Now())
	c.RedirectURIs = []string{"http://localhost/cb", "http://localhost:3000/cb", "http://127.0.0.1/cb"}
	if got := c.Warnings(); len(got) != 0 {
		t.Errorf("a confidential client matches exactly, and yet: %q", got)
	}
	c.AuthMethod = provider.AuthNone
	if got := c.Warnings(); len(got) != 1 || !strings.Contains(got[0], "http://localhost/cb ") {
		t.Errorf("warnings %q", got)
	}
}

func TestBackchannelLogoutURIsNeverPointElsewhere(t *testing.T) {
	for _, c := range []struct {
		uri     string
		private bool
		want    string // part of the refusal, empty: accepted
	}{
		{"https://app.example.org/logout", false, ""},
		{"https://app.example.org:8443/logout?tenant=1", false, ""},
		{"http://localhost:4041/logout", true, ""},
		{"http://127.0.0.1/logout", true, ""},
		{"http://[::1]:9/logout", true, ""},
		{"https://10.0.0.7/logout", true, ""},
		{"http://localhost:4041/logout", false, "--allow-private-backchannel"},
		{"https://10.0.0.7/logout", false, "--allow-private-backchannel"},
		{"https://169.254.169.254/latest", false, "--allow-private-backchannel"},
		{"https://[::ffff:10.0.0.7]/logout", false, "--allow-private-backchannel"},
		{"https://0.0.0.0/logout", false, "--allow-private-backchannel"},
		{"http://app.example.org/logout", true, "http is only for this machine"},
		{"http://10.0.0.7/logout", true, "http is only for this machine"},
		{"http://localhost.example.org/logout", true, "http is only for this machine"},
		{"https://app.example.org/logout#x", true, "no fragment"},
		{"https://app.example.org/logout#", true, "no fragment"},
		{"https://user:pw@app.example.org/logout", true, "no user name"},
		{"https://@app.example.org/logout", true, "no user name"},
		{"https:///logout", true, "not an absolute URL"},
		{"https:app.example.org", true, "not an absolute URL"},
		{"ftp://app.example.org/logout", true, "not an absolute URL"},
		{"/logout", true, "not an absolute URL"},
		{"", true, "1 to 2,000 characters"},
		{"https://app.example.org/" + strings.Repeat("x", 2000), true, "1 to 2,000 characters"},
		{"https://app.example.org/ x", true, "printable ASCII"},
		{"https://app.example.org\\@evil.example/", true, "printable ASCII"},
		{"https://app.example.org:/logout", true, "remove the colon"},
	} {
		err := provider.CheckBackchannelLogoutURI(c.uri, c.private)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q private=%v: %v, want %q", c.uri, c.private, err, c.want)
		}
	}
}
