//go:build unix

package httpd

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// A visitor is known while the session lasts, and not a second longer.
func TestRPVerifyGoProgramKnowsWhoIsSignedIn(t *testing.T) {
	foreign(t)
	program := filepath.Join(t.TempDir(), "verify")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../../../docs/verify").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := startService(t, serviceOptions{})
	u := s.addUser("ada")
	port := freePort(t)
	startProgram(t, port, []string{program, "-issuer", s.URL, "-listen", "127.0.0.1:" + port})
	b := s.signedIn("ada")
	cookie := "cairn_session=" + b.cookie("cairn_session")
	visit := func(header ...string) response { return s.browser().get("http://127.0.0.1:"+port+"/", header...) }
	wantStatus(t, "without a cookie", visit(), http.StatusUnauthorized)
	if got := visit("Cookie", cookie); got.StatusCode != http.StatusOK || got.Text != "Hello "+u.DisplayName+" ("+u.Sub+")\n" {
		t.Fatalf("%d %s", got.StatusCode, got.Text)
	}
	b.api("POST", "/api/auth/logout", nil)
	for end := time.Now().Add(20 * time.Second); visit("Cookie", cookie).StatusCode != http.StatusUnauthorized; {
		if time.Now().After(end) {
			t.Fatal("signed out, and known for 20 seconds more")
		}
	}
}

// verifierSettings are the settings of an application's Verifier.
type verifierSettings struct {
	Issuer   string  `json:"issuer"`
	Secret   *string `json:"secret"`
	RS256    bool    `json:"rs256"`
	FailOpen bool    `json:"fail_open"`
}

// verdict is the result for one cookie; one of the fields is set.
type verdict struct {
	Claims      map[string]any `json:"claims"`
	Refused     *string        `json:"refused"`
	Unavailable *string        `json:"unavailable"`
	Setting     *string        `json:"setting"` // the verifier was not even made
}

func (v verdict) String() string {
	switch {
	case v.Refused != nil:
		return "refused"
	case v.Unavailable != nil:
		return "unavailable"
	case v.Setting != nil:
		return "no verifier: " + *v.Setting
	case v.Claims != nil:
		return "accepted"
	}
	return "nothing"
}

// verifierProgram is a program that runs as long as its test, with as many
// verifiers as there are names.
type verifierProgram struct {
	in      *json.Encoder
	answers chan []verdict // closed when the program ends
}

// verifier is one Verifier in the program.
type verifier struct {
	t        *testing.T
	program  *verifierProgram
	name     string
	settings verifierSettings
}

// eachVerifierProgram runs a test once a language.
func eachVerifierProgram(t *testing.T, test func(t *testing.T, p *verifierProgram)) {
	t.Run("Python", func(t *testing.T) {
		packages := "/usr/lib/python3/dist-packages/"
		needFiles(t, "/usr/bin/python3", packages+"jwt", packages+"cryptography")
		// -E -s: nothing of the developer's own; not -I, which finds no file beside the script.
		script := filepath.Join(t.TempDir(), "ask_verifier.py")
		copyFile(t, "testdata/rp/ask_verifier.py", script, nil)
		copyFile(t, "../../../../docs/verify/verify_cookie.py", filepath.Join(filepath.Dir(script), "verify_cookie.py"), nil)
		test(t, startVerifierProgram(t, "/usr/bin/python3", "-E", "-s", "-B", script))
	})
	t.Run("Node", func(t *testing.T) {
		command := nodeScript(t, "ask_verifier.mjs", "jose")
		copyFile(t, "../../../../docs/verify/verify_cookie.mjs", filepath.Join(filepath.Dir(command[1]), "verify_cookie.mjs"), nil)
		test(t, startVerifierProgram(t, command...))
	})
}

func startVerifierProgram(t *testing.T, command ...string) *verifierProgram {
	t.Helper()
	foreign(t)
	errors := &logBuffer{}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stderr = errors
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", command[0], err)
	}
	p := &verifierProgram{in: json.NewEncoder(in), answers: make(chan []verdict, 1)}
	go p.read(out)
	t.Cleanup(func() {
		_ = in.Close() // asks it to end
		deadline := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer deadline.Stop()
		for range p.answers { // Wait closes the pipe, so everything is read before
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended: %v", command[0], err)
		}
		if t.Failed() {
			t.Logf("errors of %s:\n%s", strings.Join(command, " "), errors)
		}
	})
	return p
}

// read hands out the answers, and what is no answer as an empty one.
func (p *verifierProgram) read(out io.Reader) {
	defer close(p.answers)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var answer []verdict
		if json.Unmarshal(lines.Bytes(), &answer) != nil {
			answer = nil
		}
		p.answers <- answer
	}
}

// verifier gives the Verifier of that name; the program makes it with the
// settings when it is first asked.
func (p *verifierProgram) verifier(t *testing.T, name string, settings verifierSettings) *verifier {
	return &verifier{t: t, program: p, name: name, settings: settings}
}

// at puts cookies before the verifier, all at once, at a time that stands still
// until it has decided.
func (v *verifier) at(now time.Time, cookies ...string) []verdict {
	v.t.Helper()
	question := map[string]any{"name": v.name, "settings": v.settings, "now": float64(now.UnixMilli()) / 1000, "cookies": cookies}
	if err := v.program.in.Encode(question); err != nil {
		v.t.Fatalf("ask %s: %v", v.name, err)
	}
	select {
	case answer := <-v.program.answers:
		if len(answer) == 1 && answer[0].Setting != nil || len(answer) == len(cookies) {
			return answer
		}
		v.t.Fatalf("%s answered %v for %d cookies", v.name, answer, len(cookies))
	case <-time.After(time.Minute):
		v.t.Fatalf("%s does not answer", v.name)
	}
	return nil
}

