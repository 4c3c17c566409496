package store

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/ory/fosite"
	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// grantRow is one authorization: what fosite keeps in a requester, in columns.
type grantRow struct {
	ID                  string
	ClientID            string
	Sub                 string
	Sid                 string
	RequestedScope      string
	GrantedScope        string
	CodeSig             string
	CodeExpiresAt       int64
	CodeUsedAt          int64
	RedirectURI         string `gorm:"column:redirect_uri"`
	CodeChallenge       string
	CodeChallengeMethod string
	Nonce               []byte
	ACR                 string `gorm:"column:acr"`
	Claims              string
	AuthTime            int64
	ArrivedAt           int64
	CreatedAt           int64 `gorm:"autoCreateTime:false"`
	RevokedAt           int64
}

// grantColumns; the table is named g.
const grantColumns = `g.id, g.client_id, g.sub, g.sid, g.requested_scope, g.granted_scope, g.code_sig, g.code_expires_at, g.code_used_at, g.redirect_uri,
	g.code_challenge, g.code_challenge_method, g.nonce, g.acr, g.claims, g.auth_time, g.arrived_at, g.created_at, g.revoked_at`

// ownClient is the client of a code or token. It compares it with the one that
// asks: whoever holds another client's gets fosite.ErrNotFound and cannot end the
// owner's grant by using it twice.
func (s *Store) ownClient(ctx context.Context, id string) (fosite.Client, error) {
	if c := authenticatedClient(ctx); c != nil && c.GetID() != id {
		return nil, fosite.ErrNotFound
	}
	return s.clientOf(ctx, id)
}

// request is the requester of the row.
func (s *Store) request(ctx context.Context, r *grantRow, session *provider.GrantSession) (*fosite.Request, error) {
	client, err := s.ownClient(ctx, r.ClientID)
	if err != nil {
		return nil, err
	}
	form := url.Values{}
	for name, value := range map[string]string{
		"redirect_uri": r.RedirectURI, "code_challenge": r.CodeChallenge, "code_challenge_method": r.CodeChallengeMethod, "nonce": string(r.Nonce),
	} {
		if value != "" {
			form.Set(name, value)
		}
	}
	return &fosite.Request{
		ID: r.ID, RequestedAt: moment(r.CreatedAt), Client: client, RequestedScope: strings.Fields(r.RequestedScope), GrantedScope: strings.Fields(r.GrantedScope),
		Form: form, Session: session, RequestedAudience: fosite.Arguments{}, GrantedAudience: fosite.Arguments{},
	}, nil
}

func (r *grantRow) session() *provider.GrantSession {
	return &provider.GrantSession{
		Subject: r.Sub, SessionID: r.Sid, AuthTime: moment(r.AuthTime), RequestedAt: moment(r.ArrivedAt), ACR: r.ACR, Claims: r.Claims, CodeExpires: moment(r.CodeExpiresAt),
	}
}

// grantSession is the session that fosite hands over; any other type is a
// mistake in the wiring.
func grantSession(r fosite.Requester) *provider.GrantSession {
	gs, ok := r.GetSession().(*provider.GrantSession)
	if !ok || gs == nil {
		return &provider.GrantSession{}
	}
	return gs
}

// insertGrant adds a grant only while the session lives in which it was given:
// a code must not be born after what would have revoked it.
const insertGrant = `INSERT INTO grants (id, client_id, sub, sid, requested_scope, granted_scope, offline, code_sig, code_expires_at, redirect_uri,
	code_challenge, code_challenge_method, nonce, acr, claims, auth_time, arrived_at, created_at, sweep_at)
	SELECT ?, ?, s.sub, s.id, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM sessions s WHERE s.id = ? AND s.sub = ? AND s.ended_at = 0`

// CreateAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage: one row
// holds the code, its challenge and nonce. account.ErrSessionNotFound when the
// session has ended.
func (s *Store) CreateAuthorizeCodeSession(ctx context.Context, signature string, r fosite.Requester) error {
	gs := grantSession(r)
	if odd(signature) || odd(gs.Subject) || odd(gs.SessionID) {
		return fail("create grant", account.ErrSessionNotFound)
	}
	query := insertGrant
	if s.dialect == Postgres {
		// Whoever ends the session waits, and then finds the grant to revoke.
		query += " FOR SHARE"
	}
	form, granted := r.GetRequestForm(), r.GetGrantedScopes()
	var nonce []byte
	if v := form.Get("nonce"); v != "" {
		nonce = []byte(v)
	}
	return s.writeOne(ctx, "create grant", func(db *gorm.DB) error {
		return expect(db.Exec(query,
			r.GetID(), r.GetClient().GetID(), strings.Join(r.GetRequestedScopes(), " "), strings.Join(granted, " "), granted.Has("offline_access"),
			signature, seconds(gs.CodeExpires), form.Get("redirect_uri"), form.Get("code_challenge"), form.Get("code_challenge_method"), nonce, gs.ACR, gs.Claims,
			seconds(gs.AuthTime), seconds(gs.RequestedAt), seconds(r.GetRequestedAt()), seconds(gs.CodeExpires), gs.SessionID, gs.Subject), account.ErrSessionNotFound)
	})
}

// codeRow is a code as one token request sees it: read once, with one session
// object for all who ask.
type codeRow struct {
	grantRow
	shared *provider.GrantSession
}

// readCode finds a grant by the signature of its code. fosite.ErrNotFound.
func (s *Store) readCode(ctx context.Context, signature string) (*codeRow, error) {
	if odd(signature) {
		return nil, fosite.ErrNotFound
	}
	cache := provider.CacheFrom(ctx)
	if cache != nil {
		if hit, ok := cache.Code.(*codeRow); ok && hit.CodeSig == signature {
			return hit, nil
		}
	}
	var row codeRow
	if err := expect(s.conn(ctx).Raw("SELECT "+grantColumns+" FROM grants g WHERE g.code_sig = ?", signature).Find(&row.grantRow), fosite.ErrNotFound); err != nil {
		return nil, fail("find code", err)
	}
	row.shared = row.session()
	if cache != nil {
		cache.Code = &row
	}
	return &row, nil
}

// GetAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage.
func (s *Store) GetAuthorizeCodeSession(ctx context.Context, signature string, _ fosite.Session) (fosite.Requester, error) {
	row, err := s.readCode(ctx, signature)
	if err != nil {
		return nil, err
	}
	r, err := s.request(ctx, &row.grantRow, row.shared)
	if err != nil {
		return nil, err
	}
	if row.RevokedAt != 0 {
		return r, fmt.Errorf("%w: %w", fosite.ErrInvalidatedAuthorizeCode, provider.ErrGrantRevoked)
	}
	if row.CodeUsedAt != 0 {
		return r, fosite.ErrInvalidatedAuthorizeCode
	}
	return r, nil
}

// InvalidateAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage. Of
// several exchanges at once exactly one succeeds.
func (s *Store) InvalidateAuthorizeCodeSession(ctx context.Context, signature string) error {
	if odd(signature) {
		return fosite.ErrNotFound
	}
	now := s.now()
	err := s.spendOnce(ctx, "spend code", fosite.ErrInvalidatedAuthorizeCode, func(tx *gorm.DB) *gorm.DB {
		return tx.Exec("UPDATE grants SET code_used_at = ? WHERE code_sig = ? AND code_used_at = 0 AND revoked_at = 0", now, signature)
	}, func(tx *gorm.DB) *gorm.DB {
		return tx.Exec("UPDATE grants SET revoked_at = ? WHERE code_sig = ? AND code_used_at > 0 AND revoked_at = 0", now, signature)
	})
	if cache := provider.CacheFrom(ctx); cache != nil {
		// Kept for the ID token, but no longer as an unused code.
		if hit, ok := cache.Code.(*codeRow); ok && hit.CodeSig == signature {
			hit.CodeUsedAt = now
		}
	}
	return err
}

