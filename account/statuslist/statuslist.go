// Package statuslist owns the token status lists (draft-ietf-oauth-status-list) as verifiers read
// them: how they are packed, signed and kept, the requests for them, and those requests that wait
// for a change.
//
// It leaves to others: which index a session token gets, what revokes it and where that is kept
// (packages account and store), and how a list is read (package account/session).
package statuslist

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Size is the number of session tokens in one list.
const Size = 1 << 17

// Lifetime is the maximum lifetime of a copy of a list, from its signature to its exp.
const Lifetime = 12 * time.Hour

// ErrNotFound means that there never was such a list, or that it is no longer kept.
var ErrNotFound = web.NewProblem(404, "status_list_not_found", "This status list does not exist.")

const (
	// generationTime is how long an unchanged list is served with the same signature, so that
	// copies have most of their lifetime left.
	generationTime = Lifetime / 4
	// maxWait is the maximum time for which a request is held: proxies and the server end requests
	// after 30 seconds or more.
	maxWait = 25 * time.Second
	// poll is how often the store is asked for changes by other instances or the command line while
	// a request waits.
	poll = 250 * time.Millisecond
	// Maximum numbers of held requests, in all and per address. Further ones are answered at once.
	maxWaiters          = 1024
	maxWaitersByAddress = 32

	media = "application/statuslist+jwt"
)

