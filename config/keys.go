package config

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/go-jose/go-jose/v4"
)

// The sizes of an RSA key in bits. The lower bound is that of RFC 7518 section 3.3; beyond the upper one a signature
// takes seconds of processor time and no longer fits into a cookie with the rest.
const (
	MinKeyBits = 2048
	maxKeyBits = 8192
)

const makeKey = "make an RSA key with: cairn keys generate FILE"

// LoadSigningKeys loads the key set: first the RSA private key, which signs session cookies and
// everything that asks for RS256, then the additional keys, which verify and are published. Each
// has its RFC 7638 SHA-256 thumbprint as KeyID, the one algorithm of its type (RS256; ES256 with
// P-256; EdDSA with Ed25519) and use sig. The signing keys are private keys, at most one of each
// algorithm; all others are public keys.
//
// Without a privateFile there are no keys, and additional files are an error. An additional file
// may hold a private or a public key; only the first ES256 and the first EdDSA private key keep
// their private halves.
func LoadSigningKeys(privateFile string, additional []string) ([]jose.JSONWebKey, error) {
	if err := checkKeys(nil, Settings{PrivateKeyFile: privateFile, AdditionalKeyFiles: additional}); err != nil ||
		privateFile == "" {
		return nil, err
	}
	first, err := loadKey("private-key-file", privateFile)
	if err != nil {
		return nil, err
	}
	if first.IsPublic() {
		return nil, refuse("private-key-file", "name the private key, and a public one with --additional-key-file",
			"%s holds a public key, which cannot sign", privateFile)
	}
	if first.Algorithm != string(jose.RS256) {
		return nil, refuse("private-key-file",
			"name an RSA key, as cairn keys generate makes it, and this one with --additional-key-file",
			"%s holds a key that is not RSA, which RS256 needs", privateFile)
	}
	keys, signs := []jose.JSONWebKey{first}, map[string]bool{first.Algorithm: true}
	from := map[string]string{first.KeyID: privateFile}
	for _, path := range trimmed(additional) {
		key, err := loadKey("additional-key-file", path)
		if err != nil {
			return nil, err
		}
		if other, twice := from[key.KeyID]; twice {
			return nil, refuse("additional-key-file", "leave one of them out",
				"%s holds the same key as %s", path, other)
		}
		from[key.KeyID] = path
		if signs[key.Algorithm] {
			key = key.Public()
		}
		signs[key.Algorithm] = signs[key.Algorithm] || !key.IsPublic()
		keys = append(keys, key)
	}
	return keys, nil
}

func checkKeys(_ *Checked, s Settings) error {
	if s.Signer != "" && s.Signer != "auto" && s.Signer != "go" {
		return refuse("signer", "write auto or go, or leave it out", "%q is not a signer", s.Signer)
	}
	if len(trimmed(s.AdditionalKeyFiles)) > 0 && s.PrivateKeyFile == "" && !s.NoOIDC {
		return refuse("additional-key-file", "set --private-key-file (SERVICE_OIDC_PRIVATE_KEY_FILE) too",
			"is set without a key that signs")
	}
	return nil
}

func loadKey(flag, path string) (jose.JSONWebKey, error) {
	none := jose.JSONWebKey{}
	text, info, err := readFile(path, maxSecretFile)
	if err != nil {
		return none, refuse(flag,
			"check the path, and that the service's user may read the file, or "+makeKey, "%w", err)
	}
	key, remedy, err := parseKey(text)
	if err != nil {
		return none, refuse(flag, remedy, "%s %w", path, err)
	}
	public := key
	if private, ok := key.(crypto.Signer); ok {
		public = private.Public()
		if err := checkPrivate(flag, path, info); err != nil {
			return none, err
		}
	}
	algorithm, err := algorithmOf(public)
	if err != nil {
		return none, refuse(flag, makeKey, "%s %w", path, err)
	}
	kid, err := keyID(public)
	if err != nil {
		return none, refuse(flag, makeKey, "%s: %w", path, err)
	}
	return jose.JSONWebKey{Key: key, KeyID: kid, Algorithm: string(algorithm), Use: "sig"}, nil
}

