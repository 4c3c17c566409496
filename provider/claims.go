package provider

import (
	"slices"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/account"
)

// claimsOf are the claims that the granted scopes give of a user (OpenID
// Connect Core section 5.4), without sub. Empty values are left out.
func claimsOf(u account.User, scopes fosite.Arguments) map[string]any {
	c := map[string]any{}
	if scopes.Has("profile") {
		c["name"] = u.DisplayName
		c["preferred_username"] = u.Handle
		if !u.UpdatedAt.IsZero() {
			c["updated_at"] = u.UpdatedAt.Unix()
		}
	}
	if scopes.Has("email") && u.Email != "" {
		c["email"] = u.Email
		c["email_verified"] = u.EmailVerified
	}
	if scopes.Has("groups") {
		c["groups"] = append([]string{}, u.Flags...)
	}
	return c
}

// claimsSupported is what discovery lists.
var claimsSupported = []string{
	"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "at_hash", "jti", "sid",
	"name", "preferred_username", "updated_at", "email", "email_verified", "groups",
}

// knownScopes keeps those of the requested scopes that exist and that the
// client may have; others are ignored (OpenID Connect Core section 3.1.2.1).
func knownScopes(requested []string, c *Client) []string {
	var out []string
	for _, s := range requested {
		if slices.Contains(Scopes, s) && slices.Contains(c.Scopes, s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
