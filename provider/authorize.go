package provider

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
)

// maxQuery bounds an authorization request, in bytes of its encoded form: it
// has to travel through the sign-in page in a URL.
const maxQuery = 4 << 10

// acrPassword is the one authentication context class there is: the user gave
// the password. It is in the ID token when the client asks for any (OpenID Connect Core sections 3.1.2.1, 5.5.1.1).
const acrPassword = "1"

// authorization is a request to the authorization endpoint, parsed once.
type authorization struct {
	form      url.Values // the client's parameters
	arrived   time.Time
	returned  bool
	proofSeen string
	sealed    string // the continuation it came with, or empty

	client      *Client
	redirectURI string // proven to be the client's
	duplicate   string // name of a repeated parameter, or empty
}

// pending is what a continuation carries.
type pending struct {
	Query   string `json:"q"`
	Arrived int64  `json:"a"`
	Proof   string `json:"p,omitempty"`
	Detour  bool   `json:"d,omitempty"` // came by POST and goes on by GET, without a page in between
}

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
		p.sendOn(w, r, req, nil, "/oauth2/authorize")
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
		p.sendOn(w, r, req, identity, "/login/")
	case consent:
		p.sendOn(w, r, req, identity, "/oauth2/consent")
	case proceed:
		p.issueCode(w, r, req, identity, q)
	default:
		account.Note(r.Context(), "authorize_"+problem.ErrorField)
		p.refuseAuthorization(w, r, req, problem)
	}
}

// parseAuthorization reads the request, or the one that a continuation carries.
func (p *Provider) parseAuthorization(w http.ResponseWriter, r *http.Request) (*authorization, error) {
	r.Body = http.MaxBytesReader(w, r.Body, account.MaxBody)
	form, err := authorizationForm(r)
	if err != nil {
		return nil, err
	}
	req := &authorization{form: form, arrived: p.now()}
	if sealed := form.Get("continue"); sealed != "" {
		var c pending
		if err := p.seal.open(purposeContinue, sealed, &c); err != nil {
			return nil, account.NewProblem(http.StatusBadRequest, "expired_request", "This sign-in took too long or its link is damaged. Go back to the application and start again.")
		}
		if req.form, err = url.ParseQuery(c.Query); err != nil {
			return nil, account.NewProblem(http.StatusBadRequest, "expired_request", "This sign-in link is damaged. Go back to the application and start again.")
		}
		req.arrived = time.Unix(c.Arrived, 0).UTC()
		if !c.Detour { // which saw no session and proves nothing
			req.returned, req.proofSeen, req.sealed = true, c.Proof, sealed
		}
	}
	for name, values := range req.form {
		if len(values) > 1 && (req.duplicate == "" || name < req.duplicate) {
			req.duplicate = name
		}
	}
	return req, nil
}

func authorizationForm(r *http.Request) (url.Values, error) {
	bad := account.NewProblem(http.StatusBadRequest, "invalid_request", "The request to sign in could not be read. The application sent something that is not a form.")
	if r.Method == http.MethodPost {
		if err := r.ParseForm(); err != nil {
			return nil, bad
		}
		if len(r.URL.RawQuery) > 0 && len(r.PostForm) > 0 {
			return nil, bad // parameters in two places: which ones count would be a guess
		}
		if len(r.PostForm) > 0 {
			return r.PostForm, nil
		}
	}
	form, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, bad
	}
	return form, nil
}

// proveClient finds the client and proves that the redirect URI is its own.
// Until then an answer must not be sent anywhere but to the browser itself.
func (p *Provider) proveClient(ctx context.Context, req *authorization) error {
	page := func(detail string) error { return account.NewProblem(http.StatusBadRequest, "invalid_request", detail) }
	if len(req.form.Encode()) > maxQuery {
		return page("The request to sign in is too long.")
	}
	if req.duplicate == "client_id" || len(req.form["client_id"]) > 1 || len(req.form["redirect_uri"]) > 1 {
		return page("The request to sign in names its application more than once.")
	}
	found, err := p.clients.GetClient(ctx, req.form.Get("client_id"))
	if errors.Is(err, fosite.ErrNotFound) {
		return page("The application that sent you here is not registered with this service. Tell its operator.")
	}
	if err != nil {
		return err
	}
	client, ok := found.(*Client)
	if !ok {
		return errors.New("the store returned a client of another type")
	}
	uri := req.form.Get("redirect_uri")
	if uri == "" || !matchRedirect(client.RedirectURIs, uri) {
		return page("The application that sent you here asked for an answer at an address that is not registered for it. Tell its operator.")
	}
	req.client, req.redirectURI = client, uri
	return nil
}

