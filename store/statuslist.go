package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/engine"
)

const (
	// listCapacity is how many indices of a list are issued: never all, so that a random free one
	// is soon found.
	listCapacity = statuslist.Size / 16 * 15
	listTries    = 8
	// One query looks for a free one among this many. With a full list, 2 % of the queries find
	// none.
	indexDraws = 64
	indexTries = 8
)

var (
	errListBusy = errors.New("no status list could be opened")
	errListFull = errors.New("no free index in the status list")
)

// takeIndex returns a free index of the newest list, with the id of that list. It opens the next
// list if this one is full. Indices are random, so that they do not reveal when or after whom a
// user signed in (draft-ietf-oauth-status-list, unlinkability).
//
// It locks the row of the list until the transaction ends, so no other process takes an index of
// it. Locks of lists are taken after all others, and in ascending order.
func takeIndex(tx *gorm.DB) (list, index int, err error) {
	newest, err := countIndex(tx)
	if err != nil {
		return 0, 0, err
	}
	for range indexTries {
		drawn := make([]int64, indexDraws)
		for i := range drawn {
			drawn[i] = randomIndex()
		}
		var taken []int64
		err := tx.Raw(`SELECT status_index FROM sessions WHERE status_list = @list AND status_index IN @drawn
			UNION SELECT status_index FROM grants
				WHERE status_list = @list AND status_list > 0 AND status_index IN @drawn
			UNION SELECT status_index FROM client_tokens
				WHERE status_list = @list AND status_list > 0 AND status_index IN @drawn
			UNION SELECT status_index FROM revocations WHERE status_list = @list AND status_index IN @drawn`,
			map[string]any{"list": newest, "drawn": drawn}).Find(&taken).Error
		if err != nil {
			return 0, 0, err
		}
		free := slices.IndexFunc(drawn, func(i int64) bool { return !slices.Contains(taken, i) })
		if free >= 0 {
			return int(newest), int(drawn[free]), nil
		}
	}
	return 0, 0, errListFull
}

// setIndex sets the list and index of a session's token. After a failure it leaves the former ones.
func setIndex(tx *engine.Tx, n *account.Session) {
	if tx.Failed() {
		return
	}
	var err error
	n.StatusList, n.StatusIndex, err = takeIndex(tx.DB)
	tx.Refuse(err)
}

// countIndex reserves one index of the newest list, which it opens if needed, and returns the list.
func countIndex(tx *gorm.DB) (int64, error) {
	for range listTries {
		var newest int64
		if err := tx.Raw("SELECT coalesce(max(id), 0) FROM status_lists").Find(&newest).Error; err != nil {
			return 0, err
		}
		take := tx.Exec(`UPDATE status_lists SET issued = issued + 1
			WHERE id = ? AND issued < ?`, newest, listCapacity)
		if take.Error != nil {
			return 0, take.Error
		}
		if take.RowsAffected == 1 {
			return newest, nil
		}
		// Another process may have opened it already.
		err := tx.Exec(`INSERT INTO status_lists (id, issued) VALUES (?, 0)
			ON CONFLICT (id) DO NOTHING`, newest+1).Error
		if err != nil {
			return 0, err
		}
	}
	return 0, errListBusy
}

// randomIndex is uniform: the size of a list is a power of two.
func randomIndex() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return int64(binary.LittleEndian.Uint64(b[:]) % statuslist.Size)
}

// revocation is a revoked token: its index in a list, and its expiry.
type revocation struct {
	StatusList  int64
	StatusIndex int64
	ExpiresAt   int64
}

// revocationBatch is how many rows one statement inserts: databases bound it.
const revocationBatch = 1000

// revoke sets the bits of tokens. It belongs near the end of the transaction that ends their
// sessions: see takeIndex. A bit may be set already, because two concurrent sweeps find the same
// missing ones.
func revoke(tx *engine.Tx, tokens []revocation) {
	for batch := range slices.Chunk(tokens, revocationBatch) {
		tx.Ran(tx.Table("revocations").Clauses(clause.OnConflict{DoNothing: true}).Create(&batch))
	}
	changeLists(tx, tokens)
}

