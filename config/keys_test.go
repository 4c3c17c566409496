package config_test

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// The keys of all tests: making one takes long.
var (
	firstKey  = sync.OnceValue(func() *rsa.PrivateKey { return newKey(2048) })
	secondKey = sync.OnceValue(func() *rsa.PrivateKey { return newKey(2048) })
	smallKey  = sync.OnceValue(func() *rsa.PrivateKey { return newKey(1024) })
)

func newKey(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return key
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func pkcs1(key *rsa.PrivateKey) string {
	return encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

func pkcs8(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return encode("PRIVATE KEY", der)
}

func publicPEM(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	must(t, err)
	return encode("PUBLIC KEY", der)
}

// thumbprint computes RFC 7638 from its text: the required members in lexical order, without blanks.
func thumbprint(key *rsa.PublicKey) string {
	e := binary.BigEndian.AppendUint32(nil, uint32(key.E))
	for e[0] == 0 {
		e = e[1:]
	}
	b64 := base64.RawURLEncoding.EncodeToString
	sum := sha256.Sum256(fmt.Appendf(nil, `{"e":"%s","kty":"RSA","n":"%s"}`, b64(e), b64(key.N.Bytes())))
	return b64(sum[:])
}

func TestOnlyTheFirstKeySigns(t *testing.T) {
	first, second := firstKey(), secondKey()
	preface := "Bag Attributes\n    friendlyName: cairn\n"
	for name, private := range map[string]string{"pkcs1": pkcs1(first), "pkcs8": pkcs8(t, first), "preface": preface + pkcs8(t, first)} {
		for other, additional := range map[string]string{
			"private pkcs1": pkcs1(second), "private pkcs8": pkcs8(t, second), "pkix": publicPEM(t, &second.PublicKey),
			"public pkcs1": encode("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&second.PublicKey)),
		} {
			keys, err := config.LoadSigningKeys(write(t, "a.pem", private), []string{" " + write(t, "b.pem", additional), ""})
			if err != nil {
				t.Errorf("%s, %s: %v", name, other, err)
				continue
			}
			if len(keys) != 2 {
				t.Fatalf("%s, %s: %d keys", name, other, len(keys))
			}
			if signing, ok := keys[0].Key.(*rsa.PrivateKey); !ok || !signing.Equal(first) {
				t.Errorf("%s: the first key is a %T", name, keys[0].Key)
			}
			if public, ok := keys[1].Key.(*rsa.PublicKey); !ok || !public.Equal(&second.PublicKey) {
				t.Errorf("%s: the additional key is a %T", other, keys[1].Key)
			}
			for i, key := range []*rsa.PublicKey{&first.PublicKey, &second.PublicKey} {
				if k := keys[i]; k.KeyID != thumbprint(key) || k.Algorithm != "RS256" || k.Use != "sig" || !k.Valid() {
					t.Errorf("key %d: kid %q, alg %q, use %q", i, k.KeyID, k.Algorithm, k.Use)
				}
			}
		}
	}
	keys, err := config.LoadSigningKeys("", nil)
	if keys != nil || err != nil {
		t.Errorf("no file: %v %v", keys, err)
	}
}

// The first private key of each algorithm signs; of a retired one the public half alone is kept.
func TestFurtherAlgorithmsHaveKeysOfTheirOwn(t *testing.T) {
	newPair := func() (ec *ecdsa.PrivateKey, ed ed25519.PrivateKey) {
		ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err == nil {
			_, ed, err = ed25519.GenerateKey(rand.Reader)
		}
		must(t, err)
		return ec, ed
	}
	ec, ed := newPair()
	oldEC, oldED := newPair()
	sec1, err := x509.MarshalECPrivateKey(ec)
	must(t, err)
	rsaFile := write(t, "a.pem", pkcs8(t, firstKey()))
	for name, text := range map[string]string{"pkcs8": pkcs8(t, ec), "sec1": encode("EC PRIVATE KEY", sec1), "openssl ecparam": encode("EC PARAMETERS", []byte{6, 0}) + encode("EC PRIVATE KEY", sec1)} {
		keys, err := config.LoadSigningKeys(rsaFile, []string{
			write(t, "public.pem", publicPEM(t, &oldEC.PublicKey)), write(t, "ec.pem", text), write(t, "ed.pem", pkcs8(t, ed)), write(t, "old.pem", pkcs8(t, oldED)), write(t, "b.pem", pkcs1(secondKey())),
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := []any{firstKey(), &oldEC.PublicKey, ec, ed, oldED.Public(), &secondKey().PublicKey}
		for i, alg := range []string{"RS256", "ES256", "ES256", "EdDSA", "EdDSA", "RS256"} {
			sum, err := keys[i].Thumbprint(crypto.SHA256)
			if same, ok := want[i].(interface{ Equal(crypto.PrivateKey) bool }); err != nil ||
				keys[i].KeyID != base64.RawURLEncoding.EncodeToString(sum) ||
				keys[i].Algorithm != alg || ok && !same.Equal(keys[i].Key) ||
				keys[i].IsPublic() == slices.Contains([]int{0, 2, 3}, i) {
				t.Errorf("%s: key %d: %s %T", name, i, keys[i].Algorithm, keys[i].Key)
			}
		}
	}
	for _, text := range []string{pkcs8(t, ec), pkcs8(t, ed)} {
		_, err := config.LoadSigningKeys(write(t, "first.pem", text), nil)
		refused(t, err, "--private-key-file", "not RSA", "--additional-key-file")
	}
	_, err = config.LoadSigningKeys(rsaFile, []string{write(t, "c.pem", pkcs8(t, ec)), write(t, "d.pem", publicPEM(t, &ec.PublicKey))})
	refused(t, err, "same key")
	open := write(t, "open.pem", pkcs8(t, ec))
	must(t, os.Chmod(open, 0o644))
	_, err = config.LoadSigningKeys(rsaFile, []string{open})
	refused(t, err, "run chmod 600 "+open)
}

func TestAPublicAdditionalKeyMayBeReadByAll(t *testing.T) {
	public := write(t, "old.pem", publicPEM(t, &secondKey().PublicKey))
	must(t, os.Chmod(public, 0o644))
	if _, err := config.LoadSigningKeys(write(t, "a.pem", pkcs1(firstKey())), []string{public}); err != nil {
		t.Error(err)
	}
}

func TestAnUnfitKeyIsRefused(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	agreement, err := ecdh.X25519().GenerateKey(rand.Reader)
	must(t, err)
	good := pkcs8(t, firstKey())
	encrypted := pem.EncodeToMemory(&pem.Block{
		Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: make([]byte, 64),
	})
	broken := x509.MarshalPKCS1PrivateKey(firstKey())
	broken[len(broken)/2] ^= 0xff
	for _, tt := range []struct {
		name, text string
		words      []string
	}{
		{"empty", "", []string{"holds no PEM", "cairn keys generate"}},
		{"junk", "hunter2", []string{"holds no PEM"}},
		{"cut", good[:len(good)/2], []string{"holds no PEM"}},
		{"damaged", encode("PRIVATE KEY", []byte("hunter2")), []string{"damaged"}},
		{"does not fit together", encode("RSA PRIVATE KEY", broken), nil},
		{"two keys", good + pkcs1(secondKey()), []string{"more than one", "file of its own"}},
		{"encrypted pkcs1", string(encrypted), []string{"is encrypted", "openssl pkey"}},
		{"encrypted pkcs8", encode("ENCRYPTED PRIVATE KEY", make([]byte, 64)), []string{"is encrypted", "openssl pkey"}},
		{"P-384", pkcs8(t, p384), []string{"not RSA"}},
		{"x25519", pkcs8(t, agreement), []string{"not RSA"}},
		{"two ec keys", encode("EC PARAMETERS", []byte{6, 0}) + pkcs8(t, p384) + pkcs8(t, p384), []string{"more than one"}},
		{"openssh", encode("OPENSSH PRIVATE KEY", []byte("x")), []string{"OpenSSH"}},
		{"certificate", encode("CERTIFICATE", []byte("x")), []string{"certificate"}},
		{"dh", encode("DH PARAMETERS", []byte("x")), []string{"not RSA"}},
		{"1024 bits", pkcs1(smallKey()), []string{"1024 bits", "2048"}},
		{"too long", strings.Repeat("\n", 1<<17), []string{"longer than"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := write(t, "key.pem", tt.text)
			_, err := config.LoadSigningKeys(path, nil)
			refused(t, err, append(tt.words, "--private-key-file (SERVICE_OIDC_PRIVATE_KEY_FILE): ", path)...)
			_, err = config.LoadSigningKeys(write(t, "good.pem", good), []string{path})
			refused(t, err, append(tt.words, "--additional-key-file (SERVICE_OIDC_ADDITIONAL_KEY_FILES): ", path)...)
			lacks(t, fmt.Sprintf("the error repeats the file: %v", err), fmt.Sprint(err), "hunter2")
		})
	}
}

func TestAKeySetThatContradictsItselfIsRefused(t *testing.T) {
	private := write(t, "a.pem", pkcs8(t, firstKey()))
	again := write(t, "again.pem", publicPEM(t, &firstKey().PublicKey))
	_, err := config.LoadSigningKeys("", []string{private})
	refused(t, err, "--additional-key-file", "set --private-key-file")
	_, err = config.LoadSigningKeys(private, []string{again})
	refused(t, err, "--additional-key-file", "same key", private, again)
	other := write(t, "b.pem", pkcs1(secondKey()))
	_, err = config.LoadSigningKeys(private, []string{other, other})
	refused(t, err, "--additional-key-file", "same key")
	_, err = config.LoadSigningKeys(again, nil)
	refused(t, err, "--private-key-file", "cannot sign")
	_, err = config.LoadSigningKeys(filepath.Join(t.TempDir(), "gone.pem"), nil)
	refused(t, err, "--private-key-file", "gone.pem", "cairn keys generate")
	fails(t, "does not wrap os.ErrNotExist", err, os.ErrNotExist)
	_, err = config.LoadSigningKeys(t.TempDir(), nil)
	refused(t, err, "--private-key-file", "is a folder")
}

func TestAPrivateKeyThatOthersReadIsRefused(t *testing.T) {
	private, other := write(t, "a.pem", pkcs8(t, firstKey())), write(t, "b.pem", pkcs1(secondKey()))
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o620} {
		must(t, os.Chmod(private, mode))
		_, err := config.LoadSigningKeys(private, nil)
		refused(t, err, fmt.Sprintf("mode %04o", mode), "run chmod 600 "+private)
	}
	must(t, errors.Join(os.Chmod(private, 0o400), os.Chmod(other, 0o644)))
	_, err := config.LoadSigningKeys(private, []string{other})
	refused(t, err, "--additional-key-file", "run chmod 600 "+other)
	if _, err := config.LoadSigningKeys(private, nil); err != nil {
		t.Error(err)
	}
}

func TestKeyFileIsNotOverwritten(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "signing.pem")
	kid, err := config.GenerateKey(path, 2048)
	must(t, err)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	keys, err := config.LoadSigningKeys(path, nil)
	if err != nil || len(keys) != 1 || keys[0].KeyID != kid {
		t.Fatalf("the new key does not load as %s: %v", kid, err)
	}
	if sum, err := keys[0].Thumbprint(crypto.SHA256); err != nil || base64.RawURLEncoding.EncodeToString(sum) != kid {
		t.Errorf("kid %s is not the thumbprint: %v", kid, err)
	}
	before, _ := os.ReadFile(path)
	if !strings.HasPrefix(string(before), "-----BEGIN PRIVATE KEY-----") {
		t.Error("not PKCS#8 PEM")
	}
	link := filepath.Join(folder, "link.pem")
	must(t, os.Symlink(filepath.Join(folder, "target.pem"), link))
	for _, taken := range []string{path, link, folder} {
		_, err = config.GenerateKey(taken, 2048)
		refused(t, err, taken, "never overwritten")
		fails(t, "does not wrap os.ErrExist", err, os.ErrExist)
	}
	after, _ := os.ReadFile(path)
	same(t, "the key has changed", string(after), string(before))
	_, err = config.GenerateKey(filepath.Join(folder, "none", "signing.pem"), 2048)
	refused(t, err, "key file cannot be written")
	for _, bits := range []int{0, 1024, 2047, 16384} {
		small := filepath.Join(folder, "small.pem")
		_, err = config.GenerateKey(small, bits)
		refused(t, err, "2048")
		if _, err := os.Stat(small); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%d bits leave a file: %v", bits, err)
		}
	}
}

var equal, fails, has, lacks, must = assert.Equal, assert.Fails, assert.Has, assert.Lacks, assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
