package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// userRow is a row of the table users with all of its columns, because insertUser and DeleteUser
// write it whole: a column that is missing here is never filled, and survives the deletion of its
// user.
type userRow struct {
	Sub           string
	Handle        string
	DisplayName   string
	Email         string
	EmailVerified bool
	Profile       account.Profile `gorm:"serializer:json"`
	PasswordHash  string
	Search        string // unindexed, or empty
	InvitedBy     *string
	SuspendedAt   int64
	SuspendReason string
	CreatedAt     int64 `gorm:"autoCreateTime:false"`
	UpdatedAt     int64 `gorm:"autoUpdateTime:false"`
	LastLoginAt   int64
	DeletedAt     int64
	SecondFactor  bool
	EmailAskedAt  int64

	DevicesVoidedAt int64

	EmailChangedAt     int64
	EmailSessionID     string
	PasswordDisownedAt int64

	EmailPending          string // see account.PendingEmail
	EmailPendingAt        int64
	EmailPendingSessionID string
	EmailPendingKeep      string // see keepText

	SecondFactorAt        int64 // when the choice was last changed, 0: not known
	SecondFactorSessionID string
	SecondFactorWas       bool // what it is again if that is undone: see setSecondStep

	Unlocks        int64
	FactorUnlocks  int64
	FactorMailedAt int64 // when a mailed code last added to FactorUnlocks
	LockedUntil    int64
	ResetAddress   string
	ResetAt        int64

	EndsAt  int64
	EndTold int
	EndDone int // 1: EndDue has carried it out

	Language string
}

// storedUser holds what userColumns selects.
type storedUser struct {
	Row     userRow `gorm:"embedded"` // exported, for GORM
	Inviter string
	Flags   string
}

// Further columns of a user of the table u. A deleted inviter is no longer named.
const (
	userInviter = `coalesce((SELECT i.handle FROM users i
		WHERE i.sub = u.invited_by AND i.deleted_at = 0), '') AS inviter`
	// userFlags is for flagsAt.
	userFlags = `coalesce((SELECT
		string_agg(CASE WHEN f.ends_at > 0 THEN f.flag || ':' || f.ends_at ELSE f.flag END, ' ')
		FROM user_flags f WHERE f.sub = u.sub), '') AS flags`
)

// userColumns selects a whole user of the table u in one row.
var userColumns = engine.ColumnsOf[userRow]("u") + ", " + userInviter + ", " + userFlags

// claimColumns selects from the table u what claims are made of, and whether the user is suspended
// or deleted. For readRow.
const claimColumns = `u.sub, u.handle, u.display_name, u.email, u.email_verified, u.profile, u.second_factor,
	u.suspended_at, u.ends_at, u.updated_at, u.deleted_at, ` + userFlags

// claims takes them, as they are at a time.
func takeClaims(c *engine.Columns, u *account.User, now int64) (deleted bool) {
	u.Sub, u.Handle, u.DisplayName, u.Email, u.EmailVerified = c.Text(), c.Text(), c.Text(), c.Text(), c.Flag()
	// Empty in rows from before there were profiles.
	if profile := c.Text(); profile != "" && profile != "{}" {
		if err := json.Unmarshal([]byte(profile), &u.Profile); err != nil {
			c.Err = fmt.Errorf("decode profile: %w", err)
		}
	}
	u.SecondFactor = c.Flag()
	suspended, ends := c.Number(), c.Number()
	u.SuspendedAt, u.EndsAt = suspendedAt(suspended, ends, now), fromUnix(ends)
	u.UpdatedAt, deleted = c.Time(), c.Number() != 0
	u.Flags, u.FlagEnds = flagsAt(c.Text(), now)
	return deleted
}

// accountColumns selects the rest of a user beyond claimColumns.
const accountColumns = "u.password_hash, u.suspend_reason, u.created_at, u.last_login_at, u.email_asked_at, " +
	"u.email_pending, u.language, u.devices_voided_at, u.unlocks, u.factor_unlocks, u.locked_until, " + userInviter

