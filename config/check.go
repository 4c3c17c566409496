package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Checked are the settings after [Settings.Check]: typed, consistent with one another, ready to use.
type Checked struct {
	Listen          string           // host:port; the host may be empty (every address), the port 0 (any)
	Issuer          *url.URL         // IssuerString parsed; its path is empty or begins, and never ends, with a slash
	IssuerString    string           // exactly as given: what tokens and clients compare
	Database        string           // a file path or a postgres:// URL, which may hold a password: log DatabaseLabel instead
	HTTPS           bool             // the issuer's scheme
	CookieDomain    string           // empty: the cookie belongs to one host
	CookieName      string           // the whole name, with its __Host- or __Secure- prefix
	LoginCookieName string           // the host-only second cookie; empty without a cookie domain
	StatusTTL       time.Duration    // whole seconds
	TrustedProxies  []netip.Prefix   // masked and unmapped: compare with netip.Addr.Unmap
	AllowedOrigins  []string         // as a browser writes Origin
	RateLimits      map[string]Limit // every name of DefaultRateLimits
	LogLevel        slog.Level
	LogFormat       string    // "text", "json", or empty: text on a terminal, else json
	TLS             *TLSFiles // nil: plain http
}

// Check turns the settings into typed values. It reads no file. The error is a [*SettingError]: one line that names
// the first setting that cannot work, its flag and variable, and the remedy.
//
// It is not called Validate, because kong would then call it while parsing every command, also those that need no
// settings.
func (s Settings) Check() (Checked, error) {
	var c Checked
	var err error
	if c.Listen, err = checkListen(s.Listen); err != nil {
		return Checked{}, err
	}
	if c.Issuer, err = checkIssuer(s.Issuer); err != nil {
		return Checked{}, err
	}
	c.IssuerString = s.Issuer
	c.HTTPS = c.Issuer.Scheme == "https"
	if c.Database, err = checkDatabase(s.Database); err != nil {
		return Checked{}, err
	}
	if len(trimmed(s.AdditionalKeyFiles)) > 0 && s.PrivateKeyFile == "" && !s.NoOIDC {
		return Checked{}, errNoSigningKey()
	}
	if c.CookieDomain, err = checkCookieDomain(s.CookieDomain, c.Issuer); err != nil {
		return Checked{}, err
	}
	if c.CookieName, err = cookieName(s.CookieName, c.HTTPS, c.CookieDomain != ""); err != nil {
		return Checked{}, err
	}
	if c.CookieDomain != "" {
		c.LoginCookieName = loginCookie
	}
	if c.StatusTTL, err = checkStatusTTL(s.StatusTTL); err != nil {
		return Checked{}, err
	}
	if c.TLS, err = checkTLS(s.TLSCertFile, s.TLSKeyFile, c.HTTPS); err != nil {
		return Checked{}, err
	}
	if c.TrustedProxies, err = checkProxies(s.TrustedProxies); err != nil {
		return Checked{}, err
	}
	if c.AllowedOrigins, err = checkOrigins(s.AllowedOrigins, c.HTTPS); err != nil {
		return Checked{}, err
	}
	if c.RateLimits, err = checkRateLimits(s.RateLimits); err != nil {
		return Checked{}, err
	}
	if c.LogLevel, err = checkLogLevel(s.LogLevel); err != nil {
		return Checked{}, err
	}
	if c.LogFormat, err = checkLogFormat(s.LogFormat); err != nil {
		return Checked{}, err
	}
	return c, nil
}

