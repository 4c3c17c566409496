package bench

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver that the program has
	"golang.org/x/crypto/argon2"
)

// Floor is a bare provider that others are measured against: the least that does the same
// work, with the same durability. It is a measure and not a provider: it knows one client,
// checks what the driver sends and little else, expires nothing, revokes nothing, limits
// nothing and logs nothing.
//
// Requests go through net/http alone. Everything is in SQLite (WAL, synchronous=FULL) by
// prepared statements: a session and an access token are read by one SELECT, a code is one
// INSERT, an exchange one transaction of an UPDATE and two INSERTs. An ID token is one
// RS256 signature of crypto/rsa. Passwords are argon2id as in Cairn.
type Floor struct {
	setup     Setup
	client    string // its Authorization header
	signer    *rsa.PrivateKey
	documents map[string][]byte // by path; made once
	write     *sql.DB           // one connection: SQLite has one writer
	read      *sql.DB

	session, user, token                       *sql.Stmt
	newSession, newCode, newToken, spend, turn *sql.Stmt
}

const (
	floorCookie = "floor_session"
	floorSchema = `
CREATE TABLE users (sub TEXT PRIMARY KEY, handle TEXT NOT NULL UNIQUE, hash BLOB NOT NULL, salt BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (hash BLOB PRIMARY KEY, sub TEXT NOT NULL, created_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE codes (hash BLOB PRIMARY KEY, sub TEXT NOT NULL, challenge TEXT NOT NULL, nonce TEXT NOT NULL, created_at INTEGER NOT NULL, used INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE tokens (hash BLOB PRIMARY KEY, kind TEXT NOT NULL, sub TEXT NOT NULL, created_at INTEGER NOT NULL, used INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;`
)

// NewFloor makes one with a new database file. A signer that is not the published key is for
// the test of the driver; nil is right.
func NewFloor(ctx context.Context, file string, setup Setup, signer *rsa.PrivateKey) (*Floor, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	f := &Floor{setup: setup, client: setup.basic(), signer: key}
	dsn := (&url.URL{Scheme: "file", Opaque: url.PathEscape(file)}).String() + "?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=10000"
	if f.write, err = sql.Open("sqlite3", dsn+"&_txlock=immediate"); err != nil {
		return nil, err
	}
	f.write.SetMaxOpenConns(1)
	if f.read, err = sql.Open("sqlite3", dsn); err != nil {
		return nil, err
	}
	f.read.SetMaxOpenConns(8)
	f.read.SetMaxIdleConns(8)
	if _, err := f.write.ExecContext(ctx, floorSchema); err != nil {
		return nil, err
	}
	salt := random(16)
	hash := floorHash(setup.Password, salt)
	for i, handle := range setup.Handles {
		if _, err := f.write.ExecContext(ctx, "INSERT INTO users VALUES (?, ?, ?, ?)", fmt.Sprintf("00000000-0000-4000-8000-%012d", i), handle, hash, salt); err != nil {
			return nil, err
		}
	}
	for _, s := range []struct {
		into *(*sql.Stmt)
		pool *sql.DB
		text string
	}{
		{&f.session, f.read, "SELECT u.sub FROM sessions s JOIN users u ON u.sub = s.sub WHERE s.hash = ?"},
		{&f.user, f.read, "SELECT sub, hash, salt FROM users WHERE handle = ?"},
		{&f.token, f.read, "SELECT u.sub, u.handle, t.created_at FROM tokens t JOIN users u ON u.sub = t.sub WHERE t.hash = ? AND t.kind = 'a'"},
		{&f.newSession, f.write, "INSERT INTO sessions VALUES (?, ?, ?)"},
		{&f.newCode, f.write, "INSERT INTO codes (hash, sub, challenge, nonce, created_at) VALUES (?, ?, ?, ?, ?)"},
		{&f.newToken, f.write, "INSERT INTO tokens (hash, kind, sub, created_at) VALUES (?, ?, ?, ?)"},
		{&f.spend, f.write, "UPDATE codes SET used = 1 WHERE hash = ? AND used = 0 RETURNING sub, nonce, challenge"},
		{&f.turn, f.write, "UPDATE tokens SET used = 1 WHERE hash = ? AND kind = 'r' AND used = 0 RETURNING sub, '', ''"},
	} {
		if *s.into, err = s.pool.PrepareContext(ctx, s.text); err != nil {
			return nil, err
		}
	}
	f.makeDocuments()
	if signer != nil {
		f.signer = signer
	}
	return f, nil
}