func takeAccount(c *engine.Columns, u *account.User) {
	u.PasswordHash, u.SuspendReason, u.CreatedAt, u.LastLoginAt = c.Text(), c.Text(), c.Time(), c.Time()
	u.EmailAskedAt, u.Pending.Email, u.Language, u.DevicesVoidedAt = c.Time(), c.Text(), c.Text(), c.Time()
	u.Unlocks, u.FactorUnlocks, u.LockedUntil, u.InvitedBy = c.Number(), c.Number(), c.Time(), c.Text()
}

// userAt returns the user as of a time.
func (u storedUser) userAt(now int64) account.User {
	r := u.Row
	flags, flagEnds := flagsAt(u.Flags, now)
	return account.User{
		Sub: r.Sub, Handle: r.Handle, DisplayName: r.DisplayName, Email: r.Email, EmailVerified: r.EmailVerified,
		Profile: r.Profile, PasswordHash: r.PasswordHash, Flags: flags, FlagEnds: flagEnds,
		EndsAt: fromUnix(r.EndsAt), SuspendedAt: suspendedAt(r.SuspendedAt, r.EndsAt, now),
		SuspendReason: r.SuspendReason, CreatedAt: fromUnix(r.CreatedAt), UpdatedAt: fromUnix(r.UpdatedAt),
		LastLoginAt: fromUnix(r.LastLoginAt), Language: r.Language, InvitedBy: u.Inviter, SecondFactor: r.SecondFactor,
		EmailAskedAt: fromUnix(r.EmailAskedAt), DevicesVoidedAt: fromUnix(r.DevicesVoidedAt),
		EmailChangedAt: fromUnix(r.EmailChangedAt), PasswordDisownedAt: fromUnix(r.PasswordDisownedAt),
		Unlocks: r.Unlocks, FactorUnlocks: r.FactorUnlocks, LockedUntil: fromUnix(r.LockedUntil),
		Pending: account.PendingEmail{Email: r.EmailPending, At: fromUnix(r.EmailPendingAt),
			Session: r.EmailPendingSessionID, Keep: keepOf(r.EmailPendingKeep)},
	}
}

// userBy finds the user with a value in a column, as of a time. ErrUserNotFound.
func userBy(db *gorm.DB, column, key string, now int64) (account.User, error) {
	if invalidKey(key) {
		return account.User{}, account.ErrUserNotFound
	}
	var row storedUser
	found := db.Raw("SELECT "+userColumns+" FROM users u WHERE "+column+" = ? AND u.deleted_at = 0", key).Find(&row)
	err := expect(found, account.ErrUserNotFound)
	if err != nil {
		return account.User{}, err
	}
	return row.userAt(now), nil
}

// handleKey is account.HandleKey of a row u of users. It has a unique index.
const handleKey = "replace(u.handle, '.', '')"

// UserByHandle implements account.Store.
func (s *Store) UserByHandle(ctx context.Context, handle string) (account.User, error) {
	u, err := userBy(s.conn(ctx), handleKey, account.HandleKey(handle), s.Now())
	return u, fail("user by handle", err)
}

// UserBySub implements account.Store.
func (s *Store) UserBySub(ctx context.Context, sub string) (account.User, error) {
	u, err := userBy(s.conn(ctx), "u.sub", sub, s.Now())
	return u, fail("user by sub", err)
}

// UsersByHandle implements account.Store.
func (s *Store) UsersByHandle(ctx context.Context, handles []string) ([]account.User, error) {
	return s.usersIn(ctx, "users by handle", "u.handle", handles)
}

// UsersByEmail implements account.Store. It reads all users: no index has addresses that are not verified.
func (s *Store) UsersByEmail(ctx context.Context, emails []string) ([]account.User, error) {
	folded := each(emails, strings.ToLower)
	return s.usersIn(ctx, "users by email", "lower(u.email)", folded)
}

