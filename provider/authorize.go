package provider

import (
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
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// authorize is the authorization endpoint (RFC 6749 section 3.1, OpenID Connect Core section
// 3.1.2.1). It writes nothing to the database before the user has signed in and agreed.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) error {
	req, err := p.readAuthorization(w, r)
	if err != nil {
		return err
	}
	q, err := p.authzState(r, req)
	if err != nil {
		return err
	}
	if back := p.startOf(req.client); back != "" && q.identity != nil && req.forgotten(p.now()) {
		web.Note(r.Context(), "authorize_forgotten")
		p.accounts.Show(w, r, http.StatusOK, templates.GoBack{ClientName: req.client.shownName(), URL: back})
		return nil
	}
	return p.act(w, r, req, q)
}

// act carries out the decision.
func (p *Provider) act(w http.ResponseWriter, r *http.Request, req *authorization, q authzState) error {
	switch v, problem := decide(q); v {
	case repeat, login, consent:
		return p.redirectTo(w, r, req, q, v)
	case setUpFactor:
		// Sealed again, so that the sign-in before the setup does not count as one with the factor.
		sealed, err := p.sealRequest(req, fingerprint(q.identity), false)
		if err != nil {
			return err
		}
		web.Note(r.Context(), "authorize_set_up_factor")
		p.accounts.SetUpFactor(w, r, sealed, q.requiredACR() == account.ACRPhishingResistant)
		return nil
	case notAllowed:
		return p.denyAccess(w, r, req, q, problem)
	case proceed:
		return p.issueCode(w, r, req, q)
	default:
		return &refusal{problem, req, nil}
	}
}

// denyAccess shows whom the application is for. Its link back answers the application; a device has
// nobody to come back, and gets its answer now.
func (p *Provider) denyAccess(
	w http.ResponseWriter, r *http.Request, req *authorization, q authzState, problem *oauthError,
) error {
	settings, err := p.accounts.Settings(r.Context())
	if err != nil {
		return err
	}
	page := templates.AccessDenied{
		ClientName: req.client.shownName(), Logo: req.client.Logo.Hash, Handle: q.identity.User.Handle,
		All: req.client.RequireAll, Contact: settings.Contact, Continue: req.sealed,
		RequestID: web.RequestID(r.Context()),
	}
	if problem == errNoVerifiedEmail {
		page.NoEmail, page.Mail = emailState(q.identity.User), p.accounts.MailEnabled()
	}
	settings = settings.In(templates.LanguageOf(r.Context()))
	for _, flag := range req.client.RequireFlags {
		page.Flags = append(page.Flags,
			templates.RequiredFlag{Name: flag, Description: settings.FlagDescriptions[flag]})
	}
	switch {
	case req.forDevice():
		if err = p.denyDevice(r.Context(), req); errors.Is(err, errNoSuchDevice) {
			err = nil // the page is loaded again
		}
		page.Continue = ""
	case req.sealed == "":
		page.Continue, err = p.sealRequest(req, req.proofSeen, false)
	}
	if err != nil {
		return err
	}
	web.Note(r.Context(), "authorize_"+problem.code)
	problem.reason.note(r.Context())
	p.accounts.Show(w, r, http.StatusForbidden, page)
	return nil
}

var verdictPaths = map[verdict]string{repeat: "/oauth2/authorize", login: "/login/", consent: "/oauth2/consent"}

// redirectTo sends the browser to the page of a verdict with the request sealed into the URL.
func (p *Provider) redirectTo(
	w http.ResponseWriter, r *http.Request, req *authorization, q authzState, v verdict,
) (err error) {
	sealed := req.sealed
	if sealed == "" {
		if sealed, err = p.sealRequest(req, req.proofSeen, v == repeat); err != nil {
			return err
		}
	}
	next := url.Values{"continue": {sealed}}
	if v == login && q.wantsToJoin() {
		return p.accounts.Redirect(w, r, "/register/?"+next.Encode())
	}
	if v == login {
		if hint, ok := person.AccountName(req.form.Get("login_hint")); ok {
			next.Set("handle", hint)
		}
		if q.identity != nil {
			next.Set("fresh", q.freshSignIn()) // the page must require a sign-in
		}
	}
	return p.accounts.Redirect(w, r, verdictPaths[v]+"?"+next.Encode())
}

