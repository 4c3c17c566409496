package httpd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/cairn-id/cairn/provider"
)

// receiver is a client's back-channel logout endpoint.
type receiver struct {
	*httptest.Server
	tokens chan string
	status atomic.Int32 // what it answers
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{tokens: make(chan string, 64)}
	r.status.Store(http.StatusOK)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := req.ParseForm(); err != nil || req.Method != http.MethodPost || len(req.PostForm) != 1 || req.URL.RawQuery != "" {
			t.Errorf("%s %s with %d fields: %v", req.Method, req.URL, len(req.PostForm), err)
		}
		if cc := req.Header.Get("Content-Type"); cc != "application/x-www-form-urlencoded" {
			t.Errorf("Content-Type %q", cc)
		}
		w.WriteHeader(int(r.status.Load()))
		r.tokens <- req.PostForm.Get("logout_token")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) wait(t *testing.T) string {
	t.Helper()
	select {
	case token := <-r.tokens:
		return token
	case <-time.After(15 * time.Second):
		t.Fatal("no logout token arrived")
		return ""
	}
}

func (s *service) backchannelClient(id string, r *receiver) string {
	return s.addClient(id, func(c *provider.Client) {
		c.BackchannelLogoutURI, c.BackchannelPrivate = r.URL+"/backchannel", true
		c.PostLogoutRedirectURIs = []string{"https://" + id + ".example.org/signed-out"}
	})
}

// The module of the back-channel plan, and what a client checks of the token.
func TestOP_oidcc_backchannel_rp_initiated_logout(t *testing.T) {
	s := startService(t, serviceOptions{})
	u := s.addUser("ada")
	r := startReceiver(t)
	rp := s.relyingParty("app", s.backchannelClient("app", r))
	b, token := s.signedInTokens(rp, "ada")
	hint, _ := token.Extra("id_token").(string)
	sid := jwtPayload(t, hint)["sid"]
	got := b.get("/oauth2/logout?id_token_hint=" + hint + "&post_logout_redirect_uri=https://app.example.org/signed-out&state=xyz")
	if got.Header.Get("Location") != "https://app.example.org/signed-out?state=xyz" {
		t.Fatalf("%d to %q", got.StatusCode, got.Header.Get("Location"))
	}
	logoutToken := r.wait(t)
	// Somebody else's verifier: signature by the published key, iss, aud, exp.
	if _, err := rp.provider.Verifier(&oidc.Config{ClientID: "app"}).Verify(t.Context(), logoutToken); err != nil {
		t.Errorf("logout token: %v", err)
	}
	claims := jwtPayload(t, logoutToken)
	events, _ := claims["events"].(map[string]any)
	event, ok := events["http://schemas.openid.net/event/backchannel-logout"].(map[string]any)
	if !ok || len(events) != 1 || len(event) != 0 || claims["nonce"] != nil || claims["jti"] == "" || claims["sub"] != u.Sub || claims["sid"] != sid || sid == nil {
		t.Errorf("claims %v, sid of the ID token %v", claims, sid)
	}
	if typ := jwtHeader(t, logoutToken)["typ"]; typ != "logout+jwt" {
		t.Errorf("typ %v", typ)
	}
	meta := b.get("/.well-known/openid-configuration").JSON(t)
	if meta["backchannel_logout_supported"] != true || meta["backchannel_logout_session_supported"] != true || meta["end_session_endpoint"] != s.URL+"/oauth2/logout" {
		t.Errorf("metadata %v", meta)
	}
	if got := b.authorize(rp.authURL("prompt", "none"), "ada"); got.Get("error") != "login_required" {
		t.Errorf("prompt=none afterwards: %v", got)
	}
}

