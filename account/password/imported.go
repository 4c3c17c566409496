package password

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
)

// What verifying a hash of another system may cost: about a second of a core, and 128 MiB
// for each core. A hash beyond it would hold the queue of sign-ins up.
const (
	maxBcryptCost       = 14
	maxHashMemory       = 128 << 10 // KiB
	maxArgonWork        = 1 << 20   // KiB times passes
	maxArgonParallelism = 64
	maxPBKDF2Iterations = 2_000_000
	maxScryptWork       = 1 << 20 // N*r*p
)

// A short key matches too many passwords; a long salt or key is not what any of the forms has.
const (
	minHashKey  = 16
	maxHashKey  = 64
	maxHashSalt = 128
)

var (
	errHashForm = errors.New("password_hash: not a form that is known: bcrypt, argon2, pbkdf2 or scrypt, as the PHC format, Django or Werkzeug write it")
	errHashCost = errors.New("password_hash: verifying it would hold the sign-ins of others up: its parameters are too large; leave the hash out and give the user a reset code")
)

var (
	bcryptForm = regexp.MustCompile(`^\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}$`)
	argonForm  = regexp.MustCompile(`^\$(argon2(?:id|i|d))\$v=19\$m=([0-9]{1,9}),t=([0-9]{1,9}),p=([0-9]{1,9})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$`)
	// With . for + in base64, as passlib writes it.
	pbkdf2Form = regexp.MustCompile(`^\$pbkdf2(?:-(sha1|sha224|sha256|sha384|sha512))?\$([0-9]{1,9})\$([A-Za-z0-9./]+)\$([A-Za-z0-9./]+)$`)
	scryptForm = regexp.MustCompile(`^\$scrypt\$ln=([0-9]{1,9}),r=([0-9]{1,9}),p=([0-9]{1,9})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$`)
)

// foreignForms are those that are rewritten; decode reads the key.
var foreignForms = []struct {
	form   *regexp.Regexp
	decode func(string) ([]byte, error)
}{
	{regexp.MustCompile(`^pbkdf2_(?P<digest>sha1|sha256)\$(?P<n>[0-9]{1,9})\$(?P<salt>[^$]+)\$(?P<key>[A-Za-z0-9+/]+=*)$`), base64.StdEncoding.DecodeString}, // Django
	{regexp.MustCompile(`^scrypt\$(?P<n>[0-9]{1,9})\$(?P<salt>[^$]+)\$(?P<r>[0-9]{1,9})\$(?P<p>[0-9]{1,9})\$(?P<key>[A-Za-z0-9+/]+=*)$`), base64.StdEncoding.DecodeString},
	{regexp.MustCompile(`^pbkdf2:(?P<digest>sha1|sha224|sha256|sha384|sha512):(?P<n>[0-9]{1,9})\$(?P<salt>[^$]+)\$(?P<key>[0-9a-f]+)$`), hex.DecodeString}, // Werkzeug
	{regexp.MustCompile(`^scrypt:(?P<n>[0-9]{1,9}):(?P<r>[0-9]{1,9}):(?P<p>[0-9]{1,9})\$(?P<salt>[^$]+)\$(?P<key>[0-9a-f]+)$`), hex.DecodeString},
}

// Imported is the stored form of a password hash of another system: a PHC string, or
// bcrypt's own form. It refuses what cannot be verified here, and what would take too long.
// No error repeats the hash.
func (h *Hasher) Imported(foreign string) (string, error) {
	hash, err := phcOf(foreign)
	if err != nil {
		return "", err
	}
	if err := checkHashCost(hash); err != nil {
		return "", err
	}
	if _, err := h.decoder.Decode(hash); err != nil {
		return "", errHashForm // its text may repeat parts of the hash
	}
	return hash, nil
}

// phcOf rewrites the forms of Django and Werkzeug; what is none of them stays.
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
		ending := "$" + base64.RawStdEncoding.EncodeToString([]byte(of("salt"))) + "$" + base64.RawStdEncoding.EncodeToString(key)
		if digest := of("digest"); digest != "" {
			return "$pbkdf2-" + digest + "$" + of("n") + strings.ReplaceAll(ending, "+", "."), nil
		}
		n, _ := strconv.Atoi(of("n")) // at most nine digits
		if n < 2 || n&(n-1) != 0 {
			return "", errHashForm
		}
		return fmt.Sprintf("$scrypt$ln=%d,r=%s,p=%s%s", bits.TrailingZeros(uint(n)), of("r"), of("p"), ending), nil
	}
	// Django writes the name of its hasher before these forms. What follows bcrypt_sha256$ is
	// another hash, of the SHA-256 of the password.
	if rest, ok := strings.CutPrefix(foreign, "bcrypt$$2"); ok {
		return "$2" + rest, nil
	}
	if rest, ok := strings.CutPrefix(foreign, "argon2$argon2"); ok {
		return "$argon2" + rest, nil
	}
	return foreign, nil
}

// checkHashCost goes by the parameters.
func checkHashCost(hash string) error {
	number := func(s string) int {
		n, _ := strconv.Atoi(s) // at most nine digits
		return n
	}
	var cheap bool
	var salt, key string
	if m := bcryptForm.FindStringSubmatch(hash); m != nil {
		if cost := number(m[1]); cost < 4 || cost > 31 {
			return errHashForm
		} else if cost > maxBcryptCost {
			return errHashCost
		}
		return nil
	} else if m := argonForm.FindStringSubmatch(hash); m != nil {
		memory, passes, lanes := number(m[2]), number(m[3]), number(m[4])
		if memory < 8*lanes || passes < 1 || lanes < 1 {
			return errHashForm
		}
		cheap, salt, key = memory <= maxHashMemory && memory*passes <= maxArgonWork && lanes <= maxArgonParallelism, m[5], m[6]
	} else if m := pbkdf2Form.FindStringSubmatch(hash); m != nil {
		iterations := number(m[2])
		if iterations < 1 {
			return errHashForm
		}
		cheap, salt, key = iterations <= maxPBKDF2Iterations, m[3], m[4]
	} else if m := scryptForm.FindStringSubmatch(hash); m != nil {
		ln, r, p := number(m[1]), number(m[2]), number(m[3])
		if ln < 1 || r < 1 || p < 1 {
			return errHashForm
		}
		cheap = ln <= 20 && r <= 1<<20 && p <= 1<<20 && r<<ln <= maxHashMemory<<10/128 && (r<<ln)*p <= maxScryptWork
		salt, key = m[4], m[5]
	} else {
		return errHashForm
	}
	length := base64.RawStdEncoding.DecodedLen
	switch {
	case length(len(key)) < minHashKey || length(len(key)) > maxHashKey || length(len(salt)) > maxHashSalt:
		return errHashForm
	case !cheap:
		return errHashCost
	}
	return nil
}
