package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/account/web/browser"
)

// phase is one kind of request that is measured.
type phase struct {
	name string
	// operate is one operation, whose answer it checks.
	operate func(w *worker, ctx context.Context) error
	// prepare collects the codes that n operations of one worker use up, before the clock starts; nil: none.
	prepare func(w *worker, ctx context.Context, n int) error
	// apiOnly: a version that knows no APIs does not have it.
	apiOnly bool
}

// errUsedUp ends a slice: nothing is left of what was prepared.
var errUsedUp = errors.New("nothing is left of what was prepared")

// phases in the order in which they are measured.
var phases = []phase{
	{name: "discovery", operate: (*worker).discovery},
	{name: "jwks", operate: (*worker).jwks},
	{name: "status-list", operate: (*worker).statusListWhole},
	{name: "status-list-304", operate: (*worker).statusListUnchanged},
	{name: "authorize", operate: (*worker).authorizeOnly},
	{name: "token", operate: (*worker).exchangeCollected, prepare: (*worker).collectCodes},
	{name: "token-api", operate: (*worker).exchangeForAPI, prepare: (*worker).collectAPICodes, apiOnly: true},
	{name: "authorize+token", operate: (*worker).authorizeAndExchange},
	{name: "refresh", operate: (*worker).refresh},
	{name: "userinfo", operate: (*worker).userinfo},
	{name: "introspection", operate: (*worker).introspect},
	{name: "sign-in", operate: (*worker).signInAgain},
}

func phaseNames() (names []string) {
	for _, p := range phases {
		names = append(names, p.name)
	}
	return names
}

const (
	scope        = "openid profile offline_access"
	metadataPath = "/.well-known/openid-configuration"
	loginPath    = "/login/"
	statusPath   = "/oauth2/status/1"
)

// target is a server under test, and what the driver learns of it before the first phase.
type target struct {
	process
	name, address, issuer  string
	clientID, clientSecret string
	handles                []string // of those who sign in
	password               string
	api                    string // URI of an API that the client may use; empty: it has none

	metadata, keySet string
	at               map[string]string // paths of the endpoints
	keys             jose.JSONWebKeySet
	client           string      // the Authorization header of client_secret_basic (RFC 6749 section 2.3.1)
	app              browser.App // without the secret
	asked            string      // the query of an authorization request without state and nonce
}

// session is a signed-in browser.
type session struct{ handle, cookie, sub string }

// grant is what an exchange gave.
type grant struct {
	of              *session
	access, refresh string
	userinfo        string // the answer that was found right
}

// pending is a code that has not been exchanged.
type pending struct {
	of          *session
	code, nonce string
}

// worker is one client at a time, with sessions of its own.
type worker struct {
	*target
	http       *http.Client
	sessions   []*session
	grants     []*grant // one of each session
	codes      []pending
	turn       int
	statusList string // the newest that was verified
	statusTag  string
	latency    []time.Duration
}

// named says where an error was met.
func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// learn reads what does not change.
func (w *worker) learn(ctx context.Context) error {
	if err := w.discovery(ctx); err != nil {
		return named("discovery", err)
	}
	credentials := url.QueryEscape(w.clientID) + ":" + url.QueryEscape(w.clientSecret)
	w.client = "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))
	w.app = browser.App{ID: w.clientID, Callback: redirectURI}
	asked := w.app.Authorization(scope)
	asked.Del("state")
	w.asked = asked.Encode()
	return named("jwks", w.jwks(ctx))
}

// signInAll makes the sessions, and a grant of each.
func (w *worker) signInAll(ctx context.Context) (err error) {
	for _, s := range w.sessions {
		if s.cookie, err = w.signIn(ctx, s.handle); err != nil {
			return named("sign-in", err)
		}
		p, err := w.authorize(ctx, s, "")
		if err != nil {
			return named("authorize", err)
		}
		g, err := w.exchange(ctx, p)
		if err != nil {
			return named("token", err)
		}
		w.grants = append(w.grants, g)
	}
	return named("status-list", w.statusListWhole(ctx))
}

func (w *worker) session() *session {
	w.turn++
	return w.sessions[w.turn%len(w.sessions)]
}

func (w *worker) grant() *grant {
	w.turn++
	return w.grants[w.turn%len(w.grants)]
}

// constant asks for a document that has to be what it was before, or is learned.
func (w *worker) constant(ctx context.Context, path string, known *string, document any) error {
	a, err := w.ask(ctx, http.StatusOK, path, nil)
	switch {
	case err != nil:
		return err
	case *known == "":
		*known = a.Body
		return decode(a, document)
	case a.Body != *known:
		return errors.New("the document has changed")
	}
	return nil
}

