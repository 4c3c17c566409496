package provider

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// oauthError is an error as clients receive it (RFC 6749 sections 4.1.2.1 and 5.2). Descriptions
// are constant ASCII without " and \ and never repeat input.
type oauthError struct {
	status            int // of a direct response; unused in redirects
	code, description string
	reason            reason // for the log line
}

func (e *oauthError) Error() string { return e.code }

// Is implements errors.Is by the code: an error with another description is the same.
func (e *oauthError) Is(target error) bool {
	t, ok := target.(*oauthError)
	return ok && t.code == e.code
}

func (e *oauthError) with(status int) *oauthError {
	c := *e
	c.status = status
	return &c
}

// because returns the same error with its reason, and with a description of its own unless that is
// empty.
func (e *oauthError) because(why reason, description string) *oauthError {
	return &oauthError{e.status, e.code, cmp.Or(description, e.description), why}
}

// about is because for one parameter, which the description names if it is a known one: others
// would echo input.
func (e *oauthError) about(why reason, parameter, sentence string) *oauthError {
	if !slices.Contains(knownParameters, parameter) {
		parameter = "a parameter"
	}
	return e.because(why, parameter+": "+sentence)
}

var (
	errInvalidRequest = &oauthError{400, "invalid_request",
		"A required parameter is missing, repeated or has a value that is not allowed.", badParameter}
	errMethod = errInvalidRequest.with(405).because(badMethod,
		"The endpoint has other methods: see the header Allow.")
	errUnauthorizedClient = &oauthError{400, "unauthorized_client", "This client may not use this grant.",
		grantNotAllowed}
	errAccessDenied = &oauthError{400, "access_denied", "The request was denied.", denied}
	errNotAllowed   = errAccessDenied.because(flagMissing,
		"The user may not use this application: it is only for users of certain groups.")
	errNoVerifiedEmail = errAccessDenied.because(emailUnverified,
		"This application is only for users with a verified email address.")
	errBadHint = errInvalidRequest.about(badHint, "id_token_hint", badHintSentence)

	errUnsupportedResponseType = &oauthError{400, "unsupported_response_type", "Only code is supported.",
		badResponseType}
	errUnsupportedResponseMode = &oauthError{400, "unsupported_response_mode",
		"Only query, fragment and form_post are supported.", badResponseMode}
	errInvalidScope  = &oauthError{400, "invalid_scope", "The scope exceeds what was granted.", badScope}
	errInvalidTarget = &oauthError{400, "invalid_target",
		"The resource is unknown, or this client may not use it (RFC 8707).", badResource}
	errNoSigningKey = &oauthError{500, "server_error",
		"The service has no key for the algorithm that this client or its API needs. Tell the operator of the service.",
		noSigningKey}
	errServer      = &oauthError{500, "server_error", "The service failed to answer. Try again.", failed}
	errUnavailable = &oauthError{503, "temporarily_unavailable",
		"The service is temporarily unavailable. Try again soon.", unavailable}
	errLoginRequired       = &oauthError{400, "login_required", "The user has to sign in.", noSession}
	errConsentRequired     = &oauthError{400, "consent_required", "The user has to give consent.", noConsent}
	errInteractionRequired = &oauthError{400, "interaction_required", "The user has to set up a second factor.",
		noSecondFactor}
	// OpenID Connect Core Error Code unmet_authentication_requirements 1.0.
	errUnmetAuthentication = &oauthError{400, "unmet_authentication_requirements",
		"The user cannot sign in as the request or the registration of the client requires.", acrUnmet}
	errRequestNotSupported    = &oauthError{400, "request_not_supported", "It is not supported.", unsupported}
	errRequestURINotSupported = &oauthError{400, "request_uri_not_supported", "It is not supported.", unsupported}
	errRegistrationRefused    = &oauthError{400, "registration_not_supported", "It is not supported.", unsupported}
	// errInvalidClient is the description of every failed authentication: only the log names the reason.
	errInvalidClient = &oauthError{401, "invalid_client", "Client authentication failed.", clientUnknown}
	errInvalidProof  = &oauthError{400, "invalid_dpop_proof",
		"The DPoP proof is missing, invalid, too old, already used or made for another request.", badProof}
	errUseNonce = &oauthError{400, "use_dpop_nonce", "Repeat the request with the nonce of the DPoP-Nonce header.",
		wantsNonce}
	errInvalidGrant = &oauthError{400, "invalid_grant",
		"The code or token is not valid, expired, used or was issued to another client.", codeUnknown}
	errOtherKey             = errInvalidGrant.because(otherKey, "The DPoP proof is of another key than the first one.")
	errUnsupportedGrantType = &oauthError{400, "unsupported_grant_type",
		"Only authorization_code, refresh_token, client_credentials and device_code are supported.", badGrantType}
	errInvalidToken      = &oauthError{401, "invalid_token", "The access token is not valid.", badToken}
	errInsufficientScope = &oauthError{403, "insufficient_scope", "The access token lacks the openid scope.",
		openidMissing}
	errAuthorizationPending = &oauthError{400, "authorization_pending", "The user has not decided yet.", devicePending}
	errPolledTooSoon        = &oauthError{400, "slow_down", "Wait five seconds longer between requests.",
		deviceTooSoon}
	errExpiredToken = &oauthError{400, "expired_token", "The device code has expired. Begin again.", deviceExpired}
	errSlowDown     = &oauthError{429, "slow_down", "Too many requests. Wait a while.", tooMany}
)