// Close ends the connections to the database.
func (f *Floor) Close() error { return errors.Join(f.read.Close(), f.write.Close()) }

func (f *Floor) makeDocuments() {
	at := func(path string) string { return f.setup.Issuer + path }
	asJSON := func(v any) []byte { b, _ := json.Marshal(v); return b } // of texts: never fails
	f.documents = map[string][]byte{
		"/.well-known/openid-configuration": asJSON(map[string]any{
			"issuer": f.setup.Issuer, "authorization_endpoint": at("/oauth2/authorize"), "token_endpoint": at("/oauth2/token"), "userinfo_endpoint": at("/oauth2/userinfo"),
			"introspection_endpoint": at("/oauth2/introspect"), "jwks_uri": at("/.well-known/jwks.json"), "response_types_supported": []string{"code"},
			"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"S256"},
		}),
		"/.well-known/jwks.json": asJSON(map[string]any{"keys": []any{map[string]string{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "floor", "n": text(f.signer.N.Bytes()), "e": text(big.NewInt(int64(f.signer.E)).Bytes()),
		}}}),
		statusPath: f.sign("statuslist+jwt", map[string]any{
			"sub": at(statusPath), "iat": time.Now().Unix(), "exp": time.Now().Add(24 * time.Hour).Unix(), "status_list": map[string]any{"bits": 1, "lst": text(random(120))},
		}),
	}
}

// ServeHTTP implements http.Handler.
func (f *Floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/oauth2/authorize":
		f.authorize(w, r)
	case "/oauth2/token":
		f.exchange(w, r)
	case "/oauth2/userinfo":
		f.userinfo(w, r)
	case "/oauth2/introspect":
		f.introspect(w, r)
	case "/login/":
		f.signIn(w, r)
	default:
		f.document(w, r)
	}
}

