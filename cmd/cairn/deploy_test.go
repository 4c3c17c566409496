package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cairn-id/cairn/config"
)

// deployed is a file of deploy/.
func deployed(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../deploy", name))
	fatalIf(t, err)
	return string(b)
}

// accepted runs serve's settings through the parser, with a config file or an environment.
func accepted(t *testing.T, configText string, environ ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), config.ConfigName)
	fatalIf(t, os.WriteFile(file, []byte(configText), 0o600))
	if err := parseCommand(t, []string{"--config", file, "serve"}); err != nil {
		t.Errorf("%v in\n%s", err, configText)
	}
	if unknown := config.UnknownEnvironment(environ); len(unknown) > 0 {
		t.Error(unknown)
	}
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "SERVICE_") && !strings.Contains(documents(t)["docs/settings.md"], "`"+name+"`") {
			t.Errorf("%s is no setting", name)
		}
	}
}

func TestDeployedSettingsAndCommandsExist(t *testing.T) {
	text := deployed(t, "cairn.yaml")
	accepted(t, text)
	accepted(t, regexp.MustCompile(`(?m)^#([a-z-]+:)`).ReplaceAllString(text, "$1")) // what is proposed, too
	for _, unit := range []string{"cairn.service"} {
		seen := 0
		for _, m := range regexp.MustCompile(`/usr/bin/cairn ([a-z]+)`).FindAllStringSubmatch(deployed(t, unit), -1) {
			seen++
			if err := parseCommand(t, []string{m[1], "--help"}); err != nil {
				t.Errorf("%s: %v", unit, err)
			}
		}
		if seen == 0 {
			t.Errorf("%s runs nothing", unit)
		}
	}
}

// There is no container engine to build it with: deploy/test-container runs what it copies.
func TestDockerfileEndsInAnEmptyImageOfAnUnprivilegedUser(t *testing.T) {
	text := deployed(t, "Dockerfile")
	if !strings.HasPrefix(text, "# ") {
		t.Error("it does not say how it is built")
	}
	var stages [][]string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "FROM ") {
			stages = append(stages, nil)
		}
		if len(stages) > 0 && line != "\n" && !strings.HasPrefix(line, "#") {
			stages[len(stages)-1] = append(stages[len(stages)-1], strings.TrimSpace(line))
		}
	}
	last := stages[len(stages)-1]
	for _, want := range []string{"FROM scratch", "USER 65532:65532", "WORKDIR /data", "VOLUME /data", `ENTRYPOINT ["/cairn"]`} {
		if !slices.Contains(last, want) {
			t.Errorf("the last stage lacks %s: %q", want, last)
		}
	}
	for _, line := range last {
		if strings.HasPrefix(line, "RUN") || strings.HasPrefix(line, "ADD") {
			t.Errorf("an empty image cannot: %s", line)
		}
	}
	for _, m := range regexp.MustCompile(`CMD \[("/cairn", )?"([a-z]+)"\]`).FindAllStringSubmatch(text, -1) {
		if err := parseCommand(t, []string{m[2], "--help"}); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(text, -1) {
		accepted(t, "", strings.Fields(m[1])...)
	}
}

func TestComposeFileGivesNothingThatIsNotNeeded(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Environment map[string]string
			Secrets     []string
			Volumes     []string
			Networks    []string
			Ports       []string
			ReadOnly    bool     `yaml:"read_only"`
			CapDrop     []string `yaml:"cap_drop"`
			CapAdd      []string `yaml:"cap_add"`
			SecurityOpt []string `yaml:"security_opt"`
			Privileged  bool
		}
		Secrets  map[string]struct{ File string }
		Volumes  map[string]any
		Networks map[string]any
	}
	fatalIf(t, yaml.Unmarshal([]byte(deployed(t, "compose.yaml")), &file))
	for name, s := range file.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.Privileged {
			t.Errorf("%s: %+v", name, s)
		}
		for _, secret := range s.Secrets {
			path := file.Secrets[secret].File
			if path == "" {
				t.Errorf("%s: the secret %s is no file", name, secret)
			}
			// Docker reads all else of the repository to build, and keeps it in its cache.
			if !slices.Contains(strings.Fields(deployed(t, "../.dockerignore")), filepath.Dir(filepath.Join("deploy", path))) {
				t.Errorf("%s is not in .dockerignore", path)
			}
		}
		for _, volume := range s.Volumes {
			if source, _, _ := strings.Cut(volume, ":"); !slices.Contains(slices.Collect(maps.Keys(file.Volumes)), source) {
				t.Errorf("%s: there is no volume %s", name, source)
			}
		}
		for variable, value := range s.Environment {
			if regexp.MustCompile(`(?i)password|secret`).MatchString(variable) && !strings.HasPrefix(value, "/run/secrets/") {
				t.Errorf("%s: %s is in the environment", name, variable)
			}
			if name == "cairn" {
				accepted(t, "", variable+"="+value)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: %s is open to other machines", name, port)
			}
		}
	}
	if s := file.Services["cairn"]; len(file.Services) != 2 || len(s.CapAdd) != 0 || !strings.HasPrefix(s.Environment["SERVICE_DATABASE"], "postgres://cairn@database/") {
		t.Errorf("%+v", file.Services)
	}
}

