package provider

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// maxLogoutQuery bounds a logout request, in bytes. It contains an ID token.
const maxLogoutQuery = 12 << 10

// endSession is the end_session_endpoint (OpenID Connect RP-Initiated Logout 1.0 section 2). A
// genuine id_token_hint of the signed-in user ends the session at once. Without one a page asks
// first, or any site could sign users out; the page also reports an invalid request. The browser
// leaves only for an address registered for the client: automatically after a genuine hint,
// otherwise by a link.
func (p *Provider) endSession(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	templates.SetApplicationLanguage(r.Context(), form.Get("ui_locales"))
	if err := checkLogout(form); err != nil {
		return err
	}
	id, err := p.accounts.SessionToEnd(r.Context(), p.accounts.Caller(r).Browser)
	if err != nil && !errors.Is(err, account.ErrNotAuthenticated) {
		return err
	}
	req, err := p.readLogout(r.Context(), form)
	if err != nil {
		return err
	}
	if req.problem == "" && id != nil && req.sub != "" && id.User.Sub != req.sub {
		req.problem = "The application asks to sign out a different account from the one signed in here."
	}
	if req.problem != "" || req.sub == "" {
		return p.confirmLogout(w, r, id, req)
	}
	if err := p.accounts.SignOutBrowser(w, r, req.sub); err != nil {
		return err
	}
	switch {
	case req.uri != "":
		w.Header().Set("Location", req.back())
		w.WriteHeader(http.StatusSeeOther)
	case id == nil:
		p.accounts.Show(w, r, http.StatusOK, templates.Logout{})
	default:
		p.accounts.Show(w, r, http.StatusOK, templates.SignedOut{})
	}
	return nil
}

// logoutForm handles the confirmation page. Any other POST is redirected to a GET with the same
// parameters, because browsers send no cookie with a POST of another site.
func (p *Provider) logoutForm(w http.ResponseWriter, r *http.Request) error {
	templates.SetApplicationLanguage(r.Context(), r.URL.Query().Get("ui_locales"))
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	templates.SetApplicationLanguage(r.Context(), r.PostForm.Get("ui_locales"))
	if confirmed := r.PostForm.Get("confirm"); confirmed != "" {
		return p.confirmedLogout(w, r, confirmed)
	}
	if err := checkLogout(r.PostForm); err != nil {
		return err
	}
	return p.accounts.Redirect(w, r, "/oauth2/logout?"+r.PostForm.Encode())
}

func checkLogout(form url.Values) error {
	repeated := func(values []string) bool { return len(values) > 1 }
	if len(form.Encode()) > maxLogoutQuery || slices.ContainsFunc(slices.Collect(maps.Values(form)), repeated) {
		return web.NewProblem(http.StatusBadRequest, "invalid_request",
			"The sign-out request is too long or has a parameter twice.")
	}
	return nil
}

// logoutRequest is the proven part of a request to sign out.
type logoutRequest struct {
	client *Client // nil: unknown
	sub    string  // of a genuine id_token_hint, else ""
	uri    string  // post_logout_redirect_uri, if registered for client
	state  string
	// problem tells the user what is invalid, "" if nothing is.
	problem templates.Text
}

// back returns where the browser goes: the registered address with state.
func (q logoutRequest) back() string {
	if q.uri == "" || q.state == "" {
		return q.uri
	}
	return withQuery(q.uri, url.Values{"state": {q.state}})
}

func (q logoutRequest) clientName() string {
	if q.client == nil {
		return ""
	}
	return q.client.shownName()
}

