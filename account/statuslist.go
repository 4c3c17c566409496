package account

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
)

// StatusListSize is how many session tokens one token status list has room for.
const StatusListSize = 1 << 17

// DefaultStatusTTL is how long a verifier may go on with its copy of a list.
const DefaultStatusTTL = time.Minute

// StatusListLifetime is how long a copy of a list may be used at most, from its
// signature to its exp.
const StatusListLifetime = 12 * time.Hour

// statusGeneration is how long an unchanged list is served as it was signed: its
// copies have most of their life before them.
const statusGeneration = StatusListLifetime / 4

// statusClaims is a Status List Token (draft-ietf-oauth-status-list section 5.1).
type statusClaims struct {
	Subject  string `json:"sub"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	TTL      int64  `json:"ttl"` // seconds
	List     struct {
		Bits int    `json:"bits"`
		List string `json:"lst"`
	} `json:"status_list"`
}

func (s *Service) mountStatus(m *mux.Router) {
	s.Handle(m, "/oauth2/status/{list}", web.Methods{"GET": s.statusList})
}

// statusList tells verifiers which session tokens were taken back: one bit an
// index, signed like the session token itself.
func (s *Service) statusList(w http.ResponseWriter, r *http.Request) {
	list, err := strconv.Atoi(mux.Vars(r)["list"])
	if err != nil || list < 1 || strconv.Itoa(list) != mux.Vars(r)["list"] {
		s.Fail(w, r, ErrStatusListNotFound)
		return
	}
	if err := servesStatus(r); err != nil {
		s.Fail(w, r, err)
		return
	}
	has := r.Header.Values("If-None-Match")
	packed, held, err := s.statuses.awaitChange(r, has, func() (packedStatus, error) { return s.packedStatus(r.Context(), list) })
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	h := w.Header()
	// A cache in between would serve the list for ttl, and the verifier go on with it for
	// ttl again: it has to ask each time, which costs next to nothing.
	h.Set("Cache-Control", "public, no-cache, max-age="+strconv.FormatInt(s.statuses.seconds(), 10))
	h.Add("Vary", "Prefer, Accept, Accept-Encoding")
	h.Set("ETag", packed.etag)
	if held > 0 {
		h.Set("Preference-Applied", "wait="+strconv.Itoa(held))
	}
	if matches(has, packed.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", statusMedia)
	if admits(r.Header.Values("Accept-Encoding"), "gzip", "*") {
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.zipped)
		return
	}
	_, _ = w.Write([]byte(packed.token))
}

const statusMedia = "application/statuslist+jwt"

// servesStatus refuses what the draft says must not be answered with the list of now
// as a JWT: a list of the past (section 8.4), and one that may be a CWT only (section
// 8.2). Who accepts neither is given the JWT: there is nothing else.
func servesStatus(r *http.Request) error {
	if r.URL.RawQuery != "" && r.URL.Query().Has("time") {
		return web.NewProblem(http.StatusNotImplemented, "no_historical_lists", "Lists of the past are not kept. Ask without time.")
	}
	accept := r.Header.Values("Accept")
	if admits(accept, "application/statuslist+cwt") && !admits(accept, statusMedia, "application/*", "*/*") {
		return web.NewProblem(http.StatusNotAcceptable, "not_acceptable", "Lists are signed as JWT. Accept "+statusMedia+".")
	}
	return nil
}

// matches is the weak comparison of If-None-Match (RFC 9110 section 13.1.2).
func matches(ifNoneMatch []string, etag string) bool {
	for tag := range headerMembers(ifNoneMatch) {
		if tag == "*" || strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/") {
			return true
		}
	}
	return false
}

// statusLists holds the last token of each list, because strangers may ask as
// often as they like and a signature is dear, and those who wait for a change.
type statusLists struct {
	ttl time.Duration

	mu     sync.Mutex // of the map alone
	byList map[int]*statusEntry

	statusWaiters
}

// statusEntry is what is kept of one list; mu of statusLists guards it.
type statusEntry struct {
	packed   packedStatus
	building chan struct{} // closed when who packs and signs it anew is done; nil when nobody does
}

func (l *statusLists) seconds() int64 { return int64(l.ttl / time.Second) }

// packedStatus is a signed list.
type packedStatus struct {
	version    int64 // of the store
	generation int64 // since 1970
	token      string
	zipped     []byte // the token in gzip: Huffman codes gain the quarter that base64url leaves
	etag       string
}

// packedStatus returns a list as it is now. What is kept is served while the
// store, asked each time, says that nothing has changed: then a revocation is
// seen by the next request at every instance. Of many who ask after a change one reads
// the list and signs it.
func (s *Service) packedStatus(ctx context.Context, list int) (packedStatus, error) {
	l := &s.statuses
	for {
		version, err := s.store.StatusVersion(ctx, list)
		if err != nil {
			if errors.Is(err, ErrStatusListNotFound) {
				l.mu.Lock()
				delete(l.byList, list)
				l.mu.Unlock()
			}
			return packedStatus{}, fmt.Errorf("version of status list: %w", err)
		}
		now := s.now()
		generation := now.Unix() / int64(statusGeneration/time.Second)
		l.mu.Lock()
		e := l.byList[list]
		if e == nil {
			if l.byList == nil {
				l.byList = map[int]*statusEntry{}
			}
			e = &statusEntry{}
			l.byList[list] = e
		}
		if e.packed.token != "" && e.packed.version == version && e.packed.generation == generation {
			defer l.mu.Unlock()
			return e.packed, nil
		}
		building := e.building
		if building == nil {
			e.building = make(chan struct{})
			l.mu.Unlock()
			return s.buildStatus(ctx, e, list, packedStatus{version: version, generation: generation}, now)
		}
		l.mu.Unlock()
		select {
		case <-building: // perhaps of a later version: look again
		case <-ctx.Done():
			return packedStatus{}, fmt.Errorf("wait for status list: %w", ctx.Err())
		}
	}
}

// buildStatus reads a list after its version was read: what is newer than that is
// asked for again by the next request.
func (s *Service) buildStatus(ctx context.Context, e *statusEntry, list int, fresh packedStatus, now time.Time) (packedStatus, error) {
	l := &s.statuses
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if fresh.token != "" {
			e.packed = fresh
		}
		close(e.building)
		e.building = nil
	}()
	revoked, err := s.store.RevokedIndices(ctx, list)
	if err != nil {
		return packedStatus{}, fmt.Errorf("read status list: %w", err)
	}
	if err := s.signStatus(&fresh, list, revoked, now); err != nil {
		return packedStatus{}, err
	}
	return fresh, nil
}

// signStatus makes the token of a list, and its entity tag: weak, and of what
// the content depends on, so that it is the same at every instance, though each signs
// its own.
func (s *Service) signStatus(p *packedStatus, list int, revoked []int, now time.Time) error {
	packed, err := packBits(revoked)
	if err != nil {
		return fmt.Errorf("pack status list: %w", err)
	}
	c := statusClaims{
		Subject: s.URL("/oauth2/status/" + strconv.Itoa(list)), IssuedAt: now.Unix(), Expires: now.Add(StatusListLifetime).Unix(), TTL: s.statuses.seconds(),
	}
	c.List.Bits, c.List.List = 1, base64.RawURLEncoding.EncodeToString(packed)
	if p.token, err = jwt.Signed(s.minter.statusSigner).Claims(c).Serialize(); err != nil {
		return fmt.Errorf("sign status list: %w", err)
	}
	var zipped bytes.Buffer
	z, err := gzip.NewWriterLevel(&zipped, gzip.HuffmanOnly)
	if err != nil {
		return fmt.Errorf("pack status list: %w", err)
	}
	if _, err := z.Write([]byte(p.token)); err != nil {
		return fmt.Errorf("pack status list: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("pack status list: %w", err)
	}
	p.zipped = zipped.Bytes()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %s %s", c.Subject, c.TTL, p.generation, s.minter.keyID, c.List.List))
	p.etag = `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	return nil
}

// packBits is the compressed byte array of draft-ietf-oauth-status-list section
// 4.1: the lowest bit of the first byte is index 0.
func packBits(revoked []int) ([]byte, error) {
	bits := make([]byte, StatusListSize/8)
	for _, i := range revoked {
		if i >= 0 && i < StatusListSize {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	// Long runs pack a list with few bits, Huffman codes alone one with many. The best
	// level gains 5 % of the size for ten times the work.
	var best []byte
	for _, level := range []int{zlib.DefaultCompression, zlib.HuffmanOnly} {
		var packed bytes.Buffer
		z, err := zlib.NewWriterLevel(&packed, level)
		if err == nil {
			_, err = z.Write(bits)
		}
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			return nil, err
		}
		if best == nil || packed.Len() < len(best) {
			best = packed.Bytes()
		}
	}
	return best, nil
}

func newStatusSigner(sk jose.SigningKey) (jose.Signer, error) {
	signer, err := jose.NewSigner(sk, (&jose.SignerOptions{}).WithType("statuslist+jwt"))
	if err != nil {
		return nil, fmt.Errorf("status list signer: %w", err)
	}
	return signer, nil
}