func (w *worker) discovery(ctx context.Context) error {
	var document map[string]any
	if err := w.constant(ctx, metadataPath, &w.metadata, &document); err != nil || document == nil {
		return err
	}
	if document["issuer"] != w.issuer {
		return fmt.Errorf("the issuer is %v instead of %s", document["issuer"], w.issuer)
	}
	w.at = map[string]string{}
	for _, name := range []string{"jwks_uri", "authorization_endpoint", "token_endpoint", "userinfo_endpoint",
		"introspection_endpoint"} {
		address, _ := document[name].(string)
		path, ok := strings.CutPrefix(address, w.issuer)
		if !ok {
			return fmt.Errorf("%s is %q, which is not below the issuer", name, address)
		}
		w.at[name] = path
	}
	return nil
}

func (w *worker) jwks(ctx context.Context) error {
	return w.constant(ctx, w.at["jwks_uri"], &w.keySet, &w.keys)
}

func (w *worker) statusListWhole(ctx context.Context) error {
	a, err := w.ask(ctx, http.StatusOK, statusPath, nil)
	if err != nil {
		return err
	}
	return w.checkStatusList(a)
}

// checkStatusList verifies a list where it differs from the one before: it is signed anew from time to time.
func (w *worker) checkStatusList(a browser.Answer) error {
	if a.Body == w.statusList {
		return nil
	}
	var claims struct {
		jwt.Claims
		List struct {
			List string `json:"lst"`
		} `json:"status_list"`
	}
	if err := w.open(a.Body, &claims); err != nil {
		return err
	}
	w.statusList, w.statusTag = a.Body, a.Header.Get("Etag")
	if claims.Subject != w.issuer+statusPath || claims.List.List == "" || w.statusTag == "" {
		return errors.New("there is no ETag, or no list")
	}
	return nil
}

func (w *worker) statusListUnchanged(ctx context.Context) error {
	a, err := w.ask(ctx, http.StatusNotModified, statusPath, nil, "If-None-Match", w.statusTag)
	if err != nil && a.Status == http.StatusOK && a.Header.Get("Etag") != w.statusTag {
		return w.checkStatusList(a)
	}
	return err
}

// open verifies the signature of a JWT and reads its claims.
func (w *worker) open(token string, claims any) error {
	signed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA})
	if err != nil {
		return errors.New("not a signed JWT")
	}
	keys := w.keys.Key(signed.Headers[0].KeyID)
	if len(keys) == 0 {
		return errors.New("a JWT is signed with a key that is not published")
	}
	if err := signed.Claims(keys[0], claims); err != nil {
		return errors.New("the signature of a JWT is wrong")
	}
	return nil
}

// signIn signs in as a browser does and returns its cookies.
func (w *worker) signIn(ctx context.Context, handle string) (string, error) {
	form := url.Values{"handle": {handle}, "password": {w.password}}
	a, err := w.ask(ctx, http.StatusSeeOther, loginPath, form, "Accept", "text/html", "Sec-Fetch-Site", "same-origin")
	cookies := a.Cookies()
	if err == nil && cookies == "" {
		err = errors.New("no cookie was set")
	}
	return cookies, err
}

func (w *worker) signInAgain(ctx context.Context) error {
	_, err := w.signIn(ctx, w.session().handle)
	return err
}

// authorize asks for a code with a session, and with further parameters or none.
func (w *worker) authorize(ctx context.Context, s *session, more string) (pending, error) {
	state, nonce := rand.Text(), rand.Text()
	path := w.at["authorization_endpoint"] + "?" + w.asked + more + "&state=" + state + "&nonce=" + nonce
	a, err := w.ask(ctx, http.StatusSeeOther, path, nil, "Accept", "text/html", "Cookie", s.cookie)
	if err != nil {
		return pending{}, err
	}
	to, query, _ := strings.Cut(a.Header.Get("Location"), "?")
	got, err := url.ParseQuery(query)
	switch {
	case to != redirectURI || err != nil:
		err = fmt.Errorf("the answer leads to %s instead of to the client", to)
	case got.Get("error") != "":
		err = fmt.Errorf("the answer is %s: %s", got.Get("error"), got.Get("error_description"))
	case got.Get("state") != state || got.Get("code") == "":
		err = errors.New("there is no code, or the state is another one")
	}
	return pending{of: s, code: got.Get("code"), nonce: nonce}, err
}

func (w *worker) authorizeOnly(ctx context.Context) error {
	_, err := w.authorize(ctx, w.session(), "")
	return err
}

