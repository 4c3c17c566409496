package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

// sessionRow is what sessionColumns selects.
type sessionRow struct {
	SessionID        string
	SessionSub       string
	TokenHash        []byte
	LoginHash        []byte
	SessionCreatedAt int64
	AuthTime         int64
	LastSeenAt       int64
	ExpiresAt        int64
	EndedAt          int64
	Address          string
	UserAgent        string
	StatusList       int
	StatusIndex      int
	Algorithm        string
}

// sessionColumns do not clash with userColumns; the table is named s.
const sessionColumns = `s.id AS session_id, s.sub AS session_sub, s.token_hash, s.login_hash, s.created_at AS session_created_at,
	s.auth_time, s.last_seen_at, s.expires_at, s.ended_at, s.address, s.user_agent, s.status_list, s.status_index, s.algorithm`

func (r sessionRow) session() account.Session {
	return account.Session{
		ID: r.SessionID, Sub: r.SessionSub, TokenHash: r.TokenHash, LoginHash: r.LoginHash, CreatedAt: moment(r.SessionCreatedAt),
		AuthTime: moment(r.AuthTime), LastSeenAt: moment(r.LastSeenAt), ExpiresAt: moment(r.ExpiresAt), EndedAt: moment(r.EndedAt),
		Address: r.Address, UserAgent: r.UserAgent, StatusList: r.StatusList, StatusIndex: r.StatusIndex, Algorithm: r.Algorithm,
	}
}

// identityRow is a session with its user.
type identityRow struct {
	Session sessionRow `gorm:"embedded"`
	User    userRow    `gorm:"embedded"`
}

const (
	selectIdentity = "SELECT " + sessionColumns + ", " + userColumns + ` FROM sessions s JOIN users u ON u.sub = s.sub
		WHERE u.deleted_at = 0 AND `
	selectSession        = selectIdentity + "s.id = ?"
	selectSessionByLogin = selectIdentity + "s.login_hash = ?"
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
	StatusList  int
	StatusIndex int
	Algorithm   string
}

// insertSession adds the row of n and sets its list and index.
func insertSession(tx *gorm.DB, n *account.Session) error {
	if err := takeIndex(tx, n); err != nil {
		return err
	}
	return tx.Table("sessions").Create(&newSession{
		ID: n.ID, Sub: n.Sub, TokenHash: n.TokenHash, LoginHash: n.LoginHash, CreatedAt: seconds(n.CreatedAt), AuthTime: seconds(n.AuthTime),
		LastSeenAt: seconds(n.LastSeenAt), ExpiresAt: seconds(n.ExpiresAt), Address: storable(n.Address), UserAgent: storable(n.UserAgent),
		StatusList: n.StatusList, StatusIndex: n.StatusIndex, Algorithm: n.Algorithm,
	}).Error
}

// signedIn marks the sign-in on the user's row, on the conditions that still
// have to hold: neither deleted nor suspended, and the password is the one that
// was verified. It locks the row: whatever ends sessions waits or came before.
func signedIn(tx *gorm.DB, sub, verifiedHash string, at time.Time) error {
	if odd(sub) {
		return account.ErrUserNotFound
	}
	for range 2 {
		mark := tx.Exec("UPDATE users SET last_login_at = ? WHERE sub = ? AND password_hash = ? AND suspended_at = 0 AND deleted_at = 0", seconds(at), sub, storable(verifiedHash))
		if mark.Error != nil || mark.RowsAffected == 1 {
			return mark.Error
		}
		// Why not? Locked before it is read: a suspension that is lifted between
		// two statements must not look like a wrong password.
		if err := lockUser(tx, sub); err != nil {
			return err
		}
		u, err := userBy(tx, selectUserBySub, sub)
		switch {
		case err != nil:
			return err
		case u.Suspended():
			return account.ErrSuspended
		case u.PasswordHash != verifiedHash:
			return account.ErrInvalidCredentials
		}
	}
	return account.ErrInvalidCredentials
}

// CreateSession implements account.Store.
func (s *Store) CreateSession(ctx context.Context, n *account.Session, verifiedHash string) error {
	if verifiedHash == "" {
		return account.ErrInvalidCredentials
	}
	return s.write(ctx, "create session", func(tx *gorm.DB) error {
		if err := signedIn(tx, n.Sub, verifiedHash, n.AuthTime); err != nil {
			return err
		}
		if err := endOldest(tx, n.Sub, account.MaxSessions-1, n.AuthTime); err != nil {
			return err
		}
		return insertSession(tx, n)
	})
}

