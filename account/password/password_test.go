package password_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

const anchors = "seven rusty anchors"

func TestPasswordRules(t *testing.T) {
	for p, ok := range map[string]bool{
		anchors: true, "correct horse battery": true, strings.Repeat("ab ", 42) + "xy": true, "пароль из слов": true, "🦊🦊🦊 and the hen": true, "MixedCaseWords": true,
		"tenletters": true, "nineletrs": false, "": false, strings.Repeat("ab ", 43): false, "password12": false, "Sunshine!!2": false, "PASSWORD12": false, "1234567890": false,
		"passwordpassword": false, "qwertyuiop": false, "aaaaaaaaaaaa": false, "my name is ada!": false, "MY NAME IS ADA!": false, "tab\tinside it": false, "nul\x00inside it": false,
		"not utf8 \xff\xff\xff": false, "zero\u200bwidth it": false,
	} {
		err := password.Check(p, "ada", password.DefaultMinimum)
		if (err == nil) != ok || (err != nil && !errors.Is(err, password.ErrWeak)) {
			t.Errorf("%q: %v", p, err)
		}
		if err != nil && p != "" && strings.Contains(err.Error(), p) {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
	if password.Check("every letter is in here", "a", 10) != nil {
		t.Error("a handle of one letter forbids half the dictionary")
	}
	if password.Check("tenletters", "", 11) == nil || password.Check("eight ch", "", 8) != nil {
		t.Error("the minimum is not the setting's")
	}
}

func TestHashesAreSaltedAndOmitThePassword(t *testing.T) {
	h, err := password.NewHasher()
	must(t, err)
	one, err := h.Hash(t.Context(), anchors)
	must(t, err)
	two, err := h.Hash(t.Context(), anchors)
	must(t, err)
	if one == two || !strings.HasPrefix(one, "$argon2id$v=19$m=19456,t=2,p=1$") || strings.Contains(one, anchors) {
		t.Errorf("%s %s", one, two)
	}
}

func TestDecoratedCommonPasswordIsRefused(t *testing.T) {
	for _, p := range []string{
		"password123", "Password12345", "PASSWORD123456", "p@ssw0rd123", "pa$$word1234", "Passw0rd!!", "123password", "!!welcome!!", "Welcome2026!", "qwerty123456", "letmein12345", "admin12345",
		"passwordpassword", "password password", "password-password", "adminadmin", "cairncairn", "activity123", "administrator1", "correcthorsebatterystaple",
		"1234567890", "12345678910", "0987654321", "qwertyuiop", "asdfghjkl;", "1q2w3e4r5t", "q1w2e3r4t5", "1qaz2wsx3edc", "qazwsxedcrfv", "a1b2c3d4e5", "abcdefghij", "abcd123456",
		"aaaaaaaaaa", "1212121212", "abcabcabcabc", "asdfasdfasdf", "..........", "          ",
	} {
		fails(t, fmt.Sprintf("%q is taken", p), password.Check(p, "grace", password.DefaultMinimum), password.ErrWeak)
	}
	// What people and their password managers choose instead.
	for _, p := range []string{
		"correct horse battery", "rambling over 3 hills", "blue-otter-42-lamp", "xK9#mQ2$vL", "Walrus-99182-teal", "Correct-Horse-Battery-1", "horse482915", "a-long-enough-secret", "pw-0123456789abcdef",
		"test-password-123", "Tr0ub4dor&3xyz", "tenletters", "hill walker 2026", "jeder Gipfel zählt", "もう一度山へ行きましょう", "20 Nov, on the ridge",
	} {
		if err := password.Check(p, "grace", password.DefaultMinimum); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// turnstile lets one hash after the other go on.
type turnstile struct {
	next    chan struct{}
	refused int
}

func (s *turnstile) HashBegun() func() { <-s.next; return func() {} }
func (s *turnstile) HashRefused()      { s.refused++ }

func TestHashQueueIsInOrderAndEndsForWhoWaitsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := password.NewHasher()
		must(t, err)
		s := &turnstile{next: make(chan struct{})}
		h.Observer = s
		var mu sync.Mutex
		var order []int
		hash := func(n int) {
			go func() {
				if _, err := h.Hash(t.Context(), anchors); err != nil {
					t.Errorf("%d: %v", n, err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, n)
			}()
			synctest.Wait()
		}
		for n := range password.HashSlots() + 3 {
			hash(n)
		}
		for range password.HashSlots() + 3 {
			time.Sleep(time.Second)
			s.next <- struct{}{}
			synctest.Wait()
		}
		if !slices.IsSorted(order) || len(order) != password.HashSlots()+3 {
			t.Errorf("order %v", order)
		}
		for n := range password.HashSlots() {
			hash(n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.Hash(ctx, anchors); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who gives up: %v", err)
		}
		begun := time.Now()
		if _, err := h.Hash(t.Context(), anchors); !errors.Is(err, web.ErrBusy) || time.Since(begun) != 5*time.Second ||
			s.refused != 1 {
			t.Errorf("who waits too long: %v after %s, %d refused", err, time.Since(begun), s.refused)
		}
		if waiting, busy := h.Queue(); waiting != 0 || busy != password.HashSlots() {
			t.Errorf("%d wait, %d busy", waiting, busy)
		}
		for range password.HashSlots() {
			s.next <- struct{}{}
		}
	})
}

// A club signs in at one moment, on two slow cores: whoever has waited in vain, at a browser or in a program, is served
// when they come back at their time, and most people at once where the hashes are those of the product.
func TestPeopleWaitAsLongAsAHashTakes(t *testing.T) {
	for _, c := range []struct {
		took   time.Duration // of a hash
		person bool
		many   int
		once   [2]int32 // so many are refused the first time
		end    time.Duration
	}{
		{180 * time.Millisecond, true, 120, [2]int32{0, 40}, 24 * time.Second}, {180 * time.Millisecond, false, 120, [2]int32{80, 120}, 24 * time.Second},
		{393 * time.Millisecond, true, 120, [2]int32{70, 90}, 52 * time.Second}, // bcrypt, imported
		{1200 * time.Millisecond, true, 24, [2]int32{8, 12}, 32 * time.Second}, {1200 * time.Millisecond, false, 24, [2]int32{18, 20}, 32 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, err := password.NewHasher()
			must(t, err)
			signIn := func(n int) error {
				ctx := at(t, "192.0.2.1")
				if c.person {
					r := httptest.NewRequestWithContext(ctx, "POST", "/login/", strings.NewReader("a=b"))
					r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
					if err := web.ReadForm(httptest.NewRecorder(), r); err != nil {
						t.Error(err)
					}
				}
				leave, err := h.Enter(ctx, fmt.Sprint("member", n))
				if err == nil {
					time.Sleep(c.took * time.Duration(password.HashSlots()))
					leave()
				}
				return err
			}
			began := time.Now()
			var all sync.WaitGroup
			var once, twice atomic.Int32
			for n := range c.many {
				all.Go(func() {
					if err := signIn(n); err != nil {
						once.Add(1)
						p, _ := web.ProblemOf(err)
						time.Sleep(p.RetryAfter())
						if signIn(n) != nil {
							twice.Add(1)
						}
					}
				})
			}
			all.Wait()
			refused, took := once.Load(), time.Since(began)
			if refused < c.once[0] || refused > c.once[1] || twice.Load() != 0 || took > c.end {
				t.Errorf("%+v: refused %d, then %d, until %s", c, refused, twice.Load(), took)
			}
		})
	}
}

// at is the context of a request from an address.
func at(t *testing.T, address string) context.Context {
	return web.WithRequestInfo(t.Context(), &web.RequestInfo{Address: netip.MustParseAddr(address)})
}

func TestTurnsAreByNetworkAndByAccount(t *testing.T) {
	for what, attack := range map[string]struct{ address, account func(n int) string }{
		"one account, with many addresses": {func(n int) string { return fmt.Sprintf("2001:db8:%x::1", n) }, func(int) string { return "mallory" }},
		"a /64 for each account of a /48":  {func(n int) string { return fmt.Sprintf("2001:db8:1:%x::1", n) }, func(n int) string { return fmt.Sprint("user", n) }},
		"the account of the other, too":    {func(n int) string { return fmt.Sprintf("2001:db8:1:%x::1", n) }, func(int) string { return "eve" }},
		"a network of IPv4":                {func(n int) string { return fmt.Sprintf("192.0.2.%d", n) }, func(n int) string { return fmt.Sprint("user", n) }},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, err := password.NewTestHasher()
				must(t, err)
				next := make(chan struct{})
				var done, refused atomic.Int32
				enter := func(address, account string) {
					go func() {
						leave, err := h.Enter(at(t, address), account)
						if err != nil {
							refused.Add(1)
							return
						}
						<-next
						done.Add(1)
						leave()
					}()
					synctest.Wait()
				}
				for n := range 60 {
					enter(attack.address(n), attack.account(n))
				}
				for range 10 { // the fifth turn is as good as the first
					before := done.Load()
					other := false
					go func() {
						leave, err := h.Enter(at(t, "198.51.100.7"), "eve")
						if err != nil {
							t.Error(err)
							return
						}
						other = true
						leave()
					}()
					for synctest.Wait(); !other; synctest.Wait() {
						next <- struct{}{}
					}
					if turns := int(done.Load() - before); turns > password.HashSlots() {
						t.Errorf("after %d others", turns)
					}
				}
				for n := range 4 * 256 { // no key takes all places, and who comes last gives one up
					enter(attack.address(n%250), attack.account(n))
				}
				if waiting, busy := h.Queue(); waiting > 128 || busy < 1 || refused.Load() == 0 {
					t.Errorf("%d wait, %d busy, %d refused", waiting, busy, refused.Load())
				}
				close(next)
			})
		})
	}
}

func TestFullQueueMakesRoomForWhoHadNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := password.NewTestHasher()
		must(t, err)
		next := make(chan struct{})
		var refused atomic.Int64
		for n := range 400 {
			go func() {
				leave, err := h.Enter(at(t, fmt.Sprintf("2001:db8:%x:%x::1", n%3, n)), fmt.Sprint("user", n))
				if err != nil {
					refused.Add(1)
					return
				}
				<-next
				leave()
			}()
			synctest.Wait()
		}
		ctx, hangUp := context.WithCancel(at(t, "198.51.100.7"))
		got := make(chan error, 1)
		go func() {
			_, err := h.Enter(ctx, "eve")
			got <- err
		}()
		synctest.Wait()
		if waiting, _ := h.Queue(); waiting != 256 ||
			int(refused.Load()) != 400-256-password.HashSlots()+1 || len(got) > 0 {
			t.Errorf("%d wait, %d refused", waiting, refused.Load())
		}
		hangUp()
		fails(t, "who hangs up", <-got, context.Canceled)
		if waiting, _ := h.Queue(); waiting != 255 {
			t.Errorf("%d wait", waiting)
		}
		close(next)
	})
}

var fails, must = assert.Fails, assert.Must