// claims is a Status List Token (draft-ietf-oauth-status-list section 5.1).
type claims struct {
	Subject  string `json:"sub"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	TTL      int64  `json:"ttl"` // seconds
	List     struct {
		Bits int    `json:"bits"`
		List string `json:"lst"`
	} `json:"status_list"`
}

// Store is the database of the lists.
type Store interface {
	// StatusVersion returns a number that changes with the status list. ErrNotFound if the list
	// never existed or was removed with its last session.
	StatusVersion(ctx context.Context, list int) (int64, error)
	// StatusVersions returns the StatusVersion of all lists.
	StatusVersions(ctx context.Context) (map[int]int64, error)
	// RevokedIndices returns the sorted indices of the revoked tokens of one status list. It
	// includes tokens that expired recently, because the clocks of verifiers may differ. It changes
	// only with StatusVersion, and if read after it, is at least as new. No other token gets such
	// an index before every copy of a list with it is past Lifetime.
	RevokedIndices(ctx context.Context, list int) ([]int, error)
}

// Options configure Lists. All are required except KeyID.
type Options struct {
	Site  *web.Site
	Store Store
	Key   jose.SigningKey // of the session tokens
	KeyID string          // empty: the shared secret
	TTL   time.Duration   // how long a verifier may go on with its copy of a list, whole seconds
	Now   func() time.Time
	Log   *slog.Logger
}

// Lists are the status lists of an installation. They are safe for concurrent use.
type Lists struct {
	site    *web.Site
	store   Store
	signer  jose.Signer
	keyID   string
	ttl     time.Duration
	now     func() time.Time
	kept    *web.Cache[signed] // by the number of the list
	waiters waiters
}

// New returns the Lists of a store.
func New(o Options) (*Lists, error) {
	signer, err := jose.NewSigner(o.Key, (&jose.SignerOptions{}).WithType("statuslist+jwt"))
	if err != nil {
		return nil, fmt.Errorf("status list signer: %w", err)
	}
	l := &Lists{
		site: o.Site, store: o.Store, signer: signer, keyID: o.KeyID, ttl: o.TTL, now: o.Now,
		waiters: waiters{versions: o.Store.StatusVersions, log: o.Log},
	}
	l.kept = web.NewCache(generationTime, o.Now, l.sign)
	return l, nil
}

// signed is a list in the form in which it is served.
type signed struct {
	version    int64 // of the store
	generation int64 // since 1970
	issued     int64 // Unix seconds
	etag       string
	document   *templates.Document
}

// current returns the current list. It serves the stored copy while the store, asked each time,
// reports no change, so that the next request at every instance sees a revocation. After a change
// only one of many callers reads and signs the list, because strangers may ask and signing is
// expensive. Verifiers refuse a list of the future, which a clock signed that was ahead.
func (l *Lists) current(ctx context.Context, list int) (signed, error) {
	key := strconv.Itoa(list)
	version, err := l.store.StatusVersion(ctx, list)
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			l.kept.Drop(key)
		}
		return signed{}, fmt.Errorf("version of status list: %w", err)
	}
	since := l.generation()
	return l.kept.GetValid(ctx, key, func(p signed) bool {
		return p.version >= version && p.generation >= since && p.issued <= l.now().Unix()
	})
}

func (l *Lists) generation() int64 { return l.now().Unix() / int64(generationTime/time.Second) }

// sign reads a list after its version, so that a newer change makes the next request read again.
// The entity tag is weak and depends only on the content, so that it is the same at every instance
// although each signs its own copy.
func (l *Lists) sign(ctx context.Context, key string) (p signed, err error) {
	list, err := strconv.Atoi(key)
	if err != nil {
		return p, err
	}
	p.generation = l.generation()
	if p.version, err = l.store.StatusVersion(ctx, list); err != nil {
		return p, fmt.Errorf("version of status list: %w", err)
	}
	revoked, err := l.store.RevokedIndices(ctx, list)
	if err != nil {
		return p, fmt.Errorf("read status list: %w", err)
	}
	// Section 4.1 of the draft: the lowest bit of the first byte is index 0.
	bits := make([]byte, Size/8)
	for _, i := range revoked {
		if i >= 0 && i < Size {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	var packed, zipped bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, err = z.Write(bits)
	if err = errors.Join(err, z.Close()); err != nil {
		return p, fmt.Errorf("pack status list: %w", err)
	}
	now := l.now()
	p.issued = now.Unix()
	c := claims{
		Subject: l.site.URL("/oauth2/status/" + key), IssuedAt: now.Unix(), Expires: now.Add(Lifetime).Unix(),
		TTL: int64(l.ttl / time.Second),
	}
	c.List.Bits, c.List.List = 1, base64.RawURLEncoding.EncodeToString(packed.Bytes())
	token, err := jwt.Signed(l.signer).Claims(c).Serialize()
	if err != nil {
		return p, fmt.Errorf("sign status list: %w", err)
	}
	g, err := gzip.NewWriterLevel(&zipped, gzip.HuffmanOnly) // what base64url leaves: a quarter
	if err == nil {
		_, err = g.Write([]byte(token))
		err = errors.Join(err, g.Close())
	}
	if err != nil {
		return p, fmt.Errorf("pack status list: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %s %s", c.Subject, c.TTL, p.generation, l.keyID, c.List.List))
	p.etag = `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	// A cache would serve the list for ttl, and the verifier use it for ttl again. So a cache must
	// revalidate each time, which costs next to nothing.
	age := "public, no-cache, max-age=" + strconv.Itoa(int(l.ttl/time.Second))
	p.document = templates.NewDocument(media, age, p.etag, []byte(token), zipped.Bytes())
	return p, nil
}

// ServeHTTP serves a status list: one bit per session token, set if the token was revoked, signed
// like the session tokens. The route has the number as {list}.
func (l *Lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := mux.Vars(r)["list"]
	list, err := strconv.Atoi(name)
	accept := strings.ToLower(strings.Join(r.Header.Values("Accept"), ","))
	switch {
	case err != nil || list < 1 || strconv.Itoa(list) != name:
		err = ErrNotFound
	case r.URL.Query().Has("time"): // section 8.4 of the draft
		err = web.NewProblem(http.StatusNotImplemented, "no_historical_lists",
			"Earlier lists are not kept. Ask without time.")
	// Section 8.2.
	case strings.Contains(accept, "statuslist+cwt") && !strings.Contains(accept, "statuslist+jwt") &&
		!strings.Contains(accept, "*"):
		err = web.NewProblem(http.StatusNotAcceptable, "not_acceptable", "Lists are signed as JWTs. Accept "+
			"application/statuslist+jwt.")
	}
	var p signed
	var held int
	if err == nil {
		wait := preferredWait(r.Header.Values("Prefer"))
		has := r.Header.Get("If-None-Match")
		p, held, err = l.waiters.await(r.Context(), web.ClientAddress(r), wait, has, func() (signed, error) {
			return l.current(r.Context(), list)
		})
	}
	if err != nil {
		l.site.Fail(w, r, err)
		return
	}
	h := w.Header()
	h.Add("Vary", "Prefer, Accept")
	if held > 0 {
		h.Set("Preference-Applied", "wait="+strconv.Itoa(held))
	}
	p.document.ServeHTTP(w, r)
}

