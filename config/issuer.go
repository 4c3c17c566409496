package config

import (
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// maxIssuer bounds the issuer in bytes: it is in every cookie twice, and a cookie has 4,000 bytes.
const maxIssuer = 256

// checkIssuer holds the issuer to OpenID Connect Discovery 1.0 section 3 (https, no query, no fragment) and to one
// spelling: clients compare the issuer byte by byte, browsers compare origins after normalising them, and a value
// that the two see differently works for one of them only. Plain http is for the machine itself.
func checkIssuer(s string) (*url.URL, error) {
	const flag, remedy = "issuer", "write the address people use, as https://id.example.org"
	if s == "" {
		return nil, refuse(flag, remedy, "is empty")
	}
	if len(s) > maxIssuer {
		return nil, refuse(flag, "use a shorter address", "is longer than %d bytes", maxIssuer)
	}
	if strings.Contains(s, "@") {
		// Not echoed: what stands before the @ may be a password.
		return nil, refuse(flag, remedy, "holds a user name or an @")
	}
	if strings.ContainsAny(s, "?#") {
		return nil, refuse(flag, "write the address without ? and #", "%q has a query or a fragment", s)
	}
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" || !strings.HasPrefix(s, "http://") && !strings.HasPrefix(s, "https://") {
		return nil, refuse(flag, remedy, "%q is not an http or https address", s)
	}
	if problem, better := hostProblem(u); problem != "" {
		if better == "" {
			better = remedy
		}
		return nil, refuse(flag, better, "%q %s", s, problem)
	}
	if strings.HasSuffix(s, "/") {
		return nil, refuse(flag, "write "+strconv.Quote(strings.TrimRight(s, "/")), "%q ends with a slash", s)
	}
	if u.Path != "" {
		if strings.Contains(s, "%") || !allIn(u.Path, pathCharacters) {
			return nil, refuse(flag, "use letters, digits and - . _ ~ in the path", "%q has other characters in its path", s)
		}
		if path.Clean(u.Path) != u.Path {
			return nil, refuse(flag, "write the path without . and .. and doubled slashes", "%q has a path that is not clean", s)
		}
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return nil, refuse(flag, "write https://"+u.Host+u.Path+"; plain http is for localhost only", "%q is not https", s)
	}
	return u, nil
}

// checkOrigins accepts what a browser can send as Origin (RFC 6454 section 7) and nothing that could match more than
// one origin. "null" is sent by every sandboxed page, and http by whoever sits on the wire: neither names anybody.
func checkOrigins(list []string, https bool) ([]string, error) {
	const flag, remedy = "allowed-origin", "write scheme and host, as https://app.example.org"
	var all []string
	for _, s := range trimmed(list) {
		if strings.Contains(s, "*") {
			return nil, refuse(flag, "list each origin", "%q has a wildcard", s)
		}
		if strings.Contains(s, "@") {
			return nil, refuse(flag, remedy, "holds a user name or an @")
		}
		u, err := url.Parse(s)
		if err != nil || !strings.HasPrefix(s, "http://") && !strings.HasPrefix(s, "https://") {
			return nil, refuse(flag, remedy, "%q is not an origin", s)
		}
		if problem, better := hostProblem(u); problem != "" {
			if better == "" {
				better = remedy
			}
			return nil, refuse(flag, better, "%q %s", s, problem)
		}
		if s != u.Scheme+"://"+u.Host {
			return nil, refuse(flag, "write "+u.Scheme+"://"+u.Host, "%q has more than scheme and host", s)
		}
		if https && u.Scheme == "http" && !isLoopback(u.Hostname()) {
			return nil, refuse(flag, "write https://"+u.Host, "%q is plain http, which anybody on the way can answer", s)
		}
		all = append(all, s)
	}
	return all, nil
}

const (
	lowerDigits    = "abcdefghijklmnopqrstuvwxyz0123456789"
	pathCharacters = lowerDigits + "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._~/"
)

// hostProblem says what keeps a URL's host from being spelled the way browsers spell it, and, where there is one, the
// better spelling. Empty strings: nothing is wrong.
func hostProblem(u *url.URL) (problem, remedy string) {
	host, port := u.Hostname(), u.Port()
	switch {
	case host == "":
		return "has no host", ""
	case strings.ToLower(host) != host:
		return "has capital letters in its host", "write the host as " + strings.ToLower(host)
	case strings.HasSuffix(u.Host, ":"):
		return "has a colon without a port", ""
	}
	if strings.HasPrefix(u.Host, "[") {
		a, err := netip.ParseAddr(host)
		if err != nil || a.Zone() != "" || a.String() != host || a.Is4In6() {
			return "has no proper IPv6 address in its brackets", "write the shortest form, as [::1]"
		}
	} else if _, err := netip.ParseAddr(host); err != nil && !isHostname(host) {
		return "has a host that is neither a name nor an IP address", "write a name in ASCII (international names as xn--...)"
	}
	if port == "" {
		return "", ""
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "has a port that is not between 1 and 65535", ""
	}
	if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		return "names the port that " + u.Scheme + " has anyway", "leave out :" + port + ", as browsers do"
	}
	return "", ""
}

// isHostname tells whether s is a lower-case DNS name without a dot at its end. A name whose last label is a number
// is an IPv4 address to browsers (127.1, 0x7f000001) and none to Go: refused.
func isHostname(s string) bool {
	if len(s) > 253 {
		return false
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || !allIn(l, lowerDigits+"-_") {
			return false
		}
	}
	last := labels[len(labels)-1]
	return !allIn(last, "0123456789") && !strings.HasPrefix(last, "0x")
}

// isLoopback tells whether a host is this machine: localhost, a name below it (RFC 6761 section 6.3), or an address.
func isLoopback(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func allIn(s, set string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(set, r) })
}
