package session_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

func TestRevokedSessionIsNeverAccepted(t *testing.T) {
	l := newLister(t, 0, 7, listSize-1)
	v := l.verifier(l.lists())
	for _, index := range []int{0, 7, listSize - 1} {
		if err := mustRefuse(t, v, l.token(index)); !errors.Is(err, session.ErrRevoked) {
			t.Errorf("%d: %v", index, err)
		}
	}
	for _, index := range []int{1, 6, 8, listSize - 2} {
		c, err := v.Verify(t.Context(), l.token(index))
		if err != nil || c.Status.Index != index || c.Algorithm != "RS256" {
			t.Errorf("%d: %+v, %v", index, c, err)
		}
	}
	l.wantFetches(t, 1)
	v.Status = nil
	if _, err := v.Verify(t.Context(), l.token(7)); err != nil {
		t.Errorf("nobody asks for the status: %v", err)
	}
}

// What no genuine token of this issuer has, is refused, and nothing is fetched for it.
func TestReferenceIntoAnotherListIsNeverFollowed(t *testing.T) {
	l := newLister(t)
	v := l.verifier(l.lists())
	reference := func(index any, uri string) string {
		p := with("status", map[string]any{"status_list": map[string]any{"idx": index, "uri": uri}})
		p["iss"] = l.URL
		return rsToken(p)
	}
	for _, uri := range []string{
		"https://evil.example/oauth2/status/1", l.URL + ".evil.example/oauth2/status/1", l.URL + "/oauth2/status/", l.URL + "/oauth2/status/01", l.URL + "/oauth2/status/+1",
		l.URL + "/oauth2/status/0", l.URL + "/oauth2/status/-1", l.URL + "/oauth2/status/1/", l.URL + "/oauth2/status/1?x", l.URL + "/oauth2/status/1#x", l.URL + "/oauth2/status/../../x",
		l.URL + "/oauth2/status/4294967297", l.URL + "/oauth2/status/99999999999999999999", strings.ToUpper(l.URL) + "/oauth2/status/1", "/oauth2/status/1", l.URL + "@evil.example/oauth2/status/1", "",
	} {
		mustRefuse(t, v, reference(1, uri))
	}
	none := with("status", nil)
	none["iss"] = l.URL
	other := with("status", map[string]any{"other": 1})
	other["iss"] = l.URL
	mustRefuse(t, v, rsToken(none))
	mustRefuse(t, v, rsToken(other))
	l.wantFetches(t, 0)
	for _, index := range []int{listSize, listSize + 1, 1 << 30} {
		mustRefuse(t, v, l.token(index))
	}
	mustRefuse(t, v, reference(-1, l.uri(1)))
}

func TestSecretNeverCountsAfterItsEnd(t *testing.T) {
	v := verifier()
	v.SecretUntil = clock.Add(time.Second)
	if _, err := v.Verify(t.Context(), hsToken(good())); err != nil {
		t.Error(err)
	}
	v.SecretUntil = clock
	mustRefuse(t, v, hsToken(good()))
	if _, err := v.Verify(t.Context(), rsToken(good())); err != nil {
		t.Error(err)
	}
	v.Keys = nil // then nobody would be signed in after the end
	if err := v.Check(); err == nil || errors.Is(err, session.ErrInvalid) {
		t.Errorf("an end of the secret without keys: %v", err)
	}
}

func TestClaimsSayWhichAlgorithmWasChecked(t *testing.T) {
	for want, token := range map[string]string{"HS256": hsToken(good()), "RS256": rsToken(good())} {
		if c, err := verifier().Verify(t.Context(), token); err != nil || c.Algorithm != want {
			t.Errorf("%s: %q, %v", want, c.Algorithm, err)
		}
	}
}

// checker is somebody's own StatusChecker.
type checker func(session.StatusRef) (bool, error)

func (f checker) Revoked(_ context.Context, ref session.StatusRef) (bool, error) { return f(ref) }

// Only of a good token it is asked whether it was taken back: a stranger must not make an
// application ask.
func TestStatusOfABadTokenIsNeverAskedFor(t *testing.T) {
	v := verifier()
	v.Status = checker(func(session.StatusRef) (bool, error) { t.Error("asked"); return false, nil })
	genuine, wrong := fuzzSeeds()
	for _, token := range append(wrong, expiredToken(), genuine[0]+"x", hsToken(with("aud", "client-1")), hsToken(with("iss", issuer+"/")), hsToken(with("nbf", clock.Unix()+60))) {
		mustRefuse(t, v, token)
	}
}

