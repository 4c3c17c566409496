package password

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
)

// Limits of the cost of verifying a hash of another system: less than half a second of a core, and
// 128 MiB. Each refusal costs as much (RefusalWork), and a more expensive hash would block the
// queue of sign-ins. argon2id is verified twice if the opaque form of a password differs.
const (
	maxBcryptCost       = 12
	maxHashMemory       = 128 << 10 // KiB
	maxArgonWork        = 200 << 10 // KiB times passes
	maxArgonParallelism = 64
	maxPBKDF2Work       = 1_500_000 // iterations for each part of the key that one digest fills
	maxScryptWork       = 1 << 20   // N*r*p
)

// A short key matches too many passwords. No known form has a long salt or key.
const (
	minHashKey  = 16
	maxHashKey  = 64
	maxHashSalt = 128
)

var (
	errHashForm = errors.New("password_hash: not a form that is known: bcrypt, argon2, pbkdf2 or scrypt, as the PHC " +
		"format, Django or Werkzeug write it")
	errHashCost = errors.New("password_hash: verifying it would hold the sign-ins of others up: its parameters are " +
		"too large; leave the hash out and give the user a reset code")
)

// form compiles the pattern of a whole hash, in which $ is itself and words in capitals are its parts.
func form(pattern string) *regexp.Regexp {
	parts := strings.NewReplacer("$", `\$`,
		"NUMBER", "[0-9]{1,9}", "BASE64", "[A-Za-z0-9+/]+", "SALT", "(?<salt>[^$]+)")
	return regexp.MustCompile("^" + parts.Replace(pattern) + "$")
}

var (
	bcryptForm = form(`$2[aby]$([0-9]{2})$[./A-Za-z0-9]{53}`)
	argonForm  = form(`$(argon2(?:id|i|d))$v=19$m=(NUMBER),t=(NUMBER),p=(NUMBER)$(BASE64)$(BASE64)`)
	// Base64 with . for +, as passlib writes it.
	pbkdf2Form = form(`$pbkdf2(?:-(sha1|sha224|sha256|sha384|sha512))?$(NUMBER)$([A-Za-z0-9./]+)$([A-Za-z0-9./]+)`)
	scryptForm = form(`$scrypt$ln=(NUMBER),r=(NUMBER),p=(NUMBER)$(BASE64)$(BASE64)`)
)

// foreignForms are the forms that are rewritten; decode decodes the key.
var foreignForms = []struct {
	form   *regexp.Regexp
	decode func(string) ([]byte, error)
}{
	// Django.
	{form(`pbkdf2_(?<digest>sha1|sha256)$(?<n>NUMBER)$SALT$(?<key>BASE64=*)`), base64.StdEncoding.DecodeString},
	{form(`scrypt$(?<n>NUMBER)$SALT$(?<r>NUMBER)$(?<p>NUMBER)$(?<key>BASE64=*)`), base64.StdEncoding.DecodeString},
	// Werkzeug.
	{form(`pbkdf2:(?<digest>sha1|sha224|sha256|sha384|sha512):(?<n>NUMBER)$SALT$(?<key>[0-9a-f]+)`), hex.DecodeString},
	{form(`scrypt:(?<n>NUMBER):(?<r>NUMBER):(?<p>NUMBER)$SALT$(?<key>[0-9a-f]+)`), hex.DecodeString},
}

// Imported returns the stored form of a password hash of another system: a PHC string, or bcrypt's
// own form. It refuses hashes that cannot be verified or would take too long. No error repeats the
// hash.
func (h *Hasher) Imported(foreign string) (string, error) {
	hash, err := phcOf(foreign)
	if err != nil {
		return "", err
	}
	w, err := workOf(hash)
	switch {
	case err != nil:
		return "", err
	case w.part > 1:
		return "", errHashCost
	}
	if _, err := h.decoder.Decode(hash); err != nil {
		return "", errHashForm // its text may repeat parts of the hash
	}
	return hash, nil
}

// phcOf rewrites the forms of Django and Werkzeug and returns others unchanged.
func phcOf(foreign string) (string, error) {
	for _, f := range foreignForms {
		m := f.form.FindStringSubmatch(foreign)
		if m == nil {
			continue
		}
		of := func(name string) string {
			if i := f.form.SubexpIndex(name); i > 0 {
				return m[i]
			}
			return ""
		}
		key, err := f.decode(of("key"))
		if err != nil {
			return "", errHashForm
		}
		encode := base64.RawStdEncoding.EncodeToString
		ending := "$" + encode([]byte(of("salt"))) + "$" + encode(key)
		if digest := of("digest"); digest != "" {
			return "$pbkdf2-" + digest + "$" + of("n") + strings.ReplaceAll(ending, "+", "."), nil
		}
		n, _ := strconv.Atoi(of("n")) // at most nine digits
		if n < 2 || n&(n-1) != 0 {
			return "", errHashForm
		}
		return fmt.Sprintf("$scrypt$ln=%d,r=%s,p=%s%s", bits.TrailingZeros(uint(n)), of("r"), of("p"), ending), nil
	}
	// Django puts the name of its hasher before these forms. What follows bcrypt_sha256$ is the
	// bcrypt hash of the SHA-256 of the password.
	if rest, ok := strings.CutPrefix(foreign, "bcrypt$$2"); ok {
		return "$2" + rest, nil
	}
	if rest, ok := strings.CutPrefix(foreign, "argon2$argon2"); ok {
		return "$argon2" + rest, nil
	}
	return foreign, nil
}

