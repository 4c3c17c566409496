package site

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
)

// setCookies sets the cookies of a sign-in.
func (s *Site) setCookies(w http.ResponseWriter, in person.SignedIn) {
	if in.Step != "" {
		http.SetCookie(w, s.stepCookie(in.Step, int(person.SignInStepLifetime.Seconds())))
	}
	if in.Token != "" {
		c := s.cookie(s.Cookies().Session, in.Token, s.Cookies().Domain)
		c.MaxAge = in.Session.MaxAge()
		http.SetCookie(w, c)
	}
	if in.Login != "" {
		c := s.cookie(s.Cookies().Login, in.Login, "")
		c.MaxAge = in.Session.MaxAge()
		http.SetCookie(w, c)
	}
	if in.Marks != nil {
		c := s.markCookie(strings.Join(in.Marks, "."))
		if len(in.Marks) == 0 {
			c.MaxAge = -1
		}
		http.SetCookie(w, c)
	}
}

// clearCookies uses the attributes of setCookies, because browsers replace only such cookies.
func (s *Site) clearCookies(w http.ResponseWriter) {
	for name, domain := range map[string]string{s.Cookies().Session: s.Cookies().Domain, s.Cookies().Login: ""} {
		if name == "" {
			continue
		}
		c := s.cookie(name, "", domain)
		c.MaxAge = -1
		http.SetCookie(w, c)
	}
}

// stepCookie returns the cookie with the first of two steps of a sign-in.
func (s *Site) stepCookie(value string, maxAge int) *http.Cookie {
	c := s.cookie(s.hostOnly("cairn_second_factor"), value, "")
	c.MaxAge = maxAge
	return c
}

// markCookie returns the cookie with the marks of a known device.
func (s *Site) markCookie(value string) *http.Cookie {
	c := s.cookie(s.hostOnly(deviceCookie), value, "")
	c.MaxAge = int(person.DeviceLifetime.Seconds())
	return c
}

// HostCookie returns a cookie of package provider that no sibling host can set. A negative life
// deletes it.
func (s *Site) HostCookie(name, value string, life time.Duration) *http.Cookie {
	c := s.cookie(s.hostOnly(name), value, "")
	c.MaxAge = int(life.Seconds())
	return c
}

// Names of cookies, without the prefix of hostOnly.
const (
	deviceCookie  = "cairn_device"
	passkeyCookie = "cairn_passkey" // binds a challenge to a browser without a session
)

// givePasskeyCookie sets the cookie that binds a challenge to a browser, unless the browser has
// one: several tabs share it.
func (s *Site) givePasskeyCookie(w http.ResponseWriter, has string) string {
	if len(has) != len(rand.Text()) {
		has = rand.Text()
	}
	c := s.cookie(s.hostOnly(passkeyCookie), has, "")
	c.MaxAge, c.SameSite = int((2 * account.PasskeyTime).Seconds()), http.SameSiteStrictMode
	http.SetCookie(w, c)
	return has
}

// offerCookie is in a browser that has just signed in with a password: the next page of the account may
// have it make a passkey.
const offerCookie = "cairn_offer"

func (s *Site) setOffer(w http.ResponseWriter, seconds int) {
	c := s.cookie(s.hostOnly(offerCookie), "1", "")
	c.MaxAge, c.SameSite = seconds, http.SameSiteStrictMode
	http.SetCookie(w, c)
}

// hostOnly returns the name of a cookie that no sibling host can set.
func (s *Site) hostOnly(name string) string {
	if s.https {
		return "__Host-" + name
	}
	return name
}

func (s *Site) cookie(name, value, domain string) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", Domain: domain, MaxAge: int(account.SessionLifetime.Seconds()),
		HttpOnly: true, Secure: s.https, SameSite: http.SameSiteLaxMode,
	}
}
