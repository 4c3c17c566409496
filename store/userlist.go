package store

import (
	"context"
	"encoding/json"
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

// fold maps texts that differ in case, in accents or in the form of their characters to one. It is done here because
// databases differ in it.
func fold(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return strings.ToLower(text)
	}
	plain := strings.Map(func(r rune) rune {
		if r >= 0x300 && r < 0x370 { // Combining Diacritical Marks; those of other scripts are letters to readers
			return -1
		}
		return r
	}, norm.NFKD.String(text))
	return norm.NFKC.String(account.Latin.Replace(cases.Fold().String(plain)))
}

// foldCase is fold without accents, as versions before schema 55 indexed words.
func foldCase(text string) string {
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
	at := r.CreatedAt
	if o.column == "" {
		return r.Handle
	} else if o.column == "last_login_at" {
		at = r.LastLoginAt
	}
	return fmt.Sprint(o.name, " ", at, " ", r.Handle)
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

// elements has the elements of a JSON array as value.
var elements = map[string]string{SQLite: "json_each(?)", Postgres: "json_array_elements_text(?::json) AS value"}

const userCount = "SELECT value FROM counters WHERE name = 'users'"

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
	c, err := s.conditionsOf(ctx, q, terms, o, most)
	const columns = "u.handle, u.display_name, u.email, u.created_at, u.last_login_at"
	limit, key := most, keyOf(q)
	if q.Flag != "" && len(terms) > 0 { // few of the keys match: all at once, instead of with each round
		limit = max(most, len(c.keys))
	}
	for err == nil && len(found) < most {
		after, place, wrong := o.after(q.After)
		if wrong != nil {
			return nil, wrong
		}
		users, args, last, before := "users u WHERE "+c.holds+" AND ", c.args, "", len(found)
		if c.in != "" {
			keys := c.keys
			if keys == nil {
				err = s.conn(ctx).Raw("SELECT handle FROM ("+c.rows+") w WHERE handle > ? ORDER BY handle LIMIT ?",
					append(slices.Clone(c.of), q.After, limit+limit/4)...).Find(&keys).Error // some are there twice
				if err != nil {
					return nil, err
				}
				if len(keys) >= limit {
					last = keys[len(keys)-1]
				}
			}
			list, _ := json.Marshal(keys) // one argument: to read thousands takes longer than to find them
			users = "(WITH u AS MATERIALIZED (SELECT " + columns + " FROM " + users + c.in + " IN (SELECT value FROM " +
				elements[s.Dialect()] + ")) SELECT " + columns + " FROM u) u WHERE " // or PostgreSQL reads the order
			args = append(slices.Clone(args), string(list))
		}
		var rows []foundUser
		err = s.conn(ctx).Raw("SELECT "+columns+" FROM "+users+after+o.by()+" LIMIT ?",
			slices.Concat(args, place, []any{limit})...).Find(&rows).Error
		for _, r := range rows {
			if key != "" && strings.HasPrefix(account.HandleKey(r.Handle), key) ||
				hasWords(fold(r.Handle)+" "+fold(r.DisplayName)+" "+fold(r.Email), terms) {
				found = append(found, r)
			}
		}
		if q.After = last; len(rows) == limit {
			q.After = o.place(rows[limit-1])
		} else if last == "" {
			break
		}
		// As many as hold what is missing if it goes on like this, and a fourth more.
		limit = min(4*limit, limit*5*(most-len(found))/(4*max(len(found)-before, 1))+1, searchRows)
	}
	return found[:min(len(found), most)], err
}

// Users implements account.Store.
func (s *Store) Users(ctx context.Context, q account.UserQuery) ([]account.User, string, error) {
	// One more than the page holds shows whether there is a next page.
	found, err := s.matchingUsers(ctx, q, pageSize(q.Limit)+1)
	if err != nil {
		return nil, "", fail("list users", err)
	}
	return s.page(ctx, q, found)
}

// page returns the page that begins with the found users, of whom one more than it has is enough.
func (s *Store) page(ctx context.Context, q account.UserQuery, found []foundUser) ([]account.User, string, error) {
	size, next := pageSize(q.Limit), ""
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
	err := s.conn(ctx).Raw("SELECT "+userColumns+" FROM users u WHERE u.deleted_at = 0 AND u.handle IN ?",
		slices.Collect(maps.Keys(at))).Find(&rows).Error
	slices.SortFunc(rows, func(a, b storedUser) int { return at[a.Row.Handle] - at[b.Row.Handle] })
	return each(rows, func(u storedUser) account.User { return u.userAt(s.Now()) }), next, fail("list users", err)
}

// CountUsers implements account.Store. Most pages are among the users that are counted.
func (s *Store) CountUsers(ctx context.Context, q account.UserQuery) (p account.UserPage, err error) {
	all, o, found := q, orderOf(q), []foundUser(nil)
	if all.Sort, all.After, all.Limit = "", "", 0; all == (account.UserQuery{}) {
		p.Exact, err = true, s.conn(ctx).Raw(userCount).Find(&p.Total).Error
	} else {
		all.Sort = q.Sort
		found, err = s.matchingUsers(ctx, all, account.ManyFound)
		p.Total, p.Exact = len(found), len(found) < account.ManyFound
	}
	at := slices.IndexFunc(found, func(f foundUser) bool { return o.place(f) == q.After }) + 1
	switch {
	case err != nil:
		return p, fail("count users", err)
	case (at > 0 || q.After == "" && p.Total == len(found)) && (p.Exact || at+pageSize(q.Limit) < len(found)):
		p.Users, p.Next, err = s.page(ctx, q, found[at:])
	default:
		p.Users, p.Next, err = s.Users(ctx, q)
	}
	return p, err
}