// NewUsersByEmail implements account.Store.
func (s *Store) NewUsersByEmail(ctx context.Context, email string) ([]account.User, error) {
	if invalidKey(email) {
		return nil, nil
	}
	var rows []storedUser
	err := s.conn(ctx).Raw("SELECT "+userColumns+` FROM users u WHERE lower(u.email) = lower(?)
		AND NOT u.email_verified AND u.password_hash = '' AND u.deleted_at = 0
		ORDER BY u.created_at, u.handle LIMIT 20`,
		email).Find(&rows).Error
	users := each(rows, func(u storedUser) account.User { return u.userAt(s.Now()) })
	return slices.DeleteFunc(users, account.User.Suspended), fail("new users by email", err)
}

// usersIn finds the users with values in a column, in the order of their handles.
func (s *Store) usersIn(ctx context.Context, doing, column string, keys []string) (users []account.User, err error) {
	keys = slices.DeleteFunc(slices.Clone(keys), invalidKey)
	for some := range slices.Chunk(keys, bulkRows) {
		var rows []storedUser
		err := s.conn(ctx).Raw("SELECT "+userColumns+" FROM users u WHERE "+column+" IN ? AND u.deleted_at = 0",
			some).Find(&rows).Error
		if err != nil {
			return nil, fail(doing, err)
		}
		users = append(users, each(rows, func(u storedUser) account.User { return u.userAt(s.Now()) })...)
	}
	slices.SortFunc(users, func(a, b account.User) int { return strings.Compare(a.Handle, b.Handle) })
	return users, nil
}

// newUserRow returns the row of a new user.
func newUserRow(u account.User) userRow {
	return userRow{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified,
		Profile: u.Profile, PasswordHash: u.PasswordHash, Search: unindexed, SuspendedAt: toUnix(u.SuspendedAt),
		SuspendReason: u.SuspendReason, CreatedAt: toUnix(u.CreatedAt), UpdatedAt: toUnix(u.UpdatedAt),
		LastLoginAt: toUnix(u.LastLoginAt), EmailAskedAt: toUnix(u.EmailAskedAt), SecondFactor: u.SecondFactor,
		Language: u.Language, EndsAt: toUnix(u.EndsAt), EndTold: account.EndTold(u.EndsAt, u.CreatedAt),
	}
}

// insertUser adds a user. A handle stays taken after its user is
// deleted. inviter is a sub or empty. limit bounds the number of users (0: no limit):
// account.ErrRegistrationFull. The row of the counter is locked after invites and before the lists
// of takeIndex, so registrations are serialized.
func insertUser(tx *engine.Tx, u account.User, inviter string, limit int) {
	tx.Expect(tx.Exec(`UPDATE counters SET value = value + 1
		WHERE name = 'users' AND (CAST(? AS BIGINT) <= 0 OR value < ?)`, limit, limit), account.ErrRegistrationFull)
	if u.EmailVerified {
		claimEmail(tx, u.Email, u.Sub)
	}
	row := newUserRow(u)
	if inviter != "" {
		row.InvitedBy = &inviter
	}
	// A failed INSERT would end the transaction on PostgreSQL. The handle or its key may be taken.
	once := clause.OnConflict{DoNothing: true}
	tx.Expect(tx.Ran(tx.Table("users").Clauses(once).Create(&row)), account.ErrHandleTaken)
	addFlags(tx, flagRows(u))
}

// CreateUser implements account.Store.
func (s *Store) CreateUser(ctx context.Context, u account.User, a account.Audit) error {
	return s.act(ctx, "create user", a, func(tx *engine.Tx) {
		insertUser(tx, u, "", 0)
		insertAudit(tx, a)
	})
}

// AddUser implements account.Store.
func (s *Store) AddUser(
	ctx context.Context, u account.User, c account.ResetCode, maxUsers int, a account.Audit,
) error {
	return s.act(ctx, "add user", a, func(tx *engine.Tx) {
		insertUser(tx, u, "", maxUsers)
		if len(c.Hash) > 0 {
			setResetCode(tx, u.Sub, a.Session, c.Hash, c.ExpiresAt, u.CreatedAt)
		}
		insertAudit(tx, a)
	})
}

