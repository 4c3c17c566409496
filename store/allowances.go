package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/engine"
)

// allowanceRow is a provider.Allowance with how its members are stored.
type allowanceRow struct {
	URL       string    `gorm:"column:url"`
	Scopes    []string  `gorm:"serializer:words"`
	APIs      []string  `gorm:"column:apis;serializer:words"`
	CreatedAt time.Time `gorm:"autoCreateTime:false;serializer:unix"`
	Managed   bool
}

func (r allowanceRow) allowance() provider.Allowance { return provider.Allowance(r) }

// Allowances implements provider.Storage.
func (s *Store) Allowances(ctx context.Context) ([]provider.Allowance, error) {
	var rows []allowanceRow
	err := s.conn(ctx).Raw(`SELECT url, scopes, apis, created_at, managed FROM client_allowances
		ORDER BY url`).Find(&rows).Error
	return each(rows, allowanceRow.allowance), fail("list allowances", err)
}

// AllowClients adds an allowance or replaces the one with its URL. It returns the *provider.RegistrationError of
// Allowance.Check, or one about an unknown API.
func (s *Store) AllowClients(ctx context.Context, a provider.Allowance, audit account.Audit) error {
	if err := a.Check(); err != nil {
		return fmt.Errorf("allow clients: %w", err)
	}
	row := allowanceRow(a)
	return s.write(ctx, "allow clients", func(tx *engine.Tx) {
		for _, uri := range a.APIs {
			const reason = "there is no such API: cairn api list shows them"
			none := &provider.RegistrationError{Member: "apis", Value: uri, Reason: reason}
			tx.Expect(tx.Exec("UPDATE apis SET name = name WHERE uri = ?", uri), none)
		}
		set := clause.AssignmentColumns([]string{"scopes", "apis"})
		replace := clause.OnConflict{Columns: []clause.Column{{Name: "url"}}, DoUpdates: set}
		tx.Ran(tx.Table("client_allowances").Clauses(replace).Create(&row))
		insertAudit(tx, audit)
	})
}

// DisallowClients removes an allowance and, as RemoveClient does, the clients that no other one admits. It returns
// their ids, or provider.ErrClientNotFound if there is no such allowance.
func (s *Store) DisallowClients(ctx context.Context, url string, audit account.Audit) ([]string, error) {
	err := s.write(ctx, "disallow clients", func(tx *engine.Tx) {
		tx.Expect(tx.Exec("DELETE FROM client_allowances WHERE url = ?", url), provider.ErrClientNotFound)
		insertAudit(tx, audit)
	})
	if err != nil {
		return nil, err
	}
	left, err := s.Allowances(ctx)
	if err != nil {
		return nil, err
	}
	clients, err := readClients(s.conn(ctx), s.Now(), " AND document = ?", true)
	if err != nil {
		return nil, fail("disallow clients", err)
	}
	removed := []string{}
	for _, c := range clients {
		if _, ok := provider.AllowanceOf(left, c.ID); ok {
			continue
		}
		if err := s.removeClient(ctx, c.ID, noAudit); err != nil && !errors.Is(err, provider.ErrClientNotFound) {
			return removed, err
		}
		removed = append(removed, c.ID)
	}
	return removed, nil
}

// noAudit is for a client with a document: the rows of its Allowance are its audit.
func noAudit(*engine.Tx) {}

// KeepDocumentClient implements provider.Storage.
func (s *Store) KeepDocumentClient(ctx context.Context, c *provider.Client) error {
	kept, err := s.Client(ctx, c.ID)
	if errors.Is(err, provider.ErrClientNotFound) {
		if err := s.makeRoomForDocument(ctx); err != nil {
			return err
		}
		if err = s.createClient(ctx, c, noAudit); !errors.Is(err, provider.ErrClientExists) {
			return err
		}
		kept, err = s.Client(ctx, c.ID) // another request was first
	}
	if err != nil {
		return err
	}
	same := kept.Name == c.Name && slices.Equal(kept.RedirectURIs, c.RedirectURIs)
	if same && slices.Equal(kept.Scopes, c.Scopes) && slices.Equal(kept.JWKS, c.JWKS) { // AuthJWT alone has keys
		return nil
	}
	if err := c.Check(); err != nil {
		return fmt.Errorf("keep client: %w", err)
	}
	return s.write(ctx, "keep client", func(tx *engine.Tx) {
		// The first statement locks the row, so that a second request sees the redirect URIs of the
		// first.
		tx.Expect(tx.Exec(`UPDATE clients SET name = ?
			WHERE id = ? AND document = ? AND removed_at = 0`, c.Name, c.ID, true), provider.ErrClientNotFound)
		tx.Exec(`DELETE FROM consents
			WHERE client_id = ? AND EXISTS (SELECT 1 FROM clients k WHERE k.id = ? AND k.redirect_uris <> ?)`,
			c.ID, c.ID, strings.Join(c.RedirectURIs, "\n"))
		tx.Ran(tx.Table("clients").Where("id = ?", c.ID).Select("redirect_uris", "scopes", "auth_method", "jwks").
			Updates((*clientRow)(c)))
	})
}

// makeRoomForDocument removes unused clients with a document when the limit is reached.
func (s *Store) makeRoomForDocument(ctx context.Context) error {
	const doing = "keep client"
	var count int64
	err := s.conn(ctx).Raw("SELECT count(*) FROM clients WHERE document = ?", true).Find(&count).Error
	if err != nil || count < provider.MaxDocuments {
		return fail(doing, err)
	}
	return s.writeOne(ctx, doing, func(db *gorm.DB) error {
		removed := db.Exec(`DELETE FROM clients WHERE document = ?
			AND NOT EXISTS (SELECT 1 FROM consents o WHERE o.client_id = clients.id)
			AND NOT EXISTS (SELECT 1 FROM grants g WHERE g.client_id = clients.id)
			AND NOT EXISTS (SELECT 1 FROM pushed_requests r WHERE r.client_id = clients.id AND r.expires_at > ?)`,
			true, s.Now())
		return expect(removed, errTooManyDocuments)
	})
}

var errTooManyDocuments = errors.New("the limit of clients that bring their own description is reached: " +
	"cairn client remove ID removes one")
