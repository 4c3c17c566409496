package session_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

// A setting that would refuse every session is reported at start, not at each request.
func TestSettingThatRefusesEverybodyIsReported(t *testing.T) {
	static := session.NewStaticKeySet(publicJWK(rsaKey(), kid))
	remote := func(url string) session.KeySet { return session.NewRemoteKeySet(url, session.RemoteOptions{}) }
	list := func(o session.RemoteStatusOptions) session.StatusChecker {
		o.Issuer = issuer
		return session.NewRemoteStatusList(o)
	}
	blank := []byte(strings.Repeat(" \t\n", 20))
	for name, c := range map[string]struct {
		v    *session.Verifier
		says string
	}{
		"no verifier":                     {nil, "no verifier"},
		"no issuer":                       {&session.Verifier{Secret: secret}, "issuer of the verifier"},
		"neither secret nor key":          {&session.Verifier{Issuer: issuer}, "verifier has neither a secret nor keys"},
		"short secret":                    {&session.Verifier{Issuer: issuer, Secret: secret[:31]}, "31 bytes"},
		"public key as secret":            {&session.Verifier{Issuer: issuer, Secret: []byte("\n-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n")}, "PEM"},
		"secret that ends without keys":   {&session.Verifier{Issuer: issuer, Secret: secret, SecretUntil: clock}, "has SecretUntil and no keys"},
		"list that is nil":                {&session.Verifier{Issuer: issuer, Secret: secret, Status: (*session.RemoteStatusList)(nil)}, "NewRemoteStatusList"},
		"list not made by its maker":      {&session.Verifier{Issuer: issuer, Secret: secret, Status: &session.RemoteStatusList{}}, "NewRemoteStatusList"},
		"list of another issuer":          {&session.Verifier{Issuer: issuer + "/", Secret: secret, Status: list(session.RemoteStatusOptions{Secret: secret})}, "different issuers"},
		"list with nothing":               {&session.Verifier{Issuer: issuer, Secret: secret, Status: list(session.RemoteStatusOptions{})}, "status list has neither a secret nor keys"},
		"issuer without a scheme":         {&session.Verifier{Issuer: "id.example.org", Secret: secret}, "issuer of the verifier"},
		"issuer without a host":           {&session.Verifier{Issuer: "https://", Secret: secret}, "issuer of the verifier"},
		"issuer of a port alone":          {&session.Verifier{Issuer: "https://:8443", Secret: secret}, "issuer of the verifier"},
		"issuer of another scheme":        {&session.Verifier{Issuer: "file:///etc/passwd", Secret: secret}, "issuer of the verifier"},
		"issuer that is a path":           {&session.Verifier{Issuer: "/id", Secret: secret}, "issuer of the verifier"},
		"unknown class":                   {&session.Verifier{Issuer: issuer, Secret: secret, RequireACR: "mfa"}, "unknown acr"},
		"blank secret":                    {&session.Verifier{Issuer: issuer, Secret: blank}, "blank"},
		"blank secret beside keys":        {&session.Verifier{Issuer: issuer, Secret: blank, Keys: static}, "blank"},
		"key set without an address":      {&session.Verifier{Issuer: issuer, Keys: remote("")}, "address of the key set"},
		"key set at a path":               {&session.Verifier{Issuer: issuer, Keys: remote("/.well-known/jwks.json")}, "address of the key set"},
		"key set in a file":               {&session.Verifier{Issuer: issuer, Keys: remote("file:///jwks.json")}, "address of the key set"},
		"key set at no address":           {&session.Verifier{Issuer: issuer, Keys: remote("https://u:hunter2@[::1/jwks")}, "address of the key set"},
		"key set that is nil":             {&session.Verifier{Issuer: issuer, Keys: (*session.RemoteKeySet)(nil)}, "NewRemoteKeySet"},
		"key set not made by its maker":   {&session.Verifier{Issuer: issuer, Keys: &session.RemoteKeySet{}}, "NewRemoteKeySet"},
		"no keys":                         {&session.Verifier{Issuer: issuer, Keys: session.NewStaticKeySet()}, "has no signing key"},
		"keys for nothing":                {&session.Verifier{Issuer: issuer, Keys: session.NewStaticKeySet(jose.JSONWebKey{Key: &rsaKey().PublicKey, KeyID: kid, Use: "enc"})}, "has no signing key"},
		"list without the keys":           {&session.Verifier{Issuer: issuer, Keys: static, Status: list(session.RemoteStatusOptions{Secret: secret})}, "status list has none"},
		"list without the keys to come":   {&session.Verifier{Issuer: issuer, Secret: secret, Keys: static, Status: list(session.RemoteStatusOptions{Secret: secret})}, "status list has none"},
		"list with no keys":               {&session.Verifier{Issuer: issuer, Keys: static, Status: list(session.RemoteStatusOptions{Keys: session.NewStaticKeySet()})}, "has no signing key"},
		"list with a key set that is nil": {&session.Verifier{Issuer: issuer, Keys: static, Status: list(session.RemoteStatusOptions{Keys: (*session.RemoteKeySet)(nil)})}, "NewRemoteKeySet"},
		"list with a blank secret":        {&session.Verifier{Issuer: issuer, Keys: static, Status: list(session.RemoteStatusOptions{Keys: static, Secret: blank})}, "blank"},
		"list whose secret ends":          {&session.Verifier{Issuer: issuer, Secret: secret, Status: list(session.RemoteStatusOptions{Secret: secret, SecretUntil: clock})}, "has SecretUntil and no keys"},
		"list that believes the secret for ever": {&session.Verifier{Issuer: issuer, Secret: secret, Keys: static, SecretUntil: clock,
			Status: list(session.RemoteStatusOptions{Secret: secret, Keys: static})}, "give both the same"},
		"list that believes the secret longer": {&session.Verifier{Issuer: issuer, Secret: secret, Keys: static, SecretUntil: clock,
			Status: list(session.RemoteStatusOptions{Secret: secret, Keys: static, SecretUntil: clock.Add(time.Hour)})}, "give both the same"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.v.Check()
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), string(secret[:31])) {
				t.Fatalf("got %v, want something about %q", err, c.says)
			}
			if _, got := c.v.Verify(t.Context(), rsToken(good())); got == nil || got.Error() != err.Error() ||
				errors.Is(got, session.ErrInvalid) {
				t.Errorf("Verify: %v, want Check's error", got)
			}
			w := httptest.NewRecorder()
			session.Middleware(c.v, nil)(app).ServeHTTP(w, visit("cairn_session="+rsToken(good())))
			if w.Code != 500 || !strings.Contains(w.Body.String(), "internal_error") || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("Middleware: %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestSettingThatWorksIsAccepted(t *testing.T) {
	static := session.NewStaticKeySet(publicJWK(rsaKey(), kid), jose.JSONWebKey{Key: &newRSA(1024).PublicKey})
	remote := session.NewRemoteKeySet(issuer+"/.well-known/jwks.json", session.RemoteOptions{})
	list := func(o session.RemoteStatusOptions) session.StatusChecker {
		o.Issuer = issuer
		return session.NewRemoteStatusList(o)
	}
	for name, v := range map[string]*session.Verifier{
		"keys to come":        {Issuer: issuer, Secret: secret, Keys: session.NewStaticKeySet()},
		"secret":              {Issuer: issuer, Secret: secret, Status: list(session.RemoteStatusOptions{Secret: secret})},
		"keys":                {Issuer: issuer, Keys: static, Status: list(session.RemoteStatusOptions{Keys: remote})},
		"both":                {Issuer: issuer, Secret: secret, Keys: remote, Status: list(session.RemoteStatusOptions{Secret: secret, Keys: remote})},
		"both, lists by keys": {Issuer: issuer, Secret: secret, Keys: remote, SecretUntil: clock, Status: list(session.RemoteStatusOptions{Keys: remote})},
		"an end of both":      {Issuer: issuer, Secret: secret, Keys: remote, SecretUntil: clock, Status: list(session.RemoteStatusOptions{Secret: secret, Keys: remote, SecretUntil: clock})},
		"a key set of theirs": {Issuer: issuer, Keys: ownKeySet{}},
		"a class":             {Issuer: issuer, Secret: secret, RequireACR: session.ACRPhishingResistant},
		"loopback":            {Issuer: "http://127.0.0.1:8080", Secret: secret},
		"below a path":        {Issuer: "https://example.org/id", Secret: secret},
		"an IPv6 address":     {Issuer: "http://[::1]:8080", Keys: session.NewRemoteKeySet("http://[::1]:8080/jwks", session.RemoteOptions{})},
	} {
		if err := v.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
