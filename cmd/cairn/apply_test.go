package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/storetest"
)

// docs/apply.schema.json is for editors. UPDATE_DOCS=1 writes it.
func TestSchemaOfTheDocumentsIsThatOfTheProgram(t *testing.T) {
	const file = "../../docs/apply.schema.json"
	want := (&shell{t: t}).must("apply", "--schema")
	have, _ := os.ReadFile(file)
	if string(have) == want {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatalf("%s is another: run UPDATE_DOCS=1 go test ./cmd/cairn -run Schema", file)
	}
	fatalIf(t, os.WriteFile(file, []byte(want), 0o644))
}

// applySamples are values of keys of which the test below cannot make one by the tags, with further keys
// that they need.
var applySamples = map[string]string{
	"redirect-uri": "[https://b.example.org/cb, https://a.example.org/cb]", "post-logout-redirect-uri": "[https://a.example.org/bye]",
	"backchannel-logout-uri": "https://a.example.org/logout", "allow-private-backchannel": "true, backchannel-logout-uri: https://10.0.0.1/",
	"public": "true", "scope": "[openid, email]", "auth-method": "client_secret_post",
	"jwks":      `{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}, auth-method: private_key_jwt`,
	"jwks-file": "keys.json, auth-method: private_key_jwt", "require-flag": "activity", "require-acr": "phr", "refresh-grace": "30s",
	"profile": `fapi2, jwks-file: keys.json`, "id-token-alg": "ES256", "id-token-claims": "false", "optional-scope": "[email]",
	"home-uri": "https://a.example.org/", "initiate-login-uri": "https://a.example.org/start", "group": "[activity]",
	"name": "Another", "secret-hash": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "secret-file": "secret",
	"logo-file": "logo.png", "API scope": "{trails.read: See your trails}", "API token": "opaque", "API lifetime": "5m", "API alg": "ES256",
	"API client": "[before]", "API claim": "[tier=gold if activity]",
	"claim": "['role=lead if activity', 'role=viewer']", "claim-in": "[id_token], claim: [role=viewer]", "require-all": "true, require-flag: [activity, admin]",
	"access-token-lifetime": "15m0s", "refresh-token-lifetime": "168h0m0s", "refresh-token-max-lifetime": "720h0m0s",
	"allowance scope": "[openid, email]", "allowance api": "[https://before.example.org]",
}