// want checks what becomes of one cookie: accepted, refused or unavailable.
func (v *verifier) want(what, outcome string, now time.Time, cookie string) verdict {
	v.t.Helper()
	got := v.at(now, cookie)[0]
	if got.String() != outcome {
		v.t.Errorf("%s, %s: %s, want %s (%s)", v.name, what, got, outcome, got.reason())
	}
	return got
}

func (v verdict) reason() string {
	for _, text := range []*string{v.Refused, v.Unavailable, v.Setting} {
		if text != nil {
			return *text
		}
	}
	return "no reason"
}

// evilIssuer publishes keys and status lists like the service, and signs
// whatever a test wants. It answers what the test sets for a path.
type evilIssuer struct {
	t      *testing.T
	URL    string
	now    time.Time // of the verifiers; tests add to it
	secret []byte
	key    jose.JSONWebKey // published
	other  jose.JSONWebKey // not published, another kid

	mu      sync.Mutex
	answers map[string]http.HandlerFunc // by path
	asked   map[string]int              // by path, those without an answer too
}

// attackersKey is for everything that the issuer did not sign.
var attackersKey = sync.OnceValue(func() jose.JSONWebKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: "attacker", Use: "sig", Algorithm: "RS256"}
})

func startEvilIssuer(t *testing.T) *evilIssuer {
	t.Helper()
	keys, err := config.LoadSigningKeys(sharedKey(), nil)
	noError(t, err)
	f := &evilIssuer{
		t: t, now: time.Now().Truncate(time.Second), secret: []byte("a-shared-secret-of-more-than-32-bytes"), key: keys[0], other: attackersKey(),
		answers: map[string]http.HandlerFunc{}, asked: map[string]int{},
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.URL = server.URL
	f.answer("/.well-known/jwks.json", f.publish(f.key))
	return f
}

// ServeHTTP counts before it answers.
func (f *evilIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked[r.URL.Path]++
	answer := f.answers[r.URL.Path]
	f.mu.Unlock()
	if answer == nil {
		answer = http.NotFound
	}
	answer(w, r)
}

func (f *evilIssuer) answer(path string, h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[path] = h
}

// requests are those so far, by path.
func (f *evilIssuer) requests() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.asked)
}

// publish answers with a key set.
func (f *evilIssuer) publish(keys ...jose.JSONWebKey) http.HandlerFunc {
	set := jose.JSONWebKeySet{Keys: keys}
	for i := range keys {
		if public := keys[i].Public(); public.Valid() { // a secret has no public half and goes out as it is
			set.Keys[i] = public
		}
	}
	body, err := json.Marshal(set)
	noError(f.t, err)
	return text(string(body))
}

// text answers with a body, and with 304 where the body is known.
func text(body string) http.HandlerFunc {
	etag := strconv.Quote(challengeOf(body))
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write([]byte(body))
	}
}

// claims are those of a good cookie with a place in list 1; change spoils them.
func (f *evilIssuer) claims(change func(c map[string]any)) map[string]any {
	c := map[string]any{
		"iss": f.URL, "sub": "sub-of-ada", "aud": "activity", "iat": f.now.Unix() - 60, "exp": f.now.Unix() - 60 + 30*86400, "auth_time": f.now.Unix() - 60,
		"jti": "jti", "sid": "sid", "preferred_username": "ada", "name": "Ada", "groups": []string{"activity"}, "status": f.place(1, 7),
	}
	if change != nil {
		change(c)
	}
	return c
}

// place is the claim status.
func (f *evilIssuer) place(list int, index any) map[string]any {
	return map[string]any{"status_list": map[string]any{"idx": index, "uri": f.listURI(list)}}
}

func (f *evilIssuer) listURI(list int) string { return f.URL + "/oauth2/status/" + strconv.Itoa(list) }

// cookie is signed as Cairn does.
func (f *evilIssuer) cookie(change func(c map[string]any)) string {
	return f.sign(jose.RS256, f.key, "JWT", f.claims(change), nil)
}

// sign makes a token of any claims; header members are added to it.
func (f *evilIssuer) sign(
	alg jose.SignatureAlgorithm, key any, typ string, claims any, header map[jose.HeaderKey]any,
) string {
	f.t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{}}
	if typ != "" {
		options.WithType(jose.ContentType(typ))
	}
	maps.Copy(options.ExtraHeaders, header)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	noError(f.t, err)
	payload, ok := claims.([]byte)
	if !ok {
		if payload, err = json.Marshal(claims); err != nil {
			f.t.Fatal(err)
		}
	}
	signed, err := signer.Sign(payload)
	noError(f.t, err)
	token, err := signed.CompactSerialize()
	noError(f.t, err)
	return token
}

// reheaded puts another header before a token, whose signature then no longer fits
// or never did.
func reheaded(token, header string) string {
	_, rest, _ := strings.Cut(token, ".")
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + rest
}