// lockUser makes every other operation on the same user wait for the end of the transaction. All
// take this lock before rows of the user, so that no deadlock is possible. ErrUserNotFound.
func lockUser(tx *engine.Tx, sub string) { lockUserOr(tx, sub, account.ErrUserNotFound) }

// lockUserOr is lockUser with another error if there is no such user.
func lockUserOr(tx *engine.Tx, sub string, none error) {
	if invalidKey(sub) {
		tx.Refuse(none)
	}
	tx.Expect(tx.Exec("UPDATE users SET updated_at = updated_at WHERE sub = ? AND deleted_at = 0", sub), none)
}

// lockedUser locks and returns a user.
func lockedUser(tx *engine.Tx, sub string) account.User {
	lockUser(tx, sub)
	u, err := userBy(tx.DB, "u.sub", sub, tx.Now())
	tx.Refuse(err)
	return u
}

// lockedUsers locks and returns users, in the order of their handles. ErrUserNotFound if there is one less.
func lockedUsers(tx *engine.Tx, subs []string) []account.User {
	locked := tx.Exec("UPDATE users SET updated_at = updated_at WHERE sub IN ? AND deleted_at = 0", subs)
	if locked == 0 || locked != int64(len(subs)) {
		tx.Refuse(account.ErrUserNotFound)
	}
	endDueOfAll(tx, subs) // else a later end would undo what follows
	var rows []storedUser
	tx.Find(&rows, "SELECT "+userColumns+" FROM users u WHERE u.sub IN ? AND u.deleted_at = 0", subs)
	slices.SortFunc(rows, func(a, b storedUser) int { return strings.Compare(a.Row.Handle, b.Row.Handle) })
	return each(rows, func(u storedUser) account.User { return u.userAt(tx.Now()) })
}

// ChangeUser implements account.Store.
func (s *Store) ChangeUser(
	ctx context.Context, sub string, change func(*account.User) error, now time.Time, a *account.Audit,
) (account.User, error) {
	const doing = "change user"
	var u account.User
	var refused error // of change: not a failure of the database
	var begun account.Audit
	if a != nil {
		begun = *a
	}
	err := s.act(ctx, doing, begun, func(tx *engine.Tx) {
		refused = nil
		if u = lockedUser(tx, sub); tx.Failed() {
			return
		}
		changed := u
		if refused = change(&changed); refused != nil {
			tx.Refuse(refused)
			return
		}
		if changed.EmailVerified && (changed.Email != u.Email || !u.EmailVerified) {
			claimEmail(tx, changed.Email, sub)
		}
		var by account.Audit
		if a != nil {
			by = *a // with what change has set
		}
		moved := changed.Email != u.Email
		if moved || !changed.EmailVerified {
			changed.Pending = account.PendingEmail{}
		}
		own := by.Actor == u.Handle
		settled := !own && changed.EmailVerified != u.EmailVerified // by an administrator
		if moved || settled {
			keepEmail(tx, u, by, now, now)
		}
		if moved || by.Ends != (account.Ending{}) {
			// Before the new address is stored: what is asked for it stays.
			by = end(tx, sub, "", by, now).noted(by)
		}
		columns := []string{"display_name", "email", "email_verified", "email_asked_at", "email_pending",
			"email_pending_at", "email_pending_session_id", "email_pending_keep", "profile", "search", "updated_at"}
		if moved || settled {
			columns = append(columns, "email_changed_at", "email_session_id")
			if u.EmailChangedAt = (time.Time{}); own { // zero: an administrator vouches for the address
				u.EmailChangedAt = fromUnix(toUnix(now))
			}
		}
		// A code mailed to an address that no longer counts must not set a password, nor verify it.
		if moved || u.EmailVerified && !changed.EmailVerified {
			voidMailboxCodes(tx, sub)
		}
		if changed.Profile.Picture != u.Profile.Picture || changed.Photo.Hash != "" {
			replacePicture(tx, sub, changed.Photo, now)
		}
		u.DisplayName, u.Profile, u.Pending = changed.DisplayName, changed.Profile, changed.Pending
		u.Email, u.EmailVerified, u.EmailAskedAt = changed.Email, changed.EmailVerified, changed.EmailAskedAt
		u.UpdatedAt = fromUnix(toUnix(now))
		set := userRow{
			DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified,
			EmailAskedAt: toUnix(u.EmailAskedAt), Profile: u.Profile, Search: unindexed, UpdatedAt: toUnix(now),
			EmailChangedAt: toUnix(u.EmailChangedAt), EmailSessionID: by.Session,
			EmailPending: u.Pending.Email, EmailPendingAt: toUnix(u.Pending.At),
			EmailPendingSessionID: u.Pending.Session, EmailPendingKeep: keepText(u.Pending.Keep),
		}
		tx.Ran(tx.Table("users").Where("sub = ?", sub).Select(columns).Updates(&set))
		removeWords(tx, u.Handle)
		if a != nil {
			insertAudit(tx, by)
		}
	}, sub)
	if refused != nil {
		err = fmt.Errorf("%s: %w", doing, refused)
	}
	if err != nil {
		return account.User{}, err
	}
	return u, nil
}