// grantFor is a request to the token endpoint, whose answer it checks. No nonce: the ID token may have that of the
// exchange (OpenID Connect Core section 12.2).
func (w *worker) grantFor(ctx context.Context, s *session, form url.Values, nonce string) (*grant, error) {
	a, err := w.ask(ctx, http.StatusOK, w.at["token_endpoint"], form, "Authorization", w.client)
	if err != nil {
		return nil, err
	}
	var got struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		ID      string `json:"id_token"`
	}
	var claims struct {
		jwt.Claims
		Nonce string `json:"nonce"`
	}
	if err := decode(a, &got); err != nil {
		return nil, err
	}
	if got.Access == "" || got.Refresh == "" || got.ID == "" {
		return nil, errors.New("an access, refresh or ID token is missing")
	}
	if err = w.open(got.ID, &claims); err == nil {
		err = claims.Validate(w.expected(s, w.clientID))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("ID token: %w", err)
	case claims.Subject == "" || claims.Expiry == nil:
		return nil, errors.New("ID token: it lacks sub or exp")
	case nonce != "" && claims.Nonce != nonce:
		return nil, errors.New("ID token: the nonce is missing or another one")
	}
	s.sub = claims.Subject
	return &grant{of: s, access: got.Access, refresh: got.Refresh}, nil
}

// expected are the claims of a token of a user, as far as they are known, for an audience.
func (w *worker) expected(s *session, audience string) jwt.Expected {
	return jwt.Expected{Issuer: w.issuer, Subject: s.sub, AnyAudience: jwt.Audience{audience}, Time: time.Now()}
}

func (w *worker) exchange(ctx context.Context, p pending) (*grant, error) {
	return w.grantFor(ctx, p.of, w.app.Exchange(p.code), p.nonce)
}

func (w *worker) authorizeAndExchange(ctx context.Context) error {
	p, err := w.authorize(ctx, w.session(), "")
	if err == nil {
		_, err = w.exchange(ctx, p)
	}
	return err
}

func (w *worker) collectCodes(ctx context.Context, n int) error { return w.collect(ctx, n, "") }

func (w *worker) collectAPICodes(ctx context.Context, n int) error {
	return w.collect(ctx, n, "&resource="+url.QueryEscape(w.api))
}

func (w *worker) collect(ctx context.Context, n int, more string) error {
	w.codes = w.codes[:0]
	for range n {
		p, err := w.authorize(ctx, w.session(), more)
		if err != nil {
			return named("authorize", err)
		}
		w.codes = append(w.codes, p)
	}
	return nil
}

func (w *worker) exchangeCollected(ctx context.Context) error {
	_, err := w.exchangeNext(ctx)
	return err
}

func (w *worker) exchangeNext(ctx context.Context) (*grant, error) {
	if len(w.codes) == 0 {
		return nil, errUsedUp
	}
	p := w.codes[0] // the oldest: a code lives for a minute
	w.codes = w.codes[1:]
	return w.exchange(ctx, p)
}

// exchangeForAPI wants an access token that the API can verify.
func (w *worker) exchangeForAPI(ctx context.Context) error {
	g, err := w.exchangeNext(ctx)
	if err != nil {
		return err
	}
	var claims jwt.Claims
	if err = w.open(g.access, &claims); err == nil {
		err = claims.Validate(w.expected(g.of, w.api))
	}
	return named("access token", err)
}

func (w *worker) refresh(ctx context.Context) error {
	g := w.grant()
	got, err := w.grantFor(ctx, g.of, w.app.Refresh(g.refresh), "")
	if err == nil && (got.refresh == g.refresh || got.access == g.access) {
		err = errors.New("a token was not rotated")
	}
	if err == nil {
		*g = *got
	}
	return err
}

func (w *worker) userinfo(ctx context.Context) error {
	g := w.grant()
	a, err := w.ask(ctx, http.StatusOK, w.at["userinfo_endpoint"], nil, "Authorization", "Bearer "+g.access)
	if err != nil || a.Body == g.userinfo {
		return err
	}
	var got struct {
		Subject string `json:"sub"`
		Handle  string `json:"preferred_username"`
	}
	if err := decode(a, &got); err != nil {
		return err
	}
	if got.Subject != g.of.sub || got.Handle != g.of.handle {
		return errors.New("of another user")
	}
	g.userinfo = a.Body
	return nil
}

func (w *worker) introspect(ctx context.Context) error {
	g := w.grant()
	form := url.Values{"token": {g.access}}
	a, err := w.ask(ctx, http.StatusOK, w.at["introspection_endpoint"], form, "Authorization", w.client)
	if err != nil {
		return err
	}
	var got struct {
		Active  bool   `json:"active"`
		Subject string `json:"sub"`
	}
	if err := decode(a, &got); err != nil {
		return err
	}
	if !got.Active || got.Subject != g.of.sub {
		return errors.New("the token is not active, or of another user")
	}
	return nil
}
