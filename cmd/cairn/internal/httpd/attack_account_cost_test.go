package httpd

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/store/storetest"
)

// members registers people at the real program.
func (p *installed) members(handles ...string) *browser {
	p.t.Helper()
	keeper := p.signedIn("keeper")
	for _, h := range handles {
		if got := p.visitor().register(keeper.invite(), h); got.StatusCode != http.StatusCreated {
			p.t.Fatalf("register %s: %d %s", h, got.StatusCode, got.Text)
		}
	}
	return keeper
}

// Attack 93, with the password hash of the product: the median of fifteen,
// taken in turns, is the same for a handle that exists, one that does not, and
// one that is suspended.
func TestTimeNeverTellsWhetherAHandleExists(t *testing.T) {
	p := startInstalled(t, false, "")
	keeper := p.members("ada", "bob", "banned")
	keeper.api("POST", "/api/admin/users/banned/suspend", nil)
	median := func() map[string]time.Duration {
		took := map[string][]time.Duration{}
		for i := range 15 {
			handles := map[string]string{"known": []string{"ada", "bob"}[i%2], "unknown": fmt.Sprintf("nobody%d", i), "impossible": fmt.Sprintf("no body %d", i)}
			if i < 9 { // of ten that the account's limit allows
				handles["suspended"] = "banned"
			}
			for name, handle := range handles {
				b := p.visitor()
				b.get("/healthz") // the connection
				start := time.Now()
				got := b.login(handle, "a wrong password")
				took[name] = append(took[name], time.Since(start))
				if got.StatusCode != http.StatusUnauthorized {
					t.Fatalf("%s: %d %s", handle, got.StatusCode, got.Text)
				}
			}
		}
		m := map[string]time.Duration{}
		for name, all := range took {
			slices.Sort(all)
			m[name] = all[len(all)/2]
		}
		return m
	}
	m := median()
	for name, d := range m {
		if known := m["known"]; d < known/2 || d > known*2 || d < 5*time.Millisecond {
			t.Errorf("%s takes %s, a known handle %s", name, d, known)
		}
	}
	t.Log(m)
}

// Attacks 98 and 105: fifty sign-ins at once all succeed, take a bounded amount
// of memory, and leave the other endpoints to everybody else.
func TestSignInStormNeverStarvesTheOthers(t *testing.T) {
	p := startInstalled(t, true, "")
	keeper := p.members("ada", "bob")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var slowest [3]time.Duration
	for i, path := range []string{"/healthz", "/api/me", "/account/"} {
		wg.Go(func() {
			for {
				start := time.Now()
				if got := keeper.get(path); got.StatusCode != http.StatusOK {
					t.Errorf("%s during the storm: %d", path, got.StatusCode)
				}
				slowest[i] = max(slowest[i], time.Since(start))
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	for _, storm := range []struct {
		handle, password string
		want             int
	}{{"ada", password, http.StatusOK}, {"bob", "a wrong password", http.StatusUnauthorized}} {
		got := inParallel(50, func(int) int { return p.visitor().login(storm.handle, storm.password).StatusCode })
		if storm.want == http.StatusOK && got[http.StatusOK] != 50 || got[http.StatusOK]+got[http.StatusUnauthorized]+got[http.StatusTooManyRequests] != 50 {
			t.Errorf("%s: %v", storm.handle, got)
		}
		if n := got[http.StatusUnauthorized]; storm.want == http.StatusUnauthorized && n != 10 {
			t.Errorf("%d passwords were compared", n)
		}
	}
	close(stop)
	wg.Wait()
	for i, d := range slowest {
		if d > 2*time.Second {
			t.Errorf("endpoint %d waited %s", i, d)
		}
	}
	t.Log("slowest answers", slowest)
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)); err == nil {
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		kib, _ := strconv.Atoi(strings.Fields(peak)[0])
		if kib > 700<<10 { // fifty hashes at once would take 950
			t.Errorf("the storm took %d MiB", kib>>10)
		}
		t.Log("peak MiB", kib>>10)
	}
}

// Attacks 108 and 121 at the speed of real hashes: all have shown a good code
// when the first one spends it, and none of them is taken for a guesser.
func TestLosersOfARaceAreNeverTakenForGuessers(t *testing.T) {
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		p := startInstalled(t, isPostgres(dsn), dsn)
		keeper, address := p.members("ada"), freshAddress()
		for round := range 2 {
			code := keeper.resetCode("ada")
			got := inParallel(7, func(i int) int {
				return p.visitorAt(address).reset("ada", code, fmt.Sprintf("%d hills, round %d", i, round)).StatusCode
			})
			if got[http.StatusOK] != 1 || got[http.StatusBadRequest] != 6 {
				t.Errorf("reset, round %d: %v", round, got)
			}
			invite := keeper.invite()
			got = inParallel(7, func(i int) int {
				return p.visitorAt(address).register(invite, fmt.Sprintf("r%d-%d", round, i)).StatusCode
			})
			if got[http.StatusCreated] != 1 || got[http.StatusBadRequest] != 6 {
				t.Errorf("register, round %d: %v", round, got)
			}
		}
	})
}

// Who hangs up while a password is compared is not a failure of the service:
// anybody could fill the log with errors.
func TestVisitorWhoHangsUpIsNeverLoggedAsAFailure(t *testing.T) {
	p := newInstalled(t, true, "")
	p.env = append(p.env, "SERVICE_LOG_LEVEL=debug")
	p.serve()
	p.members("ada")
	body := fmt.Sprintf(`{"handle":"ada","password":%q}`, password)
	request := fmt.Sprintf("POST /api/auth/login HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s", jsonHead, len(body), body)
	inParallel(40, func(int) int {
		c := p.dial()
		_, _ = c.Write([]byte(request))
		_ = c.Close()
		return 0
	})
	if got := p.visitor().login("ada", password); got.StatusCode != http.StatusOK {
		t.Errorf("everybody else: %d", got.StatusCode)
	}
	p.stop()
	gone := 0
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, `"client_gone"`) {
			gone++
		}
		if strings.Contains(line, `"level":"ERROR","msg":"request`) || strings.Contains(line, `"client_gone"`) && !strings.Contains(line, `"level":"DEBUG"`) {
			t.Errorf("logged as a failure: %s", line)
		}
	}
	if gone == 0 {
		t.Error("nobody was cut off")
	}
}
