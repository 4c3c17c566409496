package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/engine"
)

// grantColumns selects a grant g with its user u, without its code and its scopes, which come
// first.
const grantColumns = `, g.id, g.client_id, g.sid, g.resources, g.status_list, g.status_index, g.acr, g.amr, g.claims,
	g.auth_time, g.created_at, g.revoked_at, ` + claimColumns

// grant takes them, with the user as of a time.
func takeGrant(c *engine.Columns, now int64) *provider.Grant {
	g := &provider.Grant{Scopes: strings.Fields(c.Text()), ID: c.Text(), ClientID: c.Text(), SessionID: c.Text()}
	if named := c.Text(); named != "" { // else nil, as when the grant was created
		g.Resources = strings.Fields(named)
	}
	g.StatusList, g.StatusIndex, g.ACR = int(c.Number()), int(c.Number()), c.Text()
	if amr := c.Text(); amr != "" { // else nil, as when the grant was created
		g.AMR = strings.Fields(amr)
	}
	g.Claims, g.AuthTime, g.CreatedAt, g.Revoked = c.Text(), c.Time(), c.Time(), c.Number() != 0
	u := &account.User{}
	deleted := takeClaims(c, u, now)
	if g.Sub = u.Sub; !deleted {
		g.User = u
	}
	return g
}

// insertGrant adds a grant only while its session lives with the token that it had when it was read: no
// code may be created after the revocation of its session, nor in answer to a token that was replaced
// since, as by a new password.
var insertGrant = engine.NewQuery(`INSERT INTO grants (id, client_id, sub, sid, requested_scope, granted_scope, offline,
		code_sig, code_expires_at, redirect_uri, code_challenge, code_challenge_method, nonce, acr, amr, claims,
		auth_time, arrived_at, created_at, sweep_at, dpop_jkt)
	SELECT ?, ?, s.sub, s.id, ?, ?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?
	FROM sessions s WHERE s.id = ? AND s.sub = ? AND s.token_hash = ? AND s.ended_at = 0`,
	" FOR SHARE") // whoever ends the session waits, and then finds the grant to revoke

// CreateGrant implements provider.GrantStore.
func (s *Store) CreateGrant(ctx context.Context, g *provider.Grant) error {
	op := engine.Operation{Doing: "create grant", Several: len(g.Resources) > 0}
	op.Do = func(w *engine.Statements) error { return addGrant(w, g) }
	return s.performTold(ctx, op, g)
}

// performTold performs an operation that stores a grant, if the user still consents, and records it if
// there is something to tell.
func (s *Store) performTold(ctx context.Context, op engine.Operation, g *provider.Grant) error {
	told := g.Told == nil
	if !told {
		switch _, err := s.readRow(ctx, readTold, errNotTold, toldKeys(g.Told)...); {
		case err == nil:
			told = true
		case !errors.Is(err, errNotTold):
			return fail(op.Doing, err)
		}
	}
	if told && len(g.Consented) == 0 {
		return s.perform(ctx, op)
	}
	return s.write(ctx, op.Doing, func(tx *engine.Tx) {
		if !told {
			checkActor(tx, *g.Told)
		}
		// The lock makes one of several grants at once tell, and whoever removes the consent waits and
		// then finds the grant to revoke.
		lockUserOr(tx, g.Sub, account.ErrSessionNotFound)
		stillConsented(tx, g)
		if !told {
			var found int64
			if tx.Find(&found, readTold.SQLite, toldKeys(g.Told)...); found == 0 {
				insertAudit(tx, *g.Told)
			}
		}
		if !tx.Failed() {
			tx.Refuse(op.Do(tx.Hot))
		}
	})
}

// stillConsented returns ErrConsentRemoved if the user has not granted all scopes that the grant needs.
func stillConsented(tx *engine.Tx, g *provider.Grant) {
	if len(g.Consented) == 0 {
		return
	}
	var granted []string
	tx.Find(&granted, "SELECT scope FROM consents WHERE sub = ? AND client_id = ?", g.Sub, g.ClientID)
	for _, scope := range g.Consented {
		if !slices.Contains(granted, scope) {
			tx.Refuse(provider.ErrConsentRemoved)
			return
		}
	}
}

