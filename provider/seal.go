package provider

import (
	"bytes"
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

// sealer makes values that travel through a browser and come back unchanged:
// base64url(JSON) "." base64url(HMAC-SHA256). Each purpose has a key of its own,
// so that a value made for one cannot be used for another. Sealed, not
// encrypted: the browser may read what it sent itself.
type sealer struct {
	keys map[string][]byte
	now  func() time.Time
}

// Purposes of sealed values, with how long they are valid.
const (
	purposeContinue = "continue"         // an authorization request on its way through login or consent
	purposeForm     = "consent form"     // proves that the consent form was shown to this session
	purposeDecision = "consent decision" // carries the user's decision back to authorize
	purposeLogout   = "logout"           // proves that the sign-out page was shown to this session
)

var sealLifetimes = map[string]time.Duration{
	purposeContinue: 10 * time.Minute, purposeForm: 10 * time.Minute, purposeDecision: 2 * time.Minute,
	purposeLogout: 10 * time.Minute,
}

// maxSealed bounds what is read back, in bytes.
const maxSealed = 12 << 10

var errSeal = errors.New("sealed value not valid")

func newSealer(secret []byte, now func() time.Time) (*sealer, error) {
	s := &sealer{keys: map[string][]byte{}, now: now}
	for purpose := range sealLifetimes {
		key, err := hkdf.Key(sha256.New, secret, nil, "cairn seal "+purpose, 32)
		if err != nil {
			return nil, fmt.Errorf("derive seal key: %w", err)
		}
		s.keys[purpose] = key
	}
	return s, nil
}

// envelope wraps every sealed value with the second it was made.
type envelope struct {
	At    int64           `json:"t"`
	Value json.RawMessage `json:"v"`
}

func (s *sealer) seal(purpose string, v any) (string, error) {
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

// plainJSON leaves & as it is: escaped for HTML it would take six bytes, and a
// request of many parameters would not fit into what open reads.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// open verifies before it decodes. errSeal for every failure.
func (s *sealer) open(purpose, sealed string, v any) error {
	text, mac, ok := strings.Cut(sealed, ".")
	if !ok || len(sealed) > maxSealed {
		return errSeal
	}
	// As texts: a decoder would take other spellings of the same bytes too.
	if !hmac.Equal([]byte(mac), []byte(s.mac(purpose, text))) {
		return errSeal
	}
	body, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return errSeal
	}
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return errSeal
	}
	if age := s.now().Sub(time.Unix(e.At, 0)); age < -time.Minute || age > sealLifetimes[purpose] {
		return errSeal
	}
	if err := json.Unmarshal(e.Value, v); err != nil {
		return errSeal
	}
	return nil
}

func (s *sealer) mac(purpose, text string) string {
	m := hmac.New(sha256.New, s.keys[purpose])
	m.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}
