package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// grantColumns are a grant g with its user u, but for its code.
const grantColumns = "g.id, g.client_id, g.sid, g.granted_scope, g.acr, g.amr, g.claims, g.auth_time, g.created_at, g.revoked_at, " + claimColumns

func (c *columns) grant() *provider.Grant {
	g := &provider.Grant{ID: c.text(), ClientID: c.text(), SessionID: c.text(), Scopes: strings.Fields(c.text()), ACR: c.text()}
	if amr := c.text(); amr != "" { // nil where there is none, as the grant was made
		g.AMR = strings.Fields(amr)
	}
	g.Claims, g.AuthTime, g.CreatedAt, g.Revoked = c.text(), c.time(), c.time(), c.number() != 0
	u := &account.User{}
	deleted := c.claims(u)
	if g.Sub = u.Sub; !deleted {
		g.User = u
	}
	return g
}

// insertGrant adds a grant only while the session lives in which it was given:
// a code must not be made after what would have revoked it.
const insertGrant = `INSERT INTO grants (id, client_id, sub, sid, requested_scope, granted_scope, offline, code_sig, code_expires_at, redirect_uri,
	code_challenge, code_challenge_method, nonce, acr, amr, claims, auth_time, arrived_at, created_at, sweep_at)
	SELECT ?, ?, s.sub, s.id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM sessions s WHERE s.id = ? AND s.sub = ? AND s.ended_at = 0`

// CreateGrant implements provider.GrantStore.
func (s *Store) CreateGrant(ctx context.Context, g *provider.Grant) error {
	if invalidKey(g.CodeSignature) || invalidKey(g.Sub) || invalidKey(g.SessionID) {
		return fail("create grant", account.ErrSessionNotFound)
	}
	query := insertGrant
	if s.dialect == Postgres {
		// The end of the session waits, and then finds the grant to revoke.
		query += " FOR SHARE"
	}
	var nonce []byte
	if g.Nonce != "" {
		nonce = []byte(g.Nonce)
	}
	method := ""
	if g.CodeChallenge != "" {
		method = "S256"
	}
	scope := strings.Join(g.Scopes, " ")
	return s.writeOne(ctx, "create grant", func(db *gorm.DB) error {
		return expect(db.Exec(query,
			g.ID, g.ClientID, scope, scope, slices.Contains(g.Scopes, "offline_access"), g.CodeSignature, toUnix(g.CodeExpires), g.RedirectURI,
			g.CodeChallenge, method, nonce, g.ACR, strings.Join(g.AMR, " "), g.Claims, toUnix(g.AuthTime), toUnix(g.AuthTime), toUnix(g.CreatedAt), toUnix(g.CodeExpires),
			g.SessionID, g.Sub), account.ErrSessionNotFound)
	})
}

var readCode = newKeyRead("grants", "SELECT "+grantColumns+`, g.code_expires_at, g.code_used_at, g.redirect_uri, g.code_challenge, g.nonce
	FROM grants g JOIN users u ON u.sub = g.sub WHERE g.code_sig = ?`)

// GrantOfCode implements provider.GrantStore.
func (s *Store) GrantOfCode(ctx context.Context, signature string) (*provider.Grant, error) {
	if invalidKey(signature) {
		return nil, provider.ErrNotFound
	}
	c, err := s.readRow(ctx, readCode, signature, provider.ErrNotFound)
	if err != nil {
		return nil, fail("find code", err)
	}
	g := c.grant()
	g.CodeSignature, g.CodeExpires, g.CodeUsed, g.RedirectURI, g.CodeChallenge, g.Nonce = signature, c.time(), c.number() != 0, c.text(), c.text(), string(c.bytes())
	return g, fail("find code", c.err)
}

// SpendCode implements provider.GrantStore.
func (s *Store) SpendCode(ctx context.Context, grantID string, issued []provider.Token) error {
	now := s.now()
	return s.spendOnce(ctx, "spend code", grantID, issued, func(tx *gorm.DB) *gorm.DB {
		return tx.Exec("UPDATE grants SET code_used_at = ? WHERE id = ? AND code_used_at = 0 AND revoked_at = 0", now, grantID)
	}, func(tx *gorm.DB) *gorm.DB {
		return tx.Exec("UPDATE grants SET revoked_at = ? WHERE id = ? AND code_used_at > 0 AND revoked_at = 0", now, grantID)
	})
}

// rotate lets a token be rotated once, and again in the grace of its client,
// which begins with the first time.
const rotate = `UPDATE tokens SET used_at = CASE WHEN used_at = 0 THEN ? ELSE used_at END WHERE sig = ? AND kind = ? AND grant_id = ?
	AND EXISTS (SELECT 1 FROM grants g JOIN clients k ON k.id = g.client_id WHERE g.id = tokens.grant_id AND g.revoked_at = 0
	AND (tokens.used_at = 0 OR k.refresh_grace > 0 AND tokens.used_at > ? - k.refresh_grace))`

