package demoapp

import (
	"maps"
	"net/http"
	"net/url"

	"github.com/coreos/go-oidc/v3/oidc"
)

// logout ends the application's own session and sends the browser on to end that
// at the service (OpenID Connect RP-Initiated Logout 1.0), whose cookie goes with it.
// Without an ID token the service asks first.
func (a *App) logout(w http.ResponseWriter, r *http.Request) {
	var hint string
	if c, err := r.Cookie("demo_app"); err == nil {
		a.mu.Lock()
		hint = a.sessions[c.Value].IDToken
		delete(a.sessions, c.Value)
		a.mu.Unlock()
	}
	demoCookie(w, "demo_app", "", -1)
	target := "/" // the service does not answer: signed out here at least
	if p, _, err := a.oauth(r.Context()); err == nil {
		var metadata struct {
			EndSession string `json:"end_session_endpoint"`
		}
		if p.Claims(&metadata) == nil && metadata.EndSession != "" {
			q := url.Values{"client_id": {a.config.ClientID}, "post_logout_redirect_uri": {a.config.URL + "/"}}
			if hint != "" {
				q.Set("id_token_hint", hint)
			}
			target = metadata.EndSession + "?" + q.Encode()
		}
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
}

// maxLogoutToken bounds the body of a back-channel logout request, in bytes.
const maxLogoutToken = 64 << 10

// backchannelLogout takes the service's word that a session has ended (OpenID
// Connect Back-Channel Logout 1.0 section 2.5). A token that comes again finds nothing
// left to end.
func (a *App) backchannelLogout(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	p, _, err := a.oauth(r.Context())
	if err != nil {
		http.Error(w, "The service does not answer.", http.StatusServiceUnavailable)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLogoutToken)
	token, err := p.Verifier(&oidc.Config{ClientID: a.config.ClientID}).VerifyLogout(r.Context(), r.PostFormValue("logout_token"))
	if err != nil {
		http.Error(w, "This is no logout token for this application.", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.sessions, func(_ string, u demoUser) bool {
		return (token.Subject == "" || u.Subject == token.Subject) && (token.SessionID == "" || u.SessionID == token.SessionID)
	})
}