func (p *Provider) sealRequest(req *authorization, proof string, detour bool) (string, error) {
	return p.seal.Seal(purposeContinue, pending{
		Query: req.form.Encode(), Arrived: req.arrived.Unix(), Begun: req.begun.Unix(), Proof: proof,
		Detour: detour, Device: req.device, Pushed: req.pushed, Late: req.late, Chosen: req.chosen,
	})
}

// startOf returns where a person begins anew at an application, "" if it is not known.
func (p *Provider) startOf(c *Client) string {
	if c.InitiateLoginURI != "" { // OpenID Connect Core section 4
		return withQuery(c.InitiateLoginURI, url.Values{"iss": {p.issuer}})
	}
	return c.HomeURI
}

// application returns what the sign-in page shows of a continuation's application, zero if the
// continuation cannot be used. The page uses the language that the application requests.
func (p *Provider) application(ctx context.Context, continuation string) templates.Application {
	req, err := p.openContinuation(continuation)
	if err != nil {
		return templates.Application{Gone: true}
	}
	if p.proveClient(ctx, req) != nil {
		return templates.Application{}
	}
	q, _ := p.stateOf(req)
	const password = account.ACRPassword
	return templates.Application{Name: req.client.shownName(), Logo: req.client.Logo.Hash, Device: req.forDevice(),
		SecondStep: q.acr.essential && !q.acr.satisfied(password) ||
			!account.SatisfiesACR(password, req.client.RequireACR)}
}

func (p *Provider) issueCode(w http.ResponseWriter, r *http.Request, req *authorization, q authzState) error {
	g, code := newGrant(req, q.identity, q), ""
	if q.needsConsentLookup() {
		g.Consented = q.agreed
	}
	var err error
	if q.lasts != 0 {
		g.Told, err = p.accounts.LastingAccess(r.Context(), p.accounts.CallerIn(r, q.identity), req.client.ID,
			req.client.shownName())
		if err != nil {
			return err
		}
	}
	if req.forDevice() {
		err = p.allowDevice(r.Context(), req, g)
	} else {
		code, err = p.newCode(r.Context(), req.client, g)
	}
	switch {
	case errors.Is(err, account.ErrSessionNotFound):
		q.identity = nil // the session ended after it was read
		return p.act(w, r, req, q)
	// after it was read, as by a sign-in in another tab: the browser has its token
	case errors.Is(err, ErrSessionRenewed):
		return p.redirectTo(w, r, req, q, repeat)
	case errors.Is(err, ErrConsentRemoved):
		q.consented = nil // after it was read
		return p.act(w, r, req, q)
	case err != nil:
		return err
	}
	req.allowed = q.decision == decisionAllow
	p.accounts.FactorSetUp(w, r)
	event := "authorized"
	if req.forDevice() {
		event = "device_allowed"
	}
	web.Note(r.Context(), event)
	return p.answer(w, r, req, url.Values{"code": {code}})
}

// newGrant returns the grant for the request and the user who agreed to it.
func newGrant(req *authorization, id *person.Identity, q authzState) *Grant {
	for _, entry := range q.told {
		if slices.Contains(q.agreed, entry) || covers(req.client, q.agreed, entry) {
			q.claims.Told = append(q.claims.Told, entry)
		}
	}
	return &Grant{
		ClientID: req.client.ID, RedirectURI: req.redirectURI, Scopes: q.granted, Resources: q.resources,
		Sub: id.User.Sub, SessionID: id.Session.ID, SessionToken: id.Session.TokenHash, AuthTime: id.Session.AuthTime,
		CodeChallenge: req.form.Get("code_challenge"), Nonce: req.form.Get("nonce"), DPoPJKT: req.form.Get("dpop_jkt"),
		AMR: id.Session.AMR, ACR: q.acr.answer(q.class()), Claims: q.claims.stored(),
	}
}

// maxQuery bounds the encoded authorization request, in bytes: the URL of the sign-in page
// carries it.
const maxQuery = 4 << 10