// Each key of each list is applied, is in the schema, and comes back by export: a second run of what was
// exported changes nothing. A new flag of client add or api add is found here automatically.
func TestEveryKeyOfAnEntryIsAppliedAndExported(t *testing.T) {
	s, _ := sqliteShell(t)
	const secret = "x7KqJd93hZ0f-Wn2mB5vR8tY1uE4oP6aS"
	var logo bytes.Buffer
	fatalIf(t, png.Encode(&logo, image.NewGray(image.Rect(0, 0, 2, 2))))
	for name, text := range map[string]string{
		"secret": secret + "\n", "keys.json": `{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`,
		"logo.png": logo.String(),
	} {
		fatalIf(t, os.WriteFile(name, []byte(text), 0o600))
	}
	s.must("client", "add", "Before", "--id", "before", "--public", "--redirect-uri", "https://before.example.org/cb")
	s.must("api", "add", "https://before.example.org", "--name", "Before", "--all-clients")
	starts := map[string]string{
		"client": "{id: ID, redirect-uri: https://a.example.org/cb", "API": "{uri: https://ID.example.org", "allowance": "{url: https://ID.example.org/*",
	}
	type keys map[string]struct{ Type any }
	var schema struct {
		Properties map[string]struct{ Items struct{ Properties keys } }
	}
	fatalIf(t, json.Unmarshal([]byte(s.must("apply", "--schema")), &schema))
	var before, with strings.Builder
	var titles []string
	for _, list := range []struct{ name, kind, key string }{
		{"clients", "client", "id"}, {"apis", "API", "uri"}, {"allowances", "allowance", "url"},
	} {
		fmt.Fprintf(&before, "%s:\n", list.name)
		fmt.Fprintf(&with, "%s:\n", list.name)
		known := schema.Properties[list.name].Items.Properties
		if len(known) < 3 {
			t.Fatalf("the schema has %d keys of %s", len(known), list.name)
		}
		for _, key := range slices.Sorted(maps.Keys(known)) {
			value, id := cmp.Or(applySamples[list.kind+" "+key], applySamples[key]), fmt.Sprintf("e%d", len(titles))
			if value == "" && known[key].Type == "boolean" {
				value = "true"
			}
			if key == list.key {
				continue
			} else if value == "" {
				t.Errorf("give %s of the %s a value in applySamples", key, list.kind)
				continue
			}
			start := strings.ReplaceAll(starts[list.kind], "ID", id)
			fmt.Fprintf(&before, "- %s}\n", start)
			if key == "redirect-uri" {
				start = "{id: " + id
			}
			fmt.Fprintf(&with, "- %s, %s: %s}\n", start, key, value)
			_, title, _ := strings.Cut(strings.TrimSuffix(start, ", redirect-uri: https://a.example.org/cb"), ": ")
			titles = append(titles, "~ "+list.kind+" "+title+"\n")
		}
	}
	apply := func(text string) string {
		t.Helper()
		fatalIf(t, os.WriteFile("apply.yaml", []byte(text), 0o600))
		return s.must("apply", "apply.yaml")
	}
	apply(before.String())
	printed := apply(with.String())
	for _, title := range titles {
		has(t, "nothing is changed", printed, title)
	}
	all := s.must("export", "clients")
	for _, text := range []string{with.String(), all} {
		same(t, "again", apply(text), "nothing to change\n")
	}
	// What was exported makes the same in an empty installation.
	s.environ = []string{"SERVICE_DATABASE=other.db"}
	s.must("init", "--handle", "keeper", "--generate-password")
	apply(all)
	same(t, "another installation exports", s.must("export", "clients"), all)
	if strings.Contains(all, secret) || strings.Contains(s.must("audit", "list", "-o", "json"), secret) {
		t.Error("a secret is in what was exported, or in the audit log")
	}
}

