package provider

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// ProfileFAPI2 is the profile of a client that follows the FAPI 2.0 Security Profile (final). The
// client pushes its requests, authenticates with private_key_jwt and gets only key-bound tokens.
// Its refresh tokens are not rotated.
const ProfileFAPI2 = "fapi2"

// fapiAlgorithms lists the signing algorithms of the profile (FAPI 2.0 section 5.4.1).
var fapiAlgorithms = []string{string(jose.ES256), string(jose.PS256), string(jose.EdDSA)}

func (c *Client) isFAPI() bool { return c.Profile == ProfileFAPI2 }

// needsProof reports whether the client gets tokens only with a DPoP proof.
func (c *Client) needsProof() bool { return c.DPoPBound || c.isFAPI() }

// mustPush reports whether the client must push its authorization requests (RFC 9126 section 6).
func (rs *rules) mustPush(c *Client) bool { return rs.requirePushed || c.isFAPI() }

// checkProfile validates a registration by its profile (FAPI 2.0 sections 5.3.2 and 5.3.3).
func (c *Client) checkProfile() error {
	if c.Profile == "" {
		return nil
	}
	refused := func(member, value, reason string) error {
		return &RegistrationError{member, value, "with the profile fapi2 " + reason}
	}
	switch {
	case c.Profile != ProfileFAPI2:
		return &RegistrationError{"profile", c.Profile, "the only profile is " + ProfileFAPI2}
	case c.AuthMethod != AuthJWT:
		return refused("token_endpoint_auth_method", c.AuthMethod, "a client authenticates with private_key_jwt")
	case !slices.Contains(fapiAlgorithms, c.IDTokenAlgorithm()):
		return refused("id_token_signed_response_alg", c.IDTokenAlgorithm(),
			"ID tokens are signed with ES256 or EdDSA")
	case c.DeviceGrant:
		return refused("device_grant", "", "there is no device grant, because its requests are not pushed")
	case c.RefreshGrace > 0:
		return refused("refresh_grace_seconds", "", "refresh tokens are not rotated, and need no grace")
	}
	for _, k := range c.Keys() {
		if k.Algorithm == string(jose.RS256) {
			return refused("jwks", k.KeyID, "a client signs with ES256, PS256 or EdDSA, not with RS256")
		}
	}
	for _, uri := range c.RedirectURIs {
		u, err := url.Parse(uri)
		local := []string{"localhost", "127.0.0.1", "::1"}
		if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !slices.Contains(local, u.Hostname())) {
			return refused("redirect_uris", uri, "answers go to https, or to http on the machine of the user")
		}
	}
	return nil
}

// checkFAPIAssertion checks a client assertion by FAPI 2.0 sections 5.3.2.1 and 5.4.1.
func (p *Provider) checkFAPIAssertion(algorithm, aud string) error {
	if !slices.Contains(fapiAlgorithms, algorithm) {
		return errors.New("not signed with " + strings.Join(fapiAlgorithms, ", "))
	}
	if aud != p.issuer {
		return errors.New("aud is not the issuer alone")
	}
	return nil
}
