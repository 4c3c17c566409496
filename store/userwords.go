package store

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// The table user_words is an index of the words of users: of handle, display name and email, and the
// whole account.HandleKey. It is behind: a user whose search is not empty is not in it yet, or again, and is read by
// each search. The sweep takes them in.

// unindexed is what users.search holds after a change of handle, display name or email.
const unindexed = "-"

func removeWords(tx *engine.Tx, handle string) {
	tx.Exec("DELETE FROM user_words WHERE handle = ?", handle)
}

type userWord struct{ Word, Handle string }

// wordsOf returns the words by which a user is found.
func wordsOf(r userRow) (rows []userWord) {
	words := strings.FieldsFunc(fold(r.Handle+" "+r.DisplayName+" "+r.Email), notOfWord)
	words = append(words, account.HandleKey(r.Handle)) // whole
	slices.Sort(words)
	for _, w := range slices.Compact(words) {
		rows = append(rows, userWord{w, r.Handle})
	}
	return rows
}

// indexUsers takes users into the index.
func (s *Store) indexUsers(ctx context.Context) error {
	const doing = "index users"
	lock := ""
	if s.Dialect() == Postgres {
		lock = " FOR UPDATE"
	}
	return s.batches(ctx, doing, func(b *batch) (more bool, err error) {
		var waiting []string
		err = s.conn(ctx).Raw("SELECT handle FROM users WHERE search <> '' LIMIT 1").Find(&waiting).Error
		if err != nil || len(waiting) == 0 {
			return false, fail(doing, err)
		}
		return true, b.write(func(tx *engine.Tx) {
			var rows []userRow
			tx.Find(&rows, `SELECT handle, display_name, email, deleted_at FROM users
				WHERE search <> '' ORDER BY handle LIMIT ?`+lock, b.rows)
			var words []userWord
			for _, r := range rows {
				if r.DeletedAt == 0 {
					words = append(words, wordsOf(r)...)
				}
			}
			slices.SortFunc(words, func(a, b userWord) int {
				return cmp.Or(cmp.Compare(a.Word, b.Word), cmp.Compare(a.Handle, b.Handle))
			})
			handles := each(rows, func(r userRow) string { return r.Handle })
			tx.Exec("DELETE FROM user_words WHERE handle IN ?", handles)
			if len(words) > 0 {
				once := clause.OnConflict{DoNothing: true}
				tx.Ran(tx.Table("user_words").Clauses(once).CreateInBatches(&words, bulkRows))
			}
			tx.Exec("UPDATE users SET search = '' WHERE handle IN ?", handles)
		})
	})
}

const (
	// fewUsers is up to how many users are selected by an index. With more, the order of the list soon comes
	// by enough of them, unless it is that of handles: these begin as the words do.
	fewUsers  = 3_000
	fewWords  = 3 * fewUsers // of one user each has one in the handle, the name and the address
	mostWords = 30_000
	maxTerms  = 50 // in a statement, whose depth is bounded
	lastRune  = "\U0010FFFF"
)

// Conditions on a row u of users. Scalar subqueries are not made into joins by planners: they are to look
// up each user that they come by until there are enough.
const (
	hasWord = `coalesce((SELECT 1 FROM user_words w
		WHERE w.handle = u.handle AND w.word >= ? AND w.word < ? LIMIT 1), 0) <> 0`
	hasFlag = `coalesce((SELECT 1 FROM user_flags f
		WHERE f.sub = u.sub AND f.flag = ? AND ` + flagInForce + ` LIMIT 1), 0) <> 0`
)

// conditions of a query on a row u of users. They let through all who match, and others too: see hasWords.
type conditions struct {
	holds string
	args  []any
	in    string   // a column that is one of keys; empty: there is none
	keys  []string // sorted
}

// and adds a condition.
func (c *conditions) and(holds string, args ...any) {
	c.holds, c.args = c.holds+" AND "+holds, append(c.args, args...)
}

// selectFew makes keys of the rows that a query selects, if they are few.
func (s *Store) selectFew(
	ctx context.Context, c *conditions, in string, rows, most int, query string, args ...any,
) error {
	var keys []string
	err := s.conn(ctx).Raw(query+" LIMIT ?", append(args, rows+1)...).Find(&keys).Error
	if err != nil || len(keys) > rows {
		return err
	}
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) <= most {
		c.in, c.keys = in, keys
	}
	return nil
}

// conditionsOf returns the conditions of a query in an order.
func (s *Store) conditionsOf(
	ctx context.Context, q account.UserQuery, terms []string, o userOrder,
) (conditions, error) {
	var c conditions
	c.holds, c.args = s.filtersOf(q)
	terms = terms[:min(len(terms), maxTerms)]
	rows, most := fewWords, fewUsers
	if o.column == "" {
		rows, most = mostWords, mostWords
	}
	key := keyOf(q)
	const withWord = " UNION ALL SELECT handle FROM user_words WHERE word >= ? AND word < ?"
	for _, t := range terms {
		query, of := "SELECT handle FROM users WHERE search <> ''"+withWord, []any{t, t + lastRune}
		if key != "" && key != t {
			query, of = query+withWord, append(of, key, key+lastRune)
		}
		if err := s.selectFew(ctx, &c, "u.handle", rows, most, query, of...); err != nil {
			return c, err
		}
		if c.in != "" {
			break
		}
	}
	if len(terms) > 0 && c.in == "" {
		all, of := "u.search <> '' OR 1 = 1", []any{}
		for _, t := range terms {
			all, of = all+" AND "+hasWord, append(of, t, t+lastRune)
		}
		if key != "" {
			all, of = all+" OR "+hasWord, append(of, key, key+lastRune)
		}
		c.and("("+all+")", of...)
	}
	if q.Flag == "" {
		return c, nil
	}
	flag, now := sanitize(q.Flag), s.Now()
	if c.in == "" {
		const holders = "SELECT f.sub FROM user_flags f WHERE f.flag = ? AND " + flagInForce
		n := 0 // nearly everybody has some flags: to read so many costs more than to count them
		err := s.conn(ctx).Raw("SELECT count(*) FROM ("+holders+" LIMIT ?) h", flag, now, fewUsers+1).Find(&n).Error
		if err == nil && n <= fewUsers {
			err = s.selectFew(ctx, &c, "u.sub", fewUsers, fewUsers, holders, flag, now)
		}
		if err != nil || c.in != "" {
			return c, err
		}
	}
	c.and(hasFlag, flag, now)
	return c, nil
}
