package provider

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
)

// metadata is the discovery document (OpenID Connect Discovery section 3, RFC
// 8414 section 2), built from the configured issuer alone: no header of a
// request can change it.
func (p *Provider) metadata() map[string]any {
	confidential := []string{AuthBasic, AuthPost, AuthJWT}
	everybody := append(slices.Clip(confidential), AuthNone)
	m := map[string]any{
		"issuer":                                         p.issuer,
		"authorization_endpoint":                         p.issuer + "/oauth2/authorize",
		"token_endpoint":                                 p.issuer + "/oauth2/token",
		"end_session_endpoint":                           p.issuer + "/oauth2/logout",
		"backchannel_logout_supported":                   true,
		"backchannel_logout_session_supported":           true,
		"userinfo_endpoint":                              p.issuer + "/oauth2/userinfo",
		"jwks_uri":                                       p.issuer + "/.well-known/jwks.json",
		"scopes_supported":                               Scopes,
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query", "form_post"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token", "client_credentials"},
		"subject_types_supported":                        []string{"public"},
		"id_token_signing_alg_values_supported":          []string{"RS256"},
		"token_endpoint_auth_methods_supported":          everybody,
		"revocation_endpoint":                            p.issuer + "/oauth2/revoke",
		"revocation_endpoint_auth_methods_supported":     everybody,
		"introspection_endpoint":                         p.issuer + "/oauth2/introspect",
		"introspection_endpoint_auth_methods_supported":  confidential,
		"acr_values_supported":                           []string{acrPassword},
		"claim_types_supported":                          []string{"normal"},
		"claims_supported":                               claimsSupported(),
		"code_challenge_methods_supported":               []string{"S256"},
		"prompt_values_supported":                        knownPrompts,
		"claims_parameter_supported":                     true,
		"request_parameter_supported":                    false,
		"request_uri_parameter_supported":                false,
		"authorization_response_iss_parameter_supported": true,
		"pushed_authorization_request_endpoint":          p.issuer + "/oauth2/par",
	}
	for _, endpoint := range []string{"token", "revocation", "introspection"} {
		m[endpoint+"_endpoint_auth_signing_alg_values_supported"] = assertionAlgorithms
	}
	return m
}

// jwks is the public key set: every key verifies, the first one signs.
func (p *Provider) jwks() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: p.idTokens.public}
}

// document is a public JSON answer made once.
type document struct {
	body []byte
	etag string
	kind string
}

func newDocument(v any, kind string) (document, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return document{}, fmt.Errorf("encode document: %w", err)
	}
	sum := sha256.Sum256(body)
	return document{body: append(body, '\n'), etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, kind: kind}, nil
}

// serve answers with ETag and 304 (RFC 9110 section 13).
func (d document) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("ETag", d.etag)
	if match := r.Header.Get("If-None-Match"); match != "" && (match == "*" || strings.Contains(match, strings.Trim(d.etag, `"`))) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", d.kind)
	_, _ = w.Write(d.body)
}

func (p *Provider) mountMetadata(m *mux.Router) {
	meta, err := newDocument(p.metadata(), "application/json")
	if err != nil {
		panic(err) // strings and slices of strings: cannot happen
	}
	keys, err := newDocument(p.jwks(), "application/jwk-set+json")
	if err != nil {
		panic(err) // keys were loaded and checked
	}
	for path, d := range map[string]document{
		"/.well-known/openid-configuration":       meta,
		"/.well-known/oauth-authorization-server": meta,
		"/.well-known/jwks.json":                  keys,
	} {
		p.accounts.Handle(m, path, web.Methods{"GET": d.serve})
	}
}
