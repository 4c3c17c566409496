package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// together makes calls wait for the writer on SQLite, so that they are done in as few
// transactions as possible, and returns their errors. So many of them wait.
func together(t *testing.T, s *store.Store, waiting int, calls []func() error) []error {
	t.Helper()
	_, end, err := s.Begin(t.Context())
	must(t, err)
	var all sync.WaitGroup
	errs := make([]error, len(calls))
	for i, call := range calls {
		all.Go(func() { errs[i] = call() })
	}
	for s.Dialect() == store.SQLite && s.Waiting() < waiting {
		time.Sleep(time.Millisecond)
	}
	must(t, end(false))
	all.Wait()
	return errs
}

// panicOf calls f and makes an error of its panic.
func panicOf(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}

func bothTokens(g *provider.Grant) []provider.Token {
	return []provider.Token{accessToken("a" + g.ID), refreshToken("r" + g.ID)}
}

func tokensOf(t *testing.T, s *store.Store, g *provider.Grant) int64 {
	t.Helper()
	n, err := s.Count("SELECT count(*) FROM tokens WHERE grant_id = ? AND sig IN (?, ?)", g.ID, "a"+g.ID, "r"+g.ID)
	must(t, err)
	return n
}

// Of operations that share a transaction each ends as if it were alone.
func TestOperationsOfOneTransactionDoNotUndoEachOther(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, c := t.Context(), addClient(t, s, "app")
		u := addUser(t, s, "ada")
		n := signIn(t, s, u)
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		const rounds, kinds = 10, 7
		var calls []func() error
		var grants []*provider.Grant
		var invites []account.Invite
		for round := range rounds {
			g, twice, never := newGrantStored(t, s, c, n), newGrantStored(t, s, c, n), newGrantStored(t, s, c, n)
			i := addInvite(t, s, u.Sub)
			grants, invites = append(grants, g, twice, never), append(invites, i)
			calls = append(calls,
				func() error { return s.SpendCode(ctx, g.ID, bothTokens(g)) },
				func() error { return s.SpendCode(ctx, twice.ID, bothTokens(twice)) },
				func() error { // refused after it has spent the invite
					return s.Register(ctx, i.Code, newUser("ada"), nil, nil, 0, noon, act("user.register"))
				},
				func() error { // after it has locked the user
					return panicOf(func() error {
						_, err := s.ChangeUser(ctx, u.Sub, func(*account.User) error { panic(name("of operation ", round)) }, noon, nil)
						return err
					})
				},
				func() error { return s.SpendCode(ctx, twice.ID, []provider.Token{accessToken("second " + twice.ID)}) },
				func() error { return s.SpendCode(canceled, never.ID, bothTokens(never)) },
				func() error { // given up while it runs
					ctx, cancel := context.WithCancel(ctx)
					_, err := s.ChangeUser(ctx, u.Sub, func(u *account.User) error { cancel(); u.DisplayName = "changed"; return nil }, noon, nil)
					return err
				})
		}
		errs := together(t, s, len(calls)-rounds, calls)
		for round := range rounds {
			of, errs := grants[3*round:], errs[kinds*round:]
			want(t, errs[0], nil)
			if wins(t, []error{errs[1], errs[4]}, provider.ErrSpent) != 1 {
				t.Errorf("a code used twice: %v, %v", errs[1], errs[4])
			}
			if g, err := s.GrantOfCode(ctx, of[1].CodeSignature); err != nil || !g.Revoked {
				t.Errorf("the grant of a code used twice: %+v, %v", g, err)
			}
			want(t, errs[2], account.ErrHandleTaken)
			if free, err := s.Count("SELECT count(*) FROM invites WHERE code = ? AND used_at = 0", invites[round].Code); err != nil || free != 1 {
				t.Errorf("a registration that was refused has used its invite (%v)", err)
			}
			if errs[3] == nil || !strings.Contains(errs[3].Error(), name("panic: of operation ", round)) {
				t.Errorf("a panic came back as %v", errs[3])
			}
			want(t, errs[5], context.Canceled)
			want(t, errs[6], context.Canceled)
			if spent, never := tokensOf(t, s, of[0]), tokensOf(t, s, of[2]); spent != 2 || never != 0 {
				t.Errorf("%d tokens of a code that was spent, %d of one whose caller had given up", spent, never)
			}
		}
		after, err := s.UserBySub(ctx, u.Sub)
		must(t, err)
		same(t, "what was given up is kept", after.DisplayName, u.DisplayName)
	})
}

