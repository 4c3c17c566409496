package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/provider"
)

type clientRow struct {
	ID                    string
	Name                  string
	RedirectURIs          string `gorm:"column:redirect_uris"`
	Scopes                string
	AuthMethod            string
	RequirePKCE           bool `gorm:"column:require_pkce"`
	RequireFlag           string
	Trusted               bool
	IDTokenClaims         bool `gorm:"column:id_token_claims"`
	AllowInsecureRedirect bool `gorm:"column:allow_insecure_redirect"`
	ClientCredentials     bool
	JWKS                  string `gorm:"column:jwks"`
	RefreshGrace          int64  // seconds
	PostLogoutURIs        string `gorm:"column:post_logout_redirect_uris"`
	BackchannelURI        string `gorm:"column:backchannel_logout_uri"`
	BackchannelPrivate    bool
	Groups                string `gorm:"column:client_groups"`
	CreatedAt             int64  `gorm:"autoCreateTime:false"`
}

type clientSecretRow struct {
	ID        int64 `gorm:"primaryKey"`
	ClientID  string
	Hash      []byte
	CreatedAt int64 `gorm:"autoCreateTime:false"`
	ExpiresAt int64
}

func (r clientRow) client() *provider.Client {
	c := &provider.Client{
		ID: r.ID, Name: r.Name, RedirectURIs: strings.Fields(r.RedirectURIs), Scopes: strings.Fields(r.Scopes), AuthMethod: r.AuthMethod,
		RequirePKCE: r.RequirePKCE, RequireFlag: r.RequireFlag, Trusted: r.Trusted, IDTokenClaims: r.IDTokenClaims,
		AllowInsecureRedirect: r.AllowInsecureRedirect, ClientCredentials: r.ClientCredentials, RefreshGrace: time.Duration(r.RefreshGrace) * time.Second,
		BackchannelLogoutURI: r.BackchannelURI, BackchannelPrivate: r.BackchannelPrivate, CreatedAt: moment(r.CreatedAt),
	}
	// nil where there is none, as the client was made.
	if r.JWKS != "" {
		c.JWKS = []byte(r.JWKS)
	}
	if r.Groups != "" {
		c.Groups = strings.Fields(r.Groups)
	}
	if r.PostLogoutURIs != "" {
		c.PostLogoutRedirectURIs = strings.Fields(r.PostLogoutURIs)
	}
	return c
}

func rowOf(c *provider.Client) clientRow {
	return clientRow{
		ID: c.ID, Name: c.Name, RedirectURIs: strings.Join(c.RedirectURIs, "\n"), Scopes: strings.Join(c.Scopes, " "), AuthMethod: c.AuthMethod,
		RequirePKCE: c.RequirePKCE, RequireFlag: c.RequireFlag, Trusted: c.Trusted, IDTokenClaims: c.IDTokenClaims,
		AllowInsecureRedirect: c.AllowInsecureRedirect, ClientCredentials: c.ClientCredentials, JWKS: string(c.JWKS),
		RefreshGrace: int64(c.RefreshGrace / time.Second), PostLogoutURIs: strings.Join(c.PostLogoutRedirectURIs, "\n"),
		BackchannelURI: c.BackchannelLogoutURI, BackchannelPrivate: c.BackchannelPrivate, Groups: strings.Join(c.Groups, " "), CreatedAt: seconds(c.CreatedAt),
	}
}

// CreateClient implements provider.ClientStore. A removed client of that id, of which
// something is left, goes first.
func (s *Store) CreateClient(ctx context.Context, c *provider.Client) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	err := s.insertClient(ctx, c)
	if !errors.Is(err, provider.ErrClientExists) {
		return err
	}
	var removed []string
	if err := s.conn(ctx).Raw("SELECT id FROM clients WHERE id = ? AND removed_at > 0", c.ID).Find(&removed).Error; err != nil {
		return fail("create client", err)
	}
	if len(removed) == 0 {
		return err
	}
	if err := s.purgeClient(ctx, c.ID); err != nil {
		return err
	}
	return s.insertClient(ctx, c)
}

func (s *Store) insertClient(ctx context.Context, c *provider.Client) error {
	row := rowOf(c)
	return s.write(ctx, "create client", func(tx *gorm.DB) error {
		once := clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoNothing: true}
		if err := expect(tx.Table("clients").Clauses(once).Create(&row), provider.ErrClientExists); err != nil {
			return err
		}
		// The oldest first, so that the order of ids is that of age.
		for i := len(c.Secrets) - 1; i >= 0; i-- {
			n := c.Secrets[i]
			err := tx.Exec("INSERT INTO client_secrets (client_id, hash, created_at, expires_at) VALUES (?, ?, ?, ?)", c.ID, n.Hash, seconds(n.CreatedAt), seconds(n.ExpiresAt)).Error
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Client implements provider.ClientStore.
func (s *Store) Client(ctx context.Context, id string) (*provider.Client, error) {
	if odd(id) {
		return nil, provider.ErrClientNotFound
	}
	db := s.conn(ctx)
	var row clientRow
	if err := expect(db.Raw("SELECT * FROM clients WHERE id = ? AND removed_at = 0", id).Find(&row), provider.ErrClientNotFound); err != nil {
		return nil, fail("find client", err)
	}
	c := row.client()
	var secrets []clientSecretRow
	err := db.Raw("SELECT * FROM client_secrets WHERE client_id = ? AND (expires_at = 0 OR expires_at > ?) ORDER BY created_at DESC, id DESC", id, s.now()).Find(&secrets).Error
	if err != nil {
		return nil, fail("read client secrets", err)
	}
	for _, r := range secrets {
		c.Secrets = append(c.Secrets, r.secret())
	}
	return c, nil
}

func (r clientSecretRow) secret() provider.ClientSecret {
	return provider.ClientSecret{Hash: r.Hash, CreatedAt: moment(r.CreatedAt), ExpiresAt: moment(r.ExpiresAt)}
}

// Clients implements provider.ClientStore.
func (s *Store) Clients(ctx context.Context) ([]*provider.Client, error) {
	db := s.conn(ctx)
	var rows []clientRow
	if err := db.Raw("SELECT * FROM clients WHERE removed_at = 0 ORDER BY name, id").Find(&rows).Error; err != nil {
		return nil, fail("list clients", err)
	}
	var secrets []clientSecretRow
	err := db.Raw("SELECT * FROM client_secrets WHERE expires_at = 0 OR expires_at > ? ORDER BY created_at DESC, id DESC", s.now()).Find(&secrets).Error
	if err != nil {
		return nil, fail("list client secrets", err)
	}
	out := make([]*provider.Client, 0, len(rows))
	byID := make(map[string]*provider.Client, len(rows))
	for _, r := range rows {
		c := r.client()
		out, byID[c.ID] = append(out, c), c
	}
	for _, r := range secrets {
		if c := byID[r.ClientID]; c != nil {
			c.Secrets = append(c.Secrets, r.secret())
		}
	}
	return out, nil
}
