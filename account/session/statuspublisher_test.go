package session_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// lister is an issuer's status list endpoint, whose answer and clock can be changed.
type lister struct {
	*publisher
	tb      testing.TB
	revoked []int
}

const listSize = 1 << 17

func newLister(t *testing.T, revoked ...int) *lister {
	l := &lister{publisher: newPublisher(t), tb: t, revoked: revoked}
	l.serve()
	return l
}

// serve answers with the list as it is, and with 304 to whoever has it.
func (l *lister) serve() {
	l.answer(func(w http.ResponseWriter, r *http.Request) {
		etag := fmt.Sprintf(`W/"%v"`, l.revoked)
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/statuslist+jwt")
		fmt.Fprint(w, rsList(l.payload()))
	})
}

// serveText answers with a list token of the test's making.
func (l *lister) serveText(token string) { l.answer(l.textHandler(token)) }

func (l *lister) textHandler(token string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/statuslist+jwt")
		fmt.Fprint(w, token)
	}
}

// payload is a genuine list of the first number.
func (l *lister) payload() map[string]any { return listPayload(l.uri(1), l.now(), 60, l.revoked...) }

// listPayload is what Cairn signs.
func listPayload(uri string, now time.Time, ttl int, revoked ...int) map[string]any {
	bits := make([]byte, listSize/8)
	for _, i := range revoked {
		bits[i/8] |= 1 << (i % 8)
	}
	return map[string]any{
		"sub": uri, "iat": now.Unix(), "exp": now.Add(12 * time.Hour).Unix(), "ttl": ttl,
		"status_list": map[string]any{"bits": 1, "lst": packed(bits)},
	}
}

func (l *lister) with(name string, value any) map[string]any {
	p := maps.Clone(l.payload())
	if p[name] = value; value == nil {
		delete(p, name)
	}
	return p
}

func packed(bits []byte) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(bits)
	_ = z.Close()
	return base64.RawURLEncoding.EncodeToString(b.Bytes())
}

func (l *lister) uri(n int) string { return fmt.Sprintf("%s/oauth2/status/%d", l.URL, n) }

func (l *lister) ref(index int) session.StatusRef {
	return session.StatusRef{Index: index, URI: l.uri(1)}
}

func listHeader() map[string]any {
	return map[string]any{"alg": "RS256", "typ": "statuslist+jwt", "kid": kid}
}

func rsList(payload any) string { return forge(listHeader(), payload, byRSA(rsaKey())) }

func hsList(payload any) string {
	return forge(map[string]any{"alg": "HS256", "typ": "statuslist+jwt"}, payload, byHMAC(secret))
}

// options are those of an application that knows the secret and the key.
func (l *lister) options() session.RemoteStatusOptions {
	return session.RemoteStatusOptions{
		Issuer: l.URL, Secret: secret, Keys: session.NewStaticKeySet(publicJWK(rsaKey(), kid)), Client: l.Client(), Now: l.now,
	}
}

func (l *lister) lists() *session.RemoteStatusList { return l.listsOf(l.options()) }

// listsOf are closed when the test ends: without a copy they would go on asking.
func (l *lister) listsOf(o session.RemoteStatusOptions) *session.RemoteStatusList {
	lists := session.NewRemoteStatusList(o)
	l.tb.Cleanup(func() { _ = lists.Close() })
	return lists
}

// verifier is that of the application, with its lists.
func (l *lister) verifier(lists session.StatusChecker) *session.Verifier {
	return &session.Verifier{Issuer: l.URL, Secret: secret, Keys: session.NewStaticKeySet(publicJWK(rsaKey(), kid)), Now: l.now, Status: lists}
}

// token is a genuine one with a place in the first list.
func (l *lister) token(index int) string {
	p := with("status", map[string]any{"status_list": map[string]any{"idx": index, "uri": l.uri(1)}})
	p["iss"] = l.URL
	return rsToken(p)
}

func revoked(t *testing.T, lists *session.RemoteStatusList, ref session.StatusRef) bool {
	t.Helper()
	got, err := lists.Revoked(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func zlibOf(bits []byte) []byte {
	b, err := base64.RawURLEncoding.DecodeString(packed(bits))
	if err != nil {
		panic(err)
	}
	return b
}
