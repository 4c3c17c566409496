package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/store/storetest"
)

// unaudited are the commands that write no row, because they change nothing of an installation that exists.
var unaudited = map[string]string{
	"client list": "reads", "client apps": "reads", "client show": "reads", "api list": "reads", "api show": "reads", "explain": "reads", "show-secret": "reads",
	"invite list": "reads", "join list": "reads", "user list": "reads", "user show": "reads", "user export": "reads", "session list": "reads",
	"settings list": "reads", "settings get": "reads", "audit list": "reads", "keys list": "reads", "doctor": "reads", "healthcheck": "reads",
	"backup create": "writes a file", "backup verify": "reads", "mail test": "sends a mail", "keys generate": "writes a file",
	"demo": "has an installation of its own", "serve": "writes the rows of what people do", "migrate": "changes the schema alone",
	"copy": "the copy has the rows of its original", "help": "prints", "version": "prints", "man": "prints", "completion": "prints", "complete": "prints",
	"export clients": "reads", "activity validate": "reads files", "activity import": "writes files", "activity blur": "writes files", "activity index": "writes files",
	"activity preview": "writes files", "activity schema": "prints", "activity place add": "writes a file", "activity place list": "reads a file",
	"activity place remove": "writes a file",
}

// commandsOf returns the commands that can be run.
func commandsOf(node *kong.Node) (names []string) {
	for _, child := range node.Children {
		if child.Type != kong.CommandNode {
			continue
		}
		if below := commandsOf(child); len(below) > 0 {
			names = append(names, below...)
		} else {
			names = append(names, strings.TrimPrefix(child.Path(), "cairn "))
		}
	}
	return names
}