// listClaims are those of a good status list of 131,072 sessions, good for 10
// minutes until its exp in two hours; change spoils them.
func (f *evilIssuer) listClaims(list int, revoked []int, change func(c map[string]any)) map[string]any {
	bits := make([]byte, 1<<14)
	for _, i := range revoked {
		bits[i/8] |= 1 << (i % 8)
	}
	c := map[string]any{
		"sub": f.listURI(list), "iat": f.now.Unix(), "exp": f.now.Unix() + 7200, "ttl": 600,
		"status_list": map[string]any{"bits": 1, "lst": packed(bits)},
	}
	if change != nil {
		change(c)
	}
	return c
}

// packed is a lst: zlib and base64url.
func packed(bits []byte) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(bits) // a bytes.Buffer takes everything
	_ = z.Close()
	return base64.RawURLEncoding.EncodeToString(b.Bytes())
}

// serveList publishes a good list as Cairn does with a key.
func (f *evilIssuer) serveList(list int, revoked ...int) {
	f.answer("/oauth2/status/"+strconv.Itoa(list), text(f.sign(jose.RS256, f.key, "statuslist+jwt", f.listClaims(list, revoked, nil), nil)))
}

// schemes are the ways in which an application may be set up, with the
// algorithms that it then believes.
var schemes = map[string][]jose.SignatureAlgorithm{"keys": {jose.RS256}, "secret": {jose.HS256}, "both": {jose.RS256, jose.HS256}}

func (f *evilIssuer) settings(scheme string) verifierSettings {
	s := verifierSettings{Issuer: f.URL, RS256: scheme != "secret"}
	if scheme != "keys" {
		s.Secret = new(string(f.secret))
	}
	return s
}

func (f *evilIssuer) keyOf(alg jose.SignatureAlgorithm) any {
	if alg == jose.HS256 {
		return f.secret
	}
	return f.key
}

// warm makes a verifier that holds its copies of the keys and of list 1, so that
// whatever it asks for afterwards a token made it ask for.
func (f *evilIssuer) warm(p *verifierProgram, name, scheme string) *verifier {
	f.t.Helper()
	alg := schemes[scheme][0]
	f.answer("/oauth2/status/1", text(f.sign(alg, f.keyOf(alg), "statuslist+jwt", f.listClaims(1, []int{500}, nil), nil)))
	v := p.verifier(f.t, name, f.settings(scheme))
	v.want("a good cookie", "accepted", f.now, f.sign(alg, f.keyOf(alg), "JWT", f.claims(nil), nil))
	return v
}

// wrongClaims spoil a cookie that has a good signature: the cases that package session refuses.
func wrongClaims(f, elsewhere *evilIssuer) map[string]func(map[string]any) {
	text, err := os.ReadFile("../../../../account/session/testdata/wrong_claims.json")
	noError(f.t, err)
	filled := strings.NewReplacer("ISSUER", f.URL, "ELSEWHERE", elsewhere.URL, "CAPITALS", strings.ToUpper(f.URL)).Replace(string(text))
	filled = regexp.MustCompile(`"now([^"]*)"`).ReplaceAllStringFunc(filled, func(m string) string {
		d, _ := strconv.ParseFloat(m[4:len(m)-1], 64)
		return strconv.FormatFloat(float64(f.now.Unix())+d, 'f', -1, 64)
	})
	var table map[string]map[string]any
	noError(f.t, json.Unmarshal([]byte(filled), &table))
	cases := map[string]func(map[string]any){
		"lives longer than 30 days": func(c map[string]any) { c["exp"] = f.now.Unix() - 60 + 30*86400 + 1 },
	}
	for name, wrong := range table {
		cases[name] = func(c map[string]any) {
			maps.Copy(c, wrong)
			maps.DeleteFunc(c, func(_ string, v any) bool { return v == "none" })
		}
	}
	return cases
}

// A good signature makes no cookie, and no cookie sends the application to an
// address that it does not know.
func TestRPVerifyRefusesWrongClaims(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		for scheme, algorithms := range schemes {
			f, elsewhere := startEvilIssuer(t), startEvilIssuer(t)
			v := f.warm(p, scheme, scheme)
			before := f.requests()
			for _, alg := range algorithms {
				for name, change := range wrongClaims(f, elsewhere) {
					v.want(string(alg)+", "+name, "refused", f.now, f.sign(alg, f.keyOf(alg), "JWT", f.claims(change), nil))
				}
				for name, payload := range map[string]string{"no object": `["activity"]`, "no JSON": `{"iss":`, "nothing": ``, "nested": strings.Repeat("[", 2500), "null": "null"} {
					v.want(string(alg)+", payload: "+name, "refused", f.now, f.sign(alg, f.keyOf(alg), "JWT", []byte(payload), nil))
				}
				for name, change := range map[string]func(map[string]any){
					"20 s after its end":      func(c map[string]any) { c["iat"], c["exp"] = f.now.Unix()-86400, f.now.Unix()-20 },
					"20 s before its issue":   func(c map[string]any) { c["iat"], c["exp"] = f.now.Unix()+20, f.now.Unix()+20+30*86400 },
					"the bit before an ended": func(c map[string]any) { c["status"] = f.place(1, 499) }, "the bit after an ended": func(c map[string]any) { c["status"] = f.place(1, 501) },
					"the last bit": func(c map[string]any) { c["status"] = f.place(1, 1<<17-1) },
				} {
					v.want(string(alg)+", "+name, "accepted", f.now, f.sign(alg, f.keyOf(alg), "JWT", f.claims(change), nil))
				}
			}
			same(t, fmt.Sprintf("%s: the tokens caused requests", scheme), cmp.Diff(before, f.requests()), "")
			if asked := elsewhere.requests(); len(asked) > 0 {
				t.Errorf("%s: another origin was asked: %v", scheme, asked)
			}
		}
	})
}

