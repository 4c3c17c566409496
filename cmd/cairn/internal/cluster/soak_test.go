//go:build linux

package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/web/browser"
)

// The bounds of what is promised.
const (
	clients      = 32
	pause        = 400 * time.Millisecond // at most, between two requests of a client
	recovery     = 10 * time.Second       // from the promotion to service
	slowest      = 250 * time.Millisecond // of 99 % of the requests, outside the failover
	calmForm     = 5 * time.Minute        // from which length on slowest is held: a short form runs beside other work
	expiredRows  = 10                     // for the sweep, for each second of the load
	beforeItDies = 2 * time.Second        // from the loss of the primary to the promotion of the standby
	afterwards   = 3 * time.Second        // at least, of load on the standby
)

// events are when what happened during the load.
type events struct {
	restarted, replaced      time.Time // the instances, one after the other
	migrating, migrated      time.Time
	killed, promoted, served time.Time
}

// planned reports whether a request was under way during what nobody may notice.
func (e events) planned(r request) bool {
	return r.end.After(e.restarted) && r.begin.Before(e.replaced) ||
		r.end.After(e.migrating) && r.begin.Before(e.migrated.Add(time.Second))
}

// TestSoak is a club under load while its instances are replaced one after the other, a
// sweep and a backup run and the database's machine is lost. CAIRN_SOAK_SECONDS is how long;
// without it nothing is done. CAIRN_SOAK_LOSS=hang leaves
// the connections to the primary open and silent. CAIRN_SOAK_BEFORE is a program of an earlier version, which
// is replaced by this one during the load.
func TestSoak(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("CAIRN_SOAK_SECONDS"))
	if err != nil {
		t.Skip("CAIRN_SOAK_SECONDS is not set: just soak")
	}
	length := time.Duration(max(seconds, 10)) * time.Second
	program := filepath.Join(t.TempDir(), "cairn")
	if out, err := exec.Command("go", "build", "-o", program, "../..").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	first := program
	if before := os.Getenv("CAIRN_SOAK_BEFORE"); before != "" {
		first = before
	}
	c, l := newInstallation(t, first), newLedger()
	application := l.receiver(t)
	var app struct {
		Secret string `json:"client_secret"`
	}
	must(t, json.Unmarshal([]byte(c.cairn("client", "add", "App", "--id", "app", "--redirect-uri", callback,
		"--trusted", "--backchannel-logout-uri", application, "--allow-private-backchannel", "-o", "json")), &app))
	c.secret = app.Secret
	c.startAll()

	keeper := newMember(l, c, app.Secret, "keeper")
	var members []*member
	for range clients - 6 {
		m := newcomer(l, c, app.Secret)
		if !m.register(keeper.invite()) {
			t.Fatalf("no member: %v", l.faults)
		}
		members = append(members, m)
	}

	begin := time.Now()
	stop := make(chan struct{})
	var load sync.WaitGroup
	run := func(do func()) {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(pause/2 + rand.N(pause/2)):
					do()
				}
			}
		})
	}
	for _, m := range members {
		run(m.act)
	}
	for i := range 6 {
		switch inviter := newMember(l, c, app.Secret, "keeper"); {
		case i < 4:
			run(func() {
				if invite := inviter.invite(); invite != "" {
					newcomer(l, c, app.Secret).register(invite)
				}
				time.Sleep(time.Second) // registrations are rare
			})
		default:
			run(inviter.status)
		}
	}
	at := func(share float64) { time.Sleep(time.Until(begin.Add(time.Duration(share * float64(length))))) }

	at(0.08)
	// A sweep at the next start of an instance, by one of the three.
	c.primary.exec(fmt.Sprintf("INSERT INTO client_assertions (client_id, jti_hash, expires_at) SELECT 'app', convert_to(i::text, 'UTF8'), 1000000000 FROM generate_series(1, %d) i", expiredRows*int(length.Seconds())))
	if first == program {
		c.primary.exec("UPDATE turns SET done_at = 0 WHERE name = 'sweep'")
	}
	e := events{restarted: time.Now()}
	c.restartAll(program)
	e.replaced = time.Now()
	t.Logf("the instances were replaced in %s", e.replaced.Sub(e.restarted).Round(time.Millisecond))
	c.backup()
	eventually(t, max(2*time.Minute, length/2), "the expired rows are swept", func() error {
		if left := c.primary.count("SELECT count(*) FROM client_assertions WHERE expires_at = 1000000000"); left > 0 {
			return fmt.Errorf("%d are left", left)
		}
		return nil
	})
	if first == program {
		e.migrating = time.Now()
		c.primary.migrateOn()
		e.migrated = time.Now()
	}
	at(0.5)
	e.killed = time.Now()
	if os.Getenv("CAIRN_SOAK_LOSS") == "hang" {
		c.primary.hang()
	} else {
		c.primary.kill()
	}
	time.Sleep(beforeItDies)
	c.standby.promote()
	e.promoted = time.Now()
	for prober := newMember(l, c, app.Secret, "keeper"); !prober.signIn(); {
		if time.Since(e.promoted) > time.Minute {
			for _, each := range c.each {
				t.Logf("%s%s", each.readiness(), each.errors())
			}
			t.Fatal("no service a minute after the promotion")
		}
	}
	e.served = time.Now()
	if took := e.served.Sub(e.promoted); took > recovery {
		t.Errorf("service came %s after the promotion", took)
	} else {
		t.Logf("service came %s after the promotion, %s after the loss", took.Round(time.Millisecond), e.served.Sub(e.killed).Round(time.Millisecond))
	}
	time.Sleep(max(time.Until(begin.Add(length)), afterwards))
	close(stop)
	load.Wait()

	l.report(t, e, length >= calmForm)
	l.verify(t, c, e)
	for i, each := range c.each {
		if t.Failed() || strings.Contains(each.log.text(), `"msg":"panic"`) {
			t.Errorf("the log of instance %d: %s", i, each.errors())
		}
	}
}

