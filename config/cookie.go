package config

import (
	"strings"

	"golang.org/x/net/publicsuffix"
)

// loginCookie is the cookie that opens the service itself if the session cookie is shared with a
// domain. Because of the __Host- prefix, browsers refuse it from any other host (RFC 6265bis
// section 4.1.3.2).
const loginCookie = "__Host-cairn_login"

// checkCookieDomain refuses every domain that browsers refuse, because nobody could sign in, and
// public suffixes, because the cookie would go to strangers.
func checkCookieDomain(c *Checked, s Settings) error {
	if s.CookieDomain == "" {
		return nil
	}
	if err := checkParent(c, "cookie-domain", s.CookieDomain); err != nil {
		return err
	}
	if !c.HTTPS {
		return refuse("cookie-domain", "use an https issuer, or leave it out", "%q needs https", s.CookieDomain)
	}
	c.CookieDomain, c.LoginCookieName = s.CookieDomain, loginCookie
	return nil
}

// checkPasskeys refuses every relying party id and origin that browsers refuse, and a device-binding that is neither
// on nor off.
func checkPasskeys(c *Checked, s Settings) (err error) {
	if c.Unbound = s.DeviceBinding == "off"; !c.Unbound && s.DeviceBinding != "" && s.DeviceBinding != "on" {
		return refuse("device-binding", "write on or off", "%q is neither", s.DeviceBinding)
	}
	if c.PasskeyHost = s.PasskeyHost; s.PasskeyHost != "" {
		if err := checkParent(c, "passkey-host", s.PasskeyHost); err != nil {
			return err
		}
	}
	c.PasskeyOrigins, err = checkedOrigins(c, "passkey-origin", s.PasskeyOrigins)
	return err
}

// checkParent refuses what is not the host of the issuer or a parent domain of it, below a public
// suffix.
func checkParent(c *Checked, flag, domain string) error {
	const remedy = "leave it out, or write a parent domain of the issuer's host, as example.org"
	host := c.Issuer.Hostname()
	if want := strings.TrimLeft(strings.ToLower(domain), "."); want != domain {
		return refuse(flag, "write "+want, "%q begins with a dot or has capital letters", domain)
	}
	suffix, _ := publicsuffix.PublicSuffix(domain)
	switch {
	case !isHostname(domain):
		return refuse(flag, remedy, "%q is not a domain", domain)
	case suffix == domain:
		return refuse(flag, remedy,
			"%q is a single word or a public suffix: browsers refuse it, or everybody can have a host below it",
			domain)
	case host != domain && !strings.HasSuffix(host, "."+domain):
		return refuse(flag, remedy, "%q is not a parent of the issuer's host %q", domain, host)
	}
	return nil
}

// checkCookieName sets the full name. The program chooses the prefix, because browsers silently
// drop a cookie whose attributes contradict its prefix.
func checkCookieName(c *Checked, s Settings) error {
	const flag = "cookie-name"
	name := s.CookieName
	if name == "" {
		name = Defaults().CookieName
	}
	lower := strings.ToLower(name)
	for _, prefix := range []string{"__host-", "__secure-", "__http-"} {
		if strings.HasPrefix(lower, prefix) {
			return refuse(flag, "write the name without it", "%q has a prefix that the service adds itself", name)
		}
	}
	switch {
	case len(name) > 64 || !allIn(lower, lowerDigits+"!#$%&'*+-.^_`|~"):
		return refuse(flag, "use up to 64 letters, digits, - and _",
			"%q has characters that no cookie name may have, or too many", name)
	case "__Host-"+name == loginCookie:
		return refuse(flag, "choose another name", "%q is the name of the service's second cookie", name)
	case !c.HTTPS:
		c.CookieName = name
	case c.CookieDomain != "":
		c.CookieName = "__Secure-" + name
	default:
		c.CookieName = "__Host-" + name
	}
	return nil
}