// Every command that changes an installation writes what it did, and nothing that is secret.
func TestChangingCommandsAreInTheAuditLog(t *testing.T) {
	s, _ := sqliteShell(t)
	fatalIf(t, os.WriteFile("apply.yaml", []byte("clients: [{id: file, public: true, redirect-uri: https://file.example.org/}]"), 0o600))
	fatalIf(t, os.WriteFile("users.csv", []byte("handle,display_name\ngrace,Grace\n"), 0o600))
	old, err := sql.Open("sqlite3", "old.db")
	fatalIf(t, err)
	_, err = old.Exec("CREATE TABLE users (id INTEGER PRIMARY KEY, handle TEXT, password_hash TEXT)")
	fatalIf(t, errors.Join(err, old.Close()))
	hasher, err := passwords.NewTestHasher()
	fatalIf(t, err)
	_, err = roster.Initialize(t.Context(), storetest.Open(t, "plain.db"), hasher, account.DefaultSettings(),
		account.NewUser{Handle: "keeper", Password: password}, time.Now())
	fatalIf(t, err)
	service := startProcess(t, "--database", "cairn.db", "--private-key-file", "key.pem")
	defer service.stop()
	type entry struct {
		ID                                      int64
		Actor, Action, Target, Detail, Sentence string
	}
	last := int64(0)
	database, printed := "cairn.db", ""
	rows := func() (out []entry) {
		t.Helper()
		var all []entry
		fatalIf(t, json.Unmarshal([]byte(s.must("audit", "list", "-o", "json", "--database", database)), &all))
		for _, e := range all {
			if e.ID > last {
				out = append(out, e)
			}
		}
		return out
	}
	const app, api, agent = "https://tours.example.org/cb", "https://api.example.org", "https://agent.example.com/client.json"
	tested := map[string]bool{}
	for _, c := range []struct {
		command, arguments     string // $ is what the command before printed
		action, target, detail string
	}{
		{"init", "", "user.create", "keeper", "first administrator"}, // by sqliteShell
		{"client add", "Tours --id tours --trusted --redirect-uri " + app, "client.create", "client:tours", "redirect_uris trusted=on"},
		{"client update", "tours --home-uri https://tours.example.org/ --no-trusted", "client.update", "client:tours", "client_uri trusted=off"},
		{"client rotate-secret", "tours -q", "client.rotate_secret", "client:tours", ""},
		{"client allow", agent, "client.allow", agent, "openid profile email offline_access"},
		{"api add", api + " --name Trails --client tours", "api.create", api, "clients"},
		{"api update", api + " --token opaque --lifetime 5m", "api.update", api, "opaque=on lifetime"},
		{"api rotate-secret", api + " -q", "api.rotate_secret", api, ""},
		{"api remove", api + " --yes", "api.remove", api, ""},
		{"client remove", "tours --yes", "client.remove", "client:tours", ""},
		{"apply", "apply.yaml", "client.create", "client:file", "redirect_uris token_endpoint_auth_method managed=on"},
		{"invite add", "-q", "invite.create", "", ""},
		{"invite revoke", "$", "invite.revoke", "", ""},
		{"join accept", "first --note Hello --app file --smtp-url smtp://127.0.0.1", "join.accept", "", ""},
		{"join refuse", "second --smtp-url smtp://127.0.0.1", "join.refuse", "", ""},
		{"user add", "ada --generate-password", "user.create", "ada", ""},
		{"settings set", "attributes member_number", "settings.update", "settings", "attributes"},
		{"user set", "ada member_number=4711", "user.amend", "ada", "attributes.member_number"},
		{"user update", "ada --display-name Countess", "user.amend", "ada", "display_name"},
		{"user flags", "ada +admin", "user.flags", "ada", "admin=on"},
		{"user update", "ada --ends 2099-12-24T00:00:00Z", "user.end", "ada", "2099-12-24T00:00:00Z"},
		{"user suspend", "ada", "user.suspend", "ada", ""},
		{"user unsuspend", "ada", "user.unsuspend", "ada", ""},
		{"user unlock", "ada", "user.unlock", "ada", ""},
		{"user reset-code", "ada -q", "user.reset_code", "ada", ""},
		{"user reset-factors", "ada", "user.reset_factors", "ada", ""},
		{"session end", "keeper --all", "user.end_sessions", "keeper", "(ended: sessions 1)"},
		{"user delete", "ada --yes", "user.delete", "ada", ""},
		{"user import", "users.csv", "user.import", "users", "1 users"},
		{"settings set", "registration closed", "settings.update", "settings", "registration"},
		{"keys migrate", "--private-key-file key.pem --until now --issuer http://" + service.address, "keys.migrate", "hs256", "until "},
		{"restore", "copy.tar.gz --data-key-file data.key", "installation.restore", "installation", "backup of "},
		{"keys seal", "", "keys.seal", "installation", ""},
	} {
		tested[c.command] = true
		args := append(strings.Fields(c.command), strings.Fields(strings.ReplaceAll(c.arguments, "$", printed))...)
		switch c.command {
		case "init":
		case "join accept", "join refuse":
			db, err := sql.Open("sqlite3", "cairn.db")
			fatalIf(t, err)
			id, _, _ := strings.Cut(c.arguments, " ")
			_, err = db.Exec("INSERT INTO join_requests (id, email, name, reason, language, asked_at, expires_at) VALUES (?, ? || '@example.org', 'Bo', 'Runs.', 'en', 0, ?)", id, id, time.Now().Add(time.Hour).Unix())
			fatalIf(t, errors.Join(err, db.Close()))
			has(t, "cairn join list", s.must("join", "list"), id+"@example.org")
			s.must(args...)
		case "session end":
			visitor{t, service.address}.signIn("keeper")
			last = max(last, rows()[0].ID)
			s.must(args...)
		case "restore":
			s.must("backup", "copy.tar.gz", "--data-key-file", "data.key")
			database = "restored.db"
			s.must(append(args, "--database", database)...)
		case "keys seal": // cairn.db is sealed from its start
			s.must(append(args, "--database", "plain.db", "--data-key-file", "plain.key")...)
			database, last = "plain.db", 0
		default:
			printed = strings.TrimSpace(s.must(args...))
		}
		if c.command == "keys migrate" {
			service.stop()
			<-service.code
		}
		found := rows()
		if !slices.ContainsFunc(found, func(e entry) bool {
			exact := e.Detail == c.detail || strings.HasSuffix(c.detail, " ") && strings.HasPrefix(e.Detail, c.detail)
			return e.Actor == "operator" && e.Action == c.action && e.Target == c.target && exact && strings.HasPrefix(e.Sentence, "The operator ")
		}) {
			t.Errorf("%s: rows %+v, want %s of %q: %q", strings.Join(args, " "), found, c.action, c.target, c.detail)
		}
		for _, e := range found {
			last = max(last, e.ID)
		}
	}
	parser, err := kong.New(&commands{}, kong.Name("cairn"), kong.Bind(&cli.Program{}))
	fatalIf(t, err)
	commands := commandsOf(parser.Model.Node)
	for _, name := range commands {
		if _, exempt := unaudited[name]; exempt == tested[name] {
			t.Errorf("cairn %s: give it a row here if it changes an installation, or a reason in unaudited", name)
		}
	}
	for name := range unaudited {
		if !slices.Contains(commands, name) {
			t.Errorf("unaudited has %q, which is no command", name)
		}
	}
}
