package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/engine"
)

// clientRow is a provider.Client with how its members are stored; the compiler holds both to the same.
type clientRow struct {
	ID, Name                            string
	Document                            bool
	RedirectURIs                        []string `gorm:"column:redirect_uris;serializer:lines"`
	PostLogoutRedirectURIs              []string `gorm:"column:post_logout_redirect_uris;serializer:lines"`
	BackchannelLogoutURI                string   `gorm:"column:backchannel_logout_uri"`
	BackchannelPrivate                  bool
	Scopes                              []string `gorm:"serializer:words"`
	AuthMethod                          string
	JWKS                                json.RawMessage `gorm:"column:jwks;serializer:raw"`
	RequirePKCE                         bool            `gorm:"column:require_pkce"`
	RequireFlags                        []string        `gorm:"column:require_flag;serializer:words"`
	RequireAll                          bool
	RequireACR                          string `gorm:"column:require_acr"`
	RequireVerifiedEmail                bool
	OptionalScopes                      []string        `gorm:"serializer:words"`
	HomeURI                             string          `gorm:"column:home_uri"`
	InitiateLoginURI                    string          `gorm:"column:initiate_login_uri"`
	Logo                                account.Picture `gorm:"-"` // in client_logos
	Groups                              []string        `gorm:"column:client_groups;serializer:words"`
	Claims                              []string        `gorm:"serializer:lines"`
	ClaimIn                             []string        `gorm:"serializer:words"`
	RefreshGrace, AccessLifetime        time.Duration   `gorm:"serializer:seconds"`
	RefreshLifetime, RefreshMaxLifetime time.Duration   `gorm:"serializer:seconds"`
	ClientCredentials, DeviceGrant      bool
	Profile                             string
	DPoPBound                           bool `gorm:"column:dpop_bound_access_tokens"`
	Trusted                             bool
	IDTokenAlg                          string                  `gorm:"column:id_token_alg"`
	IDTokenClaims                       bool                    `gorm:"column:id_token_claims"`
	AllowInsecureRedirect               bool                    `gorm:"column:allow_insecure_redirect"`
	Secrets                             []provider.ClientSecret `gorm:"-"` // in client_secrets
	CreatedAt                           time.Time               `gorm:"autoCreateTime:false;serializer:unix"`
	Managed                             bool
	APIs                                []string `gorm:"-"`
}

type clientSecretRow struct {
	ID                   int64 `gorm:"primaryKey"`
	ClientID             string
	Hash                 []byte
	CreatedAt, ExpiresAt time.Time `gorm:"autoCreateTime:false;serializer:unix"`
}

// clientRead is a client as it is read: with the hash of its logo instead of the image.
type clientRead struct {
	Row      clientRow `gorm:"embedded"`
	LogoHash string
}

func (r clientRead) client() *provider.Client {
	c := provider.Client(r.Row)
	c.Logo.Hash = r.LogoHash
	if c.RedirectURIs == nil {
		c.RedirectURIs = []string{} // in JSON, [] and not null
	}
	return &c
}

// CreateClient returns provider.ErrClientExists or the *provider.RegistrationError of Client.Check. The detail of its
// audit row is the Changes from NewClient. It first deletes what is left of a removed client with that id.
func (s *Store) CreateClient(ctx context.Context, c *provider.Client, a account.Audit) error {
	a.Detail = changed(provider.NewClient(c.ID, c.Name, c.CreatedAt), c)
	return s.createClient(ctx, c, func(tx *engine.Tx) { insertAudit(tx, a) })
}

// changed describes a change of a registration in the audit log.
func changed[T provider.Client | provider.API](from, to *T) string {
	return strings.Join(provider.Changes(from, to), " ")
}

// createClient calls also in the transaction that creates the client.
func (s *Store) createClient(ctx context.Context, c *provider.Client, also func(tx *engine.Tx)) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	err := s.insertClient(ctx, c, also)
	if !errors.Is(err, provider.ErrClientExists) {
		return err
	}
	var removed []string
	const query = "SELECT id FROM clients WHERE id = ? AND removed_at > 0"
	if err := s.conn(ctx).Raw(query, c.ID).Find(&removed).Error; err != nil {
		return fail("create client", err)
	}
	if len(removed) == 0 {
		return err
	}
	if err := s.purgeClient(ctx, c.ID); err != nil {
		return err
	}
	return s.insertClient(ctx, c, also)
}

