package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm/schema"
)

// ColumnsOf lists the columns of the row type R, which a SELECT names instead of *. After a newer
// program has added a column, PostgreSQL refuses a prepared statement that returned all columns
// ("cached plan must not change result type").
func ColumnsOf[R any](table string) string {
	for name, s := range serializers {
		schema.RegisterSerializer(name, s)
	}
	s, err := schema.Parse(new(R), &sync.Map{}, schema.NamingStrategy{})
	if err != nil {
		panic(fmt.Sprintf("columns of %s: %v", table, err))
	}
	return table + "." + strings.Join(s.DBNames, ", "+table+".")
}

// serializers convert members of row types to columns and back, by the name in their tags. ColumnsOf
// registers them, before any statement runs.
var serializers = map[string]schema.SerializerInterface{
	"unix":  stored[time.Time, int64]{ToUnix, FromUnix},
	"text":  stored[string, string]{Sanitize, strings.Clone},
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
	return func(list []string) string { return Sanitize(strings.Join(list, sep)) }
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