// Each mistake is named with its line and its remedy, and nothing is changed.
func TestApplyNamesEveryMistakeWithItsLine(t *testing.T) {
	s, _ := sqliteShell(t)
	fatalIf(t, os.WriteFile("short", []byte("hunter2\n"), 0o600))
	const file = `clients:
  - id: one
    redirect-uri:
      - http://one.example.org/cb
      - https://one.example.org/*
      - https://ok.example.org/
    redirect-urls: []
    secret-hash: md5:123
    refresh-grace: 5m
    trusted: perhaps
  - id: one
    redirect-uri: https://two.example.org/
  - id: bad id
    redirect-uri: https://three.example.org/
    auth-method: basic
    secret-file: short
    require-flag: nobody
  - id: four
    public: true
    auth-method: client_secret_post
  - name: Nobody
    redirect-uri: https://five.example.org/
  - id: five
    redirect-uri: https://five.example.org/
    redirect-uri: https://six.example.org/
    home-uri:
apis:
  - uri: https://api.example.org
    scope: [openid=x, trails]
    lifetime: 1s
    client: [nobody, one, bad id]
allowances:
  - url: http://agents.example.org/*
    api: [https://nothing.example.org]
setings: {}
settings:
  max_user: 3
  max_users: -1
  registration: open
  invites_per_member: many
`
	fatalIf(t, os.WriteFile("bad.yaml", []byte(file), 0o600))
	before := s.must("export", "clients") + s.must("audit", "list")
	code, printed := s.run("apply", "bad.yaml")
	var lines []string
	for i, want := range []string{
		`4: client one: redirect-uri "http://one.example.org/cb": http is only for localhost, 127.0.0.1 and [::1]: use https, or allow-insecure-redirect on a network you trust`,
		`5: client one: redirect-uri "https://one.example.org/*": wildcards are not supported`,
		`7: client: there is no key "redirect-urls": did you mean redirect-uri?`,
		"8: client one: secret-hash: write sha256: and 64 digits",
		"9: client one: refresh-grace: whole seconds, at most 1m0s",
		"10: trusted: write true or false",
		"11: client one is in bad.yaml, line 2, already: remove one",
		"13: client bad id: id: 1 to 64 letters, digits, - or _",
		"15: client bad id: auth-method must be one of ",
		"16: client bad id: secret-file: a secret has 32 to 512 characters: make one with: openssl rand -hex 32",
		`17: client bad id: require-flag: there is no flag "nobody" here: cairn settings set flags --add nobody adds it`,
		"18: client four: redirect-uri: at least one is needed",
		"19: client four: public and auth-method exclude each other",
		"21: the client has no id: add one",
		"25: client: redirect-uri is at line 24 already: remove one",
		"26: home-uri: it is empty: write a value, or remove the line",
		`29: API https://api.example.org: scope "trails": write NAME=SENTENCE`,
		`29: API https://api.example.org: scope "openid": this is a scope of OpenID Connect`,
		"30: API https://api.example.org: lifetime: whole seconds, from one minute to 24 hours",
		`31: API https://api.example.org: client "nobody": there is no such client`,
		`33: allowance http://agents.example.org/*: url "http://agents.example.org/*": `,
		`34: allowance http://agents.example.org/*: api "https://nothing.example.org": there is no such API`,
		`35: there is no key "setings": did you mean settings?`,
		`37: settings: there is no key "max_user": did you mean max_users?`,
		"38: settings: max_users: 0 (no limit) to 1,000,000",
		`39: settings: registration: "invite", "request" or "closed"`,
		"40: settings: invites_per_member: must be a number",
		"cairn: nothing was changed; mistakes: 27",
	} {
		if lines = strings.Split(strings.TrimSpace(printed), "\n"); i >= len(lines) || !strings.HasPrefix(strings.TrimPrefix(lines[i], "bad.yaml:"), want) {
			t.Fatalf("line %d is not %q in\n%s", i+1, want, printed)
		}
	}
	if len(lines) != 28 || code != cli.ExitUsage {
		t.Errorf("exit code %d, %d lines\n%s", code, len(lines), printed)
	}
	fatalIf(t, os.WriteFile("both.yaml", []byte("clients: [{id: six, redirect-uri: https://six.example.org/, secret-file: short, "+
		"secret-hash: x}]"), 0o600))
	_, printed = s.run("apply", "both.yaml")
	has(t, "printed", printed, "both.yaml:1: client six: give secret-file or secret-hash, not both")
	same(t, "something was changed", s.must("export", "clients")+s.must("audit", "list"), before)
}

// A secret that was written in the place of its file is not printed, nor are characters that control a terminal.
func TestApplyPrintsNeitherSecretsNorControlCharacters(t *testing.T) {
	const secret = "f1d2d2f924e986ac86fdf7b36c94bcdf32beec15"
	s, _ := sqliteShell(t)
	fatalIf(t, os.WriteFile("bad.yaml", []byte("clients:\n- {id: one, redirect-uri: https://one.example.org/cb, secret-file: "+secret+"}\n"+
		`- {id: "\e[31mred", redirect-uri: https://two.example.org/cb, "\e[7m": 1}`), 0o600))
	code, printed := s.run("apply", "bad.yaml")
	if code != cli.ExitUsage || !strings.HasPrefix(printed, "bad.yaml:2: client one: secret-file: there is no such file") || strings.Contains(printed, secret) {
		t.Errorf("exit code %d: %s", code, printed)
	}
	if !strings.Contains(printed, "bad.yaml:3: client \ufffd[31mred: id: ") || strings.Contains(printed, "\x1b") {
		t.Errorf("printed %q", printed)
	}
}

