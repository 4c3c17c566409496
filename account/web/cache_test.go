package web_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// slow loads after a second what n is then, and counts.
func slow(n *int, loads *int) func(context.Context, string) (int, error) {
	return func(ctx context.Context, _ string) (int, error) {
		*loads++
		was := *n
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Second):
			return was, nil
		}
	}
}

func TestACanceledCallerFailsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, loads := 1, 0
		c := web.NewCache(time.Minute, time.Now, slow(&n, &loads))
		hurried, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		results := make(chan error, 3)
		go func() { _, err := c.Get(hurried, "k"); results <- err }()
		synctest.Wait()
		for range 2 {
			go func() {
				v, err := c.Get(t.Context(), "k")
				if v != 1 {
					t.Errorf("got %d", v)
				}
				results <- err
			}()
		}
		if err := <-results; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who gives up: %v", err)
		}
		for range 2 {
			if err := <-results; err != nil {
				t.Errorf("who waits: %v", err)
			}
		}
		if loads != 1 {
			t.Errorf("%d loads", loads)
		}
	})
}

func TestWhatWasReadBeforeAPutIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, loads := 1, 0
		c := web.NewCache(time.Minute, time.Now, slow(&n, &loads))
		go func() { _, _ = c.Get(t.Context(), "k") }()
		synctest.Wait()
		n = 2
		c.Put("k", 2)
		time.Sleep(2 * time.Second)
		if v, err := c.Get(t.Context(), "k"); v != 2 || err != nil || loads != 1 {
			t.Errorf("%d %v, %d loads", v, err, loads)
		}
		n = 3
		time.Sleep(time.Minute)
		// Of many after the time is up one reads it again, and the others go on with the old value.
		go func() { _, _ = c.Get(t.Context(), "k") }()
		synctest.Wait()
		if v, err := c.Get(t.Context(), "k"); v != 2 || err != nil {
			t.Errorf("while it is read again: %d %v", v, err)
		}
		time.Sleep(2 * time.Second)
		if v, err := c.Get(t.Context(), "k"); v != 3 || err != nil {
			t.Errorf("after that: %d %v", v, err)
		}
	})
}

func TestOnlyWhatIsThereIsKept(t *testing.T) {
	var missing error = errors.New("not found")
	loads := 0
	c := web.NewCache(time.Minute, time.Now, func(context.Context, string) (int, error) { loads++; return 0, missing })
	for range 2 {
		if _, err := c.Get(t.Context(), "k"); !errors.Is(err, missing) {
			t.Error(err)
		}
	}
	missing = nil
	if _, err := c.Get(t.Context(), "k"); err != nil || loads != 3 {
		t.Errorf("%v after %d loads", err, loads)
	}
}

func TestAfterAPanicTheValueIsReadAgain(t *testing.T) {
	now, loads := time.Unix(0, 0), 0
	c := web.NewCache(time.Minute, func() time.Time { return now }, func(context.Context, string) (int, error) {
		if loads++; loads == 2 {
			panic("once")
		}
		return loads, nil
	})
	for i, want := range []int{1, 0, 3} {
		v, err := c.Get(t.Context(), "k")
		if v != want || (err != nil) != (want == 0) {
			t.Errorf("call %d: %d, %v", i+1, v, err)
		}
		now = now.Add(time.Hour)
	}
}
