package session_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// Whatever a list says of itself, it is asked for again, and at last nobody is accepted by it.
func TestAgesOfAListAreNeverAbsurd(t *testing.T) {
	for name, c := range map[string]struct {
		ttl, exp   any
		young, old time.Duration // how long nobody asks, and for how long the copy serves
	}{
		"as Cairn's":        {60, clock.Add(12 * time.Hour).Unix(), 45 * time.Second, 12 * time.Hour},
		"none":              {nil, nil, 45 * time.Second, 24 * time.Hour},
		"ttl 0":             {0, nil, 45 * time.Second, 24 * time.Hour},
		"ttl below 0":       {-60, nil, 45 * time.Second, 24 * time.Hour},
		"ttl a fraction":    {0.5, nil, 45 * time.Second, 24 * time.Hour},
		"ttl a word":        {"soon", nil, 45 * time.Second, 24 * time.Hour},
		"ttl beyond reason": {1 << 60, nil, 45 * time.Second, 24 * time.Hour},
		"ages":              {1 << 36, clock.AddDate(100, 0, 0).Unix(), 18 * time.Hour, 7 * 24 * time.Hour},
	} {
		l := newLister(t)
		p := l.with("ttl", c.ttl)
		if p["exp"] = c.exp; c.exp == nil {
			delete(p, "exp")
		}
		l.serveText(rsList(p))
		lists := l.lists()
		revoked(t, lists, l.ref(1))
		l.fail()
		l.pass(c.young - time.Second)
		revoked(t, lists, l.ref(1))
		l.wantFetches(t, 1)
		l.pass(c.old - c.young)
		revoked(t, lists, l.ref(1))
		l.pass(time.Second)
		if got, err := lists.Revoked(t.Context(), l.ref(1)); got || !errors.Is(err, session.ErrStatusUnavailable) {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}

// A few kilobytes that unpack to a gigabyte cost neither memory nor time.
func TestBombNeverGoesOff(t *testing.T) {
	l := newLister(t)
	bomb := func(mebibytes int) string {
		return rsList(l.with("status_list", map[string]any{"bits": 1, "lst": b64(string(zeros(t, mebibytes, func(w io.Writer) flusher { return zlib.NewWriter(w) })))}))
	}
	zipped := zeros(t, 1024, func(w io.Writer) flusher { return gzip.NewWriter(w) })
	for name, answer := range map[string]http.HandlerFunc{
		"256 MiB in the list": l.textHandler(bomb(256)),
		"1 GiB in the list":   l.textHandler(bomb(1024)),
		"1 GiB of answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/statuslist+jwt")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped)
		},
	} {
		l.answer(answer)
		lists := l.lists()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if got, err := lists.Revoked(t.Context(), l.ref(1)); got || !errors.Is(err, session.ErrStatusUnavailable) || errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %t, %v", name, got, err)
		}
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 32 {
			t.Errorf("%s: %d MiB were used", name, used)
		}
	}
}

type flusher interface {
	io.Writer
	Flush() error
}

// zeros is a compressed stream of so many mebibytes of zeros, without its end.
func zeros(t *testing.T, mebibytes int, compress func(io.Writer) flusher) []byte {
	var b bytes.Buffer
	z := compress(&b)
	part := func() []byte {
		from := b.Len()
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		return bytes.Clone(b.Bytes()[from:])
	}
	first, next := part(), part()
	return append(first, bytes.Repeat(next, mebibytes-1)...)
}

// Somebody between Cairn and the application keeps an old list, to bring back who was taken out.
func TestOlderListNeverReplacesANewerOne(t *testing.T) {
	l := newLister(t, 7)
	l.serveText(rsList(l.payload()))
	lists := l.lists()
	if !revoked(t, lists, l.ref(7)) {
		t.Fatal("not revoked")
	}
	l.revoked = nil
	for name, c := range map[string]struct {
		ago     time.Duration
		revoked bool
	}{
		"of a minute before":                     {time.Minute, true},
		"of an instance whose clock is not ours": {30 * time.Second, false},
	} {
		l.serveText(rsList(l.with("iat", clock.Add(-c.ago).Unix())))
		fresh := l.lists()
		revoked(t, fresh, l.ref(7)) // an application without a copy has nothing to compare with
		old := l.lists()
		l.revoked = []int{7}
		l.serveText(rsList(l.payload()))
		revoked(t, old, l.ref(7))
		l.revoked = nil
		l.serveText(rsList(l.with("iat", clock.Add(-c.ago).Unix())))
		l.pass(time.Minute)
		if got := revoked(t, old, l.ref(7)); got != c.revoked {
			t.Errorf("%s: revoked %t", name, got)
		}
		l.pass(-time.Minute)
	}
}