// errors are the first and last warnings and errors of an instance.
func (n *instance) errors() string {
	lines := regexp.MustCompile(`(?m)^.*"level":"(WARN|ERROR)".*"error":.*$`).FindAllString(n.log.text(), -1)
	if len(lines) > 20 {
		lines = append(lines[:10], lines[len(lines)-10:]...)
	}
	return strings.Join(lines, "\n")
}

// readiness returns what an instance reports to this machine.
func (n *instance) readiness() string {
	res, err := http.Get(n.URL + "/readyz")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

// migrateOn does to the schema what a later version may do while this one serves on: a column
// in every table.
func (d *database) migrateOn() {
	d.t.Helper()
	var tables string
	must(d.t, d.db.QueryRow("SELECT string_agg(tablename, ' ') FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'goose_db_version'").Scan(&tables))
	for table := range strings.FieldsSeq(tables) {
		d.exec("ALTER TABLE " + table + " ADD COLUMN of_a_later_version TEXT NOT NULL DEFAULT ''")
	}
	d.exec("INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM goose_db_version")
}

// receiver is the application's address for logout tokens.
func (l *ledger) receiver(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sid := browser.ClaimsOf(r.PostFormValue("logout_token")).Sid
		l.note(func() { l.toldAt[sid] = append(l.toldAt[sid], time.Now()) })
	}))
	t.Cleanup(server.Close)
	return server.URL + "/logout"
}

// backup is made of the running installation.
func (c *installation) backup() {
	c.t.Helper()
	if exec.Command(c.program, "backup", "--help").Run() != nil {
		c.t.Log("this program has no backup: none is made")
		return
	}
	file, begin := filepath.Join(c.dir, "soak.backup"), time.Now()
	c.cairn("backup", file)
	c.t.Logf("a backup took %s", time.Since(begin).Round(time.Millisecond))
}

// report holds the answers against what is promised and prints how long they took.
func (l *ledger) report(t *testing.T, e events, calm bool) {
	t.Helper()
	for _, fault := range l.faults {
		t.Errorf("%s", fault)
	}
	took, announced, busy, failed := map[string][]time.Duration{}, 0, 0, 0
	end := e.promoted.Add(recovery)
	for _, r := range l.requests {
		during := r.end.After(e.killed) && r.begin.Before(end)
		ok := r.status > 0 && r.status < 500
		switch {
		case ok && !during && r.what != "status wait":
			took[r.what] = append(took[r.what], r.end.Sub(r.begin))
			took["all"] = append(took["all"], r.end.Sub(r.begin))
		case ok:
		case r.announced && during:
			announced++
		case r.announced && !e.planned(r): // too much for this machine
			busy++
		default:
			if failed++; failed <= 20 {
				t.Errorf("%s %s: %s", r.begin.Format("15:04:05.000"), r.what, r.text)
			}
		}
	}
	t.Logf("%d requests, %d announced 503 during the failover, %d at other times, %d failed", len(l.requests), announced, busy, failed)
	for what, each := range took {
		slices.Sort(each)
		p := func(q float64) time.Duration { return each[int(q*float64(len(each)-1))].Round(time.Millisecond) }
		t.Logf("%-14s %7d  p50 %s  p99 %s  max %s", what, len(each), p(0.5), p(0.99), p(1))
		if what == "all" && calm && p(0.99) > slowest {
			t.Errorf("the slowest hundredth took more than %s", slowest)
		}
	}
	if len(took["all"]) < 500 || announced == 0 {
		t.Error("that was no load, or no failover")
	}
}

// verify asks the instances for all that was acknowledged.
func (l *ledger) verify(t *testing.T, c *installation, e events) {
	t.Helper()
	check := newMember(newLedger(), c, c.secret, "")
	introspect := func(n *instance, token string) any {
		return check.post("introspect", n.URL+"/oauth2/introspect", url.Values{"token": {token}}).JSON()["active"]
	}
	n := 0
	for token, of := range l.live {
		if n++; introspect(c.each[n%instances], token) != true {
			t.Errorf("a token of %s is lost", of)
		}
	}
	for _, handle := range l.accounts {
		same(t, fmt.Sprintf("the account %s is lost", handle),
			c.standby.count("SELECT count(*) FROM users WHERE handle = '"+handle+"' AND deleted_at = 0"), 1)
	}
	var told, repeated int
	eventually(t, 2*time.Minute, "the application is told of every session that has ended", func() (err error) {
		l.note(func() {
			for sid, owed := range l.owed {
				if owed && len(l.toldAt[sid]) == 0 {
					err = fmt.Errorf("not of %s", sid)
				}
			}
		})
		return err
	})
	for _, times := range l.toldAt {
		told++
		// What was sent while the database was lost may be sent again.
		if len(times) > 1 && (times[0].After(e.promoted.Add(recovery)) || times[0].Before(e.killed.Add(-recovery))) {
			repeated++
		}
	}
	if repeated > 0 {
		t.Errorf("of %d sessions the application was told twice", repeated)
	}
	t.Logf("there and right: %d accounts, %d live tokens, %d logout tokens", len(l.accounts), len(l.live), told)
	for what, n := range map[string]int{"live tokens": len(l.live), "logout tokens": told, "accounts": len(l.accounts) - clients} {
		if n <= 0 {
			t.Errorf("the load made no %s", what)
		}
	}
}
