// Package password owns what is true of any password: which ones are acceptable, how they are
// hashed and compared, the queue in front of that, and the hashes that other systems made.
//
// It leaves to others: whose password it is, where the hash is kept, the limits on guessing and
// what follows a wrong one (package account).
package password

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ccojocar/zxcvbn-go/data"
	"github.com/go-crypt/crypt"
	"github.com/go-crypt/crypt/algorithm"
	"github.com/go-crypt/crypt/algorithm/argon2"
	"github.com/go-crypt/crypt/algorithm/bcrypt"
	"github.com/go-crypt/crypt/algorithm/pbkdf2"
	"github.com/go-crypt/crypt/algorithm/scrypt"
	"github.com/go-json-experiment/json"
	"golang.org/x/text/secure/precis"

	"github.com/cairn-id/cairn/account/web"
)

// Length in runes after PRECIS OpaqueString (RFC 8265 section 4.2).
const (
	DefaultMinimum = 10
	maximum        = 128
)

// ErrWeak refuses a new password.
var ErrWeak = web.ForField(400, "weak_password", "/password", "Choose a longer or less common password.")

// minHandle is the length from which a password must not contain the handle: every second sentence
// contains a handle of one or two letters.
const minHandle = 3

// Hasher creates password hashes (argon2id) and verifies them and those of other systems
// (Imported). If there are several cores, it leaves one to the other endpoints, so that a storm of
// sign-ins neither takes the memory (19 MiB each) nor starves them.
type Hasher struct {
	argon   *argon2.Hasher
	decoder *crypt.Decoder
	queue   queue
	current string // the beginning of a hash of its own

	verified func(hash string) // for tests that count the work; nil

	// observer is called for each use, unless it is nil. Set it before the first use.
	Observer observer
}

// observer watches the queue in front of the hasher. It is safe for concurrent use.
type observer interface {
	// HashBegun is called when a slot is taken. The function it returns is called when the slot is
	// given back.
	HashBegun() (ended func())
	// HashRefused is called when too many requests wait.
	HashRefused()
}

// Queue returns how many requests wait for a slot, and how many slots are taken.
func (h *Hasher) Queue() (waiting, busy int) {
	h.queue.mu.Lock()
	defer h.queue.mu.Unlock()
	return h.queue.queued[key{}], h.queue.running[key{}]
}

// HashMemory is the memory of one hash, in bytes.
const HashMemory = 19 << 20

// HashSlots is the number of concurrent hashes: one core is left to other requests.
func HashSlots() int { return max(1, runtime.GOMAXPROCS(0)-1) }

// NewHasher returns the hasher of the product: m=19 MiB, t=2, p=1.
func NewHasher() (*Hasher, error) { return newHasher(HashMemory>>10, 2) }

// NewTestHasher returns a hasher that is a thousand times cheaper, and whose queue waits for a
// minute, so that a loaded machine does not fail a test. It is for tests only.
func NewTestHasher() (*Hasher, error) {
	h, err := newHasher(16, 1)
	if err == nil {
		h.queue.patience = time.Minute
	}
	return h, err
}

func newHasher(memoryKiB uint32, passes int) (*Hasher, error) {
	a, err := argon2.New(argon2.WithVariantID(), argon2.WithM(memoryKiB), argon2.WithT(passes), argon2.WithP(1),
		argon2.WithS(16), argon2.WithK(32))
	if err != nil {
		return nil, fmt.Errorf("password hasher: %w", err)
	}
	d := crypt.NewDecoder()
	for _, register := range []func(algorithm.DecoderRegister) error{
		argon2.RegisterDecoder, bcrypt.RegisterDecoder, pbkdf2.RegisterDecoder, scrypt.RegisterDecoderScrypt,
	} {
		if err := register(d); err != nil {
			return nil, fmt.Errorf("password decoder: %w", err)
		}
	}
	return &Hasher{
		argon: a, decoder: d, queue: newQueue(HashSlots(), nil),
		current: fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=1$", memoryKiB, passes),
	}, nil
}

