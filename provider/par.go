package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

const (
	requestURIPrefix = "urn:ietf:params:oauth:request_uri:"
	// pushedRequestLifetime is how long a pushed request may wait for the browser.
	pushedRequestLifetime = time.Minute
)

// pushedParameters lists the parameters that are stored of a pushed request. Others are dropped,
// above all client authentication.
var pushedParameters = []string{
	"response_type", "redirect_uri", "scope", "state", "nonce", "response_mode", "code_challenge",
	"code_challenge_method", "prompt", "max_age", "login_hint", "id_token_hint", "acr_values", "claims", "display",
	"ui_locales", "claims_locales", "dpop_jkt",
}

// pushRequest is the pushed authorization request endpoint (RFC 9126). It checks a request like
// the authorization endpoint and refuses a wrong one at once.
func (p *Provider) pushRequest(w http.ResponseWriter, r *http.Request, c *Client) error {
	for _, name := range []string{"request", "request_uri", "registration"} {
		// request_uri: RFC 9126 section 2.1. The others would be dropped silently.
		if r.PostForm.Has(name) {
			return errInvalidRequest.about(unsupported, name, "It cannot be pushed.")
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
	req := &authorization{form: form, arrived: p.now(), pushed: account.HashSecret(reference)}
	if err := p.proveClient(r.Context(), req); err != nil {
		// The authorization endpoint would show an error page.
		if bad, ok := errors.AsType[*unproven](err); ok {
			return bad.err
		}
		return err
	}
	q, faults := checkRequest(req)
	if len(faults) > 0 {
		return faults[0].err
	}
	if err := p.canSign(req, q.access); err != nil {
		return err
	}
	if err := p.keepDocument(r.Context(), c); err != nil {
		return fmt.Errorf("keep client: %w", err)
	}
	expires := p.now().Add(pushedRequestLifetime)
	if err := p.storage.SavePushedRequest(r.Context(), req.pushed, c.ID, form.Encode(), expires); err != nil {
		return fmt.Errorf("keep pushed request: %w", err)
	}
	web.Note(r.Context(), "pushed")
	p.writeOAuth(w, r, http.StatusCreated, map[string]any{
		"request_uri": requestURIPrefix + reference, "expires_in": int(pushedRequestLifetime / time.Second),
	})
	return nil
}

var errPushedGone = web.NewProblem(http.StatusBadRequest, "expired_request",
	"This sign-in was already used or took too long. Go back to the application and start again.")

// pushedGone is errPushedGone for a known client: its page leads back to the application.
type pushedGone struct{ client *Client }

func (*pushedGone) Error() string { return errPushedGone.Error() }
func (*pushedGone) Unwrap() error { return errPushedGone }

// openPushed replaces the reference by the pushed request. Other parameters in the URL are
// dropped (clients repeat response_type and scope there, as OpenID Connect Core section 6
// requires): only the pushed ones count (RFC 9101 section 5). A request may be opened repeatedly
// until it is answered, because browsers reload pages and users go back.
func (rs *rules) openPushed(ctx context.Context, req *authorization) error {
	reference, ok := strings.CutPrefix(req.form.Get("request_uri"), requestURIPrefix)
	if !ok || req.duplicate != "" || !req.form.Has("client_id") {
		return nil
	}
	id := req.form.Get("client_id")
	hash := account.HashSecret(reference)
	query, err := rs.storage.PushedRequest(ctx, hash, id, rs.now())
	if errors.Is(err, ErrNotFound) {
		if c, err := rs.client(ctx, id); err == nil {
			return &pushedGone{c}
		}
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

// spendPushed lets a pushed request be answered once. It is remembered for longer than any of its
// pages can be continued.
func (p *Provider) spendPushed(ctx context.Context, req *authorization) error {
	if req.pushed == nil {
		return nil
	}
	err := p.storage.SpendAssertion(ctx, "request_uri "+req.client.ID, string(req.pushed), p.now().Add(time.Hour))
	if errors.Is(err, ErrSpent) {
		return &pushedGone{req.client}
	}
	return err
}
