package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/account"
)

// condition is a filter of a list of users.
type condition struct {
	holds string // on a row u of users, in a form that planners never turn into a join or an index scan
	set   string // selects the handles of the matching users along an index
	size  string // FROM and WHERE of the query that counts the set
	args  []any
}

// conditionsOf returns the filters of a query. Planners that have to guess take <> 0 and < 1 for
// conditions that most rows meet.
func conditionsOf(q account.UserQuery) (list []condition) {
	if q.Flag != "" {
		list = append(list, condition{
			"coalesce((SELECT 1 FROM user_flags f WHERE f.sub = u.sub AND f.flag = ? LIMIT 1), 0) <> 0",
			"m.handle FROM user_flags f JOIN users m ON m.sub = f.sub WHERE f.flag = ?",
			"FROM user_flags WHERE flag = ?", []any{sanitize(q.Flag)},
		})
	}
	of := func(holds, indexed string) {
		list = append(list, condition{holds, "handle FROM users WHERE " + indexed, "FROM users WHERE " + indexed, nil})
	}
	if q.Suspended {
		of("u.suspended_at + 0 > 0", "suspended_at > 0")
	}
	if q.NeverSignedIn {
		of("u.last_login_at + 0 < 1", "last_login_at = 0 AND deleted_at = 0")
	}
	if q.NoSecondFactor {
		of("coalesce(u.second_factor, NOT u.second_factor) <> (1 = 1)", "NOT second_factor AND deleted_at = 0")
	}
	return list
}

// conditionOfTerm is the condition that a user has a word with this prefix.
func conditionOfTerm(term string) condition {
	return condition{
		`coalesce((SELECT 1 FROM user_words o
			WHERE o.handle = u.handle AND o.word >= ? AND o.word < ? LIMIT 1), 0) <> 0`,
		"DISTINCT handle FROM user_words WHERE word >= ? AND word < ?",
		"FROM user_words WHERE word >= ? AND word < ?", []any{term, term + lastRune},
	}
}

// maxSorted is up to how many matching users are read to be sorted or counted. With more, a walk
// along the order soon finds a page of them.
const maxSorted = 2_000

// mostSelective returns the condition that the fewest users meet, and how many do, counted up to
// maxCounted.
func (s *Store) mostSelective(ctx context.Context, list []condition) (at int, size int64, err error) {
	size = maxCounted + 1
	for i, c := range list {
		var n int64
		err := s.conn(ctx).Raw("SELECT count(*) FROM (SELECT 1 "+c.size+" LIMIT ?) found",
			append(slices.Clone(c.args), maxCounted)...).Find(&n).Error
		if err != nil {
			return 0, 0, err
		}
		if n < size {
			at, size = i, n
		}
	}
	return at, size, nil
}

// userOrder is an order of users: newest first by a column, or by handle if the column is empty.
type userOrder struct{ name, column string }

func orderOf(q account.UserQuery) userOrder {
	switch {
	case q.Sort == account.SortNewest:
		return userOrder{q.Sort, "created_at"}
	case q.Sort == account.SortLastSignIn && !q.NeverSignedIn: // else all have the same value
		return userOrder{q.Sort, "last_login_at"}
	}
	return userOrder{}
}

func (o userOrder) by(table string) string {
	if o.column == "" {
		return " ORDER BY " + table + ".handle"
	}
	return " ORDER BY " + table + "." + o.column + " DESC, " + table + ".handle DESC"
}

// after returns the condition that a user comes after a place in the order.
func (o userOrder) after(place string) (holds string, args []any, err error) {
	if place == "" {
		return "1 = 1", nil, nil
	}
	handle := place
	if o.column != "" {
		part := strings.Split(place, " ")
		if len(part) != 3 || part[0] != o.name {
			return "", nil, account.ErrInvalidCursor
		}
		at, err := strconv.ParseInt(part[1], 10, 64)
		if err != nil || at < 0 {
			return "", nil, account.ErrInvalidCursor
		}
		handle, holds, args = part[2], "(u."+o.column+", u.handle) < (?, ?)", []any{at}
	} else {
		holds = "u.handle > ?"
	}
	if h, err := account.CanonicalHandle(handle); err != nil || h != handle {
		return "", nil, account.ErrInvalidCursor
	}
	return holds, append(args, handle), nil
}

func (o userOrder) place(r userRow) string {
	switch o.column {
	case "created_at":
		return fmt.Sprint(o.name, " ", r.CreatedAt, " ", r.Handle)
	case "last_login_at":
		return fmt.Sprint(o.name, " ", r.LastLoginAt, " ", r.Handle)
	}
	return r.Handle
}

