package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// token is the token endpoint (RFC 6749 section 3.2). The order: size, form,
// duplicates, grant type, client, grant, user, scope, tokens.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	ctx := WithRequestCache(r.Context())
	r = r.WithContext(ctx)
	if !p.readClientRequest(w, r) {
		return
	}
	switch r.PostForm.Get("grant_type") {
	case "authorization_code", "refresh_token", "client_credentials":
	case "":
		p.oauthError(w, r, http.StatusBadRequest, "invalid_request")
		return
	default:
		p.oauthError(w, r, http.StatusBadRequest, "unsupported_grant_type")
		return
	}
	access, err := p.fosite.NewAccessRequest(ctx, r, &GrantSession{})
	if err != nil {
		p.tokenError(w, r, err)
		return
	}
	if !isClientCredentials(access) {
		user, err := p.stillAllowed(ctx, access)
		if err != nil {
			p.tokenError(w, r, err)
			return
		}
		ctx = withActiveUser(ctx, user)
	}
	// fosite ignores scope at a refresh (RFC 6749 section 6: never more than granted).
	if scope := r.PostForm.Get("scope"); scope != "" && access.GetGrantTypes().ExactOne("refresh_token") {
		if slices.ContainsFunc(strings.Fields(scope), func(s string) bool { return !access.GetGrantedScopes().Has(s) }) {
			p.oauthError(w, r, http.StatusBadRequest, "invalid_scope")
			return
		}
	}
	resp, err := p.fosite.NewAccessResponse(ctx, access)
	if err != nil {
		p.tokenError(w, r, err)
		return
	}
	resp.SetExpiresIn(AccessTokenLifetime) // fosite's is a second short
	resp.SetTokenType("Bearer")
	web.Note(ctx, "token_"+access.GetGrantTypes()[0])
	p.writeOAuth(w, r, http.StatusOK, resp.ToMap())
}

// errUserGone means that the person behind a grant may no longer come in.
var errUserGone = errors.New("user of the grant suspended, deleted or without the required flag")

// stillAllowed checks the person behind the grant at every use.
func (p *Provider) stillAllowed(ctx context.Context, access fosite.AccessRequester) (account.User, error) {
	u, err := p.accounts.ActiveUser(ctx, access.GetSession().GetSubject())
	if errors.Is(err, account.ErrUserNotFound) || errors.Is(err, account.ErrSuspended) {
		if err := p.storage.RevokeGrant(ctx, access.GetID(), p.now()); err != nil {
			return account.User{}, fmt.Errorf("revoke grant: %w", err)
		}
		return account.User{}, errUserGone
	}
	if err != nil {
		return account.User{}, err
	}
	if c, ok := access.GetClient().(*Client); ok && c.RequireFlag != "" && !u.Has(c.RequireFlag) {
		return account.User{}, errUserGone
	}
	return u, nil
}

// tokenError maps what fosite and the store say to RFC 6749 section 5.2.
func (p *Provider) tokenError(w http.ResponseWriter, r *http.Request, err error) {
	if c := CacheFrom(r.Context()); c != nil && c.revocation != nil {
		err = c.revocation // whatever fosite makes of it
	}
	defer noteReuse(r.Context(), r.PostForm.Get("grant_type"))
	e := fosite.ErrorToRFC6749Error(err)
	refresh := r.PostForm.Get("grant_type") == "refresh_token" && r.PostForm.Get("refresh_token") != ""
	switch {
	case web.Abandoned(r, err):
		p.accounts.Fail(w, r, err)
	case errors.Is(err, account.ErrUnavailable), errors.Is(err, fosite.ErrSerializationFailure):
		p.log.ErrorContext(r.Context(), "token request failed", "error", err, "request_id", web.RequestID(r.Context()))
		w.Header().Set("Retry-After", "2")
		p.oauthError(w, r, http.StatusServiceUnavailable, "temporarily_unavailable")
	case errors.Is(err, context.DeadlineExceeded):
		w.Header().Set("Retry-After", "2")
		p.oauthError(w, r, http.StatusServiceUnavailable, "temporarily_unavailable")
	case errors.Is(err, errUserGone), errors.Is(err, fosite.ErrInvalidatedAuthorizeCode):
		p.oauthError(w, r, http.StatusBadRequest, "invalid_grant")
	case errors.Is(err, fosite.ErrInvalidClient):
		w.Header().Set("WWW-Authenticate", `Basic realm="token"`)
		p.oauthError(w, r, http.StatusUnauthorized, "invalid_client")
	case errors.Is(err, fosite.ErrInvalidRequest) && refresh, errors.Is(err, fosite.ErrScopeNotGranted), errors.Is(err, fosite.ErrInvalidTokenFormat), errors.Is(err, fosite.ErrTokenSignatureMismatch), errors.Is(err, fosite.ErrTokenExpired):
		// A refresh that lost the race, or a token that is none.
		p.oauthError(w, r, http.StatusBadRequest, "invalid_grant")
	case e.CodeField < http.StatusInternalServerError && slices.Contains([]string{"invalid_request", "invalid_grant", "unauthorized_client", "invalid_scope"}, e.ErrorField):
		p.oauthError(w, r, http.StatusBadRequest, e.ErrorField)
	default:
		p.log.ErrorContext(r.Context(), "token request failed", "error", err, "request_id", web.RequestID(r.Context()))
		p.oauthError(w, r, http.StatusInternalServerError, "server_error")
	}
}

func (p *Provider) oauthError(w http.ResponseWriter, r *http.Request, status int, name string) {
	web.Note(r.Context(), path.Base(r.URL.Path)+"_"+name)
	p.writeOAuth(w, r, status, map[string]any{"error": name, "error_description": descriptions[name]})
}

func (p *Provider) writeOAuth(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		p.log.ErrorContext(r.Context(), "answer not written", "error", err)
		status, body = http.StatusInternalServerError, []byte(`{"error":"server_error"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Pragma", "no-cache")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