const (
	// requestLifetime is how long an Allow and a sign-in count for the request that they answer.
	requestLifetime = 10 * time.Minute
	// applicationMemory is how long applications are expected to know their state.
	applicationMemory = time.Hour
)

// authorization is a parsed request to the authorization endpoint.
type authorization struct {
	form      url.Values // the client's parameters
	arrived   time.Time
	begun     time.Time // when it first arrived, however often it was started anew
	returned  bool
	proofSeen string
	chosen    string // see authzState
	allowed   bool   // on the page, just now
	late      bool   // the person had decided when the page was too old
	sealed    string // the continuation that carried it, or empty
	// stale reports whether the request waited on a page for more than requestLifetime. It is then
	// started anew: checks, consent and freshness are those of a first arrival.
	stale    bool
	device   []byte // hash of the user code of a device's request, or nil
	userCode string // of a device's request, if it was typed in the browser of the request
	pushed   []byte // hash of the reference of a pushed request, or nil

	client      *Client
	apis        apis   // that the client may use
	mustPush    bool   // its requests must be pushed
	redirectURI string // proven to be the client's
	duplicate   string // name of one repeated parameter, or empty
}

type pending struct {
	Query   string `json:"q"`
	Arrived int64  `json:"a"`
	Begun   int64  `json:"b,omitempty"` // see authorization
	Proof   string `json:"p,omitempty"`
	Detour  bool   `json:"d,omitempty"` // came by POST and continues by GET, without a page in between
	Device  []byte `json:"v,omitempty"` // hash of the user code of a device's request
	Pushed  []byte `json:"u,omitempty"` // hash of the reference of a pushed request
	Late    bool   `json:"l,omitempty"` // see authorization
	Chosen  string `json:"c,omitempty"` // see authorization
}

// readAuthorization reads the request, or the request that its continuation carries, and proves
// its client.
func (p *Provider) readAuthorization(w http.ResponseWriter, r *http.Request) (*authorization, error) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxBody)
	form, err := authorizationForm(r)
	if err != nil {
		return nil, err
	}
	req := newAuthorization(form, p.now())
	if sealed := form.Get("continue"); sealed != "" {
		if req, err = p.openContinuation(sealed); err == nil {
			err = p.typedHere(r, req)
		}
		if err != nil {
			return nil, err
		}
		if !req.returned {
			req.sealed = "" // made by a detour
		}
	}
	if err := p.openPushed(r.Context(), req); err != nil {
		return nil, err
	}
	return req, p.proveWaiting(r.Context(), req)
}

// proveWaiting is proveClient for a request that may have waited on a page. A pushed one must not: what
// spendPushed remembers does not live as long.
func (p *Provider) proveWaiting(ctx context.Context, req *authorization) error {
	err := p.proveClient(ctx, req)
	if err == nil && req.stale && req.pushed != nil {
		err = &pushedGone{req.client}
	}
	return err
}

// forgotten reports whether the application has probably forgotten that it made the request.
func (req *authorization) forgotten(now time.Time) bool {
	return now.Sub(req.begun) > applicationMemory
}

func newAuthorization(form url.Values, arrived time.Time) *authorization {
	req := &authorization{form: form, arrived: arrived, begun: arrived}
	for name, values := range form {
		if len(values) > 1 && name != "resource" {
			req.duplicate = name
		}
	}
	return req
}

// openContinuation returns the request that was sealed into the URL of a page.
func (p *Provider) openContinuation(sealed string) (*authorization, error) {
	var c pending
	at, err := p.seal.OpenDated(purposeContinue, sealed, &c)
	form, _ := url.ParseQuery(c.Query) // as sealRequest encoded it
	if err != nil {
		return nil, web.NewProblem(http.StatusBadRequest, "expired_request",
			"This sign-in took too long, or its link is damaged. Go back to the application and start again.")
	}
	req := newAuthorization(form, time.Unix(c.Arrived, 0).UTC())
	req.sealed, req.device, req.pushed, req.late, req.chosen = sealed, c.Device, c.Pushed, c.Late, c.Chosen
	if c.Begun != 0 {
		req.begun = time.Unix(c.Begun, 0).UTC()
	}
	if now := p.now(); now.Sub(at) > requestLifetime {
		// A sign-in counts if it is as recent as one for a request that did not wait.
		req.stale, req.arrived, req.chosen = true, now.Add(-requestLifetime), ""
	}
	if !c.Detour { // a detour saw no session and proves nothing
		req.returned, req.proofSeen = true, c.Proof
	}
	return req, nil
}

