package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// sessionRow is an account.Session with how its members are stored.
type sessionRow struct {
	ID, Sub                 string
	TokenHash, LoginHash    []byte
	CreatedAt, AuthTime     time.Time `gorm:"autoCreateTime:false;serializer:unix"`
	LastSeenAt, ExpiresAt   time.Time `gorm:"serializer:unix"`
	EndedAt                 time.Time `gorm:"serializer:unix"`
	Address, UserAgent      string    `gorm:"serializer:text"`
	StatusList, StatusIndex int
	Algorithm               string
	AMR                     []string  `gorm:"column:amr;serializer:words"`
	ConfirmedAt             time.Time `gorm:"serializer:unix"`
	Passkey                 []byte
	DeviceKey               []byte
	DeviceProvenAt          time.Time `gorm:"serializer:unix"`
	TimeStep                int64     `gorm:"-"`
	KnownSince              time.Time `gorm:"serializer:unix"`
}

// fullSession has all columns of the table sessions: DeleteUser blanks those that it does not name.
type fullSession struct {
	Row        sessionRow `gorm:"embedded"`
	Disowned   bool       // its address is no known one
	ReportedAt int64      // as somebody else's; negative: by a mailbox that may not be the owner's
}

func (r sessionRow) session() account.Session {
	n := account.Session(r)
	if len(n.AMR) == 0 {
		n.AMR = []string{account.MethodPassword}
	}
	if n.ConfirmedAt.Before(n.AuthTime) {
		n.ConfirmedAt = n.AuthTime
	}
	return n
}

// insertSession adds the row of n and sets its list and index.
func insertSession(tx *engine.Tx, n *account.Session) {
	setIndex(tx, n)
	tx.Ran(tx.Table("sessions").Create((*sessionRow)(n)))
}

// signedIn marks the sign-in on the user's row if its conditions still hold: the user is neither
// deleted nor suspended, the password is the verified one, and a user with a second factor has used
// one that was not removed since. It locks the row: a statement that ends sessions waits or came
// before.
func signedIn(tx *engine.Tx, n *account.Session, verifiedHash string) {
	sub, multi, alone, disowned := n.Sub, 0, 0, ""
	if n.Passkey != nil || verifiedHash == account.NoPassword {
		// Also where no second step is chosen: that the passkey is there is checked next, and recovery codes open
		// an account without a password that has lost its last passkey.
		alone = 1
	}
	if slices.Contains(n.AMR, account.MethodMultiFactor) {
		multi = 1
	}
	if slices.Contains(n.AMR, account.MethodPassword) {
		disowned = " AND password_disowned_at = 0"
	}
	if invalidKey(sub) {
		tx.Refuse(account.ErrUserNotFound)
		return
	}
	if verifiedHash == "" || verifiedHash == account.NoPassword && multi == 0 {
		tx.Refuse(account.ErrInvalidCredentials) // no password proves a user who has none
		return
	}
	for range 2 {
		marked := tx.Exec(`UPDATE users SET last_login_at = ?
			WHERE sub = ? AND password_hash = ? AND suspended_at = 0 AND deleted_at = 0
			AND (ends_at = 0 OR ends_at > ?)
			AND (second_factor = (CAST(? AS INTEGER) = 1) OR CAST(? AS INTEGER) = 1)`+disowned,
			toUnix(n.AuthTime), sub, sanitize(verifiedHash), tx.Now(), multi, alone)
		var there []int
		switch {
		case marked == 1 && n.Passkey != nil: // it may have been removed since the proof
			tx.Expect(tx.Find(&there, "SELECT 1 FROM passkeys WHERE id = ? AND sub = ?", n.Passkey, n.Sub),
				account.ErrInvalidPasskey)
		case marked == 1 && n.TimeStep > 0: // as the app since the code
			tx.Expect(tx.Find(&there, "SELECT 1 FROM totp WHERE sub = ? AND last_step >= ?", n.Sub, n.TimeStep),
				account.ErrInvalidOTP)
		}
		if marked == 1 || tx.Failed() {
			return
		}
		// Find the reason. The row is locked before it is read: a suspension that is lifted between
		// two statements must not look like a wrong password.
		switch u := lockedUser(tx, sub); {
		case u.Suspended():
			tx.Refuse(account.ErrSuspended)
		case u.PasswordHash != verifiedHash, disowned != "" && !u.PasswordDisownedAt.IsZero():
			tx.Refuse(account.ErrInvalidCredentials)
		case u.SecondFactor && multi == 0:
			tx.Refuse(account.ErrSecondFactorRequired)
		}
	}
	tx.Refuse(account.ErrInvalidCredentials)
}