var errNotTold = errors.New("not told")

// readTold finds whether what a grant would tell was told recently.
var readTold = engine.NewRead("audit",
	"SELECT 1 FROM audit WHERE target = ? AND at > ? AND at <= ? AND action = ? AND detail = ? LIMIT 1")

func toldKeys(a *account.Audit) []any {
	return []any{sanitize(a.Target), toUnix(a.At.Add(-account.LastingTold)), toUnix(a.At.Add(time.Minute)),
		sanitize(a.Action), sanitize(a.Detail)}
}

// LivingGrants implements provider.GrantStore.
func (s *Store) LivingGrants(
	ctx context.Context, sub, sessionID, clientID string, now time.Time,
) ([]provider.Grant, error) {
	var rows []struct {
		GrantedScope, Resources, RedirectURI string
		Longer                               bool
	}
	usual := int64((provider.AccessTokenLifetime + time.Minute) / time.Second) // by clocks of two instances
	err := s.conn(ctx).Raw(`SELECT DISTINCT g.granted_scope, g.resources, g.redirect_uri, g.code_used_at = 0 OR EXISTS
			(SELECT 1 FROM tokens t WHERE t.grant_id = g.id AND t.kind = 'a' AND t.expires_at > ?
				AND t.expires_at - t.issued_at > ?) AS longer
		FROM grants g WHERE g.sub = ? AND g.client_id = ? AND g.sid = ? AND `+liveGrant,
		toUnix(now), usual, sub, clientID, sessionID, toUnix(now), toUnix(now)).Find(&rows).Error
	living := make([]provider.Grant, len(rows))
	for i, r := range rows {
		living[i] = provider.Grant{
			Scopes: strings.Fields(r.GrantedScope), Resources: strings.Fields(r.Resources), RedirectURI: r.RedirectURI,
			Longer: r.Longer,
		}
	}
	return living, fail("list grants", err)
}

// addGrant runs more than one statement if the grant is for APIs.
func addGrant(w *engine.Statements, g *provider.Grant) error {
	var nonce []byte
	if g.Nonce != "" {
		nonce = []byte(g.Nonce)
	}
	scope := strings.Join(g.Scopes, " ")
	n, err := w.Exec(insertGrant,
		g.ID, g.ClientID, scope, scope, slices.Contains(g.Scopes, "offline_access"),
		g.CodeSignature, toUnix(g.CodeExpires), g.RedirectURI, g.CodeChallenge, nonce, g.ACR,
		strings.Join(g.AMR, " "), g.Claims, toUnix(g.AuthTime), toUnix(g.AuthTime), toUnix(g.CreatedAt),
		toUnix(g.CodeExpires), g.DPoPJKT,
		g.SessionID, g.Sub, g.SessionToken)
	tx := w.Gorm()
	if err == nil && n == 0 {
		return sessionGone(tx, g)
	}
	if err != nil || len(g.Resources) == 0 {
		return err
	}
	// The session is locked before the list, in the same order as when a session ends.
	if g.StatusList, g.StatusIndex, err = takeIndex(tx); err != nil {
		return err
	}
	return tx.Exec("UPDATE grants SET resources = ?, status_list = ?, status_index = ? WHERE id = ?",
		strings.Join(g.Resources, " "), g.StatusList, g.StatusIndex, g.ID).Error
}

// sessionGone returns why no session has the token of a grant.
func sessionGone(tx *gorm.DB, g *provider.Grant) error {
	var renewed bool
	err := tx.Raw("SELECT count(*) > 0 FROM sessions WHERE id = ? AND sub = ? AND token_hash <> ? AND ended_at = 0",
		g.SessionID, g.Sub, g.SessionToken).Find(&renewed).Error
	if err == nil && renewed {
		return provider.ErrSessionRenewed
	}
	return cmp.Or(err, error(account.ErrSessionNotFound))
}

// audienceOf parses the column, nil for a token that is for userinfo only.
func audienceOf(column string) []string {
	if column == "" {
		return nil
	}
	return strings.Fields(column)
}

