package session_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

func TestClosedListIsNeverAskedForAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		lists func(*statusServer) *session.RemoteStatusList
		begin func(*statusServer)
	}{
		{"idle", (*statusServer).lists, func(*statusServer) {}},
		{"held", (*statusServer).waiting, func(*statusServer) {}},
		{"failing", (*statusServer).lists, func(s *statusServer) { s.fail(refused) }},
		{"hanging", (*statusServer).waiting, func(s *statusServer) { s.fail(hanging) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStatusServer()
				lists := c.lists(s)
				passes(t, lists, 1)
				c.begin(s)
				use(t, lists, 50*time.Second) // into a renewal
				began := time.Now()
				for range 2 {
					if err := lists.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("closing took %v", took)
				}
				s.fail(nil)
				s.log()
				use(t, lists, 10*time.Minute) // the copy serves on
				synctest.Wait()
				if asked := s.log(); len(asked) > 0 {
					t.Errorf("%d requests, the first %+v", len(asked), asked[0])
				}
				time.Sleep(s.life)
				if _, err := lists.Revoked(t.Context(), place(1)); !errors.Is(err, session.ErrStatusUnavailable) {
					t.Errorf("past exp: %v", err)
				}
			})
		})
	}
}

// Who asks while it is closed is answered.
func TestClosingNeverLeavesAnybodyWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStatusServer()
		s.fail(hanging)
		lists := s.waiting()
		answer := make(chan error)
		for range 8 {
			go func() {
				_, err := lists.Revoked(t.Context(), place(1))
				answer <- err
			}()
		}
		synctest.Wait()
		_ = lists.Close()
		for range 8 {
			if err := <-answer; !errors.Is(err, session.ErrStatusUnavailable) {
				t.Errorf("%v", err)
			}
		}
		if _, err := lists.Revoked(t.Context(), place(1)); !errors.Is(err, session.ErrStatusUnavailable) {
			t.Errorf("%v", err)
		}
	})
}
