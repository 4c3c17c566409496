package session_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// wrongLists are tokens that are no list of the address of place.
func wrongLists(t *testing.T) map[string]string {
	bits := make([]byte, listSize/8)
	uri, now := place(0).URI, time.Now()
	good := listPayload(uri, now, 60)
	with := func(name string, value any) string { return rsList(changed(good, name, value)) }
	list := func(bits any, lst string) string {
		return with("status_list", map[string]any{"bits": bits, "lst": b64(lst)})
	}
	header := func(name string, value any) map[string]any { return changed(listHeader(), name, value) }
	der, err := x509.MarshalPKIXPublicKey(&rsaKey().PublicKey)
	must(t, err)
	published := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	both := payload(issuer, now, 7) // all that a session token has
	maps.Copy(both, good)
	return map[string]string{
		"empty": "", "no token": "hello", "two tokens": rsList(good) + " " + rsList(good), "JSON serialization": `{"payload":"` + b64(toJSON(good)) + `"}`,
		"unsigned":                  forge(map[string]any{"alg": "none", "typ": "statuslist+jwt"}, good, func(string) []byte { return []byte("x") }),
		"a session token":           rsToken(both),
		"an ID token":               rsToken(map[string]any{"iss": issuer, "sub": uri, "aud": "client-1", "iat": now.Unix(), "exp": now.Unix() + 3600, "nonce": "n"}),
		"no typ":                    forge(header("typ", nil), good, byRSA(rsaKey())),
		"crit":                      forge(header("crit", []string{"x"}), good, byRSA(rsaKey())),
		"its own key":               forge(header("jwk", publicJWK(otherKey(), kid)), good, byRSA(otherKey())),
		"key of a stranger":         forge(listHeader(), good, byRSA(otherKey())),
		"unknown key":               forge(header("kid", "other"), good, byRSA(otherKey())),
		"no kid":                    forge(header("kid", nil), good, byRSA(rsaKey())),
		"PS256":                     forge(header("alg", "PS256"), good, byRSA(rsaKey())),
		"RS256 with the secret":     forge(listHeader(), good, byHMAC(secret)),
		"HS256 with the public key": forge(map[string]any{"alg": "HS256", "typ": "statuslist+jwt"}, good, byHMAC(published)),
		"HS256 with another secret": forge(map[string]any{"alg": "HS256", "typ": "statuslist+jwt"}, good, byHMAC([]byte(strings.Repeat("y", 40)))),
		"of another list":           with("sub", placeIn(2, 0).URI),
		"of another issuer":         with("sub", "https://evil.example/oauth2/status/1"),
		"no sub":                    with("sub", nil),
		"expired":                   with("exp", now.Unix()-60),
		"expired this moment":       with("exp", now.Unix()),
		"exp a string":              with("exp", "tomorrow"),
		"no exp":                    with("exp", nil),
		"of the future":             with("iat", now.Unix()+3600),
		"no iat":                    with("iat", nil),
		"iat a fraction":            with("iat", 0.5),
		"no ttl":                    with("ttl", nil),
		"ttl 0":                     with("ttl", 0),
		"ttl below 0":               with("ttl", -60),
		"no list":                   with("status_list", nil),
		"a list of numbers":         with("status_list", []int{1}),
		"bits 2":                    list(2, packed(bits)),
		"bits a string":             list("1", packed(bits)),
		"no bits":                   list(nil, packed(bits)),
		"bits twice":                rsList(strings.Replace(toJSON(good), `"bits":1`, `"bits":1,"bits":1`, 1)),
		"sub twice":                 rsList(strings.Replace(toJSON(good), `{`, `{"sub":"x",`, 1)),
		"not base64url":             with("status_list", map[string]any{"bits": 1, "lst": "*" + b64(packed(bits))}),
		"padded":                    with("status_list", map[string]any{"bits": 1, "lst": b64(packed(bits)) + "="}),
		"line end in the list":      with("status_list", map[string]any{"bits": 1, "lst": b64(packed(bits))[:4] + "\n" + b64(packed(bits))[4:]}),
		"not zlib":                  list(1, "hello, this is not zlib"),
		"cut before the checksum":   list(1, packed(bits)[:len(packed(bits))-4]),
		"wrong checksum":            list(1, packed(bits)[:len(packed(bits))-1]+"x"),
		"something behind it":       list(1, packed(bits)+"x"),
		"of nothing":                list(1, packed(nil)),
		"one byte too much":         list(1, packed(make([]byte, 1<<20+1))),
		"too long":                  with("x", strings.Repeat("x", 2<<20)),
		"deep":                      forge(strings.Repeat(`{"a":`, 100_000), good, byRSA(rsaKey())),
	}
}

