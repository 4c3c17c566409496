package store

import (
	"context"
	"time"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/engine"
)

// refusedRow is provider.RefusedSignIn with tags.
type refusedRow struct {
	ClientID, RequestID, Reason string
	SignedIn                    bool
	RefusedAt                   time.Time `gorm:"serializer:unix"`
}

// AddRefusedSignIns stores refused sign-ins and keeps the newest provider.KeptRefusals of each client, of people
// who were signed in and of others.
func (s *Store) AddRefusedSignIns(ctx context.Context, list []provider.RefusedSignIn) error {
	return s.write(ctx, "add refused sign ins", func(tx *engine.Tx) {
		for _, n := range list {
			tx.Exec(`INSERT INTO refused_sign_ins (client_id, signed_in, refused_at, request_id, reason)
				VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
				n.ClientID, n.SignedIn, toUnix(n.RefusedAt), n.RequestID, n.Reason)
			tx.Exec(`DELETE FROM refused_sign_ins WHERE client_id = ? AND signed_in = ? AND (refused_at, request_id) <
				(SELECT refused_at, request_id FROM refused_sign_ins WHERE client_id = ? AND signed_in = ?
				ORDER BY refused_at DESC, request_id DESC LIMIT 1 OFFSET ?)`,
				n.ClientID, n.SignedIn, n.ClientID, n.SignedIn, provider.KeptRefusals-1)
		}
	})
}

// RefusedSignIns returns all that are stored, newest first.
func (s *Store) RefusedSignIns(ctx context.Context) ([]provider.RefusedSignIn, error) {
	var rows []refusedRow
	err := s.conn(ctx).Raw(`SELECT client_id, signed_in, refused_at, request_id, reason FROM refused_sign_ins
		ORDER BY refused_at DESC, request_id DESC`).Find(&rows).Error
	return each(rows, func(r refusedRow) provider.RefusedSignIn { return provider.RefusedSignIn(r) }),
		fail("list refused sign-ins", err)
}