func (s *Store) insertClient(ctx context.Context, c *provider.Client, also func(tx *engine.Tx)) error {
	return s.write(ctx, "create client", func(tx *engine.Tx) {
		once := clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoNothing: true}
		tx.Expect(tx.Ran(tx.Table("clients").Clauses(once).Create((*clientRow)(c))), provider.ErrClientExists)
		// Oldest first, so that ids are in order of age.
		for i := len(c.Secrets) - 1; i >= 0; i-- {
			n := c.Secrets[i]
			tx.Exec(`INSERT INTO client_secrets (client_id, hash, created_at, expires_at)
				VALUES (?, ?, ?, ?)`, c.ID, n.Hash, toUnix(n.CreatedAt), toUnix(n.ExpiresAt))
		}
		checkOptionalScopes(tx, c)
		writeClientLogo(tx, c)
		also(tx)
	})
}

// checkOptionalScopes returns a *provider.RegistrationError if an optional scope is of no API and not of
// OpenID Connect.
func checkOptionalScopes(tx *engine.Tx, c *provider.Client) {
	for _, name := range c.OptionalScopes {
		if slices.Contains(provider.Scopes, name) {
			continue
		}
		none := &provider.RegistrationError{Member: "optional_scopes", Value: name,
			Reason: "no API has this scope: cairn api list shows them"}
		var there []string
		tx.Expect(tx.Find(&there, "SELECT uri FROM api_scopes WHERE name = ?", name), none)
	}
}

// writeClientLogo stores a new logo. A logo with only a hash is unchanged.
func writeClientLogo(tx *engine.Tx, c *provider.Client) {
	if c.Logo.PNG == nil && c.Logo.Hash != "" {
		return
	}
	tx.Exec("DELETE FROM client_logos WHERE client_id = ?", c.ID)
	if c.Logo.PNG != nil {
		tx.Exec("INSERT INTO client_logos (client_id, hash, image) VALUES (?, ?, ?)", c.ID, c.Logo.Hash, c.Logo.PNG)
	}
}

// ClientLogo implements account.Store.
func (s *Store) ClientLogo(ctx context.Context, hash string) ([]byte, error) {
	var row struct{ Image []byte }
	if invalidKey(hash) {
		return nil, nil
	}
	err := s.conn(ctx).Raw("SELECT image FROM client_logos WHERE hash = ? LIMIT 1", hash).Find(&row).Error
	return row.Image, fail("read client logo", err)
}

// Client implements provider.Storage.
func (s *Store) Client(ctx context.Context, id string) (*provider.Client, error) {
	if invalidKey(id) {
		return nil, provider.ErrClientNotFound
	}
	found, err := readClients(s.conn(ctx), s.Now(), " AND id = ?", id)
	if err == nil && len(found) == 0 {
		err = provider.ErrClientNotFound
	}
	if err != nil {
		return nil, fail("find client", err)
	}
	return found[0], nil
}

// Clients implements provider.Storage.
func (s *Store) Clients(ctx context.Context) ([]*provider.Client, error) {
	all, err := readClients(s.conn(ctx), s.Now(), "")
	return all, fail("list clients", err)
}

var (
	clientColumns = engine.ColumnsOf[clientRow]("clients")
	secretColumns = engine.ColumnsOf[clientSecretRow]("client_secrets")
)

func readClients(db *gorm.DB, now int64, and string, args ...any) ([]*provider.Client, error) {
	var rows []clientRead
	err := db.Raw("SELECT "+clientColumns+`,
		coalesce((SELECT l.hash FROM client_logos l WHERE l.client_id = clients.id), '') AS logo_hash
		FROM clients WHERE removed_at = 0`+and+" ORDER BY name, id", args...).Find(&rows).Error
	out, byID := each(rows, clientRead.client), make(map[string]*provider.Client, len(rows))
	if err != nil || len(rows) == 0 {
		return out, err
	}
	for _, c := range out {
		byID[c.ID] = c
	}
	var secrets []clientSecretRow
	err = db.Raw("SELECT "+secretColumns+` FROM client_secrets
		WHERE client_id IN ? AND (expires_at = 0 OR expires_at > ?) ORDER BY created_at DESC, id DESC`,
		slices.Collect(maps.Keys(byID)), now).Find(&secrets).Error
	for _, r := range secrets {
		c := byID[r.ClientID]
		secret := provider.ClientSecret{Hash: r.Hash, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt}
		c.Secrets = append(c.Secrets, secret)
	}
	return out, err
}

