package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/session"
)

func visit(cookies ...string) *http.Request {
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
		"after a huge one":     {name + "=" + strings.Repeat("a.", 4000), name + "=" + genuine},
		"under the next name":  {name + "=x; __Secure-cairn_session=" + genuine},
		"under the last name":  {"cairn_session=" + genuine},
		"better guarded":       {"cairn_session=" + subject("plain") + "; __Secure-cairn_session=" + subject("secure") + "; " + name + "=" + genuine},
		"next best":            {"cairn_session=" + subject("plain") + "; __Secure-cairn_session=" + genuine},
	} {
		if c, err := verifier().VerifyRequest(visit(cookies...)); err != nil || c.Subject != "u_7Q" {
			t.Errorf("%s: %+v, %v", what, c, err)
		}
	}
}

func TestOnlyTheNamedCookieIsRead(t *testing.T) {
	v, token := verifier(), hsToken(good())
	v.CookieName = "__Host-cairn_session"
	for _, planted := range []string{"cairn_session=", "__Secure-cairn_session=", "__host-cairn_session=", "__Host-cairn_login=", "x__Host-cairn_session="} {
		if _, err := v.VerifyRequest(visit(planted + token)); !errors.Is(err, session.ErrNoCookie) {
			t.Errorf("%s: %v", planted, err)
		}
	}
	if _, err := v.VerifyRequest(visit("__Host-cairn_session=" + token)); err != nil {
		t.Error(err)
	}
	r := httptest.NewRequest(http.MethodPost, "https://app.example.org/?cairn_session="+token, strings.NewReader("cairn_session="+token))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+token)
	if _, err := verifier().VerifyRequest(r); !errors.Is(err, session.ErrNoCookie) {
		t.Error(err)
	}
}

// checker is an application's own StatusChecker.
type checker func(session.StatusRef) (bool, error)

func (f checker) Revoked(_ context.Context, ref session.StatusRef) (bool, error) { return f(ref) }

// Of several cookies the one counts that says most.
func TestInvalidCookiesAreRefusedWithAReason(t *testing.T) {
	v := verifier()
	v.Status = checker(func(ref session.StatusRef) (bool, error) {
		if ref.Index == 2 {
			return false, session.ErrStatusUnavailable
		}
		return ref.Index == 1, nil
	})
	revoked, unknown := hsToken(payload(issuer, clock, 1)), hsToken(payload(issuer, clock, 2))
	down := verifier()
	down.Keys = ownKeySet{err: errors.New("down")}
	unset := &session.Verifier{Secret: secret}
	for name, tt := range map[string]struct {
		v       *session.Verifier
		cookies []string // "x" is added before and behind
		want    error
	}{
		"blank":                      {v, []string{""}, session.ErrInvalid},
		"expired":                    {v, []string{expiredToken()}, session.ErrExpired},
		"revoked":                    {v, []string{revoked}, session.ErrRevoked},
		"status unknown":             {v, []string{revoked, unknown}, session.ErrStatusUnavailable},
		"keys away":                  {down, []string{expiredToken(), rsToken(good())}, session.ErrKeysUnavailable},
		"good beside unknown":        {v, []string{unknown, revoked, hsToken(good())}, nil},
		"no issuer, even w/o cookie": {unset, nil, unset.Check()},
		"thousands":                  {v, strings.Split(strings.Repeat("x,y,", 700), ","), session.ErrInvalid},
	} {
		header := "cairn_session=x; cairn_session=" + strings.Join(tt.cookies, "; cairn_session=") + "; cairn_session=x"
		c, err := tt.v.VerifyRequest(visit(header))
		if !errors.Is(err, tt.want) && (err == nil || err.Error() != tt.want.Error()) || (c.Subject == "") != (tt.want != nil) {
			t.Errorf("%s: got %+v, %v; want %v", name, c, err, tt.want)
		}
	}
	for _, header := range []string{"other=1", "cairn_session=\x01\x02\xff"} {
		if _, err := v.VerifyRequest(visit(header)); !errors.Is(err, session.ErrNoCookie) {
			t.Errorf("%q: %v", header, err)
		}
	}
}

func TestFloodOfCookiesCostsFewSignatures(t *testing.T) {
	v := verifier()
	counting := &countingKeySet{KeySet: v.Keys}
	v.Keys = counting
	parts := strings.Split(rsToken(good()), ".")
	r := visit()
	for i := range 300 {
		r.Header.Add("Cookie", "cairn_session="+parts[0]+"."+b64(fmt.Sprint(i))+"."+parts[2])
	}
	if _, err := v.VerifyRequest(r); !errors.Is(err, session.ErrInvalid) || counting.asked > 64 {
		t.Errorf("%d keys looked up: %v", counting.asked, err)
	}
}

// Only of a good token it is asked whether it was revoked: a stranger must not make an
// application ask.
func TestStatusOfABadTokenIsNotFetched(t *testing.T) {
	v := verifier()
	v.Status = checker(func(session.StatusRef) (bool, error) { t.Error("asked"); return false, nil })
	genuine, wrong := fuzzSeeds()
	for _, token := range append(wrong, expiredToken(), genuine[0]+"x", hsToken(with("aud", "client-1")),
		hsToken(with("iss", issuer+"/")), hsToken(with("nbf", clock.Unix()+60)),
		hsToken(with("status", nil)), hsToken(with("status", map[string]any{"other": 1}))) {
		mustRefuse(t, v, token)
	}
}