// A setting that the file does not name may no longer fit what it names: that is a mistake with a line, too.
func TestApplyNamesASettingThatNoLongerFits(t *testing.T) {
	s, _ := sqliteShell(t)
	s.must("settings", "set", "flags", "coach", "board")
	s.must("settings", "set", "session_flags", "board")
	fatalIf(t, os.WriteFile("fewer.yaml", []byte("settings:\n  flags: [coach]\n  max_users: 9\n"), 0o600))
	code, printed := s.run("apply", "fewer.yaml")
	if code != cli.ExitUsage ||
		!strings.HasPrefix(printed, "fewer.yaml:2: settings: session_flags: only permissions that exist here\n") ||
		!strings.Contains(printed, "mistakes: 1") {
		t.Errorf("exit code %d: %s", code, printed)
	}
}

// Aliases and merge keys have the values of their anchors. An anchor inside itself ends nowhere, and is refused.
func TestApplyReadsAnchors(t *testing.T) {
	s, _ := sqliteShell(t)
	for name, text := range map[string]string{
		"merged.yaml": "clients:\n  - &web {id: one, redirect-uri: &cb [https://one.example.org/cb], require-flag: activity, trusted: true}\n" +
			"  - <<: *web\n    id: two\n    trusted: false\n  - {<<: [{id: three}, *web]}\n  - {id: four, redirect-uri: *cb}\n",
		"endless.yaml": "clients:\n  - &a\n    id: one\n    <<: *a\n",
	} {
		fatalIf(t, os.WriteFile(name, []byte(text), 0o600))
	}
	s.must("apply", "merged.yaml")
	for id, want := range map[string]string{"one": "[activity] true", "two": "[activity] false", "three": "[activity] true", "four": "[] false"} {
		var c struct {
			RequireFlags []string `json:"require_flags"`
			Trusted      bool     `json:"trusted"`
		}
		fatalIf(t, json.Unmarshal([]byte(s.must("client", "show", id, "-o", "json")), &c))
		same(t, id, fmt.Sprint(c.RequireFlags, " ", c.Trusted), want)
	}
	if code, printed := s.run("apply", "endless.yaml"); code != cli.ExitUsage || !strings.Contains(printed, `endless.yaml:4: client: there is no key "<<"`) {
		t.Errorf("exit code %d: %s", code, printed)
	}
}

// Anchors that refer to one another would multiply without end: keys and values count where they are used.
func TestApplyBoundsWhatAnchorsStandFor(t *testing.T) {
	s, _ := sqliteShell(t)
	var merges strings.Builder
	merges.WriteString("clients:\n- &a0 {id: one}\n")
	for i := range 9 {
		fmt.Fprintf(&merges, "- &a%d\n  id: c%d\n  <<: [%s]\n", i+1, i, strings.Repeat(fmt.Sprintf("*a%d, ", i), 50))
	}
	for name, text := range map[string]string{
		"merges.yaml":  merges.String(),
		"aliases.yaml": "clients:\n- &a {id: one, scope: [" + strings.Repeat("a, ", 5000) + "]}\n- " + strings.Repeat("*a\n- ", 5000) + "*a\n",
	} {
		fatalIf(t, os.WriteFile(name, []byte(text), 0o600))
		start := time.Now()
		code, printed := s.run("apply", name)
		if code != cli.ExitUsage || !strings.Contains(printed, "keys and values become more than 1,000,000") {
			t.Errorf("%s: exit code %d: %.300s", name, code, printed)
		}
		if took := time.Since(start); took > 20*time.Second { // without a bound: hours
			t.Errorf("%s: it took %s", name, took)
		}
	}
}