// revokeGrants revokes the grants g that meet a condition, which may use args and @now. It returns
// how many, and what to revoke in the status lists near the end of the transaction.
func revokeGrants(
	tx *engine.Tx, now time.Time, condition string, args map[string]any,
) (n int64, tokens []revocation) {
	rows := revokedGrants(tx, now, condition, args)
	return int64(len(rows)), tokensOf(rows)
}

type revokedRow struct {
	Sub, ClientID string
	Token         revocation `gorm:"embedded"`
}

func tokensOf(rows []revokedRow) []revocation {
	return onLists(each(rows, func(r revokedRow) revocation { return r.Token }))
}

func revokedGrants(
	tx *engine.Tx, now time.Time, condition string, args map[string]any,
) (rows []revokedRow) {
	args["now"] = toUnix(now)
	query := "UPDATE grants AS g SET revoked_at = @now WHERE g.revoked_at = 0 AND " + condition +
		" RETURNING sub, client_id, status_list, status_index, CAST(@now AS BIGINT) + " + apiTokenLifetime +
		" AS expires_at"
	tx.Find(&rows, query, args)
	tx.NoteRevoked(revokedGrant, len(rows))
	return rows
}

// onLists returns the tokens that have an index in a list.
func onLists(rows []revocation) []revocation {
	return slices.DeleteFunc(slices.Clone(rows), func(r revocation) bool { return r.StatusList == 0 })
}

// apiTokenLifetime is the longest lifetime of a token for an API, in seconds.
var apiTokenLifetime = strconv.Itoa(int(provider.MaxAPILifetime / time.Second))

// changeLists raises the versions of the lists, so that verifiers refresh their copies.
func changeLists(tx *engine.Tx, changed []revocation) {
	lists := make([]int64, 0, len(changed))
	for _, r := range changed {
		lists = append(lists, r.StatusList)
	}
	slices.Sort(lists)
	for _, list := range slices.Compact(lists) {
		tx.Exec("UPDATE status_lists SET version = version + 1 WHERE id = ?", list)
	}
}

// RevokedIndices implements statuslist.Store. The result changes only with the version, never with
// the time.
func (s *Store) RevokedIndices(ctx context.Context, list int) ([]int, error) {
	out := []int{}
	var issued int
	err := s.conn(ctx).Raw("SELECT issued FROM status_lists WHERE id = ?", list).Find(&issued).Error
	if err == nil && issued == wholeList {
		for i := range statuslist.Size {
			out = append(out, i)
		}
		return out, nil
	}
	if err == nil {
		err = s.conn(ctx).Raw(`SELECT status_index FROM revocations WHERE status_list = ? AND cleared_at = 0
			ORDER BY status_index`, list).Find(&out).Error
	}
	return out, fail("read status list", err)
}

var readStatusVersion = engine.NewRead("status_lists", "SELECT version FROM status_lists WHERE id = ?")

// StatusVersion implements statuslist.Store.
func (s *Store) StatusVersion(ctx context.Context, list int) (int64, error) {
	c, err := s.readRow(ctx, readStatusVersion, statuslist.ErrNotFound, int64(list))
	if err != nil {
		return 0, fail("read version of status list", err)
	}
	return c.Number(), fail("read version of status list", c.Err)
}

// StatusVersions implements statuslist.Store.
func (s *Store) StatusVersions(ctx context.Context) (map[int]int64, error) {
	var rows []struct {
		ID      int
		Version int64
	}
	if err := s.conn(ctx).Raw("SELECT id, version FROM status_lists").Find(&rows).Error; err != nil {
		return nil, fail("read versions of status lists", err)
	}
	out := make(map[int]int64, len(rows))
	for _, r := range rows {
		out[r.ID] = r.Version
	}
	return out, nil
}
