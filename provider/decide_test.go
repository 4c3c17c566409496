package provider

import (
	"context"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// signedIn is a session whose password was given at the time.
func signedIn(at time.Time, proof string, flags ...string) *person.Identity {
	return &person.Identity{
		User:    account.User{Sub: "ada", Flags: flags},
		Session: account.Session{ID: "sid", AuthTime: at, TokenHash: []byte(proof)},
	}
}

// with is the identity with the methods of its sign-in.
func with(id *person.Identity, amr ...string) *person.Identity {
	id.Session.AMR = amr
	return id
}

func TestAuthorizationDecisionsByClassOfSignIn(t *testing.T) {
	old := func(amr ...string) *person.Identity { return with(signedIn(noon.Add(-time.Hour), "old"), amr...) }
	fresh := func(amr ...string) *person.Identity { return with(signedIn(noon, "new"), amr...) }
	otp, passkey := []string{"pwd", "otp", "mfa"}, []string{"hwk", "user", "mfa"}
	essential := func(values ...string) acrRequest { return acrRequest{true, true, values} }
	values := func(values ...string) acrRequest { return acrRequest{true, false, values} }
	needs := func(class string) *Client { return &Client{ID: "app", Trusted: true, RequireACR: class} }
	for name, c := range map[string]struct {
		q    authzState
		want verdict
		err  string
	}{
		"a class of values that the session has":       {authzState{identity: old(otp...), acr: values("phr", "1"), bestACR: "2"}, proceed, ""},
		"a class of values that the user has":          {authzState{identity: old("pwd"), acr: values("2"), bestACR: "2"}, login, ""},
		"the same silently":                            {authzState{identity: old("pwd"), acr: values("2"), bestACR: "2", prompts: []string{"none"}}, proceed, ""},
		"a class of values that the user has not":      {authzState{identity: old("pwd"), acr: values("2"), bestACR: "1"}, proceed, ""},
		"a better class of values, chosen not to use":  {authzState{identity: fresh(otp...), acr: values("phr"), bestACR: "phr", returned: true}, proceed, ""},
		"unknown values":                               {authzState{identity: old("pwd"), acr: values("urn:x", ""), bestACR: "phr"}, proceed, ""},
		"essential and there":                          {authzState{identity: old(passkey...), acr: essential("2"), bestACR: "2"}, proceed, ""},
		"essential, session from before the factor":    {authzState{identity: old("pwd"), acr: essential("2"), bestACR: "2"}, login, ""},
		"essential, that session after max_age":        {authzState{identity: old("pwd"), acr: essential("2"), bestACR: "2", maxAge: 2 * time.Hour}, login, ""},
		"essential, that session came back":            {authzState{identity: old("pwd"), acr: essential("2"), bestACR: "2", returned: true, proofSeen: fingerprint(old())}, login, ""},
		"essential, the factor came after the sign-in": {authzState{identity: fresh("pwd"), acr: essential("2"), bestACR: "2", returned: true}, login, ""},
		"essential, obeyed":                            {authzState{identity: fresh(otp...), acr: essential("2"), bestACR: "2", returned: true}, proceed, ""},
		"essential, silently":                          {authzState{identity: old("pwd"), acr: essential("2"), bestACR: "2", prompts: []string{"none"}}, refused, "login_required"},
		"essential, no such factor":                    {authzState{identity: old("pwd"), acr: essential("2"), bestACR: "1"}, refused, "unmet_authentication_requirements"},
		"essential, no such factor, silently":          {authzState{identity: old("pwd"), acr: essential("phr"), bestACR: "2", prompts: []string{"none"}}, refused, "unmet_authentication_requirements"},
		"essential, another factor was chosen":         {authzState{identity: fresh(otp...), acr: essential("phr"), bestACR: "phr", returned: true}, refused, "unmet_authentication_requirements"},
		"essential, the passkey was removed":           {authzState{identity: old(passkey...), acr: essential("phr"), bestACR: "2"}, refused, "unmet_authentication_requirements"},
		"required, the factor was removed":             {authzState{identity: old(otp...), client: needs("2"), bestACR: "1"}, setUpFactor, ""},
		"essential and unknown":                        {authzState{identity: old(passkey...), acr: essential("urn:x", ""), bestACR: "phr"}, refused, "unmet_authentication_requirements"},
		"nobody, essential":                            {authzState{acr: essential("2")}, login, ""},
		"required and there":                           {authzState{identity: old(otp...), client: needs("2"), bestACR: "2"}, proceed, ""},
		"required, session from before the factor":     {authzState{identity: old("pwd"), client: needs("2"), bestACR: "2"}, login, ""},
		"required, no factor":                          {authzState{identity: old("pwd"), client: needs("2"), bestACR: "1"}, setUpFactor, ""},
		"required, no factor, signed in for it":        {authzState{identity: fresh("pwd"), client: needs("2"), bestACR: "1", returned: true}, setUpFactor, ""},
		"required, no factor, silently":                {authzState{identity: old("pwd"), client: needs("2"), bestACR: "1", prompts: []string{"none"}}, refused, "interaction_required"},
		"required, no passkey":                         {authzState{identity: old(otp...), client: needs("phr"), bestACR: "2"}, setUpFactor, ""},
		"required, another factor was chosen":          {authzState{identity: fresh(otp...), client: needs("phr"), bestACR: "phr", returned: true}, refused, "unmet_authentication_requirements"},
		"the settings demand a factor":                 {authzState{identity: old("pwd"), needsFactor: true, bestACR: "1"}, setUpFactor, ""},
		"the settings demand a factor that is there":   {authzState{identity: old("pwd"), needsFactor: true, bestACR: "2"}, login, ""},
		"the settings and the client demand":           {authzState{identity: old(otp...), client: needs("phr"), needsFactor: true, bestACR: "2"}, setUpFactor, ""},
	} {
		if c.q.arrived = noon; c.q.maxAge == 0 {
			c.q.maxAge = -1
		}
		if c.q.client == nil {
			c.q.client = &Client{ID: "app", Trusted: true}
		}
		if c.q.identity != nil {
			c.q.identity.User.SecondFactor = c.q.bestACR != account.ACRPassword
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

func TestAnsweredClassIsTheFirstThatWasAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		a           acrRequest
		class, want string
	}{
		"password, not asked": {acrRequest{}, "1", ""}, "more, not asked": {acrRequest{}, "2", "2"}, "asked without values": {acrRequest{requested: true}, "1", "1"},
		"first": {acrRequest{true, false, []string{"2", "1"}}, "phr", "2"}, "second": {acrRequest{true, false, []string{"phr", "2", "1"}}, "2", "2"},
		"none": {acrRequest{true, false, []string{"phr"}}, "2", "2"}, "empty": {acrRequest{true, false, []string{"", "2"}}, "2", "2"}, "unknown": {acrRequest{true, false, []string{"urn:x"}}, "1", "1"},
	} {
		same(t, name, c.a.answer(c.class), c.want)
	}
}

const stale = 10*time.Minute + time.Second

// confirmed is an old session whose user proved their identity that long ago.
func confirmed(ago time.Duration) *person.Identity {
	id := signedIn(noon.Add(-time.Hour), "old")
	id.Session.ConfirmedAt = noon.Add(-ago)
	return id
}

func withFactor(id *person.Identity) *person.Identity {
	id.User.SecondFactor = true
	return id
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
		"nobody, by a form of another site":     {authzState{maxAge: -1, posted: true, prompts: []string{"none"}}, repeat, ""},
		"signed in, by a form of another site":  {authzState{maxAge: -1, posted: true, identity: earlier, consented: all}, proceed, ""},
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
		"the client's flag is missing":          {authzState{maxAge: -1, identity: earlier, consented: all, client: &Client{RequireFlags: []string{"activity"}}}, notAllowed, "access_denied"},
		"the flag is missing, silently":         {authzState{maxAge: -1, identity: earlier, prompts: []string{"none"}, client: &Client{RequireFlags: []string{"activity"}}}, refused, "access_denied"},
		"the flag is missing, on the way back":  {authzState{maxAge: -1, identity: earlier, leaves: true, client: &Client{RequireFlags: []string{"activity"}}}, refused, "access_denied"},
		"the client's flag is there":            {authzState{maxAge: -1, identity: signedIn(noon.Add(-time.Hour), "x", "activity"), consented: all, client: &Client{RequireFlags: []string{"activity"}}}, proceed, ""},
		"what lasts, session proven recently":   {authzState{maxAge: -1, identity: confirmed(10 * time.Minute), consented: all, lasts: lastsOffline, newLasting: lastsOffline}, proceed, ""},
		"what lasts, stale session":             {authzState{maxAge: -1, identity: confirmed(stale), consented: all, lasts: lastsOffline, newLasting: lastsOffline}, login, ""},
		"what lasts, of a first party":          {authzState{maxAge: -1, identity: confirmed(stale), client: &Client{Trusted: true}, newLasting: lastsOnDevice}, login, ""},
		"what lasts, silently":                  {authzState{maxAge: -1, identity: confirmed(stale), consented: all, prompts: []string{"none"}, newLasting: lastsLonger}, refused, "login_required"},
		"what lasts, and a second factor since": {authzState{maxAge: -1, identity: withFactor(confirmed(0)), consented: all, newLasting: lastsOffline}, login, ""},
		"what lasts, and living access":         {authzState{maxAge: -1, identity: confirmed(stale), consented: all, lasts: lastsOffline}, proceed, ""},
		"what lasts, stale session, denied":     {authzState{maxAge: -1, identity: confirmed(stale), decision: decisionDeny, newLasting: lastsOffline}, refused, "access_denied"},
		"a decision does not replace a sign-in": {authzState{maxAge: -1, identity: earlier, prompts: []string{"login"}, decision: decisionAllow, returned: true, proofSeen: fingerprint(earlier)}, login, ""},
	} {
		c.q.arrived, c.q.now, c.q.agreed = noon, noon, all
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

// Explain has only the rules: a field that newRules leaves out would be nil in one command.
func TestRulesHaveEveryField(t *testing.T) {
	rs := reflect.ValueOf(newRules(Options{
		Storage: &assertionStorage{}, Issuer: testIssuer, Keys: []jose.JSONWebKey{{}}, RequirePushed: true, Now: time.Now, Log: slog.Default(),
	}, func(context.Context, account.User) (bool, error) { return false, nil }))
	for i := range rs.NumField() {
		if rs.Field(i).IsZero() {
			t.Errorf("%s is not set", rs.Type().Field(i).Name)
		}
	}
}
