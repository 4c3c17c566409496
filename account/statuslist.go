package account

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/gorilla/mux"
)

// StatusListSize is how many sessions one token status list has room for.
const StatusListSize = 1 << 17

const (
	statusTTL      = time.Minute    // how long a verifier may use its copy
	statusLifetime = 12 * time.Hour // after which a copy is worth nothing
)

// statusClaims is a Status List Token (draft-ietf-oauth-status-list section 5.1).
type statusClaims struct {
	Subject  string `json:"sub"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	TTL      int64  `json:"ttl"`
	List     struct {
		Bits int    `json:"bits"`
		List string `json:"lst"`
	} `json:"status_list"`
}

func (s *Service) mountStatus(m *mux.Router) {
	s.Handle(m, "/oauth2/status/{list}", Methods{"GET": s.statusList})
}

// statusList tells verifiers which session tokens were taken back: one bit an
// index, signed like the session token itself.
func (s *Service) statusList(w http.ResponseWriter, r *http.Request) {
	list, err := strconv.Atoi(mux.Vars(r)["list"])
	if err != nil || list < 1 || strconv.Itoa(list) != mux.Vars(r)["list"] {
		s.Fail(w, r, ErrStatusListNotFound)
		return
	}
	now := s.now()
	revoked, err := s.store.RevokedIndices(r.Context(), list, now)
	if errors.Is(err, ErrSessionNotFound) {
		err = ErrStatusListNotFound
	}
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	packed, err := s.packedStatus(list, revoked, now)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "max-age="+strconv.Itoa(int(statusTTL.Seconds())))
	h.Set("ETag", packed.etag)
	if strings.Contains(r.Header.Get("If-None-Match"), packed.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/statuslist+jwt")
	_, _ = w.Write([]byte(packed.token))
}

// statusCache holds the last token of each list: strangers may ask for a list
// as often as they like, and a signature is dear.
type statusCache struct {
	mu     sync.Mutex
	byList map[int]packedStatus
}

type packedStatus struct {
	revoked []int
	token   string
	etag    string
	signed  time.Time
}

// packedStatus returns the token of the revoked indices: the kept one while
// nothing has changed and it has most of its life before it.
func (s *Service) packedStatus(list int, revoked []int, now time.Time) (packedStatus, error) {
	c := &s.statuses
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, ok := c.byList[list]; ok && slices.Equal(kept.revoked, revoked) && now.Sub(kept.signed) < statusLifetime/4 && !now.Before(kept.signed) {
		return kept, nil
	}
	token, err := s.signStatus(list, revoked, now)
	if err != nil {
		return packedStatus{}, err
	}
	sum := sha256.Sum256([]byte(token))
	fresh := packedStatus{revoked: revoked, token: token, etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, signed: now}
	if c.byList == nil {
		c.byList = map[int]packedStatus{}
	}
	c.byList[list] = fresh
	return fresh, nil
}

func (s *Service) signStatus(list int, revoked []int, now time.Time) (string, error) {
	bits := make([]byte, StatusListSize/8)
	for _, i := range revoked {
		if i >= 0 && i < StatusListSize {
			bits[i/8] |= 1 << (i % 8) // the lowest bit is the first index (section 4.1)
		}
	}
	var packed bytes.Buffer
	z, err := zlib.NewWriterLevel(&packed, zlib.BestCompression)
	if err == nil {
		_, err = z.Write(bits)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return "", fmt.Errorf("pack status list: %w", err)
	}
	c := statusClaims{
		Subject: s.URL("/oauth2/status/" + strconv.Itoa(list)), IssuedAt: now.Unix(), Expires: now.Add(statusLifetime).Unix(), TTL: int64(statusTTL.Seconds()),
	}
	c.List.Bits, c.List.List = 1, base64.RawURLEncoding.EncodeToString(packed.Bytes())
	t, err := jwt.Signed(s.minter.statusSigner).Claims(c).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign status list: %w", err)
	}
	return t, nil
}

func newStatusSigner(sk jose.SigningKey) (jose.Signer, error) {
	signer, err := jose.NewSigner(sk, (&jose.SignerOptions{}).WithType("statuslist+jwt"))
	if err != nil {
		return nil, fmt.Errorf("status list signer: %w", err)
	}
	return signer, nil
}
