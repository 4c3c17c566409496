package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// authorize is the authorization endpoint (RFC 6749 section 3.1, OpenID Connect Core section
// 3.1.2). It writes nothing to the database before the user has signed in and agreed.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	req, err := p.parseAuthorization(w, r)
	if err == nil {
		err = p.openPushed(r.Context(), req)
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
	q, problem := p.authzState(r, req, identity)
	if problem != nil {
		p.refuseAuthorization(w, r, req, problem)
		return
	}
	if identity == nil && r.Method == http.MethodPost && !r.Form.Has("continue") {
		// A form of another site comes without the cookie (SameSite=Lax). GET brings the cookie
		// if there is one.
		p.redirectTo(w, r, req, nil, "/oauth2/authorize", "")
		return
	}
	if identity != nil {
		if q.needsConsentLookup() {
			q.consented, err = p.consented(r.Context(), identity.User.Sub, req.client)
		}
		if err == nil {
			err = q.leaveOut(r.Context(), p.storage, identity.User.Sub)
		}
		if err == nil {
			q.bestACR, err = q.findBestACR(r.Context(), p.storage, identity.User)
		}
		if err == nil {
			q.needsFactor, err = p.accounts.NeedsSecondFactor(r.Context(), identity.User)
		}
		if err != nil {
			p.authorizePage(w, r, err)
			return
		}
	}
	v, problem := decide(q)
	switch v {
	case login:
		p.redirectTo(w, r, req, identity, "/login/", q.freshSignIn())
	case consent:
		p.redirectTo(w, r, req, identity, "/oauth2/consent", "")
	case setUpFactor:
		p.setUpFactor(w, r, req, identity, q.requiredACR() == account.ACRPhishingResistant)
	case proceed:
		p.issueCode(w, r, req, identity, q)
	default:
		web.Note(r.Context(), "authorize_"+problem.code)
		p.refuseAuthorization(w, r, req, problem)
	}
}

// redirectTo sends the browser to the sign-in or consent page with the request sealed into the
// URL. fresh is the reason why a signed-in user has to sign in again.
func (p *Provider) redirectTo(
	w http.ResponseWriter, r *http.Request, req *authorization, id *account.Identity, path, fresh string,
) {
	sealed := req.sealed
	if sealed == "" {
		var err error
		if sealed, err = p.sealRequest(req, id, path == "/oauth2/authorize"); err != nil {
			p.authorizePage(w, r, err)
			return
		}
	}
	next := url.Values{"continue": {sealed}}
	if hint, err := account.CanonicalHandle(req.form.Get("login_hint")); err == nil && path == "/login/" {
		next.Set("handle", hint)
	}
	if fresh != "" {
		next.Set("fresh", fresh) // the page must require a sign-in
	}
	http.Redirect(w, r, p.accounts.Path(path)+"?"+next.Encode(), http.StatusSeeOther)
}

func (p *Provider) sealRequest(req *authorization, id *account.Identity, detour bool) (string, error) {
	return p.seal.Seal(purposeContinue, pending{
		Query: req.form.Encode(), Arrived: req.arrived.Unix(), Proof: fingerprint(id),
		Detour: detour, Device: req.device, Pushed: req.pushed,
	})
}

// setUpFactor sends the browser to the page that sets up a second factor. The request is sealed
// again, so that the sign-in before the setup does not count as one with the factor.
func (p *Provider) setUpFactor(
	w http.ResponseWriter, r *http.Request, req *authorization, id *account.Identity, passkey bool,
) {
	sealed, err := p.sealRequest(req, id, false)
	if err != nil {
		p.authorizePage(w, r, err)
		return
	}
	web.Note(r.Context(), "authorize_set_up_factor")
	p.accounts.SetUpFactor(w, r, sealed, passkey)
}

// application returns what the sign-in page shows of a continuation's application, zero if the
// continuation cannot be used. The page uses the language that the application requests.
func (p *Provider) application(ctx context.Context, continuation string) templates.Application {
	form, c, err := p.openContinuation(continuation)
	req := &authorization{form: form, device: c.Device, pushed: c.Pushed}
	if err != nil || p.proveClient(ctx, req) != nil {
		return templates.Application{}
	}
	return templates.Application{Name: cmp.Or(req.client.Name, req.client.ID), Logo: req.client.Logo.Hash}
}

