package provider

import (
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

var dpopAlgorithms = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.PS256, jose.RS256}

// dpopChallenge is the end of a WWW-Authenticate header (RFC 9449 section 7.1).
const dpopChallenge = `, algs="ES256 EdDSA PS256 RS256"`

const (
	proofLifetime = 60 * time.Second // since iat
	proofSkew     = 10 * time.Second // how far the client's clock may be ahead
)

// tokenType returns the token_type of an access token bound to the key jkt, or of a bearer token
// if jkt is empty.
func tokenType(jkt string) string {
	if jkt == "" {
		return "Bearer"
	}
	return "DPoP"
}

// confirmation returns the cnf claim for a bound token (RFC 9449 section 6).
func confirmation(jkt string) map[string]string { return map[string]string{"jkt": jkt} }

// dpopProof is a DPoP proof with a verified signature and valid claims. It may have been used
// before.
type dpopProof struct {
	jkt, jti  string
	algorithm string
	nonce     string
	expires   time.Time
}

// proveTokenRequest returns the thumbprint of the key that the tokens will be bound to, or "".
func (p *Provider) proveTokenRequest(w http.ResponseWriter, r *http.Request, c *Client) (string, error) {
	proof, err := p.readProof(r, "")
	if err == nil && proof == nil && c.needsProof() {
		err = fmt.Errorf("%w: no proof", errInvalidProof)
	}
	if err != nil || proof == nil {
		return "", err
	}
	return proof.jkt, p.acceptProof(w, r, c, proof)
}

// holdsKey reports whether the request has proven the keys that its code or refresh token is
// bound to.
func (x *exchange) holdsKey(g *Grant) bool {
	return (g.DPoPJKT == "" || g.DPoPJKT == x.jkt) && (x.bound == "" || x.bound == x.jkt)
}

// provePushed binds the code of a pushed request to the key of its proof (RFC 9449 section 10.1).
func (p *Provider) provePushed(w http.ResponseWriter, r *http.Request, c *Client, form url.Values) error {
	proof, err := p.readProof(r, "")
	if err != nil || proof == nil {
		return err
	}
	if form.Has("dpop_jkt") && form.Get("dpop_jkt") != proof.jkt {
		return fmt.Errorf("%w: dpop_jkt is of another key", errInvalidProof)
	}
	form.Set("dpop_jkt", proof.jkt)
	return p.acceptProof(w, r, c, proof)
}

// proveTokenUse checks that the token came with the authentication scheme of its type and, if it
// is bound, with a proof of its key.
func (p *Provider) proveTokenUse(
	w http.ResponseWriter, r *http.Request, c *Client, t *Token, token string, dpop bool,
) error {
	if dpop != (t.JKT != "") {
		return errInvalidToken.because(badToken,
			"The scheme of the Authorization header is not the token_type of the access token.")
	}
	if !dpop {
		return nil
	}
	proof, err := p.readProof(r, token)
	switch {
	case err != nil:
		return err
	case proof == nil:
		return fmt.Errorf("%w: no proof", errInvalidProof)
	case proof.jkt != t.JKT:
		return errInvalidToken.because(otherKey, "")
	}
	return p.acceptProof(w, r, c, proof)
}

// acceptProof checks a proof by the client's profile and accepts it once. The jti is stored
// beside those of client assertions, under a name that no client can have.
func (p *Provider) acceptProof(w http.ResponseWriter, r *http.Request, c *Client, proof *dpopProof) error {
	if c.isFAPI() {
		if !slices.Contains(fapiAlgorithms, proof.algorithm) {
			return fmt.Errorf("%w: signed with %s", errInvalidProof, proof.algorithm)
		}
		if err := p.checkNonce(w, proof); err != nil {
			return err
		}
	}
	err := p.storage.SpendAssertion(r.Context(), "dpop "+proof.jkt, proof.jti, proof.expires)
	if errors.Is(err, ErrSpent) {
		return fmt.Errorf("%w: used before", errInvalidProof)
	}
	return err
}

const nonceLifetime = 5 * time.Minute