// Warnings returns one line for each choice that works and that the operator may still not have meant.
func (c Checked) Warnings() []string {
	var w []string
	if _, err := netip.ParseAddr(c.Issuer.Hostname()); err == nil {
		w = append(w, "the issuer is an IP address: passkeys need a name, use localhost or a domain in --issuer")
	}
	if c.HTTPS && c.TLS == nil && len(c.TrustedProxies) == 0 {
		w = append(w, "the issuer is https, and neither TLS files nor a trusted proxy is set: behind a reverse proxy every visitor counts as one address, name the proxy with --trusted-proxy")
	}
	// Behind a proxy the two differ rightly.
	if listen := portOf(c.Listen); isLoopback(c.Issuer.Hostname()) && len(c.TrustedProxies) == 0 && listen != "0" && listen != issuerPort(c.Issuer) {
		w = append(w, fmt.Sprintf("the issuer %s names another port than --listen %s: browsers and applications do not reach this service under it, write %s://%s in --issuer",
			c.IssuerString, c.Listen, c.Issuer.Scheme, net.JoinHostPort(c.Issuer.Hostname(), listen)+c.Issuer.Path))
	}
	if host, port, _ := net.SplitHostPort(c.Listen); isLoopback(host) != isLoopback(c.Issuer.Hostname()) && len(c.TrustedProxies) == 0 {
		switch {
		case !isLoopback(host):
			w = append(w, fmt.Sprintf("--listen %s is open to other machines, and the issuer %s sends their browsers to themselves: write the address people use in --issuer, or %s in --listen",
				c.Listen, c.IssuerString, net.JoinHostPort("127.0.0.1", port)))
		case c.TLS != nil:
			w = append(w, fmt.Sprintf("only this machine reaches --listen %s, and the issuer %s is for others too: write :%s in --listen, or name the proxy with --trusted-proxy",
				c.Listen, c.IssuerString, port))
		}
	}
	return w
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// issuerPort is the port of an issuer, also where its scheme implies it.
func issuerPort(u *url.URL) string {
	if port := u.Port(); port != "" || u.Scheme == "http" {
		return cmp.Or(port, "80")
	}
	return "443"
}

func checkListen(s string) (string, error) {
	const remedy = "write host:port, as 127.0.0.1:4040, or :4040 for every address"
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", refuse("listen", remedy, "%q is not host:port", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "", refuse("listen", remedy, "%q is not a port between 0 and 65535", port)
	}
	if _, err := netip.ParseAddr(host); host != "" && err != nil && !isHostname(strings.ToLower(host)) {
		return "", refuse("listen", remedy, "%q is neither an IP address nor a host name", host)
	}
	return s, nil
}

func checkTLS(cert, key string, https bool) (*TLSFiles, error) {
	switch {
	case cert == "" && key == "":
		return nil, nil
	case cert == "":
		return nil, refuse("tls-cert-file", "give the certificate too, or neither", "is missing while --tls-key-file is set")
	case key == "":
		return nil, refuse("tls-key-file", "give the certificate's key too, or neither", "is missing while --tls-cert-file is set")
	case !https:
		return nil, refuse("issuer", "write an https issuer, or leave out --tls-cert-file and --tls-key-file",
			"is http while TLS files are set")
	}
	return &TLSFiles{CertFile: cert, KeyFile: key}, nil
}

// checkStatusTTL bounds the time by two harms: that every application asks all the time, and that a thief goes on
// for hours.
func checkStatusTTL(s string) (time.Duration, error) {
	const flag, remedy = "status-ttl", "write 1s to 1h in whole seconds, as 60s"
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, refuse(flag, remedy, "%q is not a duration", s)
	}
	if d < time.Second || d > time.Hour || d%time.Second != 0 {
		return 0, refuse(flag, remedy, "%q is not between 1s and 1h in whole seconds", s)
	}
	return d, nil
}

// checkProxies accepts networks and single addresses. A network with bits beyond its mask is refused because one of
// the two halves was a slip, and the one that holds nobody's address because then every visitor picks his own.
func checkProxies(list []string) ([]netip.Prefix, error) {
	const flag, remedy = "trusted-proxy", "write the proxies' networks, as 10.0.0.0/8 or 192.0.2.7"
	var all []netip.Prefix
	for _, s := range trimmed(list) {
		p, err := netip.ParsePrefix(s)
		if a, addrErr := netip.ParseAddr(s); addrErr == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, refuse(flag, remedy, "%q is neither a network nor an IP address", s)
		}
		if p.Addr().Is4In6() {
			if p.Bits() < 96 {
				return nil, refuse(flag, remedy, "%q mixes IPv4 and IPv6", s)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p.Masked() != p {
			return nil, refuse(flag, "write "+p.Masked().String(), "%q has bits set beyond its mask", s)
		}
		if p.Bits() == 0 {
			return nil, refuse(flag, "name only the proxies' own addresses", "%q lets every visitor choose the address he is counted as", s)
		}
		all = append(all, p)
	}
	return all, nil
}

func checkLogLevel(s string) (slog.Level, error) {
	switch s {
	case "debug":
		return slog.LevelDebug, nil
	case "info", "":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, refuse("log-level", "write debug, info, warn or error", "%q is not a level", s)
}

func checkLogFormat(s string) (string, error) {
	switch s {
	case "", "text", "json":
		return s, nil
	}
	return "", refuse("log-format", "write text or json, or leave it out", "%q is not a format", s)
}

// trimmed drops the blanks that people write after the commas of a list, and empty entries.
func trimmed(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
