package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

type consentRow struct {
	Sub       string
	ClientID  string
	Scope     string
	GrantedAt int64
	SessionID string
}

// ConsentedScopes implements provider.Storage.
func (s *Store) ConsentedScopes(ctx context.Context, sub, clientID string) ([]string, error) {
	return s.scopesIn(ctx, "consents", sub, clientID)
}

// RefusedScopes implements provider.Storage.
func (s *Store) RefusedScopes(ctx context.Context, sub, clientID string) ([]string, error) {
	return s.scopesIn(ctx, "consent_refusals", sub, clientID)
}

func (s *Store) scopesIn(ctx context.Context, table, sub, clientID string) ([]string, error) {
	if invalidKey(sub) {
		return nil, nil
	}
	var scopes []string
	err := s.conn(ctx).Raw("SELECT scope FROM "+table+` WHERE sub = ? AND client_id = ?
		ORDER BY scope`, sub, clientID).Find(&scopes).Error
	if err != nil || len(scopes) == 0 {
		return nil, fail("read consent", err)
	}
	return scopes, nil
}

// SaveConsent implements provider.Storage. account.ErrUserNotFound for a user who was deleted
// meanwhile.
func (s *Store) SaveConsent(
	ctx context.Context, sub, clientID string, scopes []string, now time.Time, a account.Audit, refused ...string,
) error {
	rows := each(scopes, func(scope string) consentRow {
		return consentRow{sub, clientID, scope, toUnix(now), sanitize(a.Session)}
	})
	return s.act(ctx, "save consent", a, func(tx *engine.Tx) {
		lockUser(tx, sub)
		withdrawn := false
		for _, scope := range refused {
			gone := tx.Exec("DELETE FROM consents WHERE sub = ? AND client_id = ? AND scope = ?", sub, clientID, scope)
			withdrawn = withdrawn || gone > 0
			tx.Exec(`INSERT INTO consent_refusals (sub, client_id, scope, refused_at) VALUES (?, ?, ?, ?)
				ON CONFLICT DO NOTHING`, sub, clientID, scope, toUnix(now))
		}
		if len(rows) > 0 {
			tx.Exec(`DELETE FROM consent_refusals
				WHERE sub = ? AND client_id = ? AND scope IN ?`, sub, clientID, scopes)
			tx.Ran(tx.Table("consents").Clauses(clause.OnConflict{DoNothing: true}).Create(&rows))
		}
		var tokens []revocation
		if withdrawn { // the earlier grants have the scope
			_, tokens = revokeGrants(tx, now, "sub = @sub AND client_id = @client",
				map[string]any{"sub": sub, "client": clientID})
		}
		insertAudit(tx, a)
		revoke(tx, tokens)
	})
}

type appRow struct {
	ClientID   string
	Name       string
	RequireACR string `gorm:"column:require_acr"`
	Scopes     string
	GrantedAt  int64
	LastUsedAt int64
	LastToken  int64
	// Only OfferedApps reads these.
	RequireFlag string // separated by spaces
	RequireAll  bool
	HomeURI     string `gorm:"column:home_uri"`
	Redirects   string // separated by newlines
	Hash        string
}

// OfferedApps implements account.Store.
func (s *Store) OfferedApps(ctx context.Context, letIn []string) ([]account.App, error) {
	var rows []appRow
	err := s.conn(ctx).Raw(`SELECT k.id AS client_id, k.name, k.require_flag, k.require_all, k.home_uri,
		CASE WHEN k.document THEN '' ELSE k.redirect_uris END AS redirects, coalesce(l.hash, '') AS hash
		FROM clients k LEFT JOIN client_logos l ON l.client_id = k.id
		WHERE k.removed_at = 0 AND (k.redirect_uris <> '' AND NOT k.document OR k.id IN ?) ORDER BY k.name, k.id`,
		append([]string{""}, letIn...)).Find(&rows).Error
	return each(rows, appRow.app), fail("list offered applications", err)
}

// liveGrant is the condition that a grant g can be used at a time, given twice: it has a live code
// or token. A rotated refresh token is not live, except during a grace period, in which its
// successor is.
const liveGrant = `g.revoked_at = 0 AND (g.code_used_at = 0 AND g.code_expires_at > ?
	OR EXISTS (SELECT 1 FROM tokens t WHERE t.grant_id = g.id AND t.expires_at > ? AND t.used_at = 0))`

// Apps implements account.Store.
func (s *Store) Apps(ctx context.Context, sub string, now time.Time) ([]account.App, error) {
	var rows []appRow
	err := s.conn(ctx).Raw(`SELECT a.client_id, k.name, k.require_acr, string_agg(a.scope, ' ') AS scopes,
			min(a.granted_at) AS granted_at, max(a.last_used_at) AS last_used_at,
			coalesce((SELECT max(t.issued_at) FROM grants g JOIN tokens t ON t.grant_id = g.id
				WHERE g.sub = ? AND g.client_id = a.client_id), 0) AS last_token
		FROM (SELECT client_id, scope, granted_at, last_used_at FROM consents WHERE sub = ?
			UNION ALL SELECT g.client_id, g.granted_scope, g.created_at, 0 FROM grants g
			WHERE g.sub = ? AND `+liveGrant+`) a
		JOIN clients k ON k.id = a.client_id AND k.removed_at = 0
		GROUP BY a.client_id, k.name, k.require_acr ORDER BY k.name, a.client_id`,
		sub, sub, sub, toUnix(now), toUnix(now)).Find(&rows).Error
	return each(rows, appRow.app), fail("list applications", err)
}

func (r appRow) app() account.App {
	scopes := strings.Fields(r.Scopes)
	slices.Sort(scopes)
	var flags, redirects []string // nil without any
	if r.RequireFlag != "" {
		flags = strings.Fields(r.RequireFlag)
	}
	if r.Redirects != "" {
		redirects = strings.Fields(r.Redirects)
	}
	return account.App{
		ClientID: r.ClientID, ClientName: r.Name, RequireACR: r.RequireACR, Scopes: slices.Compact(scopes),
		GrantedAt: fromUnix(r.GrantedAt), LastUsedAt: fromUnix(max(r.LastUsedAt, r.LastToken)),
		RequireFlags: flags, RequireAll: r.RequireAll, HomeURI: r.HomeURI, Logo: r.Hash,
		RedirectURIs: redirects,
	}
}

// RemoveApp implements account.Store.
func (s *Store) RemoveApp(ctx context.Context, sub, clientID string, now time.Time, a account.Audit) error {
	if invalidKey(clientID) {
		return account.ErrAppNotFound
	}
	return s.act(ctx, "remove application", a, func(tx *engine.Tx) {
		lockUser(tx, sub)
		var live int64
		tx.Find(&live, "SELECT count(*) FROM grants g WHERE g.sub = ? AND g.client_id = ? AND "+liveGrant,
			sub, clientID, toUnix(now), toUnix(now))
		consent := tx.Exec("DELETE FROM consents WHERE sub = ? AND client_id = ?", sub, clientID)
		refusals := tx.Exec("DELETE FROM consent_refusals WHERE sub = ? AND client_id = ?", sub, clientID)
		tx.Expect(live+consent+refusals, account.ErrAppNotFound)
		_, tokens := revokeGrants(tx, now, "sub = @sub AND client_id = @client",
			map[string]any{"sub": sub, "client": clientID})
		insertAudit(tx, a)
		revoke(tx, tokens)
	})
}