func (p *Provider) issueCode(
	w http.ResponseWriter, r *http.Request, req *authorization, id *account.Identity, q authzState,
) {
	g, err := newGrant(req, id, q)
	if err != nil {
		p.authorizeFailure(w, r, req, err)
		return
	}
	if req.forDevice() {
		p.allowDevice(w, r, req, g)
		return
	}
	code, err := p.newCode(r.Context(), req.client, g)
	if errors.Is(err, account.ErrSessionNotFound) && !req.silent() {
		// The session ended after it was read.
		p.redirectTo(w, r, req, nil, "/login/", "")
		return
	}
	if err != nil {
		p.authorizeFailure(w, r, req, err)
		return
	}
	p.accounts.FactorSetUp(w, r)
	web.Note(r.Context(), "authorized")
	p.answer(w, r, req, url.Values{"code": {code}})
}

// newGrant returns the grant for the request and the user who agreed to it.
func newGrant(req *authorization, id *account.Identity, q authzState) (*Grant, error) {
	g := &Grant{
		ClientID: req.client.ID, RedirectURI: req.redirectURI, Scopes: q.granted, Resources: q.resources,
		Sub: id.User.Sub, SessionID: id.Session.ID, AuthTime: id.Session.AuthTime,
		CodeChallenge: req.form.Get("code_challenge"), Nonce: req.form.Get("nonce"), DPoPJKT: req.form.Get("dpop_jkt"),
		AMR: id.Session.AMR, ACR: q.acr.answer(q.class()),
	}
	var err error
	g.Claims, err = q.claims.stored()
	return g, err
}

// maxQuery bounds the encoded authorization request, in bytes: the URL of the sign-in page
// carries it.
const maxQuery = 4 << 10

// authorization is a parsed request to the authorization endpoint.
type authorization struct {
	form      url.Values // the client's parameters
	arrived   time.Time
	returned  bool
	proofSeen string
	sealed    string // the continuation that carried it, or empty
	device    []byte // hash of the user code of a device's request, or nil
	pushed    []byte // hash of the reference of a pushed request, or nil

	client      *Client
	apis        apis   // that the client may use
	mustPush    bool   // its requests must be pushed
	redirectURI string // proven to be the client's
	duplicate   string // name of a repeated parameter, or empty
}

type pending struct {
	Query   string `json:"q"`
	Arrived int64  `json:"a"`
	Proof   string `json:"p,omitempty"`
	Detour  bool   `json:"d,omitempty"` // came by POST and continues by GET, without a page in between
	Device  []byte `json:"v,omitempty"` // hash of the user code of a device's request
	Pushed  []byte `json:"u,omitempty"` // hash of the reference of a pushed request
}

// parseAuthorization reads the request, or the request that its continuation carries.
func (p *Provider) parseAuthorization(w http.ResponseWriter, r *http.Request) (*authorization, error) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxBody)
	form, err := authorizationForm(r)
	if err != nil {
		return nil, err
	}
	req := &authorization{form: form, arrived: p.now()}
	if sealed := form.Get("continue"); sealed != "" {
		var c pending
		if req.form, c, err = p.openContinuation(sealed); err != nil {
			return nil, err
		}
		req.arrived, req.device, req.pushed = time.Unix(c.Arrived, 0).UTC(), c.Device, c.Pushed
		if !c.Detour { // a detour saw no session and proves nothing
			req.returned, req.proofSeen, req.sealed = true, c.Proof, sealed
		}
	}
	for name, values := range req.form {
		if len(values) > 1 && name != "resource" && (req.duplicate == "" || name < req.duplicate) {
			req.duplicate = name
		}
	}
	return req, nil
}

// openContinuation returns the request that was sealed into the URL of a page.
func (p *Provider) openContinuation(sealed string) (form url.Values, c pending, err error) {
	err = p.seal.Open(purposeContinue, sealed, &c)
	if err == nil {
		form, err = url.ParseQuery(c.Query)
	}
	if err != nil {
		err = web.NewProblem(http.StatusBadRequest, "expired_request",
			"This sign-in took too long or its link is damaged. Go back to the application and start again.")
	}
	return form, c, err
}