// UpdateClient replaces everything but the id, the secrets and CreatedAt. The secrets of a client that does not
// authenticate with one are removed. It returns provider.ErrClientNotFound or the *provider.RegistrationError of
// Client.Check. The detail of its audit row is the Changes; without any, nothing is written.
func (s *Store) UpdateClient(ctx context.Context, c *provider.Client, a account.Audit) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("update client: %w", err)
	}
	return s.actOnMany(ctx, "update client", a, func(tx *engine.Tx) {
		lockClient(tx, c.ID)
		before, err := readClients(tx.DB, s.Now(), " AND id = ?", c.ID)
		if tx.Refuse(err); tx.Failed() {
			return
		}
		if a.Detail = changed(before[0], c); a.Detail == "" {
			return
		}
		// Select("*") writes zero values too.
		tx.Ran(tx.Table("clients").Where("id = ?", c.ID).Select("*").Omit("id", "created_at").Updates((*clientRow)(c)))
		if !slices.Equal(before[0].OptionalScopes, c.OptionalScopes) {
			checkOptionalScopes(tx, c)
		}
		writeClientLogo(tx, c)
		if !c.HasSecret() { // none opens anything if the client is given secrets again
			tx.Exec("DELETE FROM client_secrets WHERE client_id = ?", c.ID)
		}
		insertAudit(tx, a)
		if before[0].Demands() != c.Demands() {
			revoke(tx, revokeUnfit(tx, fromUnix(s.Now()), "g.client_id = @client", map[string]any{"client": c.ID}))
		}
	})
}

// lockClient serializes the changes of a client.
func lockClient(tx *engine.Tx, id string) {
	tx.Expect(tx.Exec("UPDATE clients SET name = name WHERE id = ? AND removed_at = 0", id), provider.ErrClientNotFound)
}

// RotateClientSecret adds the hash of a new secret; the current ones expire at until, at once if that is not after now.
// An earlier expiry of a secret stays. provider.ErrClientNotFound.
func (s *Store) RotateClientSecret(
	ctx context.Context, id string, hash []byte, now, until time.Time, a account.Audit,
) error {
	if invalidKey(id) {
		return provider.ErrClientNotFound
	}
	end := max(toUnix(now), toUnix(until))
	return s.write(ctx, "rotate client secret", func(tx *engine.Tx) {
		lockClient(tx, id)
		tx.Exec(`UPDATE client_secrets SET expires_at = ?
			WHERE client_id = ? AND (expires_at = 0 OR expires_at > ?)`, end, id, end)
		tx.Exec(`INSERT INTO client_secrets (client_id, hash, created_at)
			VALUES (?, ?, ?)`, id, hash, toUnix(now))
		insertAudit(tx, a)
	})
}

// RemoveClient removes a client with its secrets, consents, grants and tokens. It is unknown at once; its data is
// deleted in batches, and if this is interrupted, the sweep continues. provider.ErrClientNotFound.
func (s *Store) RemoveClient(ctx context.Context, id string, a account.Audit) error {
	return s.removeClient(ctx, id, func(tx *engine.Tx) { insertAudit(tx, a) })
}

// removeClient calls also in the transaction from which on the client is unknown.
func (s *Store) removeClient(ctx context.Context, id string, also func(tx *engine.Tx)) error {
	if invalidKey(id) {
		return provider.ErrClientNotFound
	}
	err := s.write(ctx, "remove client", func(tx *engine.Tx) {
		tx.Expect(tx.Exec("UPDATE clients SET removed_at = ? WHERE id = ? AND removed_at = 0", s.Now(), id),
			provider.ErrClientNotFound)
		tx.Exec("DELETE FROM client_secrets WHERE client_id = ?", id)
		tx.Exec("DELETE FROM client_logos WHERE client_id = ?", id)
		also(tx)
	})
	if err != nil || s.within {
		return err
	}
	return s.purgeClient(ctx, id)
}

// ifRemoved is the condition that the client is still removed: another process may finish the
// removal first, and the id may be registered again.
const ifRemoved = " AND EXISTS (SELECT 1 FROM clients k WHERE k.id = @client AND k.removed_at > 0)"

