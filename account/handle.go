package account

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account/text"
	"golang.org/x/text/secure/precis"
	"golang.org/x/text/unicode/norm"
)

// handleForm has a letter or digit on each side of a dot. Runs of - and _ are in handles from before
// there were dots.
var handleForm = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|[_-]+)[a-z0-9]+)*$`)

const MaxHandle = 30

// CanonicalHandle returns the stored form of a typed handle (RFC 8265 UsernameCaseMapped, then the
// ASCII rule). ErrInvalidHandle.
func CanonicalHandle(typed string) (string, error) {
	if len(typed) > 256 || !utf8.ValidString(typed) {
		return "", ErrInvalidHandle
	}
	mapped, err := precis.UsernameCaseMapped.String(strings.TrimSpace(typed))
	if err != nil || len(mapped) > MaxHandle || !handleForm.MatchString(mapped) {
		return "", ErrInvalidHandle
	}
	return mapped, nil
}

// HandleKey returns what identifies the account of a canonical handle: a.b and ab are one name.
func HandleKey(handle string) string { return strings.ReplaceAll(handle, ".", "") }

// AccountKey folds a typed handle or address, so that another spelling that finds the account does not give further
// attempts.
func AccountKey(typed string) string {
	if h, err := CanonicalHandle(typed); err == nil {
		return HandleKey(h)
	}
	if email, err := CheckEmail(typed); err == nil {
		typed = email
	}
	return strings.ToLower(text.Cut(strings.TrimSpace(typed), 64))
}

// ReservedHandles could be mistaken for the service itself in a URL or a message.
var ReservedHandles = []string{
	"admin", "administrator", "root", "system", "operator", "support", "security", "api", "oauth2", "login", "logout",
	"register", "account", "me", "cairn",
}

// HandleOf returns the handle that suits a name, "" if it has none of the letters a-z.
func HandleOf(name string) string {
	name = Latin.Replace(norm.NFC.String(strings.ToLower(name)))
	words := strings.FieldsFunc(norm.NFD.String(name), func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.N, unicode.M)
	})
	for i, word := range words {
		words[i] = strings.Map(func(r rune) rune {
			if r < utf8.RuneSelf {
				return r
			}
			return -1
		}, word)
	}
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	handle := strings.Join(words, "-")
	return strings.TrimRight(handle[:min(len(handle), MaxHandle)], "-")
}

// Latin replaces small letters that do not decompose into a-z, and in composed text German umlauts.
var Latin = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ß", "ss", "æ", "ae", "ø", "o", "œ", "oe",
	"ł", "l", "đ", "d", "ð", "d", "þ", "th", "ı", "i")
