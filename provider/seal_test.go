package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

func newTestSealer(t testing.TB, now func() time.Time) *web.Sealer {
	t.Helper()
	s, err := web.NewSealer([]byte(strings.Repeat("k", 48)), sealLifetimes, now)
	must(t, err)
	return s
}

func TestSealedValueOpensOnlyUnchangedInTimeAndForItsUse(t *testing.T) {
	now := noon
	s := newTestSealer(t, func() time.Time { return now })
	sealed, err := s.Seal(purposeContinue, pending{Query: "a=b"})
	must(t, err)
	var got pending
	if err := s.Open(purposeContinue, sealed, &got); err != nil || got.Query != "a=b" {
		t.Fatalf("genuine value: %v %+v", err, got)
	}
	if s.Open(purposeDecision, sealed, &got) == nil {
		t.Error("opened for another purpose")
	}
	for i := range len(sealed) {
		changed := []byte(sealed)
		changed[i] ^= 1
		if s.Open(purposeContinue, string(changed), &got) == nil {
			t.Fatalf("opened with byte %d changed", i)
		}
	}
	for _, bad := range []string{"", ".", "a", sealed + "=", sealed + ".x", sealed + "\n", sealed[:len(sealed)-5] + "\r\n" + sealed[len(sealed)-5:], strings.Repeat("a", 12<<10+1), sealed[:len(sealed)-1]} {
		if s.Open(purposeContinue, bad, &got) == nil {
			t.Errorf("opened %.40q", bad)
		}
	}
	now = noon.Add(pageLifetime + time.Minute)
	if s.Open(purposeContinue, sealed, &got) == nil {
		t.Error("opened after its time")
	}
	now = noon.Add(-2 * time.Minute)
	if s.Open(purposeContinue, sealed, &got) == nil {
		t.Error("opened before it was made")
	}
}

// The longest request that authorize takes has to come back from the sign-in
// page, with any characters.
func TestLongestRequestFitsTheContinuation(t *testing.T) {
	s := newTestSealer(t, func() time.Time { return noon })
	for _, query := range []string{strings.Repeat("a=&", maxQuery/3), strings.Repeat("a=%FF&", maxQuery/6), strings.Repeat("x", maxQuery), strings.Repeat("&", maxQuery)} {
		sealed, err := s.Seal(purposeContinue, pending{Query: query, Arrived: noon.Unix(), Proof: strings.Repeat("p", 43)})
		must(t, err)
		var got pending
		if err := s.Open(purposeContinue, sealed, &got); err != nil || got.Query != query || len(sealed) > 6<<10 {
			t.Errorf("%.10s…: %d bytes: %v", query, len(sealed), err)
		}
	}
}

func FuzzOnlyOurOwnValuesOpen(f *testing.F) {
	s := newTestSealer(f, func() time.Time { return noon })
	genuine, err := s.Seal(purposeContinue, pending{Query: "a=b"})
	must(f, err)
	for _, seed := range []string{genuine, genuine + "\n", "", ".", "e30.e30", strings.ToUpper(genuine)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var p pending
		if s.Open(purposeContinue, in, &p) == nil && in != genuine {
			t.Errorf("%q opened", in)
		}
	})
}
