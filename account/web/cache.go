package web

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// loadTimeout limits a load, which continues when its caller has given up.
const loadTimeout = 10 * time.Second

// Cache keeps what load returns. If many callers miss at once, one loads, and a caller who gives up
// fails no other caller. It keeps only existing values, so that strangers cannot fill it. It is
// safe for concurrent use.
type Cache[V any] struct {
	load func(ctx context.Context, key string) (V, error)
	ttl  time.Duration
	now  func() time.Time

	flight  singleflight.Group
	mu      sync.Mutex
	entries map[string]*cacheEntry[V]
	loads   map[string]context.Context // those under way; Put and Drop take out one whose result is old
}

type cacheEntry[V any] struct {
	value V
	until time.Time
}

// NewCache returns a cache that keeps values for ttl.
func NewCache[V any](
	ttl time.Duration, now func() time.Time, load func(ctx context.Context, key string) (V, error),
) *Cache[V] {
	return &Cache[V]{load: load, ttl: ttl, now: now, entries: map[string]*cacheEntry[V]{},
		loads: map[string]context.Context{}}
}

// Get returns the value of key. It may be older than ttl while another caller reads it again.
func (c *Cache[V]) Get(ctx context.Context, key string) (V, error) {
	return c.get(ctx, key, func(e *cacheEntry[V]) bool {
		return c.loads[key] != nil || c.now().Before(e.until)
	})
}

// GetFresh is Get without older values: callers wait while the value is read again.
func (c *Cache[V]) GetFresh(ctx context.Context, key string) (V, error) {
	return c.get(ctx, key, func(e *cacheEntry[V]) bool { return c.now().Before(e.until) })
}

// GetValid returns a value of key, of any age, that valid accepts. A load that begins now must
// return such a value, or an error.
func (c *Cache[V]) GetValid(ctx context.Context, key string, valid func(V) bool) (V, error) {
	fresh := func(e *cacheEntry[V]) bool { return valid(e.value) }
	v, err := c.get(ctx, key, fresh)
	if err == nil && !valid(v) { // of another one's load, which began too early
		v, err = c.get(ctx, key, fresh)
	}
	return v, err
}

func (c *Cache[V]) get(ctx context.Context, key string, fresh func(*cacheEntry[V]) bool) (v V, err error) {
	if v, ok := c.kept(key, fresh); ok {
		return v, nil
	}
	done := c.flight.DoChan(key, func() (any, error) { return c.read(context.WithoutCancel(ctx), key) })
	select {
	case <-ctx.Done():
		return v, fmt.Errorf("wait for %q: %w", key, ctx.Err())
	case result := <-done:
		v, _ = result.Val.(V)
		return v, result.Err
	}
}

// kept returns the stored value of key if it is fresh.
func (c *Cache[V]) kept(key string, fresh func(*cacheEntry[V]) bool) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock() // also when fresh panics
	if e := c.entries[key]; e != nil && fresh(e) {
		return e.value, true
	}
	return v, false
}

func (c *Cache[V]) read(ctx context.Context, key string) (V, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	c.mu.Lock()
	c.loads[key] = ctx
	c.mu.Unlock()
	v, until, err := c.loaded(ctx, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loads[key] != ctx {
		return v, err
	}
	delete(c.loads, key)
	switch {
	case err == nil:
		c.entries[key] = &cacheEntry[V]{value: v, until: until}
	case errors.Is(err, ErrUnavailable) || ctx.Err() != nil: // an outage says nothing about the value
	default:
		delete(c.entries, key)
	}
	return v, err
}

// loaded calls load and returns until when the value is kept. It turns a panic into an error,
// because a panic in a goroutine of its own would end the program.
func (c *Cache[V]) loaded(ctx context.Context, key string) (v V, until time.Time, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic while loading %q: %v\n%s", key, p, debug.Stack())
		}
	}()
	until = c.now().Add(c.ttl)
	v, err = c.load(ctx, key)
	return v, until, err
}

// Put stores a value that was just written.
func (c *Cache[V]) Put(key string, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loads, key)
	c.flight.Forget(key)
	c.entries[key] = &cacheEntry[V]{value: v, until: c.now().Add(c.ttl)}
}

// Drop removes a value.
func (c *Cache[V]) Drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loads, key)
	c.flight.Forget(key)
	delete(c.entries, key)
}