const badHintSentence = "It must be an ID token of this service for this client, signed by a key that is published."

// knownParameters are those that descriptions may name.
var knownParameters = slices.Concat(pushedParameters, []string{
	"client_id", "client_secret", "client_assertion", "client_assertion_type", "request", "request_uri",
	"registration", "resource", "grant_type", "code", "code_verifier", "refresh_token", "device_code", "token",
	"token_type_hint", "access_token",
})

// unproven is the error for a request whose client or redirect URI is not proven. Browsers get the
// page, programs the OAuth error.
type unproven struct {
	*web.Problem
	err *oauthError
}

func (e *unproven) Unwrap() error { return e.Problem }

// refusal is an OAuth error for the proven redirect URI of a request, or for its device.
type refusal struct {
	*oauthError
	req   *authorization
	cause error // the failure behind it, or nil
}

// forBrowsers serves pages. It answers the error of h: a refusal at the redirect URI, any other by
// an HTML page, because the client or its redirect URI is not proven, or because the client must
// receive nothing.
func (p *Provider) forBrowsers(h web.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if no, ok := errors.AsType[*refusal](err); ok {
			err = p.refuse(w, r, no)
		}
		if errors.Is(err, errTypedElsewhere) {
			err = p.refuseCode(w, r, "", err)
		}
		if err != nil {
			p.errorPage(w, r, err)
		}
	}
}

func (p *Provider) errorPage(w http.ResponseWriter, r *http.Request, err error) {
	if web.Abandoned(r, err) || errors.Is(err, person.ErrDeviceProofRequired) {
		p.accounts.Fail(w, r, err)
		return
	}
	problem, _ := web.ProblemOf(err)
	problem = problem.In(templates.LanguageOf(r.Context()))
	if problem.Status >= http.StatusInternalServerError {
		p.logFailure(r, "authorize failed", err)
	}
	web.Note(r.Context(), "authorize_"+problem.Code)
	why := cmp.Or(pageReasons[problem.Code], failed)
	if bad, ok := errors.AsType[*unproven](err); ok {
		why = bad.err.reason
	}
	why.note(r.Context())
	problem.SetRetryAfter(w)
	if problem.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "2")
	}
	page := templates.Error{Status: problem.Status, Detail: problem.Detail, RequestID: web.RequestID(r.Context())}
	if gone, ok := errors.AsType[*pushedGone](err); ok {
		page.ClientName, page.ClientURL = gone.client.shownName(), p.startOf(gone.client)
	}
	p.accounts.Show(w, r, problem.Status, page)
}

func (p *Provider) refuse(w http.ResponseWriter, r *http.Request, no *refusal) error {
	web.Note(r.Context(), "authorize_"+no.code)
	no.reason.note(r.Context())
	if no.cause != nil {
		p.logFailure(r, "authorize failed", no.cause)
	}
	if no.req.forDevice() {
		if err := p.denyDevice(r.Context(), no.req); err != nil {
			return err
		}
		web.Note(r.Context(), "device_denied")
	}
	return p.answer(w, r, no.req, url.Values{"error": {no.code}, "error_description": {no.description}})
}

