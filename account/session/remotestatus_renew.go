package session

import (
	"bytes"
	"context"
	"errors"
	"time"
)

const (
	// maxBackoff is the longest pause between two failing fetches of a list, unless
	// MinInterval is longer.
	maxBackoff = 10 * time.Second
	// forgetFailure is how long after a failure nobody waits for the next fetch. Later it says
	// nothing about now: who comes first after a quiet time waits again.
	forgetFailure = 30 * time.Second
)

// renew has a list fetched if it is time, and waits for the answer if the copy is too old and
// the last fetch was a good one. It fails only when ctx ends first.
func (s *RemoteStatusList) renew(ctx context.Context, l *remoteList, now time.Time) error {
	for range 2 {
		s.mu.Lock()
		c := l.copy.Load()
		if l.flight == nil && reached(now, l.failed, forgetFailure) {
			l.failures, l.failure = 0, nil
		}
		wait := l.failures == 0 && (!c.counts(now) || reached(now, c.asOf, c.ttl))
		f := s.refresh(l, now)
		overdue := f != nil && f.overdue(now)
		if overdue {
			f.cancel()
		}
		s.mu.Unlock()
		if f == nil || !wait {
			return nil
		}
		if err := s.await(ctx, f); err != nil || !overdue {
			return err
		}
		now = s.rules.now() // and again, for a request that was made after the sleep
	}
	return nil
}

// await waits for the end of a request, for as long as a fetch may take: a held one can take longer.
func (s *RemoteStatusList) await(ctx context.Context, f *flight) error {
	limit := time.NewTimer(s.timeout)
	defer limit.Stop()
	select {
	case <-f.ended:
	case <-limit.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// refresh returns the request that is out, or begins one, or returns nil if it is too
// early for another. The caller holds mu.
func (s *RemoteStatusList) refresh(l *remoteList, now time.Time) *flight {
	if l.flight != nil {
		return l.flight
	}
	if s.open.Err() != nil {
		return nil
	}
	if !l.attempted.IsZero() && !reached(now, l.attempted, s.pause(l)) {
		return nil
	}
	if l.copy.Load() == nil && !s.afford(l, now) {
		l.failure = errors.New("too many lists are asked for at once")
		return nil
	}
	f := s.begin(l, now, 0)
	s.asking.Go(func() {
		s.fetch(l, f)
		s.follow(l)
	})
	return f
}

// pause is the least time between the starts of two requests for a list. It doubles with
// each failure after the first.
func (s *RemoteStatusList) pause(l *remoteList) time.Duration {
	d := s.minInterval << min(max(l.failures-1, 0), 4)
	return max(min(d, maxBackoff), s.minInterval)
}

// begin marks a request as being out. The caller holds mu, and goes on with fetch.
func (s *RemoteStatusList) begin(l *remoteList, now time.Time, wait time.Duration) *flight {
	f := &flight{began: now, wait: wait, ended: make(chan struct{})}
	timeout := s.timeout + wait
	// That a list is unchanged does not make the copy live longer.
	if c := l.copy.Load(); c.left(now) > 0 {
		f.etag = c.etag
		if wait > 0 { // when the answer is lost there is time to ask again before the copy is too old
			timeout = min(timeout, c.ttl*7/8-now.Sub(c.asOf))
		}
	}
	f.ctx, f.cancel = context.WithTimeout(s.open, timeout)
	f.due = now.Add(timeout)
	l.attempted, l.flight = now, f
	return f
}

// fetch makes the request, keeps what it finds and ends the flight.
func (s *RemoteStatusList) fetch(l *remoteList, f *flight) {
	defer f.cancel()
	began := time.Now()
	answer, err := s.ask(f, l.uri)
	took := time.Since(began)

	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.learn(l, f, answer, err)
	if f.wait > 0 {
		// An answer before its time that says nothing new was not held, whatever it says.
		if l.unheld++; err == nil && (news || answer.held > 0 && took >= answer.held/2) {
			l.unheld = 0
		}
		l.gaveUp = s.rules.now()
	}
	l.flight = nil
	close(f.ended)
}

// learn keeps what a request has found, and reports whether it was news. The caller
// holds mu.
func (s *RemoteStatusList) learn(l *remoteList, f *flight, a listAnswer, err error) (news bool) {
	c, now := l.copy.Load(), s.rules.now()
	if err == nil && a.list != nil && c != nil && a.list.older(c.statusList, now) {
		err = errors.New("the list is older than the copy")
	}
	switch {
	case err != nil && (f.wait > 0 || f.overdue(now)):
		// Perhaps something in between ends long requests, or the machine slept. That is no failure of
		// the list yet: who finds the copy too old asks, and waits for the answer.
		l.lost = true
		return false
	case err != nil:
		l.failures++
		l.failure, l.failed = err, now
		return false
	}
	l.failures, l.failure, l.lost = 0, nil, false
	next := &listCopy{statusList: a.list, etag: a.etag, asOf: f.began}
	if a.list == nil { // unchanged: c is not nil, for without it nothing is compared
		next.statusList, next.etag = c.statusList, c.etag
		// Cairn has looked again when the time was over.
		if end := f.began.Add(a.held); !end.After(now) {
			next.asOf = end
		}
	} else {
		news = c == nil || !bytes.Equal(c.status, a.list.status)
	}
	l.copy.Store(next)
	return news
}
