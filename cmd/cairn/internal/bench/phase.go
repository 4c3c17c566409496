package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// phase is one kind of request that is measured.
type phase struct {
	name string
	// prepare makes what n operations of one worker need, while the clock stands.
	prepare func(w *worker, ctx context.Context, n int) error
	// operate is one operation, whose answer it checks. errUsedUp: nothing is left of what
	// was prepared.
	operate func(w *worker, ctx context.Context) error
	// of tells whether a server has it; nil: each has.
	of func(*Target) bool
}

var errUsedUp = errors.New("nothing is left of what was prepared")

// phases in the order in which they are measured.
var phases = []phase{
	{name: "discovery", operate: (*worker).discovery},
	{name: "jwks", operate: (*worker).jwks},
	{name: "status-list", operate: (*worker).statusList, of: (*Target).hasStatusList},
	{name: "status-list-304", operate: (*worker).statusListUnchanged, of: (*Target).hasStatusList},
	{name: "authorize", operate: (*worker).authorizeOnly},
	{name: "token", prepare: (*worker).collectCodes, operate: (*worker).exchangeCollected},
	{name: "authorize+token", operate: (*worker).authorizeAndExchange},
	{name: "refresh", prepare: (*worker).collectGrants, operate: (*worker).refresh},
	{name: "userinfo", prepare: (*worker).collectGrants, operate: (*worker).userinfo},
	{name: "introspection", prepare: (*worker).collectGrants, operate: (*worker).introspect},
	{name: "sign-in", operate: (*worker).signInAgain, of: func(t *Target) bool { return t.form }},
}

// PhaseNames are what --phases takes.
func PhaseNames() []string {
	var names []string
	for _, p := range phases {
		names = append(names, p.name)
	}
	return names
}

// Setup is what a server under test is told, or tells, of the one client and the users.
type Setup struct {
	Issuer       string   `json:"issuer"`
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret"`
	RedirectURI  string   `json:"redirect_uri"`
	Handles      []string `json:"handles"` // of those who sign in
	Password     string   `json:"password"`
}

// basic is how the client authenticates (client_secret_basic, RFC 6749 section 2.3.1).
func (s Setup) basic() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(s.ClientID)+":"+url.QueryEscape(s.ClientSecret)))
}

// redirectURI leads nowhere: no one follows it.
const redirectURI = "http://127.0.0.1:9/callback"

const (
	scope         = "openid profile offline_access"
	metadataPath  = "/.well-known/openid-configuration"
	loginPath     = "/login/"
	statusPath    = "/oauth2/status/1"
	grantsPerUser = 8 // of a worker, which its operations take in turn
)

// Target is a server under test and what the driver knows of it.
type Target struct {
	Name string
	Setup
	address  string
	form     bool // it has a sign-in form; else a request for authorization signs in
	at       map[string]string
	keys     jose.JSONWebKeySet
	client   string // its Authorization header
	verifier string
	asked    string // the query of an authorization request without state and nonce
	metadata []byte
	keySet   []byte
	mu       sync.Mutex // of status
	status   struct {
		body []byte
		tag  string
	}
	hidden   url.Values // what the form of the sign-in page sends unseen
	sessions []*session
}

// session is a signed-in browser.
type session struct{ handle, cookie, sub string }

// grant is what an exchange gave.
type grant struct {
	of                      *session
	access, refresh, checks string // checks: the answer of userinfo that was found right
}

// pending is a code that has not been exchanged.
type pending struct {
	of          *session
	code, nonce string
}

// worker is one client at a time.
type worker struct {
	*Target
	number, of int
	conn       connection
	turn       int
	codes      []pending
	grants     []*grant
	latency    histogram
}

func (t *Target) hasStatusList() bool { return t.form }

