package provider

import (
	"context"
	"slices"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/oauth2"
)

// clientCredentials is the client_credentials grant (RFC 6749 section 4.4), for
// confidential clients that are registered for it: an access token without a
// person. It implements fosite.TokenEndpointHandler in place of fosite's, which
// says unauthorized_client only after it has judged the scope.
type clientCredentials struct {
	tokens  oauth2.AccessTokenStrategy
	storage oauth2.AccessTokenStorage
	now     func() time.Time
}

var _ fosite.TokenEndpointHandler = clientCredentials{}

// CanSkipClientAuth implements fosite.TokenEndpointHandler.
func (clientCredentials) CanSkipClientAuth(context.Context, fosite.AccessRequester) bool {
	return false
}

// CanHandleTokenEndpointRequest implements fosite.TokenEndpointHandler.
func (clientCredentials) CanHandleTokenEndpointRequest(_ context.Context, r fosite.AccessRequester) bool {
	return isClientCredentials(r)
}

func isClientCredentials(r fosite.AccessRequester) bool {
	return r.GetGrantTypes().ExactOne("client_credentials")
}

// HandleTokenEndpointRequest implements fosite.TokenEndpointHandler. Without a
// scope parameter no scope is granted.
func (h clientCredentials) HandleTokenEndpointRequest(_ context.Context, r fosite.AccessRequester) error {
	c, ok := r.GetClient().(*Client)
	if !ok || !c.GetGrantTypes().Has("client_credentials") {
		return fosite.ErrUnauthorizedClient
	}
	for _, s := range r.GetRequestedScopes() {
		// These two are about a person.
		if s == "openid" || s == "offline_access" || !slices.Contains(c.Scopes, s) {
			return fosite.ErrInvalidScope
		}
		r.GrantScope(s)
	}
	r.GetSession().SetExpiresAt(fosite.AccessToken, h.now().Add(AccessTokenLifetime))
	return nil
}

// PopulateTokenEndpointResponse implements fosite.TokenEndpointHandler.
func (h clientCredentials) PopulateTokenEndpointResponse(ctx context.Context, r fosite.AccessRequester, resp fosite.AccessResponder) error {
	if !isClientCredentials(r) {
		return fosite.ErrUnknownRequest
	}
	token, signature, err := h.tokens.GenerateAccessToken(ctx, r)
	if err != nil {
		return err
	}
	if err := h.storage.CreateAccessTokenSession(ctx, signature, r.Sanitize(nil)); err != nil {
		return err
	}
	resp.SetAccessToken(token)
	resp.SetTokenType("Bearer")
	if granted := r.GetGrantedScopes(); len(granted) > 0 {
		resp.SetScopes(granted)
	}
	return nil
}
