package site_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/templates"
)

// Whatever answers the challenge of a passkey signs in with it or is refused.
func FuzzPasskey(f *testing.F) {
	w := accounttest.New(f)
	w.AddUser("ada")
	k := addPasskey(w.SignedIn("ada"), "phone")
	b := w.Browser()
	good := k.get(begin(b))
	genuine := string(good["credential"].(json.RawMessage))
	for _, seed := range []string{genuine, "{}", strings.Replace(genuine, `"signature":"`, `"signature":"AAAA`, 1),
		strings.Replace(genuine, `"authenticatorData":"`, `"authenticatorData":"_____`, 1)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, credential string) {
		w.T = t
		if !json.Valid([]byte(credential)) {
			return
		}
		good["credential"] = json.RawMessage(credential)
		if got := finish(w.Browser(), good); got.Status >= 500 || got.Status < 400 && credential != genuine {
			var a, b any
			if json.Unmarshal([]byte(credential), &a) == nil && json.Unmarshal([]byte(genuine), &b) == nil &&
				got.Status == 200 {
				return // the same in another spelling
			}
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	})
}

// Only a proof that its key has signed, for a session that waits for one, is more than refused.
func FuzzDeviceProof(f *testing.F) {
	w := accounttest.New(f)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(f, err)
	options := (&jose.SignerOptions{EmbedJWK: true}).WithType("dbsc+jwt")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, options)
	must(f, err)
	for _, claims := range []string{`{"jti":"x","authorization":"y.z"}`, `{"jti":1}`, `[]`} {
		signed, err := signer.Sign([]byte(claims))
		must(f, err)
		proof, err := signed.CompactSerialize()
		must(f, err)
		f.Add(proof)
		f.Add(proof[:len(proof)-3])
	}
	f.Fuzz(func(t *testing.T, proof string) {
		_, err := w.Service.RegisterDevice(t.Context(), account.Caller{}, proof)
		if !errors.Is(err, person.ErrDeviceProof) {
			t.Fatalf("%q: %v", proof, err)
		}
	})
}

// After a sign-in the browser stays here, wherever a link wants to lead it.
func FuzzLocalPath(f *testing.F) {
	for _, seed := range []string{"/account/", "//evil.example", `/\evil.example`, "/\t/evil.example", "https://evil.example", "/%2f/x", "/a?b#c", ""} {
		f.Add(seed)
	}
	base := &url.URL{Scheme: "https", Host: "id.example.org", Path: "/login/"}
	f.Fuzz(func(t *testing.T, next string) {
		to := web.LocalPath(next)
		u, err := base.Parse(to)
		if err != nil {
			return // which no browser follows
		}
		if u.Scheme != base.Scheme || u.Host != base.Host || strings.ContainsAny(to, "\r\n\t\\") {
			t.Fatalf("%q leads to %s", next, u)
		}
	})
}

// Behind a proxy a sign-in leads to an application of this host alone, whatever the headers of a request say.
func FuzzReturnAddress(f *testing.F) {
	w := accounttest.New(f)
	for _, seed := range [][4]string{
		{"http://localhost:4041/a?b", "http", "localhost", "/x"}, {"//evil.example", "http", "localhost@evil.example", "/"},
		{`http://localhost\@evil.example/`, "javascript:", "//", "/alert(1)"}, {"http://localhost.evil.example/", "http", "localhost:80:evil", "//x"},
		{"http://localhost:4041/%zz", "http", "localhost", "/%zz"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], "Mozilla/5.0 (X11; Linux) Firefox/150.0", "de-CH, en;q=0.5, *")
		f.Add("", seed[1], seed[2], seed[3], "\xff\x00", "x-;q=\x00,,und-u-co")
	}
	f.Fuzz(func(t *testing.T, original, scheme, host, uri, agent, languages string) {
		w.T = t
		r := httptest.NewRequestWithContext(t.Context(), "GET", w.Base+"/api/verify?redirect=1", nil)
		r.Header = http.Header{"Accept": {"text/html"}, "X-Forwarded-Proto": {scheme}, "X-Forwarded-Host": {host},
			"X-Forwarded-Uri": {uri}, "User-Agent": {agent}}
		if original != "" {
			r.Header.Set("X-Original-Url", original)
		}
		ctx := templates.WithAcceptLanguage(r.Context(), languages)
		info := &web.RequestInfo{ID: "req-1", Proxied: true}
		rec := httptest.NewRecorder()
		rec.Header().Set("X-Request-Id", info.ID) // as the middleware does
		w.Router.ServeHTTP(rec, r.WithContext(web.WithRequestInfo(ctx, info)))
		to, err := url.Parse(rec.Header().Get("Location"))
		if err != nil || rec.Code != 303 || to.Host != "localhost:4040" || len(web.Device(agent)) > 40 ||
			!slices.Contains(templates.LanguageTags(), templates.LanguageOf(ctx).Tag()) {
			t.Fatalf("%d %v, %v", rec.Code, rec.Header(), err)
		}
		var back struct{ URL string }
		if sealed := to.Query().Get("continue"); sealed != "" && w.Service.Sealer().Open(person.PurposeReturn, sealed, &back) == nil {
			u, err := url.Parse(back.URL)
			if err != nil || u.Scheme != "http" || u.Hostname() != "localhost" || u.User != nil || strings.ContainsAny(back.URL, "\\\r\n\t") {
				t.Fatalf("leads to %q", back.URL)
			}
		}
	})
}
