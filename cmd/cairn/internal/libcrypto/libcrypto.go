// Package libcrypto signs RS256 with OpenSSL's libcrypto, in a third of the time of crypto/rsa. It
// loads the library at run time if the machine has it, so neither the build nor the start needs it.
//
// It compares its first signature with that of crypto/rsa: PKCS#1 v1.5 is deterministic. If
// libcrypto fails later, crypto/rsa signs instead.
//
// It leaves to its callers what to do without the library.
package libcrypto

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"runtime"

	"github.com/go-jose/go-jose/v4"
)

// Signer makes RS256 signatures with one key. It is a jose.OpaqueSigner, and safe for concurrent use.
type Signer struct {
	version string
	private *rsa.PrivateKey
	public  jose.JSONWebKey
	native  nativeKey
	// turns has a slot for each processor. A signature occupies a thread of the system: more
	// threads would only wait for one another, each with its own memory.
	turns chan struct{}
}

// Choose returns the signer of an RSA private key, or nil if crypto/rsa is to sign: with goOnly, or
// without the library. used names the signer, and why crypto/rsa is used.
func Choose(key jose.JSONWebKey, goOnly bool) (signer jose.OpaqueSigner, used string) {
	if goOnly {
		return nil, "crypto/rsa (--signer go)"
	}
	s, err := New(key)
	if err != nil {
		return nil, fmt.Sprintf("crypto/rsa (%v)", err)
	}
	return s, "libcrypto " + s.version
}

// New returns the signer of an RSA private key. Its error says why libcrypto cannot be used.
func New(key jose.JSONWebKey) (*Signer, error) {
	private, ok := key.Key.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("the key is not an RSA private key")
	}
	version, err := load()
	if err != nil {
		return nil, err
	}
	der := x509.MarshalPKCS1PrivateKey(private)
	native, err := newNativeKey(der)
	clear(der)
	if err != nil {
		return nil, fmt.Errorf("libcrypto %s: %w", version, err)
	}
	s := &Signer{
		version: version, private: private, public: key.Public(), native: native,
		turns: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	runtime.AddCleanup(s, nativeKey.free, native)
	payload := []byte("the first signature of libcrypto")
	want, err := s.plain(payload)
	if err != nil {
		return nil, fmt.Errorf("crypto/rsa: %w", err)
	}
	sum := sha256.Sum256(payload)
	got, ok := s.fast(payload)
	if !ok || !bytes.Equal(got, want) || rsa.VerifyPKCS1v15(&private.PublicKey, crypto.SHA256, sum[:], got) != nil {
		return nil, fmt.Errorf("libcrypto %s: its signature differs from that of crypto/rsa", version)
	}
	return s, nil
}

// Public implements jose.OpaqueSigner.
func (s *Signer) Public() *jose.JSONWebKey { return &s.public }

// Algs implements jose.OpaqueSigner.
func (s *Signer) Algs() []jose.SignatureAlgorithm { return []jose.SignatureAlgorithm{jose.RS256} }

// SignPayload implements jose.OpaqueSigner.
func (s *Signer) SignPayload(payload []byte, alg jose.SignatureAlgorithm) ([]byte, error) {
	if alg != jose.RS256 {
		return nil, jose.ErrUnsupportedAlgorithm
	}
	if signature, ok := s.fast(payload); ok {
		return signature, nil
	}
	return s.plain(payload)
}

func (s *Signer) fast(payload []byte) ([]byte, bool) {
	s.turns <- struct{}{}
	defer func() { <-s.turns }()
	signature := make([]byte, s.private.Size())
	ok := len(payload) > 0 && s.native.sign(payload, signature)
	runtime.KeepAlive(s) // the key in C must not be freed earlier
	return signature, ok
}

func (s *Signer) plain(payload []byte) ([]byte, error) {
	sum := sha256.Sum256(payload)
	return rsa.SignPKCS1v15(nil, s.private, crypto.SHA256, sum[:])
}
