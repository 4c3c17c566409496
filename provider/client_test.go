package provider_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

func TestClientIsHeldToTheRulesAsAWhole(t *testing.T) {
	good := func() *provider.Client {
		c := provider.NewClient("app", "App", time.Now())
		c.RedirectURIs = []string{"https://app.example.org/cb"}
		return c
	}
	must(t, good().Check())
	described := func(change func(*provider.Client)) func(*provider.Client) {
		return func(c *provider.Client) {
			c.ID, c.Document, c.AuthMethod, c.RequirePKCE = "https://agent.example.org/client.json", true, provider.AuthNone, true
			change(c)
		}
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
		{"require_flags", func(c *provider.Client) { c.RequireFlags = []string{"No"} }},
		{"groups", func(c *provider.Client) { c.Groups = []string{"activity", ""} }},
		{"require_acr", func(c *provider.Client) { c.RequireACR = "3" }},
		{"claim_in", func(c *provider.Client) { c.ClaimIn = []string{"cookie"} }},
		{"token_endpoint_auth_method", func(c *provider.Client) { c.AuthMethod = "" }},
		{"jwks", func(c *provider.Client) { c.AuthMethod = provider.AuthJWT }},
		{"jwks", func(c *provider.Client) { c.JWKS = []byte(`{"keys":[]}`) }},
		{"id_token_signed_response_alg", func(c *provider.Client) { c.IDTokenAlg = "none" }},
		{"id_token_signed_response_alg", func(c *provider.Client) { c.IDTokenAlg = "HS256" }},
		{"refresh_grace_seconds", func(c *provider.Client) { c.RefreshGrace = 61 * time.Second }},
		{"refresh_grace_seconds", func(c *provider.Client) { c.RefreshGrace = 1500 * time.Millisecond }},
		{"refresh_grace_seconds", func(c *provider.Client) { c.AuthMethod, c.RefreshGrace = provider.AuthNone, time.Second }},
		{"profile", func(c *provider.Client) { c.Profile = "fapi1" }},
		{"claims", func(c *provider.Client) { c.Claims = strings.Split(strings.Repeat("a=x if b,", 50)+"a=x", ",") }},
		{"client_id", described(func(c *provider.Client) { c.ID = "http://agent.example.org/client.json" })},
		{"client_id", described(func(c *provider.Client) { c.ID = "https://agent.example.org/./client.json" })},
		{"client_id", described(func(c *provider.Client) { c.ID += strings.Repeat("a", 512) })},
		{"token_endpoint_auth_method", described(func(c *provider.Client) { c.AuthMethod = provider.AuthBasic })},
		{"client_id", described(func(c *provider.Client) { c.Trusted = true })},
		{"client_id", described(func(c *provider.Client) { c.ClientCredentials = true })},
		{"client_id", described(func(c *provider.Client) { c.DeviceGrant = true })},
		{"client_id", described(func(c *provider.Client) { c.RequirePKCE = false })},
		{"client_id", described(func(c *provider.Client) { c.BackchannelLogoutURI = "https://agent.example.org/logout" })},
		{"client_id", described(func(c *provider.Client) { c.AllowInsecureRedirect = true })},
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

func TestAPIIsHeldToTheRules(t *testing.T) {
	scope := func(name, sentence string) func(*provider.API) {
		return func(a *provider.API) { a.Scopes = append(a.Scopes, provider.APIScope{Name: name, Sentence: sentence}) }
	}
	for _, c := range []struct {
		reason string
		change func(*provider.API)
	}{
		{"", func(a *provider.API) { a.URI = "urn:example:api" }},
		{"not an https, http or urn URI", func(a *provider.API) { a.URI = "ftp://api.example.org" }},
		{"not an https, http or urn URI", func(a *provider.API) { a.URI = "https:api" }},
		{"has no query", func(a *provider.API) { a.URI += "?" }},
		{"1 to 60 characters", func(a *provider.API) { a.Name = "" }},
		{"no space at its ends", func(a *provider.API) { a.Name = "API " }},
		{"1 to 64 letters", scope("a b", "See it")},
		{"not an address", scope("https://api.example.org", "See it")},
		{"a scope of OpenID Connect", scope("email", "See it")},
		{"it is given twice", scope("read", "See it")},
		{"its sentence needs", scope("write", "")},
		{"no space at its ends", scope("write", "Change it ")},
		{"from one minute to 24 hours", func(a *provider.API) { a.Lifetime = 59 * time.Second }},
		{"whole seconds", func(a *provider.API) { a.Lifetime += time.Millisecond }},
		{"the algorithms are", func(a *provider.API) { a.Algorithm = "HS256" }},
		{"not both", func(a *provider.API) { a.AllClients, a.Clients = true, []string{"app"} }},
	} {
		a, _ := provider.NewAPI("https://api.example.org", "API", time.Now())
		scope("read", "See it")(a)
		c.change(a)
		if err := a.Check(); (err == nil) != (c.reason == "") || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%v, want %q", err, c.reason)
		}
	}
}

// A rule changes no claim that has a meaning of its own, in whatever case, and lets nobody choose what
// applications find accounts by.
func TestRulesForOwnClaims(t *testing.T) {
	for rule, why := range map[string]string{
		"role=editor if coach": "", "role=a=b": "", "preferred_username={email}": "", "https://x.example/roles=a {handle}": "",
		"member={attribute:member_number}": "", "username={sub}": "", "role=x": "", "preferred_username=m-{attribute:member_number}": "",
		"sub={email}": "rely on", "Email={handle}": "rely on", "email_verified=true": "rely on", "aud=app": "rely on", "scope=x": "rely on",
		"groups=x": "--group", "role=editor\n": "line ends", " role=x": "spaces", "role": "1 to 200", "role=": "1 to 200", "role=\u0007": "1 to 200", "=x": "NAME=VALUE", "a b=x": "NAME=VALUE", "email#de=x": "NAME=VALUE",
		"role={password}": "{password} is not a field", "role={attribute:No}": "is not a field", "role={handle": "braces", "role=}": "braces",
		"preferred_username={name}": "any name", "PREFERRED_USERNAME={nickname}": "any nickname", "username={name}": "any name",
		"role=x if": "one flag", "role=editor if Coach": "one flag", "role=editor IF coach": "one flag", "role=editor if coach or board": "one flag", "role=a if b if c": "one flag",
		"quota=json:x": "after json:", "quota=json:9007199254740993": "after json:", "quota=json:-9007199254740993": "after json:", "quota=json:9007199254740993.0": "after json:", "quota=json:[[1]]": "after json:",
		"sub_id={sub}": "rely on", "authorization_details=x": "rely on",
	} {
		c := provider.NewClient("app", "App", time.Now())
		c.RedirectURIs, c.Claims = []string{"https://app.example.org/cb"}, []string{rule}
		err := c.Check()
		var broken *provider.RegistrationError
		if why == "" && err != nil || why != "" && (!errors.As(err, &broken) || broken.Member != "claims" || !strings.Contains(broken.Reason, why)) {
			t.Errorf("%q: %v, want %q", rule, err, why)
		}
	}
	c := provider.NewClient("app", "App", time.Now())
	c.RedirectURIs, c.Claims = []string{"https://app.example.org/cb"}, []string{"role=viewer", "role=editor if coach"}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "never would") {
		t.Errorf("a rule that never fits: %v", err)
	}
}