// replacePicture deletes the stored picture of a user and stores the new one, if there is one.
func replacePicture(tx *engine.Tx, sub string, p account.Photo, now time.Time) {
	tx.Exec("DELETE FROM user_pictures WHERE sub = ?", sub)
	if p.Hash != "" {
		tx.Exec(`INSERT INTO user_pictures (sub, hash, image, changed_at)
			VALUES (?, ?, ?, ?)`, sub, p.Hash, p.JPEG, toUnix(now))
	}
}

// UserPicture implements account.Store.
func (s *Store) UserPicture(ctx context.Context, hash string) ([]byte, error) {
	var row struct{ Image []byte }
	if invalidKey(hash) {
		return nil, nil
	}
	err := s.conn(ctx).Raw(`SELECT p.image FROM user_pictures p JOIN users v ON v.sub = p.sub
		WHERE p.hash = ? AND `+userActive+" LIMIT 1", hash, s.Now()).Find(&row).Error
	return row.Image, fail("read picture", err)
}

// changeAccess is changeAccessOf for one user.
func (s *Store) changeAccess(
	ctx context.Context, doing, sub string, a account.Audit, do func(tx *engine.Tx, u account.User),
) error {
	return s.changeAccessOf(ctx, doing, map[string]account.Audit{sub: a}, func(tx *engine.Tx, users []account.User) {
		do(tx, users[0])
	})
}

// changeAccessOf calls do with the users whose subs rows has, the rows of one act, while no other administrator
// can be suspended, deleted or lose the flag. The lock comes before any other row. PostgreSQL waits for its
// UPDATE; on SQLite the transaction itself excludes the others. account.ErrUserNotFound if one of the users
// does not exist.
func (s *Store) changeAccessOf(
	ctx context.Context, doing string, rows map[string]account.Audit, do func(tx *engine.Tx, users []account.User),
) error {
	subs := keysOf(rows)
	if slices.ContainsFunc(subs, invalidKey) {
		return account.ErrUserNotFound
	}
	err := s.write(ctx, doing, func(tx *engine.Tx) {
		tx.Exec("UPDATE locks SET taken = taken + 1 WHERE name = 'administrators'")
		if len(subs) > 0 {
			checkActor(tx, rows[subs[0]], subs...)
		}
		if users := lockedUsers(tx, subs); !tx.Failed() {
			do(tx, users)
		}
	})
	select {
	case s.accessChanged <- struct{}{}:
	default:
	}
	return err
}

// AccessChanged implements account.Store.
func (s *Store) AccessChanged() <-chan struct{} { return s.accessChanged }