// learn reads the metadata and the keys.
func (t *Target) learn(ctx context.Context, w *worker) error {
	if err := w.discovery(ctx); err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	if err := w.jwks(ctx); err != nil {
		return fmt.Errorf("jwks: %w", err)
	}
	t.client = t.basic()
	t.verifier = rand.Text() + rand.Text()
	challenge := sha256.Sum256([]byte(t.verifier))
	t.asked = url.Values{
		"response_type": {"code"}, "client_id": {t.ClientID}, "redirect_uri": {t.RedirectURI}, "scope": {scope},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode()
	if !t.form {
		return nil
	}
	page, err := w.conn.do(ctx, loginPath, "", "Accept", "text/html")
	if err == nil {
		err = page.is(http.StatusOK)
	}
	if err != nil {
		return fmt.Errorf("sign-in page: %w", err)
	}
	t.hidden = url.Values{}
	for _, field := range hiddenField.FindAllSubmatch(page.body, -1) {
		t.hidden.Set(html.UnescapeString(string(field[1])), html.UnescapeString(string(field[2])))
	}
	if err := w.statusList(ctx); err != nil {
		return fmt.Errorf("status-list: %w", err)
	}
	return nil
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// signInAll makes the sessions of a worker: every so manieth of them.
func (w *worker) signInAll(ctx context.Context) error {
	for n := w.number; n < len(w.sessions); n += w.of {
		s := w.sessions[n]
		cookie, err := w.signIn(ctx, s.handle)
		if err != nil {
			return fmt.Errorf("sign-in: %w", err)
		}
		s.cookie = cookie
		p, err := w.authorize(ctx, s)
		if err != nil {
			return fmt.Errorf("authorize: %w", err)
		}
		g, err := w.exchange(ctx, p)
		if err != nil {
			return fmt.Errorf("token: %w", err)
		}
		if err := w.userinfoOf(ctx, g); err != nil {
			return fmt.Errorf("userinfo: %w", err)
		}
	}
	return nil
}

// session is the next one of this worker.
func (w *worker) session() *session {
	w.turn++
	return w.sessions[(w.number+w.turn*w.of)%len(w.sessions)]
}

func (w *worker) discovery(ctx context.Context) error {
	a, err := w.conn.do(ctx, metadataPath, "")
	if err != nil {
		return err
	}
	if a.status == http.StatusOK && w.metadata != nil && bytes.Equal(a.body, w.metadata) {
		return nil
	}
	var document map[string]any
	if err := a.decode(http.StatusOK, &document); err != nil {
		return err
	}
	if document["issuer"] != w.Issuer {
		return fmt.Errorf("the issuer is %v instead of %s", document["issuer"], w.Issuer)
	}
	if w.metadata != nil {
		return errors.New("the document has changed")
	}
	at := map[string]string{}
	for _, name := range []string{"jwks_uri", "authorization_endpoint", "token_endpoint", "userinfo_endpoint", "introspection_endpoint"} {
		address, _ := document[name].(string)
		path, ok := strings.CutPrefix(address, w.Issuer)
		if !ok {
			return fmt.Errorf("%s is %q, which is not below the issuer", name, address)
		}
		at[name] = path
	}
	w.at, w.metadata = at, a.body
	return nil
}

func (w *worker) jwks(ctx context.Context) error {
	a, err := w.conn.do(ctx, w.at["jwks_uri"], "")
	if err != nil {
		return err
	}
	if a.status == http.StatusOK && w.keySet != nil && bytes.Equal(a.body, w.keySet) {
		return nil
	}
	if w.keySet != nil {
		return errors.New("the key set has changed")
	}
	if err := a.is(http.StatusOK); err != nil {
		return err
	}
	if err := json.Unmarshal(a.body, &w.keys); err != nil {
		return err
	}
	if len(w.keys.Keys) == 0 {
		return errors.New("there is no key")
	}
	w.keySet = a.body
	return nil
}

func (w *worker) statusList(ctx context.Context) error {
	a, err := w.conn.do(ctx, statusPath, "")
	if err != nil {
		return err
	}
	return w.checkStatusList(a)
}

func (w *worker) checkStatusList(a answer) error {
	if err := a.is(http.StatusOK); err != nil {
		return err
	}
	if kind := a.header.Get("Content-Type"); kind != "application/statuslist+jwt" {
		return fmt.Errorf("the content type is %q", kind)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Equal(a.body, w.status.body) {
		return nil
	}
	var claims struct {
		Subject string `json:"sub"`
		Expires int64  `json:"exp"`
		List    struct {
			Bits int    `json:"bits"`
			List string `json:"lst"`
		} `json:"status_list"`
	}
	if err := w.open(string(a.body), &claims); err != nil {
		return err
	}
	if claims.Subject != w.Issuer+statusPath || claims.List.Bits != 1 || claims.List.List == "" || claims.Expires <= time.Now().Unix() {
		return errors.New("the list is another one, empty or expired")
	}
	if w.status.tag = a.header.Get("Etag"); w.status.tag == "" {
		return errors.New("there is no ETag")
	}
	w.status.body = a.body
	return nil
}

func (w *worker) statusListUnchanged(ctx context.Context) error {
	w.mu.Lock()
	tag := w.status.tag
	w.mu.Unlock()
	a, err := w.conn.do(ctx, statusPath, "", "If-None-Match", tag)
	switch {
	case err != nil:
		return err
	case a.status == http.StatusOK && a.header.Get("Etag") != tag: // signed again
		return w.checkStatusList(a)
	case a.status != http.StatusNotModified:
		return a.is(http.StatusNotModified)
	case a.header.Get("Etag") != tag || len(a.body) > 0:
		return errors.New("the answer has another ETag, or a body")
	}
	return nil
}

// open verifies the signature of a JWT and reads its claims.
func (w *worker) open(token string, claims any) error {
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA})
	if err != nil {
		return errors.New("not a signed JWT")
	}
	keys := w.keys.Key(signed.Signatures[0].Header.KeyID)
	if len(keys) == 0 {
		return errors.New("a JWT is signed with a key that is not published")
	}
	payload, err := signed.Verify(keys[0])
	if err != nil {
		return errors.New("the signature of a JWT is wrong")
	}
	return json.Unmarshal(payload, claims)
}

// signIn signs in as a browser does and returns its cookies.
func (w *worker) signIn(ctx context.Context, handle string) (string, error) {
	if !w.form {
		return w.signInByRequest(ctx, handle)
	}
	form := url.Values{"handle": {handle}, "password": {w.Password}}
	for name := range w.hidden {
		form.Set(name, w.hidden.Get(name))
	}
	a, err := w.conn.do(ctx, loginPath, form.Encode(), "Accept", "text/html", "Origin", w.Issuer, "Sec-Fetch-Site", "same-origin")
	if err == nil {
		err = a.is(http.StatusSeeOther)
	}
	if err != nil {
		return "", err
	}
	cookies := map[string]string{}
	a.cookies(cookies)
	if len(cookies) == 0 {
		return "", errors.New("no cookie was set")
	}
	return cookieHeader(cookies), nil
}

// signInByRequest follows an authorization request through a server that signs in whoever
// is named, back to the client.
func (w *worker) signInByRequest(ctx context.Context, handle string) (string, error) {
	cookies := map[string]string{}
	path := w.at["authorization_endpoint"] + "?" + w.asked + "&state=s&nonce=n&login_hint=" + url.QueryEscape(handle)
	for range 5 {
		a, err := w.conn.do(ctx, path, "", "Cookie", cookieHeader(cookies))
		if err == nil && a.status != http.StatusFound {
			err = a.is(http.StatusSeeOther)
		}
		if err != nil {
			return "", err
		}
		a.cookies(cookies)
		location := a.header.Get("Location")
		if strings.HasPrefix(location, w.RedirectURI) {
			return cookieHeader(cookies), nil
		}
		path = strings.TrimPrefix(location, w.Issuer)
	}
	return "", errors.New("the sign-in does not lead back to the client")
}

func (w *worker) signInAgain(ctx context.Context) error {
	_, err := w.signIn(ctx, w.session().handle)
	return err
}

// authorize asks for a code with a session.
func (w *worker) authorize(ctx context.Context, s *session) (pending, error) {
	state, nonce := rand.Text(), rand.Text()
	a, err := w.conn.do(ctx, w.at["authorization_endpoint"]+"?"+w.asked+"&state="+state+"&nonce="+nonce, "", "Accept", "text/html", "Cookie", s.cookie)
	if err == nil && a.status != http.StatusFound {
		err = a.is(http.StatusSeeOther)
	}
	if err != nil {
		return pending{}, err
	}
	location := a.header.Get("Location")
	query, ok := strings.CutPrefix(location, w.RedirectURI+"?")
	got, err := url.ParseQuery(query)
	switch {
	case !ok || err != nil:
		to, _, _ := strings.Cut(location, "?")
		return pending{}, fmt.Errorf("the answer leads to %s instead of to the client", to)
	case got.Get("error") != "":
		return pending{}, fmt.Errorf("the answer is %s: %s", got.Get("error"), got.Get("error_description"))
	case got.Get("state") != state:
		return pending{}, errors.New("the state is another one")
	case got.Has("iss") && got.Get("iss") != w.Issuer:
		return pending{}, errors.New("the issuer of the answer is another one")
	case got.Get("code") == "":
		return pending{}, errors.New("there is no code")
	}
	return pending{of: s, code: got.Get("code"), nonce: nonce}, nil
}

func (w *worker) authorizeOnly(ctx context.Context) error {
	_, err := w.authorize(ctx, w.session())
	return err
}

// tokens is the answer of the token endpoint.
type tokens struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int    `json:"expires_in"`
	Refresh string `json:"refresh_token"`
	ID      string `json:"id_token"`
}

