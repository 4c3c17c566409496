package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/cairn-id/cairn/store/engine"
)

// invalidKey reports whether a key cannot be in the database: it is empty, or only one of the two
// databases would accept it. Such a key is not looked up.
func invalidKey(key string) bool {
	return key == "" || strings.ContainsRune(key, 0) || !utf8.ValidString(key)
}

// sanitize removes what PostgreSQL refuses in a text.
func sanitize(s string) string { return engine.Sanitize(s) }

// toUnix returns Unix seconds as stored, 0 for the zero time.
func toUnix(t time.Time) int64 { return engine.ToUnix(t) }

// fromUnix is the inverse of toUnix.
func fromUnix(s int64) time.Time { return engine.FromUnix(s) }

// maxRows is the size of a page if the caller gives none.
const maxRows = 1000

func pageSize(limit int) int {
	if limit <= 0 {
		return maxRows
	}
	return limit
}

// keysOf returns the keys of a map in order.
func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// each returns f of each row, never nil.
func each[R, V any](rows []R, f func(R) V) []V {
	out := make([]V, len(rows))
	for i, r := range rows {
		out[i] = f(r)
	}
	return out
}

// columnsOf lists the columns of the row type R, which a SELECT names instead of *. After a newer
// program has added a column, PostgreSQL refuses a prepared statement that returned all columns
// ("cached plan must not change result type").
func columnsOf[R any](table string) string {
	s, err := schema.Parse(new(R), &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(fmt.Sprintf("columns of %s: %v", table, err))
	}
	return table + "." + strings.Join(s.DBNames, ", "+table+".")
}

// repeated returns a comma-separated list of n times the same.
func repeated(one string, n int) string { return engine.Repeated(one, n) }

// expect returns the error of a statement, or none if it changed or found no row.
func expect(res *gorm.DB, none error) error {
	if res.Error != nil {
		return res.Error
	}
	if res.RowsAffected == 0 {
		return none
	}
	return nil
}