var readCode = engine.NewRead("grants", "SELECT g.granted_scope"+grantColumns+`, g.code_expires_at, g.code_used_at,
	g.redirect_uri, g.code_challenge, g.nonce, g.dpop_jkt
	FROM grants g JOIN users u ON u.sub = g.sub WHERE g.code_sig = ?`)

// GrantOfCode implements provider.GrantStore.
func (s *Store) GrantOfCode(ctx context.Context, signature string) (*provider.Grant, error) {
	if invalidKey(signature) {
		return nil, provider.ErrNotFound
	}
	c, err := s.readRow(ctx, readCode, provider.ErrNotFound, signature)
	if err != nil {
		return nil, fail("find code", err)
	}
	g := takeGrant(c, s.Now())
	g.CodeSignature, g.CodeExpires, g.CodeUsed = signature, c.Time(), c.Number() != 0
	g.RedirectURI, g.CodeChallenge, g.Nonce = c.Text(), c.Text(), string(c.Bytes())
	g.DPoPJKT = c.Text()
	return g, fail("find code", c.Err)
}

var (
	spendCode = engine.NewQuery(
		"UPDATE grants SET code_used_at = ? WHERE id = ? AND code_used_at = 0 AND revoked_at = 0", "")
	// rotateToken rotates a token once, and again during the grace period of its client, which
	// starts with the first time.
	rotateToken = engine.NewQuery(`UPDATE tokens SET used_at = CASE WHEN used_at = 0 THEN ? ELSE used_at END
		WHERE sig = ? AND kind = ? AND grant_id = ?
		AND EXISTS (SELECT 1 FROM grants g JOIN clients k ON k.id = g.client_id
			WHERE g.id = tokens.grant_id AND g.revoked_at = 0
			AND (tokens.used_at = 0 OR k.refresh_grace > 0 AND tokens.used_at > ? - k.refresh_grace))`, "")
)

// SpendCode implements provider.GrantStore.
func (s *Store) SpendCode(ctx context.Context, grantID string, issued []provider.Token) error {
	now := s.Now()
	const spent = `code_used_at > 0
		AND NOT EXISTS (SELECT 1 FROM device_requests d WHERE d.code_sig = g.code_sig)`
	return s.spendOnce(ctx, "spend code", grantID, issued, spendCode, []any{now, grantID}, spent, map[string]any{})
}

// RotateRefreshToken implements provider.GrantStore.
func (s *Store) RotateRefreshToken(ctx context.Context, grantID, signature string, issued []provider.Token) error {
	now := s.Now()
	args := []any{now, signature, kindRefresh, grantID, now}
	return s.spendOnce(ctx, "rotate refresh token", grantID, issued, rotateToken, args,
		rotated, map[string]any{"sig": signature, "kind": kindRefresh})
}

// keepToken extends the lifetime of a refresh token.
var keepToken = engine.NewQuery(`UPDATE tokens SET expires_at = ?
	WHERE sig = ? AND kind = ? AND grant_id = ? AND used_at = 0
	AND EXISTS (SELECT 1 FROM grants g WHERE g.id = tokens.grant_id AND g.revoked_at = 0)`, "")

// KeepRefreshToken implements provider.GrantStore.
func (s *Store) KeepRefreshToken(
	ctx context.Context, grantID, signature string, expires time.Time, issued []provider.Token,
) error {
	args := []any{toUnix(expires), signature, kindRefresh, grantID}
	return s.spendOnce(ctx, "keep refresh token", grantID, issued, keepToken, args,
		rotated, map[string]any{"sig": signature, "kind": kindRefresh})
}

// rotated is the condition that a refresh token of the grant g was rotated.
const rotated = `EXISTS (SELECT 1 FROM tokens t
	WHERE t.sig = @sig AND t.kind = @kind AND t.grant_id = g.id AND t.used_at > 0)`

