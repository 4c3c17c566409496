package provider

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

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
