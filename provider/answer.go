package provider

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// descriptions are the error_description texts: fixed, plain ASCII without " and
// \ (RFC 6749 section 5.2), never an echo of what was sent. An error that is
// not listed here is not sent.
var descriptions = map[string]string{
	"invalid_request":            "A required parameter is missing, repeated or has a value that is not allowed.",
	"unauthorized_client":        "This client may not use this grant.",
	"access_denied":              "The request was denied.",
	"unsupported_response_type":  "Only response_type=code is supported.",
	"unsupported_response_mode":  "Only response_mode=query and form_post are supported.",
	"invalid_scope":              "The scope exceeds what was granted.",
	"server_error":               "The service failed to answer. Try again.",
	"temporarily_unavailable":    "The service is not available at this moment. Try again soon.",
	"login_required":             "The user has to sign in.",
	"consent_required":           "The user has to give consent.",
	"interaction_required":       "The user has to interact.",
	"request_not_supported":      "The request parameter is not supported.",
	"request_uri_not_supported":  "The request_uri parameter is not supported.",
	"registration_not_supported": "The registration parameter is not supported.",
	"invalid_client":             "Client authentication failed.",
	"invalid_grant":              "The code or token is not valid, expired, used or was issued to another client.",
	"unsupported_grant_type":     "Only authorization_code, refresh_token and client_credentials are supported.",
	"invalid_token":              "The access token is not valid.",
	"insufficient_scope":         "The access token lacks the openid scope.",
	"slow_down":                  "Too many requests. Wait a while.",
}

// errNoResponseType is an invalid_request with a description of its own.
var errNoResponseType = fosite.ErrInvalidRequest.WithDescription("The response_type parameter is missing. Only response_type=code is supported.")

// describe is the name and description of an error as clients get them.
func describe(e *fosite.RFC6749Error) (name, description string) {
	if e == errNoResponseType {
		return e.ErrorField, e.DescriptionField
	}
	if name = e.ErrorField; descriptions[name] == "" {
		name = "server_error"
	}
	return name, descriptions[name]
}

// authorizePage answers with an HTML page: the client or its redirect URI is
// not proven, or nothing may be sent to it.
func (p *Provider) authorizePage(w http.ResponseWriter, r *http.Request, err error) {
	if web.Abandoned(r, err) {
		p.accounts.Fail(w, r, err)
		return
	}
	problem, known := web.ProblemOf(err)
	if !known || errors.Is(err, account.ErrUnavailable) {
		p.log.ErrorContext(r.Context(), "authorize failed", "error", err, "request_id", web.RequestID(r.Context()))
	}
	web.Note(r.Context(), "authorize_"+problem.Code)
	if problem.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "2")
	}
	p.accounts.Show(w, r, problem.Status, templates.Error{
		Status: problem.Status, Title: problem.Title, Detail: problem.Detail, RequestID: web.RequestID(r.Context()),
	})
}

// refuseAuthorization sends an OAuth error to the proven redirect URI.
func (p *Provider) refuseAuthorization(w http.ResponseWriter, r *http.Request, req *authorization, e *fosite.RFC6749Error) {
	name, description := describe(e)
	web.Note(r.Context(), "authorize_"+name)
	p.answer(w, r, req, url.Values{"error": {name}, "error_description": {description}})
}

// authorizeFailure is for what fosite or the store says.
func (p *Provider) authorizeFailure(w http.ResponseWriter, r *http.Request, req *authorization, err error) {
	if errors.Is(err, account.ErrUnavailable) || web.Abandoned(r, err) {
		p.authorizePage(w, r, err) // not an answer of ours about the user: try again
		return
	}
	if errors.Is(err, account.ErrSessionNotFound) {
		// The session ended between its check and the code.
		p.refuseAuthorization(w, r, req, fosite.ErrLoginRequired)
		return
	}
	e := fosite.ErrorToRFC6749Error(err)
	if e.CodeField >= http.StatusInternalServerError || descriptions[e.ErrorField] == "" {
		p.log.ErrorContext(r.Context(), "authorize failed", "error", err, "request_id", web.RequestID(r.Context()))
	}
	p.refuseAuthorization(w, r, req, e)
}

// responseMode is the way of the answer, empty for the default. A request object
// is refused unread, but whoever sends one may name the way in it: it counts where the
// parameter is missing, unverified, because it changes nothing but how the proven redirect URI
// gets the refusal.
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

// answer sends the parameters to the redirect URI, with state as it came and
// iss (RFC 9207), by query or by form_post; in the fragment only the refusal of a
// request object that says so.
func (p *Provider) answer(w http.ResponseWriter, r *http.Request, req *authorization, params url.Values) {
	params.Set("iss", p.issuer)
	mode := req.responseMode()
	posted := mode == "form_post"
	if state := req.form["state"]; len(state) == 1 && state[0] != "" && (!posted || survivesForm(state[0])) {
		params.Set("state", state[0])
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
	if posted {
		p.accounts.Show(w, r, http.StatusOK, formPost(req.redirectURI, params))
		return
	}
	// Not http.Redirect: it would rewrite a private-use scheme's path.
	location := withQuery(req.redirectURI, params)
	if mode == "fragment" && !req.form.Has("response_mode") {
		location = req.redirectURI + "#" + params.Encode()
	}
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusSeeOther)
}

// withQuery appends parameters to a registered URI and leaves what it has as
// it is.
func withQuery(uri string, params url.Values) string {
	switch {
	case !strings.Contains(uri, "?"):
		uri += "?"
	case !strings.HasSuffix(uri, "?") && !strings.HasSuffix(uri, "&"):
		uri += "&"
	}
	return uri + params.Encode()
}

// survivesForm tells whether a hidden field brings a text back unchanged: HTML
// replaces NUL and what is not UTF-8, and turns line ends into others.
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