// spendOnce spends a code or a refresh token and stores the tokens issued for it. A caller that
// finds it spent, even at the same time, is a second use and revokes the grant. On PostgreSQL each
// of the two is one statement, whose conditions hold when it changes the row, so they need no
// common transaction.
func (s *Store) spendOnce(
	ctx context.Context, doing, grantID string, issued []provider.Token,
	spend engine.Query, spendArgs []any, reused string, reusedArgs map[string]any,
) error {
	if slices.ContainsFunc(spendArgs, func(v any) bool { key, is := v.(string); return is && invalidKey(key) }) {
		return provider.ErrNotFound
	}
	tokens, err := tokenValues(grantID, issued, s.Now())
	if err != nil {
		return fail(doing, err)
	}
	var refused error
	op := engine.Operation{Doing: doing, Several: s.Dialect() == SQLite}
	op.Do = func(w *engine.Statements) error {
		refused = nil
		if n, err := exchange(w, spend, spendArgs, tokens); err != nil || n > 0 {
			return err
		}
		refused = provider.ErrSpent
		return nil
	}
	err = s.perform(ctx, op)
	if err != nil || refused == nil {
		return err
	}
	reusedArgs["id"] = grantID
	err = s.write(ctx, doing, func(tx *engine.Tx) {
		n, tokens := revokeGrants(tx, fromUnix(s.Now()), "g.id = @id AND "+reused, reusedArgs)
		if n == 0 {
			refused = fmt.Errorf("%w: %w", provider.ErrSpent, provider.ErrGrantRevoked)
		}
		revoke(tx, tokens)
	})
	if err != nil {
		return err
	}
	return fail(doing, refused)
}

// Kinds of tokens.
const (
	kindAccess  = "a"
	kindRefresh = "r"
)

// tokenValues returns the values of the rows of tokens.
func tokenValues(grantID string, issued []provider.Token, now int64) ([]any, error) {
	values := make([]any, 0, len(tokenTypes)*len(issued))
	for _, t := range issued {
		if t.Expires.IsZero() {
			return nil, errBadToken
		}
		kind := kindAccess
		if t.Refresh {
			kind = kindRefresh
		}
		var scope any // NULL: the scope of the grant
		if t.Narrowed {
			scope = strings.Join(t.Scopes, " ")
		}
		values = append(values, t.Signature, kind, grantID, now, toUnix(t.Expires), strings.Join(t.Audience, " "),
			scope, t.JKT)
	}
	return values, nil
}

// exchange runs spend and, if that changed a row, adds tokens. It returns 0 if it did not.
func exchange(w *engine.Statements, spend engine.Query, args, tokens []any) (int64, error) {
	n := len(tokens) / len(tokenTypes)
	if w.Dialect() == Postgres && n > 0 {
		return w.Exec(engine.Query{Postgres: addSpent(spend.Postgres, len(args), n)}, append(args, tokens...)...)
	}
	spent, err := w.Exec(spend, args...)
	if err != nil || spent == 0 || n == 0 {
		return spent, err
	}
	insert := "INSERT INTO tokens " + tokenColumns + " VALUES " + repeated("(?, ?, ?, ?, ?, ?, ?, ?)", n)
	return w.Exec(engine.Query{SQLite: insert}, tokens...)
}

const tokenColumns = "(sig, kind, grant_id, issued_at, expires_at, audience, scope, jkt)"

var tokenTypes = [...]string{"TEXT", "TEXT", "TEXT", "BIGINT", "BIGINT", "TEXT", "TEXT", "TEXT"}

// addSpent returns a PostgreSQL statement that adds n tokens if spend, with that many parameters,
// changes a row.
func addSpent(spend string, parameters, n int) string {
	var b strings.Builder
	b.WriteString("WITH spent AS (" + spend + " RETURNING 1) INSERT INTO tokens " + tokenColumns)
	for i := range n {
		if i > 0 {
			b.WriteString(" UNION ALL")
		}
		b.WriteString(" SELECT ")
		for j, kind := range tokenTypes {
			if j > 0 {
				b.WriteString(", ")
			}
			parameters++
			b.WriteString("CAST($" + strconv.Itoa(parameters) + " AS " + kind + ")")
		}
		b.WriteString(" FROM spent")
	}
	return b.String()
}

// errBadToken is wrapped with account.ErrUnavailable.
var errBadToken = errors.New("a token needs an expiry and a client")