func TestClosestAllowanceCounts(t *testing.T) {
	all := []provider.Allowance{{URL: "https://a.example/*"}, {URL: "https://a.example/x/*"}, {URL: "https://a.example/x/y"}, {URL: "https://a.example/z"}}
	for range 2 {
		for id, want := range map[string]string{"https://a.example/b": "https://a.example/*", "https://a.example/x/z": "https://a.example/x/*", "https://a.example/x/y": "https://a.example/x/y", "https://a.example/z": "https://a.example/z"} {
			if got, ok := provider.AllowanceOf(all, id); !ok || got.URL != want {
				t.Errorf("%s: %v, want %s", id, got, want)
			}
		}
		slices.Reverse(all)
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

func TestOperatorIsWarnedOfClaimsThatMembersChoose(t *testing.T) {
	for rule, warned := range map[string]bool{
		"upn={name}": true, "UPN=x-{nickname}": true, "login={given_name} if coach": true, "uid={phone_number}": true,
		`user=json:["{locale}"]`: true, "roles={handle}": true, "is_admin={email}": true,
		"upn={email}": false, "login={handle}": false, "uid={sub}": false, "roles={attribute:role}": false,
		"roles=editor if coach": false, "display={name}": false,
	} {
		c := provider.NewClient("app", "App", time.Now())
		c.RedirectURIs, c.Claims = []string{"https://app.example.org/cb"}, []string{rule}
		must(t, c.Check())
		a := provider.API{Claims: c.Claims}
		for _, got := range [][]string{c.Warnings(), a.Warnings()} {
			if (len(got) == 1 && strings.Contains(got[0], "members choose their")) != warned || !warned && len(got) > 0 {
				t.Errorf("%s: warnings %q", rule, got)
			}
		}
	}
}

// What routes to this machine or its network, under every name that an address
// has (RFC 6890), at both ends of each range, and the neighbours that are public.
func TestReservedAddressesAreNotPublic(t *testing.T) {
	for _, c := range []struct{ reserved, public []string }{
		{[]string{"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255"}, []string{"1.0.0.0", "9.255.255.255", "11.0.0.0"}},
		{[]string{"100.64.0.0", "100.127.255.255"}, []string{"100.63.255.255", "100.128.0.0"}},
		{[]string{"168.63.129.16"}, []string{"168.63.129.15", "168.63.129.17"}},
		{[]string{"127.0.0.1", "127.255.255.255"}, []string{"126.255.255.255", "128.0.0.0"}},
		{[]string{"169.254.0.0", "169.254.169.254"}, []string{"169.253.255.255", "169.255.0.0"}},
		{[]string{"172.16.0.0", "172.31.255.255"}, []string{"172.15.255.255", "172.32.0.0"}},
		{[]string{"192.0.0.0", "192.0.0.255", "192.0.2.0", "192.0.2.255"}, []string{"191.255.255.255", "192.0.1.0", "192.0.3.0"}},
		{[]string{"192.88.99.0", "192.88.99.255"}, []string{"192.88.98.255", "192.88.100.0"}},
		{[]string{"192.168.0.0", "192.168.255.255"}, []string{"192.167.255.255", "192.169.0.0"}},
		{[]string{"198.18.0.0", "198.19.255.255"}, []string{"198.17.255.255", "198.20.0.0"}},
		{[]string{"198.51.100.0", "198.51.100.255", "203.0.113.0", "203.0.113.255"}, []string{"198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0"}},
		{[]string{"224.0.0.1", "239.255.255.255", "240.0.0.0", "255.255.255.255"}, []string{"223.255.255.255"}},
		{[]string{"[::]", "[::1]", "[::2]", "[::10.0.0.7]", "[::8.8.8.8]", "[::ffff:10.0.0.7]"}, []string{"[::ffff:8.8.8.8]"}},
		{[]string{"[64:ff9b::]", "[64:ff9b::10.0.0.7]", "[64:ff9b::ffff:ffff]", "[64:ff9b:1::]", "[64:ff9b:1:ffff:ffff:ffff:ffff:ffff]"}, []string{"[64:ff9b:2::]"}},
		{[]string{"[100::]", "[100::ffff:ffff:ffff:ffff]"}, []string{"[100:0:0:1::]"}},
		{[]string{"[2001::]", "[2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff]"}, []string{"[2001:200::]", "[2000:ffff::]"}},
		{[]string{"[2001:db8::]", "[2001:db8:ffff:ffff:ffff:ffff:ffff:ffff]"}, []string{"[2001:db7:ffff::]", "[2001:db9::]"}},
		{[]string{"[2002::]", "[2002:a00:7::1]", "[2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff]"}, []string{"[2003::]"}},
		{[]string{"[fc00::]", "[fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]", "[fe80::1]", "[febf::1]", "[ff02::1]"}, []string{"[2a00:1450::1]"}},
	} {
		for _, host := range c.reserved {
			if provider.CheckBackchannelLogoutURI("https://"+host+"/logout", false) == nil {
				t.Errorf("%s counts as public", host)
			}
		}
		for _, host := range c.public {
			if err := provider.CheckBackchannelLogoutURI("https://"+host+"/logout", false); err != nil {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
}

func TestBackchannelLogoutURIRules(t *testing.T) {
	for _, c := range []struct {
		uri     string
		private bool
		want    string // part of the refusal, empty: accepted
	}{
		{"https://app.example.org/logout", false, ""},
		{"https://app.example.org:8443/logout?tenant=*", false, ""},
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

var must = assert.Must
