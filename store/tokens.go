package store

import (
	"context"
	"time"

	"github.com/ory/fosite"
	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
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

const selectToken = "SELECT " + grantColumns + ", t.expires_at, t.used_at FROM tokens t JOIN grants g ON g.id = t.grant_id WHERE t.sig = ? AND t.kind = ?"

// readToken returns the row and its requester. fosite.ErrNotFound.
func (s *Store) readToken(ctx context.Context, kind, signature string) (*tokenRow, *fosite.Request, error) {
	if odd(signature) {
		return nil, nil, fosite.ErrNotFound
	}
	var row tokenRow
	if err := expect(s.conn(ctx).Raw(selectToken, signature, kind).Scan(&row), fosite.ErrNotFound); err != nil {
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

// CreateAccessTokenSession implements oauth2.AccessTokenStorage.
func (s *Store) CreateAccessTokenSession(ctx context.Context, signature string, r fosite.Requester) error {
	return s.insertToken(ctx, kindAccess, signature, r.GetID(), grantSession(r).AccessExpires)
}

// GetAccessTokenSession implements oauth2.AccessTokenStorage. A revoked token is
// fosite.ErrInactiveToken; whether it has expired is for the strategy to say.
func (s *Store) GetAccessTokenSession(ctx context.Context, signature string, _ fosite.Session) (fosite.Requester, error) {
	row, r, err := s.readToken(ctx, kindAccess, signature)
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
		return db.Exec("DELETE FROM tokens WHERE sig = ? AND kind = ?", signature, kindAccess).Error
	})
}

// CreateRefreshTokenSession implements oauth2.RefreshTokenStorage.
func (s *Store) CreateRefreshTokenSession(ctx context.Context, signature, _ string, r fosite.Requester) error {
	return s.insertToken(ctx, kindRefresh, signature, r.GetID(), grantSession(r).RefreshExpires)
}

// GetRefreshTokenSession implements oauth2.RefreshTokenStorage. A rotated or
// revoked token is returned together with fosite.ErrInactiveToken.
func (s *Store) GetRefreshTokenSession(ctx context.Context, signature string, _ fosite.Session) (fosite.Requester, error) {
	row, r, err := s.readToken(ctx, kindRefresh, signature)
	if err != nil {
		return nil, err
	}
	if row.Grant.RevokedAt != 0 || row.UsedAt != 0 {
		return r, fosite.ErrInactiveToken
	}
	return r, nil
}

// DeleteRefreshTokenSession implements oauth2.RefreshTokenStorage. The row
// stays, as used: whoever presents the token once more must be recognised.
func (s *Store) DeleteRefreshTokenSession(ctx context.Context, signature string) error {
	if odd(signature) {
		return nil
	}
	return s.writeOne(ctx, "retire refresh token", func(db *gorm.DB) error {
		return db.Exec("UPDATE tokens SET used_at = ? WHERE sig = ? AND kind = ? AND used_at = 0", s.now(), signature, kindRefresh).Error
	})
}

// RotateRefreshToken implements oauth2.RefreshTokenStorage. Of several
// rotations at once exactly one succeeds, the others get fosite.ErrInactiveToken.
func (s *Store) RotateRefreshToken(ctx context.Context, grantID, signature string) error {
	if odd(signature) || odd(grantID) {
		return fosite.ErrNotFound
	}
	return s.writeOne(ctx, "rotate refresh token", func(db *gorm.DB) error {
		return expect(db.Exec(`UPDATE tokens SET used_at = ? WHERE sig = ? AND kind = ? AND grant_id = ? AND used_at = 0
			AND EXISTS (SELECT 1 FROM grants g WHERE g.id = tokens.grant_id AND g.revoked_at = 0)`, s.now(), signature, kindRefresh, grantID), fosite.ErrInactiveToken)
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
