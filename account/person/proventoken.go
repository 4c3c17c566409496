package person

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/cairn-id/cairn/account"
)

// provenToken is the content of a session token with a verified signature. The store is still asked
// for each request whether the session is live.
type provenToken struct {
	sub, sid, algorithm string
	jtiHash             []byte
	from, until         time.Time // when it counts as proven
}

const (
	provenFor = time.Minute
	// maxProven limits the memory of all of them to about 2 MB.
	maxProven = 4096
)

// provenTokens remembers verified session tokens, so that the next requests of a browser do not
// cost another verification. The key is the SHA-256 of the whole token with its signature. Only
// verified tokens are stored, so strangers cannot fill it. When it is full, the older half is
// dropped.
type provenTokens struct {
	mu          sync.Mutex
	young, aged map[[sha256.Size]byte]provenToken
}

func (p *provenTokens) find(key [sha256.Size]byte, now time.Time) (provenToken, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.young[key]
	if !ok {
		t = p.aged[key]
	}
	return t, !now.Before(t.from) && now.Before(t.until)
}

func (p *provenTokens) keep(key [sha256.Size]byte, t provenToken) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.young == nil || len(p.young) == maxProven/2 {
		p.young, p.aged = map[[sha256.Size]byte]provenToken{}, p.young
	}
	p.young[key] = t
}

// prove verifies a session token. Keys change only with a restart, which empties the memory.
func (s *Service) prove(ctx context.Context, token string) (provenToken, error) {
	key, now := sha256.Sum256([]byte(token)), s.Now()
	if t, ok := s.proven.find(key, now); ok {
		return t, nil
	}
	c, err := s.verifier.Verify(ctx, token)
	if err != nil {
		return provenToken{}, err
	}
	t := provenToken{sub: c.Subject, sid: c.SessionID, algorithm: c.Algorithm, jtiHash: account.HashSecret(c.ID),
		from:  now,
		until: now.Add(provenFor)}
	if c.ExpiresAt.Before(t.until) {
		t.until = c.ExpiresAt
	}
	s.proven.keep(key, t)
	return t, nil
}

// IsProven reports whether the signature of a session token was verified recently.
func (s *Service) IsProven(token string) bool {
	_, ok := s.proven.find(sha256.Sum256([]byte(token)), s.Now())
	return ok
}