func authorizationForm(r *http.Request) (url.Values, error) {
	bad := web.NewProblem(http.StatusBadRequest, "invalid_request",
		"The sign-in request could not be read. The application did not send a form.")
	if r.Method == http.MethodPost {
		if err := r.ParseForm(); err != nil {
			return nil, bad
		}
		if len(r.PostForm) > 0 {
			if len(r.URL.RawQuery) > 0 {
				return nil, bad // parameters in two places are ambiguous
			}
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
func (rs *rules) proveClient(ctx context.Context, req *authorization) error {
	templates.SetApplicationLanguage(ctx, req.form.Get("ui_locales"))
	page := func(e *oauthError, detail templates.Text) error {
		return &unproven{web.NewProblem(http.StatusBadRequest, "invalid_request", detail), e}
	}
	if len(req.form.Encode()) > maxQuery {
		return page(errInvalidRequest.because(tooLarge, "The request is too long."),
			"The sign-in request is too long.")
	}
	if len(req.form["client_id"]) > 1 || len(req.form["redirect_uri"]) > 1 {
		return page(errInvalidRequest.because(repeated, "client_id or redirect_uri is given more than once."),
			"The sign-in request names its application more than once.")
	}
	id := req.form.Get("client_id")
	client, err := rs.client(ctx, id)
	if _, ok := errors.AsType[*documentError](err); ok {
		return page(errInvalidRequest.about(clientDocument, "client_id", "Its description cannot be used."),
			"The application that sent you here describes itself at its own address, and the description cannot be "+
				"used. Try again in a minute, or tell its operator.")
	}
	if errors.Is(err, ErrClientNotFound) && id == "" {
		return page(errInvalidRequest.about(missingParameter, "client_id", "It is missing."),
			"The application that sent you here did not say which one it is: client_id is missing. Tell its operator.")
	}
	if errors.Is(err, ErrClientNotFound) {
		return page(errInvalidRequest.about(clientUnknown, "client_id", "It is not registered."),
			"The application that sent you here is not registered with this service. Tell its operator.")
	}
	if err != nil {
		return err
	}
	uri := req.form.Get("redirect_uri")
	if uri == "" && !req.forDevice() {
		return page(errInvalidRequest.about(badRedirect, "redirect_uri", "It is missing."),
			"The application that sent you here did not say where to send you back: redirect_uri is missing. Tell "+
				"its operator.")
	}
	if !req.forDevice() && !client.matchRedirect(uri) {
		return page(errInvalidRequest.about(badRedirect, "redirect_uri", "It is not registered for this client."),
			"The application that sent you here wants to send you back to an address that is not registered for it. "+
				"Tell its operator.")
	}
	req.client, req.redirectURI, req.mustPush = client, uri, rs.mustPush(client)
	req.apis, err = rs.apisOf(ctx, client)
	return err
}

// responseModes lists the modes of OAuth 2.0 Multiple Response Types section 2.1 and Form Post.
var responseModes = []string{"query", "fragment", "form_post"}

// challengeForm is BASE64URL(SHA256(verifier)): 43 characters (RFC 7636 section 4.2).
var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// authzState reads the input of decide: the session, the request, and what is stored of the user.
func (p *Provider) authzState(r *http.Request, req *authorization) (authzState, error) {
	id, err := p.accounts.Current(r)
	if err != nil && !errors.Is(err, account.ErrNotAuthenticated) {
		return authzState{}, err
	}
	q, problem := p.stateOf(req)
	if problem != nil {
		return q, &refusal{problem, req, nil}
	}
	if err := p.canSign(req, q.access); err != nil {
		return q, &refusal{errNoSigningKey, req, err}
	}
	q.leaves = req.sealed != "" && r.URL.Query().Has("back")
	q.posted = r.Method == http.MethodPost
	q.identity = id
	if !req.returned || req.stale && (id == nil || !q.signedInSince()) {
		req.proofSeen = fingerprint(id)
		if req.stale {
			req.arrived = p.now()
		}
		q.proofSeen, q.arrived = req.proofSeen, req.arrived
	}
	if id == nil {
		return q, nil
	}
	if req.sealed != "" {
		q.decision, q.leftOut = p.openDecision(r.URL.Query().Get("decision"), id, req.sealed)
	}
	err = p.readUser(r.Context(), &q, id.User)
	return q, err
}

// stateOf returns what the request itself contributes to the state, or its first fault.
func (rs *rules) stateOf(req *authorization) (authzState, *oauthError) {
	q, faults := checkRequest(req)
	if len(faults) > 0 {
		return q, faults[0].err
	}
	q.now = rs.now()
	if hint := req.form.Get("id_token_hint"); hint != "" {
		sub, err := rs.hintSubject(hint, req.client.ID)
		q.hintSub, q.badHint = sub, err != nil
	}
	q.loginHint, _ = person.AccountName(req.form.Get("login_hint"))
	return q, nil
}

// readUser adds what is stored of the user to the state. It reads only what the decision depends
// on.
func (rs *rules) readUser(ctx context.Context, q *authzState, u account.User) (err error) {
	if q.needsConsentLookup() {
		if q.consented, err = rs.consented(ctx, u.Sub, q.client); err != nil {
			return fmt.Errorf("read consent: %w", err)
		}
	}
	if len(q.client.OptionalScopes) > 0 {
		refused, err := rs.storage.RefusedScopes(ctx, u.Sub, q.client.ID)
		if err != nil {
			return fmt.Errorf("read refused scopes: %w", err)
		}
		q.without(slices.Concat(refused, q.leftOut))
	}
	if q.needsFactor, err = rs.needsFactor(ctx, u); err != nil {
		return err
	}
	passkey := false
	if q.needsPasskeyLookup(u) {
		if passkey, err = rs.storage.HasPasskey(ctx, u.Sub, account.PasskeyHosts(rs.issuer)); err != nil {
			return fmt.Errorf("look for passkeys: %w", err)
		}
	}
	switch {
	case passkey:
		q.bestACR = account.ACRPhishingResistant
	case u.SecondFactor:
		q.bestACR = account.ACRTwoFactors
	default:
		q.bestACR = account.ACRPassword
	}
	return rs.readLasting(ctx, q)
}

// fault is an error in a parameter. Its sentence is constant: the client reads it in
// error_description, and the operator after what was given (explain.go).
type fault struct {
	parameter string
	err       *oauthError
	sentence  string
	given     string // a sentence, or empty
}

// checkRequest checks everything that can be checked before sign-in, and puts the request's
// parameters into the state. The first fault is the answer.
func checkRequest(req *authorization) (authzState, []fault) {
	f, c := req.form, req.client
	q := authzState{
		client: c, begun: req.begun, arrived: req.arrived, returned: req.returned, proofSeen: req.proofSeen,
		chosen: req.chosen, redirectURI: req.redirectURI, apis: req.apis,
	}
	var faults []fault
	wrong := func(parameter string, err *oauthError, why reason, sentence string) {
		given := ""
		if v := f.Get(parameter); v != "" {
			given = fmt.Sprintf("It is %q. ", clip(v))
		}
		faults = append(faults, fault{parameter, err.about(why, parameter, sentence), sentence, given})
	}
	if d := req.duplicate; d != "" {
		wrong(d, errInvalidRequest, repeated, "It is given more than once (RFC 6749 section 3.1).")
	}
	if req.mustPush && req.pushed == nil && !req.forDevice() {
		wrong("request_uri", errInvalidRequest, notPushed, "It is missing: the parameters must be pushed (RFC 9126), "+
			"and the address contains only client_id and request_uri.")
	}
	for _, e := range []struct {
		parameter string
		err       *oauthError
	}{
		{"request", errRequestNotSupported}, {"request_uri", errRequestURINotSupported},
		{"registration", errRegistrationRefused},
	} {
		if f.Has(e.parameter) {
			wrong(e.parameter, e.err, unsupported,
				"It is not supported: put the parameters into the address, or push them (RFC 9126).")
		}
	}
	switch t := f.Get("response_type"); t {
	case "code":
	case "":
		wrong("response_type", errInvalidRequest, badResponseType, "It is missing: only code is supported.")
	default:
		wrong("response_type", errUnsupportedResponseType, badResponseType, "Only code is supported.")
	}
	switch mode := f.Get("response_mode"); {
	case mode == "form_post" && !survivesForm(f.Get("state")):
		wrong("response_mode", errInvalidRequest, badResponseMode,
			"form_post cannot carry a state with line ends, NUL or bytes that are not UTF-8.")
	case mode != "" && !slices.Contains(responseModes, mode):
		wrong("response_mode", errUnsupportedResponseMode, badResponseMode,
			"Only query, fragment and form_post are supported.")
	}
	req.checkProof(func(parameter string, why reason, sentence string) {
		wrong(parameter, errInvalidRequest, why, sentence)
	})
	var ok bool
	q.prompts = strings.Fields(f.Get("prompt"))
	switch {
	case slices.ContainsFunc(q.prompts, func(s string) bool { return !slices.Contains(knownPrompts, s) }):
		wrong("prompt", errInvalidRequest, badPrompt,
			"The values are "+strings.Join(knownPrompts, ", ")+", separated by spaces.")
	case len(q.prompts) > 1 && slices.Contains(q.prompts, "none"):
		wrong("prompt", errInvalidRequest, badPrompt,
			"none excludes other values (OpenID Connect Core section 3.1.2.1).")
	}
	if q.maxAge, ok = parseMaxAge(f.Get("max_age")); !ok {
		wrong("max_age", errInvalidRequest, badMaxAge, "It must be a whole number of seconds.")
	}
	var err error
	switch q.access, err = req.access(); {
	case errors.Is(err, errUnknownResource):
		wrong("resource", errInvalidTarget, badResource,
			"No API that this client may use has this URI: cairn api list shows them.")
	case err != nil:
		wrong("claims", errInvalidRequest, badClaims,
			"It must be a claims request as JSON (OpenID Connect Core section 5.5).")
	}
	if q.acr = q.claims.acr; len(q.acr.values) == 0 {
		q.acr.values = strings.Fields(f.Get("acr_values"))
		q.acr.requested = q.acr.requested || len(q.acr.values) > 0
	}
	return q, faults
}

// checkProof checks what the request says about the proof that the token request will carry: PKCE and DPoP.
func (req *authorization) checkProof(wrong func(parameter string, why reason, sentence string)) {
	f, c := req.form, req.client
	switch challenge, method := f.Get("code_challenge"), f.Get("code_challenge_method"); {
	case req.forDevice(): // its code never leaves the device
	case challenge == "" && c.IsPublic():
		wrong("code_challenge", badChallenge, "It is missing, and a public client has to send one (RFC 7636).")
	case challenge == "" && c.NeedsPKCE():
		wrong("code_challenge", badChallenge, "It is missing, and the client is registered with --require-pkce.")
	case challenge == "" && method != "":
		wrong("code_challenge", badChallenge, "It is missing, but code_challenge_method is given.")
	case challenge != "" && method != "S256":
		wrong("code_challenge_method", badMethodOfPKCE, "It must be S256; without it the method is plain.")
	case challenge != "" && !challengeForm.MatchString(challenge):
		wrong("code_challenge", badChallenge, "S256 gives 43 characters of A-Z, a-z, 0-9, - and _: "+
			"the SHA-256 of the verifier in base64url without =.")
	}
	if f.Has("dpop_jkt") && !challengeForm.MatchString(f.Get("dpop_jkt")) {
		wrong("dpop_jkt", badJKT,
			"It must be the SHA-256 thumbprint of a key: 43 of A-Z, a-z, 0-9, - and _ (RFC 9449 section 10).")
	}
}
