package httpd

import (
	"bufio"
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needsUser starts a command line that prints the address for its user, lets ada allow it there, and returns what it
// prints then.
func (s *service) needsUser(cmd *exec.Cmd) (after string) {
	s.t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	noError(s.t, err)
	noError(s.t, cmd.Start())
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	asked := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if i := strings.Index(line, s.URL+"/device?user_code="); i >= 0 && !asked {
			asked = true
			link, err := url.Parse(strings.Fields(line[i:])[0])
			noError(s.t, err)
			if got := s.browser().typed(link.Query().Get("user_code"), "ada", "allow"); !strings.Contains(got.Text, `id="device-allowed"`) {
				s.t.Errorf("the page: %d %s", got.StatusCode, mainOf(got.Text))
			}
			continue
		}
		after += line + "\n"
	}
	if err := cmd.Wait(); err != nil || !asked {
		s.t.Fatalf("%v, asked: %v\n%s", err, asked, after)
	}
	return after
}

func TestOpenidClientSignsADeviceIn(t *testing.T) {
	script := nodeScript(t, "openid_client_device.mjs", "openid-client")
	s := startDevices(t, serviceOptions{})
	cmd := exec.CommandContext(t.Context(), script[0], script[1:]...)
	cmd.Env = append(os.Environ(), "ISSUER="+s.URL, "CLIENT_ID=tool")
	same(t, "it saw", s.needsUser(cmd), "ada\n")
}

// Debian's oidc-agent, whose daemon polls for the token and whose command shows the code.
func TestOIDCAgentSignsADeviceIn(t *testing.T) {
	another(t)
	needFiles(t, "/usr/bin/oidc-agent", "/usr/bin/oidc-gen", "/usr/bin/oidc-token")
	s := startDevices(t, serviceOptions{})
	home := t.TempDir()
	socket := filepath.Join(home, "agent.sock")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "OIDC_SOCK=" + socket, "PW=" + password}
		cmd.WaitDelay = time.Second // the agent's child keeps the output open
		return cmd
	}
	agent := command("oidc-agent", "--console", "--no-webserver", "--socket-path="+socket)
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	noError(t, agent.Start())
	t.Cleanup(func() { _ = syscall.Kill(-agent.Process.Pid, syscall.SIGKILL); _ = agent.Wait() })
	for conn, err := net.Dial("unix", socket); ; conn, err = net.Dial("unix", socket) {
		if err == nil {
			_ = conn.Close()
			break
		}
		noError(t, ctx.Err())
		time.Sleep(20 * time.Millisecond)
	}
	gen := command("oidc-gen", "--flow=device", "--manual", "--iss="+s.URL, "--client-id=tool", "--client-secret=", "--scope=openid profile offline_access",
		"--pw-env=PW", "--prompt=none", "--confirm-default", "--no-save", "hills")
	out, err := gen.StdoutPipe()
	noError(t, err)
	gen.Stderr = gen.Stdout
	noError(t, gen.Start())
	shown := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		shown += lines.Text() + "\n"
		if _, code, ok := strings.Cut(lines.Text(), "enter the code: "); ok {
			if got := s.browser().typed(code, "ada", "allow"); !strings.Contains(got.Text, `id="device-allowed"`) {
				t.Errorf("the page: %d %s", got.StatusCode, mainOf(got.Text))
			}
		}
	}
	if err := gen.Wait(); err != nil || !strings.Contains(shown, "\n"+s.URL+"/device\n") {
		t.Fatalf("oidc-gen: %v\n%s", err, shown)
	}
	token, err := command("oidc-token", "hills").Output()
	noError(t, err)
	if who := s.userinfo(strings.TrimSpace(string(token))); who["preferred_username"] != "ada" {
		t.Errorf("userinfo: %v", who)
	}
}
