package config_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cairn-id/cairn/config"
)

func TestATLSPairIsLoadedOnlyWhenItFitsAndIsClosed(t *testing.T) {
	key := firstKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "id.example.org"}, DNSNames: []string{"id.example.org"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	cert := write(t, "chain.pem", encode("CERTIFICATE", der))
	good, other := write(t, "key.pem", pkcs8(t, key)), write(t, "other.pem", pkcs8(t, secondKey()))
	pair, err := config.TLSFiles{CertFile: cert, KeyFile: good}.Load()
	must(t, err)
	if pair.Leaf == nil || pair.Leaf.DNSNames[0] != "id.example.org" {
		t.Errorf("leaf %v", pair.Leaf)
	}
	_, err = config.TLSFiles{CertFile: cert, KeyFile: other}.Load()
	refused(t, err, "--tls-cert-file (SERVICE_TLS_CERT_FILE): ", "not a pair")
	gone := filepath.Join(t.TempDir(), "gone")
	_, err = config.TLSFiles{CertFile: gone, KeyFile: good}.Load()
	refused(t, err, "--tls-cert-file", gone)
	_, err = config.TLSFiles{CertFile: cert, KeyFile: gone}.Load()
	refused(t, err, "--tls-key-file (SERVICE_TLS_KEY_FILE): ", gone)
	must(t, os.Chmod(good, 0o644))
	_, err = config.TLSFiles{CertFile: cert, KeyFile: good}.Load()
	refused(t, err, "--tls-key-file", "run chmod 600 "+good)
}
