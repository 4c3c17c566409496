package session_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// wrongLists are tokens that are no list of l.
func wrongLists(t *testing.T, l *lister) map[string]string {
	bits := make([]byte, listSize/8)
	list := func(bits any, lst any) map[string]any {
		return l.with("status_list", map[string]any{"bits": bits, "lst": lst})
	}
	stranger := newRSA(2048)
	der, err := x509.MarshalPKIXPublicKey(&rsaKey().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	published := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	truncated := packed(bits)
	header := func(change map[string]any) map[string]any {
		h := listHeader()
		for name, value := range change {
			if h[name] = value; value == nil {
				delete(h, name)
			}
		}
		return h
	}
	return map[string]string{
		"empty": "", "no token": "hello", "unsigned": forge(map[string]any{"alg": "none", "typ": "statuslist+jwt"}, l.payload(), func(string) []byte { return []byte("x") }),
		"a session token":           l.token(1),
		"typ JWT":                   forge(header(map[string]any{"typ": "JWT"}), l.payload(), byRSA(rsaKey())),
		"no typ":                    forge(header(map[string]any{"typ": nil}), l.payload(), byRSA(rsaKey())),
		"crit":                      forge(header(map[string]any{"crit": []string{"x"}}), l.payload(), byRSA(rsaKey())),
		"its own key":               forge(header(map[string]any{"jwk": publicJWK(stranger, kid)}), l.payload(), byRSA(stranger)),
		"key of a stranger":         forge(listHeader(), l.payload(), byRSA(stranger)),
		"unknown key":               forge(header(map[string]any{"kid": "other"}), l.payload(), byRSA(stranger)),
		"HS256 with the public key": forge(map[string]any{"alg": "HS256", "typ": "statuslist+jwt"}, l.payload(), byHMAC(published)),
		"HS256 with another secret": forge(map[string]any{"alg": "HS256", "typ": "statuslist+jwt"}, l.payload(), byHMAC([]byte(strings.Repeat("y", 40)))),
		"of another list":           rsList(l.with("sub", l.uri(2))),
		"of another issuer":         rsList(l.with("sub", issuer+"/oauth2/status/1")),
		"no sub":                    rsList(l.with("sub", nil)),
		"expired":                   rsList(l.with("exp", clock.Add(-time.Minute).Unix())),
		"exp a string":              rsList(l.with("exp", "tomorrow")),
		"expired this moment":       rsList(l.with("exp", clock.Unix())),
		"exp null":                  rsList(l.with("exp", json.RawMessage("null"))),
		"of the future":             rsList(l.with("iat", clock.Add(31*time.Second).Unix())),
		"no iat":                    rsList(l.with("iat", nil)),
		"iat a fraction":            rsList(l.with("iat", 0.5)),
		"no list":                   rsList(l.with("status_list", nil)),
		"a list of numbers":         rsList(l.with("status_list", []int{1})),
		"bits 0":                    rsList(list(0, packed(bits))),
		"bits 3":                    rsList(list(3, packed(bits))),
		"bits 16":                   rsList(list(16, packed(bits))),
		"bits a string":             rsList(list("1", packed(bits))),
		"no bits":                   rsList(list(nil, packed(bits))),
		"not base64url":             rsList(list(1, "*"+packed(bits))),
		"padded":                    rsList(list(1, packed(bits)+"=")),
		"not zlib":                  rsList(list(1, b64("hello, this is not zlib"))),
		"truncated":                 rsList(list(1, truncated[:len(truncated)-8])),
		"something behind it":       rsList(list(1, b64(string(zlibOf(bits))+"x"))),
		"of nothing":                rsList(list(1, packed(nil))),
		"one byte too much":         rsList(list(1, packed(make([]byte, 1<<20+1)))),
		"cut before the checksum":   rsList(list(1, b64(string(zlibOf(bits)[:len(zlibOf(bits))-4])))),
		"wrong checksum":            rsList(list(1, b64(string(zlibOf(bits)[:len(zlibOf(bits))-1])+"x"))),
		"line end in the list":      rsList(list(1, packed(bits)[:4]+"\n"+packed(bits)[4:])),
		"bits with a fraction":      rsList(strings.Replace(toJSON(l.payload()), `"bits":1`, `"bits":1.0`, 1)),
		"bits twice":                rsList(strings.Replace(toJSON(l.payload()), `"bits":1`, `"bits":1,"bits":1`, 1)),
		"nested":                    rsList(l.with("x", json.RawMessage(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)))),
		"an ID token":               rsToken(map[string]any{"iss": l.URL, "sub": l.uri(1), "aud": "client-1", "iat": clock.Unix(), "exp": clock.Unix() + 3600, "nonce": "n"}),
		"RS256 with the secret":     forge(listHeader(), l.payload(), byHMAC(secret)),
		"HS256 with the kid":        forge(map[string]any{"alg": "HS256", "typ": "statuslist+jwt", "kid": kid}, l.payload(), byRSA(rsaKey())),
		"RS256 without a kid":       forge(header(map[string]any{"kid": nil}), l.payload(), byRSA(rsaKey())),
		"PS256":                     forge(header(map[string]any{"alg": "PS256"}), l.payload(), byRSA(rsaKey())),
		"JSON serialization":        `{"payload":"` + b64(toJSON(l.payload())) + `"}`,
		"two tokens":                rsList(l.payload()) + " " + rsList(l.payload()),
		"twice the same member":     rsList(strings.Replace(toJSON(l.payload()), `{`, `{"sub":"x",`, 1)),
		"too long":                  rsList(l.with("x", strings.Repeat("x", 2<<20))),
	}
}