// audience is a text or a list (RFC 7519 section 4.1.3).
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// grantFor is a request to the token endpoint, whose answer it checks.
func (w *worker) grantFor(ctx context.Context, s *session, form url.Values, nonce string) (*grant, error) {
	a, err := w.conn.do(ctx, w.at["token_endpoint"], form.Encode(), "Authorization", w.client)
	if err != nil {
		return nil, err
	}
	var got tokens
	if err := a.decode(http.StatusOK, &got); err != nil {
		return nil, err
	}
	if got.Access == "" || got.Refresh == "" || got.ID == "" || !strings.EqualFold(got.Type, "Bearer") || got.Expires <= 0 {
		return nil, errors.New("an access, refresh or ID token, the token's type or lifetime is missing")
	}
	if !strings.Contains(a.header.Get("Cache-Control"), "no-store") {
		return nil, errors.New("the answer may be stored (Cache-Control)")
	}
	var claims struct {
		Issuer   string   `json:"iss"`
		Subject  string   `json:"sub"`
		Audience audience `json:"aud"`
		Expires  int64    `json:"exp"`
		Issued   int64    `json:"iat"`
		Nonce    *string  `json:"nonce"`
	}
	if err := w.open(got.ID, &claims); err != nil {
		return nil, fmt.Errorf("ID token: %w", err)
	}
	now := time.Now().Unix()
	switch {
	case claims.Issuer != w.Issuer:
		return nil, errors.New("ID token: another issuer")
	case !slices.Contains(claims.Audience, w.ClientID):
		return nil, errors.New("ID token: for another client")
	case claims.Expires <= now || claims.Issued > now+1 || claims.Issued < now-int64(2*answerTimeout/time.Second):
		return nil, errors.New("ID token: expired, or not issued now")
	case claims.Subject == "" || s.sub != "" && claims.Subject != s.sub:
		return nil, errors.New("ID token: of another user")
	case claims.Nonce == nil && form.Has("code") || claims.Nonce != nil && *claims.Nonce != nonce && form.Has("code"):
		return nil, errors.New("ID token: the nonce is missing or another one")
	}
	if s.sub == "" {
		s.sub = claims.Subject
	}
	return &grant{of: s, access: got.Access, refresh: got.Refresh}, nil
}