// Each of these is taken for no list at all: the sessions are not judged by it, and it does not
// take the place of a good copy.
func TestWrongListIsNotBelieved(t *testing.T) {
	answers := map[string]func(*http.Request) (*http.Response, error){
		"404":                 answering(http.NotFound),
		"304 to who has none": answering(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }),
		"endless": answering(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/statuslist+jwt")
			_, _ = w.Write(bytes.Repeat([]byte("a"), 2<<20))
		}),
		"a page": answering(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, rsList(listPayload(place(0).URI, time.Now(), 60)))
		}),
		"a list in an error": answering(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/statuslist+jwt")
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, rsList(listPayload(place(0).URI, time.Now(), 60)))
		}),
		"elsewhere": answering(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.example/", http.StatusFound)
		}),
	}
	inBubble(t, "time of the lists", func(t *testing.T) {
		for name, token := range wrongLists(t) {
			answers[name] = answeringList(token)
		}
	})
	for name, answer := range answers {
		inBubble(t, name, func(t *testing.T) {
			s := newServer(7)
			s.sameTag = true
			warm := s.lists()
			passes(t, warm, 1)
			if name != "304 to who has none" {
				s.fail(answer)
			}
			time.Sleep(50 * time.Second) // a renewal
			if passes(t, warm, 7) || !passes(t, warm, 8) {
				t.Error("the good copy is gone")
			}
			_ = warm.Close()
			s.fail(answer)
			cold := s.lists()
			unavailable(t, cold)
			v := &session.Verifier{Issuer: issuer, Secret: secret, Status: cold}
			_, err := v.Verify(t.Context(), hsToken(payload(issuer, time.Now(), 1)))
			if !errors.Is(err, session.ErrStatusUnavailable) || len(err.Error()) > 250 {
				t.Error(err)
			}
			_ = cold.Close()
		})
	}
}

// Of a list of Cairn the bits count and nothing else: signed with the key or the secret, if the application believes it.
func TestRevokedSessionIsNotAccepted(t *testing.T) {
	for alg, sign := range map[string]func(any) string{"RS256": rsList, "HS256": hsList} {
		inBubble(t, alg, func(t *testing.T) {
			s := newServer()
			s.fail(answeringList(sign(listPayload(place(0).URI, time.Now(), 60, 0, 7, listSize-1)) + "\n"))
			lists := s.lists()
			v := &session.Verifier{Issuer: issuer, Secret: secret, Status: lists}
			for index, want := range map[int]error{0: session.ErrRevoked, 7: session.ErrRevoked,
				listSize - 1: session.ErrRevoked, 1: nil, 6: nil, 8: nil, listSize - 2: nil,
				listSize: session.ErrInvalid, 1 << 30: session.ErrInvalid} {
				_, err := v.Verify(t.Context(), hsToken(payload(issuer, time.Now(), index)))
				if !errors.Is(err, want) || want == session.ErrInvalid && errors.Is(err, session.ErrRevoked) {
					t.Errorf("%d: %v", index, err)
				}
			}
			for _, index := range []int{-1, math.MinInt, math.MaxInt} {
				if got, err := lists.Revoked(t.Context(), place(index)); got || !errors.Is(err, session.ErrInvalid) {
					t.Errorf("%d: %t, %v", index, got, err)
				}
			}
			s.wantRequests(t, 1, 1)
			o := s.options()
			if o.Keys = nil; alg == "HS256" {
				o = s.options()
				o.Secret = nil
			}
			unavailable(t, session.NewRemoteStatusList(o)) // not talked into the other algorithm
			v.Status = nil
			mustRefuse(t, v, sign(changed(payload(issuer, time.Now(), 1), "sub", place(0).URI))) // nor is a list a session
		})
	}
}