// The header chooses between what the application has set up, and nothing more.
func TestRPVerifyChoosesTheKey(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		for scheme, algorithms := range schemes {
			f, elsewhere := startEvilIssuer(t), startEvilIssuer(t)
			elsewhere.answer("/.well-known/jwks.json", elsewhere.publish(f.other))
			v := f.warm(p, scheme, scheme)
			good := f.claims(nil)
			public, err := x509.MarshalPKIXPublicKey(&f.key.Key.(*rsa.PrivateKey).PublicKey)
			noError(t, err)
			publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
			kid := map[jose.HeaderKey]any{"kid": f.key.KeyID}
			sameKid := jose.JSONWebKey{Key: f.other.Key, KeyID: f.key.KeyID}
			attacker := f.other.Public()
			rs := f.sign(jose.RS256, f.key, "JWT", good, nil)
			header, payload, _ := strings.Cut(strings.TrimSuffix(rs, rs[strings.LastIndex(rs, "."):]), ".")
			cases := map[string]string{
				"HS256 with the public key":        f.sign(jose.HS256, publicPEM, "JWT", good, kid),
				"HS256 with the DER of it":         f.sign(jose.HS256, public, "JWT", good, kid),
				"HS256 with an empty secret":       hs256(`{"alg":"HS256","typ":"JWT"}`, payload, nil),
				"HS256 with another secret":        f.sign(jose.HS256, []byte(strings.Repeat("x", 40)), "JWT", good, nil),
				"HS512 with the secret":            f.sign(jose.HS512, []byte(strings.Repeat(string(f.secret), 2)), "JWT", good, nil),
				"RS256 of another key":             f.sign(jose.RS256, f.other, "JWT", good, nil),
				"RS256 of another key, known kid":  f.sign(jose.RS256, sameKid, "JWT", good, nil),
				"RS256 without a kid":              f.sign(jose.RS256, f.key.Key, "JWT", good, nil),
				"RS256 with a kid of 3,000 bytes":  f.sign(jose.RS256, jose.JSONWebKey{Key: f.key.Key, KeyID: strings.Repeat("k", 3000)}, "JWT", good, nil),
				"RS384 of the key":                 f.sign(jose.RS384, jose.JSONWebKey{Key: f.key.Key, KeyID: f.key.KeyID}, "JWT", good, nil),
				"PS256 of the key":                 f.sign(jose.PS256, jose.JSONWebKey{Key: f.key.Key, KeyID: f.key.KeyID}, "JWT", good, nil),
				"a key of its own in jwk":          f.sign(jose.RS256, f.other.Key, "JWT", good, map[jose.HeaderKey]any{"jwk": attacker}),
				"a key of its own at jku":          f.sign(jose.RS256, f.other, "JWT", good, map[jose.HeaderKey]any{"jku": elsewhere.URL + "/.well-known/jwks.json"}),
				"RS256 header, HS256 signature":    hs256(`{"alg":"RS256","typ":"JWT","kid":"`+f.key.KeyID+`"}`, payload, publicPEM),
				"no signature":                     header + "." + payload + ".",
				"half a signature":                 rs[:len(rs)-20],
				"another payload":                  header + "." + payload[:len(payload)-8] + "AAAAAAAA" + rs[strings.LastIndex(rs, "."):],
				"alg in small letters":             reheaded(rs, `{"alg":"rs256","typ":"JWT","kid":"`+f.key.KeyID+`"}`),
				"alg a list":                       reheaded(rs, `{"alg":["RS256"],"typ":"JWT","kid":"`+f.key.KeyID+`"}`),
				"kid a number":                     reheaded(rs, `{"alg":"RS256","typ":"JWT","kid":7}`),
				"kid an object":                    reheaded(rs, `{"alg":"RS256","typ":"JWT","kid":{"a":1}}`),
				"kid of the prototype":             reheaded(rs, `{"alg":"RS256","typ":"JWT","kid":"__proto__"}`),
				"header nested":                    reheaded(rs, `{"alg":"RS256","typ":"JWT","x":`+strings.Repeat("[", 2500)),
				"header a list":                    reheaded(rs, `[]`),
				"header nothing":                   "." + payload + ".",
				"header not base64":                "%%%." + payload + ".AAAA",
				"empty":                            "",
				"a dot":                            ".",
				"four parts":                       rs + ".AAAA",
				"two parts":                        header + "." + payload,
				"five parts, as encrypted":         "eyJhbGciOiJkaXIiLCJlbmMiOiJBMTI4R0NNIn0....",
				"JSON serialization":               `{"payload":"` + payload + `","protected":"` + header + `","signature":"AAAA"}`,
				"letters outside base64url":        strings.Replace(rs, ".", ".\u00e9", 1),
				"half a surrogate pair":            "\xed\xa0\x80" + rs,
				"5 kB":                             f.sign(jose.RS256, f.key, "JWT", f.claims(func(c map[string]any) { c["name"] = strings.Repeat("x", 5000) }), nil),
				"1 MB":                             strings.Repeat("A", 1<<20),
				"a status list of the same signer": f.sign(algorithms[0], f.keyOf(algorithms[0]), "statuslist+jwt", f.listClaims(1, nil, nil), nil),
			}
			for _, none := range []string{"none", "None", "NONE", ""} {
				cases["alg "+none] = reheaded(header+"."+payload+".", `{"alg":"`+none+`","typ":"JWT"}`)
				cases["alg "+none+" with a signature"] = reheaded(rs, `{"alg":"`+none+`","typ":"JWT","kid":"`+f.key.KeyID+`"}`)
			}
			for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.HS256} {
				for _, typ := range []string{"", "at+jwt", "logout+jwt", "statuslist+jwt", "JWS", "JWT "} {
					cases[string(alg)+" with the typ "+typ] = f.sign(alg, f.keyOf(alg), typ, good, nil)
				}
				cases[string(alg)+" with an extension"] = f.sign(alg, f.keyOf(alg), "JWT", good, map[jose.HeaderKey]any{"crit": []string{"exp"}, "exp": 1})
			}
			switch scheme {
			case "keys":
				cases["HS256 of the secret"] = f.sign(jose.HS256, f.secret, "JWT", good, nil)
			case "secret":
				cases["RS256 of the key"] = rs
			}
			before := f.requests()
			for name, token := range cases {
				v.want(name, "refused", f.now, token)
			}
			same(t, fmt.Sprintf("%s: the tokens caused requests", scheme), cmp.Diff(before, f.requests()), "")
			if asked := elsewhere.requests(); len(asked) > 0 {
				t.Errorf("%s: another origin was asked: %v", scheme, asked)
			}
		}
	})
}

