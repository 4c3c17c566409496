package provider

import (
	"context"
	"errors"
	"net/http"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account/web"
)

// heldToken is a genuine access or refresh token of one client.
type heldToken struct {
	grant   fosite.Requester
	session *GrantSession
	refresh bool
	revoked bool // taken back, or rotated
}

// ofUser tells whether a person stands behind the token; one from the
// client_credentials grant has none.
func (t *heldToken) ofUser() bool { return t.session.Subject != "" }

// findToken finds the client's own token of either kind, also one that has
// expired or was revoked; nil when it is nobody's or another client's. hint is a
// token_type_hint and only says where to look first.
func (p *Provider) findToken(ctx context.Context, c *Client, token, hint string) (*heldToken, error) {
	signature := p.tokens.AccessTokenSignature(ctx, token)
	if signature == "" {
		return nil, nil
	}
	t := &heldToken{refresh: hint == "refresh_token"}
	for range 2 {
		var err error
		if t.refresh {
			t.grant, err = p.storage.GetRefreshTokenSession(ctx, signature, nil)
		} else {
			t.grant, err = p.storage.GetAccessTokenSession(ctx, signature, nil)
		}
		switch {
		case errors.Is(err, fosite.ErrNotFound):
			t.refresh = !t.refresh
			continue
		case errors.Is(err, fosite.ErrInactiveToken):
			t.revoked = true
		case err != nil:
			return nil, err
		}
		session, ok := t.grant.GetSession().(*GrantSession)
		if !ok {
			return nil, errors.New("the store returned a session of another type")
		}
		if t.grant.GetClient().GetID() != c.ID {
			return nil, nil
		}
		t.session = session
		return t, nil
	}
	return nil, nil
}

// revoke is the revocation endpoint (RFC 7009). Either token of a grant ends
// the grant. A token that is not the client's own, or not one at all, is
// answered like one that was revoked.
func (p *Provider) revoke(w http.ResponseWriter, r *http.Request) {
	if !p.readClientRequest(w, r) {
		return
	}
	c := p.authenticated(w, r)
	if c == nil {
		return
	}
	token := r.PostForm.Get("token")
	if token == "" {
		p.oauthError(w, r, http.StatusBadRequest, "invalid_request")
		return
	}
	ctx := r.Context()
	t, err := p.findToken(ctx, c, token, r.PostForm.Get("token_type_hint"))
	switch {
	case err != nil:
	case t == nil:
		web.Note(ctx, "revoke_unknown")
	default:
		web.Note(ctx, "revoked")
		err = p.storage.RevokeGrant(ctx, t.grant.GetID(), p.now())
	}
	if err != nil {
		p.tokenError(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
	w.WriteHeader(http.StatusOK)
}
