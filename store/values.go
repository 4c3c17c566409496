package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
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
	for name, s := range serializers {
		schema.RegisterSerializer(name, s)
	}
	s, err := schema.Parse(new(R), &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(fmt.Sprintf("columns of %s: %v", table, err))
	}
	return table + "." + strings.Join(s.DBNames, ", "+table+".")
}

// serializers convert members of row types to columns and back, by the name in their tags. columnsOf
// registers them, before any statement runs.
var serializers = map[string]schema.SerializerInterface{
	"unix":  stored[time.Time, int64]{toUnix, fromUnix},
	"text":  stored[string, string]{sanitize, strings.Clone},
	"words": stored[[]string, string]{joined(" "), split(" ")},
	"lines": stored[[]string, string]{joined("\n"), split("\n")},
	"seconds": stored[time.Duration, int64]{
		func(d time.Duration) int64 { return int64(d / time.Second) },
		func(s int64) time.Duration { return time.Duration(s) * time.Second },
	},
	"raw": stored[json.RawMessage, string]{
		func(m json.RawMessage) string { return string(m) },
		func(s string) json.RawMessage { return append(json.RawMessage(nil), s...) },
	},
}

func joined(sep string) func([]string) string {
	return func(list []string) string { return sanitize(strings.Join(list, sep)) }
}

// split returns nil for the empty text.
func split(sep string) func(string) []string {
	return func(s string) []string {
		if s == "" {
			return nil
		}
		return strings.Split(s, sep)
	}
}

// stored is a serializer of members of type M as columns of type C.
type stored[M, C any] struct {
	column func(M) C
	member func(C) M
}

// Value implements schema.SerializerInterface.
func (t stored[M, C]) Value(_ context.Context, _ *schema.Field, _ reflect.Value, member any) (any, error) {
	return t.column(member.(M)), nil
}

// Scan implements schema.SerializerInterface. NULL is the zero value.
func (t stored[M, C]) Scan(ctx context.Context, f *schema.Field, row reflect.Value, column any) error {
	c, ok := column.(C)
	if !ok && column != nil {
		return fmt.Errorf("column %s is a %T, not a %T", f.DBName, column, c)
	}
	f.ReflectValueOf(ctx, row).Set(reflect.ValueOf(t.member(c)))
	return nil
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