// CreateSession implements account.Store.
func (s *Store) CreateSession(ctx context.Context, n *account.Session, verifiedHash string, a account.Audit) error {
	return s.write(ctx, "create session", func(tx *engine.Tx) {
		signedIn(tx, n, verifiedHash)
		signOutSurplus(tx, n.Sub, account.MaxSessions-1, n.AuthTime)
		insertSession(tx, n)
		a := a
		a.Session, a.Proof = n.ID, account.ProofSignIn // how it was opened: a confirmation replaces n.AMR
		insertSignIn(tx, n, a)
	})
}

// Reauthenticate implements account.Store.
func (s *Store) Reauthenticate(ctx context.Context, n *account.Session, verifiedHash string, a account.Audit) error {
	return s.write(ctx, "sign in again", func(tx *engine.Tx) {
		signedIn(tx, n, verifiedHash)
		former := s.lockToken(tx, n, n.AuthTime)
		revoke(tx, []revocation{former})
		n.LastSeenAt = n.AuthTime
		replaceToken(tx, n, "auth_time", "last_seen_at", "expires_at", "address", "user_agent", "amr",
			"confirmed_at", "passkey", "known_since")
		insertSignIn(tx, n, a)
	})
}

// lockToken locks the row of a live session and returns its token, to be revoked before replaceToken:
// the former one is on the older list. ErrSessionNotFound.
func (s *Store) lockToken(tx *engine.Tx, n *account.Session, now time.Time) (former revocation) {
	lock := ""
	if s.Dialect() == Postgres {
		lock = " FOR UPDATE"
	}
	tx.Expect(tx.Find(&former, `SELECT status_list, status_index, expires_at FROM sessions
		WHERE id = ? AND sub = ? AND ended_at = 0 AND expires_at > ?`+lock,
		n.ID, n.Sub, toUnix(now)), account.ErrSessionNotFound)
	return former
}

// replaceToken stores the new secrets of a session, with a bit of their own on the status list, and
// the values of more columns.
func replaceToken(tx *engine.Tx, n *account.Session, more ...string) {
	setIndex(tx, n)
	columns := append(more, "token_hash", "login_hash", "status_list", "status_index", "algorithm")
	live := tx.Table("sessions").Where("sub = ? AND ended_at = 0", n.Sub)
	tx.Expect(tx.Ran(live.Select(columns).Updates((*sessionRow)(n))), account.ErrSessionNotFound)
}

// BindDevice implements account.Store.
func (s *Store) BindDevice(ctx context.Context, n account.Session, a account.Audit) error {
	return s.write(ctx, "bind session", func(tx *engine.Tx) {
		tx.Expect(tx.Exec(`UPDATE sessions SET device_key = ?
			WHERE id = ? AND auth_time = ? AND ended_at = 0 AND device_key IS NULL`,
			n.DeviceKey, n.ID, toUnix(n.AuthTime)), account.ErrSessionNotFound)
		insertAudit(tx, a)
	})
}

// ProveDevice implements account.Store.
func (s *Store) ProveDevice(ctx context.Context, n account.Session, at time.Time) error {
	return s.writeOne(ctx, "prove device", func(db *gorm.DB) error {
		return db.Exec(`UPDATE sessions SET device_proven_at = ?
			WHERE id = ? AND device_key = ? AND device_proven_at = 0`,
			toUnix(at), n.ID, n.DeviceKey).Error
	})
}

const selectIdentity = `SELECT s.id, s.sub, s.token_hash, s.login_hash, s.created_at, s.auth_time, s.last_seen_at,
	s.expires_at, s.ended_at, s.address, s.user_agent, s.status_list, s.status_index, s.algorithm, s.amr,
	s.confirmed_at, s.passkey, s.device_key, s.device_proven_at, ` + claimColumns + ", " + accountColumns + `
	FROM sessions s JOIN users u ON u.sub = s.sub WHERE u.deleted_at = 0 AND s.`

var (
	readSession      = engine.NewRead("sessions", selectIdentity+"id = ?")
	readLoginSession = engine.NewRead("sessions", selectIdentity+"login_hash = ?")
)

// identity reads a session with its user.
func (s *Store) identity(ctx context.Context, q engine.Query, key any) (account.Session, account.User, error) {
	c, err := s.readRow(ctx, q, account.ErrSessionNotFound, key)
	if err != nil {
		return account.Session{}, account.User{}, fail("find session", err)
	}
	n := sessionRow{
		ID: c.Text(), Sub: c.Text(), TokenHash: c.Bytes(), LoginHash: c.Bytes(), CreatedAt: c.Time(),
		AuthTime: c.Time(), LastSeenAt: c.Time(), ExpiresAt: c.Time(), EndedAt: c.Time(), Address: c.Text(),
		UserAgent: c.Text(), StatusList: int(c.Number()), StatusIndex: int(c.Number()), Algorithm: c.Text(),
		AMR: strings.Fields(c.Text()), ConfirmedAt: c.Time(), Passkey: c.Bytes(),
		DeviceKey: c.Bytes(), DeviceProvenAt: c.Time(),
	}
	var u account.User
	takeClaims(c, &u, s.Now())
	takeAccount(c, &u)
	return n.session(), u, fail("find session", c.Err)
}

