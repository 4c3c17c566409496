package provider

import (
	"encoding/json"
	"slices"

	"github.com/cairn-id/cairn/account"
)

// acrRequest holds the authentication context classes that a request asks for: in its claims
// parameter (OpenID Connect Core section 5.5.1.1), or else in acr_values.
type acrRequest struct {
	requested bool
	essential bool     // one of the values must be satisfied
	values    []string // in the order of preference; empty: any class
}

func (a acrRequest) satisfied(class string) bool {
	return len(a.values) == 0 || slices.ContainsFunc(a.values, func(v string) bool {
		return v != "" && account.SatisfiesACR(class, v)
	})
}

// answer returns the class to report to the application: the first requested class that the
// sign-in satisfies, or else the class of the sign-in itself. An application that requested none
// is told only of more than a password.
func (a acrRequest) answer(class string) string {
	for _, v := range a.values {
		if v != "" && account.SatisfiesACR(class, v) {
			return v
		}
	}
	if a.requested || class != account.ACRPassword {
		return class
	}
	return ""
}

func (c *claimsRequest) addACR(essential bool, values []json.RawMessage) error {
	c.acr.requested = true
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

// decideACR compares the sign-in with the class that the operator requires and with those that
// the application requests. It returns proceed if nothing is missing. A new sign-in helps a user with a factor:
// that for an application which demands more than a password takes a second step (templates.Application). A wish asks
// nobody for one who has not chosen it.
func (q authzState) decideACR(silent bool) (verdict, *oauthError) {
	class := q.class()
	signInAgain := func() (verdict, *oauthError) {
		switch {
		case silent:
			return refused, errLoginRequired
		case q.signedInSince() && class != account.ACRPassword:
			return refused, errUnmetAuthentication // the user has the factor and chose another one
		}
		return login, nil
	}
	switch required := q.requiredACR(); {
	case account.SatisfiesACR(class, required):
	case account.SatisfiesACR(q.bestACR, required):
		return signInAgain()
	case silent:
		return refused, errInteractionRequired
	default:
		return setUpFactor, nil
	}
	switch {
	case q.acr.satisfied(class):
	case q.acr.satisfied(q.bestACR) && (q.acr.essential || q.identity.User.SecondFactor):
		if v, problem := signInAgain(); v == login || q.acr.essential {
			return v, problem
		}
	case q.acr.essential:
		return refused, errUnmetAuthentication
	}
	return proceed, nil
}

// class returns the class of the sign-in, without factors that the user has removed since.
func (q authzState) class() string {
	class := account.ACR(q.identity.Session.AMR)
	switch {
	case q.bestACR == account.ACRPassword:
		return q.bestACR
	case q.needsPasskey() && class == account.ACRPhishingResistant && q.bestACR != class:
		return account.ACRTwoFactors
	}
	return class
}

// requiredACR returns the class that the client's registration requires, or else the class that
// the settings require of this user.
func (q authzState) requiredACR() string {
	if q.needsFactor && q.client.RequireACR == "" {
		return account.ACRTwoFactors
	}
	return q.client.RequireACR
}

// needsPasskey reports whether a passkey is asked for.
func (q authzState) needsPasskey() bool {
	const class = account.ACRPhishingResistant
	return q.client.RequireACR == class || slices.Contains(q.acr.values, class)
}

// needsPasskeyLookup reports whether the decision depends on the user having a passkey. It is the only factor of
// somebody who has not chosen a second step.
func (q authzState) needsPasskeyLookup(u account.User) bool {
	return q.needsPasskey() || !u.SecondFactor && (q.requiredACR() != "" || len(q.acr.values) > 0 ||
		q.identity != nil && account.ACR(q.identity.Session.AMR) != account.ACRPassword)
}

// authenticationClaims returns the requested claims about the sign-in for userinfo. ID tokens
// always contain amr and auth_time.
func (g *Grant) authenticationClaims(requested []string) map[string]any {
	out := map[string]any{}
	for _, name := range requested {
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

// class returns the class that the application was told, or would have been told on request.
func (g *Grant) class() string {
	if g.ACR == "" {
		return account.ACR(g.AMR)
	}
	return g.ACR
}

// methods returns the methods of the sign-in. Grants of earlier versions, which supported only
// passwords, have none stored.
func (g *Grant) methods() []string {
	if len(g.AMR) == 0 {
		return []string{account.MethodPassword}
	}
	return account.ShownMethods(g.AMR)
}