// Whoever can write one of these files registers clients, or knows a secret: each is refused as cairn.yaml is, by
// each command that reads it.
func TestFilesThatOthersMayWriteAreRefused(t *testing.T) {
	s, _ := sqliteShell(t)
	var logo bytes.Buffer
	fatalIf(t, png.Encode(&logo, image.NewGray(image.Rect(0, 0, 2, 2))))
	const jwt = "auth-method: private_key_jwt, jwks-file: keys.json"
	fatalIf(t, os.Mkdir("folder", 0o700))
	for name, text := range map[string]string{
		"secret": "x7KqJd93hZ0f-Wn2mB5vR8tY1uE4oP6aS\n", "logo.png": logo.String(), "folder/a.yaml": "clients: []",
		"keys.json":   `{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`,
		"secret.yaml": "clients: [{id: s, redirect-uri: https://a.example.org/cb, secret-file: secret}]",
		"api.yaml":    "apis: [{uri: https://a.example.org, secret-file: secret}]",
		"logo.yaml":   "clients: [{id: l, redirect-uri: https://a.example.org/cb, logo-file: logo.png}]",
		"jwks.yaml":   "clients: [{id: j, redirect-uri: https://a.example.org/cb, " + jwt + "}]",
	} {
		fatalIf(t, os.WriteFile(name, []byte(text), 0o600))
	}
	client := []string{"client", "add", "A", "--redirect-uri", "https://a.example.org/cb"}
	for _, c := range []struct {
		file string
		args []string
	}{
		{"jwks.yaml", []string{"apply", "jwks.yaml"}}, {"folder/a.yaml", []string{"apply", "folder"}},
		{"secret", []string{"apply", "secret.yaml"}}, {"secret", []string{"apply", "api.yaml"}},
		{"logo.png", []string{"apply", "logo.yaml"}}, {"keys.json", []string{"apply", "jwks.yaml"}},
		{"jwks.yaml", []string{"serve", "--private-key-file", "key.pem", "--listen", "127.0.0.1:0", "--log-level", "error", "--apply", "jwks.yaml"}},
		{"secret", append(slices.Clone(client), "--secret-file", "secret")},
		{"logo.png", append(slices.Clone(client), "--logo-file", "logo.png")},
		{"keys.json", append(slices.Clone(client), "--auth-method", "private_key_jwt", "--jwks-file", "keys.json")},
	} {
		for _, mode := range []os.FileMode{0o620, 0o602} {
			fatalIf(t, os.Chmod(c.file, mode))
			code, printed := s.run(c.args...)
			want := fmt.Sprintf("%s: other users of the machine may write it (mode %04o): run chmod go-w %[1]s", c.file, mode)
			if code == cli.ExitDone || !strings.Contains(printed, want) {
				t.Errorf("%s: exit code %d: %s", strings.Join(c.args, " "), code, printed)
			}
		}
		fatalIf(t, os.Chmod(c.file, 0o644)) // as those of containers are
		folder := filepath.Dir(c.file)
		fault, modes := "may write its folder /", []os.FileMode{0o757} // whoever can write it puts another file there
		if slices.Contains(c.args, folder) {
			fault, modes = "may put files into it (mode 0757): run chmod o-w folder", append(modes, 0o757|os.ModeSticky)
		}
		for _, mode := range modes {
			fatalIf(t, os.Chmod(folder, mode))
			code, printed := s.run(c.args...)
			if code == cli.ExitDone || !strings.Contains(printed, "other users of the machine "+fault) || !strings.Contains(printed, "run chmod o-w ") {
				t.Errorf("%s in an open folder: exit code %d: %s", strings.Join(c.args, " "), code, printed)
			}
		}
		fatalIf(t, os.Chmod(folder, 0o700))
	}
	same(t, "registered", s.must("client", "list", "-q")+s.must("api", "list", "-q"), "")
	for _, name := range []string{"folder", "secret.yaml", "api.yaml", "logo.yaml", "jwks.yaml"} {
		s.must("apply", name)
	}
}

