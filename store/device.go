package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/engine"
)

// States of a device's request.
const (
	deviceWaits int64 = iota
	deviceAllowed
	deviceDenied
)

// CreateDevice implements provider.DeviceStore.
func (s *Store) CreateDevice(ctx context.Context, d *provider.DeviceRequest) error {
	return s.writeOne(ctx, "create device request", func(db *gorm.DB) error {
		return db.Exec(`INSERT INTO device_requests
			(code_sig, user_hash, client_id, query, address, created_at, expires_at, wait)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, d.CodeSignature, d.UserHash, d.ClientID, d.Query, sanitize(d.Address),
			toUnix(d.CreatedAt), toUnix(d.ExpiresAt), int64(provider.DeviceInterval/time.Second)).Error
	})
}

// DeviceOfUser implements provider.DeviceStore.
func (s *Store) DeviceOfUser(ctx context.Context, userHash []byte, now time.Time) (*provider.DeviceRequest, error) {
	var row struct {
		CodeSig, ClientID, Query, Address string
		CreatedAt, ExpiresAt              int64
	}
	found := s.conn(ctx).Raw(`SELECT d.code_sig, d.client_id, d.query, d.address, d.created_at, d.expires_at
		FROM device_requests d
		WHERE d.user_hash = ? AND d.state = ? AND d.expires_at > ?`, userHash, deviceWaits, toUnix(now)).Find(&row)
	if err := expect(found, provider.ErrNotFound); err != nil {
		return nil, fail("find device request", err)
	}
	return &provider.DeviceRequest{
		CodeSignature: row.CodeSig, UserHash: userHash, ClientID: row.ClientID, Query: row.Query, Address: row.Address,
		CreatedAt: fromUnix(row.CreatedAt), ExpiresAt: fromUnix(row.ExpiresAt),
	}, nil
}

const decideDevice = "UPDATE device_requests SET state = ? WHERE user_hash = ? AND state = ? AND expires_at > ?"

// AllowDevice implements provider.DeviceStore.
func (s *Store) AllowDevice(ctx context.Context, userHash []byte, g *provider.Grant, now time.Time) error {
	op := engine.Operation{Doing: "allow device", Several: true, Do: func(w *engine.Statements) error {
		decided := w.Gorm().Exec(decideDevice, deviceAllowed, userHash, deviceWaits, toUnix(now))
		err := expect(decided, provider.ErrNotFound)
		if err != nil {
			return err
		}
		return addGrant(w, g)
	}}
	return s.performTold(ctx, op, g)
}

// DenyDevice implements provider.DeviceStore.
func (s *Store) DenyDevice(ctx context.Context, userHash []byte, now time.Time) error {
	return s.writeOne(ctx, "deny device", func(db *gorm.DB) error {
		return expect(db.Exec(decideDevice, deviceDenied, userHash, deviceWaits, toUnix(now)), provider.ErrNotFound)
	})
}

// PollDevice implements provider.DeviceStore. Another client's request is not found.
func (s *Store) PollDevice(ctx context.Context, codeSignature, clientID string, now time.Time) error {
	if invalidKey(codeSignature) {
		return provider.ErrNotFound
	}
	lock := ""
	if s.Dialect() == Postgres {
		lock = " FOR UPDATE"
	}
	var verdict error
	err := s.write(ctx, "poll device request", func(tx *engine.Tx) {
		var row struct{ State, ExpiresAt, Wait, PolledAt int64 }
		tx.Expect(tx.Find(&row, `SELECT state, expires_at, wait, polled_at FROM device_requests
			WHERE code_sig = ? AND client_id = ?`+lock,
			codeSignature, clientID), provider.ErrNotFound)
		at, wait := toUnix(now), row.Wait
		switch {
		case row.ExpiresAt <= at:
			verdict = provider.ErrDeviceExpired
			return
		case row.State == deviceDenied:
			verdict = provider.ErrDeviceDenied
			return
		case row.State == deviceAllowed:
			verdict = nil
			return
		case row.PolledAt > at-wait:
			verdict, wait = provider.ErrDeviceTooSoon, wait+int64(provider.DeviceInterval/time.Second)
		default:
			verdict = provider.ErrDevicePending
		}
		const set = "UPDATE device_requests SET polled_at = ?, wait = ? WHERE code_sig = ?"
		tx.Exec(set, at, wait, codeSignature)
	})
	if err != nil {
		return err
	}
	return verdict
}
