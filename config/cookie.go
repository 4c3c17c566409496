package config

import (
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// loginCookie opens the service itself when the session cookie is shared with a domain. The __Host- prefix makes
// browsers refuse it from any other host (RFC 6265bis section 4.1.3.2).
const loginCookie = "__Host-cairn_login"

// defaultCookieName is what an empty name means.
const defaultCookieName = "cairn_session"

// checkCookieDomain refuses every domain that a browser would refuse too (then nobody could sign in) and those that
// would hand the cookie to strangers: a public suffix belongs to everybody who registers below it.
func checkCookieDomain(domain string, issuer *url.URL) (string, error) {
	const flag, remedy = "cookie-domain", "leave it out, or write a parent domain of the issuer's host, as example.org"
	if domain == "" {
		return "", nil
	}
	host := issuer.Hostname()
	if strings.HasPrefix(domain, ".") {
		return "", refuse(flag, "write "+strings.TrimLeft(domain, "."), "%q begins with a dot", domain)
	}
	if lower := strings.ToLower(domain); lower != domain {
		return "", refuse(flag, "write "+lower, "%q has capital letters", domain)
	}
	if _, err := netip.ParseAddr(domain); err == nil {
		return "", refuse(flag, remedy, "%q is an IP address", domain)
	}
	if !isHostname(domain) {
		return "", refuse(flag, remedy, "%q is not a domain", domain)
	}
	if !strings.Contains(domain, ".") {
		return "", refuse(flag, remedy, "%q is a single word, which browsers refuse", domain)
	}
	if suffix, _ := publicsuffix.PublicSuffix(domain); suffix == domain {
		return "", refuse(flag, remedy, "%q is a public suffix: everybody can have a host below it", domain)
	}
	if host != domain && !strings.HasSuffix(host, "."+domain) {
		return "", refuse(flag, remedy, "%q is not a parent of the issuer's host %q", domain, host)
	}
	if issuer.Scheme != "https" {
		return "", refuse(flag, "use an https issuer, or leave it out", "%q needs https", domain)
	}
	return domain, nil
}

// cookieName returns the whole name. The prefix is ours to choose, because a browser silently drops a cookie whose
// prefix promises what its attributes do not keep.
func cookieName(name string, https, shared bool) (string, error) {
	const flag = "cookie-name"
	if name == "" {
		name = defaultCookieName
	}
	lower := strings.ToLower(name)
	for _, prefix := range []string{"__host-", "__secure-", "__http-"} {
		if strings.HasPrefix(lower, prefix) {
			return "", refuse(flag, "write the name without it", "%q has a prefix that the service adds itself", name)
		}
	}
	if len(name) > 64 {
		return "", refuse(flag, "use a shorter name", "is longer than 64 bytes")
	}
	if !allIn(lower, lowerDigits+"!#$%&'*+-.^_`|~") {
		return "", refuse(flag, "use letters, digits, - and _", "%q has characters that no cookie name may have", name)
	}
	if "__Host-"+name == loginCookie {
		return "", refuse(flag, "choose another name", "%q is the name of the service's second cookie", name)
	}
	switch {
	case !https:
		return name, nil
	case shared:
		return "__Secure-" + name, nil
	default:
		return "__Host-" + name, nil
	}
}