// A file for 50 clients, 5 APIs and settings, by several instances at once: one changes it all.
func TestApplyOfManyIsQuickAndDoneOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		var file strings.Builder
		file.WriteString("settings: {instance_name: The club, flags: [activity, coach], max_users: 70}\nclients:\n")
		for i := range 50 {
			fmt.Fprintf(&file, "- {id: c%d, redirect-uri: [https://c%d.example.org/cb], require-flag: coach, home-uri: https://c%d.example.org/,\n"+
				"   secret-hash: sha256:%064x}\n", i, i, i, i)
		}
		file.WriteString("apis:\n")
		for i := range 5 {
			fmt.Fprintf(&file, "- {uri: https://api%d.example.org, name: A, client: [c1, c%d], scope: {s%d: See it}}\n", i, i+10, i)
		}
		fatalIf(t, os.WriteFile("many.yaml", []byte(file.String()), 0o600))
		start := time.Now()
		if code, printed := s.run("apply", "many.yaml", "--dry-run"); code != 3 || !strings.HasSuffix(printed, "\n56 to change\n") {
			t.Fatalf("exit code %d: %s", code, printed)
		}
		printed := make([]string, 4)
		var all sync.WaitGroup
		for i := range printed {
			all.Go(func() {
				of := &shell{t: t, environ: s.environ}
				_, printed[i] = of.run("apply", "many.yaml")
			})
		}
		all.Wait()
		t.Logf("%d runs took %s", 1+len(printed), time.Since(start))
		slices.Sort(printed)
		last := len(printed) - 1
		if !slices.Equal(printed[:last], slices.Repeat([]string{"nothing to change\n"}, last)) || !strings.HasSuffix(printed[last], "\n56 changed\n") {
			t.Errorf("printed %q", printed)
		}
		rows := s.must("audit", "list", "-q")
		start = time.Now()
		if again := s.must("apply", "many.yaml"); again != "nothing to change\n" || s.must("audit", "list", "-q") != rows {
			t.Errorf("a second run: %s", again)
		}
		if took := time.Since(start); took > 5*time.Second { // the bar is 2 s on an idle machine
			t.Errorf("it took %s", took)
		}
		// The last entry fails in the database alone: all before it is undone.
		fatalIf(t, os.WriteFile("many.yaml", []byte(strings.Replace(file.String(), "{s4: See it}", "{s4: See it, s3: Again}", 1)+
			"- {uri: https://new.example.org, name: N}\n"), 0o600))
		if code, printed := s.run("apply", "many.yaml"); code != cli.ExitUsage || !strings.Contains(printed, `scope "s3": another API has a scope of this name`) {
			t.Errorf("exit code %d: %s", code, printed)
		}
		if s.must("audit", "list", "-q") != rows || strings.Contains(s.must("api", "list", "-q"), "new.example.org") {
			t.Error("part of it was changed")
		}
	})
}

// An agent goes with the last allowance that admits it. One that the file makes in the same run counts, and who goes
// is told.
func TestPruneKeepsTheAgentsThatTheFileStillAllows(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		const host, one, two = "https://agents.example.org/", "https://agents.example.org/1.json", "https://agents.example.org/2.json"
		fatalIf(t, os.WriteFile("before.yaml", []byte("allowances: [{url: '"+host+"*'}]"), 0o600))
		fatalIf(t, os.WriteFile("after.yaml", []byte("allowances: [{url: '"+one+"'}]"), 0o600))
		s.must("apply", "before.yaml")
		st, ctx, now := storetest.Open(t, dsn), t.Context(), time.Now()
		users, _, err := st.Users(ctx, account.UserQuery{Limit: 1})
		fatalIf(t, err)
		for _, id := range []string{one, two} {
			c := &provider.Client{ID: id, Name: "agents.example.org: Agent", Document: true, RedirectURIs: []string{"https://agents.example.org/cb"},
				Scopes: []string{"openid"}, AuthMethod: provider.AuthNone, RequirePKCE: true, CreatedAt: now}
			fatalIf(t, st.KeepDocumentClient(ctx, c))
			fatalIf(t, st.SaveConsent(ctx, users[0].Sub, id, []string{"openid"}, now, cli.Operator(account.AllowApp, "", "")))
		}
		const want = "+ allowance " + one + "\n  + url: " + one + "\n  + scope: openid\n  + scope: profile\n  + scope: email\n  + scope: offline_access\n" +
			"- allowance " + host + "*\n- client " + two + "\n3 "
		if code, printed := s.run("apply", "--prune", "--dry-run", "after.yaml"); code != 3 || printed != want+"to change\n" {
			t.Errorf("exit code %d: %s", code, printed)
		}
		same(t, "apply", s.must("apply", "--prune", "after.yaml"), want+"changed\n")
		same(t, "left", s.must("client", "list", "-q"), one+"\n")
		if scopes, err := st.ConsentedScopes(ctx, users[0].Sub, one); err != nil || len(scopes) != 1 {
			t.Errorf("consent to %v, %v", scopes, err)
		}
	})
}