// nginx and Caddy run in a test of internal/httpd; Traefik is not in Debian.
func TestTraefikFileNamesOnlyWhatItHas(t *testing.T) {
	var file struct {
		HTTP struct {
			Routers map[string]struct {
				Rule, Service string
				Middlewares   []string
			}
			Middlewares map[string]map[string]any
			Services    map[string]struct {
				LoadBalancer struct {
					ServersTransport string `yaml:"serversTransport"`
					Servers          []struct{ URL string }
				} `yaml:"loadBalancer"`
			}
			ServersTransports map[string]any `yaml:"serversTransports"`
		}
	}
	fatalIf(t, yaml.Unmarshal([]byte(deployed(t, "traefik.yaml")), &file))
	for name, r := range file.HTTP.Routers {
		if len(file.HTTP.Services[r.Service].LoadBalancer.Servers) == 0 ||
			file.HTTP.ServersTransports[file.HTTP.Services[r.Service].LoadBalancer.ServersTransport] == nil ||
			!strings.HasPrefix(r.Rule, "Host(`") {
			t.Errorf("router %s: %+v", name, r)
		}
		for _, m := range r.Middlewares {
			if _, ok := file.HTTP.Middlewares[m]["headers"]; ok || file.HTTP.Middlewares[m] == nil {
				t.Errorf("middleware %s: %v", m, file.HTTP.Middlewares[m])
			}
		}
	}
	if len(file.HTTP.Routers) == 0 {
		t.Error("no router")
	}
}

// The unit deletes its own oldest backups, none that the service or a person has made there.
func TestBackupUnitDeletesItsOwnBackupsAlone(t *testing.T) {
	m := regexp.MustCompile(`(?m)^ExecStartPost=/bin/sh -c '(.*)'$`).FindStringSubmatch(deployed(t, "cairn-backup.service"))
	if m == nil {
		t.Fatal("there is no line that deletes")
	}
	folder := t.TempDir()
	kept := []string{
		"cairn-20251122T030000Z.tar.gz", "cairn-20261122T030000Z.tar.gz", "cairn-2026-11-21T031712Z.tar.gz", "cairn-2026-11-22T031712Z.tar.gz",
		"cairn-2026-friday.tar.gz", "cairn-before-schema-12-20261122T030000Z.tar.gz",
	}
	for _, name := range append([]string{"cairn-2026-11-19T031712Z.tar.gz", "cairn-2026-11-20T031712Z.tar.gz"}, kept...) {
		fatalIf(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.ReplaceAll(m[1], "/var/backups/cairn", folder))
	c.Env = append(os.Environ(), "BACKUP_KEEP=2")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var left []string
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if slices.Sort(kept); err != nil || !slices.Equal(left, kept) {
		t.Errorf("left are %q, want %q", left, kept)
	}
}

// Who stops the service gives it the longest --shutdown-delay and the time of the requests
// in flight before it is killed.
func TestStopIsNotCutShort(t *testing.T) {
	settings := config.Defaults()
	settings.ShutdownDelay = "60s"
	if _, err := settings.Check(); err != nil {
		t.Fatal(err)
	}
	for file, line := range map[string]string{"cairn.service": `(?m)^TimeoutStopSec=(.*)$`, "compose.yaml": `stop_grace_period: (.*)`} {
		m := regexp.MustCompile(line).FindStringSubmatch(deployed(t, file))
		if m == nil {
			t.Errorf("%s does not say how long a stop may take", file)
		} else if d, err := time.ParseDuration(m[1]); err != nil || d <= time.Minute+drainTimeout {
			t.Errorf("%s: a stop may take %s", file, m[1])
		}
	}
}

// As in a chroot without /proc, where systemd-tmpfiles fails: the folders are made all the same.
func TestPackageIsInstalledWithoutProc(t *testing.T) {
	stubs := t.TempDir()
	for name, does := range map[string]string{"systemd-tmpfiles": "exit 1", "install": `echo "install $*"`} {
		fatalIf(t, os.WriteFile(filepath.Join(stubs, name), []byte("#!/bin/sh\n"+does+"\n"), 0o755))
	}
	for _, name := range []string{"systemd-sysusers", "dpkg-statoverride", "chown", "chmod", "systemctl", "cat"} {
		fatalIf(t, os.Symlink("/bin/true", filepath.Join(stubs, name)))
	}
	c := exec.CommandContext(t.Context(), "/bin/sh", "../../deploy/debian/postinst", "configure")
	c.Env = []string{"PATH=" + stubs}
	out, err := c.CombinedOutput()
	if want := "install -d -m 0700 -o cairn -g cairn /var/lib/cairn /var/backups/cairn\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s", err, out)
	}
}