// Each of these is taken for no list at all: the sessions are not judged by it, and it does not
// take the place of a good copy.
func TestWrongListIsNeverBelieved(t *testing.T) {
	l := newLister(t, 7)
	for name, token := range wrongLists(t, l) {
		l.serve()
		warm := l.lists()
		revoked(t, warm, l.ref(7))
		l.serveText(token)
		l.pass(time.Minute)
		if !revoked(t, warm, l.ref(7)) || revoked(t, warm, l.ref(8)) {
			t.Errorf("%s: the good copy is gone", name)
		}
		l.pass(-time.Minute)
		if got, err := l.lists().Revoked(t.Context(), l.ref(1)); got || !errors.Is(err, session.ErrStatusUnavailable) {
			t.Errorf("%s: revoked %t, %v", name, got, err)
		}
		_, err := l.verifier(l.lists()).Verify(t.Context(), l.token(1))
		if !errors.Is(err, session.ErrStatusUnavailable) || errors.Is(err, session.ErrInvalid) || len(token) > 100 && strings.Contains(err.Error(), token[len(token)-40:]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"304 to who has none": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) },
		"404":                 http.NotFound,
		"a page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(rsList(l.payload())))
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/statuslist+jwt")
			for _, err := w.Write(bytes.Repeat([]byte("a"), 1<<16)); err == nil; _, err = w.Write(bytes.Repeat([]byte("a"), 1<<16)) {
			}
		},
		"a list in an error": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/statuslist+jwt")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(rsList(l.payload())))
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.example/", http.StatusFound)
		},
	} {
		l.answer(answer)
		if got, err := l.lists().Revoked(t.Context(), l.ref(1)); got || !errors.Is(err, session.ErrStatusUnavailable) {
			t.Errorf("%s: revoked %t, %v", name, got, err)
		}
	}
}

// Lists of other issuers' making count as well: two bits a status, HS256, no exp, no ttl.
func TestOtherwiseGenuineListIsNeverRefused(t *testing.T) {
	l := newLister(t)
	two := l.with("status_list", map[string]any{"bits": 2, "lst": packed([]byte{0b11_00_10_01})})
	plain := l.with("ttl", nil)
	delete(plain, "exp")
	four := l.with("status_list", map[string]any{"bits": 4, "lst": packed([]byte{0x0F, 0x20})})
	eight := l.with("status_list", map[string]any{"bits": 8, "lst": packed([]byte{0, 255, 3})})
	for name, c := range map[string]struct {
		token string
		want  []bool
	}{
		"two bits": {rsList(two), []bool{true, true, false, true}},
		"four":     {rsList(four), []bool{true, false, false, true}},
		"eight":    {rsList(eight), []bool{false, true, true}},
		"HS256":    {hsList(l.payload()), []bool{false}},
		"bare":     {rsList(plain), []bool{false}},
		"ages":     {rsList(l.with("ttl", 1<<36)), []bool{false}},
		"line end": {rsList(l.payload()) + "\n", []bool{false}},
		"no ttl":   {rsList(l.with("ttl", 0)), []bool{false}},
		"odd ttl":  {rsList(l.with("ttl", "soon")), []bool{false}},
	} {
		l.serveText(c.token)
		lists := l.lists()
		for i, want := range c.want {
			if got, err := lists.Revoked(t.Context(), l.ref(i)); got != want || err != nil {
				t.Errorf("%s: %d: %t, %v", name, i, got, err)
			}
		}
	}
}

func TestIndexOutsideTheListIsNeverASession(t *testing.T) {
	l := newLister(t)
	lists := l.lists()
	for _, index := range []int{-1, -listSize, math.MinInt, listSize, math.MaxInt} {
		if got, err := lists.Revoked(t.Context(), l.ref(index)); got || !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%d: %t, %v", index, got, err)
		}
	}
}

// An application that believes one algorithm is not talked into the other.
func TestListOfTheOtherAlgorithmIsNeverBelieved(t *testing.T) {
	l := newLister(t)
	for name, c := range map[string]struct {
		token  string
		change func(*session.RemoteStatusOptions)
	}{
		"RS256 without keys":     {rsList(l.payload()), func(o *session.RemoteStatusOptions) { o.Keys = nil }},
		"HS256 without a secret": {hsList(l.payload()), func(o *session.RemoteStatusOptions) { o.Secret = nil }},
	} {
		l.serveText(c.token)
		o := l.options()
		c.change(&o)
		if got, err := l.listsOf(o).Revoked(t.Context(), l.ref(1)); got || !errors.Is(err, session.ErrStatusUnavailable) {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}

func TestStatusListIsNeverASession(t *testing.T) {
	l := newLister(t)
	v := l.verifier(nil)
	mustRefuse(t, v, rsList(l.payload()))
	mustRefuse(t, v, hsList(l.payload()))
	both := with("iss", l.URL) // all that a session token has, under a list's type
	maps.Copy(both, l.payload())
	both["iat"], both["exp"] = clock.Unix(), clock.Unix()+3600
	mustRefuse(t, v, rsList(both))
	// And the other way round.
	l.serveText(rsToken(both))
	if got, err := l.lists().Revoked(t.Context(), l.ref(1)); got || !errors.Is(err, session.ErrStatusUnavailable) {
		t.Errorf("%t, %v", got, err)
	}
}
