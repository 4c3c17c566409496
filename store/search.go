package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
)

// words returns the words of texts, each once and sorted: maximal runs of letters, digits, marks
// and symbols. They are case-folded and normalized here, because databases differ in it.
func words(texts ...string) []string {
	var out []string
	for _, t := range texts {
		folded := norm.NFKC.String(cases.Fold().String(norm.NFKC.String(t)))
		out = append(out,
			strings.FieldsFunc(folded,
				func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.So) })...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func wordsOf(u account.User) []string { return words(u.Handle, u.DisplayName, u.Email) }

// setWords replaces the indexed words of a user. Every write of handle, display name or email calls
// it, with the user's row locked.
func setWords(tx *transaction, handle string, now []string) error {
	var before []string
	if err := tx.Raw("SELECT word FROM user_words WHERE handle = ?", handle).Find(&before).Error; err != nil {
		return err
	}
	gone := slices.DeleteFunc(slices.Clone(before), func(w string) bool { return slices.Contains(now, w) })
	if len(gone) > 0 {
		if err := tx.Exec("DELETE FROM user_words WHERE handle = ? AND word IN ?", handle, gone).Error; err != nil {
			return err
		}
	}
	var added []userWord
	for _, w := range now {
		if !slices.Contains(before, w) {
			added = append(added, userWord{w, handle})
		}
	}
	return addWords(tx, added)
}

type userWord struct{ Word, Handle string }

func addWords(tx *transaction, rows []userWord) error {
	if len(rows) == 0 {
		return nil
	}
	const atOnce = 1000
	return tx.Table("user_words").Clauses(clause.OnConflict{DoNothing: true}).CreateInBatches(&rows, atOnce).Error
}

// lastRune sorts after every word and is part of none.
const lastRune = "\U0010FFFF"

// maxCounted bounds the count of users or words that meet a condition.
const maxCounted int64 = account.ManyUsers

// place is the end of a page of found users: the word of the query along which the list is read,
// and the last user's word and handle.
type place struct {
	term         int
	word, handle string
}

func (p place) String() string { return fmt.Sprintf("%d %s %s", p.term, p.word, p.handle) }

// placeOf parses a place in the list for these words of a query.
func placeOf(s string, terms []string) (place, error) {
	part := strings.Split(s, " ")
	if len(part) != 3 || invalidKey(s) {
		return place{}, account.ErrInvalidCursor
	}
	n, err := strconv.Atoi(part[0])
	if err != nil || n < 0 || n >= len(terms) || !strings.HasPrefix(part[1], terms[n]) || part[2] == "" {
		return place{}, account.ErrInvalidCursor
	}
	return place{n, part[1], part[2]}, nil
}

// termsOf returns the words of a query, nil if it has none. It drops each prefix of another word.
func termsOf(query string) []string {
	terms := words(query)
	return slices.DeleteFunc(terms, func(t string) bool {
		return slices.ContainsFunc(terms,
			func(longer string) bool { return longer != t && strings.HasPrefix(longer, t) })
	})
}

// findUsers finds the users who meet the conditions and have, for each word of the query, a word
// with that prefix. It walks along the words with the rarest of these prefixes and looks the others
// up. Each user is found at the first of their words in that order.
func (s *Store) findUsers(
	ctx context.Context, q account.UserQuery, terms []string, list []condition,
) ([]account.User, string, error) {
	at, err := place{}, error(nil)
	if q.After != "" {
		at, err = placeOf(q.After, terms)
	} else {
		at.term, err = s.rarest(ctx, terms)
	}
	if err != nil {
		return nil, "", err
	}
	// PostgreSQL does not turn scalar subqueries into joins: it should look up each word that it
	// passes until the page is full. It takes = and IS NULL for rare and <> for common; if it
	// expected to pass few words, it would read and sort them all.
	term := terms[at.term]
	if q.After == "" {
		at.word = term // PostgreSQL uses only one of two bounds to start reading
	}
	query := `SELECT w.word, w.handle FROM user_words w
		WHERE w.word >= ? AND w.word < ? AND (w.word, w.handle) > (?, ?)
		AND coalesce((SELECT 1 FROM user_words e
			WHERE e.handle = w.handle AND e.word >= ? AND e.word < w.word LIMIT 1), 0) <> 1`
	args := []any{term, term + lastRune, at.word, at.handle, term}
	for i, other := range terms {
		if i != at.term {
			query += ` AND coalesce((SELECT 1 FROM user_words o
				WHERE o.handle = w.handle AND o.word >= ? AND o.word < ? LIMIT 1), 0) <> 0`
			args = append(args, other, other+lastRune)
		}
	}
	if len(list) > 0 {
		query += " AND coalesce((SELECT 1 FROM users u WHERE u.handle = w.handle"
		for _, c := range list {
			query, args = query+" AND "+c.holds, append(args, c.args...)
		}
		query += " LIMIT 1), 0) <> 0"
	}
	// One more than the page holds shows whether there is a next page.
	size := pageSize(q.Limit)
	var found []struct {
		Word string
		User storedUser `gorm:"embedded"`
	}
	query = "SELECT w.word, " + userColumns + " FROM (" + query + ` ORDER BY w.word, w.handle LIMIT ?) w
		JOIN users u ON u.handle = w.handle ORDER BY w.word, w.handle`
	if err := s.conn(ctx).Raw(query, append(args, size+1)...).Find(&found).Error; err != nil {
		return nil, "", err
	}
	next := ""
	if len(found) > size {
		found = found[:size]
		next = place{at.term, found[size-1].Word, found[size-1].User.Row.Handle}.String()
	}
	users := make([]account.User, 0, len(found))
	for _, f := range found {
		if f.User.Row.DeletedAt == 0 { // an earlier version leaves the words of users that it deletes
			users = append(users, f.User.user())
		}
	}
	return users, next, nil
}

// rarest returns the word of a query that is a prefix of the fewest words.
func (s *Store) rarest(ctx context.Context, terms []string) (int, error) {
	if len(terms) == 1 {
		return 0, nil
	}
	best, least := 0, maxCounted+1
	for i, t := range terms {
		var n int64
		err := s.conn(ctx).Raw(`SELECT count(*)
			FROM (SELECT 1 FROM user_words WHERE word >= ? AND word < ? LIMIT ?) found`,
			t, t+lastRune, maxCounted).Find(&n).Error
		if err != nil {
			return 0, err
		}
		if n < least {
			best, least = i, n
		}
	}
	return best, nil
}

// makeWords indexes the words of users whose row an earlier version has written: all of them with
// the migration, later those that an instance of such a version writes beside this one. It then
// counts the users, which that version did not.
func (s *Store) makeWords(ctx context.Context, run batcher) error {
	const doing = "make words"
	lock, after, made := "", "", false
	if s.dialect == Postgres {
		lock = " FOR UPDATE"
	}
	err := run(ctx, doing, func(b *batch) (more bool, err error) {
		var rows []userRow
		err = s.conn(ctx).Raw(`SELECT handle FROM users WHERE search <> '' AND handle > ?
			ORDER BY handle LIMIT 1`, after).Find(&rows).Error
		if err != nil || len(rows) == 0 {
			return false, fail(doing, err)
		}
		made = true
		err = b.write(func(tx *transaction) error {
			rows = nil
			err := tx.Raw(`SELECT handle, display_name, email, deleted_at FROM users
				WHERE search <> '' AND handle > ? ORDER BY handle LIMIT ?`+lock, after, b.rows).Find(&rows).Error
			if err != nil || len(rows) == 0 {
				return err
			}
			var all []userWord
			for _, r := range rows {
				if r.DeletedAt == 0 {
					for _, w := range words(r.Handle, r.DisplayName, r.Email) {
						all = append(all, userWord{w, r.Handle})
					}
				}
			}
			slices.SortFunc(all, func(a, b userWord) int {
				return cmp.Or(cmp.Compare(a.Word, b.Word), cmp.Compare(a.Handle, b.Handle))
			})
			handles := each(rows, func(r userRow) string { return r.Handle })
			if err := tx.Exec("DELETE FROM user_words WHERE handle IN ?", handles).Error; err != nil {
				return err
			}
			if err := addWords(tx, all); err != nil {
				return err
			}
			return tx.Exec("UPDATE users SET search = '' WHERE handle IN ?", handles).Error
		})
		if len(rows) > 0 {
			after = rows[len(rows)-1].Handle
		}
		return true, err
	})
	if err != nil || !made {
		return err
	}
	return s.write(ctx, "count users", func(tx *transaction) error {
		// The counter is locked before the users are counted: a registration changes it first.
		if err := tx.Exec("UPDATE counters SET value = value WHERE name = 'users'").Error; err != nil {
			return err
		}
		return tx.Exec(`UPDATE counters SET value = (SELECT count(*) FROM users WHERE deleted_at = 0)
			WHERE name = 'users'`).Error
	})
}
