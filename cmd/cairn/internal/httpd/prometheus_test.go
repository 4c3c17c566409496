//go:build unix

package httpd

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// deployFile is a file that operators take as it is.
func deployFile(name string) string { return filepath.Join("..", "..", "..", "..", "deploy", name) }

// fetch reads an address with the status that it must have.
func fetch(t *testing.T, address string, status int) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	noError(t, err)
	got, err := http.DefaultClient.Do(r)
	noError(t, err)
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	noError(t, err)
	if got.StatusCode != status {
		t.Fatalf("%s: %d %s", address, got.StatusCode, text)
	}
	return string(text)
}

// promtool runs it on the files that operators get.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/usr/bin/promtool", args...)
	c.Stdin = strings.NewReader(input)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func TestAlertRulesFireForWhatTheyAreFor(t *testing.T) {
	needFiles(t, "/usr/bin/promtool")
	promtool(t, "", "check", "rules", deployFile("alerts.yml"))
	promtool(t, "", "test", "rules", deployFile("alerts_test.yml"))
}

// dashboardQueries are the expressions of the panels, as Grafana sends them for all instances.
func dashboardQueries(t *testing.T) map[string]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ RefID, Expr string }
		}
	}
	noError(t, json.Unmarshal([]byte(fileTexts(t, deployFile("grafana.json"))), &dashboard))
	queries, cells := map[string]string{}, map[[2]int]string{}
	for _, p := range dashboard.Panels {
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if under := cells[[2]int{x, y}]; under != "" || x >= 24 {
					t.Errorf("panel %s lies over %q", p.Title, under)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			queries[p.Title+" "+target.RefID] = strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*").Replace(target.Expr)
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %s shows nothing", p.Title)
		}
	}
	return queries
}

// prometheusServer is Debian's Prometheus, which scrapes a service.
type prometheusServer struct {
	t    *testing.T
	base string
}

func startPrometheus(t *testing.T, target string, flags ...string) prometheusServer {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	rules, err := filepath.Abs(deployFile("alerts.yml"))
	noError(t, err)
	noError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), fmt.Appendf(nil, `
global: {scrape_interval: 200ms, evaluation_interval: 200ms}
rule_files: [%q]
scrape_configs: [{job_name: cairn, static_configs: [{targets: [%q]}]}]
`, rules, target), 0o600))
	startProgram(t, port, append([]string{"/usr/bin/prometheus", "--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:" + port}, flags...))
	p := prometheusServer{t, "http://127.0.0.1:" + port}
	within(t, "Prometheus is ready", func() bool {
		got, err := http.Get(p.base + "/-/ready")
		noError(t, err)
		return got.Body.Close() == nil && got.StatusCode == http.StatusOK
	})
	return p
}

// query returns how many series an expression has.
func (p prometheusServer) query(expression string) int {
	p.t.Helper()
	var got struct {
		Status string
		Data   struct{ Result []json.RawMessage }
	}
	noError(p.t, json.Unmarshal([]byte(fetch(p.t, p.base+"/api/v1/query?query="+url.QueryEscape(expression), http.StatusOK)), &got))
	same(p.t, expression, got.Status, "success")
	return len(got.Data.Result)
}

// within asks again and again until the answer is yes, for a minute.
func within(t *testing.T, what string, yes func() bool) {
	t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); !yes(); <-again.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// has waits until one of the expressions has a series: for a moment after a scrape that took too long, none has.
func (p prometheusServer) has(what string, expressions ...string) {
	p.t.Helper()
	within(p.t, what, func() bool {
		return slices.ContainsFunc(expressions, func(e string) bool { return p.query(e) > 0 })
	})
}

// wantRules waits until each rule was evaluated; none may have failed or fire.
func (p prometheusServer) wantRules(kind string) {
	p.t.Helper()
	within(p.t, "rules", func() bool {
		text := fetch(p.t, p.base+"/api/v1/rules", http.StatusOK)
		if strings.Contains(text, `"health":"err"`) {
			p.t.Fatalf("%s: the rules: %s", kind, text)
		}
		return strings.Count(text, `"health":"ok"`) == 16 && !strings.Contains(text, `"state":"firing"`)
	})
}