// A secret that a rotation ended is no longer the one that works: the file's takes its place again, and serve says so,
// because the rotation may have had a reason.
func TestTheFileReplacesARotatedSecret(t *testing.T) {
	s, _ := sqliteShell(t)
	const secret, uri = "f1d2d2f924e986ac86fdf7b36c94bcdf32beec15", "https://api.example.org"
	fatalIf(t, os.WriteFile("secret", []byte(secret+"\n"), 0o600))
	fatalIf(t, os.WriteFile("apply.yaml", []byte("clients: [{id: photos, redirect-uri: https://photos.example.org/cb, secret-file: secret}]\n"+
		"apis: [{uri: "+uri+", token: opaque, secret-file: secret}]"), 0o600))
	s.must("apply", "apply.yaml")
	rotate := func(more ...string) {
		s.must(append([]string{"client", "rotate-secret", "photos"}, more...)...)
		s.must(append([]string{"api", "rotate-secret", uri}, more...)...)
	}
	if rotate(); s.must("apply", "apply.yaml") != "~ client photos\n  ~ secret\n~ API "+uri+"\n  ~ secret\n2 changed\n" {
		t.Error(s.printed.String())
	}
	if rotate("--overlap", "24h"); s.must("apply", "apply.yaml") != "nothing to change\n" { // it still works
		t.Error(s.printed.String())
	}
	s.must("client", "rotate-secret", "photos")
	s.must("api", "rotate-secret", uri, "--now")
	p := startProcess(t, "--private-key-file", "key.pem", "--apply", "apply.yaml")
	var warned []string
	for _, line := range p.rest() {
		if _, what, ok := strings.Cut(line, "replaced the secret of the "); ok && strings.Contains(line, "WARN") {
			title, _, _ := strings.Cut(what, ": ")
			warned = append(warned, title)
		}
	}
	sameList(t, "serve warns", warned, []string{"client photos", "API " + uri})
}

// A service that cannot start changes nothing.
func TestServeAppliesNothingIfItCannotStart(t *testing.T) {
	s, _ := sqliteShell(t)
	fatalIf(t, os.WriteFile("apply.yaml", []byte("clients: [{id: app, public: true, redirect-uri: https://app.example.org/}]"), 0o600))
	fatalIf(t, os.WriteFile("broken.pem", nil, 0o600))
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	fatalIf(t, err)
	defer func() { _ = busy.Close() }()
	for setting, args := range map[string][]string{
		"--listen (SERVICE_LISTEN)":                 {"--listen", busy.Addr().String()},
		"--metrics-listen (SERVICE_METRICS_LISTEN)": {"--listen", "127.0.0.1:0", "--metrics-listen", busy.Addr().String()},
		"--tls-cert-file (SERVICE_TLS_CERT_FILE)": {"--listen", "127.0.0.1:0", "--issuer", "https://localhost", "--tls-cert-file", "broken.pem",
			"--tls-key-file", "key.pem"},
		"SERVICE_SMTP_PASSWORD_FILE": {"--listen", "127.0.0.1:0", "--smtp-url", "smtp://ada@mail.example.org", "--mail-from", "ada@example.org",
			"--smtp-password-file", "none"},
	} {
		s.refused([]string{setting}, append([]string{"serve", "--log-level", "error", "--private-key-file", "key.pem", "--apply", "apply.yaml"}, args...)...)
		same(t, fmt.Sprintf("%s: clients", setting), s.must("client", "list", "-q"), "")
	}
}

