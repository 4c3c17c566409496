package session

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// statusPath is where Cairn has its lists, below the issuer.
const statusPath = "/oauth2/status/"

// listNumber returns the number of the list at uri if it is one of this issuer's, in
// its only spelling. Nothing else is ever fetched: a token must not choose what
// address is asked.
func listNumber(issuer, uri string) (int, bool) {
	digits, ok := strings.CutPrefix(uri, issuer+statusPath)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 1 || n > math.MaxInt32 || strconv.FormatInt(n, 10) != digits {
		return 0, false
	}
	return int(n), true
}
