package session_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

func TestRevokedSessionIsNeverAccepted(t *testing.T) {
	l := newLister(t, 0, 7, listSize-1)
	v := l.verifier(l.lists())
	for _, index := range []int{0, 7, listSize - 1} {
		if err := mustRefuse(t, v, l.token(index)); !errors.Is(err, session.ErrRevoked) {
			t.Errorf("%d: %v", index, err)
		}
	}
	for _, index := range []int{1, 6, 8, listSize - 2} {
		c, err := v.Verify(t.Context(), l.token(index))
		if err != nil || c.Status.Index != index || c.Algorithm != "RS256" {
			t.Errorf("%d: %+v, %v", index, c, err)
		}
	}
	l.wantFetches(t, 1)
	v.Status = nil
	if _, err := v.Verify(t.Context(), l.token(7)); err != nil {
		t.Errorf("nobody asks for the status: %v", err)
	}
}

// What no genuine token of this issuer has, is refused, and nothing is fetched for it.
func TestReferenceIntoAnotherListIsNeverFollowed(t *testing.T) {
	l := newLister(t)
	v := l.verifier(l.lists())
	reference := func(index any, uri string) string {
		p := with("status", map[string]any{"status_list": map[string]any{"idx": index, "uri": uri}})
		p["iss"] = l.URL
		return rsToken(p)
	}
	for _, uri := range []string{
		"https://evil.example/oauth2/status/1", l.URL + ".evil.example/oauth2/status/1", l.URL + "/oauth2/status/", l.URL + "/oauth2/status/01", l.URL + "/oauth2/status/+1",
		l.URL + "/oauth2/status/0", l.URL + "/oauth2/status/-1", l.URL + "/oauth2/status/1/", l.URL + "/oauth2/status/1?x", l.URL + "/oauth2/status/1#x", l.URL + "/oauth2/status/../../x",
		l.URL + "/oauth2/status/4294967297", l.URL + "/oauth2/status/99999999999999999999", strings.ToUpper(l.URL) + "/oauth2/status/1", "/oauth2/status/1", l.URL + "@evil.example/oauth2/status/1", "",
	} {
		mustRefuse(t, v, reference(1, uri))
	}
	none := with("status", nil)
	none["iss"] = l.URL
	other := with("status", map[string]any{"other": 1})
	other["iss"] = l.URL
	mustRefuse(t, v, rsToken(none))
	mustRefuse(t, v, rsToken(other))
	l.wantFetches(t, 0)
	for _, index := range []int{listSize, listSize + 1, 1 << 30} {
		mustRefuse(t, v, l.token(index))
	}
	mustRefuse(t, v, reference(-1, l.uri(1)))
}

// Each of these is taken for no list at all: the sessions are not judged by it.
func TestWrongListIsNeverBelieved(t *testing.T) {
	l := newLister(t)
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
	for name, token := range map[string]string{
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
		"of the future":             rsList(l.with("iat", clock.Add(time.Minute).Unix())),
		"no iat":                    rsList(l.with("iat", nil)),
		"ttl of nothing":            rsList(l.with("ttl", 0)),
		"ttl below nothing":         rsList(l.with("ttl", -60)),
		"ttl a fraction":            rsList(l.with("ttl", 0.5)),
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
		"a bomb":                    rsList(list(1, packed(make([]byte, 64<<20)))),
		"twice the same member":     rsList(strings.Replace(toJSON(l.payload()), `{`, `{"sub":"x",`, 1)),
		"too long":                  rsList(l.with("x", strings.Repeat("x", 2<<20))),
	} {
		l.serveText(token)
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

// A list that would fill the memory is given up in time.
func TestBombIsNeverUnpacked(t *testing.T) {
	l := newLister(t)
	l.serveText(rsList(l.with("status_list", map[string]any{"bits": 1, "lst": packed(make([]byte, 256<<20))})))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := l.lists().Revoked(t.Context(), l.ref(1)); !errors.Is(err, session.ErrStatusUnavailable) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("%d MB were used", used>>20)
	}
}

// Lists of other issuers' making count as well: two bits a status, HS256, no exp, no ttl.
func TestOtherwiseGenuineListIsNeverRefused(t *testing.T) {
	l := newLister(t)
	two := l.with("status_list", map[string]any{"bits": 2, "lst": packed([]byte{0b11_00_10_01})})
	plain := l.with("ttl", nil)
	delete(plain, "exp")
	for name, c := range map[string]struct {
		token string
		want  []bool
	}{
		"two bits": {rsList(two), []bool{true, true, false, true}},
		"HS256":    {forge(map[string]any{"alg": "HS256", "typ": "statuslist+jwt"}, l.payload(), byHMAC(secret)), []bool{false}},
		"bare":     {rsList(plain), []bool{false}},
		"ages":     {rsList(l.with("ttl", 1<<36)), []bool{false}},
		"line end": {rsList(l.payload()) + "\n", []bool{false}},
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

func TestSecretNeverCountsAfterItsEnd(t *testing.T) {
	v := verifier()
	v.SecretUntil = clock.Add(time.Second)
	if _, err := v.Verify(t.Context(), hsToken(good())); err != nil {
		t.Error(err)
	}
	v.SecretUntil = clock
	mustRefuse(t, v, hsToken(good()))
	if _, err := v.Verify(t.Context(), rsToken(good())); err != nil {
		t.Error(err)
	}
}

func TestListsThatCannotWorkAreNeverTakenForGood(t *testing.T) {
	v := verifier()
	for name, o := range map[string]session.RemoteStatusOptions{
		"no issuer": {Secret: secret}, "nothing to verify with": {Issuer: issuer}, "short secret": {Issuer: issuer, Secret: []byte("short")},
	} {
		v.Status = session.NewRemoteStatusList(o)
		if err := v.Check(); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := v.Verify(t.Context(), hsToken(good())); err == nil || errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