func (w *worker) exchange(ctx context.Context, p pending) (*grant, error) {
	return w.grantFor(ctx, p.of, url.Values{"grant_type": {"authorization_code"}, "code": {p.code}, "redirect_uri": {w.RedirectURI}, "code_verifier": {w.verifier}}, p.nonce)
}

func (w *worker) authorizeAndExchange(ctx context.Context) error {
	p, err := w.authorize(ctx, w.session())
	if err == nil {
		_, err = w.exchange(ctx, p)
	}
	return err
}

func (w *worker) collectCodes(ctx context.Context, n int) error {
	w.codes = w.codes[:0]
	for range n {
		p, err := w.authorize(ctx, w.session())
		if err != nil {
			return fmt.Errorf("authorize: %w", err)
		}
		w.codes = append(w.codes, p)
	}
	return nil
}

func (w *worker) exchangeCollected(ctx context.Context) error {
	if len(w.codes) == 0 {
		return errUsedUp
	}
	p := w.codes[0] // the oldest: a code lives for a minute
	w.codes = w.codes[1:]
	_, err := w.exchange(ctx, p)
	return err
}

// collectGrants makes grants once; refreshing changes their tokens.
func (w *worker) collectGrants(ctx context.Context, _ int) error {
	for len(w.grants) < grantsPerUser {
		p, err := w.authorize(ctx, w.session())
		if err != nil {
			return fmt.Errorf("authorize: %w", err)
		}
		g, err := w.exchange(ctx, p)
		if err != nil {
			return fmt.Errorf("token: %w", err)
		}
		w.grants = append(w.grants, g)
	}
	return nil
}

