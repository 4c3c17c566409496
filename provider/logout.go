package provider

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

// maxLogoutQuery bounds a logout request, in bytes; it carries an ID token.
const maxLogoutQuery = 12 << 10

// endSession is the end_session_endpoint (OpenID Connect RP-Initiated Logout
// 1.0 section 2). With a genuine id_token_hint of the signed-in user the session ends at
// once; without one a page asks, or any site could sign people out. Only a
// genuine hint, and a URI that is registered for its client, lets the browser go elsewhere.
func (p *Provider) endSession(w http.ResponseWriter, r *http.Request) {
	form, ok := p.logoutForm(w, r)
	if !ok {
		return
	}
	id, err := p.accounts.Current(r)
	if err != nil && !errors.Is(err, account.ErrNotAuthenticated) {
		p.authorizePage(w, r, err)
		return
	}
	client, sub, err := p.logoutClient(r, form)
	if err != nil {
		p.authorizePage(w, r, err)
		return
	}
	target := ""
	if client != nil && slices.Contains(client.PostLogoutRedirectURIs, form.Get("post_logout_redirect_uri")) {
		target = form.Get("post_logout_redirect_uri")
	}
	asked := form.Get("post_logout_redirect_uri") != ""
	if client == nil || id != nil && id.User.Sub != sub || asked && target == "" {
		p.confirmLogout(w, r, id)
		return
	}
	p.finishLogout(w, r, sub, target, form["state"])
}

// logoutForm reads the parameters. A POST is sent on as a GET of the same
// parameters: the browser holds its cookie back from a POST of another site.
func (p *Provider) logoutForm(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	form := r.URL.Query()
	if r.Method == http.MethodPost {
		if err := account.ReadForm(w, r); err != nil {
			p.authorizePage(w, r, err)
			return nil, false
		}
		if confirmed := r.PostForm.Get("confirm"); confirmed != "" {
			p.confirmedLogout(w, r, confirmed)
			return nil, false
		}
		form = r.PostForm
	}
	encoded := form.Encode()
	for _, values := range form {
		if len(values) > 1 {
			encoded = strings.Repeat("x", maxLogoutQuery+1) // refused below: which of the two counts would be a guess
		}
	}
	if len(encoded) > maxLogoutQuery {
		p.authorizePage(w, r, account.NewProblem(http.StatusBadRequest, "invalid_request", "The request to sign out is too long or names a parameter twice."))
		return nil, false
	}
	if r.Method == http.MethodPost {
		http.Redirect(w, r, p.accounts.Path("/oauth2/logout")+"?"+encoded, http.StatusSeeOther)
		return nil, false
	}
	return form, true
}

// logoutClient verifies the hint: signed by a published key, ours, for a
// registered client; an expired one is fine. No client without a genuine hint.
func (p *Provider) logoutClient(r *http.Request, form url.Values) (*Client, string, error) {
	hint := form.Get("id_token_hint")
	if hint == "" {
		return nil, "", nil
	}
	c, err := p.idTokens.hint(hint)
	if err != nil || form.Has("client_id") && form.Get("client_id") != c.Audience[0] {
		return nil, "", nil
	}
	found, err := p.clients.GetClient(r.Context(), c.Audience[0])
	if errors.Is(err, fosite.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	client, ok := found.(*Client)
	if !ok {
		return nil, "", errors.New("the store returned a client of another type")
	}
	return client, c.Subject, nil
}

// confirmLogout asks. The sealed value ties the answer to this session: another
// site's form has none.
func (p *Provider) confirmLogout(w http.ResponseWriter, r *http.Request, id *account.Identity) {
	if id == nil {
		p.accounts.Show(w, r, http.StatusOK, templates.SignedOut{BackURL: p.accounts.Path("/login/"), BackName: "Sign in"})
		return
	}
	confirm, err := p.seal.seal(purposeLogout, bind(id, "", ""))
	if err != nil {
		p.authorizePage(w, r, err)
		return
	}
	p.accounts.Show(w, r, http.StatusOK, templates.Logout{
		Handle: id.User.Handle, SignedIn: true, Action: p.accounts.Path("/oauth2/logout"), Hidden: map[string]string{"confirm": confirm},
	})
}

func (p *Provider) confirmedLogout(w http.ResponseWriter, r *http.Request, confirmed string) {
	id, err := p.accounts.Current(r)
	if err != nil && !errors.Is(err, account.ErrNotAuthenticated) {
		p.authorizePage(w, r, err)
		return
	}
	if id == nil {
		// Signed out already, or the form of another site, which comes without the
		// cookie (SameSite=Lax): to clear it in the answer would sign the person out.
		p.confirmLogout(w, r, nil)
		return
	}
	var b binding
	if p.seal.open(purposeLogout, confirmed, &b) != nil || b != bind(id, "", "") {
		p.authorizePage(w, r, account.NewProblem(http.StatusForbidden, "logout_form", "This form was not made for your session, or it is too old. Try to sign out again."))
		return
	}
	p.finishLogout(w, r, "", "", nil)
}

// finishLogout ends the session, of sub alone if that is not empty, and goes to the
// proven target with state and nothing else, or shows a page.
func (p *Provider) finishLogout(w http.ResponseWriter, r *http.Request, sub, target string, state []string) {
	if err := p.accounts.SignOut(w, r, sub); err != nil {
		p.authorizePage(w, r, err)
		return
	}
	if target == "" {
		p.accounts.Show(w, r, http.StatusOK, templates.SignedOut{BackURL: p.accounts.Path("/login/"), BackName: "Sign in again"})
		return
	}
	if len(state) == 1 && state[0] != "" {
		target = withQuery(target, url.Values{"state": state})
	}
	w.Header().Set("Location", target)
	w.WriteHeader(http.StatusSeeOther)
}
