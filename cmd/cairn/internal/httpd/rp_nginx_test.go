//go:build unix

package httpd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const nginxFile = "/usr/sbin/nginx"

// The program as an operator runs it: commands, environment, plain http on
// loopback, and nginx with the certificate in front.
func TestServiceBehindNginxNeverFailsARealRelyingParty(t *testing.T) {
	script := nodeScript(t, "openid_client.mjs", "openid-client")
	needFiles(t, nginxFile)
	dir := t.TempDir()
	front, back := freePort(t), freePort(t)
	issuer := "https://localhost:" + front
	app := registeredApp{ID: "openid-client", Port: freePort(t)}
	app.URL = "http://localhost:" + app.Port

	log := startBehindProxy(t, dir, issuer, back, &app)
	cert := filepath.Join(dir, "cert.pem")
	writePair(t, cert, filepath.Join(dir, "key.pem"))
	copyFile(t, "testdata/rp/nginx.conf", filepath.Join(dir, "nginx.conf"), map[string]string{"SERVER": readmeServer(t, front, back)})
	startProgram(t, front, []string{nginxFile, "-p", dir, "-c", "nginx.conf", "-e", "stderr"})
	startProgram(t, app.Port, script, append(app.environment(issuer), "NODE_EXTRA_CA_CERTS="+cert)...)

	b := browserFrom(t, issuer, cert, "127.0.0.2")
	trail := b.visit(app.URL+"/", "ada")
	saw := app.seen(t, trail)
	want := applicationSaw{Sub: saw.Sub, Name: "Ada", Handle: "ada", RefreshedSub: saw.Sub, RefreshedName: "Ada", Rotated: true}
	if diff := cmp.Diff(want, saw); diff != "" || saw.Sub == "" {
		t.Error(diff)
	}
	var session *http.Cookie
	for _, got := range trail {
		for _, c := range got.Cookies() {
			if strings.Contains(c.Name, "cairn_session") {
				session = c
			}
		}
	}
	if session == nil || session.Name != "__Host-cairn_session" || !session.Secure || !session.HttpOnly || session.Path != "/" || session.Domain != "" {
		t.Errorf("session cookie: %v", session)
	}
	// What a stranger writes into X-Forwarded-For is not an address.
	if got := b.get("/api/me", "X-Forwarded-For", "203.0.113.9"); got.StatusCode != http.StatusOK {
		t.Errorf("session over https: %d %s", got.StatusCode, got.Text)
	}
	if addresses := loggedAddresses(t, log.String(), "/api/me"); len(addresses) != 1 || addresses[0] != "127.0.0.2" {
		t.Errorf("addresses in the log: %v", addresses)
	}
}

// startBehindProxy initializes a database, registers the application and runs
// serve until the test ends.
func startBehindProxy(t *testing.T, dir, issuer, port string, app *registeredApp) *logBuffer {
	t.Helper()
	passwordFile := filepath.Join(dir, "password")
	if err := os.WriteFile(passwordFile, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{
		"SERVICE_DATABASE=" + filepath.Join(dir, "cairn.db"), "SERVICE_LISTEN=127.0.0.1:" + port, "SERVICE_OIDC_ISSUER=" + issuer,
		"SERVICE_OIDC_PRIVATE_KEY_FILE=" + sharedKey(), "SERVICE_TRUSTED_PROXIES=127.0.0.1", "SERVICE_LOG_FORMAT=json",
	}
	command := func(args ...string) []byte {
		t.Helper()
		c := exec.CommandContext(t.Context(), programFile(), args...)
		c.Env = environ
		out, err := c.Output()
		if err != nil {
			t.Fatalf("cairn %v: %v", args, err)
		}
		return out
	}
	command("init", "--handle", "ada", "--display-name", "Ada", "--password-file", passwordFile)
	added := command("client", "add", "Application", "--id", app.ID, "--redirect-uri", app.URL+"/callback", "-o", "json")
	var registered struct {
		Secret string `json:"client_secret"`
	}
	if err := json.Unmarshal(added, &registered); err != nil || registered.Secret == "" {
		t.Fatalf("client add: %v", err)
	}
	app.Secret = registered.Secret
	return startProgram(t, port, []string{programFile(), "serve"}, environ...)
}

// writePair writes a certificate for localhost and its key.
func writePair(t *testing.T, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{keyFile: {Type: "PRIVATE KEY", Bytes: private}, certFile: {Type: "CERTIFICATE", Bytes: cert}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// browserFrom is a browser on another address than the proxy's that trusts
// the certificate.
func browserFrom(t *testing.T, base, cert, address string) *browser {
	t.Helper()
	trusted, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(trusted) {
		t.Fatal("no certificate in the file")
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext:     (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t: t, base: base, client: &http.Client{
		Jar: jar, Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// loggedAddresses are the addresses that asked for a path.
func loggedAddresses(t *testing.T, log, path string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(log) {
		var entry struct{ Msg, Path, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "request" && entry.Path == path {
			out = append(out, entry.Address)
		}
	}
	return out
}
