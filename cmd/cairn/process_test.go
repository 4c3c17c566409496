package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/cmd/cairn/internal/libcrypto"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// process is the program run as from a shell, in this process.
type process struct {
	t       *testing.T
	address string
	signer  string
	stop    context.CancelFunc // as SIGTERM does
	code    chan int
	log     chan string // lines after the start; unread ones are dropped
}

// startProcess runs serve on a free port and waits for its log line.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	p := &process{t: t, stop: cancel, code: make(chan int, 1), log: make(chan string, 100)}
	go func() {
		code := Run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args...), nil, strings.NewReader(""), io.Discard, w)
		_ = w.Close()
		p.code <- code
	}()
	t.Cleanup(cancel)
	lines := bufio.NewScanner(r)
	var seen []string
	for lines.Scan() {
		var entry struct{ Msg, Listen, Signer string }
		seen = append(seen, lines.Text())
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "started" {
			p.address, p.signer = entry.Listen, entry.Signer
			go func() {
				for lines.Scan() {
					select {
					case p.log <- lines.Text():
					default:
					}
				}
				close(p.log)
			}()
			return p
		}
	}
	t.Fatalf("serve did not start: %s", strings.Join(seen, "\n"))
	return nil
}

// rest stops the process and returns the lines of its log that were not read.
func (p *process) rest() (lines []string) {
	p.stop()
	for line := range p.log {
		lines = append(lines, line)
	}
	return lines
}

// initializedDatabase runs init in a folder and gives the database's path.
func initializedDatabase(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cairn.db")
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"init", "--database", path, "--handle", "keeper", "--password-file", "-"}, nil, strings.NewReader(password), &out, &errs); code != 0 {
		t.Fatalf("init: %d %s", code, errs.String())
	}
	return path
}

// The log says what signs, and --signer decides it; the key set and the kid are the same.
func TestStartSaysWhatSigns(t *testing.T) {
	database := initializedDatabase(t)
	key := filepath.Join(filepath.Dir(database), "key.pem")
	if _, err := config.GenerateKey(key, 2048); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ setting, want string }{{"go", "crypto/rsa (--signer go)"}, {"auto", "libcrypto 3."}} {
		p := startProcess(t, "--database", database, "--private-key-file", key, "--signer", c.setting)
		if keys, err := config.LoadSigningKeys(key, nil); err != nil {
			t.Fatal(err)
		} else if _, used := libcrypto.Choose(keys[0], false); c.setting == "auto" && !strings.HasPrefix(used, c.want) {
			c.want = used // there is no library here
		}
		if !strings.HasPrefix(p.signer, c.want) {
			t.Errorf("--signer %s: %q", c.setting, p.signer)
		}
		p.stop()
		<-p.code
	}
}

// With a delay /readyz refuses first, so that a proxy goes elsewhere, and all else is served.
func TestStopIsAnnounced(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "--database", initializedDatabase(t), "--shutdown-delay", "2s")
	status := func(path string) int {
		t.Helper()
		return visitor{t, p.address}.get(path, "").Status
	}
	if got := status("/readyz"); got != http.StatusOK {
		t.Fatalf("ready: %d", got)
	}
	p.stop()
	for line := range p.log {
		if strings.Contains(line, `"msg":"stopping"`) {
			break
		}
	}
	if ready, page := status("/readyz"), status("/login/"); ready != http.StatusServiceUnavailable || page != http.StatusOK {
		t.Errorf("/readyz %d, a page %d", ready, page)
	}
	same(t, "exit code", <-p.code, cli.ExitDone)
}