// Reauthenticate implements account.Store.
func (s *Store) Reauthenticate(ctx context.Context, n *account.Session, verifiedHash string) error {
	if verifiedHash == "" {
		return account.ErrInvalidCredentials
	}
	return s.write(ctx, "sign in again", func(tx *gorm.DB) error {
		if err := signedIn(tx, n.Sub, verifiedHash, n.AuthTime); err != nil {
			return err
		}
		if odd(n.ID) {
			return account.ErrSessionNotFound
		}
		// The token before this one counts no more: its bit is set and the new one
		// has a bit of its own. The list of the earlier one is the older: its row
		// is locked first, and the session's before both.
		lock := ""
		if s.dialect == Postgres {
			lock = " FOR UPDATE"
		}
		var old revocation
		was := tx.Raw("SELECT status_list, status_index, expires_at FROM sessions WHERE id = ? AND sub = ? AND ended_at = 0 AND expires_at > ?"+lock,
			n.ID, n.Sub, seconds(n.AuthTime)).Find(&old)
		if err := expect(was, account.ErrSessionNotFound); err != nil {
			return err
		}
		if err := revoke(tx, []revocation{old}); err != nil {
			return err
		}
		if err := takeIndex(tx, n); err != nil {
			return err
		}
		return expect(tx.Exec(`UPDATE sessions SET auth_time = ?, last_seen_at = ?, expires_at = ?, token_hash = ?, login_hash = ?, address = ?, user_agent = ?,
			status_list = ?, status_index = ?, algorithm = ? WHERE id = ? AND sub = ? AND ended_at = 0`,
			seconds(n.AuthTime), seconds(n.AuthTime), seconds(n.ExpiresAt), n.TokenHash, n.LoginHash, storable(n.Address), storable(n.UserAgent),
			n.StatusList, n.StatusIndex, n.Algorithm, n.ID, n.Sub), account.ErrSessionNotFound)
	})
}

func (s *Store) identity(ctx context.Context, query string, key any) (account.Session, account.User, error) {
	var row identityRow
	if err := expect(s.conn(ctx).Raw(query, key).Find(&row), account.ErrSessionNotFound); err != nil {
		return account.Session{}, account.User{}, fail("find session", err)
	}
	return row.Session.session(), row.User.user(), nil
}

// Session implements account.Store.
func (s *Store) Session(ctx context.Context, id string) (account.Session, account.User, error) {
	if odd(id) {
		return account.Session{}, account.User{}, account.ErrSessionNotFound
	}
	return s.identity(ctx, selectSession, id)
}

// SessionByLoginHash implements account.Store.
func (s *Store) SessionByLoginHash(ctx context.Context, hash []byte) (account.Session, account.User, error) {
	if len(hash) == 0 {
		return account.Session{}, account.User{}, account.ErrSessionNotFound
	}
	return s.identity(ctx, selectSessionByLogin, hash)
}

// newestSessions selects the live sessions of a user in the order of lists, by the
// index sessions_live.
const newestSessions = "FROM sessions s WHERE s.sub = ? AND s.ended_at = 0 AND s.expires_at > ?"

// Sessions implements account.Store.
func (s *Store) Sessions(ctx context.Context, q account.SessionQuery, now time.Time) ([]account.Session, error) {
	if odd(q.Sub) {
		return []account.Session{}, nil
	}
	query, args := "SELECT "+sessionColumns+" "+newestSessions, []any{q.Sub, seconds(now)}
	if q.After != (account.SessionPlace{}) {
		query, args = query+" AND (s.created_at, s.id) < (?, ?)", append(args, seconds(q.After.CreatedAt), storable(q.After.ID))
	}
	var rows []sessionRow
	if err := s.conn(ctx).Raw(query+" ORDER BY s.created_at DESC, s.id DESC LIMIT ?", append(args, q.Limit)...).Find(&rows).Error; err != nil {
		return nil, fail("list sessions", err)
	}
	out := make([]account.Session, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.session())
	}
	return out, nil
}

// touchBatch is how many sessions one statement touches: others wait for it.
const touchBatch = 1000

// TouchSessions implements account.Store, in one statement a batch. The address
// stays that of the sign-in: a stolen cookie must not make the thief's address a
// known one, nor a journey the owner's an unknown one.
func (s *Store) TouchSessions(ctx context.Context, seen map[string]time.Time) error {
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(seen)), odd)
	for batch := range slices.Chunk(ids, touchBatch) {
		args := make([]any, 0, 2*len(batch))
		for _, id := range batch {
			args = append(args, id, seconds(seen[id]))
		}
		query := "WITH v (id, at) AS (VALUES " + strings.Repeat("(?, CAST(? AS BIGINT)), ", len(batch)-1) + `(?, CAST(? AS BIGINT)))
			UPDATE sessions SET last_seen_at = v.at FROM v WHERE sessions.id = v.id AND sessions.ended_at = 0 AND sessions.last_seen_at < v.at`
		if err := s.writeOne(ctx, "touch sessions", func(db *gorm.DB) error { return db.Exec(query, args...).Error }); err != nil {
			return err
		}
	}
	return nil
}

// KnownAddress implements account.Store.
func (s *Store) KnownAddress(ctx context.Context, sub, address string) (bool, error) {
	if odd(sub) || odd(address) {
		return false, nil
	}
	var found int64
	err := s.conn(ctx).Raw("SELECT count(*) FROM (SELECT 1 FROM sessions WHERE sub = ? AND address = ? LIMIT 1) known", sub, address).Find(&found).Error
	return found > 0, fail("look for address", err)
}
