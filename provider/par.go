package provider

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

const (
	requestURIPrefix = "urn:ietf:params:oauth:request_uri:"
	// PushedRequestLifetime is how long a pushed request waits for the browser.
	PushedRequestLifetime = time.Minute
)

// pushedParameters are what is kept of a pushed request; everything else is
// dropped, client authentication above all.
var pushedParameters = []string{
	"response_type", "redirect_uri", "scope", "state", "nonce", "response_mode", "code_challenge", "code_challenge_method", "prompt", "max_age",
	"login_hint", "id_token_hint", "acr_values", "claims", "display", "ui_locales", "claims_locales", "dpop_jkt",
}

// pushRequest is the pushed authorization request endpoint (RFC 9126). It
// judges a request like the authorization endpoint and answers a wrong one at once.
func (p *Provider) pushRequest(w http.ResponseWriter, r *http.Request, c *Client) error {
	for _, name := range []string{"request", "request_uri", "registration"} {
		// RFC 9126 section 2.1; the others would be dropped without a word.
		if r.PostForm.Has(name) {
			return errInvalidRequest
		}
	}
	form := url.Values{"client_id": {c.ID}}
	for _, name := range pushedParameters {
		if v := r.PostForm.Get(name); v != "" {
			form.Set(name, v)
		}
	}
	if named := r.PostForm["resource"]; len(named) > 0 {
		form["resource"] = named
	}
	if err := p.provePushed(w, r, c, form); err != nil {
		return err
	}
	reference := randomText(32)
	req := &authorization{form: form, arrived: p.now(), pushed: hashReference(reference)}
	if err := p.proveClient(r.Context(), req); err != nil {
		// What would be an error page at the authorization endpoint.
		if problem := (*web.Problem)(nil); errors.As(err, &problem) {
			return errInvalidRequest.with(problem.Status)
		}
		return err
	}
	if _, faults := checkRequest(req); len(faults) > 0 {
		return faults[0].err
	}
	if err := p.keepDocument(r.Context(), c); err != nil {
		return fmt.Errorf("keep client: %w", err)
	}
	if err := p.storage.SavePushedRequest(r.Context(), req.pushed, c.ID, form.Encode(), p.now().Add(PushedRequestLifetime)); err != nil {
		return fmt.Errorf("keep pushed request: %w", err)
	}
	web.Note(r.Context(), "pushed")
	p.writeOAuth(w, r, http.StatusCreated, map[string]any{
		"request_uri": requestURIPrefix + reference, "expires_in": int(PushedRequestLifetime / time.Second),
	})
	return nil
}

func hashReference(reference string) []byte {
	h := sha256.Sum256([]byte(reference))
	return h[:]
}

var errPushedGone = web.NewProblem(http.StatusBadRequest, "expired_request", "This request to sign in was used already or took too long. Go back to the application and start again.")

// openPushed puts a pushed request in the place of its reference. What the
// browser brings beside client_id and request_uri (clients repeat response_type and
// scope there, as OpenID Connect Core section 6 asks) is dropped: only what the client
// pushed counts (RFC 9101 section 5). It may be opened again until it is answered: browsers load pages
// twice, and a user who comes back to the page has done nothing wrong.
func (p *Provider) openPushed(ctx context.Context, req *authorization) error {
	reference, ok := strings.CutPrefix(req.form.Get("request_uri"), requestURIPrefix)
	if !ok || req.returned || req.duplicate != "" || !req.form.Has("client_id") {
		return nil
	}
	id := req.form.Get("client_id")
	if len(reference) > 128 || !plausibleClientID(id) {
		return errPushedGone
	}
	hash := hashReference(reference)
	query, err := p.storage.PushedRequest(ctx, hash, id, p.now())
	if errors.Is(err, ErrNotFound) {
		return errPushedGone
	}
	if err != nil {
		return fmt.Errorf("find pushed request: %w", err)
	}
	req.pushed = hash
	if req.form, err = url.ParseQuery(query); err != nil {
		return fmt.Errorf("read pushed request: %w", err)
	}
	return nil
}

// spendPushed lets a pushed request be answered once. It is remembered for longer than any page of it can be
// gone on from.
func (p *Provider) spendPushed(ctx context.Context, req *authorization) error {
	if req.pushed == nil {
		return nil
	}
	err := p.storage.SpendAssertion(ctx, "request_uri "+req.client.ID, string(req.pushed), p.now().Add(time.Hour))
	if errors.Is(err, ErrSpent) {
		return errPushedGone
	}
	return err
}
