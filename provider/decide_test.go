package provider

import (
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// signedIn is a session whose password was given at the time.
func signedIn(at time.Time, proof string, flags ...string) *account.Identity {
	return &account.Identity{
		User:    account.User{Sub: "ada", Flags: flags},
		Session: account.Session{ID: "sid", AuthTime: at, TokenHash: []byte(proof)},
	}
}

func TestAuthorizationDecisions(t *testing.T) {
	earlier := signedIn(noon.Add(-time.Hour), "old")
	client := &Client{ID: "app"}
	all := []string{"openid", "profile"}
	for name, c := range map[string]struct {
		q    authzState
		want verdict
		err  string
	}{
		"nobody is signed in":                   {authzState{maxAge: -1}, login, ""},
		"nobody, silently":                      {authzState{maxAge: -1, prompts: []string{"none"}}, refused, "login_required"},
		"consent was given":                     {authzState{maxAge: -1, identity: earlier, consented: all}, proceed, ""},
		"no consent yet":                        {authzState{maxAge: -1, identity: earlier}, consent, ""},
		"one scope is new":                      {authzState{maxAge: -1, identity: earlier, consented: []string{"openid"}}, consent, ""},
		"one scope is new, silently":            {authzState{maxAge: -1, identity: earlier, consented: []string{"openid"}, prompts: []string{"none"}}, refused, "consent_required"},
		"consent is asked for again":            {authzState{maxAge: -1, identity: earlier, consented: all, prompts: []string{"consent"}}, consent, ""},
		"and given":                             {authzState{maxAge: -1, identity: earlier, consented: all, prompts: []string{"consent"}, decision: decisionAllow}, proceed, ""},
		"and denied":                            {authzState{maxAge: -1, identity: earlier, consented: all, prompts: []string{"consent"}, decision: decisionDeny}, refused, "access_denied"},
		"first party":                           {authzState{maxAge: -1, identity: earlier, client: &Client{Trusted: true}}, proceed, ""},
		"first party, consent asked for":        {authzState{maxAge: -1, identity: earlier, client: &Client{Trusted: true}, prompts: []string{"consent"}}, consent, ""},
		"prompt=login on an old session":        {authzState{maxAge: -1, identity: earlier, consented: all, prompts: []string{"login"}}, login, ""},
		"prompt=login came back unchanged":      {authzState{maxAge: -1, identity: earlier, consented: all, prompts: []string{"login"}, returned: true, proofSeen: fingerprint(earlier)}, login, ""},
		"prompt=login in the same second":       {authzState{maxAge: -1, identity: signedIn(noon, "x"), consented: all, prompts: []string{"login"}}, login, ""},
		"prompt=login, same second, came back":  {authzState{maxAge: -1, identity: signedIn(noon, "x"), consented: all, prompts: []string{"login"}, returned: true, proofSeen: fingerprint(signedIn(noon, "x"))}, login, ""},
		"prompt=login was obeyed":               {authzState{maxAge: -1, identity: signedIn(noon, "new"), consented: all, prompts: []string{"login"}, returned: true, proofSeen: fingerprint(earlier)}, proceed, ""},
		"prompt=select_account":                 {authzState{maxAge: -1, identity: earlier, consented: all, prompts: []string{"select_account"}}, login, ""},
		"max_age has room":                      {authzState{maxAge: 2 * time.Hour, identity: earlier, consented: all}, proceed, ""},
		"max_age is over":                       {authzState{maxAge: time.Minute, identity: earlier, consented: all}, login, ""},
		"max_age is over, silently":             {authzState{maxAge: time.Minute, identity: earlier, consented: all, prompts: []string{"none"}}, refused, "login_required"},
		"max_age=0 is a fresh sign-in":          {authzState{maxAge: 0, identity: signedIn(noon, "x"), consented: all}, login, ""},
		"max_age=0 was obeyed":                  {authzState{maxAge: 0, identity: signedIn(noon.Add(time.Second), "new"), consented: all, returned: true, proofSeen: fingerprint(earlier)}, proceed, ""},
		"the hint names somebody else":          {authzState{maxAge: -1, identity: earlier, consented: all, hintSub: "bob"}, login, ""},
		"the hint names somebody else, silent":  {authzState{maxAge: -1, identity: earlier, consented: all, hintSub: "bob", prompts: []string{"none"}}, refused, "login_required"},
		"the hint is not met by a new sign-in":  {authzState{maxAge: -1, identity: signedIn(noon, "new"), consented: all, hintSub: "bob", returned: true, proofSeen: fingerprint(earlier)}, refused, "login_required"},
		"the hint is forged":                    {authzState{maxAge: -1, identity: earlier, consented: all, badHint: true}, refused, "invalid_request"},
		"the client's flag is missing":          {authzState{maxAge: -1, identity: earlier, consented: all, client: &Client{RequireFlag: "activity"}}, refused, "access_denied"},
		"the client's flag is there":            {authzState{maxAge: -1, identity: signedIn(noon.Add(-time.Hour), "x", "activity"), consented: all, client: &Client{RequireFlag: "activity"}}, proceed, ""},
		"a decision does not replace a sign-in": {authzState{maxAge: -1, identity: earlier, prompts: []string{"login"}, decision: decisionAllow, returned: true, proofSeen: fingerprint(earlier)}, login, ""},
	} {
		c.q.arrived, c.q.scopes = noon, all
		if c.q.client == nil {
			c.q.client = client
		}
		got, problem := decide(c.q)
		errName := ""
		if problem != nil {
			errName = problem.code
		}
		if got != c.want || errName != c.err {
			t.Errorf("%s: verdict %d %q, want %d %q", name, got, errName, c.want, c.err)
		}
	}
}

func TestInvalidMaxAgeIsRefused(t *testing.T) {
	for _, s := range []string{"-1", "1.5", "x", "99999999999999999999", " 1", "+1", "0x10"} {
		if d, ok := parseMaxAge(s); ok {
			t.Errorf("max_age=%q was taken for %s", s, d)
		}
	}
	if d, ok := parseMaxAge("0"); !ok || d != 0 {
		t.Errorf("max_age=0: %s %v", d, ok)
	}
	if d, ok := parseMaxAge(""); !ok || d >= 0 {
		t.Errorf("no max_age: %s %v", d, ok)
	}
}
