package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/cairn-id/cairn/account"
)

// fold maps texts that differ in case or in the form of their characters to one. It is done here
// because databases differ in it.
func fold(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return strings.ToLower(text)
	}
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(text)))
}

// notOfWord reports whether a word ends before a rune: words are maximal runs of letters, digits,
// marks and symbols. So no word has a wildcard of LIKE.
func notOfWord(r rune) bool { return !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.So) }

// hasWords reports whether a folded text has, for each term, a word that begins with it.
func hasWords(text string, terms []string) bool {
	return !slices.ContainsFunc(terms, func(term string) bool {
		for rest := " " + text; ; {
			before, after, found := strings.Cut(rest, term)
			if !found {
				return true
			}
			if last, size := utf8.DecodeLastRuneInString(before); size > 0 && notOfWord(last) {
				return false
			}
			rest = after
		}
	})
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

func (o userOrder) by() string {
	if o.column == "" {
		return " ORDER BY u.handle"
	}
	return " ORDER BY u." + o.column + " DESC, u.handle DESC"
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

func (o userOrder) place(r foundUser) string {
	switch o.column {
	case "created_at":
		return fmt.Sprint(o.name, " ", r.CreatedAt, " ", r.Handle)
	case "last_login_at":
		return fmt.Sprint(o.name, " ", r.LastLoginAt, " ", r.Handle)
	}
	return r.Handle
}

// filtersOf returns the conditions of a query on a row u of users, without those of its words and flag.
func (s *Store) filtersOf(q account.UserQuery) (holds string, args []any) {
	holds = "u.deleted_at = 0"
	now := s.Now()
	if q.Suspended {
		holds, args = holds+" AND (u.suspended_at > 0 OR u.ends_at > 0 AND u.ends_at <= ?)", append(args, now)
	}
	if !q.EndingBy.IsZero() {
		holds += ` AND u.suspended_at = 0 AND u.sub IN (SELECT sub FROM users
			WHERE ends_at > ? AND ends_at <= ? AND ends_at > 0 AND suspended_at = 0
			UNION ALL SELECT sub FROM user_flags WHERE ends_at > ? AND ends_at <= ? AND ends_at > 0)`
		args = append(args, now, toUnix(q.EndingBy), now, toUnix(q.EndingBy))
	}
	if q.InvitedBy != "" {
		holds += " AND u.invited_by IN (SELECT u.sub FROM users u WHERE " + handleKey + " = ?)"
		args = append(args, sanitize(account.HandleKey(q.InvitedBy)))
	}
	if !q.NotSince.IsZero() {
		holds += " AND u.last_login_at < ? AND u.created_at < ?"
		args = append(args, toUnix(q.NotSince), toUnix(q.NotSince))
	}
	if q.App != "" {
		holds += ` AND u.sub IN (SELECT sub FROM consents WHERE client_id = ?
			UNION SELECT sub FROM grants WHERE client_id = ?)`
		args = append(args, sanitize(q.App), sanitize(q.App))
	}
	if q.NeverSignedIn {
		holds += " AND u.last_login_at = 0"
	}
	if q.NoSecondFactor {
		holds += ` AND NOT u.second_factor AND NOT (EXISTS (SELECT 1 FROM passkeys p WHERE p.sub = u.sub) AND
			EXISTS (SELECT 1 FROM user_flags f WHERE f.sub = u.sub AND f.flag IN ? AND ` + flagInForce + "))"
		args = append(args, append(strings.Fields(q.Demanding), ""), now)
	}
	return holds, args
}

// keyOf returns what the keys of handles begin with that a query finds, or "". The key of a.b is found by
// ab and by a.b.
func keyOf(q account.UserQuery) string {
	handle, err := account.CanonicalHandle(q.Query)
	if err != nil {
		return ""
	}
	return account.HandleKey(handle)
}

// searchRows is how many users are read at once at most; at first it is as many as are wanted.
const searchRows = 16_000

// foundUser is what finds and orders a user.
type foundUser struct {
	Handle, DisplayName, Email string
	CreatedAt, LastLoginAt     int64
}

// matchingUsers returns the first users who match a query, at most most. It reads the users in order
// until it has found so many.
func (s *Store) matchingUsers(ctx context.Context, q account.UserQuery, most int) (found []foundUser, err error) {
	terms, o := strings.FieldsFunc(fold(q.Query), notOfWord), orderOf(q)
	if len(terms) == 0 && strings.TrimSpace(q.Query) != "" {
		return nil, nil
	}
	c, err := s.conditionsOf(ctx, q, terms, o)
	limit, key := most, keyOf(q)
	for err == nil && len(found) < most {
		after, place, err := o.after(q.After)
		if err != nil {
			return nil, err
		}
		holds, args, last := c.holds, c.args, ""
		if c.in != "" {
			keys := c.keys
			if c.in == "u.handle" && o.column == "" {
				at, _ := slices.BinarySearch(keys, q.After+"\x00")
				if keys = keys[at:]; len(keys) > limit {
					keys = keys[:limit]
					last = keys[limit-1]
				}
			}
			if len(keys) == 0 {
				break
			}
			holds, args = holds+" AND "+c.in+" IN ?", append(slices.Clone(args), keys)
		}
		var rows []foundUser
		err = s.conn(ctx).Raw("SELECT u.handle, u.display_name, u.email, u.created_at, u.last_login_at"+
			" FROM users u WHERE "+
			holds+" AND "+after+o.by()+" LIMIT ?", slices.Concat(args, place, []any{limit})...).Find(&rows).Error
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if key != "" && strings.HasPrefix(account.HandleKey(r.Handle), key) ||
				hasWords(fold(r.Handle)+" "+fold(r.DisplayName)+" "+fold(r.Email), terms) {
				found = append(found, r)
			}
		}
		switch {
		case last != "":
			q.After = last
		case len(rows) < limit:
			return found[:min(len(found), most)], nil
		default:
			q.After = o.place(rows[limit-1])
		}
		limit = min(4*limit, searchRows)
	}
	return found[:min(len(found), most)], err
}

// Users implements account.Store.
func (s *Store) Users(ctx context.Context, q account.UserQuery) ([]account.User, string, error) {
	const doing = "list users"
	// One more than the page holds shows whether there is a next page.
	size, next := pageSize(q.Limit), ""
	found, err := s.matchingUsers(ctx, q, size+1)
	if err != nil {
		return nil, "", fail(doing, err)
	}
	if len(found) > size {
		found = found[:size]
		next = orderOf(q).place(found[size-1])
	}
	at := make(map[string]int, len(found))
	for i, f := range found {
		at[f.Handle] = i
	}
	// Sorted here: for an ORDER BY PostgreSQL may read all users along the order.
	var rows []storedUser
	err = s.conn(ctx).Raw("SELECT "+userColumns+" FROM users u WHERE u.deleted_at = 0 AND u.handle IN ?",
		slices.Collect(maps.Keys(at))).Find(&rows).Error
	slices.SortFunc(rows, func(a, b storedUser) int { return at[a.Row.Handle] - at[b.Row.Handle] })
	return each(rows, func(u storedUser) account.User { return u.userAt(s.Now()) }), next, fail(doing, err)
}

// CountUsers implements account.Store.
func (s *Store) CountUsers(ctx context.Context, q account.UserQuery) (n int, exact bool, err error) {
	const doing = "count users"
	q.Sort, q.After, q.Limit = "", "", 0
	if q == (account.UserQuery{}) {
		err := s.conn(ctx).Raw("SELECT value FROM counters WHERE name = 'users'").Find(&n).Error
		return n, true, fail(doing, err)
	}
	found, err := s.matchingUsers(ctx, q, account.ManyFound)
	return len(found), err == nil && len(found) < account.ManyFound, fail(doing, err)
}
