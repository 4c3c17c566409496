package store

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/store/engine"
)

// invalidKey reports whether a key cannot be in the database: it is empty, or only one of the two
// databases would accept it. Such a key is not looked up.
func invalidKey(key string) bool {
	return key == "" || strings.ContainsRune(key, 0) || !utf8.ValidString(key)
}

// Conversions of values to columns.
var (
	sanitize = engine.Sanitize
	toUnix   = engine.ToUnix
	fromUnix = engine.FromUnix
	repeated = engine.Repeated
)

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
