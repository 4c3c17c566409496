package config

import (
	"crypto"
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
	MaxKeyBits = 8192
)

const makeKey = "make an RSA key with: cairn keys generate FILE"

// LoadSigningKeys loads the key set: the private key first, which signs, then the additional keys as public keys,
// which verify and are published. Each has its RFC 7638 SHA-256 thumbprint as KeyID, RS256 and use sig.
//
// An empty privateFile means that there are no keys: nil, unless additional ones are given, which alone could sign
// nothing. An additional file may hold a private or a public key; of a private one only the public half is kept.
func LoadSigningKeys(privateFile string, additional []string) ([]jose.JSONWebKey, error) {
	additional = trimmed(additional)
	if privateFile == "" {
		if len(additional) > 0 {
			return nil, errNoSigningKey()
		}
		return nil, nil
	}
	first, err := loadKey("private-key-file", privateFile)
	if err != nil {
		return nil, err
	}
	if first.IsPublic() {
		return nil, refuse("private-key-file", "name the private key, and a public one with --additional-key-file",
			"%s holds a public key, which cannot sign", privateFile)
	}
	keys := []jose.JSONWebKey{first}
	from := map[string]string{first.KeyID: privateFile}
	for _, path := range additional {
		key, err := loadKey("additional-key-file", path)
		if err != nil {
			return nil, err
		}
		if other, twice := from[key.KeyID]; twice {
			return nil, refuse("additional-key-file", "leave one of them out", "%s holds the same key as %s", path, other)
		}
		from[key.KeyID] = path
		keys = append(keys, key.Public())
	}
	return keys, nil
}

func errNoSigningKey() *SettingError {
	return refuse("additional-key-file", "set --private-key-file (SERVICE_OIDC_PRIVATE_KEY_FILE) too", "is set without a key that signs")
}

func loadKey(flag, path string) (jose.JSONWebKey, error) {
	text, info, err := readFile(path, maxSecretFile)
	if err != nil {
		remedy := "check the path, and that the service's user may read the file"
		if errors.Is(err, os.ErrNotExist) {
			remedy = "check the path, or " + makeKey
		}
		return jose.JSONWebKey{}, refuse(flag, remedy, "%s", err).because(err)
	}
	key, problem, remedy := parseKey(text)
	if problem != "" {
		return jose.JSONWebKey{}, refuse(flag, remedy, "%s %s", path, problem)
	}
	private, isPrivate := key.(*rsa.PrivateKey)
	if isPrivate && openTo(info.Mode(), 0o077) {
		return jose.JSONWebKey{}, refuse(flag, "run chmod 600 "+shellQuote(path), "%s", openProblem(path, info.Mode()))
	}
	public, _ := key.(*rsa.PublicKey)
	if isPrivate {
		if err := private.Validate(); err != nil {
			return jose.JSONWebKey{}, refuse(flag, makeKey, "%s holds a key that does not fit together: %s", path, err).because(err)
		}
		public = &private.PublicKey
	}
	if n := public.N.BitLen(); n < MinKeyBits || n > MaxKeyBits {
		return jose.JSONWebKey{}, refuse(flag, makeKey, "%s holds a key of %d bits, %d to %d are accepted", path, n, MinKeyBits, MaxKeyBits)
	}
	jwk := jose.JSONWebKey{Key: key, Algorithm: string(jose.RS256), Use: "sig"}
	if jwk.KeyID, err = keyID(public); err != nil {
		return jose.JSONWebKey{}, refuse(flag, makeKey, "%s: %s", path, err).because(err)
	}
	return jwk, nil
}

// keyID is the RFC 7638 thumbprint: the same key has the same kid on every instance and after every restart.
func keyID(public *rsa.PublicKey) (string, error) {
	jwk := jose.JSONWebKey{Key: public}
	sum, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("computing the key's thumbprint: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}

// parseKey reads one PEM block and returns a *rsa.PrivateKey or *rsa.PublicKey, or what is wrong with it.
func parseKey(text []byte) (key any, problem, remedy string) {
	block, rest := pem.Decode(text)
	if block == nil {
		return nil, "holds no PEM", "name a file that begins with -----BEGIN, or " + makeKey
	}
	if more, _ := pem.Decode(rest); more != nil && block.Type != "EC PARAMETERS" {
		return nil, "holds more than one PEM block", "put each key into a file of its own"
	}
	if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" || block.Headers["Proc-Type"] != "" {
		return nil, "is encrypted", "decrypt it with: openssl pkey -in FILE -out NEWFILE, and chmod 600 NEWFILE"
	}
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "EC PRIVATE KEY", "EC PARAMETERS":
		return nil, "holds an elliptic curve key, RS256 needs RSA", makeKey
	case "OPENSSH PRIVATE KEY":
		return nil, "holds a key in OpenSSH's own form", makeKey
	case "CERTIFICATE":
		return nil, "holds a certificate, not a key", "take the key out with: openssl x509 -in FILE -pubkey -noout, or " + makeKey
	default:
		return nil, "holds a PEM block that is no RSA key", makeKey
	}
	if err != nil {
		return nil, "holds a damaged key: " + err.Error(), "restore the file, or " + makeKey
	}
	switch key.(type) {
	case *rsa.PrivateKey, *rsa.PublicKey:
		return key, "", ""
	}
	return nil, "holds a key that is not RSA, which RS256 needs", makeKey
}

// GenerateKey writes a new RSA private key as PKCS#8 PEM, readable by its owner only and on the disk when it returns,
// and returns its kid. It never overwrites: an existing path is an error that wraps os.ErrExist, because a lost key
// ends every session that it signed. bits is [MinKeyBits] to [MaxKeyBits].
func GenerateKey(path string, bits int) (kid string, err error) {
	if bits < MinKeyBits || bits > MaxKeyBits {
		return "", fmt.Errorf("making a key of %d bits: choose %d to %d", bits, MinKeyBits, MaxKeyBits)
	}
	// Before the slow part; createFile does not overwrite either.
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%s: %w: keys are never overwritten, choose another path", path, os.ErrExist)
	}
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return "", fmt.Errorf("making the key: %w", err)
	}
	if kid, err = keyID(&key.PublicKey); err != nil {
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
