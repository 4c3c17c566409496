package web

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Sealer makes values that travel through a browser and come back unchanged: base64url(JSON) "."
// base64url(HMAC-SHA256). Each purpose has its own key, so that a value for one cannot be used for
// another. Values are sealed, not encrypted: the browser may read them, unless they are hidden.
type Sealer struct {
	keys      map[string][]byte
	hiding    map[string]cipher.AEAD
	lifetimes map[string]time.Duration
	now       func() time.Time
}

// Base64URL is the alphabet of base64url (RFC 4648 section 5).
const Base64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// maxSealed limits a value that is opened, in bytes.
const maxSealed = 12 << 10

// errSeal means that a sealed value is altered, for another purpose, or too old.
var errSeal = errors.New("sealed value not valid")

// NewSealer returns a Sealer for the purposes with their lifetimes. The keys are derived from the
// secret.
func NewSealer(secret []byte, purposes map[string]time.Duration, now func() time.Time) (*Sealer, error) {
	if len(secret) < 32 {
		return nil, errors.New("the installation secret is shorter than 32 bytes")
	}
	s := &Sealer{keys: map[string][]byte{}, hiding: map[string]cipher.AEAD{}, lifetimes: purposes, now: now}
	for purpose := range purposes {
		key, err := hkdf.Key(sha256.New, secret, nil, "cairn seal "+purpose, 32)
		if err != nil {
			return nil, fmt.Errorf("derive seal key: %w", err)
		}
		s.keys[purpose] = key
		if key, err = hkdf.Key(sha256.New, secret, nil, "cairn hide "+purpose, 32); err != nil {
			return nil, fmt.Errorf("derive seal key: %w", err)
		}
		block, err := aes.NewCipher(key)
		if err == nil {
			s.hiding[purpose], err = cipher.NewGCMWithRandomNonce(block)
		}
		if err != nil {
			return nil, fmt.Errorf("derive seal key: %w", err)
		}
	}
	return s, nil
}

// envelope wraps every sealed value with the second of its creation.
type envelope struct {
	At    int64           `json:"t"`
	Value json.RawMessage `json:"v"`
}

// Seal returns the sealed value of v, which is encoded as JSON.
func (s *Sealer) Seal(purpose string, v any) (string, error) {
	value, err := plainJSON(v)
	if err != nil {
		return "", fmt.Errorf("seal %s: %w", purpose, err)
	}
	body, err := plainJSON(envelope{At: s.now().Unix(), Value: value})
	if err != nil {
		return "", fmt.Errorf("seal %s: %w", purpose, err)
	}
	text := base64.RawURLEncoding.EncodeToString(body)
	return text + "." + s.mac(purpose, text), nil
}

// plainJSON does not escape & for HTML: it would take six bytes, and a request with many parameters
// would exceed maxSealed.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Hide is Seal with AES-GCM around it, for what the browser and whoever sees the page must not read.
func (s *Sealer) Hide(purpose string, v any) (string, error) {
	sealed, err := s.Seal(purpose, v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.hiding[purpose].Seal(nil, nil, []byte(sealed), nil)), nil
}

// OpenHidden is Open of a value that Hide made.
func (s *Sealer) OpenHidden(purpose, hidden string, v any) error {
	body, _ := base64.RawURLEncoding.Strict().DecodeString(hidden) // what is cut off does not open
	sealed, err := s.hiding[purpose].Open(nil, nil, body, nil)
	if err != nil {
		return errSeal
	}
	return s.Open(purpose, string(sealed), v)
}

// Open verifies before it decodes into v. errSeal for every failure.
func (s *Sealer) Open(purpose, sealed string, v any) error {
	_, err := s.OpenDated(purpose, sealed, v)
	return err
}

// OpenDated is Open, and returns when the value was sealed.
func (s *Sealer) OpenDated(purpose, sealed string, v any) (time.Time, error) {
	text, mac, ok := strings.Cut(sealed, ".")
	if !ok || len(sealed) > maxSealed {
		return time.Time{}, errSeal
	}
	// Compared as texts, because a decoder accepts other spellings of the same bytes.
	if !hmac.Equal([]byte(mac), []byte(s.mac(purpose, text))) {
		return time.Time{}, errSeal
	}
	body, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return time.Time{}, errSeal
	}
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return time.Time{}, errSeal
	}
	at := time.Unix(e.At, 0).UTC()
	if age := s.now().Sub(at); age < -time.Minute || age > s.lifetimes[purpose] {
		return time.Time{}, errSeal
	}
	if err := json.Unmarshal(e.Value, v); err != nil {
		return time.Time{}, errSeal
	}
	return at, nil
}

func (s *Sealer) mac(purpose, text string) string {
	m := hmac.New(sha256.New, s.keys[purpose])
	m.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