func TestOwnCheckerNeverLetsAFailurePass(t *testing.T) {
	for name, c := range map[string]struct {
		revoked bool
		err     error
		want    []error
		not     error
	}{
		"revoked":               {true, nil, []error{session.ErrRevoked, session.ErrInvalid}, session.ErrStatusUnavailable},
		"unavailable":           {false, session.ErrStatusUnavailable, []error{session.ErrStatusUnavailable}, session.ErrInvalid},
		"some other error":      {false, errors.New("disk on fire"), []error{session.ErrStatusUnavailable}, session.ErrInvalid},
		"context":               {false, context.Canceled, []error{session.ErrStatusUnavailable, context.Canceled}, session.ErrInvalid},
		"invalid":               {false, session.ErrInvalid, []error{session.ErrInvalid}, session.ErrRevoked},
		"revoked with an error": {true, errors.New("disk on fire"), []error{session.ErrStatusUnavailable}, session.ErrInvalid},
	} {
		v := verifier()
		v.Status = checker(func(ref session.StatusRef) (bool, error) {
			if ref != (session.StatusRef{Index: 7, URI: issuer + "/oauth2/status/1"}) {
				t.Errorf("asked for %+v", ref)
			}
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

// One cookie that was taken back, or that nobody can judge, does not hide a good one, and says
// more than a bad one.
func TestRevokedCookieNeverHidesAnother(t *testing.T) {
	v := verifier()
	v.Status = checker(func(ref session.StatusRef) (bool, error) {
		if ref.Index == 2 {
			return false, session.ErrStatusUnavailable
		}
		return ref.Index == 1, nil
	})
	cookie := func(index int) string {
		return "cairn_session=" + hsToken(with("status", map[string]any{"status_list": map[string]any{"idx": index, "uri": issuer + "/oauth2/status/1"}}))
	}
	for header, want := range map[string]error{
		cookie(1) + "; " + cookie(0):                              nil,
		cookie(2) + "; " + cookie(1) + "; " + cookie(0):           nil,
		"cairn_session=x; " + cookie(1) + "; cairn_session=y":     session.ErrRevoked,
		cookie(1) + "; " + cookie(2) + "; cairn_session=x":        session.ErrStatusUnavailable,
		"cairn_session=" + expiredToken() + "; cairn_session=abc": session.ErrExpired,
	} {
		if _, err := v.VerifyRequest(request(header)); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

func TestMiddlewareTellsAnEndedSessionFromOneThatNobodyCanJudge(t *testing.T) {
	l := newLister(t, 7)
	v := l.verifier(l.lists())
	h := session.Middleware(v, nil)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	visit := func(index int) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: "cairn_session", Value: l.token(index)})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
		return w.Code
	}
	if a, b := visit(5), visit(7); a != http.StatusOK || b != http.StatusUnauthorized {
		t.Errorf("%d and %d", a, b)
	}
	l.fail()
	v.Status = l.lists()
	if got := visit(5); got != http.StatusServiceUnavailable {
		t.Errorf("nobody can judge: %d", got)
	}
}

func TestListsThatCannotWorkAreNeverTakenForGood(t *testing.T) {
	list := func(o session.RemoteStatusOptions) session.StatusChecker { return session.NewRemoteStatusList(o) }
	for name, c := range map[string]struct {
		status session.StatusChecker
		says   string
	}{
		"no issuer":                {list(session.RemoteStatusOptions{Secret: secret}), "issuer"},
		"another issuer":           {list(session.RemoteStatusOptions{Issuer: issuer + "/", Secret: secret}), "issuer"},
		"nothing to verify with":   {list(session.RemoteStatusOptions{Issuer: issuer}), "status list has neither a secret nor keys"},
		"short secret":             {list(session.RemoteStatusOptions{Issuer: issuer, Secret: []byte("short")}), "5 bytes"},
		"blank secret":             {list(session.RemoteStatusOptions{Issuer: issuer, Secret: []byte{}, Keys: session.NewStaticKeySet()}), "0 bytes"},
		"public key":               {list(session.RemoteStatusOptions{Issuer: issuer, Secret: []byte("-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n")}), "PEM"},
		"nil":                      {(*session.RemoteStatusList)(nil), "NewRemoteStatusList"},
		"not made by its function": {&session.RemoteStatusList{}, "NewRemoteStatusList"},
	} {
		v := verifier()
		v.Status = c.status
		err := v.Check()
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "short") {
			t.Errorf("%s: %v", name, err)
		}
		if _, got := v.Verify(t.Context(), hsToken(good())); err == nil || got == nil || got.Error() != err.Error() || errors.Is(got, session.ErrInvalid) {
			t.Errorf("%s: Verify says %v, want Check's error", name, got)
		}
	}
}
