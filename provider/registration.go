package provider

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
)

// RegistrationError says which member of a client's registration breaks a rule
// and what to change.
type RegistrationError struct {
	Member string // its name in what client show -o json prints (RFC 7591 section 2 where that has one)
	Value  string // the offending value, where the member has several; may be empty
	Reason string
}

// Error implements error.
func (e *RegistrationError) Error() string {
	return e.Describe(e.Member)
}

// Describe is the error with another name for the member.
func (e *RegistrationError) Describe(member string) string {
	if e.Value != "" {
		return fmt.Sprintf("%s %q: %s", member, e.Value, e.Reason)
	}
	return member + ": " + e.Reason
}

// Normalize gives a registration the form in which it is checked and stored: a
// trimmed name, nothing twice in a list, openid always among the scopes.
func (c *Client) Normalize() {
	if name, err := account.CheckDisplayName(c.Name); err == nil {
		c.Name = name
	}
	if !slices.Contains(c.Scopes, "openid") {
		c.Scopes = append([]string{"openid"}, c.Scopes...)
	}
	for _, list := range []*[]string{&c.RedirectURIs, &c.PostLogoutRedirectURIs, &c.Scopes, &c.Groups} {
		var distinct []string
		for _, s := range *list {
			if !slices.Contains(distinct, s) {
				distinct = append(distinct, s)
			}
		}
		*list = distinct
	}
}

var clientIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Check holds the whole registration to the rules: the database refuses what
// breaks them, whoever writes it. The error is a *RegistrationError.
func (c *Client) Check() error {
	for _, check := range []func() error{c.checkName, c.checkURIs, c.checkScopes, c.checkAuthentication, c.checkTokens} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) checkName() error {
	if !clientIDForm.MatchString(c.ID) {
		return &RegistrationError{"client_id", "", "1 to 64 letters, digits, - or _"}
	}
	if strings.EqualFold(c.ID, account.SessionAudience) {
		// Its ID tokens would be session cookies.
		return &RegistrationError{"client_id", c.ID, "this is the audience of the session cookie and cannot be a client: choose another id"}
	}
	if name, err := account.CheckDisplayName(c.Name); err != nil || name != c.Name {
		return &RegistrationError{"client_name", "", "1 to 60 characters, no control characters, and no space at its ends"}
	}
	return nil
}

func (c *Client) checkURIs() error {
	if len(c.RedirectURIs) == 0 && !c.ClientCredentials {
		return &RegistrationError{"redirect_uris", "", "at least one is needed: where the application receives its answers"}
	}
	if err := c.checkRedirects("redirect_uris", c.RedirectURIs); err != nil {
		return err
	}
	if err := c.checkRedirects("post_logout_redirect_uris", c.PostLogoutRedirectURIs); err != nil {
		return err
	}
	if c.BackchannelLogoutURI != "" {
		if err := CheckBackchannelLogoutURI(c.BackchannelLogoutURI, c.BackchannelPrivate); err != nil {
			return &RegistrationError{"backchannel_logout_uri", c.BackchannelLogoutURI, err.Error()}
		}
	}
	return nil
}

func (c *Client) checkRedirects(member string, uris []string) error {
	for _, uri := range uris {
		if err := CheckRedirectURI(uri, c.AllowInsecureRedirect); err != nil {
			return &RegistrationError{member, uri, err.Error()}
		}
	}
	return nil
}

func (c *Client) checkScopes() error {
	for _, s := range c.Scopes {
		if !slices.Contains(Scopes, s) {
			return &RegistrationError{"scopes", s, "the scopes are " + strings.Join(Scopes, ", ")}
		}
	}
	const form = "a flag is a letter a-z and up to 31 of a-z, 0-9, - and _"
	if c.RequireFlag != "" && account.CheckFlag(c.RequireFlag) != nil {
		return &RegistrationError{"require_flag", c.RequireFlag, form}
	}
	for _, f := range c.Groups {
		if account.CheckFlag(f) != nil {
			return &RegistrationError{"groups", f, form}
		}
	}
	return nil
}