// RotateRefreshToken implements provider.GrantStore.
func (s *Store) RotateRefreshToken(ctx context.Context, grantID, signature string, issued []provider.Token) error {
	if invalidKey(signature) {
		return provider.ErrNotFound
	}
	now := s.now()
	return s.spendOnce(ctx, "rotate refresh token", grantID, issued, func(tx *gorm.DB) *gorm.DB {
		return tx.Exec(rotate, now, signature, kindRefresh, grantID, now)
	}, func(tx *gorm.DB) *gorm.DB {
		return tx.Exec(`UPDATE grants SET revoked_at = ? WHERE id = ? AND revoked_at = 0
			AND EXISTS (SELECT 1 FROM tokens t WHERE t.sig = ? AND t.kind = ? AND t.grant_id = grants.id AND t.used_at > 0)`, now, grantID, signature, kindRefresh)
	})
}

// spendOnce spends a code or a refresh token and stores what was issued for it.
// A caller that finds it spent is a second use, even at the same time, and
// revokes the grant in the same transaction.
func (s *Store) spendOnce(ctx context.Context, doing, grantID string, issued []provider.Token, spend, revoke func(tx *gorm.DB) *gorm.DB) error {
	if invalidKey(grantID) {
		return provider.ErrNotFound
	}
	var refused error
	err := s.write(ctx, doing, func(tx *gorm.DB) error {
		refused = nil
		if res := spend(tx); res.Error != nil {
			return res.Error
		} else if res.RowsAffected > 0 {
			return s.insertTokens(tx, grantID, issued)
		}
		refused = provider.ErrSpent
		res := revoke(tx)
		if res.Error == nil && res.RowsAffected == 0 {
			refused = fmt.Errorf("%w: %w", provider.ErrSpent, provider.ErrGrantRevoked)
		}
		return res.Error
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

func (s *Store) insertTokens(tx *gorm.DB, grantID string, issued []provider.Token) error {
	for _, t := range issued {
		if invalidKey(t.Signature) || t.Expires.IsZero() {
			return errBadToken
		}
		kind := kindAccess
		if t.Refresh {
			kind = kindRefresh
		}
		err := tx.Exec("INSERT INTO tokens (sig, kind, grant_id, issued_at, expires_at) VALUES (?, ?, ?, ?, ?)", t.Signature, kind, grantID, s.now(), toUnix(t.Expires)).Error
		if err != nil {
			return err
		}
	}
	return nil
}

// errBadToken is wrapped with account.ErrUnavailable.
var errBadToken = errors.New("a token needs a signature, an expiry and a client")

// CreateClientToken implements provider.GrantStore. No user can revoke such a grant
// but its client: it has a table of its own, without a user.
func (s *Store) CreateClientToken(ctx context.Context, t provider.Token) error {
	return s.writeOne(ctx, "create client token", func(db *gorm.DB) error {
		if invalidKey(t.Signature) || t.Expires.IsZero() || t.Refresh || invalidKey(t.Grant.ID) || invalidKey(t.Grant.ClientID) {
			return errBadToken
		}
		return db.Exec("INSERT INTO client_tokens (sig, id, client_id, scope, issued_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
			t.Signature, t.Grant.ID, t.Grant.ClientID, strings.Join(t.Grant.Scopes, " "), s.now(), toUnix(t.Expires)).Error
	})
}

var (
	readToken = newKeyRead("tokens", "SELECT t.kind, t.expires_at, t.used_at, "+grantColumns+` FROM tokens t JOIN grants g ON g.id = t.grant_id
		JOIN users u ON u.sub = g.sub JOIN clients k ON k.id = g.client_id WHERE t.sig = ? AND k.removed_at = 0`)
	readClientToken = newKeyRead("client_tokens", `SELECT t.expires_at, t.id, t.client_id, t.scope, t.issued_at, t.revoked_at
		FROM client_tokens t JOIN clients k ON k.id = t.client_id WHERE t.sig = ? AND k.removed_at = 0`)
)

// Token implements provider.GrantStore.
func (s *Store) Token(ctx context.Context, signature string) (*provider.Token, error) {
	if invalidKey(signature) {
		return nil, provider.ErrNotFound
	}
	t := &provider.Token{Signature: signature}
	c, err := s.readRow(ctx, readToken, signature, provider.ErrNotFound)
	switch {
	case err == nil:
		t.Refresh, t.Expires, t.Rotated, t.Grant = c.text() == kindRefresh, c.time(), c.time(), c.grant()
	case errors.Is(err, provider.ErrNotFound):
		if c, err = s.readRow(ctx, readClientToken, signature, provider.ErrNotFound); err == nil {
			t.Expires, t.Grant = c.time(), &provider.Grant{ID: c.text(), ClientID: c.text(), Scopes: strings.Fields(c.text()), CreatedAt: c.time(), Revoked: c.number() != 0}
		}
	}
	if err = cmp.Or(err, c.err); err != nil {
		return nil, fail("find token", err)
	}
	return t, nil
}

// RevokeGrant implements provider.GrantStore.
func (s *Store) RevokeGrant(ctx context.Context, id string, now time.Time) error {
	if invalidKey(id) {
		return nil
	}
	return s.writeOne(ctx, "revoke grant", func(db *gorm.DB) error {
		for _, statement := range []string{
			"UPDATE grants SET revoked_at = ? WHERE id = ? AND revoked_at = 0",
			"UPDATE client_tokens SET revoked_at = ? WHERE id = ? AND revoked_at = 0",
		} {
			if res := db.Exec(statement, toUnix(now), id); res.Error != nil || res.RowsAffected > 0 {
				return res.Error
			}
		}
		return nil
	})
}
