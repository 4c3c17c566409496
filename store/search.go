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

	"github.com/cairn-id/cairn/account"
)

// words are the words of texts, each once, in their order: what stands between
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

// putPerson writes what a stored user is called and how they are reached, with the
// words by which they are found, and further columns. It alone does: no change is
// without its words.
func putPerson(tx *gorm.DB, u account.User, columns map[string]any) error {
	columns["display_name"], columns["email"], columns["email_verified"], columns["search"] = u.DisplayName, u.Email, u.EmailVerified, ""
	if err := tx.Table("users").Where("sub = ?", u.Sub).Updates(columns).Error; err != nil {
		return err
	}
	if _, deleted := columns["deleted_at"]; deleted {
		return setWords(tx, u.Handle, nil)
	}
	return setWords(tx, u.Handle, wordsOf(u))
}

// setWords replaces the words of a user. The row of the user is locked.
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
	const atOnce = 1000
	for some := range slices.Chunk(rows, atOnce) {
		args := make([]any, 0, 2*len(some))
		for _, r := range some {
			args = append(args, r.Word, r.Handle)
		}
		if err := tx.Exec("INSERT INTO user_words (word, handle) VALUES "+repeated("(?, ?)", len(some))+" ON CONFLICT DO NOTHING", args...).Error; err != nil {
			return err
		}
	}
	return nil
}

// afterAll is no part of a word, and behind all that is.
const afterAll = "\U0010FFFF"

// common is how many words with a beginning are counted at most.
const common = 10_000

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
	if len(part) != 3 || odd(s) {
		return place{}, account.ErrInvalidCursor
	}
	n, err := strconv.Atoi(part[0])
	if err != nil || n < 0 || n >= len(terms) || !strings.HasPrefix(part[1], terms[n]) || part[2] == "" {
		return place{}, account.ErrInvalidCursor
	}
	return place{n, part[1], part[2]}, nil
}

// findUsers finds the users with a word for each word of the query that begins with
// it. It goes along the words with the rarest of these beginnings and looks the others
// up; each user is found at the first of their words in that order.
func (s *Store) findUsers(ctx context.Context, q account.UserQuery) ([]account.User, string, error) {
	terms := words(q.Query)
	// Who has a word that begins with "anna" has one that begins with "an".
	terms = slices.DeleteFunc(terms, func(t string) bool {
		return slices.ContainsFunc(terms, func(longer string) bool { return longer != t && strings.HasPrefix(longer, t) })
	})
	if len(terms) == 0 {
		return nil, "", nil
	}
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
	// One more than the page has tells whether there is another one.
	size := pageSize(q.Limit)
	var found []userWord
	if err := s.conn(ctx).Raw(query+" ORDER BY w.word, w.handle LIMIT ?", append(args, size+1)...).Find(&found).Error; err != nil {
		return nil, "", err
	}
	next := ""
	if len(found) > size {
		found = found[:size]
		next = place{at.term, found[size-1].Word, found[size-1].Handle}.String()
	}
	handles := make([]string, len(found))
	for i, f := range found {
		handles[i] = f.Handle
	}
	users, err := s.usersByHandle(ctx, handles)
	return users, next, err
}

// rarest is the word of a query that the fewest words begin with.
func (s *Store) rarest(ctx context.Context, terms []string) (int, error) {
	if len(terms) == 1 {
		return 0, nil
	}
	best, least := 0, int64(common+1)
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

// usersByHandle are the users with these handles, in their order.
func (s *Store) usersByHandle(ctx context.Context, handles []string) ([]account.User, error) {
	if len(handles) == 0 {
		return nil, nil
	}
	var rows []userRow
	if err := s.conn(ctx).Raw("SELECT "+userColumns+" FROM users u WHERE u.handle IN ? AND u.deleted_at = 0", handles).Find(&rows).Error; err != nil {
		return nil, err
	}
	order := make(map[string]int, len(handles))
	for i, h := range handles {
		order[h] = i
	}
	slices.SortFunc(rows, func(a, b userRow) int { return cmp.Compare(order[a.Handle], order[b.Handle]) })
	out := make([]account.User, 0, len(rows))
	for _, r := range rows {
		out = append(out, r.user())
	}
	return out, nil
}

// makeWords makes the words of users whose row an earlier version has written: of
// all of them with the migration, later of those that an instance of such a version
// writes beside this one. It can be ended at any time and begun again.
func (s *Store) makeWords(ctx context.Context, b *batch, after *string) (more bool, err error) {
	var handles []string
	err = s.conn(ctx).Raw("SELECT handle FROM users WHERE search <> '' AND handle > ? ORDER BY handle LIMIT ?", *after, b.rows).Find(&handles).Error
	if err != nil || len(handles) == 0 {
		return false, fail("make words", err)
	}
	*after = handles[len(handles)-1]
	lock := ""
	if s.dialect == Postgres {
		lock = " FOR UPDATE"
	}
	err = b.write(func(tx *gorm.DB) error {
		// Those that another instance has done meanwhile keep their words.
		var rows []struct {
			Handle, DisplayName, Email string
			DeletedAt                  int64
		}
		err := tx.Raw("SELECT handle, display_name, email, deleted_at FROM users WHERE handle IN ? AND search <> '' ORDER BY handle"+lock, handles).Find(&rows).Error
		if err != nil || len(rows) == 0 {
			return err
		}
		var undone []string
		var all []userWord
		for _, r := range rows {
			undone = append(undone, r.Handle)
			if r.DeletedAt != 0 {
				continue
			}
			for _, w := range wordsOf(account.User{Handle: r.Handle, DisplayName: r.DisplayName, Email: r.Email}) {
				all = append(all, userWord{w, r.Handle})
			}
		}
		if err := tx.Exec("DELETE FROM user_words WHERE handle IN ?", undone).Error; err != nil {
			return err
		}
		slices.SortFunc(all, func(a, b userWord) int { return cmp.Or(cmp.Compare(a.Word, b.Word), cmp.Compare(a.Handle, b.Handle)) })
		if err := addWords(tx, all); err != nil {
			return err
		}
		return tx.Exec("UPDATE users SET search = '' WHERE handle IN ?", undone).Error
	})
	return len(handles) == b.rows, err
}

// adoptUsers makes the words of users of earlier versions and counts them.
func (s *Store) adoptUsers(ctx context.Context, run func(ctx context.Context, doing string, do func(b *batch) (bool, error)) error) error {
	after := ""
	err := run(ctx, "make words", func(b *batch) (bool, error) { return s.makeWords(ctx, b, &after) })
	if err != nil || after == "" {
		return err
	}
	return s.recountUsers(ctx)
}