// hs256 signs with any secret, also one that go-jose would not take.
func hs256(header, payload string, secret []byte) string {
	token := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + payload
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(token))
	return token + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// An empty variable of the environment must not become a secret that everybody
// knows.
func TestRPVerifyRefusesAWeakSetting(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		f := startEvilIssuer(t)
		for name, settings := range map[string]verifierSettings{
			"neither":                  {Issuer: f.URL},
			"blank secret":             {Issuer: f.URL, Secret: new(""), RS256: true},
			"blank secret, no keys":    {Issuer: f.URL, Secret: new("")},
			"short secret beside keys": {Issuer: f.URL, Secret: new("short"), RS256: true},
			"secret of 31 bytes":       {Issuer: f.URL, Secret: new(strings.Repeat("s", 31))},
		} {
			if got := p.verifier(t, name, settings).at(f.now, "x")[0]; got.Setting == nil {
				t.Errorf("%s: %s", name, got)
			}
		}
	})
}

// A thousand visitors at once, or a stranger with invented kids, cost the issuer
// one request.
func TestRPVerifyAsksTheIssuerSeldom(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		f := startEvilIssuer(t)
		f.serveList(1)
		v := p.verifier(t, "keys", f.settings("keys"))
		for i, got := range v.at(f.now, slices.Repeat([]string{f.cookie(nil)}, 40)...) {
			if got.Claims == nil {
				t.Errorf("visitor %d: %s, %s", i, got, got.reason())
			}
		}
		wantAsked := func(what string, keys, lists int) {
			t.Helper()
			if asked := f.requests(); asked["/.well-known/jwks.json"] != keys || asked["/oauth2/status/1"] != lists {
				t.Errorf("%s: %v, want %d for the keys and %d for the list", what, asked, keys, lists)
			}
		}
		wantAsked("40 visitors", 1, 1)

		invented := make([]string, 40)
		for i := range invented {
			invented[i] = f.sign(jose.RS256, jose.JSONWebKey{Key: f.other.Key, KeyID: fmt.Sprintf("kid-%d", i)}, "JWT", f.claims(nil), nil)
		}
		for _, c := range []struct{ second, keys int }{{4, 1}, {6, 2}, {10, 2}, {12, 3}} {
			for i, got := range v.at(f.now.Add(time.Duration(c.second)*time.Second), invented...) {
				if got.Refused == nil {
					t.Errorf("invented kid %d: %s", i, got)
				}
			}
			wantAsked(fmt.Sprintf("invented kids, second %d", c.second), c.keys, 1)
		}
		v.want("a good cookie among them", "accepted", f.now.Add(13*time.Second), f.cookie(nil))
		wantAsked("a good cookie among them", 3, 1)
	})
}

