package provider

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// CheckBackchannelLogoutURI validates a backchannel_logout_uri (OpenID Connect Back-Channel
// Logout section 2.2): https, or http on the loopback; no fragment, no user name. allowPrivate
// permits addresses of private networks and of this machine. Names are resolved only when a
// logout token is sent. The error says what to change.
func CheckBackchannelLogoutURI(raw string, allowPrivate bool) error {
	u, err := checkURI("back-channel logout URI", raw, "\\")
	if err != nil {
		return err
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return errors.New("the back-channel logout URI is not an absolute URL " +
			"such as https://app.example.org/backchannel-logout")
	}
	host := strings.ToLower(u.Hostname())
	ip, err := netip.ParseAddr(host)
	isIP := err == nil
	loopback := host == "localhost" || isIP && ip.IsLoopback()
	if u.Scheme == "http" && !loopback {
		return errors.New("http is only for this machine (localhost, 127.0.0.1, [::1]): use https")
	}
	if !allowPrivate && (loopback || isIP && !publicAddress(ip)) {
		return errors.New("this address is on a private network or on this machine: " +
			"--allow-private-backchannel lets logout tokens go there")
	}
	return nil
}

// checkURI checks the rules for every registered URI. what names the URI in errors; refused lists
// forbidden characters.
func checkURI(what, raw, refused string) (*url.URL, error) {
	if raw == "" || len(raw) > 2000 {
		return nil, fmt.Errorf("a %s has 1 to 2,000 characters", what)
	}
	if strings.Contains(raw, "*") && strings.Contains(refused, "*") {
		return nil, fmt.Errorf("wildcards are not supported in a %s: register each one that the application sends",
			what)
	}
	if strings.ContainsFunc(authority(raw), func(r rune) bool { return r > '~' }) {
		return nil, fmt.Errorf("write the host of the %s in punycode (xn--…), "+
			"as browsers give it when the address is copied", what)
	}
	forbidden := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(refused, r) }
	if strings.ContainsFunc(raw, forbidden) {
		return nil, fmt.Errorf("a %s has only printable ASCII characters, no space and none of %s: "+
			"percent-encode the others", what, refused)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return nil, fmt.Errorf("the %s is not an absolute URL such as https://app.example.org/callback", what)
	}
	if strings.Contains(raw, "#") {
		return nil, fmt.Errorf("a %s has no fragment: remove # and what follows", what)
	}
	if u.User != nil {
		return nil, fmt.Errorf("a %s has no user name or password", what)
	}
	if strings.HasSuffix(u.Host, ":") {
		return nil, fmt.Errorf("remove the colon after the host of the %s", what)
	}
	return u, nil
}

// CheckRedirectURI validates a redirect URI: https; http on the loopback (RFC 8252 section 7.3);
// or a private-use scheme in reverse domain form (section 7.1). allowInsecure also permits http
// to any host and private-use schemes without a dot. The error says what to change.
func CheckRedirectURI(raw string, allowInsecure bool) error {
	u, err := checkURI("redirect URI", raw, "*\\<>\"{}|^`")
	if err != nil {
		return err
	}
	if u.Scheme+":" != raw[:len(u.Scheme)+1] {
		return errors.New("write the scheme of the redirect URI in lower case")
	}
	switch u.Scheme {
	case "https", "http":
		return checkWebURI("redirect URI", u, allowInsecure)
	case "javascript", "data", "file", "vbscript", "blob", "about", "ftp", "ws", "wss", "mailto", "tel", "view-source",
		"filesystem", "intent", "content":
		return fmt.Errorf("the scheme %s cannot receive a code", u.Scheme)
	}
	if !strings.Contains(u.Scheme, ".") && !allowInsecure {
		return &insecureURI{"a private-use scheme needs a reverse domain name (org.example.app:/callback, " +
			"RFC 8252 section 7.1), not " + u.Scheme, "; --allow-insecure-redirect accepts it all the same"}
	}
	return nil
}

// localeParameter splits a post-logout redirect URI at the one parameter of its query whose value is {locale}.
var localeParameter = regexp.MustCompile(`^([^{}?#]+\?(?:[^{}#]*&)?[A-Za-z0-9_.-]+=)\{locale\}((?:&[^{}#]*)?)$`)

// localeForm is what the application may send in the place of {locale}: the language of the person, as en or pt_BR.
var localeForm = regexp.MustCompile(`^[A-Za-z_-]{2,10}$`)

