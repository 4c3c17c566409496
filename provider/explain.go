package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// Explainer is what Explain looks at. It reads and never writes.
type Explainer struct {
	Storage Storage
	Clients ClientStore
	Issuer  string
	Keys    []jose.JSONWebKey // of id_token_hint; may be empty
	User    *account.User     // who is to sign in; nil: anybody whom the client would let in
	Now     func() time.Time  // nil: time.Now
}

// What becomes of a request.
const (
	AnswerCode  = "code"  // the application gets a code, after the steps
	AnswerError = "error" // the application gets an OAuth error
	AnswerPage  = "page"  // the browser stays here: nothing is sent to the application
)

// Explanation says what the authorization endpoint would do with a request.
type Explanation struct {
	Answer   string         `json:"answer"`          // one of the Answer constants
	Error    string         `json:"error,omitempty"` // with AnswerError: the error code that the application gets
	Why      string         `json:"why,omitempty"`   // a sentence; empty with AnswerCode
	SentTo   string         `json:"sent_to,omitempty"`
	Findings []Finding      `json:"findings"`
	Steps    []string       `json:"steps"` // what the browser goes through before the code
	User     *ExplainedUser `json:"user,omitempty"`
}

// What a Finding says of a parameter.
const (
	FindingGood  = "ok"
	FindingWrong = "wrong"
	FindingNote  = "note"
)

// Finding is what there is to say about one parameter.
type Finding struct {
	Parameter string `json:"parameter"`
	Verdict   string `json:"verdict"` // one of the Finding constants
	Text      string `json:"text"`
}

// ExplainedUser is what the request means for one user.
type ExplainedUser struct {
	Handle       string         `json:"handle"`
	RequiredFlag string         `json:"required_flag,omitempty"`
	HasFlag      bool           `json:"has_required_flag"`
	Consented    []string       `json:"consented_scopes"`
	IDToken      map[string]any `json:"id_token,omitempty"` // with AnswerCode
	UserInfo     map[string]any `json:"userinfo,omitempty"` // with AnswerCode
}

// explaining is one request on its way through the same checks that authorize
// makes. Its Provider has only what these need: no keys, no sealed values, no pushed requests.
type explaining struct {
	*Explanation
	by       Explainer
	provider *Provider
	req      *authorization
}

// Explain tells what the authorization endpoint would do with a request and
// why. raw is the address that an application sent the browser to, or its query alone.
// Nothing is requested, stored or spent. An error is a failure to read, never a bad request.
func Explain(ctx context.Context, raw string, by Explainer) (*Explanation, error) {
	if by.Now == nil {
		by.Now = time.Now
	}
	signer, err := newHintReader(by)
	if err != nil {
		return nil, err
	}
	e := &explaining{
		Explanation: &Explanation{Findings: []Finding{}, Steps: []string{}}, by: by,
		provider: &Provider{clients: newClientCache(by.Storage, by.Now), storage: by.Storage, issuer: by.Issuer, idTokens: signer, clock: by.Now},
	}
	return e.Explanation, e.explain(ctx, raw)
}

func (e *explaining) explain(ctx context.Context, raw string) error {
	if !e.read(raw) {
		return nil
	}
	err := e.provider.proveClient(ctx, e.req)
	problem, known := web.ProblemOf(err)
	if err != nil && (!known || errors.Is(err, account.ErrUnavailable)) {
		return fmt.Errorf("find client: %w", err)
	}
	if found := e.explainClient(ctx); found != nil {
		return found
	}
	if err != nil {
		e.explainParameters()
		e.Answer, e.Why = AnswerPage, problem.Detail
		return nil
	}
	e.SentTo = e.req.redirectURI
	e.explainParameters()
	return e.decide(ctx)
}

// read takes the request out of the address.
func (e *explaining) read(raw string) bool {
	raw = strings.TrimSpace(raw)
	if !strings.Contains(raw, "?") && strings.Contains(raw, "=") {
		raw = e.by.Issuer + "/oauth2/authorize?" + raw // the query alone
	}
	target, err := url.Parse(raw)
	if err != nil {
		e.wrong("address", "This is not an address. Paste the whole one that the application sent the browser to, in single quotes.")
		e.Answer, e.Why = AnswerPage, "The address cannot be read."
		return false
	}
	endpoint := *target
	endpoint.RawQuery, endpoint.Fragment = "", ""
	if s := endpoint.String(); s != "" && s != e.by.Issuer+"/oauth2/authorize" {
		e.note("address", "The application sent the browser to "+s+"; the authorization endpoint is "+e.by.Issuer+"/oauth2/authorize.")
	}
	if target.Fragment != "" {
		e.note("address", "What stands behind # never reaches the service.")
	}
	if target.Query().Has("continue") {
		e.wrong("continue", "This address is one of the service's own, on the way through sign-in. Paste the one that the application sent the browser to.")
		e.Answer, e.Why = AnswerPage, "The request itself is not in the address."
		return false
	}
	e.req, err = e.provider.parseAuthorization(nil, &http.Request{Method: http.MethodGet, URL: target, Body: http.NoBody})
	if err != nil {
		problem, _ := web.ProblemOf(err)
		e.wrong("address", "The query is not of the form name=value&name=value: check the percent-encoding.")
		e.Answer, e.Why = AnswerPage, problem.Detail
		return false
	}
	if len(e.req.form) == 0 {
		e.note("address", "There is no query. In a shell the address needs single quotes, because & ends a command.")
	}
	if strings.HasPrefix(e.req.form.Get("request_uri"), requestURIPrefix) {
		e.note("request_uri", "A pushed request (RFC 9126): its parameters lie at the service, once and for a minute. Explain the parameters that the application pushes instead.")
		e.Answer, e.Why = AnswerPage, "The parameters of a pushed request are not in the address, and looking at them would use them up."
		return false
	}
	return true
}

