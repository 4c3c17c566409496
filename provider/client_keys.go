package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxClientKeySet = 32 << 10 // bytes
	maxClientKeys   = 16
	maxKeyID        = 128 // bytes
)

// assertionAlgorithms are what client assertions may be signed with.
var assertionAlgorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256}

// CheckClientKeys holds the key set of a client (RFC 7517 section 5) to the
// rules of registration: 1 to 16 public keys, RSA of 2048 to 8192 bits or
// P-256, for signatures, no kid twice. It returns the set as it is kept, without members that
// nobody reads. The error says what to change.
func CheckClientKeys(raw []byte) ([]byte, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if len(raw) > maxClientKeySet {
		return nil, errors.New("the key set is larger than 32 KiB")
	}
	if err := json.Unmarshal(raw, &set); err != nil || len(set.Keys) == 0 {
		return nil, errors.New(`not a key set: a JSON object {"keys": [...]} with at least one key is needed (RFC 7517)`)
	}
	if len(set.Keys) > maxClientKeys {
		return nil, fmt.Errorf("the key set has more than %d keys", maxClientKeys)
	}
	kept := jose.JSONWebKeySet{}
	for i, member := range set.Keys {
		err := checkKeyMembers(member)
		var k jose.JSONWebKey
		if err == nil {
			k, err = readClientKey(member)
		}
		if err != nil {
			return nil, fmt.Errorf("key %d of the set: %w", i+1, err)
		}
		if slices.ContainsFunc(kept.Keys, func(other jose.JSONWebKey) bool { return other.KeyID == k.KeyID }) {
			return nil, fmt.Errorf("key %d of the set: another key has the same kid", i+1)
		}
		kept.Keys = append(kept.Keys, k)
	}
	out, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("encode key set: %w", err)
	}
	return out, nil
}

// privateMembers are those of RFC 7518 section 6 that no public key has.
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

// checkKeyMembers looks at what go-jose passes over: what is left of a private
// key, and what the key is for.
func checkKeyMembers(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return errors.New("not a key that can be read")
	}
	for _, name := range privateMembers {
		if _, there := members[name]; there {
			return errors.New("a private or symmetric key: only the public half belongs here, and of a new pair, because this one has been copied")
		}
	}
	if ops, there := members["key_ops"]; there {
		var list []string
		if json.Unmarshal(ops, &list) != nil || !slices.Contains(list, "verify") {
			return errors.New("its key_ops do not have verify")
		}
	}
	return nil
}

// readClientKey reads one key of a set; the error says what is wrong with it.
func readClientKey(raw []byte) (jose.JSONWebKey, error) {
	var k jose.JSONWebKey
	if err := json.Unmarshal(raw, &k); err != nil {
		return k, errors.New("not a key that can be read")
	}
	if !k.IsPublic() {
		return k, errors.New("a private or symmetric key: only the public half belongs here")
	}
	algorithms := keyAlgorithms(k.Key)
	switch {
	case !k.Valid() || algorithms == nil:
		return k, errors.New("neither RSA of 2048 to 8192 bits nor P-256")
	case len(k.KeyID) > maxKeyID || strings.ContainsFunc(k.KeyID, func(r rune) bool { return r < ' ' || r > '~' }):
		return k, fmt.Errorf("its kid has more than %d characters, or others than printable ASCII", maxKeyID)
	case k.Use != "" && k.Use != "sig":
		return k, errors.New("its use is not sig")
	case k.Algorithm != "" && !slices.Contains(algorithms, jose.SignatureAlgorithm(k.Algorithm)):
		return k, fmt.Errorf("its alg is not one of %v", algorithms)
	}
	return jose.JSONWebKey{Key: k.Key, KeyID: k.KeyID, Algorithm: k.Algorithm, Use: "sig"}, nil
}

// keyAlgorithms are those that a key can verify, nil for one that is not
// accepted.
func keyAlgorithms(key any) []jose.SignatureAlgorithm {
	switch k := key.(type) {
	case *rsa.PublicKey:
		// An exponent of 1 signs nothing, and an even one or an even modulus is not RSA.
		if n := k.N.BitLen(); n >= 2048 && n <= 8192 && k.E >= 3 && k.E%2 == 1 && k.N.Bit(0) == 1 {
			return []jose.SignatureAlgorithm{jose.RS256, jose.PS256}
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return []jose.SignatureAlgorithm{jose.ES256}
		}
	}
	return nil
}

// keyFor is the one key of the client that fits the header of an assertion. A
// kid must be that of the key; without one a single key must fit. Keys that
// cannot be read count as not there.
func (c *Client) keyFor(kid, alg string) (any, bool) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if len(c.JWKS) > maxClientKeySet || json.Unmarshal(c.JWKS, &set) != nil {
		return nil, false
	}
	var found []any
	for _, member := range set.Keys {
		k, err := readClientKey(member)
		if err != nil || kid != "" && k.KeyID != kid || k.Algorithm != "" && k.Algorithm != alg || !slices.Contains(keyAlgorithms(k.Key), jose.SignatureAlgorithm(alg)) {
			continue
		}
		found = append(found, k.Key)
	}
	if len(found) != 1 {
		return nil, false
	}
	return found[0], true
}
