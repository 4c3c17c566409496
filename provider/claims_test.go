package provider

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
)

// claimsSeeds are parameters as clients send them, then what must be refused.
func claimsSeeds() (good, bad []string) {
	good = []string{
		`{}`, `{"userinfo":{"name":{"essential":true}}}`, `{"id_token":{"acr":{"essential":true,"values":["urn:x","1"]}}}`,
		`{"userinfo":{"given_name":{"essential":true},"nickname":null,"email":{"essential":true},"http://example.info/claims/groups":null},"id_token":{"auth_time":{"essential":true},"sub":{"value":"248289761001"}}}`,
		`{"userinfo":null,"id_token":null}`, `{"userinfo":{}}`, `{"id_token":{"sub":{"values":["a","b"]},"name":{}}}`, `{"purpose":"x","userinfo":{"address":{"value":{"country":"it"}}}}`,
		` { "userinfo" : { "name#de" : null , "email" : { "other" : [ 1 , 2.5e3 , true ] } } } `, `{"userinfo":{"\u006eame":null}}`,
	}
	bad = []string{
		``, ` `, `null`, `true`, `"userinfo"`, `[]`, `[{}]`, `{`, `{}}`, `{} {}`, `{"userinfo"}`, `{"userinfo":[]}`, `{"userinfo":"name"}`, `{"userinfo":{"name":true}}`, `{"userinfo":{"name":[]}}`,
		`{"userinfo":{"name":{"essential":"true"}}}`, `{"userinfo":{"name":{"essential":1}}}`, `{"userinfo":{"name":{"values":"x"}}}`, `{"id_token":{"sub":{"value":1}}}`, `{"id_token":{"acr":{"value":1}}}`, `{"id_token":{"sub":{"values":["a",{}]}}}`,
		`{"userinfo":{},"userinfo":{"email":null}}`, `{"userinfo":{"name":null,"\u006eame":null}}`, `{"userinfo":{"name":{"value":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}}}`,
		`{"x":` + strings.Repeat(`{"a":`, 2000) + `1` + strings.Repeat(`}`, 2000) + `}`, `{"x":"` + strings.Repeat("a", maxClaims) + `"}`, "{\"x\":\"\xff\"}", `{"userinfo":{name:null}}`, `{'userinfo':{}}`, `{"userinfo":{"name":null},}`,
	}
	return good, bad
}

func TestClaimsSeedsAreAllThere(t *testing.T) {
	if good, bad := claimsSeeds(); len(good) != 10 || len(bad) != 30 {
		t.Errorf("%d good and %d bad parameters", len(good), len(bad))
	}
}

func TestMalformedClaimsParameterIsRefused(t *testing.T) {
	good, bad := claimsSeeds()
	for _, raw := range good {
		if _, err := parseClaims(raw); err != nil {
			t.Errorf("%.80s: %v", raw, err)
		}
	}
	for _, raw := range bad {
		if c, err := parseClaims(raw); err == nil {
			t.Errorf("%.80s was read: %+v", raw, c)
		}
	}
}

func TestClaimsParameterRequestsOnlyItsClaims(t *testing.T) {
	got, err := parseClaims(`{"userinfo":{"phone_number":null,"name":{"essential":true},"password_hash":null,"sub":null},"id_token":{"email":null,"acr":{"essential":false,"value":null,"values":["2"]},"sub":{"value":"u","values":["v",null]}}}`)
	must(t, err)
	equal(t, "UserInfo", got.UserInfo, []string{"name", "phone_number"})
	equal(t, "IDToken", got.IDToken, []string{"email"})
	if !got.acr.requested || got.acr.essential || !slices.Equal(got.acr.values, []string{"2"}) || !got.admits("u") || !got.admits("v") || got.admits("") || got.admits("w") {
		t.Errorf("acr %v, subs %v", got.acr, got.subs)
	}
	equal(t, "scopes", got.scopes(), []string{"profile", "phone", "email"})
	client := &Client{Scopes: []string{"openid", "profile"}}
	stored := got.only(client).stored()
	same(t, "stored", stored, `{"u":["name"]}`)
	if back := storedClaims(stored, &Client{Scopes: []string{"openid"}}); len(back.UserInfo) > 0 {
		t.Errorf("read back for a client that lost the scope: %v", back)
	}
	same(t, "the request itself was changed", len(got.UserInfo), 2)
}

// FuzzClaimsParameter: what is read consists of claims that exist, keeps in a
// small text and comes back the same; the standard library reads it too.
func FuzzClaimsParameter(f *testing.F) {
	good, bad := claimsSeeds()
	for _, raw := range append(good, bad...) {
		f.Add(raw)
	}
	everything := &Client{Scopes: Scopes}
	f.Fuzz(func(t *testing.T, raw string) {
		c, err := parseClaims(raw)
		if err != nil {
			return
		}
		if len(raw) > maxClaims || !json.Valid([]byte(raw)) {
			t.Fatalf("%q was read", raw)
		}
		for _, name := range slices.Concat(c.UserInfo, c.IDToken) {
			if claimScope(name) == "" {
				t.Errorf("%q is no claim", name)
			}
		}
		stored := c.stored()
		if len(stored) > 1000 {
			t.Errorf("stored in %d bytes", len(stored))
		}
		back := storedClaims(stored, everything)
		if !slices.Equal(back.UserInfo, c.UserInfo) || !slices.Equal(back.IDToken, c.IDToken) {
			t.Errorf("%+v came back as %+v", c, back)
		}
	})
}

func TestEmptyClaimIsOmitted(t *testing.T) {
	got := claimsOf(account.User{Sub: "u", Handle: "ada", DisplayName: "Ada"}, &Client{}, Scopes, nil)
	equal(t, "got", got, map[string]any{"name": "Ada", "preferred_username": "ada", "groups": []string{}})
	// A claim asked for by name comes alone.
	got = claimsOf(account.User{Handle: "ada", DisplayName: "Ada", Email: "ada@example.org"}, &Client{}, []string{"openid"}, []string{"email_verified", "nickname"})
	equal(t, "got", got, map[string]any{"email_verified": false})
}

// What a client may not know as a group, its own claims do not tell by the scope of groups.
func TestGroupsCoverOnlyFlagsThatTheClientIsTold(t *testing.T) {
	all, named := &Client{}, &Client{Groups: []string{"coach"}}
	for _, c := range []struct {
		client *Client
		flag   string
		scopes []string
		want   bool
	}{
		{all, "coach", []string{"groups"}, true}, {all, account.FlagAdmin, []string{"groups"}, false},
		{named, "coach", []string{"groups"}, true}, {named, "board", []string{"groups"}, false}, {named, "coach", []string{"openid"}, false},
	} {
		same(t, c, covers(c.client, c.scopes, flagEntry+c.flag+"}"), c.want)
	}
}
