package provider

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// acrPassword is the one authentication context class there is: the user gave
// the password. It is in the ID token when the client asks for any (OpenID Connect Core sections 3.1.2.1, 5.5.1.1).
const acrPassword = "1"

// authorize is the authorization endpoint (RFC 6749 section 3.1, OpenID Connect
// Core section 3.1.2). It writes nothing to the database before the user is
// signed in and has agreed.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	req, err := p.parseAuthorization(w, r)
	if err == nil {
		err = p.takePushed(r.Context(), req)
	}
	if err == nil {
		err = p.proveClient(r.Context(), req)
	}
	if err != nil {
		p.authorizePage(w, r, err)
		return
	}
	identity, err := p.accounts.Current(r)
	if err != nil && !errors.Is(err, account.ErrNotAuthenticated) {
		p.authorizePage(w, r, err)
		return
	}
	q, problem := p.ask(r, req, identity)
	if problem != nil {
		p.refuseAuthorization(w, r, req, problem)
		return
	}
	if identity == nil && r.Method == http.MethodPost && !r.Form.Has("continue") {
		// A form of another site comes without the cookie (SameSite=Lax). By GET
		// it is there, if there is one.
		p.sendOn(w, r, req, nil, "/oauth2/authorize", "")
		return
	}
	if identity != nil {
		if q.consented, err = p.storage.ConsentedScopes(r.Context(), identity.User.Sub, req.client.ID); err != nil {
			p.authorizePage(w, r, err)
			return
		}
	}
	v, problem := decide(q)
	switch v {
	case login:
		p.sendOn(w, r, req, identity, "/login/", q.freshSignIn())
	case consent:
		p.sendOn(w, r, req, identity, "/oauth2/consent", "")
	case proceed:
		p.issueCode(w, r, req, identity, q)
	default:
		web.Note(r.Context(), "authorize_"+problem.ErrorField)
		p.refuseAuthorization(w, r, req, problem)
	}
}

// sendOn sends the browser to the sign-in or consent page with the request
// sealed into the URL. fresh says why who is signed in has to sign in.
func (p *Provider) sendOn(w http.ResponseWriter, r *http.Request, req *authorization, id *account.Identity, path, fresh string) {
	sealed := req.sealed
	if sealed == "" {
		var err error
		sealed, err = p.seal.seal(purposeContinue, pending{
			Query: req.form.Encode(), Arrived: req.arrived.Unix(), Proof: fingerprint(id), Detour: path == "/oauth2/authorize",
		})
		if err != nil {
			p.authorizePage(w, r, err)
			return
		}
	}
	next := url.Values{"continue": {sealed}}
	if hint, err := account.CanonicalHandle(req.form.Get("login_hint")); err == nil && path == "/login/" {
		next.Set("handle", hint)
	}
	if fresh != "" {
		// The page must not go on without a sign-in.
		next.Set("fresh", fresh)
	}
	http.Redirect(w, r, p.accounts.Path(path)+"?"+next.Encode(), http.StatusSeeOther)
}

// applicationName is the name that the sign-in page shows for a continuation, "" for one that cannot be used.
func (p *Provider) applicationName(ctx context.Context, continuation string) string {
	var c pending
	if p.seal.open(purposeContinue, continuation, &c) != nil {
		return ""
	}
	form, err := url.ParseQuery(c.Query)
	if err != nil {
		return ""
	}
	req := &authorization{form: form}
	if p.proveClient(ctx, req) != nil {
		return ""
	}
	return cmp.Or(req.client.Name, req.client.ID)
}

// issueCode lets fosite make and store the code. fosite sees a canonical
// request: what it decides wrongly (prompt, max_age, unknown scopes) was decided here.
func (p *Provider) issueCode(w http.ResponseWriter, r *http.Request, req *authorization, id *account.Identity, q question) {
	ctx := r.Context()
	form := url.Values{
		"client_id": {req.client.ID}, "redirect_uri": {req.redirectURI}, "response_type": {"code"}, "scope": {strings.Join(q.granted, " ")},
	}
	for _, name := range []string{"nonce", "code_challenge", "code_challenge_method"} {
		if v := req.form.Get(name); v != "" {
			form.Set(name, v)
		}
	}
	clean := &http.Request{Method: http.MethodGet, URL: &url.URL{RawQuery: form.Encode()}, Form: form, Header: http.Header{}}
	ar, err := p.fosite.NewAuthorizeRequest(withProven(ctx, req.client, req.redirectURI), clean)
	if err != nil && !errors.Is(err, fosite.ErrInvalidState) { // its last check; state is not its business here
		p.authorizeFailure(w, r, req, err)
		return
	}
	for _, s := range q.granted {
		ar.GrantScope(s)
	}
	session, err := newGrantSession(req, id, q)
	if err != nil {
		p.authorizeFailure(w, r, req, err)
		return
	}
	resp, err := p.fosite.NewAuthorizeResponse(ctx, ar, session)
	if errors.Is(err, account.ErrSessionNotFound) && !req.silent() {
		// The session ended between the look at it and the code.
		p.sendOn(w, r, req, nil, "/login/", "")
		return
	}
	if err != nil {
		p.authorizeFailure(w, r, req, err)
		return
	}
	web.Note(ctx, "authorized")
	p.answer(w, r, req, url.Values{"code": {resp.GetCode()}})
}

// newGrantSession is what a grant keeps of the request and of who agreed to it.
func newGrantSession(req *authorization, id *account.Identity, q question) (*GrantSession, error) {
	session := &GrantSession{
		Subject: id.User.Sub, SessionID: id.Session.ID, AuthTime: id.Session.AuthTime, RequestedAt: id.Session.AuthTime,
	}
	if q.claims.acr || req.form.Get("acr_values") != "" {
		session.ACR = acrPassword
	}
	var err error
	session.Claims, err = q.claims.stored()
	return session, err
}