// Enter waits for a slot, in fair turns by the client's address and by account (as it was typed, or
// empty). web.ErrBusy if too many wait already, or if it takes too long. The holder of the slot
// calls leave once.
func (h *Hasher) Enter(ctx context.Context, account string) (func(), error) {
	leave, err := h.queue.enter(ctx, keysOf(web.Address(ctx), account), web.FromPage(ctx))
	if h.Observer == nil {
		return leave, err
	}
	if err != nil {
		if errors.Is(err, web.ErrBusy) {
			h.Observer.HashRefused()
		}
		return nil, err
	}
	ended := h.Observer.HashBegun()
	return func() {
		ended()
		leave()
	}, nil
}

// Hash returns the PHC string of a password that has passed Check.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	leave, err := h.Enter(ctx, "")
	if err != nil {
		return "", err
	}
	defer leave()
	return h.Rehash(password)
}

// Rehash is Hash in a slot that the caller holds.
func (h *Hasher) Rehash(password string) (string, error) {
	d, err := h.argon.Hash(opaque(password))
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return d.Encode(), nil
}

// Match compares a password with a hash in a slot that the caller holds. An empty hash (unknown
// user) never matches. A mismatch always costs all of refusal, whatever the hash.
func (h *Hasher) Match(hash, password string, refusal Work) bool {
	if utf8.RuneCountInString(password) > maximum || strings.ContainsRune(password, 0) {
		password, hash = "", ""
	}
	if strings.HasPrefix(hash, bcryptKind) && len(password) > 72 {
		hash = "" // bcrypt cuts at 72 bytes: a longer password never matches
	}
	kept := opaque(password)
	// Other systems hash the password as typed, and some use argon2id.
	if h.verify(hash, password) || kept != password && isOpaque(hash) && h.verify(hash, kept) {
		return true
	}
	done, _ := workOf(hash)
	for kind, amount := range refusal {
		if kind == done.kind {
			amount -= done.amount
		}
		h.spend(kind, amount)
		if kept != password && isOpaque(kind) {
			h.spend(kind, amount)
		}
	}
	return false
}

// isOpaque reports whether a hash may be of the opaque form of a password, as those of this program
// are.
func isOpaque(hash string) bool { return strings.HasPrefix(hash, "$argon2id$") }

// verify verifies all kinds of hashes.
func (h *Hasher) verify(hash, password string) bool {
	d, err := h.decoder.Decode(hash)
	if err != nil {
		return false
	}
	if h.verified != nil {
		h.verified(hash)
	}
	return d.Match(password)
}

// Outdated reports whether a hash should be replaced after a successful sign-in.
func (h *Hasher) Outdated(hash string) bool {
	return !strings.HasPrefix(hash, h.current)
}

// opaque returns the form of a password that is hashed: what looks the same becomes the same (RFC
// 8265 OpaqueString: NFC, other spaces become U+0020), and nothing is cut.
func opaque(password string) string {
	if p, err := precis.OpaqueString.String(password); err == nil {
		return p
	}
	return password
}

// Check reports whether a new password is acceptable for the handle:
// ErrWeak, wrapped with a sentence that says why.
func Check(password, handle string, minimum int) error {
	if minimum <= 0 {
		minimum = DefaultMinimum
	}
	p, err := precis.OpaqueString.String(password)
	if (err != nil && password != "") || !utf8.ValidString(password) {
		return ErrWeak.With(
			"The password contains characters that cannot be typed on every device (control or invisible characters).",
		)
	}
	low := strings.ToLower(p)
	switch n := utf8.RuneCountInString(p); {
	case n < minimum:
		return ErrWeak.With("The password needs at least {count} characters.", "count", minimum)
	case n > maximum:
		return ErrWeak.With("The password can have at most {count} characters.", "count", maximum)
	case containsHandle(low, strings.ToLower(handle)):
		return ErrWeak.With("The password must not contain the user name.")
	case isCommon(low):
		return ErrWeak.With("This password is too common. Choose one that nobody else uses.")
	}
	return nil
}

// containsHandle reports whether a password has the handle in it, with its dots or without.
func containsHandle(low, handle string) bool {
	plain := strings.ReplaceAll(handle, ".", "")
	return len(plain) >= minHandle && (strings.Contains(low, handle) || strings.Contains(low, plain))
}

