package store

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/ory/fosite"
	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// errNoClient is wrapped with account.ErrUnavailable.
var errNoClient = errors.New("no client is named")

// clientTokenRow is an access token that a client got for itself (RFC 6749
// section 4.4). It has no grant: there is nobody who could take one back.
type clientTokenRow struct {
	ID        string // of the request
	ClientID  string
	Scope     string
	IssuedAt  int64
	ExpiresAt int64
	RevokedAt int64
}

func (s *Store) insertClientToken(ctx context.Context, signature string, r fosite.Requester, expires time.Time) error {
	return s.writeOne(ctx, "create client token", func(db *gorm.DB) error {
		if odd(signature) || odd(r.GetID()) || expires.IsZero() {
			return account.ErrUnavailable
		}
		client := r.GetClient()
		if client == nil || odd(client.GetID()) {
			return errNoClient
		}
		return db.Exec("INSERT INTO client_tokens (sig, id, client_id, scope, issued_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
			signature, r.GetID(), client.GetID(), strings.Join(r.GetGrantedScopes(), " "), s.now(), seconds(expires)).Error
	})
}

// readClientToken returns the requester, with a session that has no subject; a
// revoked token together with fosite.ErrInactiveToken. fosite.ErrNotFound.
func (s *Store) readClientToken(ctx context.Context, signature string) (fosite.Requester, error) {
	if odd(signature) {
		return nil, fosite.ErrNotFound
	}
	var row clientTokenRow
	err := expect(s.conn(ctx).Raw("SELECT t.id, t.client_id, t.scope, t.issued_at, t.expires_at, t.revoked_at FROM client_tokens t JOIN clients k ON k.id = t.client_id WHERE t.sig = ? AND k.removed_at = 0", signature).Find(&row), fosite.ErrNotFound)
	if err != nil {
		return nil, fail("find client token", err)
	}
	client, err := s.ownClient(ctx, row.ClientID)
	if err != nil {
		return nil, err
	}
	r := &fosite.Request{
		ID: row.ID, RequestedAt: moment(row.IssuedAt), Client: client, RequestedScope: strings.Fields(row.Scope), GrantedScope: strings.Fields(row.Scope),
		Form: url.Values{}, Session: &provider.GrantSession{AccessExpires: moment(row.ExpiresAt)},
		RequestedAudience: fosite.Arguments{}, GrantedAudience: fosite.Arguments{},
	}
	if row.RevokedAt != 0 {
		return r, fosite.ErrInactiveToken
	}
	return r, nil
}
