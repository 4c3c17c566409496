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
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
)

// words are the words of texts, each once, in their order: what is between
// characters that are neither letters nor digits, marks or pictures. They are folded,
// so that texts are alike that differ in case or in how accents are composed. It is
// done here because databases differ in it.
func words(texts ...string) []string {
	var out []string
	for _, t := range texts {
		folded := norm.NFKC.String(cases.Fold().String(norm.NFKC.String(t)))
		out = append(out, strings.FieldsFunc(folded, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.So) })...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func wordsOf(u account.User) []string { return words(u.Handle, u.DisplayName, u.Email) }

// setWords replaces the words of a user: every write of handle, display name or email
// calls it. The row of the user is locked.
func setWords(tx *gorm.DB, handle string, now []string) error {
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

func addWords(tx *gorm.DB, rows []userWord) error {
	if len(rows) == 0 {
		return nil
	}
	const atOnce = 1000
	return tx.Table("user_words").Clauses(clause.OnConflict{DoNothing: true}).CreateInBatches(&rows, atOnce).Error
}

// afterAll is no part of a word, and behind all that is.
const afterAll = "\U0010FFFF"

// common is how many words with a beginning are counted at most.
const common int64 = account.ManyUsers

// place is where a page of found users ended: the word of the query that the list
// follows, and the user's word and handle.
type place struct {
	term         int
	word, handle string
}

func (p place) String() string { return fmt.Sprintf("%d %s %s", p.term, p.word, p.handle) }

// placeOf reads a place in a list for these words of a query.
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

// termsOf are the words of a query, nil for none. Who has a word that begins with "anna"
// has one that begins with "an".
func termsOf(query string) []string {
	terms := words(query)
	return slices.DeleteFunc(terms, func(t string) bool {
		return slices.ContainsFunc(terms, func(longer string) bool { return longer != t && strings.HasPrefix(longer, t) })
	})
}

// findUsers finds the users with a word for each word of the query that begins with
// it, for whom the conditions hold. It goes along the words with the rarest of these beginnings and looks the others
// up; each user is found at the first of their words in that order.
func (s *Store) findUsers(ctx context.Context, q account.UserQuery, terms []string, list []condition) ([]account.User, string, error) {
	at, err := place{}, error(nil)
	if q.After != "" {
		at, err = placeOf(q.After, terms)
	} else {
		at.term, err = s.rarest(ctx, terms)
	}
	if err != nil {
		return nil, "", err
	}
	// Scalar subqueries, of which PostgreSQL makes no join: a look-up for each word that
	// is passed is what is wanted, until the page is full. It takes = and IS NULL for rare
	// and <> for common; were few words to pass, it would read and sort them all.
	term := terms[at.term]
	if q.After == "" {
		at.word = term // where PostgreSQL begins to read: it takes but one of two bounds
	}
	query := `SELECT w.word, w.handle FROM user_words w WHERE w.word >= ? AND w.word < ? AND (w.word, w.handle) > (?, ?)
		AND coalesce((SELECT 1 FROM user_words e WHERE e.handle = w.handle AND e.word >= ? AND e.word < w.word LIMIT 1), 0) <> 1`
	args := []any{term, term + afterAll, at.word, at.handle, term}
	for i, other := range terms {
		if i != at.term {
			query += " AND coalesce((SELECT 1 FROM user_words o WHERE o.handle = w.handle AND o.word >= ? AND o.word < ? LIMIT 1), 0) <> 0"
			args = append(args, other, other+afterAll)
		}
	}
	if len(list) > 0 {
		query += " AND coalesce((SELECT 1 FROM users u WHERE u.handle = w.handle"
		for _, c := range list {
			query, args = query+" AND "+c.holds, append(args, c.args...)
		}
		query += " LIMIT 1), 0) <> 0"
	}
	// One more than the page has tells whether there is another one.
	size := pageSize(q.Limit)
	var found []struct {
		Word string
		User storedUser `gorm:"embedded"`
	}
	query = "SELECT w.word, " + userColumns + " FROM (" + query + " ORDER BY w.word, w.handle LIMIT ?) w JOIN users u ON u.handle = w.handle ORDER BY w.word, w.handle"
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
		if f.User.Row.DeletedAt == 0 { // an earlier version leaves the words of whom it deletes
			users = append(users, f.User.user())
		}
	}
	return users, next, nil
}

// rarest is the word of a query that the fewest words begin with.
func (s *Store) rarest(ctx context.Context, terms []string) (int, error) {
	if len(terms) == 1 {
		return 0, nil
	}
	best, least := 0, common+1
	for i, t := range terms {
		var n int64
		err := s.conn(ctx).Raw("SELECT count(*) FROM (SELECT 1 FROM user_words WHERE word >= ? AND word < ? LIMIT ?) few", t, t+afterAll, common).Find(&n).Error
		if err != nil {
			return 0, err
		}
		if n < least {
			best, least = i, n
		}
	}
	return best, nil
}

// makeWords makes the words of users whose row an earlier version has written: of
// all of them with the migration, later of those that an instance of such a version
// writes beside this one. Afterwards it counts the users, which that did not.
func (s *Store) makeWords(ctx context.Context, run batcher) error {
	const doing = "make words"
	lock, after, made := "", "", false
	if s.dialect == Postgres {
		lock = " FOR UPDATE"
	}
	err := run(ctx, doing, func(b *batch) (more bool, err error) {
		var rows []userRow
		err = s.conn(ctx).Raw("SELECT handle FROM users WHERE search <> '' AND handle > ? ORDER BY handle LIMIT 1", after).Find(&rows).Error
		if err != nil || len(rows) == 0 {
			return false, fail(doing, err)
		}
		made = true
		err = b.write(func(tx *gorm.DB) error {
			rows = nil
			err := tx.Raw("SELECT handle, display_name, email, deleted_at FROM users WHERE search <> '' AND handle > ? ORDER BY handle LIMIT ?"+lock, after, b.rows).Find(&rows).Error
			if err != nil || len(rows) == 0 {
				return err
			}
			var all []userWord
			for _, r := range rows {
				if r.DeletedAt == 0 {
					all = append(all, each(words(r.Handle, r.DisplayName, r.Email), func(w string) userWord { return userWord{w, r.Handle} })...)
				}
			}
			slices.SortFunc(all, func(a, b userWord) int { return cmp.Or(cmp.Compare(a.Word, b.Word), cmp.Compare(a.Handle, b.Handle)) })
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
	return s.write(ctx, "count users", func(tx *gorm.DB) error {
		// The counter is locked before the users are counted: who registers changes it first.
		if err := tx.Exec("UPDATE counters SET value = value WHERE name = 'users'").Error; err != nil {
			return err
		}
		return tx.Exec("UPDATE counters SET value = (SELECT count(*) FROM users WHERE deleted_at = 0) WHERE name = 'users'").Error
	})
}