// Generate returns a random password of at least 100 bits and minimum characters.
func Generate(minimum int) string {
	return (rand.Text() + rand.Text() + rand.Text())[:max(20, minimum)]
}

// commonPasswords is the list of zxcvbn, read when the first password is chosen. Its package
// frequency would read it and four more lists at every start, for 30 ms and 10 MB.
var commonPasswords = sync.OnceValue(func() map[string]bool {
	var file struct{ List []string }
	raw, err := data.Asset("data/Passwords.json")
	if err == nil {
		err = json.Unmarshal(raw, &file)
	}
	if err != nil || len(file.List) < 1000 {
		panic(fmt.Sprintf("the list of common passwords cannot be read: %v", err)) // it is compiled in
	}
	common := make(map[string]bool, len(file.List)+len(ourWords))
	for _, p := range file.List {
		common[strings.ToLower(p)] = true
	}
	for _, p := range ourWords {
		common[p] = true
	}
	return common
})

// ourWords are likely first guesses here that the list does not contain.
var ourWords = []string{"cairn", "activity", "administrator", "changeme", "letmein", "correcthorsebatterystaple"}

// isCommon reports whether a password, in lower case, is common, or a common one changed to satisfy
// a rule: with digits and marks around it, with digits for letters, or written twice. Keyboard runs
// and short repetitions count as common.
func isCommon(low string) bool {
	common := func(word string) bool {
		return word != "" && (commonPasswords()[word] || commonPasswords()[plainLetters.Replace(word)] || isRun(word))
	}
	if common(low) || common(withoutAffixes(low)) {
		return true
	}
	half := low[:len(low)/2]
	if common(half) && strings.HasPrefix(low, half) {
		rest := strings.TrimLeft(low[len(half):], " -_.")
		return rest == half || rest == strings.TrimRight(half, " -_.")
	}
	return false
}

const decoration = "0123456789!?.*#$-_+@%&= "

// withoutAffixes removes the digits and marks that people append without thinking from both ends of a
// password: up to four, a run of digits, or a year.
func withoutAffixes(low string) string {
	core := strings.TrimRight(low, decoration)
	if tail := low[len(core):]; !isAffix(tail) {
		return low
	}
	bare := strings.TrimLeft(core, decoration)
	if head := core[:len(core)-len(bare)]; !isAffix(head) {
		return core
	}
	return bare
}

func isAffix(s string) bool {
	if len(s) <= 4 {
		return true
	}
	digits := strings.Trim(s, "!?.*#$-_+@%&= ")
	isYear := len(digits) == 4 && (strings.HasPrefix(digits, "19") || strings.HasPrefix(digits, "20"))
	return len(s)-len(digits) <= 2 && (isYear || isRun(digits))
}

// plainLetters replaces the usual digits and marks by letters.
var plainLetters = strings.NewReplacer(
	"0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "7", "t", "@", "a", "$", "s", "!", "i")

// isRun reports whether a text is part of a keyboard run, or repeats a short unit.
func isRun(s string) bool {
	if len(s) >= 3 && strings.Contains(keyboardRuns, s) {
		return true
	}
	for unit := 1; unit <= 4 && 2*unit <= len(s) && len(s) < 20; unit++ {
		if strings.Repeat(s[:unit], len(s)/unit+1)[:len(s)] == s {
			return true
		}
	}
	return false
}

// keyboardRuns are separated by line breaks, which no password has.
const keyboardRuns = `01234567890123456789
98765432109876543210
1234567891011121314151617181920
abcdefghijklmnopqrstuvwxyz
zyxwvutsrqponmlkjihgfedcba
qwertyuiopasdfghjklzxcvbnm
qwertyuiop[]
asdfghjkl;'
1q2w3e4r5t6y7u8i9o0p
q1w2e3r4t5y6u7i8o9p0
1qaz2wsx3edc4rfv5tgb6yhn7ujm
1qazxsw23edcvfr45tgb
zaq12wsxcde34rfv
qazwsxedcrfvtgbyhnujmikolp
zaq1xsw2cde3vfr4
qwerasdfzxcv
qweasdzxc
1a2b3c4d5e6f7g8h9i0j
a1b2c3d4e5f6g7h8i9j0
1234qwerasdfzxcv
`
