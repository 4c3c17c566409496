// Package generated fills a new database with generated users, for measurements of large installations. The rows are
// such as the operations of store leave. It is no part of the service.
package generated

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "github.com/mattn/go-sqlite3"    // the driver sqlite3

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/store"
)

// Options say how large an installation Fill makes.
type Options struct {
	Users, Sessions, Tokens int
	Clients                 []string // ids of registered clients
	PasswordHash            string   // of every user
	Now                     time.Time
	Progress                func(users int) // how many there are; may be nil
}

// ErrNotNew means that the database is in use already.
var ErrNotNew = errors.New("the database has more in it than its first administrator")

// CheckNew returns ErrNotNew unless the first administrator is alone in the database.
func CheckNew(ctx context.Context, dsn string) error {
	db, err := open(dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var rows int
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM users UNION ALL SELECT 1 FROM sessions UNION ALL
		SELECT 1 FROM clients UNION ALL SELECT 1 FROM invites UNION ALL SELECT 1 FROM grants LIMIT 2) t`).Scan(&rows)
	if err == nil && rows != 1 {
		err = ErrNotNew
	}
	return err
}

// batch is how many users one transaction adds.
const batch = 20_000

// Fill adds users who sign in with one password, whose sessions have their bits in the status lists, with grants,
// tokens, consents, invites and their part of the audit log. Everything expires within the next month. The database
// has its first administrator and the clients, as CheckNew and the registration of the clients leave it; after an
// error it is incomplete.
//
// The database makes the rows. Keys are spread like random ones but ascend, so that tables and indexes grow at their
// ends.
func Fill(ctx context.Context, dsn string, o Options) error {
	db, err := open(dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	d := dialect{postgres: store.IsPostgres(dsn)}
	for from := 0; from < o.Users; from += batch {
		to := min(from+batch, o.Users)
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for _, statement := range d.statements(o, int64(from), int64(to)) {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress(to)
		}
	}
	if d.postgres {
		_, err = db.ExecContext(ctx, "VACUUM (ANALYZE)") // autovacuum would do so within a minute or two
	}
	return err
}

func open(dsn string) (*sql.DB, error) {
	if store.IsPostgres(dsn) {
		return sql.Open("pgx", dsn)
	}
	const parameters = "?mode=rw&_txlock=immediate&_busy_timeout=10000"
	return sql.Open("sqlite3", "file:"+(&url.URL{Path: dsn}).EscapedPath()+parameters)
}

// Handle is the handle of a generated user, from 0.
func Handle(n, users int) string {
	return fmt.Sprintf("%s%09d", firstNames[n*len(firstNames)/users], n)
}

// dialect writes the SQL of a kind of database.
type dialect struct{ postgres bool }

// statements add the users, sessions, grants and tokens that a part of the users has; what is in braces stands for
// SQL about the number i. Session and grant i belong to user i*users/sessions, token i to grant i*sessions/tokens. One
// user in five was invited, by the administrator or by one of the first; one session in a hundred has ended.
func (d dialect) statements(o Options, from, to int64) []string {
	const day, month = 24 * 60 * 60, 30 * 24 * 60 * 60
	const capacity = statuslist.Size / 16 * 15 // of a status list, as store gives out its indices
	users, sessions, tokens := int64(o.Users), max(int64(o.Sessions), 1), max(int64(o.Tokens), 1)
	part := func(all int) string {
		begin := from * int64(all) / users
		return d.series(begin, to*int64(all)/users-begin)
	}
	sub := func(i string) string { return d.spread(i, users, "-6f1e-4b6c-9d5e-", 12) }
	grant := func(i string) string { return d.spread(i, sessions, "-96a7-4b6c-9d5e-", 12) }
	first := func(i string) string {
		return d.pick(firstNames, fmt.Sprintf("%s * %d / %d", i, len(firstNames), users))
	}
	handle := func(i string) string { return "(" + first(i) + " || " + d.padded(i) + ")" }
	end := func(all int64) string {
		return fmt.Sprintf("(%d + i * %d / %d)", o.Now.Unix()+10*day, 20*day, all)
	}
	before := func(ends, length int64) string {
		return fmt.Sprintf("(%d - i * 7919 %% %d)", o.Now.Unix()-ends, length)
	}
	owner, bytes := fmt.Sprintf("(i * %d / %d)", users, sessions), "BLOB"
	if d.postgres {
		bytes = "bytea"
	}
	inviter := fmt.Sprintf("CASE WHEN i < %d THEN (SELECT sub FROM user_flags WHERE flag = %s LIMIT 1) ELSE %s END",
		users/10, quote(account.FlagAdmin), sub("(i / 10)"))
	fill := strings.NewReplacer(
		"{users}", part(o.Users), "{sessions}", part(o.Sessions), "{tokens}", part(o.Tokens),
		"{sub}", sub("i"), "{handle}", handle("i"), "{owner}", sub(owner), "{owner's handle}", handle(owner),
		"{first}", first("i"), "{last}", d.pick(lastNames, fmt.Sprintf("i * 7919 %% %d", len(lastNames))),
		"{inviter}", inviter, "{invite}", "upper("+d.spread("i", users, "", 8)+")",
		"{session}", d.spread("i", sessions, "-5e55-4b6c-9d5e-", 12), "{session's end}", end(sessions),
		"{list}", fmt.Sprintf("(i / %d + 1)", capacity),
		"{index}", fmt.Sprintf("(i %% %d * 40503 %% %d)", capacity, statuslist.Size),
		"{grant}", grant("i"), "{code}", d.spread("i", sessions, "-a-code-", 27),
		"{client}", d.pick(o.Clients, fmt.Sprintf("%s %% %d", owner, len(o.Clients))),
		"{token}", d.spread("i", tokens, "-a-token", 27), "{token's end}", end(tokens),
		"{token's grant}", grant(fmt.Sprintf("(i * %d / %d)", sessions, tokens)),
		"{added}", fmt.Sprint(to-from), "{flag}", quote(account.FlagActivity), "{hash}", quote(o.PasswordHash),
		"{bytes}", bytes, "{today}", quote("signins:"+o.Now.UTC().Format(time.DateOnly)),
		"{joined}", before(month, 700*day), "{lately}", before(0, 10*day), "{ended}", "i % 100 = 99",
	)
	var out []string
	for statement := range strings.SplitSeq(rows, ";\n") {
		out = append(out, fill.Replace(statement))
	}
	return out
}

const rows = `
INSERT INTO users (sub, handle, display_name, email, email_verified, password_hash, search, invited_by,
		created_at, updated_at, last_login_at, profile)
	SELECT {sub}, {handle},
		upper(substr({first}, 1, 1)) || substr({first}, 2) || ' ' || upper(substr({last}, 1, 1)) || substr({last}, 2),
		{handle} || '@example.org', (1 = 1), {hash}, '-', CASE WHEN i % 5 = 0 THEN {inviter} END,
		{joined}, {joined}, {lately}, '{}' FROM {users};
UPDATE counters SET value = value + {added} WHERE name = 'users';
INSERT INTO user_flags (sub, flag) SELECT {sub}, {flag} FROM {users};
INSERT INTO invites (code, created_by, created_at, expires_at, used_at, used_by)
	SELECT {invite}, {inviter}, {joined} - 60, {joined} + 3600, {joined}, {sub} FROM {users} WHERE i % 5 = 0;
INSERT INTO invites (code, created_by, created_at, expires_at)
	SELECT {invite}, {sub}, {lately}, {lately} + 2592000 FROM {users} WHERE i % 50 = 1;
INSERT INTO status_lists (id, issued) SELECT DISTINCT {list}, 0 FROM {sessions} WHERE true ON CONFLICT (id) DO NOTHING;
INSERT INTO sessions (id, sub, token_hash, created_at, auth_time, last_seen_at, expires_at, ended_at,
		address, user_agent, status_list, status_index, algorithm, amr, confirmed_at)
	SELECT {session}, {owner}, CAST(substr({session}, 1, 32) AS {bytes}), {lately}, {lately}, {lately},
		{session's end}, CASE WHEN {ended} THEN {lately} ELSE 0 END, '127.0.0.1',
		'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
		{list}, {index}, 'RS256', 'pwd', {lately}
	FROM {sessions};
UPDATE status_lists SET version = version + 1,
	issued = issued + (SELECT count(*) FROM {sessions} WHERE {list} = status_lists.id);
INSERT INTO revocations (status_list, status_index, expires_at)
	SELECT {list}, {index}, {session's end} FROM {sessions} WHERE {ended};
INSERT INTO counters (name, value) SELECT {today}, count(*) FROM {sessions} WHERE true
	ON CONFLICT (name) DO UPDATE SET value = counters.value + excluded.value;
INSERT INTO audit (at, actor, action, target, detail, address, request_id)
	SELECT {lately}, {owner's handle}, 'session.create', {owner's handle}, 'pwd, Firefox on Linux', '127.0.0.1',
		{session} FROM {sessions};
INSERT INTO consents (sub, client_id, scope, granted_at) SELECT {owner}, {client}, scope, {lately} FROM {sessions}
	JOIN (SELECT 'openid' AS scope UNION ALL SELECT 'profile') s ON 1 = 1 WHERE true ON CONFLICT DO NOTHING;
INSERT INTO grants (id, client_id, sub, sid, requested_scope, granted_scope, offline, code_sig, code_expires_at,
		code_used_at, redirect_uri, code_challenge, code_challenge_method,
		acr, amr, auth_time, arrived_at, created_at, revoked_at, sweep_at)
	SELECT {grant}, {client}, {owner}, {session}, 'openid profile offline_access', 'openid profile offline_access',
		(1 = 1), {code}, {lately} + 60, {lately}, 'http://127.0.0.1:9/callback',
		'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM', 'S256', '1', 'pwd', {lately}, {lately}, {lately},
		CASE WHEN {ended} THEN {lately} ELSE 0 END, {session's end}
	FROM {sessions};
INSERT INTO tokens (sig, kind, grant_id, issued_at, expires_at)
	SELECT {token}, CASE WHEN i % 5 = 0 THEN 'r' ELSE 'a' END, {token's grant}, {lately}, {token's end} FROM {tokens}`

// series is a table n(i) of so many numbers from one on.
func (d dialect) series(from, length int64) string {
	if d.postgres {
		return fmt.Sprintf("(SELECT %d + generate_series(0, CAST(%d AS BIGINT) - 1) AS i) AS n", from, length)
	}
	const numbers = "WITH RECURSIVE c (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM c LIMIT %d) SELECT i FROM c"
	return fmt.Sprintf("("+numbers+") AS n", from, length)
}

// spread is the key with a number: 8 digits that ascend over all of their range, a text that tells kinds of keys
// apart, and the number in so many digits.
func (d dialect) spread(i string, of int64, text string, digits int) string {
	ascending := fmt.Sprintf("%s * %d", i, 1<<32/of)
	if d.postgres {
		const key = "(lpad(to_hex(%s), 8, '0') || '%s' || lpad(to_hex(%s), %d, '0'))"
		return fmt.Sprintf(key, ascending, text, i, digits)
	}
	return fmt.Sprintf("printf('%%08x%s%%0%dx', %s, %s)", text, digits, ascending, i)
}

// padded is a number in 9 digits.
func (d dialect) padded(i string) string {
	if d.postgres {
		return "lpad(CAST(" + i + " AS text), 9, '0')"
	}
	return "printf('%09d', " + i + ")"
}

// pick is the text with a number.
func (d dialect) pick(texts []string, i string) string {
	list, _ := json.Marshal(texts) // never fails
	kind := ""
	if d.postgres {
		kind = "jsonb "
	}
	return "(" + kind + quote(string(list)) + " ->> CAST(" + i + " AS INTEGER))"
}

// quote makes an SQL text of one without secrets.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// In their order: so are the handles.
var (
	firstNames = strings.Fields(`
		ada adele alice anna bela carl clara dora edith elena emil emma erik eva felix finn frida georg greta hanna
		hugo ida ines ivan jana jonas julia karim lara leon lilli lukas maja maria mats max mia milan mina nadia
		nele nils noah nora olaf oskar paula petra rosa ruben samir sara selma sofia sven tara theo tilda tom vera
		yusuf zoe`)
	lastNames = strings.Fields(`
		albers bauer becker brandt busch dietrich ebert engel fischer fuchs graf haas hahn hansen heinrich hofmann
		horn huber jansen jung keller klein koch kowalski kraus kuhn lange lehmann lorenz maier martens meyer
		neumann nowak otto peters pohl richter roth sauer schmidt scholz schubert schulz seidel simon sommer stein
		vogel wagner walter weber weiss winkler wolff yilmaz ziegler`)
)