func TestFailureOfOwnCheckerRefusesTheSession(t *testing.T) {
	for name, c := range map[string]struct {
		revoked bool
		err     error
		want    []error
		not     error
	}{
		"revoked":              {true, nil, []error{session.ErrRevoked, session.ErrInvalid}, session.ErrStatusUnavailable},
		"unavailable":          {false, session.ErrStatusUnavailable, []error{session.ErrStatusUnavailable}, session.ErrInvalid},
		"context":              {false, context.Canceled, []error{session.ErrStatusUnavailable, context.Canceled}, session.ErrInvalid},
		"invalid":              {false, session.ErrInvalid, []error{session.ErrInvalid}, session.ErrRevoked},
		"revoked and an error": {true, errors.New("disk on fire"), []error{session.ErrStatusUnavailable}, session.ErrInvalid},
	} {
		v := verifier()
		v.Status = checker(func(ref session.StatusRef) (bool, error) {
			same(t, "asked", ref, place(7))
			return c.revoked, c.err
		})
		claims, err := v.Verify(t.Context(), rsToken(good()))
		for _, want := range c.want {
			if !errors.Is(err, want) || errors.Is(err, c.not) || claims.Subject != "" {
				t.Errorf("%s: %+v, %v", name, claims, err)
			}
		}
	}
}

// app answers with the handle it finds, and says so when there is none.
var app = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	c, ok := session.FromContext(r.Context())
	if !ok || session.FailureFromContext(r.Context()) != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	_, _ = io.WriteString(w, c.Handle)
})

func TestMiddleware(t *testing.T) {
	down, revoked := verifier(), verifier()
	down.Keys = ownKeySet{err: errors.New("down")}
	revoked.Status = checker(func(session.StatusRef) (bool, error) { return true, nil })
	unknown := verifier()
	unknown.Status = checker(func(session.StatusRef) (bool, error) { return false, errors.New("down") })
	const stepUp = `Cookie realm="cairn", error="insufficient_user_authentication", acr_values="phr"`
	passkeys := verifier()
	passkeys.RequireACR = session.ACRPhishingResistant
	for name, tt := range map[string]struct {
		v             *session.Verifier
		cookie        string
		status        int
		code          string
		retry, scheme string
	}{
		"good":           {verifier(), rsToken(good()), 200, "", "", ""},
		"no cookie":      {verifier(), "", 401, "not_authenticated", "", `Cookie realm="cairn"`},
		"unsigned":       {verifier(), b64(`{"alg":"none"}`) + "." + b64(toJSON(good())) + ".", 401, "not_authenticated", "", `Cookie realm="cairn"`},
		"expired":        {verifier(), expiredToken(), 401, "not_authenticated", "", `Cookie realm="cairn"`},
		"revoked":        {revoked, rsToken(good()), 401, "not_authenticated", "", `Cookie realm="cairn"`},
		"keys away":      {down, rsToken(good()), 503, "temporarily_unavailable", "10", ""},
		"status unknown": {unknown, rsToken(good()), 503, "temporarily_unavailable", "10", ""},
		"weaker sign-in": {passkeys, rsToken(good()), 401, "second_factor_required", "", stepUp},
		"not set up":     {&session.Verifier{}, hsToken(good()), 500, "internal_error", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := visit()
			if tt.cookie != "" {
				r.AddCookie(&http.Cookie{Name: "__Host-cairn_session", Value: tt.cookie})
			}
			w := httptest.NewRecorder()
			session.Middleware(tt.v, nil)(app).ServeHTTP(w, r)
			h := w.Header()
			if w.Code != tt.status || h.Get("Vary") != "Cookie" ||
				(h.Get("Cache-Control") == "no-store") != (w.Code != 200) || h.Get("Retry-After") != tt.retry ||
				h.Get("WWW-Authenticate") != tt.scheme {
				t.Errorf("%d, %v", w.Code, h)
			}
			if tt.status == 200 {
				same(t, w.Body, w.Body.String(), "ada")
				return
			}
			var body struct {
				Type, Title, Detail, Code string
				Status                    int
			}
			must(t, json.Unmarshal(w.Body.Bytes(), &body))
			if body.Status != tt.status || body.Code != tt.code || body.Title != http.StatusText(tt.status) ||
				body.Detail == "" || body.Type != "about:blank" || h.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%+v, %v", body, h)
			}
			if tt.cookie != "" && strings.Contains(w.Body.String(), tt.cookie) {
				t.Error("the answer holds the token")
			}
		})
	}
}

func TestOwnFailureHandlerLearnsTheReasonAndNoClaims(t *testing.T) {
	var got error
	h := session.Middleware(verifier(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = session.FailureFromContext(r.Context())
		if c, ok := session.FromContext(r.Context()); ok {
			t.Errorf("claims %+v", c)
		}
		http.Redirect(w, r, "/login/", http.StatusSeeOther)
	}))(app)
	for cookie, want := range map[string]error{"": session.ErrNoCookie, "cairn_session=x": session.ErrInvalid} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, visit(cookie))
		if !errors.Is(got, want) || w.Code != http.StatusSeeOther || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%q: %v, %d, %v", cookie, got, w.Code, w.Header())
		}
	}
	if c, ok := session.FromContext(t.Context()); ok || c.Subject != "" || session.FailureFromContext(t.Context()) != nil {
		t.Error("a context without Middleware has claims")
	}
}
