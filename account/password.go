package account

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-crypt/crypt"
	"github.com/go-crypt/crypt/algorithm"
	"github.com/go-crypt/crypt/algorithm/argon2"
	"github.com/go-crypt/crypt/algorithm/bcrypt"
	"golang.org/x/text/secure/precis"

	"github.com/cairn-id/cairn/account/web"
)

// Password length in runes after PRECIS OpaqueString (RFC 8265 section 4.2).
const (
	DefaultMinPassword = 10
	maxPassword        = 128
)

// minHandleInPassword is the length from which a password must not contain the
// handle: every second sentence contains a handle of one or two letters.
const minHandleInPassword = 3

// maxHashWaiters bounds the queue in front of the hasher: beyond it a sign-in
// is refused at once (503) instead of piling up.
const maxHashWaiters = 256

// Hasher makes and verifies password hashes (argon2id; bcrypt is only read). It
// runs at most one hash per core at a time, so that a storm of sign-ins neither
// takes the memory (19 MiB each) nor starves the other endpoints.
type Hasher struct {
	argon   *argon2.Hasher
	decoder *crypt.Decoder
	slots   chan struct{}
	waiting atomic.Int64
	params  string // the "m=…,t=…,p=…" of a current hash
	dummy   func() algorithm.Digest
}

// NewHasher makes the hasher of the product: m=19 MiB, t=2, p=1.
func NewHasher() (*Hasher, error) { return newHasher(19456, 2) }

// NewTestHasher makes one that is a thousand times cheaper. For tests only.
func NewTestHasher() (*Hasher, error) { return newHasher(16, 1) }

func newHasher(memoryKiB uint32, time int) (*Hasher, error) {
	a, err := argon2.New(argon2.WithVariantID(), argon2.WithM(memoryKiB), argon2.WithT(time), argon2.WithP(1), argon2.WithS(16), argon2.WithK(32))
	if err != nil {
		return nil, fmt.Errorf("password hasher: %w", err)
	}
	d := crypt.NewDecoder()
	if err := argon2.RegisterDecoder(d); err != nil {
		return nil, fmt.Errorf("password decoder: %w", err)
	}
	if err := bcrypt.RegisterDecoder(d); err != nil {
		return nil, fmt.Errorf("password decoder: %w", err)
	}
	h := &Hasher{
		argon: a, decoder: d, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0))),
		params: fmt.Sprintf("$m=%d,t=%d,p=1$", memoryKiB, time),
	}
	h.dummy = sync.OnceValue(func() algorithm.Digest { return a.MustHash("nobody's password") })
	return h, nil
}

// enter waits for a core. ErrBusy when too many wait already.
func (h *Hasher) enter(ctx context.Context) (leave func(), err error) {
	if h.waiting.Add(1) > maxHashWaiters {
		h.waiting.Add(-1)
		return nil, web.ErrBusy
	}
	defer h.waiting.Add(-1)
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Hash makes a PHC string. The password must have passed CheckPassword.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	leave, err := h.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	d, err := h.argon.Hash(opaque(password))
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return d.Encode(), nil
}

// match compares inside a slot that the caller holds. An empty hash (unknown
// user) costs the same and never matches.
func (h *Hasher) match(hash, password string) bool {
	if utf8.RuneCountInString(password) > maxPassword || strings.ContainsRune(password, 0) {
		password, hash = "", ""
	}
	if hash == "" {
		h.dummy().Match(password)
		return false
	}
	d, err := h.decoder.Decode(hash)
	if err != nil {
		return false
	}
	if strings.HasPrefix(hash, "$2") {
		// bcrypt cuts at 72 bytes: a longer password never had such a hash.
		return len(password) <= 72 && (d.Match(password) || d.Match(opaque(password)))
	}
	return d.Match(opaque(password))
}

// outdated tells whether a hash should be made anew after a successful sign-in.
func (h *Hasher) outdated(hash string) bool {
	return !strings.HasPrefix(hash, "$argon2id$") || !strings.Contains(hash, h.params)
}

// opaque is the form that is hashed: what looks the same is the same (RFC 8265
// OpaqueString: NFC, other spaces become U+0020), nothing is cut.
func opaque(password string) string {
	if p, err := precis.OpaqueString.String(password); err == nil {
		return p
	}
	return password
}

// CheckPassword tells whether a new password is acceptable for the handle:
// ErrWeakPassword, wrapped with a sentence that says why.
func CheckPassword(password, handle string, minimum int) error {
	if minimum <= 0 {
		minimum = DefaultMinPassword
	}
	p, err := precis.OpaqueString.String(password)
	if err != nil || !utf8.ValidString(password) {
		return ErrWeakPassword.With("The password has characters that cannot be typed on every device (control or invisible ones).")
	}
	low := strings.ToLower(p)
	switch n := utf8.RuneCountInString(p); {
	case n < minimum:
		return ErrWeakPassword.With(fmt.Sprintf("The password needs at least %d characters.", minimum))
	case n > maxPassword:
		return ErrWeakPassword.With(fmt.Sprintf("The password can have at most %d characters.", maxPassword))
	case len(handle) >= minHandleInPassword && strings.Contains(low, strings.ToLower(handle)):
		return ErrWeakPassword.With("The password must not contain the handle.")
	case isCommon(low):
		return ErrWeakPassword.With("The password is among the most common ones. Choose one that others do not use.")
	}
	return nil
}