// readLogout verifies the hint, which must be signed by a published key of this service for a
// registered client, but may be expired. It looks for the redirect address among those of the
// client in the hint or in client_id. Without either it looks among those of every client.
func (p *Provider) readLogout(ctx context.Context, form url.Values) (logoutRequest, error) {
	q := logoutRequest{state: form.Get("state")}
	const notOurs templates.Text = "The id_token_hint that the application sent is not an ID token from this service."
	id, sub := form.Get("client_id"), ""
	hint := form.Get("id_token_hint")
	if hint != "" {
		c, err := p.hint(hint)
		if err != nil {
			q.problem = notOurs
			return q, nil
		}
		if id != "" && id != c.Audience[0] {
			q.problem = "The id_token_hint that the application sent was issued to an application other than client_id."
			return q, nil
		}
		id, sub = c.Audience[0], c.Subject
	}
	uri := form.Get("post_logout_redirect_uri")
	if id == "" {
		if uri == "" {
			return q, nil
		}
		client, err := p.clientLoggingOutTo(ctx, uri)
		if err != nil {
			return q, err
		}
		if client == nil {
			q.problem = "The address to return to (post_logout_redirect_uri) is not registered with this service."
			return q, nil
		}
		q.client, q.uri = client, uri
		return q, nil
	}
	client, err := p.client(ctx, id)
	if errors.Is(err, ErrClientNotFound) {
		q.problem = "The application (client_id) is not registered with this service."
		if hint != "" {
			q.problem = notOurs
		}
		return q, nil
	}
	if err != nil {
		return q, err
	}
	q.client, q.sub = client, sub
	switch {
	case uri == "":
	case client.matchPostLogout(uri):
		q.uri = uri
	default:
		q.problem = "The address to return to (post_logout_redirect_uri) is not registered for this application."
	}
	return q, nil
}

// clientLoggingOutTo returns the client that registered the redirect address, the first by name
// of several, or nil. It serves requests that do not name a client. After these only a link leads
// to the address, so the user has read its name.
func (p *Provider) clientLoggingOutTo(ctx context.Context, uri string) (*Client, error) {
	all, err := p.storage.Clients(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(c *Client) bool { return c.matchPostLogout(uri) })
	if i < 0 {
		return nil, nil
	}
	return all[i], nil
}

// logoutAnswer is the sealed value of the confirmation page: the session, and the way back to the
// application.
type logoutAnswer struct {
	binding
	Back string `json:"q,omitempty"` // client_id, post_logout_redirect_uri and state, encoded
}

// maxLogoutBack bounds the way back, in bytes. With a longer state there is none.
const maxLogoutBack = 4 << 10

// confirmLogout shows the confirmation page. The sealed value ties the answer to this session;
// another site's form has none.
func (p *Provider) confirmLogout(
	w http.ResponseWriter, r *http.Request, id *person.Identity, req logoutRequest,
) error {
	page := templates.Logout{Problem: req.problem, BackURL: req.back(), BackName: req.clientName()}
	status := http.StatusOK
	if req.problem != "" {
		web.Note(r.Context(), "logout_invalid_request")
		status = http.StatusBadRequest
	}
	if id == nil {
		p.accounts.Show(w, r, status, page)
		return nil
	}
	answer := logoutAnswer{binding: bind(id, "", "")}
	if req.uri != "" {
		back := url.Values{
			"client_id": {req.client.ID}, "post_logout_redirect_uri": {req.uri}, "state": {req.state},
		}.Encode()
		if len(back) <= maxLogoutBack {
			answer.Back = back
		}
	}
	confirm, err := p.seal.Seal(purposeLogout, answer)
	if err != nil {
		return err
	}
	page.Handle, page.SignedIn = id.User.Handle, true
	page.Action, page.Hidden = p.accounts.Path("/oauth2/logout"), map[string]string{"confirm": confirm}
	if locales := r.URL.Query().Get("ui_locales"); locales != "" {
		page.Hidden["ui_locales"] = locales
	}
	p.accounts.Show(w, r, status, page)
	return nil
}

func (p *Provider) confirmedLogout(w http.ResponseWriter, r *http.Request, confirmed string) error {
	id, err := p.accounts.SessionToEnd(r.Context(), p.accounts.Caller(r).Browser)
	if err != nil && !errors.Is(err, account.ErrNotAuthenticated) {
		return err
	}
	if id == nil {
		// Either already signed out, or a form of another site, which comes without the cookie
		// (SameSite=Lax). Clearing the cookie in the response would sign the user out.
		p.accounts.Show(w, r, http.StatusOK, templates.Logout{})
		return nil
	}
	var answer logoutAnswer
	if p.seal.Open(purposeLogout, confirmed, &answer) != nil || answer.binding != bind(id, "", "") {
		return web.NewProblem(http.StatusForbidden, "logout_form",
			"This form does not belong to your session, or it is too old. Try to sign out again.")
	}
	back, err := url.ParseQuery(answer.Back)
	var req logoutRequest
	if err == nil {
		req, err = p.readLogout(r.Context(), back)
	}
	if err == nil {
		err = p.accounts.SignOutBrowser(w, r, "")
	}
	if err != nil {
		return err
	}
	p.accounts.Show(w, r, http.StatusOK, templates.SignedOut{BackURL: req.back(), BackName: req.clientName()})
	return nil
}
