package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
)

const (
	// listCapacity is how many indices of a list are given out: never all, so
	// that drawing at random soon finds a free one.
	listCapacity = account.StatusListSize / 4 * 3
	listTries    = 8
	indexTries   = 256 // all of them taken: (3/4)^256
)

var (
	errListBusy = errors.New("no status list could be opened")
	errListFull = errors.New("no free index in the status list")
)

type newSession struct {
	ID          string
	Sub         string
	TokenHash   []byte
	LoginHash   []byte
	CreatedAt   int64 `gorm:"autoCreateTime:false"`
	AuthTime    int64
	LastSeenAt  int64
	ExpiresAt   int64
	Address     string
	UserAgent   string
	StatusList  int64
	StatusIndex int64
}

// insertSession adds the row of n and sets its list and index. Indices are
// drawn at random, so that they do not tell when or after whom somebody signed in
// (draft-ietf-oauth-status-list, unlinkability).
func insertSession(tx *gorm.DB, n *account.Session) error {
	list, err := takeIndex(tx)
	if err != nil {
		return err
	}
	row := newSession{
		ID: n.ID, Sub: n.Sub, TokenHash: n.TokenHash, LoginHash: n.LoginHash, CreatedAt: seconds(n.CreatedAt), AuthTime: seconds(n.AuthTime),
		LastSeenAt: seconds(n.LastSeenAt), ExpiresAt: seconds(n.ExpiresAt), Address: storable(n.Address), UserAgent: storable(n.UserAgent), StatusList: list,
	}
	once := clause.OnConflict{Columns: []clause.Column{{Name: "status_list"}, {Name: "status_index"}}, DoNothing: true}
	for range indexTries {
		row.StatusIndex = randomIndex()
		res := tx.Table("sessions").Clauses(once).Create(&row)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected == 1 {
			n.StatusList, n.StatusIndex = int(list), int(row.StatusIndex)
			return nil
		}
	}
	return errListFull
}

// takeIndex counts one index of the newest list and returns the list; it opens
// the next one when that is full.
func takeIndex(tx *gorm.DB) (int64, error) {
	for range listTries {
		var newest int64
		if err := tx.Raw("SELECT coalesce(max(id), 0) FROM status_lists").Find(&newest).Error; err != nil {
			return 0, err
		}
		take := tx.Exec("UPDATE status_lists SET issued = issued + 1 WHERE id = ? AND issued < ?", newest, listCapacity)
		if take.Error != nil {
			return 0, take.Error
		}
		if take.RowsAffected == 1 {
			return newest, nil
		}
		// Whoever comes second finds the list already open.
		if err := tx.Exec("INSERT INTO status_lists (id, issued) VALUES (?, 0) ON CONFLICT (id) DO NOTHING", newest+1).Error; err != nil {
			return 0, err
		}
	}
	return 0, errListBusy
}

// randomIndex is uniform: the size of a list is a power of two.
func randomIndex() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return int64(binary.LittleEndian.Uint64(b[:]) % account.StatusListSize)
}

// RevokedIndices implements account.Store.
func (s *Store) RevokedIndices(ctx context.Context, list int, now time.Time) ([]int, error) {
	db := s.conn(ctx)
	out := []int{}
	err := db.Raw("SELECT status_index FROM sessions WHERE status_list = ? AND ended_at > 0 AND expires_at > ? ORDER BY status_index", list, seconds(now)).Find(&out).Error
	if err != nil {
		return nil, fail("read status list", err)
	}
	if len(out) > 0 {
		return out, nil
	}
	var found int64
	if err := db.Raw("SELECT count(*) FROM status_lists WHERE id = ?", list).Find(&found).Error; err != nil {
		return nil, fail("read status list", err)
	}
	if found == 0 {
		return nil, account.ErrSessionNotFound
	}
	return out, nil
}
