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
	"github.com/cairn-id/cairn/account/web"
)

// maxQuery bounds an authorization request, in bytes of its encoded form: it
// has to travel through the sign-in page in a URL.
const maxQuery = 4 << 10

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

// parseAuthorization reads the request, or the one that a continuation carries.
func (p *Provider) parseAuthorization(w http.ResponseWriter, r *http.Request) (*authorization, error) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxBody)
	form, err := authorizationForm(r)
	if err != nil {
		return nil, err
	}
	req := &authorization{form: form, arrived: p.now()}
	if sealed := form.Get("continue"); sealed != "" {
		var c pending
		if err := p.seal.open(purposeContinue, sealed, &c); err != nil {
			return nil, web.NewProblem(http.StatusBadRequest, "expired_request", "This sign-in took too long or its link is damaged. Go back to the application and start again.")
		}
		if req.form, err = url.ParseQuery(c.Query); err != nil {
			return nil, web.NewProblem(http.StatusBadRequest, "expired_request", "This sign-in link is damaged. Go back to the application and start again.")
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
	bad := web.NewProblem(http.StatusBadRequest, "invalid_request", "The request to sign in could not be read. The application sent something that is not a form.")
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
	page := func(detail string) error { return web.NewProblem(http.StatusBadRequest, "invalid_request", detail) }
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
	if uri == "" {
		return page("The application that sent you here did not say where the answer goes: redirect_uri is missing from its request. Tell its operator.")
	}
	if !client.matchRedirect(uri) {
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
	q.loginHint, _ = account.CanonicalHandle(req.form.Get("login_hint"))
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
	case f.Get("response_type") == "":
		return q, errNoResponseType
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