func (w *worker) grant() *grant {
	w.turn++
	return w.grants[w.turn%len(w.grants)]
}

func (w *worker) refresh(ctx context.Context) error {
	g := w.grant()
	got, err := w.grantFor(ctx, g.of, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.refresh}}, "")
	if err != nil {
		return err
	}
	if got.refresh == g.refresh || got.access == g.access {
		return errors.New("a token was not rotated")
	}
	*g = *got
	return nil
}

func (w *worker) userinfo(ctx context.Context) error { return w.userinfoOf(ctx, w.grant()) }

func (w *worker) userinfoOf(ctx context.Context, g *grant) error {
	a, err := w.conn.do(ctx, w.at["userinfo_endpoint"], "", "Authorization", "Bearer "+g.access)
	if err != nil {
		return err
	}
	if a.status == http.StatusOK && g.checks != "" && string(a.body) == g.checks {
		return nil
	}
	var got struct {
		Subject string `json:"sub"`
		Handle  string `json:"preferred_username"`
	}
	if err := a.decode(http.StatusOK, &got); err != nil {
		return err
	}
	if got.Subject != g.of.sub || got.Handle != g.of.handle {
		return errors.New("of another user")
	}
	g.checks = string(a.body)
	return nil
}

func (w *worker) introspect(ctx context.Context) error {
	g := w.grant()
	a, err := w.conn.do(ctx, w.at["introspection_endpoint"], url.Values{"token": {g.access}}.Encode(), "Authorization", w.client)
	if err != nil {
		return err
	}
	var got struct {
		Active   bool   `json:"active"`
		Subject  string `json:"sub"`
		ClientID string `json:"client_id"`
		Expires  int64  `json:"exp"`
	}
	if err := a.decode(http.StatusOK, &got); err != nil {
		return err
	}
	if !got.Active || got.Subject != g.of.sub || got.ClientID != w.ClientID || got.Expires <= time.Now().Unix() {
		return errors.New("the token is not active, expired, or of another user or client")
	}
	return nil
}