// checkNonce requires a nonce of the last few minutes (RFC 9449 section 8), so that proofs cannot
// be made in advance. Every response supplies the next nonce. Nothing is stored: the nonce is the
// sealed time.
func (p *Provider) checkNonce(w http.ResponseWriter, proof *dpopProof) error {
	next, err := p.seal.Seal(purposeNonce, "")
	if err != nil {
		return err
	}
	w.Header().Set("DPoP-Nonce", next)
	var none string
	if p.seal.Open(purposeNonce, proof.nonce, &none) != nil {
		return errUseNonce
	}
	return nil
}

// readProof checks the DPoP header of a request (RFC 9449 section 4.3). Without the header it
// returns nil. It checks ath if accessToken is not empty.
func (p *Provider) readProof(r *http.Request, accessToken string) (*dpopProof, error) {
	header := r.Header.Values("DPoP")
	if len(header) == 0 {
		return nil, nil
	}
	refused := func(why string) (*dpopProof, error) { return nil, fmt.Errorf("%w: %s", errInvalidProof, why) }
	if len(header) > 1 {
		return refused("more than one header")
	}
	t, claims, _, err := readAssertion(header[0])
	if err != nil {
		return refused(err.Error())
	}
	if t.Headers[0].ExtraHeaders[jose.HeaderType] != "dpop+jwt" {
		return refused("typ is not dpop+jwt")
	}
	key, err := proofKey(header[0], t.Headers[0].Algorithm)
	if err != nil {
		return refused(err.Error())
	}
	var own struct {
		Method string `json:"htm"`
		Target string `json:"htu"`
		Hash   string `json:"ath"`
		Nonce  string `json:"nonce"`
	}
	if err := t.Claims(key.Key, &own); err != nil {
		return refused("signature: " + err.Error())
	}
	now := p.now()
	issuedAt := claims.IssuedAt
	ahead := now.Add(proofSkew)
	switch {
	case claims.ID == "" || len(claims.ID) > maxJTI:
		return refused("no jti, or a long one")
	case issuedAt == nil || issuedAt.Time().After(ahead) || issuedAt.Time().Before(now.Add(-proofLifetime)):
		return refused("iat is missing, ahead or too old")
	case claims.Expiry != nil && !now.Before(claims.Expiry.Time()),
		claims.NotBefore != nil && claims.NotBefore.Time().After(ahead):
		return refused("exp is past or nbf ahead")
	case own.Method != r.Method:
		return refused("htm is another method")
	case !sameTarget(own.Target, p.issuer+"/oauth2/"+path.Base(r.URL.Path)):
		return refused("htu is another address")
	}
	if hash := sha256.Sum256([]byte(accessToken)); accessToken != "" &&
		subtle.ConstantTimeCompare([]byte(own.Hash), []byte(base64.RawURLEncoding.EncodeToString(hash[:]))) == 0 {
		return refused("ath does not match the access token")
	}
	thumbprint, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return refused(err.Error())
	}
	// The proof is valid through the last second of its lifetime.
	expires := issuedAt.Time().UTC().Add(proofLifetime + time.Second)
	jkt := base64.RawURLEncoding.EncodeToString(thumbprint)
	return &dpopProof{jkt, claims.ID, t.Headers[0].Algorithm, own.Nonce, expires}, nil
}

// proofKey returns the public key in the header of a proof, if it fits the algorithm.
func proofKey(proof, algorithm string) (k jose.JSONWebKey, err error) {
	encoded, _, _ := strings.Cut(proof, ".")
	var header struct {
		JWK json.RawMessage `json:"jwk"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(raw, &header)
	}
	if err != nil || len(header.JWK) == 0 {
		return k, errors.New("no jwk")
	}
	if err := checkKeyMembers(header.JWK); err != nil {
		return k, err
	}
	if k, err = readClientKey(header.JWK); err == nil && !fitsAlgorithm(k, algorithm) {
		err = errors.New("the key is not for the algorithm")
	}
	return k, err
}

// sameTarget compares htu with an endpoint, normalized and without query and fragment (RFC 9449
// section 4.3, RFC 3986 section 6.2).
func sameTarget(htu, endpoint string) bool {
	got, err := url.Parse(htu)
	want, _ := url.Parse(endpoint)
	if err != nil || got.User != nil {
		return false
	}
	if got.Scheme != want.Scheme || hostAndPort(got) != hostAndPort(want) {
		return false
	}
	return got.JoinPath().Path == want.JoinPath().Path
}

func hostAndPort(u *url.URL) string {
	port := u.Port()
	if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		port = ""
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}
