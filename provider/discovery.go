package provider

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// metadata returns the discovery document (OpenID Connect Discovery section 3, RFC 8414 section
// 2). It depends only on the configured issuer, never on request headers.
func (p *Provider) metadata() map[string]any {
	confidential := []string{AuthBasic, AuthPost, AuthJWT}
	allMethods := append(slices.Clip(confidential), AuthNone)
	classes := []string{account.ACRPassword, account.ACRTwoFactors, account.ACRPhishingResistant}
	grants := []string{"authorization_code", "refresh_token", "client_credentials", grantTypeDevice}
	m := map[string]any{
		"issuer":                                         p.issuer,
		"authorization_endpoint":                         p.issuer + "/oauth2/authorize",
		"token_endpoint":                                 p.issuer + "/oauth2/token",
		"device_authorization_endpoint":                  p.issuer + "/oauth2/device_authorization",
		"end_session_endpoint":                           p.issuer + "/oauth2/logout",
		"backchannel_logout_supported":                   true,
		"backchannel_logout_session_supported":           true,
		"userinfo_endpoint":                              p.issuer + "/oauth2/userinfo",
		"jwks_uri":                                       p.issuer + "/.well-known/jwks.json",
		"scopes_supported":                               Scopes,
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       responseModes,
		"grant_types_supported":                          grants,
		"subject_types_supported":                        []string{"public"},
		"id_token_signing_alg_values_supported":          p.idTokens.algorithms(),
		"token_endpoint_auth_methods_supported":          allMethods,
		"revocation_endpoint":                            p.issuer + "/oauth2/revoke",
		"revocation_endpoint_auth_methods_supported":     allMethods,
		"introspection_endpoint":                         p.issuer + "/oauth2/introspect",
		"introspection_endpoint_auth_methods_supported":  confidential,
		"acr_values_supported":                           classes,
		"claim_types_supported":                          []string{"normal"},
		"claims_supported":                               claimsSupported(),
		"code_challenge_methods_supported":               []string{"S256"},
		"prompt_values_supported":                        knownPrompts,
		"ui_locales_supported":                           templates.LanguageTags(),
		"claims_parameter_supported":                     true,
		"request_parameter_supported":                    false,
		"request_uri_parameter_supported":                false,
		"authorization_response_iss_parameter_supported": true,
		"pushed_authorization_request_endpoint":          p.issuer + "/oauth2/par",
	}
	if p.requirePushed {
		m["require_pushed_authorization_requests"] = true
	}
	m["dpop_signing_alg_values_supported"] = dpopAlgorithms
	for _, endpoint := range []string{"token", "revocation", "introspection"} {
		m[endpoint+"_endpoint_auth_signing_alg_values_supported"] = assertionAlgorithms
	}
	return m
}

func document(v any, kind string) http.HandlerFunc {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible: v has only strings and checked keys
	}
	sum := sha256.Sum256(body)
	etag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	return templates.NewDocument(kind, "public, max-age=300", etag, append(body, '\n'), nil).ServeHTTP
}

// metadataHandler announces client_id_metadata_document_supported only if an allowance exists.
func (p *Provider) metadataHandler() http.HandlerFunc {
	m := p.metadata()
	closed := document(m, "application/json")
	m["client_id_metadata_document_supported"] = true
	open := document(m, "application/json")
	return func(w http.ResponseWriter, r *http.Request) {
		allowed, err := p.allowances.Get(r.Context(), "")
		if err == nil && len(allowed) > 0 {
			open(w, r)
			return
		}
		closed(w, r)
	}
}

// MountMetadata registers the metadata of an issuer with a path where RFC 8414 section 3.1 puts
// it: between the host and that path, and its WebFinger, which is of the host. root is the router of the whole host.
func (p *Provider) MountMetadata(root *mux.Router, path string) {
	for _, name := range []string{"openid-configuration", "oauth-authorization-server"} {
		p.accounts.Handle(root, "/.well-known/"+name+path, web.Methods{"GET": p.metadataHandler()})
	}
	p.accounts.Handle(root, webFingerPath, web.Methods{"GET": p.webFinger})
}

func (p *Provider) mountMetadata(m *mux.Router) {
	meta := p.metadataHandler()
	keys := document(jose.JSONWebKeySet{Keys: p.public}, "application/jwk-set+json")
	for path, h := range map[string]http.HandlerFunc{
		webFingerPath:                             p.webFinger,
		"/.well-known/openid-configuration":       meta,
		"/.well-known/oauth-authorization-server": meta,
		"/.well-known/jwks.json":                  keys,
	} {
		p.accounts.Handle(m, path, web.Methods{"GET": h})
	}
}