// serve applies the file before it answers, here the example of the documents, and does not start with a mistake in it.
func TestServeAppliesItsFile(t *testing.T) {
	example := blocks(documents(t)["docs/apply.md"], "yaml")[0]
	s, _ := sqliteShell(t)
	fatalIf(t, os.WriteFile("good.yaml", []byte(example), 0o600))
	fatalIf(t, os.Mkdir("secrets", 0o700))
	fatalIf(t, os.WriteFile("secrets/photos", []byte("f1d2d2f924e986ac86fdf7b36c94bcdf32beec15\n"), 0o600))
	fatalIf(t, os.WriteFile("bad.yaml", []byte("clients:\n- {id: other, public: true, redirect-uri: https://app.example.org/}\n- {id: app, rubbish: 1}"), 0o600))
	for range 2 {
		p := startProcess(t, "--database", "cairn.db", "--private-key-file", "key.pem", "--apply", "good.yaml")
		same(t, "clients", s.must("client", "list", "-q"), "phone\nphotos\n")
		p.stop()
		<-p.code
	}
	same(t, "rows", strings.Count(s.must("audit", "list"), "registered the application photos"), 1)
	s.environ = []string{"SERVICE_APPLY=bad.yaml"}
	s.refused([]string{"SERVICE_APPLY", `bad.yaml:3: client: there is no key "rubbish"`, "nothing was changed"},
		"serve", "--listen", "127.0.0.1:0", "--private-key-file", "key.pem", "--log-level", "error")
	same(t, "clients", s.must("client", "list", "-q"), "phone\nphotos\n")
}

// Whoever chooses a secret chooses one that cannot be guessed; its hash has one form.
func TestGivenSecretsLookRandom(t *testing.T) {
	long := ""
	for i := range byte(8) {
		long += fmt.Sprintf("%x", account.HashSecret(string(i)))
	}
	for secret, ok := range map[string]bool{
		"0123456789abcdef0123456789abcdef": false, "short": false, "dmmdgmjpmamasjgmddpjmsmjjpsddpdsmjpa": false, strings.Repeat("aB3$xY7!", 4): false, strings.Repeat("a", 40): false,
		"passwordpasswordpasswordpassword-5": false, "Tr0ub4dor&3-Tr0ub4dor&3-Tr0ub4dor&": false,
		long: true, long + "x": false, "abcdefghijklmnopqrstuvwxyzABCDEFGH": false, "with a space in it, and long enough to be one": false, "ümläut-und-sehr-lang-genug-0192837465": false,
		"e3b0c44298fc1c149afbf4c8996fb924": true, "f1d2d2f924e986ac86fdf7b36c94bcdf32beec15": true, "Zk9-vQ2_xL7pWm4RtY8sHn3JbC6dFg1K": true,
	} {
		stored, err := provider.GivenSecret(secret, time.Now())
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", secret, err)
		}
		if ok {
			if again, err := provider.ParseSecretHash(stored.HashText(), stored.CreatedAt); err != nil ||
				!reflect.DeepEqual(again, stored) {
				t.Errorf("%s: %v", stored.HashText(), err)
			}
		}
	}
	for range 2000 {
		secret, _ := provider.NewSecret(time.Now())
		if _, err := provider.GivenSecret(secret, time.Now()); err != nil {
			t.Fatalf("a generated secret is refused: %v", err)
		}
	}
	if _, err := provider.ParseSecretHash("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		time.Now()); err == nil || !strings.Contains(err.Error(), "empty secret") {
		t.Errorf("the hash of nothing: %v", err)
	}
	for _, text := range []string{"", "sha256:", "sha256:" + strings.Repeat("a", 63), "SHA256:" + strings.Repeat("a", 64), "sha256:" + strings.Repeat("A", 64), "sha256:" + strings.Repeat("g", 64)} {
		if _, err := provider.ParseSecretHash(text, time.Now()); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
