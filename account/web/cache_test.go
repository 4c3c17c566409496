package web_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/storetest/assert"
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
				same(t, "v", v, 1)
				results <- err
			}()
		}
		fails(t, "who gives up", <-results, context.DeadlineExceeded)
		for range 2 {
			if err := <-results; err != nil {
				t.Errorf("who waits: %v", err)
			}
		}
		same(t, "loads", loads, 1)
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

// A Put or Drop is about its own key: strangers cause a Drop with what there is not.
func TestAPutOfOneKeyIsNothingToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, loads := 1, 0
		c := web.NewCache(time.Minute, time.Now, slow(&n, &loads))
		for _, change := range []func(){func() { c.Put("other", 7) }, func() { c.Drop("nothing") }} {
			go func() { _, _ = c.Get(t.Context(), "k") }()
			synctest.Wait()
			change()
			time.Sleep(2 * time.Second)
			before := loads
			if v, err := c.Get(t.Context(), "k"); v != n || err != nil || loads != before {
				t.Errorf("%d %v, want %d without another load", v, err, n)
			}
			n++
			time.Sleep(2 * time.Minute)
		}
		if v, err := c.Get(t.Context(), "k"); v != n || err != nil {
			t.Errorf("the old value for ever: %d %v, want %d", v, err, n)
		}
	})
}

// As when the clock is set back: a caller must not ask for ever.
func TestALoadThatIsNeverValidIsNotAskedForEver(t *testing.T) {
	loads := 0
	c := web.NewCache(time.Minute, time.Now, func(context.Context, string) (int, error) { loads++; return 1, nil })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	v, err := c.GetValid(ctx, "k", func(v int) bool { return v > 1 || loads > 100 })
	if v != 1 || err != nil || loads > 2 {
		t.Errorf("%d %v after %d loads", v, err, loads)
	}
}

func TestAPanicOfALoadIsItsErrorAndTheNextOneLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loads := 0
		c := web.NewCache(time.Minute, time.Now, func(context.Context, string) (int, error) {
			if loads++; loads == 2 {
				panic("at the second")
			}
			return loads, nil
		})
		for want := 1; want <= 3; want++ {
			v, err := c.Get(t.Context(), "k")
			if want == 2 && err == nil || want != 2 && (v != want || err != nil) {
				t.Errorf("load %d: %d %v", want, v, err)
			}
			time.Sleep(2 * time.Minute)
		}
	})
}

var fails = assert.Fails

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
