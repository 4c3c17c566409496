package httpd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/metrics"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// scrape reads the series in Prometheus's text.
func scrape(t *testing.T, m *metrics.Metrics) (text string, series map[string]float64) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler(false).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("/metrics: %d %s", w.Code, w.Body)
	}
	text, series = w.Body.String(), map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if i := strings.LastIndexByte(lines.Text(), ' '); i > 0 && lines.Text()[0] != '#' {
			v, err := strconv.ParseFloat(lines.Text()[i+1:], 64)
			noError(t, err)
			series[lines.Text()[:i]] = v
		}
	}
	return text, series
}

func TestWhatHappensIsCounted(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		m := metrics.New(metrics.Build{Version: "v1"})
		limits := func(c *config.Settings) { c.RateLimits = []string{"register=1/15m", "all=off", "token=off"} }
		s := startService(t, serviceOptions{Store: storetest.Open(t, dsn), Limits: true, BasePath: "/id", Metrics: m, Settings: limits})
		user := s.addUser("lovelace")
		rp := s.app("app", nil)
		b, token := s.signedInTokens(rp, "lovelace")
		refreshed, _ := rp.refresh(token.RefreshToken).JSON(t)["refresh_token"].(string)
		wantRevoked(t, "revocation", rp.revoke(refreshed))
		s.visitor().login("lovelace", "not-the-password")
		s.visitor().login("password-of-a-stranger", "not-the-password")
		guesser := s.visitor()
		for range 3 {
			guesser.register("0123456789ABCDEF", "hopper")
		}
		b.do("BREW", "/path-of-a-stranger", "", "")
		s.tokenRequest("client-of-a-stranger", "secret", rp.codeForm("x.y"))
		uri, etag := listOf(t, b)
		held := hold(t, strings.TrimSuffix(s.URL, "/id"), uri, etag)
		for deadline := time.Now().Add(20 * time.Second); ; {
			if _, got := scrape(t, m); got["cairn_status_requests_held"] == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the held request is not counted")
			}
		}
		noError(t, s.store.SuspendAll(t.Context(), "", time.Now(), map[string]account.Audit{user.Sub: operator(account.Suspend, "lovelace", "")}))
		<-held
		s.visitor().login("lovelace", password)
		text, got := scrape(t, m)
		for name, want := range map[string]float64{
			`cairn_sign_ins_total{factor="password",outcome="success"}`:                        1,
			`cairn_sign_ins_total{factor="password",outcome="failed"}`:                         2,
			`cairn_sign_ins_total{factor="password",outcome="suspended"}`:                      1,
			`cairn_tokens_issued_total{client="app",grant_type="authorization_code"}`:          1,
			`cairn_tokens_issued_total{client="app",grant_type="refresh_token"}`:               1,
			`cairn_revocations_total{kind="grant"}`:                                            1,
			`cairn_revocations_total{kind="session"}`:                                          1,
			`cairn_limits_hit_total{limit="register"}`:                                         2,
			`cairn_limits_hit_total{limit="login"}`:                                            0,
			`cairn_http_requests_total{code="200",method="POST",route="/oauth2/token"}`:        2,
			`cairn_http_requests_total{code="404",method="other",route="none"}`:                1,
			`cairn_http_requests_total{code="200",method="GET",route="/oauth2/status/{list}"}`: 2,
			`cairn_http_request_duration_seconds_count{method="POST",route="/oauth2/token"}`:   3,
			`cairn_password_hash_duration_seconds_count`:                                       5, // one made for the user
			`cairn_ready{check="database"}`:                                                    1,
			`cairn_outbox_waiting{outbox="logout_notices"}`:                                    0,
			`cairn_outbox_oldest_age_seconds{outbox="mails"}`:                                  0,
			`cairn_work_last_done_timestamp_seconds{work="backup"}`:                            0,
			`cairn_clock_wait`: 0,
			`cairn_database_operation_duration_seconds_count{operation="suspend users"}`: 1,
			`cairn_metrics_read_errors_total`:                                            0,
			`cairn_build_info{commit="",go_version="",sqlite="",version="v1"}`:           1,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s: %v, want %v", name, v, want)
			}
		}
		_, hasFile := got[`cairn_database_file_bytes{file="database"}`]
		if hasFile != (s.store.Dialect() == store.SQLite) || got[`cairn_database_connections_max`] < 8 {
			t.Errorf("database: %v", got)
		}
		for _, private := range []string{"lovelace", "stranger", "hopper", "127.", user.Sub, token.AccessToken, refreshed, "not-the-password", "/id/"} {
			lacks(t, "is among the metrics", text, private)
		}
		// One series an operation, however many: a statement that names rows would make one each.
		operation := regexp.MustCompile(`(?m)^cairn_database_operation_duration_seconds_count\{operation="([^"]*)"`)
		for _, found := range operation.FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`^[a-zA-Z0-9_ ]+$`).MatchString(found[1]) || found[1] == "read other" {
				t.Errorf("operation %q", found[1])
			}
		}
	})
}