func (c *Client) checkAuthentication() error {
	methods := []string{AuthAny, AuthBasic, AuthPost, AuthNone, AuthJWT}
	switch {
	case !slices.Contains(methods, c.AuthMethod):
		return &RegistrationError{"token_endpoint_auth_method", c.AuthMethod, "the methods are " + strings.Join(methods, ", ")}
	case c.AuthMethod == AuthJWT && len(c.JWKS) == 0:
		return &RegistrationError{"jwks", "", "the client's public keys are needed with private_key_jwt"}
	case c.AuthMethod != AuthJWT && len(c.JWKS) > 0:
		return &RegistrationError{"jwks", "", "only for a client that authenticates with private_key_jwt"}
	}
	if len(c.JWKS) > 0 {
		if _, err := CheckClientKeys(c.JWKS); err != nil {
			return &RegistrationError{"jwks", "", err.Error()}
		}
	}
	return nil
}

func (c *Client) checkTokens() error {
	switch {
	case c.RefreshGrace < 0 || c.RefreshGrace > MaxRefreshGrace || c.RefreshGrace%time.Second != 0:
		return &RegistrationError{"refresh_grace", "", fmt.Sprintf("whole seconds, at most %s", MaxRefreshGrace)}
	case c.RefreshGrace > 0 && c.IsPublic():
		return &RegistrationError{"refresh_grace", "", "only for confidential clients: without a secret a stolen refresh token would work twice"}
	case c.ClientCredentials && c.IsPublic():
		return &RegistrationError{"client_credentials", "", "only for confidential clients: anybody could ask in the name of a public one"}
	}
	return nil
}

// CheckFlags holds the flags that the registration names to those that users can have.
// The error is a *RegistrationError.
func (c *Client) CheckFlags(known []string) error {
	unknown := func(f string) bool { return !slices.Contains(known, f) }
	const reason = "there is no flag %q here: cairn settings set flags adds one"
	if i := slices.IndexFunc(c.Groups, unknown); i >= 0 {
		return &RegistrationError{"groups", "", fmt.Sprintf(reason, c.Groups[i])}
	}
	if c.RequireFlag != "" && unknown(c.RequireFlag) {
		return &RegistrationError{"require_flag", "", fmt.Sprintf(reason, c.RequireFlag)}
	}
	return nil
}

// Warnings are what an operator should know about a registration that is
// accepted.
func (c *Client) Warnings() []string {
	var out []string
	for _, uri := range c.RedirectURIs {
		if c.anyPortOfLocalhost(uri) {
			out = append(out, uri+" matches any port of localhost, a name that can resolve to another address: http://127.0.0.1 and http://[::1] cannot (RFC 8252 section 8.3)")
		}
	}
	return out
}

// CheckBackchannelLogoutURI holds a backchannel_logout_uri to the rules of
// registration (OpenID Connect Back-Channel Logout section 2.2): https, or http on the
// loopback; no fragment, no user name. allowPrivate lets addresses of private networks
// and of this machine through; a name is looked up only when a logout token is sent.
// The error says what to change.
func CheckBackchannelLogoutURI(raw string, allowPrivate bool) error {
	if raw == "" || len(raw) > 2000 {
		return errors.New("a back-channel logout URI has 1 to 2,000 characters")
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] > '~' || raw[i] == '\\' {
			return errors.New("a back-channel logout URI has only printable ASCII characters, no space and no backslash: percent-encode the others")
		}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "" || u.Hostname() == "" {
		return errors.New("the back-channel logout URI is not an absolute URL such as https://app.example.org/backchannel-logout")
	}
	if strings.Contains(raw, "#") {
		return errors.New("a back-channel logout URI has no fragment: remove # and what follows")
	}
	if u.User != nil || strings.Contains(authority(raw), "@") {
		return errors.New("a back-channel logout URI has no user name or password")
	}
	if strings.HasSuffix(u.Host, ":") {
		return errors.New("remove the colon after the host of the back-channel logout URI")
	}
	host := strings.ToLower(u.Hostname())
	ip, err := netip.ParseAddr(host)
	isIP := err == nil
	loopback := host == "localhost" || isIP && ip.IsLoopback()
	if u.Scheme == "http" && !loopback {
		return errors.New("http is only for this machine (localhost, 127.0.0.1, [::1]): use https")
	}
	if !allowPrivate && (loopback || isIP && !publicAddress(ip)) {
		return errors.New("this address is on a private network or on this machine: --allow-private-backchannel lets logout tokens go there")
	}
	return nil
}