// CreateClientToken implements provider.GrantStore. Only its client can revoke such a grant: it has
// a table of its own, without a user.
func (s *Store) CreateClientToken(ctx context.Context, t *provider.Token) error {
	const doing = "create client token"
	if t.Expires.IsZero() || t.Refresh || invalidKey(t.Grant.ID) {
		return fail(doing, errBadToken)
	}
	forAPIs := len(t.Audience) > 0
	return s.perform(ctx, engine.Operation{Doing: doing, Several: forAPIs, Do: func(w *engine.Statements) (err error) {
		if forAPIs {
			if t.Grant.StatusList, t.Grant.StatusIndex, err = takeIndex(w.Gorm()); err != nil {
				return err
			}
		}
		_, err = w.Exec(insertClientToken, t.Signature, t.Grant.ID, t.Grant.ClientID,
			strings.Join(t.Grant.Scopes, " "), s.Now(), toUnix(t.Expires),
			strings.Join(t.Audience, " "), t.Grant.StatusList, t.Grant.StatusIndex, t.JKT)
		return err
	}})
}

var insertClientToken = engine.NewQuery(`INSERT INTO client_tokens
	(sig, id, client_id, scope, issued_at, expires_at, audience, status_list, status_index, jkt)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, "")

var (
	readToken = engine.NewRead("tokens", `SELECT t.kind, t.issued_at, t.expires_at, t.used_at, t.jkt, t.audience,
		coalesce(t.scope, g.granted_scope)`+grantColumns+` FROM tokens t JOIN grants g ON g.id = t.grant_id
		JOIN users u ON u.sub = g.sub JOIN clients k ON k.id = g.client_id WHERE t.sig = ? AND k.removed_at = 0`)
	readClientToken = engine.NewRead("client_tokens", `SELECT t.issued_at, t.expires_at, t.jkt, t.audience, t.id,
		t.client_id, t.scope, t.revoked_at, t.status_list, t.status_index
		FROM client_tokens t JOIN clients k ON k.id = t.client_id WHERE t.sig = ? AND k.removed_at = 0`)
)

// Token implements provider.GrantStore.
func (s *Store) Token(ctx context.Context, signature string) (*provider.Token, error) {
	if invalidKey(signature) {
		return nil, provider.ErrNotFound
	}
	t := &provider.Token{Signature: signature}
	c, err := s.readRow(ctx, readToken, provider.ErrNotFound, signature)
	switch {
	case err == nil:
		t.Refresh = c.Text() == kindRefresh
		t.Issued, t.Expires, t.Rotated, t.JKT = c.Time(), c.Time(), c.Time(), c.Text()
		t.Audience, t.Grant = audienceOf(c.Text()), takeGrant(c, s.Now())
	case errors.Is(err, provider.ErrNotFound):
		if c, err = s.readRow(ctx, readClientToken, provider.ErrNotFound, signature); err == nil {
			t.Issued, t.Expires, t.JKT, t.Audience = c.Time(), c.Time(), c.Text(), audienceOf(c.Text())
			t.Grant = &provider.Grant{
				ID: c.Text(), ClientID: c.Text(), Scopes: strings.Fields(c.Text()), CreatedAt: t.Issued,
				Revoked: c.Number() != 0, StatusList: int(c.Number()), StatusIndex: int(c.Number()),
			}
		}
	}
	if err = cmp.Or(err, c.Err); err != nil {
		return nil, fail("find token", err)
	}
	return t, nil
}

// RevokeGrant implements provider.GrantStore.
func (s *Store) RevokeGrant(ctx context.Context, id string, now time.Time) error {
	if invalidKey(id) {
		return nil
	}
	return s.write(ctx, "revoke grant", func(tx *engine.Tx) {
		n, tokens := revokeGrants(tx, now, "g.id = @id", map[string]any{"id": id})
		if n == 0 {
			tx.Find(&tokens, `UPDATE client_tokens SET revoked_at = ? WHERE id = ? AND revoked_at = 0
				RETURNING status_list, status_index, expires_at`, toUnix(now), id)
			tx.NoteRevoked(revokedToken, len(tokens))
			tokens = onLists(tokens)
		}
		revoke(tx, tokens)
	})
}
