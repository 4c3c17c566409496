package provider

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// Client ID Metadata Documents (draft-ietf-oauth-client-id-metadata-document): the id of a client
// is the https URL of its description. Only what the operator has allowed is fetched.

// Limits of fetched and cached documents.
const (
	documentTimeout    = 5 * time.Second
	maxDocument        = 5 << 10 // bytes
	minDocumentAge     = 5 * time.Minute
	maxDocumentAge     = 24 * time.Hour
	documentFailureAge = time.Minute
	documentsAtOnce    = 16
	// MaxDocuments bounds the documents in memory, and the clients of this kind in the database.
	MaxDocuments = 1000
)

// Allowance permits clients that bring their own description.
type Allowance struct {
	URL       string    `json:"url"`    // of one document or, ending in /*, of all documents below it
	Scopes    []string  `json:"scopes"` // that they may request, including openid
	APIs      []string  `json:"apis"`   // URIs of the APIs that they may use
	CreatedAt time.Time `json:"created_at"`
	Managed   bool      `json:"-"` // made by an apply, which may remove it
}

// Check validates the allowance. The error is a *RegistrationError.
func (a *Allowance) Check() error {
	base, prefix := strings.CutSuffix(a.URL, "*")
	err := checkDocumentURL(base)
	if err == nil && prefix && (!strings.HasSuffix(base, "/") || strings.Contains(base, "?")) {
		err = errors.New("a prefix ends in /*, such as https://agents.example.org/clients/*")
	}
	if err == nil && strings.Contains(base, "*") {
		err = errors.New("only one * is possible, at the end")
	}
	if err != nil {
		return &RegistrationError{"url", a.URL, err.Error()}
	}
	return (&Client{Scopes: a.Scopes}).checkScopes()
}

// admits reports whether the allowance permits the client with this id.
func (a *Allowance) admits(id string) bool {
	if prefix, ok := strings.CutSuffix(a.URL, "*"); ok {
		return strings.HasPrefix(id, prefix) && len(id) > len(prefix) && !strings.Contains(id, "?")
	}
	return a.URL == id
}

// AllowanceOf returns the allowance that admits the client with this id: the one with its URL,
// else the longest prefix.
func AllowanceOf(all []Allowance, id string) (best Allowance, ok bool) {
	covered := func(a Allowance) int { return len(strings.TrimSuffix(a.URL, "*")) }
	for _, a := range all {
		if a.admits(id) && covered(a) > covered(best) {
			best, ok = a, true
		}
	}
	return best, ok
}

// checkDocumentURL checks a client id by section 3 of the draft.
func checkDocumentURL(raw string) error {
	u, err := checkURI("URL of a client", raw, "\\<>\"{}|^`")
	switch {
	case err != nil:
		return err
	case len(raw) > account.MaxClientID:
		return fmt.Errorf("the URL of a client has at most %d characters", account.MaxClientID)
	case !strings.HasPrefix(raw, "https://"):
		return errors.New("the URL of a client begins with https://")
	case u.Path == "":
		return errors.New("the URL of a client has a path, such as https://agent.example.org/client.json")
	case strings.Contains(u.Path, "\\"):
		return errors.New("the URL of a client has no backslash in its path")
	case u.Hostname() == "" || u.Hostname() != strings.ToLower(u.Hostname()):
		return errors.New("the URL of a client names a host, in lower case")
	case slices.ContainsFunc(strings.Split(u.Path, "/"), func(s string) bool { return s == "." || s == ".." }):
		return errors.New("the URL of a client has no . or .. in its path")
	}
	return nil
}

// checkDocument refuses settings that a client with its own description must not have.
func (c *Client) checkDocument() error {
	switch {
	case checkDocumentURL(c.ID) != nil:
		return &RegistrationError{"client_id", c.ID, checkDocumentURL(c.ID).Error()}
	case c.AuthMethod != AuthNone && c.AuthMethod != AuthJWT:
		return &RegistrationError{"token_endpoint_auth_method", c.AuthMethod,
			"a client that brings its own description has none or private_key_jwt"}
	case c.Trusted || c.ClientCredentials || c.DeviceGrant || !c.RequirePKCE,
		c.BackchannelLogoutURI != "" || c.AllowInsecureRedirect:
		return &RegistrationError{"client_id", c.ID, "a client that brings its own description is not changed here: " +
			"cairn client allow says what it may do"}
	}
	return nil
}

type documentError struct {
	text   string
	unread bool // temporary failure
}

// Error implements error.
func (e *documentError) Error() string { return e.text }

// Is makes a wrong document an unknown client.
func (e *documentError) Is(target error) bool {
	if e.unread {
		return target == account.ErrUnavailable
	}
	return target == ErrClientNotFound
}