// algorithmOf returns the only algorithm of a key: RFC 8725 section 3.1 wants the key to decide,
// not the token.
func algorithmOf(public crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch public := public.(type) {
	case *rsa.PublicKey:
		if n := public.N.BitLen(); n < MinKeyBits || n > maxKeyBits {
			return "", fmt.Errorf("holds a key of %d bits, %d to %d are accepted", n, MinKeyBits, maxKeyBits)
		}
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		if public.Curve == elliptic.P256() {
			return jose.ES256, nil
		}
	case ed25519.PublicKey:
		return jose.EdDSA, nil
	}
	return "", errOtherKey
}

var errOtherKey = errors.New("holds a key that is not RSA, P-256 or Ed25519")

// keyID returns the RFC 7638 thumbprint: the same key has the same kid on every instance and after
// every restart.
func keyID(public crypto.PublicKey) (string, error) {
	jwk := jose.JSONWebKey{Key: public}
	sum, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("computing the key's thumbprint: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}

// otherKinds are types of PEM blocks that people use instead of a key, with the remedy.
var otherKinds = map[string]struct{ problem, remedy string }{
	"ENCRYPTED PRIVATE KEY": {"is encrypted",
		"decrypt it with: openssl pkey -in FILE -out NEWFILE, and chmod 600 NEWFILE"},
	"CERTIFICATE": {"holds a certificate, not a key",
		"take the key out with: openssl x509 -in FILE -pubkey -noout, or " + makeKey},
	"OPENSSH PRIVATE KEY": {"holds a key in OpenSSH's own form", makeKey},
}

// parseKey parses one PEM block and returns a private or public key, or an error with the remedy.
func parseKey(text []byte) (key any, remedy string, err error) {
	block, rest := pem.Decode(text)
	if block == nil {
		return nil, "name a file that begins with -----BEGIN, or " + makeKey, errors.New("holds no PEM")
	}
	if next, after := pem.Decode(rest); next != nil && block.Type == "EC PARAMETERS" { // written by openssl ecparam
		block, rest = next, after
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, "put each key into a file of its own", errors.New("holds more than one PEM block")
	}
	kind := block.Type
	if block.Headers["DEK-Info"] != "" || block.Headers["Proc-Type"] != "" {
		kind = "ENCRYPTED PRIVATE KEY"
	}
	switch kind { // the parsers check that the parts of a key belong together
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	}
	if err != nil {
		return nil, "restore the file, or " + makeKey, fmt.Errorf("holds a damaged key: %w", err)
	}
	if other, known := otherKinds[kind]; known {
		return nil, other.remedy, errors.New(other.problem)
	}
	if key == nil {
		return nil, makeKey, errOtherKey
	}
	return key, "", nil
}

// GenerateKey is [GenerateKeyFor] RS256.
func GenerateKey(path string, bits int) (kid string, err error) {
	return GenerateKeyFor(jose.RS256, path, bits)
}

// GenerateKeyFor writes a new private key for RS256, ES256 or EdDSA as PKCS#8 PEM, readable only by
// its owner and on the disk when it returns, and returns its kid. It never overwrites: an existing
// path is an error that wraps os.ErrExist, because a lost key ends every session that it signed.
// bits is the size of an RSA key, [MinKeyBits] to [maxKeyBits].
func GenerateKeyFor(algorithm jose.SignatureAlgorithm, path string, bits int) (kid string, err error) {
	if algorithm == jose.RS256 && (bits < MinKeyBits || bits > maxKeyBits) {
		return "", fmt.Errorf("making a key of %d bits: choose %d to %d", bits, MinKeyBits, maxKeyBits)
	}
	// Checked before the slow part; createFile does not overwrite either.
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s: %w: keys are never overwritten, choose another path", path, os.ErrExist)
	}
	var key crypto.Signer
	switch algorithm {
	case jose.RS256:
		key, err = rsa.GenerateKey(rand.Reader, bits)
	case jose.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("%s is not an algorithm here", algorithm)
	}
	if err != nil {
		return "", fmt.Errorf("making the key: %w", err)
	}
	if kid, err = keyID(key.Public()); err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("encoding the key: %w", err)
	}
	if err := createFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return "", fmt.Errorf("the key file %w", err)
	}
	return kid, nil
}
