package session_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account/session"
	"github.com/google/go-cmp/cmp"
)

// app answers with the handle it finds, and says so when there is none.
var app = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	c, ok := session.FromContext(r.Context())
	if !ok || session.FailureFromContext(r.Context()) != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	_, _ = io.WriteString(w, c.Handle)
})

func TestMiddlewareHandsClaimsOn(t *testing.T) {
	w := httptest.NewRecorder()
	session.Middleware(verifier(), nil)(app).ServeHTTP(w, request("__Host-cairn_session="+rsToken(good())))
	if w.Code != http.StatusOK || w.Body.String() != "ada" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	if w.Header().Get("Vary") != "Cookie" || w.Header().Get("Cache-Control") != "" {
		t.Errorf("header %v", w.Header())
	}
}

func TestMiddlewareNeverLetsARefusedRequestPass(t *testing.T) {
	down := verifier()
	down.Keys = failingKeySet{errors.New("down")}
	for name, tt := range map[string]struct {
		v      *session.Verifier
		cookie string
		status int
		code   string
		header map[string]string
	}{
		"no cookie":  {verifier(), "", 401, "not_authenticated", map[string]string{"WWW-Authenticate": `Cookie realm="cairn"`}},
		"unsigned":   {verifier(), "cairn_session=" + b64(`{"alg":"none"}`) + "." + b64(toJSON(good())) + ".", 401, "not_authenticated", nil},
		"expired":    {verifier(), "cairn_session=" + expiredToken(), 401, "not_authenticated", nil},
		"keys away":  {down, "cairn_session=" + rsToken(good()), 503, "temporarily_unavailable", map[string]string{"Retry-After": "10", "WWW-Authenticate": ""}},
		"not set up": {&session.Verifier{}, "cairn_session=" + hsToken(good()), 500, "internal_error", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			session.Middleware(tt.v, nil)(app).ServeHTTP(w, request(tt.cookie))
			var body struct {
				Type, Title, Detail, Code string
				Status                    int
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			if w.Code != tt.status || body.Status != tt.status || body.Code != tt.code || body.Title != http.StatusText(tt.status) || body.Detail == "" || body.Type != "about:blank" {
				t.Errorf("%d %+v", w.Code, body)
			}
			want := map[string]string{"Content-Type": "application/problem+json", "Cache-Control": "no-store", "Vary": "Cookie"}
			for k, v := range tt.header {
				want[k] = v
			}
			for k, v := range want {
				if got := w.Header().Get(k); got != v {
					t.Errorf("%s: %q, want %q", k, got, v)
				}
			}
			if _, value, _ := strings.Cut(tt.cookie, "="); value != "" && strings.Contains(w.Body.String(), value) {
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
		h.ServeHTTP(w, request(cookie))
		if !errors.Is(got, want) || w.Code != http.StatusSeeOther || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%q: %v, %d, %v", cookie, got, w.Code, w.Header())
		}
	}
}

func TestContextWithoutMiddlewareHoldsNobody(t *testing.T) {
	c, ok := session.FromContext(t.Context())
	if diff := cmp.Diff(session.Claims{}, c); ok || diff != "" || session.FailureFromContext(t.Context()) != nil {
		t.Errorf("%t %s", ok, diff)
	}
}