// silent tells whether the client wants no page of ours.
func (req *authorization) silent() bool {
	return slices.Contains(strings.Fields(req.form.Get("prompt")), "none")
}

// challengeForm is BASE64URL(SHA256(verifier)): 43 characters (RFC 7636 section 4.2).
var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// ask makes the question for decide.
func (p *Provider) ask(r *http.Request, req *authorization, id *account.Identity) (question, *fosite.RFC6749Error) {
	q, problem := p.checkRequest(req)
	if problem != nil {
		return q, problem
	}
	q.identity = id
	if hint := req.form.Get("id_token_hint"); hint != "" {
		sub, err := p.idTokens.hintSubject(hint, req.client.ID)
		q.hintSub, q.badHint = sub, err != nil
	}
	if id != nil && req.sealed != "" {
		q.decision = p.openDecision(r.URL.Query().Get("decision"), id, req.sealed)
	}
	return q, nil
}

// checkRequest checks the parameters and puts what they ask for into the
// question: all that can be said before anybody is signed in.
func (p *Provider) checkRequest(req *authorization) (question, *fosite.RFC6749Error) {
	f := req.form
	var q question
	switch {
	case req.duplicate != "":
		return q, fosite.ErrInvalidRequest
	case f.Has("request"):
		return q, fosite.ErrRequestNotSupported
	case f.Has("request_uri"):
		return q, fosite.ErrRequestURINotSupported
	case f.Has("registration"):
		return q, fosite.ErrRegistrationNotSupported
	case f.Get("response_type") != "code":
		return q, fosite.ErrUnsupportedResponseType
	}
	switch f.Get("response_mode") {
	case "", "query":
	case "form_post":
		if !survivesForm(f.Get("state")) {
			return q, fosite.ErrInvalidRequest
		}
	default:
		return q, fosite.ErrUnsupportedResponseMode
	}
	if problem := checkPKCE(f, req.client); problem != nil {
		return q, problem
	}
	prompts, ok := parsePrompts(f.Get("prompt"))
	if !ok {
		return q, fosite.ErrInvalidRequest
	}
	maxAge, ok := parseMaxAge(f.Get("max_age"))
	if !ok {
		return q, fosite.ErrInvalidRequest
	}
	q = question{client: req.client, prompts: prompts, maxAge: maxAge, arrived: req.arrived, returned: req.returned, proofSeen: req.proofSeen}
	if q.granted, q.scopes, q.claims, ok = whatIsAsked(f, req.client); !ok {
		return q, fosite.ErrInvalidRequest
	}
	return q, nil
}

func checkPKCE(f url.Values, c *Client) *fosite.RFC6749Error {
	challenge, method := f.Get("code_challenge"), f.Get("code_challenge_method")
	if challenge == "" {
		if c.NeedsPKCE() || method != "" {
			return fosite.ErrInvalidRequest
		}
		return nil
	}
	if method != "S256" || !challengeForm.MatchString(challenge) {
		return fosite.ErrInvalidRequest
	}
	return nil
}

// sendOn sends the browser to the sign-in or consent page with the request
// sealed into the URL.
func (p *Provider) sendOn(w http.ResponseWriter, r *http.Request, req *authorization, id *account.Identity, path string) {
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
	if id != nil && path == "/login/" {
		// A fresh sign-in is needed: the page must not offer to go on without one.
		next.Set("fresh", "1")
	}
	http.Redirect(w, r, p.accounts.Path(path)+"?"+next.Encode(), http.StatusSeeOther)
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
	ar, err := p.fosite.NewAuthorizeRequest(ctx, clean.WithContext(ctx))
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
		p.sendOn(w, r, req, nil, "/login/")
		return
	}
	if err != nil {
		p.authorizeFailure(w, r, req, err)
		return
	}
	account.Note(ctx, "authorized")
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
