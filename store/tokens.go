package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ory/fosite"
	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// Kinds of tokens.
const (
	kindAccess  = "a"
	kindRefresh = "r"
)

// tokenRow is a token with its grant.
type tokenRow struct {
	Grant     grantRow `gorm:"embedded"`
	ExpiresAt int64
	UsedAt    int64
}

const selectToken = "SELECT " + grantColumns + ", t.expires_at, t.used_at FROM tokens t JOIN grants g ON g.id = t.grant_id JOIN clients k ON k.id = g.client_id WHERE t.sig = ? AND t.kind = ? AND k.removed_at = 0"

// readToken returns the row and its requester. fosite.ErrNotFound.
func (s *Store) readToken(ctx context.Context, kind, signature string) (*tokenRow, *fosite.Request, error) {
	if odd(signature) {
		return nil, nil, fosite.ErrNotFound
	}
	var row tokenRow
	if err := expect(s.conn(ctx).Raw(selectToken, signature, kind).Find(&row), fosite.ErrNotFound); err != nil {
		return nil, nil, fail("find token", err)
	}
	session := row.Grant.session()
	if kind == kindAccess {
		session.AccessExpires = moment(row.ExpiresAt)
	} else {
		session.RefreshExpires = moment(row.ExpiresAt)
	}
	r, err := s.request(ctx, &row.Grant, session)
	return &row, r, err
}

func (s *Store) insertToken(ctx context.Context, kind, signature, grantID string, expires time.Time) error {
	return s.writeOne(ctx, "create token", func(db *gorm.DB) error {
		if odd(signature) || odd(grantID) || expires.IsZero() {
			return account.ErrUnavailable
		}
		return db.Exec("INSERT INTO tokens (sig, kind, grant_id, issued_at, expires_at) VALUES (?, ?, ?, ?, ?)", signature, kind, grantID, s.now(), seconds(expires)).Error
	})
}

// CreateAccessTokenSession implements oauth2.AccessTokenStorage. Without a
// subject it is a token of the client for itself.
func (s *Store) CreateAccessTokenSession(ctx context.Context, signature string, r fosite.Requester) error {
	gs := grantSession(r)
	if gs.Subject == "" {
		return s.insertClientToken(ctx, signature, r, gs.AccessExpires)
	}
	return s.insertToken(ctx, kindAccess, signature, r.GetID(), gs.AccessExpires)
}

// GetAccessTokenSession implements oauth2.AccessTokenStorage. A revoked token is
// fosite.ErrInactiveToken; whether it has expired is for the strategy to say. The
// session of a client's own token has no subject.
func (s *Store) GetAccessTokenSession(ctx context.Context, signature string, _ fosite.Session) (fosite.Requester, error) {
	row, r, err := s.readToken(ctx, kindAccess, signature)
	if errors.Is(err, fosite.ErrNotFound) {
		return s.readClientToken(ctx, signature)
	}
	if err != nil {
		return nil, err
	}
	if row.Grant.RevokedAt != 0 {
		return r, fosite.ErrInactiveToken
	}
	return r, nil
}

// DeleteAccessTokenSession implements oauth2.AccessTokenStorage.
func (s *Store) DeleteAccessTokenSession(ctx context.Context, signature string) error {
	if odd(signature) {
		return nil
	}
	return s.writeOne(ctx, "delete access token", func(db *gorm.DB) error {
		gone := db.Exec("DELETE FROM tokens WHERE sig = ? AND kind = ?", signature, kindAccess)
		if gone.Error != nil || gone.RowsAffected > 0 {
			return gone.Error
		}
		return db.Exec("DELETE FROM client_tokens WHERE sig = ?", signature).Error
	})
}

// errNoSubject is wrapped with account.ErrUnavailable.
var errNoSubject = errors.New("a refresh token needs a user")

// CreateRefreshTokenSession implements oauth2.RefreshTokenStorage: of a user's
// grant, never of a client for itself (RFC 6749 section 4.4.3).
func (s *Store) CreateRefreshTokenSession(ctx context.Context, signature, _ string, r fosite.Requester) error {
	gs := grantSession(r)
	if gs.Subject == "" {
		return fail("create token", errNoSubject)
	}
	return s.insertToken(ctx, kindRefresh, signature, r.GetID(), gs.RefreshExpires)
}

