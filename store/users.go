package store

import (
	"context"
	"slices"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
)

// userRow is what userColumns selects.
type userRow struct {
	Sub           string
	Handle        string
	DisplayName   string
	Email         string
	EmailVerified bool
	PasswordHash  string
	SuspendedAt   int64
	SuspendReason string
	UserCreatedAt int64
	UserUpdatedAt int64
	LastLoginAt   int64
	Inviter       string
	Flags         string
	Profile       account.Profile `gorm:"serializer:json"`
}

// userColumns is a whole user in one row; the table is named u. Who was deleted
// is no longer named as the one who invited.
const userColumns = `u.sub, u.handle, u.display_name, u.email, u.email_verified, u.password_hash,
	u.suspended_at, u.suspend_reason, u.created_at AS user_created_at, u.updated_at AS user_updated_at, u.last_login_at, u.profile,
	coalesce((SELECT i.handle FROM users i WHERE i.sub = u.invited_by AND i.deleted_at = 0), '') AS inviter,
	coalesce((SELECT string_agg(f.flag, ' ') FROM user_flags f WHERE f.sub = u.sub), '') AS flags`

func (r userRow) user() account.User {
	u := account.User{
		Sub: r.Sub, Handle: r.Handle, DisplayName: r.DisplayName, Email: r.Email, EmailVerified: r.EmailVerified,
		PasswordHash: r.PasswordHash, Flags: strings.Fields(r.Flags), SuspendedAt: moment(r.SuspendedAt), SuspendReason: r.SuspendReason,
		CreatedAt: moment(r.UserCreatedAt), UpdatedAt: moment(r.UserUpdatedAt), LastLoginAt: moment(r.LastLoginAt), InvitedBy: r.Inviter, Profile: r.Profile,
	}
	slices.Sort(u.Flags)
	return u
}

const (
	selectUserBySub    = "SELECT " + userColumns + " FROM users u WHERE u.sub = ? AND u.deleted_at = 0"
	selectUserByHandle = "SELECT " + userColumns + " FROM users u WHERE u.handle = ? AND u.deleted_at = 0"
)

func userBy(db *gorm.DB, query, key string) (account.User, error) {
	if odd(key) {
		return account.User{}, account.ErrUserNotFound
	}
	var row userRow
	if err := expect(db.Raw(query, key).Find(&row), account.ErrUserNotFound); err != nil {
		return account.User{}, err
	}
	return row.user(), nil
}

// UserByHandle implements account.Store.
func (s *Store) UserByHandle(ctx context.Context, handle string) (account.User, error) {
	u, err := userBy(s.conn(ctx), selectUserByHandle, handle)
	return u, fail("user by handle", err)
}

// UserBySub implements account.Store.
func (s *Store) UserBySub(ctx context.Context, sub string) (account.User, error) {
	u, err := userBy(s.conn(ctx), selectUserBySub, sub)
	return u, fail("user by sub", err)
}

// maxRows is a page where the caller gives no size.
const maxRows = 1000

func pageSize(limit int) int {
	if limit <= 0 {
		return maxRows
	}
	return limit
}

// Users implements account.Store.
func (s *Store) Users(ctx context.Context, q account.UserQuery) (users []account.User, next string, err error) {
	if strings.TrimSpace(q.Query) != "" {
		users, next, err = s.findUsers(ctx, q)
	} else {
		users, next, err = s.listUsers(ctx, q)
	}
	if err != nil {
		return nil, "", fail("list users", err)
	}
	return users, next, nil
}

func (s *Store) listUsers(ctx context.Context, q account.UserQuery) ([]account.User, string, error) {
	// One more than the page has tells whether there is another one.
	size := pageSize(q.Limit)
	var rows []userRow
	err := s.conn(ctx).Raw("SELECT "+userColumns+" FROM users u WHERE u.deleted_at = 0 AND u.handle > ? ORDER BY u.handle LIMIT ?", storable(q.After), size+1).Find(&rows).Error
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(rows) > size {
		rows = rows[:size]
		next = rows[size-1].Handle
	}
	out := make([]account.User, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.user())
	}
	return out, next, nil
}

type newUser struct {
	Sub           string
	Handle        string
	DisplayName   string
	Email         string
	EmailVerified bool
	PasswordHash  string
	Search        string // empty: its words are made
	InvitedBy     *string
	CreatedAt     int64 `gorm:"autoCreateTime:false"`
	UpdatedAt     int64 `gorm:"autoUpdateTime:false"`
	LastLoginAt   int64
	Profile       string
}

type flagRow struct{ Sub, Flag string }

// insertUser adds a user, with the words by which they are found; a handle is taken for
// ever, also by who was deleted. inviter is a sub or empty, limit how many users there
// may be (0: no limit).
func insertUser(tx *gorm.DB, u account.User, inviter string, limit int) error {
	if err := countUser(tx, limit); err != nil {
		return err
	}
	profile, err := profileText(u.Profile)
	if err != nil {
		return err
	}
	row := newUser{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified, PasswordHash: u.PasswordHash,
		CreatedAt: seconds(u.CreatedAt), UpdatedAt: seconds(u.UpdatedAt), LastLoginAt: seconds(u.LastLoginAt), Profile: profile,
	}
	if inviter != "" {
		row.InvitedBy = &inviter
	}
	// A failed INSERT would end the transaction on PostgreSQL.
	once := clause.OnConflict{Columns: []clause.Column{{Name: "handle"}}, DoNothing: true}
	if err := expect(tx.Table("users").Clauses(once).Create(&row), account.ErrHandleTaken); err != nil {
		return err
	}
	if err := setWords(tx, u.Handle, wordsOf(u)); err != nil {
		return err
	}
	return addFlags(tx, u.Sub, u.Flags)
}

func addFlags(tx *gorm.DB, sub string, flags []string) error {
	rows := make([]flagRow, 0, len(flags))
	for _, f := range flags {
		rows = append(rows, flagRow{sub, f})
	}
	if len(rows) == 0 {
		return nil
	}
	return tx.Table("user_flags").Clauses(clause.OnConflict{DoNothing: true}).Create(&rows).Error
}

// CreateUser implements account.Store.
func (s *Store) CreateUser(ctx context.Context, u account.User, a account.Audit) error {
	return s.write(ctx, "create user", func(tx *gorm.DB) error {
		if err := insertUser(tx, u, "", 0); err != nil {
			return err
		}
		return insertAudit(tx, a)
	})
}

// lockUser makes every other deed on the same user wait for the end of the
// transaction. All deeds take this lock before rows of the user, so that they
// cannot wait for one another in a circle. ErrUserNotFound.
func lockUser(tx *gorm.DB, sub string) error {
	if odd(sub) {
		return account.ErrUserNotFound
	}
	return expect(tx.Exec("UPDATE users SET updated_at = updated_at WHERE sub = ? AND deleted_at = 0", sub), account.ErrUserNotFound)
}
