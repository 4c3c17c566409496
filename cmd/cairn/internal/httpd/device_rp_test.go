package httpd

import (
	"bufio"
	"net/url"
	"os"
	"os/exec"
	"strings"
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
	if got := s.needsUser(cmd); got != "ada\n" {
		t.Errorf("it saw %q", got)
	}
}