// checkPostLogoutURI is CheckRedirectURI for a post-logout redirect URI, in whose query one value may be {locale}.
func checkPostLogoutURI(raw string, allowInsecure bool) error {
	if m := localeParameter.FindStringSubmatch(raw); m != nil {
		raw = m[1] + "en" + m[2]
	} else if strings.Contains(raw, "{locale}") {
		return errors.New("{locale} stands once, for the whole value of a parameter of the query: ?lang={locale}")
	}
	return CheckRedirectURI(raw, allowInsecure)
}

// matchPostLogout compares the requested post-logout redirect URI with the registered ones as strings. Only the
// value {locale} may differ.
func (c *Client) matchPostLogout(requested string) bool {
	return slices.ContainsFunc(c.PostLogoutRedirectURIs, func(registered string) bool {
		m := localeParameter.FindStringSubmatch(registered)
		if m == nil {
			return registered == requested
		}
		rest, found := strings.CutPrefix(requested, m[1])
		locale, ends := strings.CutSuffix(rest, m[2])
		return found && ends && localeForm.MatchString(locale)
	})
}

// checkHomeURI validates a web page of an application. what names it in errors.
func checkHomeURI(what, raw string, allowInsecure bool) error {
	u, err := checkURI(what, raw, "\\<>\"{}|^`")
	if err != nil {
		return err
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("the %s is not a web page such as https://app.example.org/", what)
	}
	return checkWebURI(what, u, allowInsecure)
}

// checkWebURI validates a URI that browsers open. what names the URI in errors.
func checkWebURI(what string, u *url.URL, allowInsecure bool) error {
	host := u.Hostname()
	if host == "" {
		return fmt.Errorf("the %s names no host", what)
	}
	if host != strings.ToLower(host) {
		return fmt.Errorf("write the host of the %s in lower case", what)
	}
	if slices.ContainsFunc(strings.Split(u.Path, "/"), func(s string) bool { return s == "." || s == ".." }) {
		return fmt.Errorf("a %s has no . or .. in its path", what)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port {
			return fmt.Errorf("the port of the %s is not a number from 1 to 65535", what)
		}
	}
	ip, err := netip.ParseAddr(host)
	isIP := err == nil
	if u.Scheme == "https" {
		if isIP && ip.IsLoopback() {
			return errors.New("use http for a loopback address: " +
				"a certificate for it proves nothing (RFC 8252 section 8.3)")
		}
		return nil
	}
	if allowInsecure || host == "localhost" || isIP && (host == "127.0.0.1" || host == "::1") {
		return nil
	}
	return &insecureURI{"http is only for localhost, 127.0.0.1 and [::1]: use https",
		", or --allow-insecure-redirect on a network you trust"}
}

// insecureURI refuses a URI that the operator can permit for a client that has no description of its own.
type insecureURI struct{ reason, permit string }

// Error implements error.
func (e *insecureURI) Error() string { return e.reason + e.permit }

// authority returns the text between // and the next /, ? or #, as written.
func authority(raw string) string {
	_, rest, _ := strings.Cut(raw, "//")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// localhostBase is the prefix of URIs that a public client may register without a port.
const localhostBase = "http://localhost"

// matchRedirect compares the requested URI with the registered ones as strings, without
// normalization (RFC 9700 section 2.1). Only the port of an http URI on a loopback IP literal may
// differ (RFC 8252 section 7.3), and that of localhost for a public client that registered none.
func (c *Client) matchRedirect(requested string) bool {
	if slices.Contains(c.RedirectURIs, requested) {
		return true
	}
	for _, reg := range c.RedirectURIs {
		for _, base := range []string{"http://127.0.0.1", "http://[::1]", localhostBase} {
			if base == localhostBase && !c.anyPortOfLocalhost(reg) {
				continue
			}
			regRest, ok1 := afterLoopback(reg, base)
			reqRest, ok2 := afterLoopback(requested, base)
			if ok1 && ok2 && regRest == reqRest {
				return true
			}
		}
	}
	return false
}

// anyPortOfLocalhost reports whether a registered URI matches every port of localhost.
func (c *Client) anyPortOfLocalhost(registered string) bool {
	return c.IsPublic() && authority(registered) == "localhost" && strings.HasPrefix(registered, localhostBase)
}

// afterLoopback returns the rest of uri after base and an optional port.
func afterLoopback(uri, base string) (string, bool) {
	rest, ok := strings.CutPrefix(uri, base)
	if !ok {
		return "", false
	}
	if digits, isPort := strings.CutPrefix(rest, ":"); isPort {
		end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(digits)
		}
		n, err := strconv.Atoi(digits[:end])
		if err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != digits[:end] {
			return "", false
		}
		rest = digits[end:]
	}
	if rest != "" && rest[0] != '/' && rest[0] != '?' {
		return "", false
	}
	if strings.ContainsAny(rest, "#\\") {
		return "", false
	}
	return rest, true
}