// SIGTERM: the listener closes, what has begun ends well.
func TestStopLetsRequestsInFlightEnd(t *testing.T) {
	p := startProcess(t, "--database", initializedDatabase(t))
	c, err := net.Dial("tcp", p.address)
	fatalIf(t, err)
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	body := `{"handle":"nobody","password":"not the password"}`
	fmt.Fprintf(c, "POST /api/auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	answers := bufio.NewReader(c)
	// The server says 100 when the handler reads: the request is in flight.
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := answers.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p.stop()
	for { // until the listener is closed
		probe, err := net.Dial("tcp", p.address)
		if err != nil {
			break
		}
		_ = probe.Close()
	}
	fmt.Fprint(c, body)
	got, err := http.ReadResponse(answers, nil)
	if err != nil || got.StatusCode != http.StatusUnauthorized {
		t.Errorf("the request in flight: %v %v", got, err)
	}
	same(t, "exit code", <-p.code, cli.ExitDone)
}

// A certificate is read again when its files change; one that does not fit
// leaves the earlier one in use.
func TestCertificateIsReloadedWhenItsFilesChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, 1)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	fatalIf(t, err)
	metrics := free.Addr().String()
	_ = free.Close()
	p := startProcess(t, "--database", initializedDatabase(t), "--issuer", "https://localhost", "--tls-cert-file", cert, "--tls-key-file", key,
		"--metrics-listen", metrics)
	serial := func() (int64, string) {
		c, err := tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // a self-signed certificate of the test
		fatalIf(t, err)
		defer func() { _ = c.Close() }()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), c.ConnectionState().NegotiatedProtocol
	}
	if n, protocol := serial(); n != 1 || protocol != "h2" {
		t.Fatalf("serial %d over %q", n, protocol)
	}
	series := visitor{t, metrics}.get("/metrics", "").Body
	end := regexp.MustCompile(`(?m)^cairn_tls_certificate_end_timestamp_seconds (\S+)$`).FindStringSubmatch(series)
	if end == nil {
		t.Fatalf("no end of the certificate among the metrics: %s", series)
	}
	if seconds, err := strconv.ParseFloat(end[1], 64); err != nil ||
		math.Abs(seconds-float64(time.Now().Add(time.Hour).Unix())) > 60 {
		t.Errorf("the certificate of an hour ends at %s: %v", end[1], err)
	}
	waitFor := func(want int64) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			if n, _ := serial(); n == want {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatalf("certificate %d is not served", want)
	}
	writePair(t, cert, key, 2)
	waitFor(2)
	fatalIf(t, os.WriteFile(cert, []byte("junk"), 0o600))
	for end, said := time.Now().Add(10*time.Second), ""; !strings.Contains(said, "certificate not reloaded"); {
		if n, _ := serial(); n != 2 || time.Now().After(end) {
			t.Fatalf("a broken file changed the certificate to %d, or was not read: %s", n, said)
		}
		select {
		case said = <-p.log:
		case <-time.After(20 * time.Millisecond):
		}
	}
	writePair(t, cert, key, 3)
	waitFor(3)
	p.stop()
	same(t, "exit code", <-p.code, cli.ExitDone)
}

// TLS 1.2 has suites without forward secrecy and with MAC-then-encrypt; the
// handshake tells which are offered.
func TestTLS12OffersECDHEWithAEADAlone(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	fatalIf(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatalIf(t, err)
	for kind, key := range map[string]crypto.Signer{"RSA": rsaKey, "ECDSA": ecKey} {
		cert, file := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
		writePairOf(t, cert, file, 1, key)
		p := startProcess(t, "--database", initializedDatabase(t), "--issuer", "https://localhost", "--tls-cert-file", cert, "--tls-key-file", file)
		var offered []string
		for _, suite := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
			if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
				continue
			}
			c, err := tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}}) //nolint:gosec // TLS 1.2 is under test
			if err == nil {
				offered = append(offered, suite.Name)
				_ = c.Close()
			}
		}
		prefix := "TLS_ECDHE_" + kind + "_WITH_"
		want := []string{prefix + "AES_128_GCM_SHA256", prefix + "AES_256_GCM_SHA384", prefix + "CHACHA20_POLY1305_SHA256"}
		if slices.Sort(offered); !slices.Equal(offered, want) {
			t.Errorf("%s: offered %v", kind, offered)
		}
		p.stop()
		<-p.code
	}
}

func writePair(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatalIf(t, err)
	writePairOf(t, certFile, keyFile, serial, key)
}

func writePairOf(t *testing.T, certFile, keyFile string, serial int64, key crypto.Signer) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	fatalIf(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	fatalIf(t, err)
	for file, block := range map[string]*pem.Block{keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}, certFile: {Type: "CERTIFICATE", Bytes: der}} {
		fatalIf(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
}

// A key that was forgotten at a restart would sign all users out, and the
// service would only have said so in its log.
func TestServeRefusesToStartWithoutTheKeyThatHasSigned(t *testing.T) {
	database := initializedDatabase(t)
	withoutKey := func() (code int, errs string) {
		var log bytes.Buffer
		code = Run(t.Context(), []string{"serve", "--listen", "nowhere.invalid:0", "--database", database}, nil, strings.NewReader(""), &log, &log)
		return code, log.String()
	}
	if _, errs := withoutKey(); !strings.Contains(errs, "--listen") { // as far as it gets
		t.Fatalf("before there was a key: %s", errs)
	}
	key := filepath.Join(t.TempDir(), "key.pem")
	if _, err := config.GenerateKey(key, config.MinKeyBits); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "--database", database, "--private-key-file", key)
	visitor{t, p.address}.signIn("keeper")
	p.stop()
	<-p.code
	other := filepath.Join(t.TempDir(), "other.pem")
	_, err := config.GenerateKey(other, config.MinKeyBits)
	fatalIf(t, err)
	for i, keys := range [][]string{{key}, {other, "--additional-key-file", key}, {key}, {key}} {
		log := strings.Join(startProcess(t, append([]string{"--database", database, "--private-key-file"}, keys...)...).rest(), "")
		same(t, "warns of another key", strings.Contains(log, "which is in no key file of this one"), i == 2)
	}
	code, errs := withoutKey()
	if code != cli.ExitFailed || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{"--private-key-file", "SERVICE_OIDC_PRIVATE_KEY_FILE", filepath.Base(database), "RS256", "cairn.yaml", "--no-oidc"} {
		has(t, "does not name", errs, want)
	}
	p = startProcess(t, "--database", database, "--no-oidc", "--private-key-file", key)
	same(t, "with --no-oidc", visitor{t, p.address}.get("/.well-known/jwks.json", "").Status, http.StatusNotFound)
	p.stop()
	<-p.code
}

