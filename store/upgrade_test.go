package store_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// fillFirstSchema writes rows as the first version of the schema has them.
func fillFirstSchema(t *testing.T, s *store.Store) {
	t.Helper()
	at := noon.Unix()
	for _, row := range []struct {
		query string
		args  []any
	}{
		{"INSERT INTO users (sub, handle, display_name, email, password_hash, search, created_at, updated_at) VALUES ('u1', 'ada', 'Ada', '', 'hash', 'ada', ?, ?)", []any{at, at}},
		{`INSERT INTO users (sub, handle, display_name, email, email_verified, password_hash, search, created_at, updated_at)
			VALUES ('late', 'late', 'Núñez', 'Bob@example.org', ?, '', '', 9, 9), ('early', 'early', '', 'bob@example.org', ?, '', '', 8, 8)`, []any{true, true}},
		{"INSERT INTO user_flags (sub, flag) VALUES ('u1', 'admin')", nil},
		{"INSERT INTO status_lists (id, issued) VALUES (1, 1)", nil},
		{`INSERT INTO sessions (id, sub, token_hash, login_hash, created_at, auth_time, last_seen_at, expires_at, status_list, status_index)
			VALUES ('s1', 'u1', ?, ?, ?, ?, ?, ?, 1, 7)`, []any{[]byte("t"), []byte("l"), at, at, at, noon.Add(month).Unix()}},
		{`INSERT INTO sessions (id, sub, created_at, auth_time, last_seen_at, expires_at, ended_at, status_list, status_index)
			VALUES ('ended', 'u1', ?, ?, ?, ?, ?, 1, 9)`, []any{at, at, at, noon.Add(month).Unix(), at}},
		{`INSERT INTO clients (id, name, redirect_uris, scopes, auth_method, require_pkce, require_flag, trusted, id_token_claims, allow_insecure_redirect, created_at)
			VALUES ('app', 'App', 'https://a.example.org/cb', 'openid offline_access', 'any', ?, '', ?, ?, ?, ?)`, []any{true, true, false, false, at}},
		{"INSERT INTO client_secrets (client_id, hash, created_at) VALUES ('app', ?, ?)", []any{[]byte("secret"), at}},
		{"INSERT INTO client_assertions (expires_at, jti_hash) VALUES (?, ?)", []any{noon.Add(100 * month).Unix(), []byte("old")}},
		{"INSERT INTO consents (sub, client_id, scope, granted_at) VALUES ('u1', 'app', 'openid', ?)", []any{at}},
		{`INSERT INTO grants (id, client_id, sub, sid, requested_scope, granted_scope, offline, code_sig, code_expires_at, code_used_at, redirect_uri,
			code_challenge, code_challenge_method, nonce, acr, auth_time, arrived_at, created_at)
			VALUES ('g1', 'app', 'u1', 's1', 'openid offline_access', 'openid offline_access', ?, 'code', ?, ?, 'https://a.example.org/cb', '', '', ?, '1', ?, ?, ?)`,
			[]any{true, at, at, []byte("n"), at, at, at}},
		{"INSERT INTO tokens (sig, kind, grant_id, issued_at, expires_at) VALUES ('access', 'a', 'g1', ?, ?), ('refresh', 'r', 'g1', ?, ?)",
			[]any{at, noon.Add(time.Hour).Unix(), at, noon.Add(month).Unix()}},
		{"INSERT INTO tokens (sig, kind, grant_id, issued_at, expires_at, used_at) VALUES ('rotated', 'r', 'g1', ?, ?, ?)", []any{at, noon.Add(month).Unix(), time.Now().Unix()}},
	} {
		must(t, s.Exec(row.query, row.args...))
	}
}