// Whether the database has no room for the rows or the disk none for the commit: the tokens
// are there where the exchange was acknowledged and only there, and a refusal is true of what is
// in the database.
func TestAnswersAgreeWithADatabaseThatIsFull(t *testing.T) {
	for what, fill := range map[string]func(t *testing.T, s *store.Store, dir string) (clear func()){
		"pages": func(t *testing.T, s *store.Store, _ string) func() {
			must(t, s.OnWriter("PRAGMA max_page_count = 1")) // as many as there are
			return func() { must(t, s.OnWriter("PRAGMA max_page_count = 1000000")) }
		},
		"disk": func(t *testing.T, s *store.Store, dir string) func() {
			must(t, s.Checkpoint(t.Context())) // it would write to the log that is there
			rest := filepath.Join(dir, "rest")
			f, err := os.Create(rest)
			must(t, err)
			for n := 1 << 16; n > 0; {
				if _, err := f.Write(make([]byte, n)); err != nil {
					n /= 2
				}
			}
			must(t, f.Close())
			return func() { must(t, os.Remove(rest)) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if what == "disk" {
				if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
					t.Skip("no small file system can be mounted:", err)
				}
				t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
			}
			s := storetest.Open(t, filepath.Join(dir, "cairn.db"))
			c, n := addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada"))
			var calls []func() error
			var grants []*provider.Grant
			for range 200 {
				g := newGrantStored(t, s, c, n)
				grants = append(grants, g)
				calls = append(calls, func() error { return s.SpendCode(t.Context(), g.ID, bothTokens(g)) },
					func() error { return s.SpendCode(t.Context(), g.ID, nil) })
			}
			empty := fill(t, s, dir)
			failed := 0
			errs := together(t, s, len(calls), calls)
			empty()
			for i, g := range grants {
				first, second := errs[2*i], errs[2*i+1]
				found, err := s.GrantOfCode(t.Context(), g.CodeSignature)
				must(t, err)
				for _, err := range []error{first, second} {
					if err != nil && !errors.Is(err, provider.ErrSpent) {
						want(t, err, account.ErrUnavailable)
						failed++
					}
				}
				tokens := tokensOf(t, s, g)
				switch {
				case (first == nil) != (tokens == 2), tokens == 1:
					t.Errorf("%v, and %d tokens", first, tokens)
				case (first == nil || second == nil) != found.CodeUsed:
					t.Errorf("%v, %v: %+v", first, second, found)
				case (errors.Is(first, provider.ErrSpent) || errors.Is(second, provider.ErrSpent)) != found.Revoked:
					t.Errorf("%v, %v: revoked is %v", first, second, found.Revoked)
				}
				if first != nil && !found.CodeUsed {
					must(t, s.SpendCode(t.Context(), g.ID, bothTokens(g)))
				}
			}
			if failed == 0 {
				t.Error("nothing has failed")
			}
			t.Logf("%d of %d failed", failed, len(calls))
		})
	}
}

// What an operation was refused for may be a change of another one in the same transaction, which was not committed.
func TestRefusalIsNotAnsweredWithoutItsTransaction(t *testing.T) {
	s := storetest.Open(t, filepath.Join(t.TempDir(), "cairn.db"))
	ctx, u := t.Context(), addUser(t, s, "ada")
	must(t, s.Exec("CREATE TABLE unpaid (sub TEXT REFERENCES users (sub) DEFERRABLE INITIALLY DEFERRED)")) // COMMIT fails
	must(t, s.Exec("CREATE TRIGGER unpaid AFTER INSERT ON audit BEGIN INSERT INTO unpaid VALUES ('nobody'); END"))
	var calls []func() error
	for range 10 {
		calls = append(calls, func() error { return s.Record(ctx, act("a"), 0) },
			func() error { return s.EndSession(ctx, u.Sub, "unknown", noon, act("b")) })
	}
	unavailable := 0
	for i, err := range together(t, s, len(calls), calls) {
		switch {
		case i%2 == 0:
			want(t, err, account.ErrUnavailable)
		case errors.Is(err, account.ErrUnavailable):
			unavailable++
		default: // it was the first of its transaction, and so the only one
			want(t, err, account.ErrSessionNotFound)
		}
	}
	if unavailable == 0 {
		t.Error("every refusal is answered, and no transaction was committed")
	}
}

// killRounds in the environment is how often TestKilledProcessHasDoneWhatItAcknowledged
// kills.
const killRounds, killTarget = "CAIRN_KILL_ROUNDS", "CAIRN_KILL_TARGET"

func TestKilledProcessHasDoneWhatItAcknowledged(t *testing.T) {
	if path := os.Getenv(killTarget); path != "" {
		writeUntilKilled(t, path)
	}
	rounds := 5
	if n, err := strconv.Atoi(os.Getenv(killRounds)); err == nil {
		rounds = n
	}
	path := filepath.Join(t.TempDir(), "cairn.db")
	s := storetest.Open(t, path)
	addClient(t, s, "app")
	signIn(t, s, addUser(t, s, "ada"))
	total := 0
	for range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), killTarget+"="+path)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		var acknowledged []string
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			if len(acknowledged) == 0 {
				// any instant is right
				time.AfterFunc(time.Duration(rand.IntN(150))*time.Millisecond, func() { _ = cmd.Process.Kill() })
			}
			acknowledged = append(acknowledged, strings.TrimSpace(line))
		}
		_ = cmd.Wait()
		for _, grant := range acknowledged {
			found, err := s.Count("SELECT count(*) FROM tokens t JOIN grants g ON g.id = t.grant_id WHERE g.id = ? AND g.code_used_at > 0", grant)
			must(t, err)
			if found != 2 {
				t.Fatalf("of a code whose exchange was acknowledged there are %d tokens", found)
			}
		}
		half, err := s.Count("SELECT count(*) FROM grants g WHERE (code_used_at > 0) <> ((SELECT count(*) FROM tokens t WHERE t.grant_id = g.id) = 2)")
		must(t, err)
		if total += len(acknowledged); half != 0 || len(acknowledged) == 0 {
			t.Fatalf("%d exchanges are there in part, %d were acknowledged", half, len(acknowledged))
		}
	}
	t.Logf("%d exchanges in %d rounds", total, rounds)
}

// writeUntilKilled is the process that is killed.
func writeUntilKilled(t *testing.T, path string) {
	s := storetest.Open(t, path)
	sessions, err := s.Texts("SELECT id FROM sessions")
	must(t, err)
	n, _, err := s.Session(t.Context(), sessions[0])
	must(t, err)
	c, err := s.Client(t.Context(), "app")
	must(t, err)
	race(16, func(int) error {
		for {
			g := newGrant(c, n, "openid")
			must(t, s.CreateGrant(t.Context(), g))
			must(t, s.SpendCode(t.Context(), g.ID, bothTokens(g)))
			_, _ = fmt.Println(g.ID)
		}
	})
}