// keepAdministrator returns account.ErrLastAdmin if, besides those who lose by an act, there is no administrator who
// can sign in and stays one without an end: two with an end would leave nobody. One who has never set a password, or
// has neither a password nor a passkey, cannot sign in. Where they lose it now, what liftEnds lifts is no end.
func keepAdministrator(tx *engine.Tx, a account.Audit, now bool, lose ...account.User) {
	losing := slices.ContainsFunc(lose, func(u account.User) bool {
		return u.Has(account.FlagAdmin) && !u.Suspended() && u.EndsAt.IsZero() && u.FlagEnds[account.FlagAdmin].IsZero()
	})
	if !losing {
		return
	}
	args := map[string]any{"admin": account.FlagAdmin, "lose": subsOf(lose), "none": account.NoPassword}
	stays := func() int64 {
		return tx.Find(new([]string), `SELECT u.sub FROM user_flags f JOIN users u ON u.sub = f.sub
			WHERE f.flag = @admin AND f.ends_at = 0 AND u.sub NOT IN @lose
			AND u.deleted_at = 0 AND u.suspended_at = 0 AND u.ends_at = 0 AND u.password_hash <> ''
			AND (u.password_hash <> @none OR EXISTS (SELECT 1 FROM passkeys p WHERE p.sub = u.sub)) LIMIT 1`, args)
	}
	if now && stays() == 0 {
		liftEnds(tx, a, args)
	}
	tx.Expect(stays(), account.ErrLastAdmin)
}

func subsOf(users []account.User) []string {
	return each(users, func(u account.User) string { return u.Sub })
}

// SuspendAll implements account.Store.
func (s *Store) SuspendAll(ctx context.Context, reason string, now time.Time, rows map[string]account.Audit) error {
	return s.changeAccessOf(ctx, "suspend users", rows, func(tx *engine.Tx, users []account.User) {
		// Who has only ended is suspended as well: a later end must not let them in again.
		users = slices.DeleteFunc(users, func(u account.User) bool { return u.Suspended() && !u.Ended() })
		if len(users) == 0 {
			return
		}
		keepAdministrator(tx, rows[users[0].Sub], true, users...)
		// In the very second of an end a second earlier, or it would be the end's: see account.User.Ended.
		tx.Exec(`UPDATE users SET suspended_at = CASE WHEN ends_at = @now THEN @now - 1 ELSE @now END,
			suspend_reason = @reason, updated_at = @now WHERE sub IN @subs`,
			map[string]any{"now": toUnix(now), "reason": reason, "subs": subsOf(users)})
		out := endOf(tx, subsOf(users), "", rows[users[0].Sub], now)
		insertAudits(tx, each(users, func(u account.User) account.Audit { return out[u.Sub].noted(rows[u.Sub]) }))
	})
}

// Unsuspend implements account.Store.
func (s *Store) Unsuspend(ctx context.Context, sub string, now time.Time, a account.Audit) error {
	return s.changeAccess(ctx, "unsuspend user", sub, a, func(tx *engine.Tx, u account.User) {
		if !u.Suspended() {
			return
		}
		tx.Exec(`UPDATE users SET suspended_at = 0, suspend_reason = '', updated_at = ?, end_done = 0,
			ends_at = CASE WHEN ends_at > ? THEN ends_at ELSE 0 END WHERE sub = ?`, toUnix(now), s.Now(), sub)
		if u.Ended() {
			end(tx, sub, "", account.Audit{Ends: account.EndsAtReturn}, now)
		}
		insertAudit(tx, a)
	})
}

// LockUser implements account.Store.
func (s *Store) LockUser(ctx context.Context, sub string, unlocks int64, until time.Time) error {
	return s.writeOne(ctx, "lock user", func(db *gorm.DB) error {
		return db.Exec(`UPDATE users SET locked_until = @until WHERE sub = @sub AND unlocks = @unlocks
			AND locked_until < @until AND deleted_at = 0`,
			map[string]any{"until": toUnix(until), "sub": sub, "unlocks": unlocks}).Error
	})
}

