package store

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/store/engine"
)

// Statement is one that the program has run, with the values of one run.
type Statement struct {
	SQL    string
	Values []any
}

var recorded struct {
	sync.Mutex
	statements map[string]map[string]Statement // by dialect, and by their form
	texts      map[string]bool                 // that were seen: benchmarks run one many times
}

// How many values there are in a list makes no other statement.
var (
	values = regexp.MustCompile(`(?:\?|\$\d+|CAST\(\$\d+ AS BIGINT\))(?:, ?(?:\?|\$\d+|CAST\((?:\?|\$\d+) AS BIGINT\)))*`)
	rows   = regexp.MustCompile(`\(\?\)(?:, ?\(\?\))+`)
)

// RecordStatements keeps the statements of every store that is opened from now on, but
// for those of tests.
func RecordStatements() {
	recorded.statements = map[string]map[string]Statement{SQLite: {}, Postgres: {}}
	recorded.texts = map[string]bool{}
	engine.OnOpen = func(s *engine.DB) {
		keep := func(sql string, vars ...any) {
			recorded.Lock()
			defer recorded.Unlock()
			if recorded.texts[s.Dialect()+sql] {
				return
			}
			recorded.texts[s.Dialect()+sql] = true
			form := rows.ReplaceAllString(values.ReplaceAllString(sql, "?"), "(?)")
			if _, known := recorded.statements[s.Dialect()][form]; !known {
				recorded.statements[s.Dialect()][form] = Statement{sql, append([]any(nil), vars...)}
			}
		}
		s.Ran = keep
		record := func(db *gorm.DB) {
			sql := db.Statement.SQL.String()
			verb, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
			if _, ofTest := db.Get(testMark); ofTest || verb == "" || !strings.Contains("SELECT WITH INSERT UPDATE DELETE", verb) {
				return
			}
			keep(sql, db.Statement.Vars...)
		}
		c := engine.Conn(context.Background(), s).Callback()
		for _, p := range []interface {
			Register(string, func(*gorm.DB)) error
		}{c.Create().After("*"), c.Query().After("*"), c.Update().After("*"), c.Delete().After("*"), c.Row().After("*"), c.Raw().After("*")} {
			_ = p.Register("record", record)
		}
	}
}

// Recorded are the statements of a dialect, by their form.
func Recorded(dialect string) map[string]Statement {
	recorded.Lock()
	defer recorded.Unlock()
	return recorded.statements[dialect]
}

// FillOthers adds rows to the tables of PostgreSQL that have few, of numbers and without
// regard to references; except are names between spaces.
func (s *Store) FillOthers(n int, except string) error {
	return s.ofTest().Exec(fmt.Sprintf(`DO $$ DECLARE t record; few boolean; BEGIN
		SET LOCAL session_replication_role = replica;
		FOR t IN SELECT table_name AS name, string_agg(column_name, ', ') AS columns, string_agg(CASE WHEN data_type IN ('text', 'bytea') THEN 'CAST(CAST(i AS text) AS ' || data_type || ')'
				WHEN data_type = 'boolean' THEN 'false' ELSE 'i' END, ', ') AS vals
			FROM information_schema.columns WHERE table_schema = current_schema() AND column_default IS NULL AND is_identity = 'NO' AND position(' ' || table_name || ' ' IN '%s') = 0 GROUP BY table_name
		LOOP
			EXECUTE 'SELECT count(*) < 1000 FROM ' || t.name INTO few;
			IF few THEN EXECUTE format('INSERT INTO %%I (%%s) SELECT %%s FROM generate_series(1, %d) AS i ON CONFLICT DO NOTHING', t.name, t.columns, t.vals); END IF;
		END LOOP;
		ANALYZE;
	END $$`, except, n)).Error
}

// Explain is the plan of a statement: JSON on PostgreSQL, lines on SQLite.
func (s *Store) Explain(ctx context.Context, n Statement) (string, error) {
	if s.Dialect() == Postgres {
		var plan string
		return plan, s.pool().QueryRowContext(ctx, "EXPLAIN (FORMAT JSON) "+n.SQL, n.Values...).Scan(&plan)
	}
	rows, err := s.pool().QueryContext(ctx, "EXPLAIN QUERY PLAN "+n.SQL, n.Values...)
	if err != nil {
		return "", err
	}
	defer func() { _ = rows.Close() }()
	plan := ""
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			return "", err
		}
		plan += detail + "\n"
	}
	return plan, rows.Err()
}