// What the first version of the schema kept is there afterwards, and what is
// new is off.
func TestUpgradeLosesNothing(t *testing.T) {
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		instances := make([]*store.Store, 2)
		for i := range instances {
			instances[i] = open(t, dsn)
		}
		ctx, s := t.Context(), instances[0]
		must(t, s.MigrateTo(ctx, 1))
		want(t, s.CheckSchema(ctx), store.ErrNotMigrated)
		fillFirstSchema(t, s)
		for _, err := range race(len(instances), func(i int) error { return instances[i].Migrate(ctx) }) {
			must(t, err)
		}
		must(t, s.CheckSchema(ctx))

		c, err := s.Client(ctx, "app")
		must(t, err)
		expected := &provider.Client{
			ID: "app", Name: "App", Secrets: []provider.ClientSecret{{Hash: []byte("secret"), CreatedAt: noon}}, RedirectURIs: []string{"https://a.example.org/cb"},
			Scopes: []string{"openid", "offline_access"}, AuthMethod: provider.AuthAny, RequirePKCE: true, Trusted: true, CreatedAt: noon,
		}
		equal(t, "expected", c, expected)
		n, u, err := s.Session(ctx, "s1")
		must(t, err)
		if diff := cmp.Diff(account.User{Sub: "u1", Handle: "ada", DisplayName: "Ada", PasswordHash: "hash", Flags: []string{"admin"}, CreatedAt: noon, UpdatedAt: noon}, u); diff != "" || !slices.Equal(n.AMR, []string{account.MethodPassword}) {
			t.Error(n.AMR, diff)
		}
		revoked, err := s.RevokedIndices(ctx, 1)
		must(t, err)
		old, last, err := s.HS256Sessions(ctx, noon)
		must(t, err)
		if diff := cmp.Diff([]int{9}, revoked); diff != "" || old != 1 || !last.Equal(noon.Add(month)) {
			t.Errorf("revoked: %s; %d sessions that may be HS256 until %v", diff, old, last)
		}
		r, err := useToken(ctx, s, "refresh")
		must(t, err)
		code, err := s.GrantOfCode(ctx, "code")
		must(t, err)
		if r.Grant.Sub != "u1" || r.Grant.SessionID != "s1" || r.Grant.ACR != "1" || !r.Grant.AuthTime.Equal(noon) ||
			!code.CodeExpires.Equal(noon) || code.Nonce != "n" || !r.Expires.Equal(noon.Add(month)) {
			t.Errorf("token %+v of %+v", r, r.Grant)
		}
		_, err = useToken(ctx, s, "access")
		must(t, err)
		_, err = useToken(ctx, s, "rotated")
		want(t, err, provider.ErrSpent) // just now, but it has no grace
		scopes, err := s.ConsentedScopes(ctx, "u1", "app")
		must(t, err)
		equal(t, "scopes", scopes, []string{"openid"})
		must(t, s.SpendAssertion(ctx, "app", "old", time.Now().Add(time.Minute)))

		wantEmail(t, s, "late", "Bob@example.org", false) // the oldest account keeps what several have verified
		wantEmail(t, s, "early", "bob@example.org", true)

		// The old rows take part in what is new.
		found, _, err := s.Users(ctx, account.UserQuery{Query: "nunez"}) // was indexed with its accents
		must(t, err)
		same(t, "found without accents", len(found), 1)
		found, _, err = s.Users(ctx, account.UserQuery{Query: "AD"})
		must(t, err)
		counted, err := s.Count("SELECT value FROM counters WHERE name = 'users'")
		must(t, err)
		if len(found) != 1 || counted != 3 {
			t.Errorf("%d users are found, %d are counted", len(found), counted)
		}
		c.BackchannelLogoutURI = "https://a.example.org/logout"
		must(t, s.UpdateClient(ctx, c, act("client.update")))
		must(t, s.EndSession(ctx, "u1", n.ID, noon, act("session.end")))
		due, err := s.DueLogouts(ctx, noon, time.Minute, 10)
		must(t, err)
		if len(due) != 1 || due[0].ClientID != "app" || due[0].SessionID != "s1" {
			t.Errorf("notices %+v", due)
		}
	})
}

// Also what migrations change, not only what they create.
func TestUpgradedDialectsAreEqual(t *testing.T) {
	columns := map[string][]string{}
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		query := `SELECT m.name || '.' || c.name || CASE WHEN c."notnull" = 1 OR c.pk > 0 THEN ' not null' ELSE '' END FROM sqlite_master m JOIN pragma_table_info(m.name) c
			WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND m.name <> 'goose_db_version' ORDER BY m.name, c.cid`
		if s.Dialect() == store.Postgres {
			query = `SELECT table_name || '.' || column_name || CASE WHEN is_nullable = 'NO' THEN ' not null' ELSE '' END FROM information_schema.columns
				WHERE table_schema = current_schema() AND table_name <> 'goose_db_version' ORDER BY table_name COLLATE "C", ordinal_position`
		}
		var err error
		columns[s.Dialect()], err = s.Texts(query)
		must(t, err)
	})
	if len(columns) < 2 {
		t.Skip("no PostgreSQL to compare with")
	}
	if diff := cmp.Diff(columns[store.SQLite], columns[store.Postgres]); diff != "" || len(columns[store.SQLite]) < 100 {
		t.Errorf("%d columns: %s", len(columns[store.SQLite]), diff)
	}
}

