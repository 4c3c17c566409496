package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/provider"
)

// Filling is the size of the installation that Fill generates.
type Filling struct {
	Users, Sessions, Tokens int
	Clients                 []*provider.Client
	PasswordHash            string // of every user
	Now                     time.Time
	Progress                func(users int) // called with the number so far; may be nil
}

// ErrNotNew means that the database is already in use.
var ErrNotNew = errors.New("the database has more in it than its first administrator")

// fillBatch is how many users one transaction of Fill adds.
const fillBatch = 20_000

// Fill generates a large installation for measurements, with rows as the operations of this package
// leave them: users who share one password, whose sessions have their bits in the status lists,
// with grants, tokens, consents, invites and their part of the audit log. Everything expires within
// a month. ErrNotNew unless the first administrator is alone in the database. After another error
// the database has to be created again.
//
// The database generates the rows. Keys are spread like random ones but ascend, so that tables and
// indexes grow at their ends.
func (s *Store) Fill(ctx context.Context, f Filling) error {
	const doing = "fill database"
	empty := f.Users <= 0 || len(f.Clients) == 0 || f.Sessions < 0 || f.Tokens < 0 || f.Tokens > 0 && f.Sessions == 0
	if empty || max(f.Users, f.Sessions, f.Tokens) > 1<<31 {
		return fmt.Errorf("%s: needs at least one user and one client, and sessions for tokens", doing)
	}
	var rows int64
	err := s.conn(ctx).Raw(`SELECT count(*) FROM (SELECT 1 FROM users UNION ALL SELECT 1 FROM sessions
		UNION ALL SELECT 1 FROM clients UNION ALL SELECT 1 FROM invites UNION ALL SELECT 1 FROM grants LIMIT 2
		) used`).Find(&rows).Error
	if err == nil && rows != 1 {
		err = ErrNotNew
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	for _, c := range f.Clients {
		if err := s.CreateClient(ctx, c); err != nil {
			return err
		}
	}
	for from := 0; from < f.Users; from += fillBatch {
		to := min(from+fillBatch, f.Users)
		if err := s.fillPart(ctx, f, int64(from), int64(to)); err != nil {
			return fail(doing, err)
		}
		if f.Progress != nil {
			f.Progress(to)
		}
	}
	if s.dialect == SQLite {
		return nil
	}
	// Autovacuum would do so within a minute or two.
	pool, err := openMigrations(s.dsn)
	if err == nil {
		_, err = pool.ExecContext(ctx, "VACUUM (ANALYZE)")
		err = errors.Join(err, pool.Close())
	}
	return fail(doing, err)
}

// fillPart adds the users from one number up to another, with their data.
func (s *Store) fillPart(ctx context.Context, f Filling, from, to int64) error {
	return s.writeAlone(ctx, "fill database", 10*time.Minute, func(tx *gorm.DB) error {
		if s.dialect == Postgres {
			if err := tx.Exec("SET LOCAL statement_timeout = 0").Error; err != nil {
				return err
			}
		}
		for _, statement := range s.fillStatements(f, from, to) {
			if err := tx.Exec(statement).Error; err != nil {
				return err
			}
		}
		return nil
	})
}

// fillStatements returns statements that add a range of users with their sessions, grants and
// tokens. A word in braces stands for SQL about the number i. Session and grant i belong to user
// i*users/sessions, token i to grant i*sessions/tokens. One user in five was invited, by the
// administrator or by one of the first; one session in a hundred has ended.
func (s *Store) fillStatements(f Filling, from, to int64) []string {
	users, sessions, tokens := int64(f.Users), max(int64(f.Sessions), 1), max(int64(f.Tokens), 1)
	part := func(all int) string {
		begin := from * int64(all) / users
		return s.series(begin, fmt.Sprint(to*int64(all)/users-begin))
	}
	sub := func(i string) string { return s.spread(i, users, "-6f1e-4b6c-9d5e-", 12) }
	firstName := func(i string) string {
		return s.pick(firstNames, fmt.Sprintf("%s * %d / %d", i, len(firstNames), users))
	}
	handle := func(i string) string { return "(" + firstName(i) + " || " + s.padded(i) + ")" }
	const grant, day = "-96a7-4b6c-9d5e-", 24 * 60 * 60
	ids := each(f.Clients, func(c *provider.Client) string { return c.ID })
	owner := fmt.Sprintf("(i * %d / %d)", users, sessions)
	now, bytes := toUnix(f.Now), "BLOB"
	if s.dialect == Postgres {
		bytes = "bytea"
	}
	// spreadTimes returns SQL for a time in the last days before an end.
	spreadTimes := func(end, days int64) string { return fmt.Sprintf("(%d - i * 7919 %% %d)", end, days*day) }
	expiry := func(of int64) string { return fmt.Sprintf("(%d + i * %d / %d)", now+10*day, 20*day, of) }
	sql := strings.NewReplacer(
		"{users}", part(f.Users), "{sessions}", part(f.Sessions), "{tokens}", part(f.Tokens),
		"{sub}", sub("i"), "{handle}", handle("i"), "{owner}", sub(owner), "{owner's handle}", handle(owner),
		"{first}", firstName("i"), "{last}", s.pick(lastNames, fmt.Sprintf("i * 7919 %% %d", len(lastNames))),
		"{inviter}", fmt.Sprintf(`CASE WHEN i < %d THEN
			(SELECT f.sub FROM user_flags f WHERE f.flag = '%s' LIMIT 1) ELSE %s END`,
			users/10, account.FlagAdmin, sub("(i / 10)")),
		"{invite}", "upper("+s.spread("i", users, "", 8)+")",
		"{session}", s.spread("i", sessions, "-5e55-4b6c-9d5e-", 12),
		"{list}", fmt.Sprintf("(i / %d + 1)", listCapacity),
		"{index}", fmt.Sprintf("(i %% %d * 40503 %% %d)", listCapacity, statuslist.Size),
		"{grant}", s.spread("i", sessions, grant, 12), "{code}", s.spread("i", sessions, "-a-code-", 27),
		"{client}", s.pick(ids, fmt.Sprintf("%s %% %d", owner, len(ids))),
		"{token}", s.spread("i", tokens, "-a-token", 27),
		"{token's grant}", s.spread(fmt.Sprintf("(i * %d / %d)", sessions, tokens), sessions, grant, 12),
		"{hash}", quote(f.PasswordHash), "{bytes}", bytes,
		"{now}", fmt.Sprint(now), "{today}", quote(signInsOf(f.Now)),
		"{joined}", spreadTimes(now-30*day, 700), "{recent}", spreadTimes(now, 10),
		"{session's end}", expiry(sessions), "{token's end}", expiry(tokens), "{ended}", "i % 100 = 99",
	)
	statements := []string{
		`INSERT INTO users (sub, handle, display_name, email, email_verified, password_hash, search, invited_by,
				created_at, updated_at, last_login_at, profile)
			SELECT {sub}, {handle},
				upper(substr({first}, 1, 1)) || substr({first}, 2) || ' '
					|| upper(substr({last}, 1, 1)) || substr({last}, 2),
				{handle} || '@example.org', (1 = 1),
				{hash}, '', CASE WHEN i % 5 = 0 THEN {inviter} END, {joined}, {joined}, {recent}, '{}' FROM {users}`,
		fmt.Sprintf("UPDATE counters SET value = value + %d WHERE name = 'users'", to-from),
		"INSERT INTO user_flags (sub, flag) SELECT {sub}, '" + account.FlagActivity + "' FROM {users}",
		`INSERT INTO invites (code, created_by, created_at, expires_at, used_at, used_by)
			SELECT {invite}, {inviter}, {joined} - 60, {joined} + 3600, {joined}, {sub} FROM {users} WHERE i % 5 = 0`,
		`INSERT INTO invites (code, created_by, created_at, expires_at)
			SELECT {invite}, {sub}, {recent}, {recent} + 2592000 FROM {users} WHERE i % 50 = 1`,
	}
	for _, word := range []string{"{handle}", "{first}", "{last}", "'example'", "'org'"} {
		statements = append(statements, "INSERT INTO user_words (word, handle) SELECT "+word+", {handle} FROM {users}")
	}
	statements = append(statements,
		`INSERT INTO status_lists (id, issued) SELECT DISTINCT {list}, 0 FROM {sessions} WHERE true
			ON CONFLICT (id) DO NOTHING`,
		`INSERT INTO sessions (id, sub, token_hash, created_at, auth_time, last_seen_at, expires_at, ended_at,
				address, user_agent, status_list, status_index, algorithm, amr, confirmed_at)
			SELECT {session}, {owner}, CAST(substr({session}, 1, 32) AS {bytes}), {recent}, {recent}, {recent},
				{session's end}, CASE WHEN {ended} THEN {recent} ELSE 0 END, '127.0.0.1',
				'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
				{list}, {index}, 'RS256', 'pwd', {recent} FROM {sessions}`,
		`UPDATE status_lists SET version = version + 1,
			issued = issued + (SELECT count(*) FROM {sessions} WHERE {list} = status_lists.id)`,
		`INSERT INTO revocations (status_list, status_index, expires_at) SELECT {list}, {index}, {session's end}
			FROM {sessions} WHERE {ended}`,
		`INSERT INTO counters (name, value) SELECT {today}, count(*) FROM {sessions} WHERE true
			ON CONFLICT (name) DO UPDATE SET value = counters.value + excluded.value`,
		`INSERT INTO audit (at, actor, action, target, detail, address, request_id)
			SELECT {recent}, {owner's handle}, 'session.create', {owner's handle}, 'pwd, Firefox on Linux',
			'127.0.0.1', {session} FROM {sessions}`,
		`INSERT INTO consents (sub, client_id, scope, granted_at)
			SELECT {owner}, {client}, scope, {recent} FROM {sessions}
			JOIN (SELECT 'openid' AS scope UNION ALL SELECT 'profile') s ON 1 = 1 WHERE true ON CONFLICT DO NOTHING`,
		`INSERT INTO grants (id, client_id, sub, sid, requested_scope, granted_scope, offline, code_sig,
				code_expires_at, code_used_at, redirect_uri, code_challenge, code_challenge_method,
				acr, amr, auth_time, arrived_at, created_at, revoked_at, sweep_at)
			SELECT {grant}, {client}, {owner}, {session},
				'openid profile offline_access', 'openid profile offline_access', (1 = 1), {code},
				{recent} + 60, {recent}, 'http://127.0.0.1:9/callback',
				'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM', 'S256', '1', 'pwd', {recent}, {recent}, {recent},
				CASE WHEN {ended} THEN {recent} ELSE 0 END, {session's end} FROM {sessions}`,
		`INSERT INTO tokens (sig, kind, grant_id, issued_at, expires_at)
			SELECT {token}, CASE WHEN i % 5 = 0 THEN 'r' ELSE 'a' END, {token's grant}, {recent}, {token's end}
			FROM {tokens}`,
	)
	return each(statements, sql.Replace)
}

// FilledHandle returns the handle of user n, from 0, of Fill.
func FilledHandle(n, users int) string {
	return fmt.Sprintf("%s%09d", firstNames[n*len(firstNames)/users], n)
}

// series returns SQL for a table n(i) of ascending numbers.
func (s *Store) series(from int64, length string) string {
	if s.dialect == Postgres {
		return fmt.Sprintf("(SELECT %d + generate_series(0, CAST(%s AS BIGINT) - 1) AS i) AS n", from, length)
	}
	return fmt.Sprintf(`(WITH RECURSIVE c (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM c LIMIT %s)
		SELECT i FROM c) AS n`, from, length)
}

// spread returns SQL for the key of number i: 8 digits that ascend over their whole range, a text
// that distinguishes kinds of keys, and the number.
func (s *Store) spread(i string, of int64, text string, digits int) string {
	ascending := fmt.Sprintf("%s * %d", i, 1<<32/of)
	if s.dialect == Postgres {
		const key = "(lpad(to_hex(%s), 8, '0') || '%s' || lpad(to_hex(%s), %d, '0'))"
		return fmt.Sprintf(key, ascending, text, i, digits)
	}
	return fmt.Sprintf("printf('%%08x%s%%0%dx', %s, %s)", text, digits, ascending, i)
}

// padded returns SQL for a number in 9 digits.
func (s *Store) padded(i string) string {
	if s.dialect == Postgres {
		return "lpad(CAST(" + i + " AS text), 9, '0')"
	}
	return "printf('%09d', " + i + ")"
}

// pick returns SQL for the text number i.
func (s *Store) pick(texts []string, i string) string {
	list, _ := json.Marshal(texts) // never fails
	kind := ""
	if s.dialect == Postgres {
		kind = "jsonb "
	}
	return "(" + kind + quote(string(list)) + " ->> CAST(" + i + " AS INTEGER))"
}

// quote returns an SQL string literal. Never use it with secrets or foreign input.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// Sorted, so that handles ascend too.
var (
	firstNames = strings.Fields(`ada adele alice anna bela carl clara dora edith elena emil emma erik eva felix finn
		frida georg greta hanna hugo ida ines ivan jana jonas julia karim lara leon lilli lukas maja maria mats max
		mia milan mina nadia nele nils noah nora olaf oskar paula petra rosa ruben samir sara selma sofia sven tara
		theo tilda tom vera yusuf zoe`)
	lastNames = strings.Fields(`albers bauer becker brandt busch dietrich ebert engel fischer fuchs graf haas hahn
		hansen heinrich hofmann horn huber jansen jung keller klein koch kowalski kraus kuhn lange lehmann lorenz
		maier martens meyer neumann nowak otto peters pohl richter roth sauer schmidt scholz schubert schulz seidel
		simon sommer stein vogel wagner walter weber weiss winkler wolff yilmaz ziegler`)
)
