package config

import (
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// maxIssuer limits the issuer in bytes: every cookie contains it twice, and a cookie has at most
// 4,000 bytes.
const maxIssuer = 256

// checkIssuer enforces OpenID Connect Discovery 1.0 section 3 (https, no query, no fragment) and
// one spelling. Only a loopback host may use http.
func checkIssuer(c *Checked, s Settings) error {
	const flag = "issuer"
	if len(s.Issuer) > maxIssuer {
		return refuse(flag, "use a shorter address", "is longer than %d bytes", maxIssuer)
	}
	u, err := webAddress(flag, "write the address people use, as https://id.example.org", s.Issuer, true)
	if err != nil {
		return err
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return refuse(flag, "write https://"+u.Host+u.Path+"; plain http is for localhost only",
			"%q is not https", s.Issuer)
	}
	c.Issuer, c.IssuerString, c.HTTPS = u, s.Issuer, u.Scheme == "https"
	return nil
}

// checkOrigins accepts what a browser can send as Origin (RFC 6454 section 7) and nothing that could match more than
// one origin. "null" is sent by every sandboxed page, and http by anyone on the network: neither identifies an origin.
func checkOrigins(c *Checked, s Settings) (err error) {
	c.AllowedOrigins, err = checkedOrigins(c, "allowed-origin", s.AllowedOrigins)
	return err
}

func checkedOrigins(c *Checked, flag string, list []string) (origins []string, err error) {
	for _, s := range trimmed(list) {
		if strings.Contains(s, "*") {
			return nil, refuse(flag, "list each origin", "%q has a wildcard", s)
		}
		u, err := webAddress(flag, "write scheme and host, as https://app.example.org", s, false)
		if err != nil {
			return nil, err
		}
		if c.HTTPS && u.Scheme == "http" && !isLoopback(u.Hostname()) {
			return nil, refuse(flag, "write https://"+u.Host, "%q is plain http, which anybody on the way can answer",
				s)
		}
		origins = append(origins, s)
	}
	return origins, nil
}

const (
	lowerDigits    = "abcdefghijklmnopqrstuvwxyz0123456789"
	pathCharacters = lowerDigits + "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._~/"
)

// webAddress parses an http or https address in the one spelling that browsers give it. Clients
// compare the issuer byte by byte and browsers normalize origins, so a value with another spelling
// would work for only one of them.
func webAddress(flag, remedy, s string, withPath bool) (*url.URL, error) {
	if strings.Contains(s, "@") {
		// It may contain a password, so it is not repeated.
		return nil, refuse(flag, remedy, "holds a user name or an @")
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || !strings.Contains(s, "://") {
		return nil, refuse(flag, remedy, "%q is not an http or https address", s)
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() && a.Zone() == "" && !a.Is4In6() {
		host = "[" + a.String() + "]"
	} else if (err != nil || !a.Is4()) && !isHostname(host) {
		return nil, refuse(flag, "write a name in ASCII (international names as xn--...) or an IP address",
			"%q has a host that is neither a name nor an IP address", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case port != "" && (err != nil || n == 0):
		return nil, refuse(flag, remedy, "%q has a port that is not between 1 and 65535", s)
	case port != "" && !(u.Scheme == "https" && n == 443 || u.Scheme == "http" && n == 80):
		host += ":" + strconv.FormatUint(n, 10)
	}
	want := u.Scheme + "://" + host
	if withPath && u.Path != "" {
		if strings.Contains(s, "%") || !allIn(u.Path, pathCharacters) {
			return nil, refuse(flag, "use letters, digits and - . _ ~ in the path",
				"%q has other characters in its path", s)
		}
		want += strings.TrimSuffix(path.Clean(u.Path), "/")
	}
	if s != want {
		return nil, refuse(flag, "write "+want, "%q is not spelled as browsers and applications compare it", s)
	}
	return u, nil
}

// isHostname reports whether s is a lower-case DNS name without a dot at its end. A name whose last label is a number
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

// isLoopback reports whether a host is this machine: localhost, a name below it (RFC 6761 section 6.3), or an address.
func isLoopback(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func allIn(s, set string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(set, r) })
}