// Session implements account.Store.
func (s *Store) Session(ctx context.Context, id string) (account.Session, account.User, error) {
	if invalidKey(id) {
		return account.Session{}, account.User{}, account.ErrSessionNotFound
	}
	return s.identity(ctx, readSession, id)
}

// SessionByLoginHash implements account.Store.
func (s *Store) SessionByLoginHash(ctx context.Context, hash []byte) (account.Session, account.User, error) {
	return s.identity(ctx, readLoginSession, hash)
}

// newestSessions selects the live sessions of a user along the index sessions_live.
const newestSessions = "FROM sessions s WHERE s.sub = ? AND s.ended_at = 0 AND s.expires_at > ?"

var sessionColumns = engine.ColumnsOf[sessionRow]("s")

// Sessions implements account.Store.
func (s *Store) Sessions(ctx context.Context, sub string, now time.Time) ([]account.Session, error) {
	var rows []sessionRow
	query := "SELECT " + sessionColumns + " " + newestSessions + " ORDER BY s.created_at DESC, s.id DESC LIMIT ?"
	err := s.conn(ctx).Raw(query, sub, toUnix(now), account.MaxSessions).Find(&rows).Error
	return each(rows, sessionRow.session), fail("list sessions", err)
}

// touchBatch is how many sessions one statement touches: other writers wait for it.
const touchBatch = 1000

// TouchSessions implements account.Store, one statement a batch. The address stays that of the
// sign-in: a stolen cookie must not make the thief's address a known one, nor a journey the owner's
// an unknown one.
func (s *Store) TouchSessions(ctx context.Context, seen map[string]time.Time) error {
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(seen)), invalidKey)
	for batch := range slices.Chunk(ids, touchBatch) {
		args := make([]any, 0, 2*len(batch))
		for _, id := range batch {
			args = append(args, id, toUnix(seen[id]))
		}
		query := "WITH v (id, at) AS (VALUES " + repeated("(?, CAST(? AS BIGINT))", len(batch)) + `)
			UPDATE sessions SET last_seen_at = v.at FROM v WHERE sessions.id = v.id AND sessions.ended_at = 0
			AND sessions.last_seen_at < v.at`
		err := s.writeOne(ctx, "touch sessions", func(db *gorm.DB) error { return db.Exec(query, args...).Error })
		if err != nil {
			return err
		}
	}
	return nil
}

// KnownAddress implements account.Store.
func (s *Store) KnownAddress(ctx context.Context, sub, address string, since time.Time) (bool, error) {
	if invalidKey(address) {
		return false, nil
	}
	var found []int
	err := s.conn(ctx).Raw(`SELECT 1 FROM sessions WHERE sub = @sub AND address = @address AND auth_time >= @since
		AND NOT disowned AND expires_at - auth_time > @shared
		UNION SELECT 1 FROM users WHERE sub = @sub AND reset_address = @address AND reset_at >= @since`,
		map[string]any{"sub": sub, "address": address, "since": toUnix(since),
			"shared": int64(account.SharedLifetime / time.Second)}).Find(&found).Error
	return len(found) > 0, fail("look for address", err)
}

// DisownedMark implements account.Store. A browser without a mark gets one at the end of the sign-in.
func (s *Store) DisownedMark(ctx context.Context, sub string, made time.Time) (disowned bool, err error) {
	err = s.conn(ctx).Raw(`SELECT disowned FROM sessions WHERE sub = @sub
		AND (known_since = @made OR known_since = 0 AND auth_time BETWEEN @since AND @made)
		ORDER BY auth_time DESC, disowned LIMIT 1`,
		map[string]any{"sub": sub, "made": toUnix(made), "since": toUnix(made) - 2}).Find(&disowned).Error
	return disowned, fail("look for mark", err)
}

// RecentSignIn implements account.Store.
func (s *Store) RecentSignIn(ctx context.Context, address, agent string, since time.Time) (found bool, err error) {
	err = s.conn(ctx).Raw(`SELECT EXISTS (SELECT 1 FROM sessions WHERE address = @address AND auth_time >= @since
		AND (@agent = '' OR user_agent = @agent AND ended_at = 0))`,
		map[string]any{"address": address, "agent": sanitize(agent), "since": toUnix(since)}).Find(&found).Error
	return found, fail("look for sign-in", err)
}