// Every way in which a session ends reaches the clients of that session, and
// of no other.
func TestEndedSessionNeverStaysAliveAtItsClients(t *testing.T) {
	for name, end := range map[string]func(s *service, b *browser){
		"sign out": func(_ *service, b *browser) { b.api("POST", "/api/auth/logout", nil) },
		"suspension": func(s *service, _ *browser) {
			admin := s.browser()
			admin.signIn("keeper")
			admin.api("POST", "/api/admin/users/ada/suspend", map[string]string{})
		},
		"deletion by the administrator": func(s *service, _ *browser) {
			admin := s.browser()
			admin.signIn("keeper")
			admin.api("DELETE", "/api/admin/users/ada", nil)
		},
		"end the others": func(s *service, _ *browser) {
			other := s.browser()
			other.signIn("ada")
			other.api("POST", "/api/me/sessions/end-others", nil)
		},
		"password change elsewhere": func(s *service, _ *browser) {
			other := s.browser()
			other.signIn("ada")
			other.api("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": "a quite different one 8"})
		},
		"own deletion": func(_ *service, b *browser) { b.api("DELETE", "/api/me", map[string]string{"password": password}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := startService(t, serviceOptions{})
			s.addUser("ada")
			s.addUser("bob")
			s.addUser("keeper", "admin")
			r := startReceiver(t)
			rp := s.relyingParty("app", s.backchannelClient("app", r))
			b, token := s.signedInTokens(rp, "ada")
			s.signedInTokens(rp, "bob") // stays
			hint, _ := token.Extra("id_token").(string)
			end(s, b)
			if got := jwtPayload(t, r.wait(t)); got["sid"] != jwtPayload(t, hint)["sid"] {
				t.Errorf("logout token for sid %v", got["sid"])
			}
			select {
			case extra := <-r.tokens:
				t.Errorf("a second logout token: %v", jwtPayload(t, extra))
			default:
			}
		})
	}
}

// A client that is down or slow delays nobody, and gets its token later.
func TestFailedLogoutIsNeverForgotten(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	r := startReceiver(t)
	r.status.Store(http.StatusInternalServerError)
	rp := s.relyingParty("app", s.backchannelClient("app", r))
	b, _ := s.signedInTokens(rp, "ada")
	b.api("POST", "/api/auth/logout", nil)
	r.wait(t)
	r.status.Store(http.StatusNoContent)
	r.wait(t) // the retry
	if strings.Contains(s.log.String(), "logout_token") {
		t.Error("the token is in the log")
	}
}

// 400 is the client's last word: nobody asks again, and nothing is kept.
func TestRefusedLogoutIsNotTriedAgain(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	r := startReceiver(t)
	r.status.Store(http.StatusBadRequest)
	b, _ := s.signedInTokens(s.relyingParty("app", s.backchannelClient("app", r)), "ada")
	b.api("POST", "/api/auth/logout", nil)
	s.log.wait(t, `"msg":"logout refused"`)
	for end := time.Now().Add(15 * time.Second); db.count("SELECT count(*) FROM logout_outbox") > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the notice is kept")
		}
	}
	if got := strings.Count(s.log.String(), `"msg":"logout `); got != 1 {
		t.Errorf("%d lines about it: %s", got, s.log)
	}
}

// What is reached is the registered address: a redirect would take the token
// elsewhere, past the rules of registration.
func TestLogoutTokenNeverFollowsARedirect(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	elsewhere := startReceiver(t)
	door := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(door.Close)
	b, _ := s.signedInTokens(s.relyingParty("app", s.backchannelClient("app", &receiver{Server: door})), "ada")
	b.api("POST", "/api/auth/logout", nil)
	s.log.wait(t, `"msg":"logout `) // delivered or not
	if len(elsewhere.tokens) > 0 || !strings.Contains(s.log.String(), "the client answered 307") {
		t.Errorf("%d tokens were redirected: %s", len(elsewhere.tokens), s.log)
	}
}

// The guard: a client may not name an address inside the network unless the
// operator opens it, whatever its name resolves to.
func TestLogoutTokenNeverGoesToAPrivateAddress(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	r := startReceiver(t)
	secret := s.backchannelClient("app", r)
	db.exec("UPDATE clients SET backchannel_private = FALSE") // as a name that resolves to such an address
	b, _ := s.signedInTokens(s.relyingParty("app", secret), "ada")
	b.api("POST", "/api/auth/logout", nil)
	s.log.wait(t, "the address is private")
	if len(r.tokens) > 0 {
		t.Error("a token went to a loopback address")
	}
}