// document serves constant bytes.
func (f *Floor) document(w http.ResponseWriter, r *http.Request) {
	b, ok := f.documents[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	kind := "application/json"
	if r.URL.Path == statusPath {
		const tag = `"floor"`
		kind = "application/statuslist+jwt"
		w.Header().Set("Etag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b)
}

func (f *Floor) signIn(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(`<form method="post"><input name="handle"><input name="password" type="password"><input type="hidden" name="state" value=""><button>Sign in</button></form>`))
		return
	}
	var sub string
	var hash, salt []byte
	err := f.user.QueryRowContext(r.Context(), r.PostFormValue("handle")).Scan(&sub, &hash, &salt)
	if err != nil || subtle.ConstantTimeCompare(hash, floorHash(r.PostFormValue("password"), salt)) == 0 || r.Header.Get("Origin") != f.setup.Issuer {
		http.Error(w, "wrong", http.StatusUnauthorized)
		return
	}
	session := text(random(32))
	if _, err := f.newSession.ExecContext(r.Context(), digest(session), sub, time.Now().Unix()); err != nil {
		http.Error(w, "database", http.StatusInternalServerError)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: floorCookie, Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	w.Header().Set("Location", "/")
	w.WriteHeader(http.StatusSeeOther)
}

func (f *Floor) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var sub string
	cookie, err := r.Cookie(floorCookie)
	if err == nil {
		err = f.session.QueryRowContext(r.Context(), digest(cookie.Value)).Scan(&sub)
	}
	if err != nil || q.Get("client_id") != f.setup.ClientID || q.Get("redirect_uri") != f.setup.RedirectURI || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	code := text(random(32))
	if _, err := f.newCode.ExecContext(r.Context(), digest(code), sub, q.Get("code_challenge"), q.Get("nonce"), time.Now().Unix()); err != nil {
		http.Error(w, "database", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Location", f.setup.RedirectURI+"?code="+code+"&state="+url.QueryEscape(q.Get("state")))
	w.WriteHeader(http.StatusSeeOther)
}

func (f *Floor) isClient(r *http.Request) bool {
	return subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(f.client)) == 1
}

// exchange spends a code or a refresh token for new tokens.
func (f *Floor) exchange(w http.ResponseWriter, r *http.Request) {
	spent, spend := r.PostFormValue("code"), f.spend
	verifier := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	want := text(verifier[:])
	if r.PostFormValue("grant_type") == "refresh_token" {
		spent, spend, want = r.PostFormValue("refresh_token"), f.turn, ""
	}
	access, refresh, now := text(random(32)), text(random(32)), time.Now()
	sub, nonce, err := f.spendFor(r.Context(), spend, spent, want, access, refresh, now)
	if !f.isClient(r) || err != nil {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	claims := map[string]any{"iss": f.setup.Issuer, "sub": sub, "aud": f.setup.ClientID, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "auth_time": now.Unix()}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	w.Header().Set("Cache-Control", "no-store")
	answerJSON(w, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh, "scope": "openid profile offline_access", "id_token": string(f.sign("JWT", claims))})
}

// spendFor is the transaction: one UPDATE, two INSERTs, one fsync.
func (f *Floor) spendFor(ctx context.Context, spend *sql.Stmt, spent, challenge, access, refresh string, now time.Time) (sub, nonce string, err error) {
	tx, err := f.write.BeginTx(ctx, nil)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	var promised string
	if err := tx.StmtContext(ctx, spend).QueryRowContext(ctx, digest(spent)).Scan(&sub, &nonce, &promised); err != nil {
		return "", "", err
	}
	if promised != challenge {
		return "", "", errors.New("wrong verifier")
	}
	for kind, token := range map[string]string{"a": access, "r": refresh} {
		if _, err := tx.StmtContext(ctx, f.newToken).ExecContext(ctx, digest(token), kind, sub, now.Unix()); err != nil {
			return "", "", err
		}
	}
	return sub, nonce, tx.Commit()
}

func (f *Floor) userinfo(w http.ResponseWriter, r *http.Request) {
	const scheme = "Bearer "
	var sub, handle string
	var created int64
	bearer := r.Header.Get("Authorization")
	if len(bearer) < len(scheme) || f.token.QueryRowContext(r.Context(), digest(bearer[len(scheme):])).Scan(&sub, &handle, &created) != nil {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	answerJSON(w, map[string]any{"sub": sub, "preferred_username": handle, "name": handle})
}

func (f *Floor) introspect(w http.ResponseWriter, r *http.Request) {
	var sub, handle string
	var created int64
	if !f.isClient(r) {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	if f.token.QueryRowContext(r.Context(), digest(r.PostFormValue("token"))).Scan(&sub, &handle, &created) != nil {
		answerJSON(w, map[string]any{"active": false})
		return
	}
	answerJSON(w, map[string]any{"active": true, "sub": sub, "client_id": f.setup.ClientID, "token_type": "Bearer", "iat": created, "exp": created + 3600, "scope": "openid profile offline_access"})
}

// sign makes a JWS (RFC 7515) by hand.
func (f *Floor) sign(kind string, claims map[string]any) []byte {
	payload, _ := json.Marshal(claims) // of texts and numbers: never fails
	signed := text([]byte(`{"alg":"RS256","kid":"floor","typ":"`+kind+`"}`)) + "." + text(payload)
	hash := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(nil, f.signer, crypto.SHA256, hash[:])
	if err != nil {
		panic("sign with a key of our own: " + err.Error())
	}
	return []byte(signed + "." + text(signature))
}

func answerJSON(w http.ResponseWriter, document map[string]any) {
	b, _ := json.Marshal(document) // of texts and numbers: never fails
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

// floorHash has the parameters of password.NewHasher.
func floorHash(password string, salt []byte) []byte {
	return argon2.IDKey([]byte(password), salt, 2, 19<<10, 1, 32)
}

func digest(secret string) []byte { sum := sha256.Sum256([]byte(secret)); return sum[:] }

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func text(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