// inGrace tells whether a token that was rotated at used still works: younger
// than the grace of its client. Without a grace never, whatever the clocks say.
func (s *Store) inGrace(used int64, c fosite.Client) bool {
	client, ok := c.(*provider.Client)
	if !ok {
		return false
	}
	grace := int64(client.RefreshGrace / time.Second)
	return grace > 0 && used > s.now()-grace
}

// GetRefreshTokenSession implements oauth2.RefreshTokenStorage. A rotated (but
// for the grace of its client) or revoked token is returned together with
// fosite.ErrInactiveToken.
func (s *Store) GetRefreshTokenSession(ctx context.Context, signature string, _ fosite.Session) (fosite.Requester, error) {
	row, r, err := s.readToken(ctx, kindRefresh, signature)
	if err != nil {
		return nil, err
	}
	if row.Grant.RevokedAt != 0 {
		return r, fmt.Errorf("%w: %w", fosite.ErrInactiveToken, provider.ErrGrantRevoked)
	}
	if row.UsedAt != 0 && !s.inGrace(row.UsedAt, r.Client) {
		return r, fosite.ErrInactiveToken
	}
	return r, nil
}

// retired is the time of a rotation that no grace reaches.
const retired = 1

// DeleteRefreshTokenSession implements oauth2.RefreshTokenStorage. The row
// stays, as used: whoever presents the token once more must be recognised.
func (s *Store) DeleteRefreshTokenSession(ctx context.Context, signature string) error {
	if odd(signature) {
		return nil
	}
	return s.writeOne(ctx, "retire refresh token", func(db *gorm.DB) error {
		return db.Exec("UPDATE tokens SET used_at = ? WHERE sig = ? AND kind = ?", retired, signature, kindRefresh).Error
	})
}

// rotate lets a token be rotated once, and again in the grace of its client,
// which begins with the first time.
const rotate = `UPDATE tokens SET used_at = CASE WHEN used_at = 0 THEN ? ELSE used_at END WHERE sig = ? AND kind = ? AND grant_id = ?
	AND EXISTS (SELECT 1 FROM grants g JOIN clients k ON k.id = g.client_id WHERE g.id = tokens.grant_id AND g.revoked_at = 0
	AND (tokens.used_at = 0 OR k.refresh_grace > 0 AND tokens.used_at > ? - k.refresh_grace))`

// RotateRefreshToken implements oauth2.RefreshTokenStorage. Of several
// rotations at once exactly one succeeds, or all of them in a grace.
func (s *Store) RotateRefreshToken(ctx context.Context, grantID, signature string) error {
	if odd(signature) || odd(grantID) {
		return fosite.ErrNotFound
	}
	now := s.now()
	return s.spendOnce(ctx, "rotate refresh token", fosite.ErrInactiveToken, func(tx *gorm.DB) *gorm.DB {
		return tx.Exec(rotate, now, signature, kindRefresh, grantID, now)
	}, func(tx *gorm.DB) *gorm.DB {
		return tx.Exec(`UPDATE grants SET revoked_at = ? WHERE id = ? AND revoked_at = 0
			AND EXISTS (SELECT 1 FROM tokens t WHERE t.sig = ? AND t.kind = ? AND t.grant_id = grants.id AND t.used_at > 0)`, now, grantID, signature, kindRefresh)
	})
}

// RevokeRefreshToken implements oauth2.TokenRevocationStorage: it revokes the
// whole grant.
func (s *Store) RevokeRefreshToken(ctx context.Context, grantID string) error {
	return s.RevokeGrant(ctx, grantID, s.clock())
}

// RevokeAccessToken implements oauth2.TokenRevocationStorage, like
// RevokeRefreshToken.
func (s *Store) RevokeAccessToken(ctx context.Context, grantID string) error {
	return s.RevokeGrant(ctx, grantID, s.clock())
}
