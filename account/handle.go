package account

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/secure/precis"
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

// withoutAt removes the @ of a handle that was typed as pages show it. New handles are not changed
// by it.
func withoutAt(typed string) string { return strings.TrimPrefix(strings.TrimSpace(typed), "@") }

// ReservedHandles could be mistaken for the service itself in a URL or a message.
var ReservedHandles = []string{
	"admin", "administrator", "root", "system", "operator", "support", "security", "api", "oauth2", "login", "logout",
	"register", "account", "me", "cairn",
}
