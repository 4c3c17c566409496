package store_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// small are the tables that the years of an installation do not make large.
const small = " api_clients api_scopes apis client_allowances clients client_logos client_secrets counters goose_db_version locks logo secrets settings status_lists turns "

// wholes are the statements that read a table without a condition on an index.
var wholes = []struct{ statement, why string }{
	{`FROM users u WHERE u\.deleted_at = 0 AND .*ORDER BY .*LIMIT`, "a page of the list of people is read along its order until it is full"},
	{`FROM invites i LEFT JOIN .* WHERE i\.code <> `, "a page, along its order; the condition always holds"},
	{`^SELECT [^()]+ FROM audit ORDER BY`, "a page, along its order"},
	{`EXISTS \(SELECT 1 FROM grants\) OR EXISTS \(SELECT 1 FROM sessions WHERE algorithm`, "one row of grants is enough; sessions are read once, at the start of a service without a key"},
	{`FROM sessions WHERE ended_at > \? AND ended_at > 0 UNION ALL`, "indexes have the ended and the revoked ones alone; a process goes by all of them once, then by those since"},
	{`FROM users WHERE search <> ''`, "an index has those alone who are not in the index of words yet"},
	{`^SELECT count\(\*\) FROM \(SELECT 1 FROM \w+ LIMIT \?\) t$`, "no more rows than are told apart"},
	{`AS total, .* AS newest FROM audit$`, "what doctor tells of growth, when somebody asks for it"},
	{`AS plain$`, "what doctor tells of values that are not sealed, when somebody asks for it"},
	{`FROM refused_sign_ins ORDER BY refused_at`, "at most 40 rows of an application, when an administrator looks at them"},
	{`AS locked_out FROM passkeys p JOIN users`, "once at a start, and when somebody asks doctor"},
	{`AS waiting, .* FROM mail_outbox`, "what waits is tried for three days: it is much only while no mail gets out, and then this is told"},
}

// checkPlans fails where a statement that the other tests have run reads all rows of a
// table that grows.
func checkPlans(t *testing.T) {
	racetest.Skip(t)
	needed := map[string]bool{}
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		s := storetest.Open(t, dsn)
		tables := "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
		if s.Dialect() == store.Postgres {
			// Its planner goes by what is in the tables, and takes an index where it can.
			fill(t, s, dsn, 2_000, 2_000, 10_000)
			must(t, s.Exec("INSERT INTO status_lists (id, issued) SELECT i, 0 FROM generate_series(2, 50) AS i"))
			must(t, s.Exec("UPDATE sessions SET status_list = 1 + status_index % 50"))
			must(t, s.FillOthers(2_000, small))
			s = storetest.Open(t, dsn+"&enable_seqscan=off&enable_hashjoin=off&enable_mergejoin=off&enable_bitmapscan=off")
			tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
		}
		names, err := s.Texts(tables)
		must(t, err)
		grows := func(table string) bool {
			return slices.Contains(names, table) && !strings.Contains(small, " "+table+" ")
		}
		for form, statement := range store.Recorded(s.Dialect()) {
			plan, err := s.Explain(t.Context(), statement)
			if err != nil {
				t.Errorf("%s: %v", form, err)
				continue
			}
			form = strings.Join(strings.Fields(form), " ")
			for _, scan := range scansOf(t, s.Dialect(), form, plan, grows) {
				i := slices.IndexFunc(wholes, func(w struct{ statement, why string }) bool {
					return regexp.MustCompile(w.statement).MatchString(form)
				})
				if i < 0 {
					t.Errorf("%s reads a table as a whole: give it an index, or a line in wholes with the reason:\n%s", scan, form)
					continue
				}
				needed[wholes[i].statement] = true
			}
		}
	})
	for _, w := range wholes {
		if n := len(store.Recorded(store.SQLite)); !needed[w.statement] && n > 200 {
			t.Errorf("no statement of %d is %s any more: remove the line", n, w.statement)
		}
	}
}

var (
	tableAs    = regexp.MustCompile(`(?:FROM|JOIN|UPDATE|INTO|,) (\w+)(?: (?:AS )?(\w+))?`)
	sqliteScan = regexp.MustCompile(`(?m)^SCAN (\w+)( USING .*)?$`)
)

// scansOf are the parts of a plan that read a growing table without a condition on an
// index.
func scansOf(t *testing.T, dialect, sql, plan string, grows func(string) bool) (scans []string) {
	t.Helper()
	if dialect == store.SQLite {
		for _, scan := range sqliteScan.FindAllStringSubmatch(plan, -1) {
			name, isSubquery := scan[1], scan[2] == "" && strings.Contains(sql, ") "+scan[1]+" ")
			for _, table := range tableAs.FindAllStringSubmatch(sql, -1) {
				if (table[1] == name || table[2] == name) && grows(table[1]) && !isSubquery {
					scans = append(scans, scan[0])
					break
				}
			}
		}
		return scans
	}
	type node struct {
		Type      string `json:"Node Type"`
		Table     string `json:"Relation Name"`
		Index     string `json:"Index Name"`
		Condition string `json:"Index Cond"`
		Plans     []node
	}
	var plans []struct{ Plan node }
	must(t, json.Unmarshal([]byte(plan), &plans))
	var walk func(n node)
	walk = func(n node) {
		if grows(n.Table) && strings.HasSuffix(n.Type, "Scan") && n.Condition == "" {
			scans = append(scans, fmt.Sprintf("%s %s of %s", n.Type, n.Index, n.Table))
		}
		for _, p := range n.Plans {
			walk(p)
		}
	}
	for _, p := range plans {
		walk(p.Plan)
	}
	return scans
}