// The counters of a service on SQLite are in its memory: the command reaches them all the same.
func TestUnlockReachesARunningService(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		s.stdin = password
		s.must("user", "add", "ada", "--password-file", "-")
		p := startProcess(t, "--database", dsn, "--private-key-file", "key.pem", "--data-key-file", "data.key")
		login := func(password string, want int) {
			t.Helper()
			same(t, "sign in", visitor{t, p.address}.login("ada", password).Status, want)
		}
		has(t, "user", s.must("user", "show", "ada", "-o", "json"), `"locked_until": null`)
		for range 10 {
			login("a wrong password", http.StatusUnauthorized)
		}
		login(password, http.StatusTooManyRequests)
		has(t, "user", s.must("user", "show", "ada"), "by wrong passwords or codes: cairn user unlock ada")
		same(t, "s.must('user', 'unlock', 'ada')", s.must("user", "unlock", "ada"), "can try again  ada\n")
		login("a wrong password", http.StatusUnauthorized)
		login(password, http.StatusOK)
		lacks(t, "user", s.must("user", "show", "ada"), "wrong passwords")
		has(t, "audit", s.must("audit", "list"), "The operator unlocked sign-in for ada’s account")
	})
}

// Whoever takes the power from an administrator by a command reads what they did with it, and what undoes that.
func TestCommandsSayWhatAnAdministratorDid(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		s.stdin = password
		s.must("user", "add", "thief", "--password-file", "-")
		s.must("user", "flags", "thief", "+admin")
		s.must("user", "flags", "keeper", "-activity")
		s.must("user", "add", "victim", "--password-file", "-")
		s.must("user", "flags", "victim", "+activity@2099-12-24")
		p := startProcess(t, "--database", dsn, "--private-key-file", "key.pem", "--data-key-file", "data.key")
		v := visitor{t, p.address}
		thief := v.signIn("thief")
		for _, c := range [][3]string{
			{"POST", "admin/users", `{"handle":"mole","flags":{"admin":true}}`},
			{"PATCH", "admin/users/mole", `{"email":"mole@evil.example"}`},
			{"PUT", "admin/users/keeper/flags", `{"activity":true}`},
			{"PUT", "admin/settings", `{"contact":"evil@example.org"}`},
			{"PUT", "admin/users/victim/flags", `{"activity":false}`},
			{"POST", "admin/users/victim/suspend", ""},
			{"POST", "admin/users/victim/reset-factors", ""},
		} {
			if a := v.send(c[0], "/api/"+c[1], thief, browser.JSONType, c[2]); a.Status >= 300 {
				t.Fatalf("%s: %d", c[1], a.Status)
			}
		}
		for i, c := range [][]string{{"flags", "thief", "-admin"}, {"suspend", "thief"}, {"delete", "thief", "--yes"}} {
			if i > 0 {
				s.must("user", "unsuspend", "thief")
				s.must("user", "flags", "thief", "+admin")
			}
			got := s.must(append([]string{"user"}, c...)...)
			for _, want := range []string{
				`account added +\S+, mole: cairn user suspend mole\n`, `setting changed +\S+, contact, before: ""\n`,
				`permission given +\S+, keeper activity: cairn user flags keeper -activity\n`,
				`address changed +\S+, mole: cairn user update mole --email=\n`,
				`suspended +\S+, victim: cairn user unsuspend victim\n`, `user\.reset_factors +\S+, victim\n`,
				`permission taken +\S+, victim activity@2099\S+: cairn user flags victim \+activity@2099-12-2\dT\S+\n`,
			} {
				if !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("%s: %s does not say %s", c[0], got, want)
				}
			}
			if voided := strings.Contains(got, "code or link voided"); voided != (i == 0) {
				t.Errorf("%s: voids codes: %t", c[0], voided)
			}
		}
	})
}

