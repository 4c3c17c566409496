//go:build unix

package httpd

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

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
func TestRPVerifyNeverBelievesABadList(t *testing.T) {
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
func TestRPVerifyNeverTrustsACopyBeyondItsTime(t *testing.T) {
	eachVerifierProgram(t, func(t *testing.T, p *verifierProgram) {
		f := startEvilIssuer(t)
		place := func(index int) string { return f.cookie(func(c map[string]any) { c["status"] = f.place(1, index) }) }
		ada, bob := place(7), place(8)
		closed, open := f.settings("keys"), f.settings("keys")
		open.FailOpen = true
		v, lax := p.verifier(t, "closed", closed), p.verifier(t, "open", open)
		wantAsked := func(what string, n int) {
			t.Helper()
			if got := f.requests()["/oauth2/status/1"]; got != n {
				t.Errorf("%s: the list was asked for %d times, want %d", what, got, n)
			}
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
