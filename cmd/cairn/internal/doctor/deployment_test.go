package doctor_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/mail/mailtest"
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/cmd/cairn/internal/doctor"
	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

const publicHost = "id.example.org"

// deployment is an installation as people run it: the service on loopback, behind a proxy that speaks TLS for its
// public name, with a server on port 80 and a mail server. A test breaks one thing before or after it was started.
type deployment struct {
	t        *testing.T
	settings config.Settings
	options  doctor.Options
	dsn      string
	env      map[string]string
	secrets  []string

	serveSettings func(*config.Settings)               // what serve is given otherwise
	forward       func(*httputil.ProxyRequest)         // of the proxy
	rewrite       func(*http.Response)                 // of the proxy
	between       func(next http.Handler) http.Handler // another proxy
	plain         http.HandlerFunc                     // on port 80; nil: nothing listens
	certificate   certificate
	otherStore    *store.Store // of the service, where it is not that of the settings

	store   *store.Store
	service *httptest.Server
}

// certificate is the one that the proxy presents.
type certificate struct {
	name    string
	days    int
	begin   time.Time // zero: 1970
	unknown bool      // by an authority that is not trusted
	alone   bool      // without the intermediate
}

var keyFile = sync.OnceValue(func() []byte {
	folder, err := os.MkdirTemp("", "cairn-doctor")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "key.pem")
	if _, err := config.GenerateKey(path, config.MinKeyBits); err != nil {
		panic(err)
	}
	key, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return key
})

// newDeployment is healthy until a test changes it. An empty dsn is an SQLite file of its own.
func newDeployment(t *testing.T, dsn string) *deployment {
	t.Helper()
	folder := t.TempDir()
	key := filepath.Join(folder, "key.pem")
	must(t, os.WriteFile(key, keyFile(), 0o600))
	d := &deployment{t: t, dsn: cmp.Or(dsn, filepath.Join(folder, "cairn.db")), settings: config.Defaults(), env: map[string]string{}, certificate: certificate{name: publicHost, days: 60}}
	d.settings.Issuer, d.settings.Database, d.settings.PrivateKeyFile, d.settings.TrustedProxies = "https://"+publicHost, d.dsn, key, []string{"127.0.0.2"}
	d.settings.DataKeyFile = filepath.Join(folder, "data.key")
	must(t, config.GenerateDataKey(d.settings.DataKeyFile))
	d.store = storetest.OpenWith(t, d.dsn, func() ([]byte, error) { return config.LoadDataKey(d.settings.DataKeyFile) })
	hasher, err := password.NewTestHasher()
	must(t, err)
	server := mailtest.New(t, mailtest.Options{})
	d.settings.SMTPURL, d.settings.MailFrom = "smtp://club%40example.org@"+server.Settings.Address, "club@example.org"
	d.options = doctor.Options{
		Deep: true, Hold: time.Second, Hasher: hasher, Lookup: func(name string) (string, bool) { v, is := d.env[name]; return v, is },
		Mail: func(config.Checked) (*mail.SMTP, error) { return mail.NewSMTP(server.Settings), nil },
	}
	d.plain = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+r.Host+r.URL.Path, http.StatusPermanentRedirect)
	}
	d.forward = func(p *httputil.ProxyRequest) {
		p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
		p.SetXForwarded() // appends
	}
	d.secrets = []string{mailtest.Password, d.initialize(d.store)}
	return d
}

// initialize adds an administrator with a second factor, and a backup. It returns a secret.
func (d *deployment) initialize(st *store.Store) string {
	ctx, now := d.t.Context(), time.Now().UTC().Truncate(time.Second)
	secret := rand.Text() + rand.Text()
	settings := account.DefaultSettings()
	settings.SecondFactorFlags = []string{account.FlagAdmin}
	_, err := st.Initialize(ctx, settings, map[string][]byte{account.SecretJWT: []byte(secret),
		account.SecretInstallation: []byte(rand.Text() + rand.Text())})
	must(d.t, err)
	by := account.Operator().Audit(now, account.ChangeProfile, "keeper", "")
	u := account.User{Sub: uuid.NewString(), Handle: "keeper", DisplayName: "Keeper", PasswordHash: "none that fits", Flags: []string{account.FlagAdmin}, CreatedAt: now, UpdatedAt: now}
	must(d.t, st.CreateUser(ctx, u, by))
	must(d.t, st.CreateSession(ctx, &account.Session{ID: uuid.NewString(), Sub: u.Sub,
		Algorithm: account.AlgorithmRS256, CreatedAt: now, AuthTime: now, LastSeenAt: now, ExpiresAt: now.Add(time.Hour)}, u.PasswordHash, by))
	_, err = st.AddTOTP(ctx, u.Sub, account.TOTP{Secret: "JBSWY3DPEHPK3PXP"}, account.NewFactor{Now: now, Audit: by})
	must(d.t, err)
	d.backup(st, now)
	return secret
}

func (d *deployment) backup(st *store.Store, at time.Time) {
	turn, ok, err := st.TakeTurn(d.t.Context(), "backup", time.Now(), 0, time.Hour)
	if err != nil || !ok {
		d.t.Fatal(ok, err)
	}
	must(d.t, st.EndTurn(d.t.Context(), turn, at, ""))
}

// sql changes the database behind the service's back.
func (d *deployment) sql(statements ...string) {
	d.t.Helper()
	driver, dsn := "sqlite3", "file:"+d.dsn+"?_busy_timeout=10000"
	if strings.HasPrefix(d.dsn, "postgres") {
		driver, dsn = "pgx", d.dsn
	}
	db, err := sql.Open(driver, dsn)
	must(d.t, err)
	defer func() { _ = db.Close() }()
	for _, s := range statements {
		if _, err := db.ExecContext(d.t.Context(), s); err != nil {
			d.t.Fatalf("%s: %v", s, err)
		}
	}
}

