package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const listType = "statuslist+jwt"

// listAnswer is what a fetch has found: a list, or the word that the copy is unchanged.
type listAnswer struct {
	list *statusList // nil: unchanged
	etag string
	held bool // Cairn has waited for a change
}

// fetch renews l and ends the flight. It runs apart from every request, with a context of
// its own: many wait for it, and one that gives up must not take it away from the others.
func (s *RemoteStatusList) fetch(l *remoteList, began time.Time, etag string, flight chan struct{}) {
	answer, err := s.ask(l.uri, etag, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.learn(l, answer, err, began)
	l.flight = nil
	close(flight)
}

// learn keeps what a fetch has found, which is how the list was at asOf. The caller holds mu.
func (s *RemoteStatusList) learn(l *remoteList, answer listAnswer, err error, asOf time.Time) {
	if l.failure = err; err != nil {
		l.failures++
		return
	}
	l.failures = 0
	if asOf.Before(l.fetched) && !s.rules.now().Before(l.fetched) {
		return // another one was begun later and has ended sooner
	}
	if l.fetched = asOf; answer.list != nil {
		l.copy, l.etag = answer.list, answer.etag
	}
}

// hold keeps a request at Cairn that is answered when the list changes, as long as the list is in
// use and Cairn goes along with it; else the list is asked for as without Wait. Only one
// runs for a list.
func (s *RemoteStatusList) hold(l *remoteList) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.holding || s.rules.now().Before(l.noHold) {
		return
	}
	l.holding = true
	defer func() { l.holding = false }()
	for l.copy != nil && l.failure == nil && !reached(s.rules.now(), l.used, idleAfter) {
		// It is over before the copy is a ttl old: while it lasts, nobody has to ask.
		wait := min(s.wait, l.copy.ttl/2).Truncate(time.Second)
		if wait < time.Second {
			return
		}
		l.attempted = s.rules.now()
		asked, etag, began := l.attempted, l.tag(l.attempted), time.Now()
		s.mu.Unlock()
		answer, err := s.ask(l.uri, etag, wait)
		s.mu.Lock()
		now := s.rules.now()
		switch {
		case err != nil:
			// Perhaps something in between cuts long requests. It is no failure of the list: who
			// finds the copy too old asks, and waits for the answer.
			s.rest(l, now)
			return
		case answer.held:
			l.unheld = 0
			s.learn(l, answer, nil, now)
		default:
			s.learn(l, answer, nil, asked)
			// Once may be a list that has changed before it was asked for.
			if answer.list == nil || l.unheld > 0 {
				s.rest(l, now)
				return
			}
			l.unheld++
		}
		// A list that changes all the time is asked for no faster than another one.
		s.mu.Unlock()
		time.Sleep(s.minInterval - time.Since(began))
		s.mu.Lock()
	}
}

// rest does without holding for a while, longer each time. The caller holds mu.
func (s *RemoteStatusList) rest(l *remoteList, now time.Time) {
	pause := l.copy.ttl << min(l.unheld, 8)
	l.noHold = now.Add(min(pause, idleAfter))
	l.unheld++
}

// ask gets a list (draft-ietf-oauth-status-list section 8.1) and verifies it.
func (s *RemoteStatusList) ask(uri, etag string, hold time.Duration) (listAnswer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout+hold)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		// The cause quotes the address, which may hold a password.
		return listAnswer{}, errors.New("fetching the status list: the address is not a URL")
	}
	r.Header.Set("Accept", "application/"+listType)
	r.Header.Set("Cache-Control", "no-cache") // a cache in between would add to its age
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
		if hold > 0 {
			r.Header.Set("Prefer", "wait="+strconv.Itoa(int(hold/time.Second))) // RFC 7240 section 4.3
		}
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return listAnswer{}, fmt.Errorf("fetching the status list: %w", err)
	}
	defer resp.Body.Close()
	answer := listAnswer{etag: resp.Header.Get("ETag"), held: hold > 0 && resp.Header.Get("Preference-Applied") != ""}
	switch {
	case resp.StatusCode == http.StatusNotModified && etag != "":
		return answer, nil
	case resp.StatusCode != http.StatusOK:
		return listAnswer{}, fmt.Errorf("fetching the status list: the answer has status %d", resp.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "application/"+listType {
		return listAnswer{}, errors.New("fetching the status list: the answer is of another type")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxListToken+1))
	if err != nil {
		return listAnswer{}, fmt.Errorf("fetching the status list: reading the answer: %w", err)
	}
	if answer.list, err = s.verify(ctx, string(body), uri); err != nil {
		return listAnswer{}, fmt.Errorf("fetching the status list: %w", err)
	}
	return answer, nil
}

// verify returns the list of a token that the issuer has signed for uri.
func (s *RemoteStatusList) verify(ctx context.Context, token, uri string) (*statusList, error) {
	if len(token) > maxListToken {
		return nil, fmt.Errorf("the answer is over %d bytes", maxListToken)
	}
	payload, _, err := s.rules.verifySignature(ctx, strings.TrimSpace(token), tokenKind{typ: listType, longest: maxListToken})
	if err != nil {
		// Not wrapped: it is the list that is invalid, not the session token.
		return nil, fmt.Errorf("the list is not believed: %v", err)
	}
	return readStatusList(payload, uri, s.rules.now(), s.rules.leeway())
}