// forClients serves programs. It answers the error of h by RFC 6749 section 5.2.
func (p *Provider) forClients(h web.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := h(w, r)
		if err == nil {
			return
		}
		if web.Abandoned(r, err) {
			p.accounts.Fail(w, r, err)
			return
		}
		e, endpoint := oauthErrorOf(err), path.Base(r.URL.Path)
		if e.status >= http.StatusInternalServerError {
			p.logFailure(r, endpoint+" request failed", err)
		}
		if e.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "2")
		}
		if e.code == errInvalidClient.code {
			w.Header().Set("WWW-Authenticate", `Basic realm="token"`)
		}
		web.NoteDefault(r.Context(), endpoint+"_"+e.code)
		e.reason.note(r.Context())
		p.writeOAuth(w, r, e.status, map[string]any{"error": e.code, "error_description": e.description})
	}
}

func (p *Provider) logFailure(r *http.Request, what string, err error) {
	p.log.ErrorContext(r.Context(), what, "error", err, "request_id", web.RequestID(r.Context()))
}

// responseMode returns the requested response mode, or "" for the default. Request objects are
// refused without being verified, but one may name the mode. It counts if the parameter is
// missing: it only changes how the refusal reaches the proven redirect URI.
func (req *authorization) responseMode() string {
	if req.form.Has("response_mode") || len(req.form["request"]) != 1 {
		mode := req.form["response_mode"]
		if len(mode) != 1 {
			return ""
		}
		return mode[0]
	}
	parts := strings.Split(req.form.Get("request"), ".")
	if len(parts) != 3 {
		return ""
	}
	var object struct {
		ResponseMode string `json:"response_mode"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &object) != nil {
		return ""
	}
	return object.ResponseMode
}

// answer sends the parameters to the redirect URI with the client's state and iss (RFC 9207), in
// the query, in the fragment or by form_post. Applications in the browser ask for the fragment to
// keep the code out of server logs and the Referer header. A device polls for its answer, so its
// user only sees a page.
func (p *Provider) answer(w http.ResponseWriter, r *http.Request, req *authorization, params url.Values) error {
	if req.forDevice() {
		page := templates.Device{ClientName: req.client.Name, Denied: params.Has("error")}
		page.Allowed = !page.Denied
		http.SetCookie(w, p.accounts.HostCookie(userCodeCookie, "", -time.Second))
		p.accounts.Show(w, r, http.StatusOK, page)
		return nil
	}
	if err := p.spendPushed(r.Context(), req); err != nil {
		return err
	}
	params.Set("iss", p.issuer)
	mode := req.responseMode()
	posted := mode == "form_post"
	if state := req.form["state"]; len(state) == 1 && state[0] != "" && (!posted || survivesForm(state[0])) {
		params.Set("state", state[0])
	}
	noStore(w)
	if posted {
		p.accounts.Show(w, r, http.StatusOK, formPost(req.redirectURI, params))
		return nil
	}
	// Not http.Redirect: it would rewrite a private-use scheme's path.
	location := withQuery(req.redirectURI, params)
	if mode == "fragment" { // a registered URI has no fragment
		location = req.redirectURI + "#" + params.Encode()
	}
	if req.allowed && !strings.HasPrefix(location, "https:") && !strings.HasPrefix(location, "http:") {
		// The program opens, and the browser stays at the page. Some open it only by a tap.
		w.Header().Set("Refresh", "0;url="+location)
		p.accounts.Show(w, r, http.StatusOK,
			templates.GoBack{ClientName: req.client.shownName(), URL: location, Answered: true})
		return nil
	}
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// withQuery appends parameters to a registered URI and keeps its query unchanged.
func withQuery(uri string, params url.Values) string {
	separator := "?"
	if strings.Contains(uri, "?") {
		separator = "&"
	}
	return uri + separator + params.Encode()
}

// survivesForm reports whether a hidden field returns the text unchanged. HTML replaces NUL and
// invalid UTF-8, and normalizes line ends.
func survivesForm(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsAny(s, "\x00\r\n")
}

func formPost(target string, params url.Values) templates.FormPost {
	page := templates.FormPost{RedirectURI: target, Parameters: map[string]string{}}
	for name := range params {
		page.Parameters[name] = params.Get(name)
	}
	return page
}

func (p *Provider) writeOAuth(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		p.logFailure(r, "answer not written", err)
		status, body = http.StatusInternalServerError, []byte(`{"error":"server_error"}`)
	}
	noStore(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

func noStore(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
}
