package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// The newest stay, and what strangers cause pushes out nothing of people who are signed in.
func TestLastRefusedSignInsOfEachClientAreKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		refusal := func(id string, n int, in bool) provider.RefusedSignIn {
			return provider.RefusedSignIn{ClientID: id, RequestID: fmt.Sprintf("REQUEST%02d", n), Reason: "flag",
				SignedIn: in, RefusedAt: noon.Add(time.Duration(n/2) * time.Second)}
		}
		mine := refusal("maps", 0, true)
		must(t, s.AddRefusedSignIns(ctx, []provider.RefusedSignIn{mine, mine}))
		var list []provider.RefusedSignIn
		for n := range 30 {
			list = append(list, refusal("maps", n, false), refusal("", n, false))
		}
		must(t, s.AddRefusedSignIns(ctx, list))
		got, err := s.RefusedSignIns(ctx)
		must(t, err)
		if len(got) != 2*provider.KeptRefusals+1 || got[len(got)-1] != mine || got[0].RequestID != "REQUEST29" || got[len(got)-2].RequestID != "REQUEST10" {
			t.Errorf("%d: %+v", len(got), got)
		}
		swept, err := s.Sweep(ctx, noon.Add(30*24*time.Hour+3*time.Second))
		must(t, err)
		same(t, "swept after 30 days, those of the first second were to be", swept.RefusedSignIns, 1)
	})
}