// stop ends the service, and its hold on the database.
func (d *deployment) stop() {
	if d.service != nil {
		d.service.Close()
	}
	must(d.t, d.store.Close())
}

// start runs the service and what is in front of it.
func (d *deployment) start() *deployment {
	t := d.t
	settings := d.settings
	if d.serveSettings != nil {
		d.serveSettings(&settings)
	}
	checked, err := settings.Check()
	must(t, err)
	var keys []jose.JSONWebKey
	if !settings.NoOIDC {
		keys, err = config.LoadSigningKeys(settings.PrivateKeyFile, settings.AdditionalKeyFiles)
		must(t, err)
	}
	st := d.store
	if d.otherStore != nil {
		st = d.otherStore
	}
	secret, err := st.Secret(t.Context(), account.SecretJWT)
	must(t, err)
	h, err := httpd.New(t.Context(), httpd.Options{Config: checked, Store: st, Secret: secret, Keys: keys,
		Hasher: d.options.Hasher, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	d.service = &httptest.Server{Listener: listen(t), Config: httpd.NewServer(h, slog.New(slog.DiscardHandler))}
	d.service.Start()
	t.Cleanup(d.service.Close)
	d.settings.Listen = d.service.Listener.Addr().String()

	front := d.proxy(d.service.URL, "127.0.0.2", d.forward)
	if d.between != nil {
		inner := httptest.NewServer(front)
		t.Cleanup(inner.Close)
		front = d.between(d.proxy(inner.URL, "127.0.0.3", d.forward))
	}
	outside := httptest.NewUnstartedServer(front)
	outside.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	d.options.RootCAs = x509.NewCertPool()
	outside.TLS = &tls.Config{Certificates: []tls.Certificate{d.certificate.make(t, d.options.RootCAs)},
		MinVersion: tls.VersionTLS12}
	outside.StartTLS()
	t.Cleanup(outside.Close)
	ports := map[string]string{":443": outside.Listener.Addr().String()}
	if d.plain != nil {
		server := httptest.NewServer(d.plain)
		t.Cleanup(server.Close)
		ports[":80"] = server.Listener.Addr().String()
	}
	d.options.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, port, _ := net.SplitHostPort(address); strings.HasSuffix(host, ".example.org") { // as the DNS would
			address = cmp.Or(ports[":"+port], "127.0.0.1:1")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return d
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	return l
}

// proxy is a real reverse proxy that connects from an address of loopback.
func (d *deployment) proxy(to, from string, forward func(*httputil.ProxyRequest)) http.Handler {
	target, err := url.Parse(to)
	must(d.t, err)
	transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext}
	d.t.Cleanup(transport.CloseIdleConnections)
	p := &httputil.ReverseProxy{Transport: transport, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Host = p.In.Host
			forward(p)
		}}
	if d.rewrite != nil {
		p.ModifyResponse = func(res *http.Response) error { d.rewrite(res); return nil }
	}
	return p
}

func (c *certificate) notBefore() time.Time {
	if c.begin.IsZero() {
		return time.Unix(0, 0)
	}
	return c.begin
}

// make makes the certificate with an intermediate authority; roots gets the one that vouches for it.
func (c certificate) make(t *testing.T, roots *x509.CertPool) tls.Certificate {
	t.Helper()
	end := time.Now().Add(time.Duration(c.days)*24*time.Hour + time.Hour)
	authority := func(serial int64) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: fmt.Sprint("authority ", serial)}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(1, 0, 0),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
	}
	sign := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		if by == nil {
			parent, by = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
		must(t, err)
		cert, err := x509.ParseCertificate(der)
		must(t, err)
		return cert, key
	}
	root, rootKey := sign(authority(1), nil, nil)
	middle, middleKey := sign(authority(2), root, rootKey)
	leaf, key := sign(&x509.Certificate{SerialNumber: big.NewInt(3), NotBefore: c.notBefore(), NotAfter: end, DNSNames: []string{c.name, "login.example.org"}}, middle, middleKey)
	if !c.unknown {
		roots.AddCert(root)
	}
	out := tls.Certificate{Certificate: [][]byte{leaf.Raw, middle.Raw}, PrivateKey: key}
	if c.alone {
		out.Certificate = out.Certificate[:1]
	}
	return out
}

// findings runs the doctor. No finding may hold a secret, and each that asks for something says what.
func (d *deployment) findings() map[string]doctor.Finding {
	d.t.Helper()
	d.options.Settings = d.settings
	list, byName := doctor.Run(d.t.Context(), d.options), map[string]doctor.Finding{}
	for i, f := range list {
		byName[f.Name] = f
		for _, secret := range append([]string{"hunter2"}, d.secrets...) {
			if strings.Contains(f.Found+f.Do, secret) {
				d.t.Errorf("%s shows a secret: %s", f.Name, f.Found)
			}
		}
		if asks := f.Level != doctor.OK && f.Level != doctor.Skipped; f.Name != doctor.Names()[i] || f.Found == "" || asks != (f.Do != "") {
			d.t.Errorf("%+v", f)
		}
	}
	return byName
}

// row reads the single value of a query.
func (d *deployment) row(into any, query string) error {
	driver, dsn := "sqlite3", "file:"+d.dsn+"?_busy_timeout=10000"
	if strings.HasPrefix(d.dsn, "postgres") {
		driver, dsn = "pgx", d.dsn
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return db.QueryRowContext(d.t.Context(), query).Scan(into)
}

var equal, has, must = assert.Equal, assert.Has, assert.Must
