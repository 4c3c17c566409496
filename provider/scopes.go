package provider

import (
	"context"
	"slices"

	"github.com/cairn-id/cairn/templates"
)

// scopes lists what clients can request, in the order of the consent page.
var scopes = []struct {
	name string
	// asks is the sentence of the consent page and may contain {value}; nothing replaces it if
	// there is no value. granted describes the scope afterwards.
	asks, nothing, granted templates.Text
	claims                 []string // OpenID Connect Core section 5.4
}{
	{name: "openid", asks: "Sign you in", granted: "Sign you in"},
	{name: "profile", asks: "Your name ({value})", granted: "Your name and profile", claims: []string{
		"name", "family_name", "given_name", "middle_name", "nickname", "preferred_username", "profile", "picture",
		"website", "gender", "birthdate", "zoneinfo", "locale", "updated_at",
	}},
	{
		name: "email", asks: "Your email ({value})", nothing: "Your email (none saved)",
		granted: "Your email address", claims: []string{"email", "email_verified"},
	},
	{
		name: "address", asks: "Your postal address", nothing: "Your postal address (none saved)",
		granted: "Your postal address", claims: []string{"address"},
	},
	{
		name: "phone", asks: "Your phone number ({value})", nothing: "Your phone number (none saved)",
		granted: "Your phone number", claims: []string{"phone_number", "phone_number_verified"},
	},
	{
		name: "groups", asks: "Your groups: {value}", nothing: "Your groups: none",
		granted: "Your groups", claims: []string{"groups"},
	},
	{
		name: "offline_access", asks: "Keep access while you are away",
		granted: "Keep access while you are away",
	},
}

// Scopes lists the names of all scopes.
var Scopes = func() (names []string) {
	for _, s := range scopes {
		names = append(names, s.name)
	}
	return names
}()

// scopeTexts describes granted scopes to the user who granted them.
func (p *Provider) scopeTexts(ctx context.Context, granted []string) (texts []string) {
	for _, s := range scopes {
		if slices.Contains(granted, s.name) {
			texts = append(texts, templates.LanguageOf(ctx).Text(s.granted))
		}
	}
	texts = append(texts, entryTexts(ctx, granted)...)
	all, err := p.apis.Get(ctx, "")
	if err != nil { // the page is shown without them
		p.log.ErrorContext(ctx, "APIs not read", "error", err)
	}
	for _, a := range all {
		if slices.Contains(granted, a.URI) {
			texts = append(texts, a.Name)
		}
		for _, s := range a.Scopes {
			if slices.Contains(granted, s.Name) {
				texts = append(texts, a.Name+": "+s.Sentence)
			}
		}
	}
	return texts
}

// claimScope returns the scope of a claim, or "" for an unknown claim.
func claimScope(name string) string {
	for _, s := range scopes {
		if slices.Contains(s.claims, name) {
			return s.name
		}
	}
	if slices.Contains(signInClaims, name) {
		return "openid"
	}
	return ""
}

// knownScopes returns the requested scopes that exist and that the client may have. Others are
// ignored (OpenID Connect Core section 3.1.2.1).
func (req *authorization) knownScopes(requested []string) []string {
	var out []string
	for _, s := range requested {
		may := slices.Contains(Scopes, s) && slices.Contains(req.client.Scopes, s) || req.apis.owner(s) != nil
		if may && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
