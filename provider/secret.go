package provider

import (
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
)

// minGivenSecret is the length of the shortest secret that the operator may choose: its hash is a
// single SHA-256, which protects only what cannot be guessed.
const minGivenSecret = 32

// GivenSecret returns the stored form of a secret that the operator has chosen. It must be as hard to
// guess as those of NewSecret. The error says how to make one, and never contains it.
func GivenSecret(secret string, now time.Time) (ClientSecret, error) {
	const remedy = "make one with: openssl rand -hex 32"
	distinct, steps := map[byte]bool{}, 0
	for i := range len(secret) {
		if secret[i] <= ' ' || secret[i] > '~' {
			return ClientSecret{}, errors.New("a secret has only printable ASCII characters and no space: " + remedy)
		}
		if distinct[secret[i]] = true; i > 0 && secret[i]-secret[i-1]+1 <= 2 { // the same, the next or the one before
			steps++
		}
	}
	switch {
	case len(secret) < minGivenSecret || len(secret) > 512:
		return ClientSecret{}, errors.New("a secret has 32 to 512 characters: " + remedy)
	case len(distinct) < 8 || 2*steps > len(secret) || repeats(secret):
		return ClientSecret{}, errors.New("this secret does not look random: " + remedy)
	}
	return ClientSecret{Hash: account.HashSecret(secret), CreatedAt: now.UTC().Truncate(time.Second)}, nil
}

// repeats reports whether eight characters are in a secret twice.
func repeats(secret string) bool {
	for i := range len(secret) - 8 {
		if strings.Contains(secret[i+1:], secret[i:i+8]) {
			return true
		}
	}
	return false
}

// NeedsEncoding reports whether a secret has characters that HTTP Basic must carry percent-encoded (RFC 6749
// section 2.3.1), which some applications do not do.
func NeedsEncoding(secret string) bool { return url.QueryEscape(secret) != secret }

// secretHashPrefix begins the text of a stored secret.
const secretHashPrefix = "sha256:"

// HashText returns the stored secret as a text, which ParseSecretHash reads.
func (s ClientSecret) HashText() string { return secretHashPrefix + hex.EncodeToString(s.Hash) }

// ParseSecretHash reads the text of a stored secret.
func ParseSecretHash(text string, now time.Time) (ClientSecret, error) {
	digits, ok := strings.CutPrefix(text, secretHashPrefix)
	hash, err := hex.DecodeString(digits)
	if empty := account.HashSecret(""); slices.Equal(hash, empty) { // of a variable that was not set
		return ClientSecret{}, errors.New("this is the hash of an empty secret: make one with: openssl rand -hex 32")
	}
	if !ok || err != nil || len(hash) != len(account.HashSecret("")) || digits != strings.ToLower(digits) {
		return ClientSecret{}, errors.New("write sha256: and 64 digits 0-9 a-f, as cairn export clients prints it, " +
			"or make it with: printf %s \"$SECRET\" | sha256sum")
	}
	return ClientSecret{Hash: hash, CreatedAt: now.UTC().Truncate(time.Second)}, nil
}