// A new key counts within seconds, a key that is no longer published within ten
// minutes, and an issuer that is away signs nobody out.
func TestRPVerifyFollowsAChangeOfKeys(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		f, elsewhere := startEvilIssuer(t), startEvilIssuer(t)
		next := jose.JSONWebKey{Key: f.other.Key, KeyID: "next", Use: "sig", Algorithm: "RS256"}
		old, fresh := f.cookie(nil), f.sign(jose.RS256, next, "JWT", f.claims(nil), nil)
		after := func(seconds int) time.Time { return f.now.Add(time.Duration(seconds) * time.Second) }
		listOf := func(key jose.JSONWebKey) {
			f.answer("/oauth2/status/1", text(f.sign(jose.RS256, key, "statuslist+jwt", f.listClaims(1, nil, nil), nil)))
		}
		keys := func(h http.HandlerFunc) { f.answer("/.well-known/jwks.json", h) }
		listOf(f.key)
		v := p.verifier(t, "keys", f.settings("keys"))

		elsewhere.answer("/keys", elsewhere.publish(next))
		oct := jose.JSONWebKey{Key: []byte("a-shared-secret-that-was-published"), KeyID: f.key.KeyID, Use: "sig", Algorithm: "RS256"}
		encryption := jose.JSONWebKey{Key: f.key.Key, KeyID: f.key.KeyID, Use: "enc", Algorithm: "RS256"}
		for i, answer := range []http.HandlerFunc{
			http.NotFound, http.RedirectHandler(elsewhere.URL+"/keys", http.StatusFound).ServeHTTP, text("{}"), text(`{"keys":[]}`), text("no keys"),
			f.publish(oct), f.publish(encryption), func(w http.ResponseWriter, r *http.Request) { endless(w, r) },
		} {
			keys(answer)
			v.want("no keys yet", "unavailable", after(6*i), old)
			v.want("no keys yet", "unavailable", after(6*i), fresh)
		}
		if asked := elsewhere.requests(); len(asked) > 0 {
			t.Errorf("another origin was asked: %v", asked)
		}

		keys(f.publish(f.key))
		v.want("the key", "accepted", after(60), old)
		v.want("the next key, not published", "refused", after(66), fresh)
		keys(f.publish(f.key, next))
		v.want("the next key, published", "accepted", after(72), fresh)
		v.want("the key beside it", "accepted", after(72), old)

		listOf(next)
		keys(f.publish(next))
		v.want("the key left out, within ten minutes", "accepted", after(72+599), old)
		v.want("the key left out", "refused", after(72+601), old)
		keys(http.NotFound)
		v.want("the issuer away", "accepted", after(72+2*601), fresh)
		v.want("the issuer away, an unknown key", "unavailable", after(72+2*601), old)
	})
}

// zipBomb is small until it is unpacked; made once, since it takes its time under
// the race detector.
var zipBomb = sync.OnceValue(func() string { return packed(make([]byte, 16<<20)) })

// badLists are answers that are not the status list of the address /oauth2/status/1.
func badLists(f, elsewhere *evilIssuer) map[string]http.HandlerFunc {
	rs256 := func(typ string, claims any) http.HandlerFunc {
		return text(f.sign(jose.RS256, f.key, typ, claims, nil))
	}
	claims := func(change func(map[string]any)) http.HandlerFunc {
		return rs256("statuslist+jwt", f.listClaims(1, nil, change))
	}
	set := func(name string, value any) http.HandlerFunc {
		return claims(func(c map[string]any) { c[name] = value })
	}
	list := func(name string, value any) http.HandlerFunc {
		return claims(func(c map[string]any) { c["status_list"].(map[string]any)[name] = value })
	}
	good := f.listClaims(1, nil, nil)
	token := f.sign(jose.RS256, f.key, "statuslist+jwt", good, nil)
	header, rest, _ := strings.Cut(token, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	zeros := packed(make([]byte, 128))
	elsewhere.answer("/oauth2/status/1", text(token))
	cases := map[string]http.HandlerFunc{
		"list of another address":        set("sub", f.listURI(2)),
		"list of another origin":         set("sub", elsewhere.listURI(1)),
		"expired":                        claims(func(c map[string]any) { c["iat"], c["exp"] = f.now.Unix()-7200, f.now.Unix()-40 }),
		"two bits a session":             list("bits", 2),
		"no bits":                        list("bits", nil),
		"empty list":                     list("lst", packed(nil)),
		"no list":                        list("lst", nil),
		"not base64":                     list("lst", "%%%"),
		"not zlib":                       list("lst", "AAAA"),
		"cut short":                      list("lst", zeros[:len(zeros)-10]),
		"a zip bomb":                     list("lst", zipBomb()),
		"just over 1 MiB":                list("lst", packed(make([]byte, 1<<20+1))),
		"typ of a cookie":                rs256("JWT", good),
		"no typ":                         rs256("", good),
		"a cookie":                       rs256("JWT", f.claims(nil)),
		"of another key":                 text(f.sign(jose.RS256, f.other, "statuslist+jwt", good, nil)),
		"of another key with the kid":    text(f.sign(jose.RS256, jose.JSONWebKey{Key: f.other.Key, KeyID: f.key.KeyID}, "statuslist+jwt", good, nil)),
		"HS256 where only keys count":    text(f.sign(jose.HS256, f.secret, "statuslist+jwt", good, nil)),
		"alg none":                       text(reheaded(header+"."+payload+".", `{"alg":"none","typ":"statuslist+jwt"}`)),
		"no signature":                   text(header + "." + payload + "."),
		"half a signature":               text(header + "." + payload + "." + signature[:200]),
		"a page":                         text("<!doctype html>"),
		"nothing":                        text(""),
		"over 1 MiB":                     text(token + strings.Repeat(" ", 1<<20)),
		"without an end":                 func(w http.ResponseWriter, r *http.Request) { endless(w, r) },
		"no such list":                   http.NotFound,
		"error with a list":              func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503); _, _ = w.Write([]byte(token)) },
		"not modified, but nothing kept": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) },
		"elsewhere":                      http.RedirectHandler(elsewhere.listURI(1), http.StatusFound).ServeHTTP,
		"elsewhere on the issuer":        http.RedirectHandler("/oauth2/status/2", http.StatusTemporaryRedirect).ServeHTTP,
		"connection lost":                func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for _, name := range []string{"sub", "exp", "ttl", "status_list"} {
		cases["no "+name] = claims(func(c map[string]any) { delete(c, name) })
		cases[name+" null"] = set(name, nil)
	}
	return cases
}

