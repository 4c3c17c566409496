package provider

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
)

// clientTTL is how long a change by another process (the command line) may go
// unseen.
const clientTTL = 5 * time.Second

// clientCache is the fosite.Storage of the provider: clients are read at most
// once in clientTTL. Unknown ids are not kept: a client that was just added
// works at once, and strangers cannot fill the cache.
type clientCache struct {
	fosite.ClientManager
	now  func() time.Time
	mu   sync.RWMutex
	byID map[string]cachedClient
}

type cachedClient struct {
	client fosite.Client
	until  time.Time
}

func newClientCache(m fosite.ClientManager, now func() time.Time) *clientCache {
	return &clientCache{ClientManager: m, now: now, byID: map[string]cachedClient{}}
}

// provenKey carries the client of an authorization request.
type provenKey struct{}

// withProven lets fosite find a client whose only redirect URI is the one that
// was proven to be its own: fosite's comparison knows no port of localhost.
func withProven(ctx context.Context, c *Client, redirectURI string) context.Context {
	proven := *c
	proven.RedirectURIs = []string{redirectURI}
	return context.WithValue(ctx, provenKey{}, &proven)
}

// GetClient implements fosite.ClientManager.
func (c *clientCache) GetClient(ctx context.Context, id string) (fosite.Client, error) {
	if proven, ok := ctx.Value(provenKey{}).(*Client); ok && proven.ID == id {
		return proven, nil
	}
	if !plausibleClientID(id) {
		return nil, fosite.ErrNotFound
	}
	c.mu.RLock()
	hit, ok := c.byID[id]
	c.mu.RUnlock()
	if ok && c.now().Before(hit.until) {
		return hit.client, nil
	}
	client, err := c.ClientManager.GetClient(ctx, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if errors.Is(err, fosite.ErrNotFound) {
			delete(c.byID, id)
		}
		return nil, err
	}
	c.byID[id] = cachedClient{client, c.now().Add(clientTTL)}
	return client, nil
}

// plausibleClientID spares the database what cannot be an id (RFC 6749
// appendix A.1: printable ASCII).
func plausibleClientID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		if id[i] < 0x20 || id[i] > 0x7e {
			return false
		}
	}
	return true
}

// HashSecret is how a generated client secret is stored. 256 random bits need
// no slow hash, and a slow one would be a lever for strangers at the token endpoint.
func HashSecret(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}

// secretHasher implements fosite.Hasher for generated secrets.
type secretHasher struct{}

var errSecret = errors.New("client secret does not match")

// Compare never matches an empty secret or an empty hash.
func (secretHasher) Compare(_ context.Context, hash, data []byte) error {
	got := sha256.Sum256(data)
	if len(hash) != len(got) || len(data) == 0 || subtle.ConstantTimeCompare(hash, got[:]) != 1 {
		return errSecret
	}
	return nil
}

func (secretHasher) Hash(_ context.Context, data []byte) ([]byte, error) {
	return HashSecret(string(data)), nil
}

// authenticateClient is the fosite.ClientAuthenticationStrategy: basic or post
// for confidential clients unless registered for one of them, a signed assertion
// for those with private_key_jwt, an id alone for public ones (RFC 6749 section 2.3). Never
// more than one method at once.
func (p *Provider) authenticateClient(ctx context.Context, r *http.Request, form url.Values) (fosite.Client, error) {
	if form.Get("client_assertion") != "" || form.Get("client_assertion_type") != "" {
		c, err := p.authenticateAssertion(ctx, r, form)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	id, secret, method, err := presentedCredentials(r, form)
	if err != nil {
		return nil, err
	}
	found, err := p.clients.GetClient(ctx, id)
	if err != nil {
		if errors.Is(err, account.ErrUnavailable) {
			return nil, err
		}
		return nil, fosite.ErrInvalidClient.WithWrap(err)
	}
	c, ok := found.(*Client)
	if !ok {
		return nil, fosite.ErrServerError.WithDebug("the store returned a client of another type")
	}
	if c.IsPublic() {
		// x/oauth2 sends Basic with an empty secret while it probes.
		if secret != "" {
			return nil, fosite.ErrInvalidClient
		}
		return c, nil
	}
	if method == AuthNone || c.AuthMethod != AuthAny && c.AuthMethod != method {
		return nil, fosite.ErrInvalidClient
	}
	now := p.clock()
	for _, s := range c.Secrets {
		if !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt) {
			continue
		}
		if (secretHasher{}).Compare(ctx, s.Hash, []byte(secret)) == nil {
			return c, nil
		}
	}
	return nil, fosite.ErrInvalidClient
}

// presentedCredentials reads what the request claims. The id and secret of
// Basic are form-urlencoded (RFC 6749 section 2.3.1).
func presentedCredentials(r *http.Request, form url.Values) (id, secret, method string, err error) {
	header := r.Header.Values("Authorization")
	if len(header) == 0 {
		if form.Get("client_secret") == "" {
			return form.Get("client_id"), "", AuthNone, nil
		}
		return form.Get("client_id"), form.Get("client_secret"), AuthPost, nil
	}
	user, pass, ok := r.BasicAuth()
	if len(header) > 1 || !ok {
		return "", "", "", fosite.ErrInvalidClient
	}
	id, idErr := url.QueryUnescape(user)
	secret, secretErr := url.QueryUnescape(pass)
	if idErr != nil || secretErr != nil || form.Has("client_secret") && secret != "" {
		return "", "", "", fosite.ErrInvalidClient
	}
	if other := form.Get("client_id"); other != "" && other != id {
		return "", "", "", fosite.ErrInvalidClient
	}
	return id, secret, AuthBasic, nil
}

// secureRedirect: redirect URIs are held to the rules when they are registered
// (redirect.go), and only registered ones get here.
func secureRedirect(context.Context, *url.URL) bool { return true }

// noFetch is an HTTP client that reaches nothing: no request can make the
// provider fetch an address.
func noFetch() *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.RetryMax, c.Logger = 0, nil
	c.HTTPClient = &http.Client{Transport: refuse{}, Timeout: time.Second}
	return c
}

// noKeyFetch stands where fosite would keep a cache of fetched key sets, which
// alone is 650 KB. Nothing of ours reaches it: client keys are inline, and client
// authentication and request objects never get to fosite.
type noKeyFetch struct{ fosite.JWKSFetcherStrategy }

type refuse struct{}

func (refuse) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, errors.New("the provider fetches nothing: " + strings.ToLower(r.Method) + " refused")
}
