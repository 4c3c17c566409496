package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// addMails adds mails to one user with the audit row of an act.
func addMails(t *testing.T, s *store.Store, addresses ...string) {
	t.Helper()
	a := act("test")
	for _, address := range addresses {
		a.Mails = append(a.Mails, account.Mail{Kind: "test", Sub: "nobody", Address: address, Language: "de", Data: map[string]string{"to": address}})
	}
	_, err := s.Initialize(t.Context(), account.DefaultSettings(), nil)
	must(t, err)
	_, err = s.AmendSettings(t.Context(), func(n *account.Settings) (string, error) {
		n.Contact += "x"
		return "contact", nil
	}, a)
	must(t, err)
}

func TestMailWaitsUntilItIsSentOrGivenUp(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		same(t, "woken by nothing", len(s.MailsAdded()), 0)
		if state, err := s.MailState(ctx); err != nil || state != (account.MailState{}) {
			t.Errorf("%+v, %v", state, err)
		}
		addMails(t, s, "a@example.org", "b@example.org", "c@example.org")
		same(t, "not woken", len(s.MailsAdded()), 1)
		<-s.MailsAdded()
		due, err := s.DueMails(ctx, noon, time.Minute, 100)
		must(t, err)
		want := account.QueuedMail{
			CreatedAt: noon,
			Mail:      account.Mail{ID: due[0].ID, Kind: "test", Sub: "nobody", Address: "a@example.org", Language: "de", Data: map[string]string{"to": "a@example.org"}},
		}
		if diff := cmp.Diff(want, due[0]); diff != "" || len(due) != 3 {
			t.Errorf("%d mails, %s", len(due), diff)
		}
		must(t, s.MailDone(ctx, due[0].ID, nil))
		must(t, s.MailFailed(ctx, due[1].ID, "greylisted", noon.Add(10*time.Second)))
		failed := act("mail.failed")
		must(t, s.MailDone(ctx, due[2].ID, &failed))
		must(t, s.MailDone(ctx, due[2].ID, &failed)) // twice: one row
		n, err := s.Count("SELECT count(*) FROM audit WHERE action = 'mail.failed'")
		if must(t, err); n != 1 {
			t.Errorf("%d audit rows", n)
		}
		if state, err := s.MailState(ctx); err != nil || state != (account.MailState{Waiting: 1, Failing: 1, Oldest: noon, Failure: "greylisted"}) {
			t.Errorf("%+v, %v", state, err)
		}
		if early, err := s.DueMails(ctx, noon.Add(9*time.Second), time.Minute, 100); err != nil || len(early) != 0 {
			t.Errorf("%v, %v", early, err)
		}
		again, err := s.DueMails(ctx, noon.Add(10*time.Second), time.Minute, 100)
		if must(t, err); len(again) != 1 || again[0].Address != "b@example.org" || again[0].Attempts != 1 {
			t.Errorf("%+v", again)
		}
		// Its sender ends here without a word.
		again, err = s.DueMails(ctx, noon.Add(70*time.Second), time.Minute, 100)
		if must(t, err); len(again) != 1 {
			t.Errorf("after the lease: %+v", again)
		}
	})
}

func TestMailIsLeasedToOneInstance(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		for range 10 {
			addMails(t, instances[0], "a@example.org", "b@example.org", "c@example.org")
		}
		var mu sync.Mutex
		taken := map[int64]int{}
		wins(t, race(8, func(i int) error {
			for {
				due, err := instances[i%2].DueMails(t.Context(), noon, time.Minute, 4)
				if err != nil || len(due) == 0 {
					return err
				}
				mu.Lock()
				for _, m := range due {
					taken[m.ID]++
				}
				mu.Unlock()
				for _, m := range due {
					if err := instances[i%2].MailDone(t.Context(), m.ID, nil); err != nil {
						return err
					}
				}
			}
		}))
		for id, times := range taken {
			same(t, fmt.Sprintf("mail %d was leased, times", id), times, 1)
		}
		same(t, "of 30 mails were leased", len(taken), 30)
	})
}

// Requests for names that nobody has are no queue of their own, in which everybody's own request waits.
func TestRequestsForAPasswordDoNotWaitForOneAnother(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		addMails(t, s, "", "", "", "", "")
		due, err := s.DueMails(t.Context(), noon, time.Minute, 4)
		must(t, err)
		if len(due) != 4 {
			t.Fatalf("%d of 5 are due for 4 slots", len(due))
		}
		due, err = s.DueMails(t.Context(), noon, time.Minute, 4)
		must(t, err)
		same(t, "then, are due", len(due), 1)
	})
}

// Neither another instance nor another slot of the same one overtakes a mail to the same address, unless
// an attempt has failed.
func TestMailsToAPersonKeepTheirOrder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		addMails(t, s, "a@example.org", "b@example.org")
		addMails(t, s, "a@example.org", "b@example.org")
		lease := func(at time.Time) []account.QueuedMail {
			t.Helper()
			due, err := s.DueMails(t.Context(), at, time.Minute, 100)
			must(t, err)
			return due
		}
		first := lease(noon)
		if len(first) != 2 || first[0].Address != "a@example.org" || first[1].Address != "b@example.org" {
			t.Fatalf("%+v", first)
		}
		other := lease(noon)
		same(t, fmt.Sprintf("overtaken: %+v", other), len(other), 0)
		must(t, s.MailDone(t.Context(), first[0].ID, nil))
		must(t, s.MailFailed(t.Context(), first[1].ID, "greylisted", noon.Add(time.Hour)))
		if second := lease(noon); len(second) != 2 || second[0].ID <= first[1].ID {
			t.Errorf("then: %+v", second)
		}
	})
}