// waiters are the requests that are held until a list changes.
type waiters struct {
	versions func(context.Context) (map[int]int64, error) // of all lists
	log      *slog.Logger

	mu       sync.Mutex
	count    map[string]int // by address
	total    int
	changed  chan struct{} // closed at the next change of any list
	watching bool
	released bool // the service is stopping: no request waits
}

// await returns the list like current. With `Prefer: wait=N` (RFC 7240 section 4.3) it waits up to
// N seconds, at most 25, for a list other than that of If-None-Match (has). held is the granted
// time; 0 if the request has no preference or there is no room.
func (l *waiters) await(
	ctx context.Context, address string, wait time.Duration, has string, current func() (signed, error),
) (now signed, held int, err error) {
	var change <-chan struct{} // before the list: a change in between is not missed
	if wait > 0 && has != "" {
		change = l.enter(address)
		if change != nil {
			defer l.leave(address)
		}
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		if now, err = current(); err != nil || change == nil || has != now.etag {
			return now, held, err
		}
		held = int(wait / time.Second)
		select {
		case <-change:
			change = l.next()
		case <-over.C: // and read the list once more: the watcher may have failed
			change = nil
		case <-ctx.Done():
			return now, held, nil
		}
	}
}

// enter counts a waiter and returns the channel that the next change closes, or nil if there is no
// room.
func (l *waiters) enter(address string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released || l.total >= maxWaiters || l.count[address] >= maxWaitersByAddress {
		return nil
	}
	if l.count == nil {
		l.count, l.changed = map[string]int{}, make(chan struct{})
	}
	l.total++
	l.count[address]++
	if !l.watching {
		l.watching = true
		go l.watch()
	}
	return l.changed
}

func (l *waiters) leave(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.count[address]--; l.count[address] == 0 {
		delete(l.count, address)
	}
}

// next returns the channel of the change after the last one, or nil if the service is stopping.
func (l *waiters) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	return l.changed
}

// watch asks for changes while a request waits. The first one wakes all requests, because they may
// have seen an older state.
func (l *waiters) watch() {
	var before map[int]int64
	failing := false // one line for an outage, not four a second
	for ; ; time.Sleep(poll) {
		l.mu.Lock()
		if l.watching = l.total > 0 && !l.released; !l.watching {
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		now, err := l.versions(ctx)
		cancel()
		if err != nil && !failing {
			l.log.Warn("status lists not watched: those who wait for a change learn of it later", "error", err)
		} else if err == nil && (before == nil || !maps.Equal(before, now)) {
			l.wake(false)
		}
		before, failing = now, err != nil
	}
}

// wake makes all waiting requests read the list again. With release, no request waits from now on.
func (l *waiters) wake(release bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released = l.released || release; l.changed != nil {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// Release answers the held requests and holds no others, because the service is about to stop.
func (l *Lists) Release() { l.waiters.wake(true) }

// Held returns the number of held requests.
func (l *Lists) Held() int {
	l.waiters.mu.Lock()
	defer l.waiters.mu.Unlock()
	return l.waiters.total
}

// preferredWait returns the preference wait=SECONDS; 0 means none. The first one counts (RFC 7240
// section 2), and an invalid one is ignored.
func preferredWait(prefer []string) time.Duration {
	for preference := range strings.SplitSeq(strings.Join(prefer, ","), ",") {
		preference, _, _ = strings.Cut(preference, ";") // its parameters
		name, value, _ := strings.Cut(preference, "=")
		if strings.EqualFold(strings.TrimSpace(name), "wait") {
			seconds, err := strconv.ParseUint(strings.Trim(value, ` "`), 10, 31)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return 0
			}
			return min(time.Duration(seconds)*time.Second, maxWait)
		}
	}
	return 0
}