// UnlockUser implements account.Store.
func (s *Store) UnlockUser(ctx context.Context, sub string, now time.Time, a account.Audit) error {
	return s.act(ctx, "unlock user", a, func(tx *engine.Tx) {
		clearFailures(tx, sub)
		clearFactorFailures(tx, sub)
		insertAudit(tx, a)
	}, sub)
}

// clearFailures forgets the failed sign-ins of an account.
func clearFailures(tx *engine.Tx, sub string) {
	tx.Expect(tx.Exec("UPDATE users SET unlocks = unlocks + 1, locked_until = 0 WHERE sub = ? AND deleted_at = 0", sub),
		account.ErrUserNotFound)
}

// clearFactorFailures forgets the wrong codes of a second factor.
func clearFactorFailures(tx *engine.Tx, sub string) {
	tx.Exec("UPDATE users SET factor_unlocks = factor_unlocks + 1 WHERE sub = ?", sub)
}

// DeleteUser implements account.Store. Invites come first: they are locked before the counter of
// users. Used ones stay, for the users who came by them. Sessions stay as bare rows until they
// expire: their index says "revoked" and must not be reused.
func (s *Store) DeleteUser(ctx context.Context, sub string, now time.Time, a account.Audit) error {
	return s.changeAccess(ctx, "delete user", sub, a, func(tx *engine.Tx, u account.User) {
		keepAdministrator(tx, a, true, u)
		tx.Exec("UPDATE invites SET note = '', session_id = '', mailed_to = '' WHERE created_by = ?", sub)
		// The address is the user's own, whoever wrote it. Of others who came by the invite it stays.
		var party string
		tx.Find(&party, "SELECT invite FROM users WHERE sub = ?", sub)
		tx.Exec(`UPDATE invites SET mailed_to = '', domain = CASE WHEN domain LIKE '%@%' THEN '' ELSE domain END
			WHERE used_by IN (@sub, @party) AND (used_by = @sub OR lower(mailed_to) = lower(@email))`,
			map[string]any{"sub": sub, "party": party, "email": u.Email})
		out := end(tx, sub, "", a, now) // before the columns that it sets are emptied
		tx.Exec("UPDATE counters SET value = value - 1 WHERE name = 'users'")
		// All columns except the omitted ones, including those of later migrations.
		row := userRow{CreatedAt: toUnix(u.CreatedAt), UpdatedAt: toUnix(now), DeletedAt: toUnix(now)}
		tx.Ran(tx.Table("users").Where("sub = ?", sub).Select("*").Omit("sub", "handle").Updates(&row))
		tx.Exec("UPDATE users SET invited_by = NULL WHERE invited_by = ? AND deleted_at = 0", sub)
		tx.Exec("UPDATE users SET invite = '' WHERE sub = ?", sub)
		removeWords(tx, u.Handle)
		tx.Ran(tx.Table("sessions").Where("sub = ?", sub).Select("*").
			Omit("id", "sub", "expires_at", "ended_at", "status_list", "status_index", "algorithm").
			Updates(&fullSession{}))
		deleteOf(tx, sub, "preferences", "consents", "consent_refusals", "user_flags", "totp", "recovery_codes",
			"former_recovery_codes", "passkeys", "user_pictures", "mail_outbox", "email_changes")
		tx.Exec("UPDATE audit SET address = '' WHERE actor = ?", u.Handle)
		insertAudit(tx, out.noted(a))
	})
}

// HasPasskey implements account.Store.
func (s *Store) HasPasskey(ctx context.Context, sub string, rpIDs []string) (bool, error) {
	var found []int
	err := s.conn(ctx).Raw("SELECT 1 FROM passkeys WHERE sub = ? AND rp_id IN ? LIMIT 1", sub,
		slices.Concat(rpIDs, []string{""})).Find(&found).Error
	return len(found) > 0, fail("look for passkeys", err)
}

// deleteOf deletes the rows of a user from tables.
func deleteOf(tx *engine.Tx, sub string, tables ...string) {
	for _, table := range tables {
		tx.Exec("DELETE FROM "+table+" WHERE sub = ?", sub)
	}
}
