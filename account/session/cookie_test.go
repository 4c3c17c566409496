package session_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/session"
)

func request(cookies ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "https://app.example.org/", nil)
	for _, c := range cookies {
		r.Header.Add("Cookie", c)
	}
	return r
}

func subject(sub string) string { return hsToken(with("sub", sub)) }

func TestGenuineCookieIsFoundAmongPlantedOnes(t *testing.T) {
	const name = "__Host-cairn_session"
	genuine := hsToken(good())
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf("%s=%d", name, i))
	}
	repeated := strings.Split(strings.Repeat(name+"=x;", 299), ";")
	for what, cookies := range map[string][]string{
		"alone":                {name + "=" + genuine},
		"after a planted one":  {name + "=x; " + name + "=" + genuine},
		"before a planted one": {name + "=" + genuine + "; " + name + "=x"},
		"in a second header":   {name + "=x", name + "=" + genuine},
		"after 60":             append(many, name+"="+genuine),
		"after 299 equal ones": append(repeated, name+"="+genuine),
		"after unsigned":       {name + "=" + b64(`{"alg":"none"}`) + "." + b64(toJSON(good())) + ".e30; " + name + "=" + genuine},
		"after a huge one":     {name + "=" + strings.Repeat("a.", 4000), name + "=" + genuine},
		"under the next name":  {name + "=x; __Secure-cairn_session=" + genuine},
		"under the last name":  {"cairn_session=" + genuine},
	} {
		t.Run(what, func(t *testing.T) {
			if c, err := verifier().VerifyRequest(request(cookies...)); err != nil || c.Subject != "u_7Q" {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

func TestBetterGuardedCookieWins(t *testing.T) {
	for _, tt := range []struct{ header, want string }{
		{"cairn_session=" + subject("plain") + "; __Secure-cairn_session=" + subject("secure") + "; __Host-cairn_session=" + subject("host"), "host"},
		{"cairn_session=" + subject("plain") + "; __Secure-cairn_session=" + subject("secure"), "secure"},
		{"cairn_session=" + subject("plain"), "plain"},
	} {
		if c, err := verifier().VerifyRequest(request(tt.header)); err != nil || c.Subject != tt.want {
			t.Errorf("got %q, %v; want %q", c.Subject, err, tt.want)
		}
	}
}

func TestNamedCookieIsTheOnlyOneRead(t *testing.T) {
	v := verifier()
	v.CookieName = "__Host-cairn_session"
	for _, planted := range []string{"cairn_session=", "__Secure-cairn_session=", "__host-cairn_session=", "__Host-cairn_login=", "x__Host-cairn_session="} {
		if _, err := v.VerifyRequest(request(planted + hsToken(good()))); !errors.Is(err, session.ErrNoCookie) {
			t.Errorf("%s: %v", planted, err)
		}
	}
	if _, err := v.VerifyRequest(request("__Host-cairn_session=" + hsToken(good()))); err != nil {
		t.Error(err)
	}
}

func TestTokenOutsideTheCookieIsNotRead(t *testing.T) {
	token := hsToken(good())
	r := httptest.NewRequest(http.MethodPost, "https://app.example.org/?cairn_session="+token, strings.NewReader("cairn_session="+token))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+token)
	if _, err := verifier().VerifyRequest(r); !errors.Is(err, session.ErrNoCookie) {
		t.Error(err)
	}
}

func TestWorstCookiesNeverPassAndSayWhy(t *testing.T) {
	expired := expiredToken()
	down := verifier()
	down.Keys = failingKeySet{errors.New("down")}
	var flood []string
	for i := range 3000 {
		flood = append(flood, fmt.Sprintf("cairn_session=%d", i))
	}
	for name, tt := range map[string]struct {
		v      *session.Verifier
		header string
		want   error
	}{
		"none":                       {verifier(), "other=1", session.ErrNoCookie},
		"blank":                      {verifier(), "cairn_session=", session.ErrInvalid},
		"binary":                     {verifier(), "cairn_session=\x01\x02\xff", session.ErrNoCookie},
		"wrong":                      {verifier(), "cairn_session=x", session.ErrInvalid},
		"expired beside wrong":       {verifier(), "cairn_session=x; cairn_session=" + expired + "; cairn_session=y", session.ErrExpired},
		"keys away beside expired":   {down, "cairn_session=" + expired + "; cairn_session=" + rsToken(good()) + "; cairn_session=x", session.ErrKeysUnavailable},
		"no issuer, even w/o cookie": {&session.Verifier{Secret: secret}, "", (&session.Verifier{Secret: secret}).Check()},
		"thousands":                  {verifier(), strings.Join(flood, ";"), session.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := tt.v.VerifyRequest(request(tt.header))
			if !errors.Is(err, tt.want) && (err == nil || err.Error() != tt.want.Error()) || c.Subject != "" {
				t.Errorf("got %+v, %v; want %v", c, err, tt.want)
			}
		})
	}
}

func TestFloodOfCookiesCostsFewSignatures(t *testing.T) {
	v := verifier()
	counting := &countingKeySet{KeySet: v.Keys}
	v.Keys = counting
	parts := strings.Split(rsToken(good()), ".")
	r := request()
	for i := range 300 {
		r.Header.Add("Cookie", "cairn_session="+parts[0]+"."+b64(fmt.Sprint(i))+"."+parts[2])
	}
	if _, err := v.VerifyRequest(r); !errors.Is(err, session.ErrInvalid) {
		t.Error(err)
	}
	if counting.asked > 64 {
		t.Errorf("%d keys looked up", counting.asked)
	}
}