// endless writes until the other side has enough.
func endless(w http.ResponseWriter, r *http.Request) {
	for block := bytes.Repeat([]byte("A"), 1<<16); r.Context().Err() == nil; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// Where no list can be had the application says so, and where it has one a bad
// answer takes nothing away from it.
func TestRPVerifyRefusesABadList(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		f, elsewhere := startEvilIssuer(t), startEvilIssuer(t)
		good, ended := f.cookie(nil), f.cookie(func(c map[string]any) { c["status"] = f.place(1, 8) })
		f.serveList(2)
		closed, open := f.settings("keys"), f.settings("keys")
		open.FailOpen = true
		for name, answer := range badLists(f, elsewhere) {
			f.answer("/oauth2/status/1", answer)
			v := p.verifier(t, name, closed)
			v.want("without a copy", "unavailable", f.now, good)
			p.verifier(t, name+", open", open).want("without a copy", "accepted", f.now, good)

			v = p.verifier(t, name+", later", closed)
			f.serveList(1, 8)
			v.want("first", "accepted", f.now, good)
			f.answer("/oauth2/status/1", answer)
			if name != "not modified, but nothing kept" {
				v.want("with a copy", "accepted", f.now.Add(11*time.Minute), good)
			}
			v.want("with a copy, ended", "refused", f.now.Add(11*time.Minute), ended)
		}
		if asked := elsewhere.requests(); len(asked) > 0 {
			t.Errorf("another origin was asked: %v", asked)
		}
	})
}

// The copy serves for its ttl without a request, until its exp where the list
// cannot be had, and then nobody is let in, or everybody but those who are
// known to be out.
func TestRPVerifyTrustsACopyForItsTime(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		f := startEvilIssuer(t)
		place := func(index int) string { return f.cookie(func(c map[string]any) { c["status"] = f.place(1, index) }) }
		ada, bob := place(7), place(8)
		closed, open := f.settings("keys"), f.settings("keys")
		open.FailOpen = true
		v, lax := p.verifier(t, "closed", closed), p.verifier(t, "open", open)
		wantAsked := func(what string, n int) {
			t.Helper()
			same(t, fmt.Sprintf("%s: the list was asked for times", what), f.requests()["/oauth2/status/1"], n)
		}
		after := func(seconds int) time.Time { return f.now.Add(time.Duration(seconds) * time.Second) }

		f.serveList(1)
		v.want("ada", "accepted", after(0), ada)
		v.want("bob", "accepted", after(1), bob)
		wantAsked("two cookies", 1)
		var conditions []string
		unchanged := f.answers["/oauth2/status/1"]
		f.answer("/oauth2/status/1", func(w http.ResponseWriter, r *http.Request) {
			conditions = append(conditions, r.Header.Get("If-None-Match"))
			unchanged(w, r)
		})
		v.want("ada after ttl", "accepted", after(600), ada)
		wantAsked("after ttl", 2)
		if len(conditions) != 1 || len(conditions[0]) < 10 {
			t.Errorf("the request was not conditional: %q", conditions)
		}
		v.want("bob after a 304", "accepted", after(1199), bob)
		wantAsked("within ttl after a 304", 2)

		f.serveList(1, 8)
		v.want("bob, ended, within ttl", "accepted", after(1199), bob)
		v.want("bob, ended", "refused", after(1200), bob)
		wantAsked("after another ttl", 3)
		lax.want("bob", "refused", after(1200), bob)
		wantAsked("another application", 4)

		f.answer("/oauth2/status/1", http.NotFound)
		v.want("ada with the list gone", "accepted", after(1800), ada)
		v.want("ada at once again", "accepted", after(1804), ada)
		wantAsked("within five seconds", 5)
		v.want("bob with the list gone", "refused", after(1806), bob)
		wantAsked("after five seconds", 6)
		v.want("ada before exp", "accepted", after(7199), ada)
		v.want("ada at exp", "unavailable", after(7200), ada)
		v.want("bob at exp", "refused", after(7200), bob)
		lax.want("ada at exp, open", "accepted", after(7200), ada)
		lax.want("bob at exp, open", "refused", after(7200), bob)

		f.now = after(7300)
		f.serveList(1, 8)
		v.want("ada with the list back", "accepted", f.now, ada)
		v.want("bob with the list back", "refused", f.now, bob)
	})
}

// afterTTL is a time at which a verifier may no longer use the copy of the
// status list that it has now.
func (s *service) afterTTL(token string) time.Time {
	s.t.Helper()
	bit, answer := statusBit(s.t, s.browser(), token)
	if bit < 0 {
		s.t.Fatalf("status list: %d %s", answer.StatusCode, answer.Text)
	}
	ttl := time.Duration(jwtPayload(s.t, answer.Text)["ttl"].(float64)) * time.Second
	if ttl < time.Second || ttl > 10*time.Minute {
		s.t.Fatalf("ttl of %s", ttl)
	}
	return time.Now().Add(ttl + time.Second)
}