func badDocument(format string, args ...any) error {
	return &documentError{text: fmt.Sprintf(format, args...)}
}

type documents struct {
	http  *http.Client
	now   func() time.Time
	log   *slog.Logger
	slots chan struct{}
	cache *web.Cache[*keptDocument]

	mu   sync.Mutex
	kept map[string]*keptDocument // the content of the cache
}

// keptDocument is a client, or why its document is unusable.
type keptDocument struct {
	client         *Client
	err            error
	fetched, until time.Time
}

// newDocuments makes the cache. roots is for tests only: servers with these certificates may have
// private addresses.
func newDocuments(now func() time.Time, log *slog.Logger, roots *x509.CertPool) *documents {
	control := refusePrivate
	if roots != nil {
		control = nil
	}
	d := &documents{
		http: newGuardedClient(documentTimeout, control, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}),
		now:  now, log: log, slots: make(chan struct{}, documentsAtOnce), kept: map[string]*keptDocument{},
	}
	d.cache = web.NewCache(maxDocumentAge, now, d.load)
	return d
}

// documentClient returns the client whose id is the URL of its description.
func (rs *rules) documentClient(ctx context.Context, id string) (*Client, error) {
	all, err := rs.allowances.GetFresh(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("read allowances: %w", err)
	}
	allowed, ok := AllowanceOf(all, id)
	if !ok || checkDocumentURL(id) != nil {
		return nil, ErrClientNotFound
	}
	valid := func(k *keptDocument) bool { return rs.clock().Before(k.until) }
	kept, err := rs.documents.cache.GetValid(ctx, id, valid)
	if err != nil {
		return nil, err
	}
	if kept.err != nil {
		return nil, kept.err
	}
	c := *kept.client
	c.Scopes, c.APIs = allowed.Scopes, allowed.APIs
	return &c, nil
}

// CheckDocument fetches the description at an allowed URL and returns what is wrong with it.
// roots is nil except in tests.
func CheckDocument(ctx context.Context, id string, now func() time.Time, roots *x509.CertPool) error {
	_, _, err := newDocuments(now, slog.New(slog.DiscardHandler), roots).fetch(ctx, id)
	return err
}

