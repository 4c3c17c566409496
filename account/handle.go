package account

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/secure/precis"
)

var handleForm = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9_-]{0,28}[a-z0-9])?$`)

// CanonicalHandle returns the stored form of a typed handle (RFC 8265 UsernameCaseMapped, then the
// ASCII rule). ErrInvalidHandle.
func CanonicalHandle(typed string) (string, error) {
	if len(typed) > 256 || !utf8.ValidString(typed) {
		return "", ErrInvalidHandle
	}
	mapped, err := precis.UsernameCaseMapped.String(strings.TrimSpace(typed))
	if err != nil || !handleForm.MatchString(mapped) {
		return "", ErrInvalidHandle
	}
	return mapped, nil
}

// withoutAt removes the @ of a handle that was typed as pages show it. New handles are not changed
// by it.
func withoutAt(typed string) string { return strings.TrimPrefix(strings.TrimSpace(typed), "@") }

// reservedHandles could be mistaken for the service itself in a URL or a message.
var reservedHandles = []string{
	"admin", "administrator", "root", "system", "operator", "support", "security", "api", "oauth2", "login", "logout",
	"register", "account", "me", "cairn",
}