// spendOnce spends a code or a refresh token. Whoever finds it spent has used it
// a second time, be it at the same moment, and revokes the grant: the result is
// second, with provider.ErrGrantRevoked where nothing was left to revoke. It commits
// the transaction of the context then: its owner takes second for a failure
// and rolls back, which must not undo the revocation.
func (s *Store) spendOnce(ctx context.Context, doing string, second error, spend, revoke func(tx *gorm.DB) *gorm.DB) error {
	var refused error
	err := s.write(ctx, doing, func(tx *gorm.DB) error {
		refused = nil
		if res := spend(tx); res.Error != nil || res.RowsAffected > 0 {
			return res.Error
		}
		refused = second
		res := revoke(tx)
		if res.Error == nil && res.RowsAffected == 0 {
			refused = fmt.Errorf("%w: %w", second, provider.ErrGrantRevoked)
		}
		return res.Error
	})
	if err != nil || refused == nil {
		return err
	}
	if transactionFrom(ctx) != nil {
		if err := s.Commit(ctx); err != nil {
			return err
		}
	}
	return fail(doing, refused)
}

// CreatePKCERequestSession implements pkce.PKCERequestStorage: the challenge
// came with the code.
func (s *Store) CreatePKCERequestSession(context.Context, string, fosite.Requester) error { return nil }

// GetPKCERequestSession implements pkce.PKCERequestStorage. fosite.ErrNotFound
// for a code without a challenge.
func (s *Store) GetPKCERequestSession(ctx context.Context, signature string, _ fosite.Session) (fosite.Requester, error) {
	row, err := s.readCode(ctx, signature)
	if err != nil {
		return nil, err
	}
	if row.CodeChallenge == "" {
		return nil, fosite.ErrNotFound
	}
	return s.requester(ctx, row)
}

// DeletePKCERequestSession implements pkce.PKCERequestStorage: fosite calls it
// before the verifier is checked, and a second try would find no challenge.
func (s *Store) DeletePKCERequestSession(context.Context, string) error { return nil }

// CreateOpenIDConnectSession implements openid.OpenIDConnectRequestStorage: the
// nonce came with the code. code is the whole code and is not looked at.
func (s *Store) CreateOpenIDConnectSession(context.Context, string, fosite.Requester) error {
	return nil
}

// GetOpenIDConnectSession implements openid.OpenIDConnectRequestStorage, also
// for a code that was just spent. fosite.ErrNotFound without the scope openid.
func (s *Store) GetOpenIDConnectSession(ctx context.Context, code string, _ fosite.Requester) (fosite.Requester, error) {
	_, signature, _ := strings.Cut(code, ".")
	row, err := s.readCode(ctx, signature)
	if err != nil {
		return nil, err
	}
	if !fosite.Arguments(strings.Fields(row.GrantedScope)).Has("openid") {
		return nil, fosite.ErrNotFound
	}
	return s.requester(ctx, row)
}

// DeleteOpenIDConnectSession implements openid.OpenIDConnectRequestStorage.
func (s *Store) DeleteOpenIDConnectSession(context.Context, string) error { return nil }

// requester is request without a typed nil.
func (s *Store) requester(ctx context.Context, row *codeRow) (fosite.Requester, error) {
	r, err := s.request(ctx, &row.grantRow, row.shared)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// RevokeGrant implements provider.Storage; a token of a client for itself is
// known by the id of its request too.
func (s *Store) RevokeGrant(ctx context.Context, grantID string, now time.Time) error {
	if odd(grantID) {
		return nil
	}
	return s.writeOne(ctx, "revoke grant", func(db *gorm.DB) error {
		for _, statement := range []string{
			"UPDATE grants SET revoked_at = ? WHERE id = ? AND revoked_at = 0",
			"UPDATE client_tokens SET revoked_at = ? WHERE id = ? AND revoked_at = 0",
		} {
			if res := db.Exec(statement, seconds(now), grantID); res.Error != nil || res.RowsAffected > 0 {
				return res.Error
			}
		}
		return nil
	})
}