// A standby and a read-only database answer every read, and only people notice: nobody can sign in.
func TestDatabaseThatTakesNoWritesIsNotReady(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		if !store.IsPostgres(dsn) {
			return
		}
		const says = "the PostgreSQL server takes no writes: default_transaction_read_only is on"
		fatalIf(t, os.WriteFile("apply.yaml", []byte("clients: []"), 0o600))
		p := startProcess(t, "--database", dsn+"&default_transaction_read_only=on", "--private-key-file", "key.pem", "--data-key-file", "data.key", "--apply", "apply.yaml")
		if line := <-p.log; !strings.Contains(line, says) || !strings.Contains(line, "WARN") {
			t.Errorf("serve logs %s", line)
		}
		if got := (visitor{t, p.address}).get("/readyz", ""); got.Status != http.StatusServiceUnavailable ||
			!strings.Contains(got.Body, says) {
			t.Errorf("/readyz: %d %s", got.Status, got.Body)
		}
		has(t, "serve logs", strings.Join(p.rest(), "\n"), "--apply (SERVICE_APPLY): nothing was applied")
		if _, out := s.run("doctor", "--offline", "--database",
			dsn+"&default_transaction_read_only=on"); !strings.Contains(out, "problem  database-writes         Nobody can sign in: "+says) {
			t.Error(out)
		}
		if _, out := s.run("doctor", "--offline"); !strings.Contains(out, "ok       database-writes") {
			t.Error(out)
		}
	})
}

// In another encoding a name with other letters is an error at the first registration that has one.
func TestInitRefusesAnotherEncoding(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		if !store.IsPostgres(dsn) {
			return
		}
		db, err := sql.Open("pgx", dsn)
		fatalIf(t, err)
		defer func() { _ = db.Close() }()
		name := fmt.Sprintf("cairn_latin1_%d", os.Getpid())
		_, err = db.Exec("CREATE DATABASE " + name + " ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
		fatalIf(t, err)
		defer func() { _, err := db.Exec("DROP DATABASE " + name); fatalIf(t, err) }()
		u, err := url.Parse(dsn)
		fatalIf(t, err)
		query := u.Query()
		query.Del("search_path")
		u.Path, u.RawQuery = "/"+name, query.Encode()
		s.refused([]string{"make it with createdb"}, "client", "list", "--database", strings.Replace(u.String(), name, "none", 1))
		s.stdin = password
		s.refused([]string{"the encoding LATIN1", "createdb --encoding UTF8"}, "init", "--config", "other.yaml", "--database", u.String(), "--handle", "keeper", "--password-file", "-", "--data-key-file", "other.key")
	})
}

// A second service that was forgotten answers somebody, with other settings or an earlier version.
func TestSecondServiceOnOneFileWarns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has the lock")
	}
	t.Parallel()
	database := initializedDatabase(t)
	const says = "another cairn serve has the database"
	warned := func(p *process) bool {
		found := false
		for line := range p.log { // ends with the process
			found = found || strings.Contains(line, says)
		}
		return found
	}
	first, second := startProcess(t, "--database", database), startProcess(t, "--database", database)
	first.stop()
	second.stop()
	if warned(first) || !warned(second) {
		t.Error("the first warns, or the second does not")
	}
	third := startProcess(t, "--database", database)
	third.stop()
	if warned(third) {
		t.Error("it warns of a service that has ended")
	}
}

// The wall clock jumps beside the monotonic one of the process: nothing expired is deleted for an hour.
func TestSweepWaitsAfterAJumpOfTheClock(t *testing.T) {
	sqliteShell(t)
	var up time.Duration
	now := time.Now()
	st, err := store.Open(t.Context(), "cairn.db", store.Options{
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }, Monotonic: func() time.Time { return time.Time{}.Add(up) },
	})
	fatalIf(t, err)
	defer func() { _ = st.Close() }()
	swept := func() time.Time {
		t.Helper()
		fatalIf(t, sweepInTurn(t.Context(), st))
		at, _, err := st.LastTurn(t.Context(), store.TurnSweep)
		fatalIf(t, err)
		return at
	}
	first := swept()
	now = now.AddDate(2, 0, 0)
	if at := swept(); !at.Equal(first) {
		t.Errorf("swept at %v by a clock that jumped", at)
	}
	now, up = now.Add(time.Hour), time.Hour
	if at := swept(); !at.After(first) {
		t.Error("not swept after an hour")
	}
}
