package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cairn-id/cairn/account"
)

// acrRequest is what a request says of the class: its claims parameter (OpenID Connect Core
// section 5.5.1.1), or else acr_values.
type acrRequest struct {
	asked     bool
	essential bool     // one of the values must be satisfied
	values    []string // in the order of preference; empty: any class
}

// satisfied tells whether a class is one of those that were asked for.
func (a acrRequest) satisfied(class string) bool {
	return len(a.values) == 0 || slices.ContainsFunc(a.values, func(v string) bool {
		return v != "" && account.SatisfiesACR(class, v)
	})
}

// answer is the class that the application is told: the first that it asked for and that
// the sign-in satisfies, or the one that it is. Who has not asked is told only what is more
// than the password.
func (a acrRequest) answer(class string) string {
	for _, v := range a.values {
		if v != "" && account.SatisfiesACR(class, v) {
			return v
		}
	}
	if a.asked || class != account.ACRPassword {
		return class
	}
	return ""
}

// wantACR notes the classes that the claims parameter asks for.
func (c *claimsRequest) wantACR(essential bool, values []json.RawMessage) error {
	c.acr.asked = true
	for _, raw := range values {
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		var v string
		if json.Unmarshal(raw, &v) != nil {
			return errClaims
		}
		c.acr.values = append(c.acr.values, v)
	}
	c.acr.essential = essential && len(c.acr.values) > 0
	return nil
}

// decideACR holds the sign-in to the class that the operator demands and to those that the
// application asks for; proceed where there is nothing to do. A sign-in of somebody with a
// second factor is always more than a password: one that is no more is from before the
// factor was set up, and another one helps.
func (q authzState) decideACR(silent bool) (verdict, *oauthError) {
	class := q.class()
	again := func() (verdict, *oauthError) {
		switch {
		case silent:
			return refused, errLoginRequired
		case q.signedInSince() && class != account.ACRPassword:
			return refused, errUnmetAuthentication // they have it, and have chosen another factor
		}
		return login, nil
	}
	switch demanded := q.demandedACR(); {
	case account.SatisfiesACR(class, demanded):
	case account.SatisfiesACR(q.reach, demanded):
		return again()
	case silent:
		return refused, errInteractionRequired
	default:
		return setUpFactor, nil
	}
	switch {
	case q.acr.satisfied(class):
	case q.acr.satisfied(q.reach):
		if v, problem := again(); v == login || q.acr.essential {
			return v, problem
		}
	case q.acr.essential:
		return refused, errUnmetAuthentication
	}
	return proceed, nil
}

// class is that of the sign-in, as far as the user still has the factors that it has proven.
func (q authzState) class() string {
	class := account.ACR(q.identity.Session.AMR)
	switch {
	case !q.identity.User.SecondFactor:
		return account.ACRPassword
	case q.looksForPasskey() && class == account.ACRPhishingResistant && q.reach != class:
		return account.ACRTwoFactors
	}
	return class
}

// demandedACR is what the client's registration demands, or the settings for this user.
func (q authzState) demandedACR() string {
	if q.needsFactor && q.client.RequireACR == "" {
		return account.ACRTwoFactors
	}
	return q.client.RequireACR
}

// looksForPasskey tells whether it matters that the user has a passkey.
func (q authzState) looksForPasskey() bool {
	const class = account.ACRPhishingResistant
	return q.client.RequireACR == class || slices.Contains(q.acr.values, class)
}

// reachedBy is the best class that the user can sign in with.
func (q authzState) reachedBy(ctx context.Context, storage Storage, u account.User) (string, error) {
	if !u.SecondFactor {
		return account.ACRPassword, nil
	}
	if q.looksForPasskey() {
		has, err := storage.HasPasskey(ctx, u.Sub)
		if err != nil {
			return "", fmt.Errorf("look for passkeys: %w", err)
		}
		if has {
			return account.ACRPhishingResistant, nil
		}
	}
	return account.ACRTwoFactors, nil
}

// authenticationClaims are those of the sign-in that userinfo has where the claims parameter
// asks for them; ID tokens have the last two always.
func (g *Grant) authenticationClaims(asked []string) map[string]any {
	out := map[string]any{}
	for _, name := range asked {
		switch name {
		case "acr":
			out[name] = g.class()
		case "amr":
			out[name] = g.methods()
		case "auth_time":
			out[name] = g.AuthTime.Unix()
		}
	}
	return out
}

// class is what the application was told, or would have been had it asked.
func (g *Grant) class() string {
	if g.ACR == "" {
		return account.ACR(g.AMR)
	}
	return g.ACR
}

// methods are those of the sign-in; a grant of an earlier version, which knew the
// password alone, has none.
func (g *Grant) methods() []string {
	if len(g.AMR) == 0 {
		return []string{account.MethodPassword}
	}
	return g.AMR
}