// decide plays the request through: nobody signed in, then the user.
func (e *explaining) decide(ctx context.Context) error {
	q, refusal := e.ask(nil)
	if refusal != nil {
		e.refuse(refusal, "")
		return nil
	}
	user, err := e.person(ctx, &q)
	if err != nil || e.Answer != "" {
		return err
	}
	silent := slices.Contains(q.prompts, "none")
	if v, _ := decide(q); v == login {
		e.Steps = append(e.Steps, "the sign-in page"+e.whenToSignIn(q, user))
	} else {
		e.Steps = append(e.Steps, "no page (prompt=none): the browser has to be signed in already, else the answer is login_required")
	}
	// With a page of ours the sign-in is fresh when the request comes back.
	q.identity, q.returned = e.identity(user, q.arrived), !silent
	v, refusal := decide(q)
	switch v {
	case consent:
		e.Steps = append(e.Steps, "the consent page, for: "+strings.Join(missingScopes(q), " "))
		// The page stores what was allowed before the decision comes back.
		q.decision, q.consented = decisionAllow, append([]string{}, q.scopes...)
		v, refusal = decide(q)
	case proceed:
		e.Steps = append(e.Steps, "no consent page: "+whyNoConsent(q))
	}
	if v != proceed {
		e.refuse(refusal, user.Handle)
		return nil
	}
	e.Answer = AnswerCode
	return e.tokens(ctx, q)
}

// ask is Provider.ask for a request without a continuation.
func (e *explaining) ask(id *account.Identity) (question, *fosite.RFC6749Error) {
	return e.provider.ask(&http.Request{URL: &url.URL{}}, e.req, id)
}

func missingScopes(q question) []string {
	if slices.Contains(q.prompts, "consent") {
		return q.scopes
	}
	return slices.DeleteFunc(slices.Clone(q.scopes), func(s string) bool { return slices.Contains(q.consented, s) })
}

func whyNoConsent(q question) string {
	if q.client.Trusted {
		return "the client is trusted"
	}
	return "the user has agreed to these scopes before"
}

// refuse notes the error that the application gets.
func (e *explaining) refuse(problem *fosite.RFC6749Error, handle string) {
	e.Answer = AnswerError
	e.Error, e.Why = describe(problem)
	if handle == "" {
		return
	}
	switch problem.ErrorField {
	case "access_denied":
		e.Why = fmt.Sprintf("%s has not the flag %s, which the client requires.", handle, e.req.client.RequireFlag)
	case "login_required":
		e.Why = fmt.Sprintf("The request asks for a sign-in that %s's present one is not: another user (id_token_hint, claims), or a fresh one, which prompt=none leaves no page for.", handle)
	case "consent_required":
		e.Why = fmt.Sprintf("%s has not agreed to these scopes yet, and prompt=none leaves no page to do so.", handle)
	}
}

// newHintReader verifies id_token_hint where there are keys; without any, every
// hint is one of an unknown key.
func newHintReader(by Explainer) (*idTokenSigner, error) {
	if len(by.Keys) == 0 {
		return &idTokenSigner{issuer: by.Issuer, now: by.Now}, nil
	}
	return newIDTokenSigner(by.Issuer, by.Keys, by.Now)
}

func (e *explaining) good(parameter, text string)  { e.find(parameter, FindingGood, text) }
func (e *explaining) wrong(parameter, text string) { e.find(parameter, FindingWrong, text) }
func (e *explaining) note(parameter, text string)  { e.find(parameter, FindingNote, text) }

func (e *explaining) find(parameter, verdict, text string) {
	if len(parameter) > 64 || strings.ContainsFunc(parameter, func(r rune) bool { return r <= ' ' || r > '~' }) {
		parameter = fmt.Sprintf("%.64q", parameter) // a name that somebody made up
	}
	e.Findings = append(e.Findings, Finding{parameter, verdict, text})
}