// An instance of the version before serves on while a newer one has migrated: nothing that
// it reads may go, and what it writes has to be accepted. What removes something waits for
// a version whose program before it no longer needs it; list it here with that version.
func TestMigrationsLeaveWhatTheVersionBeforeNeeds(t *testing.T) {
	// Statement: since which version nothing has needed what it removes, or why it may.
	removed := map[string]string{
		"DROP TABLE join_requests":                              "SQLite drops the unique index of addresses only with its table",
		"ALTER TABLE new_join_requests RENAME TO join_requests": "the same rows and columns; the version before only fails to store a request",
	}
	// What the version before fails to write where the newer one has already written, and why it may.
	allowed := map[string]string{
		"CREATE UNIQUE INDEX users_handle_dots ON users (replace(handle, '.', ''))": "it knows no dots, and makes nobody ab where the newer one has made a.b",
	}
	const first = 7 // 00001 to 00006 were one release
	refused := map[string]*regexp.Regexp{
		"removes or renames": regexp.MustCompile(`(?i)\bDROP (TABLE|COLUMN|VIEW)\b|\bRENAME\b|\bTRUNCATE\b`),
		"changes a type":     regexp.MustCompile(`(?i)\bALTER( COLUMN)? \w+ (SET DATA )?TYPE\b`),
		// The rows of users stay for ever; others are deleted by programs that do not know of the new table, whose
		// rows have to go with them.
		"refers to rows that are deleted":        regexp.MustCompile(`(?i)\bREFERENCES (?:[^u]|u[^s]|us[^e])`),
		"refuses what the version before writes": regexp.MustCompile(`(?i)\bSET NOT NULL\b|\bADD (CONSTRAINT|CHECK|UNIQUE|FOREIGN)\b|\bDROP DEFAULT\b|\bCREATE TRIGGER\b`),
	}
	column, notNull, withDefault := regexp.MustCompile(`(?i)\bADD COLUMN\b`), regexp.MustCompile(`(?i)\bNOT NULL\b`), regexp.MustCompile(`(?i)\bDEFAULT\b`)
	created, unique := regexp.MustCompile(`(?i)CREATE TABLE (\w+)`), regexp.MustCompile(`(?i)CREATE UNIQUE INDEX \w+ ON (\w+)`)
	files, err := filepath.Glob("migrations/*/*.sql")
	must(t, err)
	cascade := regexp.MustCompile(`REFERENCES \w+ \(\w+\) ON DELETE CASCADE`)
	comment, seen := regexp.MustCompile(`--.*`), 0
	for _, file := range files {
		if number, _ := strconv.Atoi(filepath.Base(file)[:5]); number < first {
			continue
		}
		seen++
		b, err := os.ReadFile(file)
		must(t, err)
		up, _, _ := strings.Cut(string(b), "-- +goose Down")
		var new []string
		for statement := range strings.SplitSeq(comment.ReplaceAllString(up, ""), ";") {
			statement = cascade.ReplaceAllString(strings.Join(strings.Fields(statement), " "), "")
			if removed[statement] != "" {
				continue
			}
			if m := created.FindStringSubmatch(statement); m != nil {
				new = append(new, m[1])
			}
			for what, pattern := range refused {
				if pattern.MatchString(statement) {
					t.Errorf("%s %s: %s", file, what, statement)
				}
			}
			if column.MatchString(statement) && notNull.MatchString(statement) && !withDefault.MatchString(statement) {
				t.Errorf("%s: the version before does not write this column: %s", file, statement)
			}
			if m := unique.FindStringSubmatch(statement); m != nil && !slices.Contains(new, m[1]) && allowed[statement] == "" {
				t.Errorf("%s: the version before may write what is not unique: %s", file, statement)
			}
		}
	}
	if seen < 12 {
		t.Errorf("only %d migrations were read", seen)
	}
}