// work is the cost of verifying a hash, by its parameters.
type work struct {
	kind       string // amounts of work of one kind add up
	amount     int
	part       float64 // of what a hash may cost
	parameters string  // the hash without its salt and key
}

const (
	bcryptKind = "$2"
	pbkdf2Kind = "$pbkdf2-"
)

// digestSizes are the sizes of the digests of PBKDF2, which makes a longer key of several.
var digestSizes = map[string]int{"sha1": 20, "sha224": 28, "sha256": 32, "sha384": 48, "sha512": 64}

// workOf returns the work of a hash and refuses unknown forms.
func workOf(hash string) (w work, err error) {
	number := func(s string) int {
		n, _ := strconv.Atoi(s) // at most nine digits
		return n
	}
	part := func(n, most int) float64 { return float64(n) / float64(most) }
	length := base64.RawStdEncoding.DecodedLen
	var salt, key string
	if m := bcryptForm.FindStringSubmatch(hash); m != nil {
		cost := number(m[1])
		if cost < 4 || cost > 31 {
			return w, errHashForm
		}
		return work{bcryptKind, 1 << cost, part(1<<cost, 1<<maxBcryptCost), hash[:len("$2b$12$")]}, nil
	} else if m := argonForm.FindStringSubmatch(hash); m != nil {
		memory, passes, lanes := number(m[2]), number(m[3]), number(m[4])
		if memory < 8*lanes || passes < 1 || lanes < 1 {
			return w, errHashForm
		}
		salt, key = m[5], m[6]
		w = work{amount: 1, part: max(
			part(memory, maxHashMemory), part(memory*passes, maxArgonWork), part(lanes, maxArgonParallelism),
		)}
	} else if m := pbkdf2Form.FindStringSubmatch(hash); m != nil {
		digest, iterations := cmp.Or(m[1], "sha1"), number(m[2])
		if iterations < 1 {
			return w, errHashForm
		}
		salt, key = m[3], m[4]
		w = work{kind: pbkdf2Kind + digest, amount: iterations * ((length(len(key))-1)/digestSizes[digest] + 1)}
		if w.part = part(w.amount, maxPBKDF2Work); digestSizes[digest] > 32 {
			w.part *= 3 // processors compute the shorter ones in hardware
		}
	} else if m := scryptForm.FindStringSubmatch(hash); m != nil {
		ln, r, p := number(m[1]), number(m[2]), number(m[3])
		if ln < 1 || r < 1 || p < 1 {
			return w, errHashForm
		}
		salt, key = m[4], m[5]
		memory := math.Ldexp(float64(r), ln) // 128 bytes each
		w = work{amount: 1, part: max(memory/(maxHashMemory<<10/128), memory*float64(p)/maxScryptWork)}
	} else {
		return w, errHashForm
	}
	if length(len(key)) < minHashKey || length(len(key)) > maxHashKey || length(len(salt)) > maxHashSalt {
		return w, errHashForm
	}
	w.parameters = strings.TrimSuffix(hash, salt+"$"+key)
	w.kind = cmp.Or(w.kind, w.parameters)
	return w, nil
}

// Work is an amount of work by kind.
type Work map[string]int

// Limits of RefusalWork: the number of parameters of hashes, and their cost, in units of an
// accepted hash.
const (
	maxRefusalForms = 200
	maxRefusalParts = 2
)

// RefusalWork returns the work of each refusal: that of a hash of this program, and that of the
// most expensive hash of each other kind in the installation, so that the time does not reveal who
// has which. next returns the smallest hash that sorts after a text and is not this program's, or
// "".
func (h *Hasher) RefusalWork(next func(after string) (string, error)) (Work, error) {
	all, parts := Work{h.current: 1}, map[string]float64{}
	total, after := 0.0, ""
	for range maxRefusalForms {
		hash, err := next(after)
		if err != nil || hash == "" {
			return all, err
		}
		after = hash
		w, err := workOf(hash)
		if err != nil {
			continue
		}
		if w.amount > all[w.kind] && total-parts[w.kind]+w.part <= maxRefusalParts {
			total += w.part - parts[w.kind]
			all[w.kind], parts[w.kind] = w.amount, w.part
		}
		after = w.parameters + "~" // after all that differ in salt and key alone
	}
	return all, nil
}

// spend does work of a kind.
func (h *Hasher) spend(kind string, amount int) {
	ending := func(key int) string {
		return strings.Repeat("A", 22) + "$" + strings.Repeat("A", base64.RawStdEncoding.EncodedLen(key))
	}
	const nobodys = "nobody's password"
	switch digest, isPBKDF2 := strings.CutPrefix(kind, pbkdf2Kind); {
	case amount < 1:
	case isPBKDF2:
		h.verify(fmt.Sprintf("%s$%d$%s", kind, amount, ending(digestSizes[digest])), nobodys)
	case kind == bcryptKind: // a sum of powers of two, each a hash
		for cost := bits.Len(uint(amount)) - 1; cost >= 4; cost-- {
			if amount&(1<<cost) != 0 {
				h.verify(fmt.Sprintf("$2b$%02d$%s", cost, strings.Repeat(".", 53)), nobodys)
			}
		}
	default:
		h.verify(kind+ending(32), nobodys)
	}
}