// The old secret may have leaked, which is why it was given up: a list signed with it brings
// all revoked sessions back.
func TestListSignedWithASecretOutOfUseIsNotBelieved(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		s := newServer()
		list := func(sign func(any) string, revoked ...int) {
			s.fail(answeringList(sign(listPayload(place(0).URI, time.Now(), 60, revoked...))))
		}
		list(hsList, 7)
		o := s.options()
		o.SecretUntil = time.Now().Add(time.Hour)
		lists := session.NewRemoteStatusList(o)
		if passes(t, lists, 7) || !passes(t, lists, 5) {
			t.Error("wrong status while it is in use")
		}
		time.Sleep(time.Hour)
		list(hsList)
		if passes(t, lists, 7) {
			t.Error("a session that is over is back")
		}
		unavailable(t, session.NewRemoteStatusList(o))
		list(rsList)
		if !passes(t, session.NewRemoteStatusList(o), 7) {
			t.Error("a list signed with the key is refused")
		}
	})
}

// An attacker between Cairn and the application replays an old list, to bring back a revoked session.
func TestOlderListDoesNotReplaceANewerOne(t *testing.T) {
	for _, c := range []struct {
		ago, back time.Duration // the clocks of instances differ, and one that was wrong is set back
		accepted  bool
	}{{time.Minute, 0, false}, {30 * time.Second, 0, true}, {time.Hour, time.Hour, true}} {
		inBubble(t, fmt.Sprint(c.ago), func(t *testing.T) {
			s, clock := newServer(), &suspendable{awake: time.Now()}
			s.fail(answeringList(rsList(listPayload(place(0).URI, time.Now(), 60, 7))))
			o := s.options()
			o.Now = clock.now
			lists := session.NewRemoteStatusList(o)
			passes(t, lists, 7)
			s.fail(answeringList(rsList(listPayload(place(0).URI, time.Now().Add(-c.ago), 60))))
			clock.asleep.Add(int64(-c.back))
			time.Sleep(time.Minute)
			same(t, "accepted", passes(t, lists, 7), c.accepted)
		})
	}
}

// A list is fetched again before it expires, even if its ttl is longer.
func TestListIsRenewedBeforeItExpires(t *testing.T) {
	for _, ttl := range []any{json.RawMessage("1e11"), 3600} {
		inBubble(t, fmt.Sprint(ttl), func(t *testing.T) {
			s := newServer()
			lists := s.lists()
			s.fail(func(r *http.Request) (*http.Response, error) {
				return answeringList(rsList(changed(listPayload(place(0).URI, time.Now(), 60), "ttl", ttl)))(r)
			})
			for range 13 * 15 {
				passes(t, lists, 99)
				time.Sleep(4 * time.Minute)
			}
		})
	}
}

// A few kilobytes that unpack to a gigabyte cost neither memory nor time.
func TestBombDoesNotGoOff(t *testing.T) {
	racetest.Skip(t)
	var z, g bytes.Buffer
	for _, w := range []io.WriteCloser{zlib.NewWriter(&z), gzip.NewWriter(&g)} {
		for range 40 {
			_, _ = w.Write(make([]byte, 1<<20))
		}
		_ = w.Close()
	}
	list := changed(listPayload(place(0).URI, time.Now(), 60), "status_list", map[string]any{"bits": 1, "lst": b64(z.String())})
	s := newServer()
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"in the list": answeringList(rsList(list)),
		"zipped": func(*http.Request) (*http.Response, error) {
			r, err := gzip.NewReader(bytes.NewReader(g.Bytes()))
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/statuslist+jwt"}}, Body: io.NopCloser(r)}, err
		},
	} {
		s.fail(answer)
		lists := s.lists()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		unavailable(t, lists)
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 16 {
			t.Errorf("%s: %d MiB were used", name, used)
		}
		_ = lists.Close()
	}
}