// Users implements account.Store. If few users meet one of the conditions, these are read and
// sorted. Otherwise it walks along the words of the query, or along the order, until the page is
// full.
func (s *Store) Users(ctx context.Context, q account.UserQuery) ([]account.User, string, error) {
	const doing = "list users"
	terms, list := termsOf(q.Query), conditionsOf(q)
	if terms == nil && strings.TrimSpace(q.Query) != "" {
		return []account.User{}, "", nil
	}
	ofWords := strings.Count(q.After, " ") == 2 && q.After[0] <= '9'
	if len(terms) > 0 && (len(list) == 0 || ofWords) {
		users, next, err := s.findUsers(ctx, q, terms, list)
		return users, next, fail(doing, err)
	}
	at, size, err := s.mostSelective(ctx, list)
	switch {
	case err != nil:
	case len(list) > 0 && (size <= maxSorted || len(terms) > 0 && q.After != ""):
		for _, t := range terms {
			list = append(list, conditionOfTerm(t))
		}
		users, next, err := s.sortUsers(ctx, q, list, at)
		return users, next, fail(doing, err)
	case len(terms) > 0:
		users, next, err := s.findUsers(ctx, q, terms, list)
		return users, next, fail(doing, err)
	default:
		users, next, err := s.walkUsers(ctx, q, list)
		return users, next, fail(doing, err)
	}
	return nil, "", fail(doing, err)
}

// walkUsers walks along the order.
func (s *Store) walkUsers(ctx context.Context, q account.UserQuery, list []condition) ([]account.User, string, error) {
	o := orderOf(q)
	holds, args, err := o.after(q.After)
	if err != nil {
		return nil, "", err
	}
	for _, c := range list {
		holds, args = holds+" AND "+c.holds, append(args, c.args...)
	}
	return s.pageOfUsers(ctx, q, o, "SELECT u.handle FROM users u WHERE u.deleted_at = 0 AND "+holds+o.by("u"), args)
}

// sortUsers reads and sorts the users who meet the condition at. It uses scalar subqueries like
// findUsers.
func (s *Store) sortUsers(
	ctx context.Context, q account.UserQuery, list []condition, at int,
) ([]account.User, string, error) {
	o := orderOf(q)
	after, args, err := o.after(q.After)
	if err != nil {
		return nil, "", err
	}
	set, with := usersOfSet(list, at, after, args)
	order := " ORDER BY u.handle"
	if o.column != "" {
		order = " ORDER BY (SELECT k." + o.column + " FROM users k WHERE k.handle = u.handle) DESC, u.handle DESC"
	}
	return s.pageOfUsers(ctx, q, o, set+order, with)
}

// usersOfSet selects the users who meet the condition at, the others of the list, and also.
func usersOfSet(list []condition, at int, also string, args []any) (string, []any) {
	all, holds := slices.Clone(list[at].args), "u.deleted_at = 0 AND "+also
	all = append(all, args...)
	for i, c := range list {
		if i != at {
			holds, all = holds+" AND "+c.holds, append(all, c.args...)
		}
	}
	return `SELECT u.handle FROM (SELECT ` + list[at].set + `) u
		WHERE coalesce((SELECT 1 FROM users u0 WHERE u0.handle = u.handle AND ` +
		strings.ReplaceAll(holds, "u.", "u0.") + ` LIMIT 1), 0) <> 0`, all
}

// pageOfUsers reads the users of a page; the query handles selects their handles in order.
func (s *Store) pageOfUsers(
	ctx context.Context, q account.UserQuery, o userOrder, handles string, args []any,
) ([]account.User, string, error) {
	// One more than the page holds shows whether there is a next page.
	size := pageSize(q.Limit)
	var rows []storedUser
	query := "SELECT " + userColumns + " FROM (" + handles + " LIMIT ?) p JOIN users u ON u.handle = p.handle"
	query += o.by("u")
	err := s.conn(ctx).Raw(query, append(args, size+1)...).Find(&rows).Error
	next := ""
	if len(rows) > size {
		rows = rows[:size]
		next = o.place(rows[size-1].Row)
	}
	return each(rows, storedUser.user), next, err
}

// CountUsers implements account.Store.
func (s *Store) CountUsers(ctx context.Context, q account.UserQuery) (n int, exact bool, err error) {
	const doing = "count users"
	terms, list := termsOf(q.Query), conditionsOf(q)
	if terms == nil && strings.TrimSpace(q.Query) != "" {
		return 0, true, nil
	}
	for _, t := range terms {
		list = append(list, conditionOfTerm(t))
	}
	var count int64
	if len(list) == 0 {
		err := s.conn(ctx).Raw("SELECT value FROM counters WHERE name = 'users'").Find(&count).Error
		return int(count), true, fail(doing, err)
	}
	at, size, err := s.mostSelective(ctx, list)
	switch {
	case err != nil:
		return 0, false, fail(doing, err)
	case size <= maxSorted:
		query, args := usersOfSet(list, at, "1 = 1", nil)
		err := s.conn(ctx).Raw("SELECT count(*) FROM ("+query+") found", args...).Find(&count).Error
		return int(count), true, fail(doing, err)
	case len(list) == 1 && len(terms) == 0:
		return int(size), size < maxCounted, nil
	}
	return 0, false, nil
}
