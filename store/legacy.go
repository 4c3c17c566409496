package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"gorm.io/driver/sqlite"
)

// LegacyTable is a table of another program's SQLite file, with its rows as texts by column. NULL
// is left out.
type LegacyTable struct {
	Columns []string
	Rows    []map[string]string
}

// ReadLegacy reads the named tables of a SQLite file, if they exist, and returns the names of the
// others. It does not change the file.
func ReadLegacy(
	ctx context.Context, path string, names ...string,
) (tables map[string]LegacyTable, others []string, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, nil, errors.New("the file cannot be read: name the SQLite file of the older service")
	}
	file := "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=ro&_query_only=1"
	if _, err := os.Stat(path + "-wal"); errors.Is(err, os.ErrNotExist) {
		file += "&immutable=1" // else SQLite creates that file for a copy in WAL mode
	}
	db, err := sql.Open(sqlite.DriverName, file)
	if err != nil {
		return nil, nil, fmt.Errorf("open: %w", err)
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(ctx, nil) // one consistent state: its service may still write
	if err != nil {
		return nil, nil, fmt.Errorf("this is no SQLite file that can be read: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	found, err := readTable(ctx, tx, `SELECT name FROM sqlite_master
		WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`)
	if err != nil {
		return nil, nil, fmt.Errorf("this is no SQLite file that can be read: %w", err)
	}
	tables = map[string]LegacyTable{}
	for _, row := range found.Rows {
		name := row["name"]
		known := false
		for _, wanted := range names {
			if known = name == wanted; known {
				if tables[name], err = readTable(ctx, tx, `SELECT * FROM "`+wanted+`"`); err != nil {
					return nil, nil, fmt.Errorf("table %s: %w", name, err)
				}
				break
			}
		}
		if !known {
			others = append(others, name)
		}
	}
	return tables, others, nil
}

func readTable(ctx context.Context, tx *sql.Tx, query string) (t LegacyTable, err error) {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return t, err
	}
	defer func() { _ = rows.Close() }()
	if t.Columns, err = rows.Columns(); err != nil {
		return t, err
	}
	for rows.Next() {
		values, to := make([]any, len(t.Columns)), make([]any, len(t.Columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			return t, err
		}
		row := map[string]string{}
		for i, value := range values {
			if value != nil {
				row[t.Columns[i]] = legacyText(value)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t, rows.Err()
}

// legacyText formats a value, whose type the driver derives from the declaration of the column.
func legacyText(value any) string {
	switch v := value.(type) {
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}
