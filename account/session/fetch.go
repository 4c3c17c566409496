package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-jose/go-jose/v4"
)

// maxKeySetBytes is the longest key set that is read, after decompression.
const maxKeySetBytes = 256 << 10

// fetchKeys gets a JWK Set (RFC 7517 section 5) and keeps its usable keys. A set
// without any is an error: it is more likely a mistake than a wish to
// end every session, and must not replace a good copy.
func fetchKeys(ctx context.Context, client *webClient, url string) (keyMap, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		// The cause quotes the address, which may hold a password.
		return nil, errors.New("fetching the key set: the address is not a URL")
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := client.send(r)
	if err != nil {
		return nil, fmt.Errorf("fetching the key set: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching the key set: the answer has status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySetBytes+1))
	if err != nil {
		return nil, fmt.Errorf("fetching the key set: reading the answer: %w", err)
	}
	if len(body) > maxKeySetBytes {
		return nil, fmt.Errorf("fetching the key set: the answer is over %d bytes", maxKeySetBytes)
	}
	keys, err := parseKeySet(body)
	if err != nil {
		return nil, fmt.Errorf("fetching the key set: %w", err)
	}
	return keys, nil
}

// parseKeySet reads key by key, so that one of a kind not known here does not spoil
// the rest (RFC 7517 section 5).
func parseKeySet(body []byte) (keyMap, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, errors.New("the answer is not a JWK set")
	}
	keys := make(keyMap, len(set.Keys))
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil {
			continue
		}
		// A key that comes with its private part is nobody's secret any more, so only
		// public ones count: signingKey knows no other type.
		if _, ok := signingKey(&k); !ok || k.Use != "sig" || !isKeyID(k.KeyID) {
			continue
		}
		if _, there := keys[k.KeyID]; there {
			continue
		}
		keys[k.KeyID] = jose.JSONWebKey{Key: k.Key, KeyID: k.KeyID, Use: k.Use, Algorithm: k.Algorithm}
	}
	if len(keys) == 0 {
		return nil, errors.New("the answer holds no RSA signing key")
	}
	return keys, nil
}