// An answer that breaks off, as an export whose database fails, has ended and is logged.
func TestAnAnswerThatBreaksOffIsCounted(t *testing.T) {
	var log bytes.Buffer
	m := metrics.New(metrics.Build{})
	broken := &middleware{now: time.Now, metrics: m, log: slog.New(slog.NewTextHandler(&log, nil))}
	h := broken.identify(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("["))
		panic(http.ErrAbortHandler)
	}))
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("the connection does not end: %v", v)
			}
		}()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/me/export", nil))
	}()
	_, got := scrape(t, m)
	if got["cairn_http_requests_in_flight"] != 0 ||
		got[`cairn_http_requests_total{code="200",method="GET",route="none"}`] != 1 ||
		!strings.Contains(log.String(), "path=/api/me/export") {
		t.Errorf("%v in flight, log %q", got["cairn_http_requests_in_flight"], &log)
	}
}

// The database fails: it is counted, the scrape goes on, and says so.
func TestFailuresOfTheDatabaseAreCounted(t *testing.T) {
	m := metrics.New(metrics.Build{})
	s, db := startServiceWithDatabase(t, serviceOptions{Metrics: m}, "ada")
	mend := db.breaks("INSERT ON sessions")
	wantProblem(t, "sign-in", s.visitor().login("ada", password), http.StatusServiceUnavailable, "unavailable")
	mend()
	wantProblem(t, "wrong password", s.visitor().login("ada", "wrong"), http.StatusUnauthorized, "invalid_credentials")
	_, got := scrape(t, m)
	if got[`cairn_database_errors_total{operation="create session"}`] != 1 || got[`cairn_sign_ins_total{factor="password",outcome="success"}`] != 0 {
		t.Errorf("errors: %v", got)
	}
	noError(t, s.store.Close())
	_, got = scrape(t, m)
	if got[`cairn_ready{check="database"}`] != 0 || got["cairn_metrics_read_errors_total"] < 3 || got["cairn_database_connections_max"] != 8 {
		t.Errorf("after the loss of the database: %v", got)
	}
}

// readyz asks as a client of the address peer.
func (s *service) readyz(peer string, header ...string) response {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/readyz", nil)
	r.RemoteAddr = peer
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.server.Config.Handler.ServeHTTP(w, r)
	result := w.Result()
	result.Request = r
	return response{result, w.Body.String()}
}

func (s *service) wantNotReady(check, fault string) {
	s.t.Helper()
	got := s.readyz("127.0.0.1:1234")
	text, _ := got.JSON(s.t)["checks"].(map[string]any)[check].(string)
	if got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" || !strings.Contains(text, fault) {
		s.t.Errorf("%s: %d %s", check, got.StatusCode, got.Text)
	}
	if stranger := s.readyz("192.0.2.1:1234"); stranger.StatusCode != http.StatusServiceUnavailable ||
		strings.TrimSpace(stranger.Text) != `{"status":"not ready"}` || stranger.Header.Get("Retry-After") == "" {
		s.t.Errorf("%s, to a stranger: %d %s", check, stranger.StatusCode, stranger.Text)
	}
}

func TestReadinessTellsOnlyThisMachineWhatIsWrong(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{Settings: func(c *config.Settings) { c.TrustedProxies = []string{"127.0.0.1"} }})
	const all = `{"status":"ready","checks":{"database":"ok","disk":"ok","key":"ok","migrations":"ok"}}`
	for peer, want := range map[string]string{"127.0.0.1:1": all, "[::1]:1": all, "[::ffff:127.0.0.1]:1": all, "192.0.2.1:1": `{"status":"ready"}`, "[2001:db8::1]:1": `{"status":"ready"}`} {
		if got := s.readyz(peer); got.StatusCode != http.StatusOK || strings.TrimSpace(got.Text) != want {
			t.Errorf("%s: %d %s", peer, got.StatusCode, got.Text)
		}
	}
	// The peer of a proxy's request is the proxy; what the header says is a stranger's.
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"} {
		if got := s.readyz("127.0.0.1:1", header, "127.0.0.1"); got.StatusCode != http.StatusOK || strings.Contains(got.Text, "checks") {
			t.Errorf("%s: %s", header, got.Text)
		}
	}
	lacks(t, "a stranger", s.readyz("192.0.2.1:1", "X-Forwarded-For", "127.0.0.1").Text, "checks")
	db.exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	wantStatus(t, "a newer instance has migrated", s.readyz("192.0.2.1:1"), http.StatusOK)
	db.exec("DELETE FROM goose_db_version WHERE version_id >= (SELECT max(version_id) - 1 FROM goose_db_version WHERE version_id < 9999)")
	s.wantNotReady("migrations", "has to be migrated")
	noError(t, s.store.Close())
	s.wantNotReady("database", "does not answer")
	has(t, "the log does not say why", s.log.String(), `"check":"database"`)
	wantStatus(t, "the process is well", s.visitor().get("/healthz"), http.StatusOK)
}