// wantPerson checks that a cookie is accepted as the right person's.
func (v *verifier) wantPerson(now time.Time, cookie, sub, handle string, groups ...any) {
	v.t.Helper()
	c := v.want(handle, "accepted", now, cookie).Claims
	got, _ := c["groups"].([]any)
	if c["sub"] != sub || c["preferred_username"] != handle || !slices.Equal(got, groups) {
		v.t.Errorf("%s: the cookie of %s says %v", v.name, handle, c)
	}
}

// What revokes a session reaches applications in other languages within the
// list's ttl, and no other session with it.
func TestRPVerifyRefusesAnEndedSessionAfterTheTTL(t *testing.T) {
	for scheme, hs := range map[string]bool{"HS256": true, "RS256": false} {
		t.Run(scheme, func(t *testing.T) {
			eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
				s := startService(t, serviceOptions{HS256: hs})
				keeper := s.joined("keeper", "admin")
				settings := verifierSettings{Issuer: s.URL, RS256: !hs}
				if hs {
					settings.Secret = new(string(s.secret))
				}
				v := p.verifier(t, scheme, settings)
				bystander := s.addUser("bob", "activity", "archive")
				bobs := s.signedIn("bob").cookie("cairn_session")
				for _, c := range []struct {
					handle, how string
					end         func(b *browser) response
				}{
					{"ada", "logout", func(b *browser) response { return b.api("POST", "/api/auth/logout", nil) }},
					{"grace", "end the others", func(*browser) response { return s.signedIn("grace").api("POST", "/api/me/sessions/end-others", nil) }},
					{"linus", "suspension", func(*browser) response { return keeper.api("POST", "/api/admin/users/linus/suspend", nil) }},
				} {
					u := s.addUser(c.handle, "activity")
					b := s.signedIn(c.handle)
					cookie := b.cookie("cairn_session")
					v.wantPerson(time.Now(), cookie, u.Sub, c.handle, "activity")
					if got := c.end(b); got.StatusCode >= http.StatusBadRequest {
						t.Fatalf("%s: %d %s", c.how, got.StatusCode, got.Text)
					}
					v.want(c.how, "refused", s.afterTTL(cookie), cookie)
				}
				v.wantPerson(s.afterTTL(bobs), bobs, bystander.Sub, "bob", "activity", "archive")
			})
		})
	}
}

// During the change from the secret to a key an application has both, and
// afterwards only what it says it has.
func TestRPVerifyAcceptsOldCookiesWhileTheSchemeChanges(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		first := startService(t, serviceOptions{HS256: true})
		u := first.addUser("ada", "activity")
		gone := first.signedIn("ada")
		old, ended := first.signedIn("ada").cookie("cairn_session"), gone.cookie("cairn_session")
		both := p.verifier(t, "both", verifierSettings{Issuer: first.URL, Secret: new(string(first.secret)), RS256: true})
		both.wantPerson(time.Now(), old, u.Sub, "ada", "activity")
		both.wantPerson(time.Now(), ended, u.Sub, "ada", "activity")

		first.server.Close()
		s := restartAt(t, first, first.URL)
		gone.client.CloseIdleConnections()
		needStatus(t, "logout", gone.api("POST", "/api/auth/logout", nil), http.StatusOK)
		fresh := s.signedIn("ada").cookie("cairn_session")
		if before, after := jwtHeader(t, old)["alg"], jwtHeader(t, fresh)["alg"]; before != "HS256" || after != "RS256" {
			t.Fatalf("the service changed from %v to %v", before, after)
		}
		later := s.afterTTL(old)
		both.wantPerson(later, old, u.Sub, "ada", "activity") // its list is signed with the key now
		both.wantPerson(later, fresh, u.Sub, "ada", "activity")
		both.want("ended after the change", "refused", later, ended)

		keys := p.verifier(t, "keys only", verifierSettings{Issuer: s.URL, RS256: true})
		keys.wantPerson(later, fresh, u.Sub, "ada", "activity")
		keys.want("a cookie of the secret", "refused", later, old)
		secret := p.verifier(t, "secret only", verifierSettings{Issuer: s.URL, Secret: new(string(s.secret))})
		secret.want("a cookie of the key", "refused", later, fresh)
		// It cannot read a list of the key: who does not follow the change has to notice.
		secret.want("a cookie of the secret", "unavailable", later, old)
	})
}

// Other tokens that the service signs with the same key are no cookies.
func TestRPVerifyRefusesOtherTokensOfTheService(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		files, _ := keyFiles(t, jose.ES256, jose.EdDSA) // published beside the RSA key, and of no use for cookies
		s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.AdditionalKeyFiles = files }})
		s.addUser("ada", "activity")
		v := p.verifier(t, "RS256", verifierSettings{Issuer: s.URL, RS256: true})
		b, tokens := s.signedInTokens(s.app("app", nil), "ada")
		cookie := b.cookie("cairn_session")
		_, list := statusBit(t, b, cookie)
		v.want("the cookie itself", "accepted", time.Now(), cookie)
		v.want("an ID token", "refused", time.Now(), tokens.Extra("id_token").(string))
		for _, alg := range []string{"ES256", "EdDSA"} {
			_, tokens := s.signedInTokens(s.app(strings.ToLower(alg), func(c *provider.Client) { c.IDTokenAlg = alg }), "ada")
			v.want("an ID token in "+alg, "refused", time.Now(), rawIDToken(tokens))
		}
		v.want("an access token", "refused", time.Now(), tokens.AccessToken)
		v.want("a status list", "refused", time.Now(), list.Text)
	})
}
