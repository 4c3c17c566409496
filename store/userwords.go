package store

import (
	"cmp"
	"context"
	"math"
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
	in    string // a column that is one of keys, or nothing
	keys  []string
	rows  string // if keys is nil: a query of them, with of; they are read along the order of handles
	of    []any
	most  int // how many rows it has
}

// conditionsOf returns the conditions of a query of which so many users are wanted in an order.
func (s *Store) conditionsOf(
	ctx context.Context, q account.UserQuery, terms []string, o userOrder, wanted int,
) (c conditions, err error) {
	c.holds, c.args = s.filtersOf(q)
	flag, now, key := sanitize(q.Flag), s.Now(), keyOf(q)
	users := 0
	err = s.conn(ctx).Raw(userCount).Find(&users).Error
	// selects selects by rows of an index, if they are few and fewer than those of another.
	selects := func(most int, in, rows string, of ...any) {
		n := 0 // to read so many costs more than to count them
		if c.in != "" {
			most = min(most, c.most-1)
		}
		if err == nil {
			err = s.conn(ctx).Raw("SELECT count(*) FROM ("+rows+" LIMIT ?) r", append(of, most+1)...).Find(&n).Error
		}
		if n <= most {
			c.in, c.rows, c.of, c.most = in, rows, of, n
		}
	}
	// With more it costs less to come by wanted * users / few along the order of the list.
	few := min(int(math.Sqrt(float64(wanted)*float64(users))), mostWords)
	if q.Flag != "" { // ordered, or PostgreSQL reads all flags for one that few have
		selects(few, "u.sub", "SELECT sub FROM user_flags f WHERE flag = ? AND "+flagInForce+" ORDER BY sub", flag, now)
	}
	if o.column == "" { // unless it is most of them, they may be together at the end, as handles that begin alike
		few = max(few, min(users/2, mostWords))
	}
	const withWord = " UNION ALL SELECT handle FROM user_words WHERE word >= ? AND word < ?"
	const rows = "SELECT handle FROM users WHERE search <> ''" + withWord
	every, each := "u.search <> '' OR 1 = 1", []any{}
	accented := strings.FieldsFunc(foldCase(q.Query), notOfWord)
	for i, t := range terms[:min(len(terms), maxTerms)] {
		holds, from, of := hasWord, rows, []any{t, t + lastRune}
		if len(accented) == len(terms) && accented[i] != t { // as a version before this indexes until it is replaced
			holds, from = "("+hasWord+" OR "+hasWord+")", from+withWord
			of = append(of, accented[i], accented[i]+lastRune)
		}
		every, each = every+" AND "+holds, append(each, of...)
		if key != "" && key != t {
			from, of = from+withWord, append(of, key, key+lastRune)
		}
		selects(few, "u.handle", from, of...)
	}
	if c.in == "u.sub" || c.in != "" && o.column != "" {
		c.keys = []string{}
		err = cmp.Or(err, s.conn(ctx).Raw(c.rows, c.of...).Find(&c.keys).Error)
	}
	if key != "" {
		every, each = every+" OR "+hasWord, append(each, key, key+lastRune)
	}
	if len(terms) > 0 && c.in == "" {
		c.holds, c.args = c.holds+" AND ("+every+")", append(c.args, each...)
	}
	if q.Flag != "" && c.in != "u.sub" {
		c.holds, c.args = c.holds+" AND "+hasFlag, append(c.args, flag, now)
	}
	return c, err
}
