package account

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// provenToken is what a session token of which the signature is good says of its session.
// Whether that lives is read from the store at each request.
type provenToken struct {
	sub, sid, algorithm string
	jtiHash             []byte
	from, until         time.Time // when it may be taken for proven without another look
}

const (
	provenFor = time.Minute
	// maxProven bounds the memory of all of them to about 2 MB.
	maxProven = 4096
)

// provenTokens remembers session tokens whose signature was verified, so that a browser
// that comes again does not cost another verification, by the SHA-256 of the whole token: one
// that differs in its signature alone is another. Only what was verified is kept, so that
// strangers cannot fill it; of more than there is room for, the older half goes.
type provenTokens struct {
	mu          sync.Mutex
	young, aged map[[sha256.Size]byte]provenToken
}

func (p *provenTokens) find(key [sha256.Size]byte, now time.Time) (provenToken, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.young[key]
	if !ok {
		t, ok = p.aged[key]
	}
	return t, ok && !now.Before(t.from) && now.Before(t.until)
}

func (p *provenTokens) keep(key [sha256.Size]byte, t provenToken) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.young == nil || len(p.young) == maxProven/2 {
		p.young, p.aged = map[[sha256.Size]byte]provenToken{}, p.young
	}
	p.young[key] = t
}

// prove verifies a session token. Keys change only with a restart, which forgets all.
func (s *Service) prove(ctx context.Context, token string) (provenToken, error) {
	key, now := sha256.Sum256([]byte(token)), s.clock()
	if t, ok := s.proven.find(key, now); ok {
		return t, nil
	}
	c, err := s.verifier.Verify(ctx, token)
	if err != nil {
		return provenToken{}, err
	}
	t := provenToken{sub: c.Subject, sid: c.SessionID, algorithm: c.Algorithm, jtiHash: hashOf(c.ID), from: now, until: now.Add(provenFor)}
	if c.ExpiresAt.Before(t.until) {
		t.until = c.ExpiresAt
	}
	s.proven.keep(key, t)
	return t, nil
}
