package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// StatusChecker tells whether a session was taken back. RemoteStatusList is one.
type StatusChecker interface {
	// Revoked reports whether the status at ref is another one than valid. It returns
	// ErrInvalid for a reference that leads nowhere, and any other error, best
	// ErrStatusUnavailable, if that cannot be said now. It must be safe for many goroutines
	// and return soon after ctx ends. ref comes from a token whose signature is good.
	Revoked(ctx context.Context, ref StatusRef) (bool, error)
}

// notRevoked holds a token's claims against the status list.
func (v *Verifier) notRevoked(ctx context.Context, c Claims) error {
	if v.Status == nil {
		return nil
	}
	if c.Status == nil {
		return invalid("no reference into a status list")
	}
	revoked, err := v.Status.Revoked(ctx, *c.Status)
	switch {
	case revoked && err == nil:
		return ErrRevoked
	case err == nil, errors.Is(err, ErrInvalid), errors.Is(err, ErrStatusUnavailable):
		return err
	}
	return fmt.Errorf("%w: %w", ErrStatusUnavailable, err)
}

// statusPath is where Cairn has its lists, below the issuer: a number from 1 follows.
const statusPath = "/oauth2/status/"

// isListURI tells whether uri is that of a list below prefix, in its only spelling.
// Nothing else is ever fetched: a token must not choose what address is asked.
func isListURI(prefix, uri string) bool {
	number, ok := strings.CutPrefix(uri, prefix)
	if !ok || number == "" || number[0] < '1' || number[0] > '9' {
		return false
	}
	_, err := strconv.ParseInt(number, 10, 32)
	return err == nil
}
