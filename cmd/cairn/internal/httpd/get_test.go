package httpd

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
)

// contents is everything in the database.
func (d *rawDatabase) contents() string {
	d.t.Helper()
	var all strings.Builder
	rows := d.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
	for _, table := range rows {
		if table == "refused_sign_ins" { // a log of what was refused, 20 rows an application
			continue
		}
		fmt.Fprintf(&all, "%v\n%s\n", table, strings.Join(d.rows(fmt.Sprintf("SELECT * FROM %q", table)), "\n"))
	}
	return all.String()
}

// rows are the rows of a query, each as a text.
func (d *rawDatabase) rows(query string) (list []string) {
	d.t.Helper()
	rows, err := d.db.QueryContext(d.t.Context(), query)
	noError(d.t, err)
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	noError(d.t, err)
	for rows.Next() {
		values, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range to {
			to[i] = &values[i]
		}
		noError(d.t, rows.Scan(to...))
		list = append(list, strings.Trim(fmt.Sprint(values), "[]"))
	}
	noError(d.t, rows.Err())
	return list
}

// No link or picture on another site changes anything by a GET with the session of an administrator that is fresh:
// neither a row nor a mail. Of the pages of this service itself, the downloads are recorded; of the protocol, a request
// of a client to authorize gets a code, and one with an ID token signs out (RP-Initiated Logout section 2).
func TestGETHasNoEffect(t *testing.T) {
	l := &life{begin: time.Now().UTC().Truncate(time.Second).Add(15 * time.Minute)} // as eachLife does
	s, db := startServiceWithDatabase(t, serviceOptions{Mail: l, Now: l.now})
	l.service = s
	l.member("ada", account.FlagAdmin, account.FlagActivity)
	s.addClient("app", nil)
	b := s.signedIn("ada")
	invite := b.invite()
	fill := strings.NewReplacer("{handle}", "ada", "{code}", invite, "{id}", b.sessionID(), "{list}", "1",
		"{client_id:(?s:.+)}", "app", "{hash}", strings.Repeat("0", 64))
	paths := []string{"/register/?code=" + url.QueryEscape(invite), "/device?user_code=BCDF-GHJK", "/login/?fresh=confirm"}
	noError(t, s.handler.routes.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := route.GetPathTemplate()
		paths = append(paths, fill.Replace(path))
		return err
	}))
	if len(paths) < 100 {
		t.Fatalf("only %d paths", len(paths))
	}
	l.mails()
	db.db.SetMaxOpenConns(1)
	const version = "PRAGMA data_version" // another one as soon as somebody else has written
	written, before := db.count(version), db.contents()
	changed := map[string]map[string]string{"": {}, "none": {}, "same-origin": {}, "same-site": {}, "cross-site": {}}
	for from, changes := range changed {
		for _, path := range paths {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				b.do(method, path, "", "", "Accept", "text/html", "Sec-Fetch-Site", from)
				sent, after := l.mails(), before
				if now := db.count(version); now != written {
					written, after = now, db.contents()
				}
				if after != before || len(sent) > 0 {
					changes[path] = fmt.Sprintf("%d mails", len(sent))
				}
				before = after
			}
		}
	}
	own := []string{"/admin/audit.csv", "/admin/audit.jsonl", "/admin/users.csv", "/api/me/export"}
	for from, changes := range changed {
		want := own
		if strings.HasSuffix(from, "-site") {
			want = nil
		}
		equal(t, fmt.Sprintf("Sec-Fetch-Site %q changed something", from), slices.Sorted(maps.Keys(changes)), want)
	}
	for _, path := range own {
		got := b.get(path, "Sec-Fetch-Site", "cross-site")
		if wantStatus(t, path, got, http.StatusForbidden); !strings.Contains(got.Text, "Another site asked for this file.") {
			t.Errorf("%s: %s", path, got.Text)
		}
	}
	needStatus(t, "the export by POST", b.call("POST /api/me/export"), http.StatusOK)
	wantProblem(t, "by POST from another site", b.api("POST", "/api/me/export", nil, "Sec-Fetch-Site", "cross-site"), 403, "cross_origin")
}

// Pictures of wrong invites on another site do not lock anybody out of their registration.
func TestPagesOfOthersUseUpNoLimit(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true}, "ada")
	code, b := s.signedIn("ada").invite(), s.visitor()
	for i := range 20 {
		b.get(fmt.Sprintf("/register/?code=%016d", i), "Sec-Fetch-Site", "cross-site")
	}
	if got := b.get("/register/?code="+code, "Sec-Fetch-Site", "cross-site"); !strings.Contains(got.Text, "invited you") {
		t.Errorf("a link to a good one: %s", mainOf(got.Text))
	}
	wantProblem(t, "an own guess", b.register("0123456789ABCDEF", "hopper"), http.StatusBadRequest, "invalid_invite")
	wantStatus(t, "registration", b.register(code, "grace"), http.StatusCreated)
	for i := range 5 {
		b.get(fmt.Sprintf("/register/?code=%016d", i))
	}
	wantProblem(t, "after guesses", b.register("0123456789ABCDEF", "hopper"), http.StatusTooManyRequests, "rate_limited")
}