// load fetches a document. After a temporary failure it keeps a document that is less than a day
// old.
func (d *documents) load(ctx context.Context, id string) (*keptDocument, error) {
	c, age, err := d.fetch(ctx, id)
	now := d.now()
	k := &keptDocument{client: c, err: err, fetched: now, until: now.Add(age)}
	if err != nil {
		d.log.InfoContext(ctx, "client document not used", "client_id", id, "error", err)
		k.until = now.Add(documentFailureAge)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.kept[id]
	usable := old != nil && old.err == nil && k.until.Before(old.fetched.Add(maxDocumentAge))
	if errors.Is(err, account.ErrUnavailable) && usable {
		k.client, k.err, k.fetched = old.client, nil, old.fetched
	}
	d.kept[id] = k
	if len(d.kept) > MaxDocuments {
		first := ""
		for other, o := range d.kept {
			if other != id && (first == "" || o.until.Before(d.kept[first].until)) {
				first = other
			}
		}
		delete(d.kept, first)
		d.cache.Drop(first)
	}
	return k, nil
}

// fetch returns the client that a document describes, and how long to cache it.
func (d *documents) fetch(ctx context.Context, id string) (*Client, time.Duration, error) {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return nil, 0, &documentError{"Too many descriptions are being fetched.", true}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return nil, 0, badDocument("Its URL cannot be requested.")
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "cairn")
	answer, err := d.http.Do(r)
	if errors.Is(err, errPrivateAddress) {
		return nil, 0, badDocument("Its host has an address of a private network or of this machine, " +
			"and nothing is fetched from there.")
	}
	if err != nil {
		return nil, 0, &documentError{fmt.Sprintf("Its description could not be fetched: %s.", withoutURL(err)), true}
	}
	defer func() { _ = answer.Body.Close() }()
	switch code := answer.StatusCode; {
	case code >= 300 && code < 400:
		return nil, 0, badDocument("Its URL answers with a redirect, which is not followed: " +
			"the description has to be at the URL itself.")
	case code != http.StatusOK:
		unread := code >= 500 || code == http.StatusTooManyRequests
		return nil, 0, &documentError{fmt.Sprintf("Its URL answers %d instead of 200.", code), unread}
	}
	contentType := answer.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(contentType)
	isJSON := kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
	if err != nil || !isJSON {
		return nil, 0, badDocument("Its description has the Content-Type %q: application/json is needed.",
			clip(contentType))
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	if err != nil {
		return nil, 0, &documentError{"Its description broke off.", true}
	}
	if len(body) > maxDocument {
		return nil, 0, badDocument("Its description is larger than 5 KiB.")
	}
	c, err := readDocument(id, body, d.now())
	return c, documentAge(answer.Header.Values("Cache-Control")), err
}

// withoutURL returns an error of a request without its URL.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// documentAge returns how long to cache a document (RFC 9111 section 5.2.2), within the limits.
func documentAge(header []string) time.Duration {
	age := time.Duration(0)
	for directive := range strings.SplitSeq(strings.Join(header, ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			return minDocumentAge
		case "max-age":
			if n, err := strconv.ParseInt(strings.Trim(value, `"`), 10, 32); err == nil {
				age = time.Duration(n) * time.Second
			}
		}
	}
	return min(max(age, minDocumentAge), maxDocumentAge)
}

// readDocument returns the client that a document describes. Members that the operator decides
// (scope, grant_types, logo_uri) are ignored.
func readDocument(id string, body []byte, now time.Time) (*Client, error) {
	var doc struct {
		ClientID     string         `json:"client_id"`
		Name         string         `json:"client_name"`
		RedirectURIs []string       `json:"redirect_uris"`
		Method       string         `json:"token_endpoint_auth_method"`
		JWKS         jsontext.Value `json:"jwks"`
		JWKSURI      string         `json:"jwks_uri"`
		Secret       jsontext.Value `json:"client_secret"`
		SecretEnds   jsontext.Value `json:"client_secret_expires_at"`
		DPoPBound    bool           `json:"dpop_bound_access_tokens"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, badDocument("Its description is not a JSON object with the members of RFC 7591.")
	}
	method := cmp.Or(doc.Method, AuthNone)
	switch {
	case doc.ClientID != id:
		return nil, badDocument("The client_id in its description is not its URL.")
	case doc.Secret != nil || doc.SecretEnds != nil:
		return nil, badDocument("Its description has a client_secret, which everybody can read.")
	case method != AuthNone && method != AuthJWT:
		return nil, badDocument("token_endpoint_auth_method in its description is %q: it is none or private_key_jwt.",
			clip(method))
	case method == AuthJWT && doc.JWKS == nil && doc.JWKSURI != "":
		return nil, badDocument("Its description names its keys by jwks_uri, which is not fetched: " +
			"they have to be in it, as jwks.")
	}
	c := &Client{
		ID: id, Name: documentName(id, doc.Name), Document: true, RedirectURIs: doc.RedirectURIs,
		Scopes: []string{"openid"}, AuthMethod: method, RequirePKCE: true, DPoPBound: doc.DPoPBound,
		IDTokenClaims: true, CreatedAt: now.UTC().Truncate(time.Second),
	}
	if method == AuthJWT {
		var err error
		if c.JWKS, err = CheckClientKeys(doc.JWKS); err != nil {
			return nil, badDocument("jwks in its description: %s.", err)
		}
	}
	c.Normalize()
	// Programs list what each of their hosts takes. The client gets those that are possible here.
	unusable := func(uri string) bool { return CheckRedirectURI(uri, false) != nil }
	if usable := slices.DeleteFunc(slices.Clone(c.RedirectURIs), unusable); len(usable) > 0 {
		c.RedirectURIs = usable
	}
	slices.Sort(c.RedirectURIs)
	if err := c.Check(); err != nil {
		return nil, badDocument("Its description: %s.", err)
	}
	return c, nil
}

// maxClientName is the limit of account.CheckDisplayName.
const maxClientName = 60

// documentName returns a name that begins with the host, because nobody has checked the client's
// own choice.
func documentName(id, name string) string {
	host := documentHost(id)
	full := host + ": " + name
	checked, err := account.CheckDisplayName(name)
	if err == nil && len([]rune(full)) <= maxClientName && checked == name {
		return full
	}
	if len(host) > maxClientName {
		host = "..." + host[len(host)-maxClientName+3:] // the end of a host name identifies its owner
	}
	return host
}

// documentHost returns the host of a client id that is a URL.
func documentHost(id string) string {
	u, err := url.Parse(id)
	if err != nil {
		return ""
	}
	return u.Host
}

// staysHere reports whether an answer goes to a program on the user's own device.
func staysHere(redirectURI string) bool {
	u, err := url.Parse(redirectURI)
	if err != nil || u.Scheme != "https" {
		return true
	}
	return u.Hostname() == "localhost" // CheckRedirectURI refuses https to a loopback address
}

// keepDocument stores a client with its own description before rows refer to it.
func (p *Provider) keepDocument(ctx context.Context, c *Client) error {
	if !c.Document {
		return nil
	}
	return p.storage.KeepDocumentClient(ctx, c)
}