// The real service, the real Prometheus: every panel has data, every rule works, with
// classic buckets and with native histograms alone.
func TestPrometheusReadsWhatDashboardAndRulesNeed(t *testing.T) {
	needFiles(t, "/usr/bin/prometheus", "/usr/bin/promtool")
	p := newInstalled(t, false, "")
	target := "127.0.0.1:" + freePort(t)
	p.env = append(p.env, "SERVICE_METRICS_LISTEN="+target)
	secrets := busyRun(t, p)
	text := fetch(t, "http://"+target+"/metrics", http.StatusOK)
	promtool(t, text, "check", "metrics")
	secrets["handle"], secrets["address"] = "keeper", "127.0"
	for name, secret := range secrets {
		if holds(text, secret) {
			t.Errorf("the %s is among the metrics", name)
		}
	}
	rules := fileTexts(t, deployFile("alerts.yml"))
	for kind, flags := range map[string][]string{"classic": nil, "native": {"--enable-feature=native-histograms"}} {
		prometheus := startPrometheus(t, target, flags...)
		within(t, "three scrapes", func() bool { return prometheus.query(`count_over_time(cairn_build_info[1m]) > 2`) > 0 })
		same(t, fmt.Sprintf("%s: there are native histograms", kind),
			prometheus.query(`histogram_count(cairn_http_request_duration_seconds) > 0`) > 0, kind == "native")
		for panel, expression := range dashboardQueries(t) {
			prometheus.has(kind+": data of panel "+panel+": "+expression, expression)
		}
		// A rule about a series that is not there would never fire.
		for _, name := range regexp.MustCompile(`cairn_[a-z_]+`).FindAllString(rules, -1) {
			// No operation has failed, and TLS is another test's; a histogram has buckets, or is native.
			away := name == "cairn_database_errors_total" || name == "cairn_tls_certificate_end_timestamp_seconds"
			if !away {
				prometheus.has(kind+": "+name, name, name+"_bucket", strings.TrimSuffix(name, "_bucket"))
			}
		}
		prometheus.wantRules(kind)
	}
}

// Profiles tell the memory of the process: they are for this machine. Its command line may hold
// the password of the database, and is not served.
func TestProfilesAreForThisMachine(t *testing.T) {
	for address, served := range map[string]map[string]bool{"127.0.0.1": {"": true}, "0.0.0.0": {"": false, "true": true}} {
		for asked, profiles := range served {
			p := newInstalled(t, true, "")
			port := freePort(t)
			p.env = append(p.env, "SERVICE_METRICS_LISTEN="+net.JoinHostPort(address, port), "SERVICE_PPROF="+asked)
			p.serve()
			fetch(t, "http://127.0.0.1:"+port+"/metrics", http.StatusOK)
			for path, shown := range map[string]bool{"/debug/pprof/": true, "/debug/pprof/heap": true, "/debug/pprof/cmdline": false} {
				status := http.StatusNotFound
				if profiles && shown {
					status = http.StatusOK
				}
				fetch(t, "http://127.0.0.1:"+port+path, status)
			}
			// A page of another site whose name leads to this machine would be of the same origin (DNS rebinding).
			for host, own := range map[string]bool{"localhost": true, "LOCALHOST:1": true, "127.0.0.2:" + port: true, "[::1]:9464": true,
				"evil.example": false, "127.0.0.1.evil.example:" + port: false, "localhost.": false, "192.0.2.1": false} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/debug/pprof/", nil)
				noError(t, err)
				r.Host = host
				got, err := http.DefaultClient.Do(r)
				noError(t, err)
				noError(t, got.Body.Close())
				if profiles && (got.StatusCode == http.StatusOK) != own {
					t.Errorf("Host %q: %s", host, got.Status)
				}
			}
			for _, path := range []string{"/metrics", "/debug/pprof/"} {
				wantStatus(t, path+" at the service", p.visitor().get(path), http.StatusNotFound)
			}
			p.stop()
		}
	}
}