// listedRow is a row that may have an index in a status list.
type listedRow struct {
	ID         string
	StatusList int64
}

// idsOf returns the ids, and whether one has such an index.
func idsOf(rows []listedRow) (ids []string, listed bool) {
	listed = slices.ContainsFunc(rows, func(r listedRow) bool { return r.StatusList > 0 })
	return each(rows, func(r listedRow) string { return r.ID }), listed
}

// purgeClient deletes the data of a removed client, its own row last. Deleting that row first would
// cascade to all the rest at once.
func (s *Store) purgeClient(ctx context.Context, id string) error {
	const doing = "remove client"
	for _, rows := range []string{
		`consents WHERE (sub, client_id, scope) IN
			(SELECT sub, client_id, scope FROM consents WHERE client_id = @client LIMIT @rows)`,
		`consent_refusals WHERE (sub, client_id, scope) IN
			(SELECT sub, client_id, scope FROM consent_refusals WHERE client_id = @client LIMIT @rows)`,
		"logout_outbox WHERE id IN (SELECT id FROM logout_outbox WHERE client_id = @client LIMIT @rows)",
	} {
		err := s.batches(ctx, doing, func(b *batch) (bool, error) {
			n, err := b.exec("DELETE FROM "+rows+ifRemoved, map[string]any{"client": id, "rows": b.rows})
			return n == int64(b.rows), err
		})
		if err != nil {
			return err
		}
	}
	err := s.batches(ctx, doing, func(b *batch) (bool, error) {
		var grants []listedRow
		err := s.conn(ctx).Raw(`SELECT id, status_list FROM grants WHERE client_id = ?
			ORDER BY created_at LIMIT ?`, id, b.rows).Find(&grants).Error
		if err != nil || len(grants) == 0 {
			return false, fail(doing, err)
		}
		ids, listed := idsOf(grants)
		args := map[string]any{"client": id, "grants": ids, "rows": b.rows}
		if listed {
			err := b.write(func(tx *engine.Tx) {
				_, tokens := revokeGrants(tx, fromUnix(s.Now()),
					"g.id IN @grants AND g.client_id = @client"+ifRemoved, args)
				revoke(tx, tokens)
			})
			if err != nil {
				return false, err
			}
		}
		n, err := b.exec(`DELETE FROM tokens
			WHERE sig IN (SELECT sig FROM tokens WHERE grant_id IN @grants LIMIT @rows)`+ifRemoved, args)
		if err != nil || n == int64(b.rows) {
			return true, err // there may be more tokens
		}
		n, err = b.exec("DELETE FROM grants WHERE id IN @grants AND client_id = @client"+ifRemoved, args)
		return n > 0, err // 0 if the id was registered again
	})
	if err != nil {
		return err
	}
	err = s.batches(ctx, doing, func(b *batch) (bool, error) {
		var own []listedRow
		err := s.conn(ctx).Raw(`SELECT id, status_list FROM client_tokens WHERE client_id = ?
			ORDER BY sig LIMIT ?`, id, b.rows).Find(&own).Error
		if err != nil || len(own) == 0 {
			return false, fail(doing, err)
		}
		ids, _ := idsOf(own)
		var tokens []revocation
		err = b.write(func(tx *engine.Tx) {
			tx.Find(&tokens, "DELETE FROM client_tokens WHERE id IN @ids AND client_id = @client"+ifRemoved+`
				RETURNING status_list, status_index, expires_at`,
				map[string]any{"ids": ids, "client": id})
			revoke(tx, onLists(tokens))
		})
		return len(tokens) > 0, err
	})
	if err != nil {
		return err
	}
	return s.writeOne(ctx, doing, func(db *gorm.DB) error {
		return db.Exec("DELETE FROM clients WHERE id = ? AND removed_at > 0", id).Error
	})
}

// sweepClients deletes what is left of removed clients.
func (s *Store) sweepClients(ctx context.Context, count *int64) error {
	var ids []string
	if err := s.conn(ctx).Raw("SELECT id FROM clients WHERE removed_at > 0 ORDER BY id").Find(&ids).Error; err != nil {
		return fail("sweep clients", err)
	}
	for _, id := range ids {
		if err := s.purgeClient(ctx, id); err != nil {
			return err
		}
		*count++
	}
	return nil
}