// Another instance has a key and has issued tokens; this one would refuse them all.
func TestInstanceWithoutTheKeyIsNotReady(t *testing.T) {
	withKey, _, rp := startDatabaseApp(t, nil)
	withKey.signedInTokens(rp, "ada")
	for name, noOIDC := range map[string]bool{"forgotten": false, "wanted": true} {
		t.Run(name, func(t *testing.T) {
			s := startService(t, serviceOptions{HS256: true, Store: withKey.store,
				Settings: func(c *config.Settings) { c.NoOIDC = noOIDC }})
			if noOIDC {
				wantStatus(t, "ready", s.readyz("127.0.0.1:1"), http.StatusOK)
				return
			}
			s.wantNotReady("key", "--private-key-file")
		})
	}
}

// Who was refused, and by which limit, is in the log and the audit log; what was typed, which may be a password, is not.
func TestLogNamesWhoWasRefusedByWhichLimit(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true, Settings: func(c *config.Settings) {
		c.RateLimits = []string{"login=2/1h", "login-address=9/1h", "login-account=4/1h", "register=1/1h", "reset=2/1h", "reset-account=2/1h", "forgot=1/1h", "sign-in=300/1h"}
	}})
	ada, sam := s.addUser("ada"), s.addUser("sam")
	noError(t, s.store.SuspendAll(t.Context(), "", time.Now(), map[string]account.Audit{sam.Sub: operator(account.Suspend, "sam", "")}))
	const guesser, other = "127.0.0.51", "127.0.0.52"
	const typedName, typedPassword, typedCode, typedEmail = "correct-horse-battery", "Tr0ub4dor&3 and more", "ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "typed@example.net"
	// last returns what the last line says.
	last := func() map[string]string {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(s.log.String()), "\n")
		var all map[string]any
		noError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &all))
		out := map[string]string{}
		for _, key := range []string{"event", "limit", "account", "address", "reason", "user"} {
			out[key], _ = all[key].(string)
		}
		return out
	}
	limited := func() []account.Audit {
		rows, err := s.store.AuditLog(t.Context(), account.AuditQuery{Kind: account.LimitSignIns.Action})
		noError(t, err)
		return rows
	}
	for range 2 {
		s.visitorAt(guesser).login("ada", typedPassword)
	}
	if got := last(); got["event"] != "login_failed" || got["account"] != ada.Sub || got["limit"] != "" || len(limited()) != 0 {
		t.Errorf("a failure: %v", got)
	}
	s.visitorAt(guesser).login("ada", typedPassword)
	if got := last(); got["limit"] != "login" || got["account"] != ada.Sub || got["address"] != guesser || got["user"] != "" {
		t.Errorf("refused: %v", got)
	}
	if rows := limited(); len(rows) != 1 || rows[0].Target != "ada" || rows[0].Address != guesser || rows[0].Actor != "" {
		t.Errorf("audit log: %+v", rows)
	}
	for range 3 {
		s.visitorAt(other).login(typedName, typedPassword)
	}
	unknown := last()
	if unknown["limit"] != "login" || !regexp.MustCompile(`^hmac:[0-9a-f]{16}$`).MatchString(unknown["account"]) {
		t.Errorf("refused, an unknown name: %v", unknown)
	}
	s.visitorAt(other).login(strings.ToUpper(typedName), typedPassword)
	if got := last(); got["account"] != unknown["account"] {
		t.Errorf("another spelling: %v", got)
	}
	s.visitorAt(other).login("sam", password)
	if got := last(); got["event"] != "login_suspended" || got["account"] != sam.Sub {
		t.Errorf("suspended: %v", got)
	}
	join := func() {
		s.visitorAt(other).api("POST", "/api/register", map[string]string{"code": typedCode, "handle": "eve", "password": typedPassword})
	}
	join()
	if got := last(); got["event"] != "register_refused" || got["reason"] != "invalid_invite" {
		t.Errorf("register: %v", got)
	}
	join()
	if got := last(); got["limit"] != "register" || got["address"] != other {
		t.Errorf("register, limited: %v", got)
	}
	for range 3 {
		s.visitorAt(other).api("POST", "/api/auth/reset-password", map[string]string{"handle": "ada", "code": typedCode, "password": typedPassword})
	}
	if got := last(); got["limit"] != "reset" || got["account"] != ada.Sub {
		t.Errorf("reset: %v", got)
	}
	for range 2 {
		s.visitorAt(other).api("POST", "/api/auth/forgot-password", map[string]string{"handle": typedEmail})
	}
	rows, err := s.store.AuditLog(t.Context(), account.AuditQuery{})
	noError(t, err)
	everything := strings.ToLower(s.log.String() + fmt.Sprint(rows))
	for _, typed := range []string{typedName, typedPassword, typedCode, typedEmail, password} {
		lacks(t, fmt.Sprintf("%q is in clear in the log or the audit log", typed), everything, strings.ToLower(typed))
	}
}