func authorizationForm(r *http.Request) (url.Values, error) {
	bad := web.NewProblem(http.StatusBadRequest, "invalid_request",
		"The request to sign in could not be read. The application sent something that is not a form.")
	if r.Method == http.MethodPost {
		if err := r.ParseForm(); err != nil {
			return nil, bad
		}
		if len(r.URL.RawQuery) > 0 && len(r.PostForm) > 0 {
			return nil, bad // parameters in two places are ambiguous
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

// proveClient finds the client and proves that it owns the redirect URI. Before that, only the
// browser itself may receive an answer.
func (p *Provider) proveClient(ctx context.Context, req *authorization) error {
	templates.SetApplicationLanguage(ctx, req.form.Get("ui_locales"))
	page := func(detail templates.Text) error {
		return web.NewProblem(http.StatusBadRequest, "invalid_request", detail)
	}
	if len(req.form.Encode()) > maxQuery {
		return page("The request to sign in is too long.")
	}
	if req.duplicate == "client_id" || len(req.form["client_id"]) > 1 || len(req.form["redirect_uri"]) > 1 {
		return page("The request to sign in names its application more than once.")
	}
	client, err := p.client(ctx, req.form.Get("client_id"))
	if _, ok := errors.AsType[*documentError](err); ok {
		return page("The application that sent you here describes itself at an address of its own, " +
			"and this description cannot be used. Try again in a minute, or tell its operator.")
	}
	if errors.Is(err, ErrClientNotFound) {
		return page("The application that sent you here is not registered with this service. Tell its operator.")
	}
	if err != nil {
		return err
	}
	uri := req.form.Get("redirect_uri")
	if uri == "" && !req.forDevice() {
		return page("The application that sent you here did not say where the answer goes: " +
			"redirect_uri is missing from its request. Tell its operator.")
	}
	if !req.forDevice() && !client.matchRedirect(uri) {
		return page("The application that sent you here asked for an answer at an address " +
			"that is not registered for it. Tell its operator.")
	}
	req.client, req.redirectURI, req.mustPush = client, uri, p.mustPush(client)
	req.apis, err = p.apisOf(ctx, client)
	return err
}

// silent reports whether the client forbids showing a page (prompt=none).
func (req *authorization) silent() bool {
	return slices.Contains(strings.Fields(req.form.Get("prompt")), "none")
}

// responseModes lists the modes of OAuth 2.0 Multiple Response Types section 2.1 and Form Post.
var responseModes = []string{"query", "fragment", "form_post"}

// challengeForm is BASE64URL(SHA256(verifier)): 43 characters (RFC 7636 section 4.2).
var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

func (p *Provider) authzState(r *http.Request, req *authorization, id *account.Identity) (authzState, *oauthError) {
	q, faults := checkRequest(req)
	if len(faults) > 0 {
		return q, faults[0].err
	}
	q.identity = id
	if hint := req.form.Get("id_token_hint"); hint != "" {
		sub, err := p.idTokens.hintSubject(hint, req.client.ID)
		q.hintSub, q.badHint = sub, err != nil
	}
	q.loginHint, _ = account.CanonicalHandle(req.form.Get("login_hint"))
	if id != nil && req.sealed != "" {
		q.decision, q.leftOut = p.openDecision(r.URL.Query().Get("decision"), id, req.sealed)
	}
	return q, nil
}

// fault is an error in a parameter. why explains it to the operator (explain.go).
type fault struct {
	parameter string
	err       *oauthError
	why       string
}

// checkRequest checks everything that can be checked before sign-in, and puts the request's
// parameters into the state. The first fault is the answer.
func checkRequest(req *authorization) (authzState, []fault) {
	f, c := req.form, req.client
	q := authzState{client: c, arrived: req.arrived, returned: req.returned, proofSeen: req.proofSeen}
	var faults []fault
	wrong := func(parameter string, err *oauthError, why string, args ...any) {
		faults = append(faults, fault{parameter, err, fmt.Sprintf(why, args...)})
	}
	if d := req.duplicate; d != "" {
		wrong(d, errInvalidRequest, "It is given more than once (RFC 6749 section 3.1).")
	}
	if req.mustPush && req.pushed == nil && !req.forDevice() {
		wrong("request_uri", errPushFirst, "It is missing: the parameters must be pushed (RFC 9126), "+
			"and the address contains only client_id and request_uri.")
	}
	const notSupported = "It is not supported: put the parameters into the address, or push them (RFC 9126)."
	if f.Has("request") {
		wrong("request", errRequestNotSupported, notSupported)
	}
	if f.Has("request_uri") {
		wrong("request_uri", errRequestURINotSupported, notSupported)
	}
	if f.Has("registration") {
		wrong("registration", errRegistrationNotSupported, notSupported)
	}
	switch t := f.Get("response_type"); t {
	case "code":
	case "":
		wrong("response_type", errNoResponseType, "It is missing: only code is supported.")
	default:
		wrong("response_type", errUnsupportedResponseType, "%q: only code is supported.", clip(t))
	}
	switch mode := f.Get("response_mode"); {
	case mode == "form_post" && !survivesForm(f.Get("state")):
		wrong("response_mode", errInvalidRequest,
			"form_post cannot carry a state with line ends, NUL or bytes that are not UTF-8.")
	case mode != "" && !slices.Contains(responseModes, mode):
		wrong("response_mode", errUnsupportedResponseMode,
			"%q: only query, fragment and form_post are supported.", clip(mode))
	}
	switch challenge, method := f.Get("code_challenge"), f.Get("code_challenge_method"); {
	case req.forDevice(): // its code never leaves the device
	case challenge == "" && c.IsPublic():
		wrong("code_challenge", errInvalidRequest, "It is missing, and a public client has to send one (RFC 7636).")
	case challenge == "" && c.NeedsPKCE():
		wrong("code_challenge", errInvalidRequest, "It is missing, and the client is registered with --require-pkce.")
	case challenge == "" && method != "":
		wrong("code_challenge", errInvalidRequest, "code_challenge_method is given without code_challenge.")
	case challenge != "" && method != "S256":
		wrong("code_challenge_method", errInvalidRequest, "%q: the method must be S256.", clip(method))
	case challenge != "" && !challengeForm.MatchString(challenge):
		wrong("code_challenge", errInvalidRequest, "It has %d characters. S256 gives 43 of A-Z, a-z, 0-9, - and _: "+
			"the SHA-256 of the verifier in base64url without =.", len(challenge))
	}
	if f.Has("dpop_jkt") && !challengeForm.MatchString(f.Get("dpop_jkt")) {
		wrong("dpop_jkt", errInvalidRequest,
			"It is not the SHA-256 thumbprint of a key: 43 of A-Z, a-z, 0-9, - and _ (RFC 9449 section 10).")
	}
	var ok bool
	q.prompts = strings.Fields(f.Get("prompt"))
	switch {
	case slices.ContainsFunc(q.prompts, func(s string) bool { return !slices.Contains(knownPrompts, s) }):
		wrong("prompt", errInvalidRequest, "%q: the values are %s, separated by spaces.",
			clip(f.Get("prompt")), strings.Join(knownPrompts, ", "))
	case len(q.prompts) > 1 && slices.Contains(q.prompts, "none"):
		wrong("prompt", errInvalidRequest, "none excludes other values (OpenID Connect Core section 3.1.2.1).")
	}
	if q.maxAge, ok = parseMaxAge(f.Get("max_age")); !ok {
		wrong("max_age", errInvalidRequest, "%q: it is a whole number of seconds.", clip(f.Get("max_age")))
	}
	var err error
	switch q.access, err = req.access(); {
	case errors.Is(err, errUnknownResource):
		wrong("resource", errInvalidTarget, "No API that this client may use has this URI: cairn api list shows them.")
	case err != nil:
		wrong("claims", errInvalidRequest, "It is not a claims request (OpenID Connect Core section 5.5).")
	}
	if q.acr = q.claims.acr; len(q.acr.values) == 0 {
		q.acr.values = strings.Fields(f.Get("acr_values"))
		q.acr.requested = q.acr.requested || len(q.acr.values) > 0
	}
	return q, faults
}
