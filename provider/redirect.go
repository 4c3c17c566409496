package provider

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// CheckRedirectURI holds a redirect URI to the rules of registration: https; or
// http on the loopback (RFC 8252 section 7.3); or a private-use scheme in
// reverse domain form (section 7.1). allowInsecure lets http to any host and
// private-use schemes without a dot through. The error says what to change.
func CheckRedirectURI(raw string, allowInsecure bool) error {
	if raw == "" || len(raw) > 2000 {
		return errors.New("a redirect URI has 1 to 2,000 characters")
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] > '~' {
			return errors.New("a redirect URI has only printable ASCII characters and no space: percent-encode the others")
		}
	}
	if strings.ContainsAny(raw, "*\\<>\"{}|^`") {
		return errors.New("a redirect URI is compared exactly: no wildcard and none of \\ < > \" { } | ^ `")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" {
		return errors.New("the redirect URI is not an absolute URL such as https://app.example.org/callback")
	}
	if strings.Contains(raw, "#") {
		return errors.New("a redirect URI has no fragment: remove # and what follows")
	}
	if u.User != nil || strings.Contains(authority(raw), "@") {
		return errors.New("a redirect URI has no user name or password")
	}
	if u.Scheme+":" != raw[:len(u.Scheme)+1] {
		return errors.New("write the scheme of the redirect URI in lower case")
	}
	switch u.Scheme {
	case "https", "http":
		return checkWebRedirect(u, allowInsecure)
	case "javascript", "data", "file", "vbscript", "blob", "about", "ftp", "ws", "wss", "mailto", "tel", "view-source", "filesystem", "intent", "content":
		return fmt.Errorf("the scheme %s cannot receive a code", u.Scheme)
	}
	if !strings.Contains(u.Scheme, ".") && !allowInsecure {
		return fmt.Errorf("a private-use scheme needs a reverse domain name (org.example.app:/callback, RFC 8252 section 7.1), not %s; --allow-insecure-redirect accepts it all the same", u.Scheme)
	}
	return nil
}

func checkWebRedirect(u *url.URL, allowInsecure bool) error {
	host := u.Hostname()
	if host == "" || u.Opaque != "" {
		return errors.New("the redirect URI names no host")
	}
	if host != strings.ToLower(host) {
		return errors.New("write the host of the redirect URI in lower case")
	}
	if slices.ContainsFunc(strings.Split(u.Path, "/"), func(s string) bool { return s == "." || s == ".." }) {
		return errors.New("a redirect URI has no . or .. in its path")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port {
			return errors.New("the port of the redirect URI is not a number from 1 to 65535")
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return errors.New("remove the colon after the host of the redirect URI")
	}
	ip, err := netip.ParseAddr(host)
	isIP := err == nil
	if u.Scheme == "https" {
		if isIP && ip.IsLoopback() {
			return errors.New("use http for a loopback address: a certificate for it proves nothing (RFC 8252 section 8.3)")
		}
		return nil
	}
	if allowInsecure || host == "localhost" || isIP && (host == "127.0.0.1" || host == "::1") {
		return nil
	}
	return errors.New("http is only for localhost, 127.0.0.1 and [::1]: use https, or --allow-insecure-redirect on a network you trust")
}

// authority is what stands between // and the next / ? or #, as written.
func authority(raw string) string {
	_, rest, ok := strings.Cut(raw, "//")
	if !ok {
		return ""
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// localhostBase begins the URIs that a public client may register without a port.
const localhostBase = "http://localhost"

// matchRedirect compares the requested URI with the registered ones as strings
// (RFC 9700 section 2.1): no normalization, so nothing to confuse. Only the
// port of an http URI on a loopback IP literal may differ (RFC 8252 section 7.3);
// that of localhost only for a public client that has registered none.
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

// anyPortOfLocalhost tells whether a registered URI stands for every port.
func (c *Client) anyPortOfLocalhost(registered string) bool {
	return c.IsPublic() && authority(registered) == "localhost" && strings.HasPrefix(registered, localhostBase)
}

// afterLoopback strips the base and a port and returns what follows.
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
