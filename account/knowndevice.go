package account

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The cookie of known devices has a mark for each user who has recently signed in there.
// It proves nothing and opens nothing: without it a sign-in is told by mail.
const (
	maxDeviceUsers = 10
	deviceLifetime = 400 * 24 * time.Hour // browsers keep none longer
	deviceMark     = 20                   // characters
)

// markOf is the mark of a user, which nobody else can make. A sign-in that was somebody else's voids those
// before.
func (s *Service) markOf(u User) string {
	m := hmac.New(sha256.New, s.deviceKey)
	m.Write([]byte(u.Sub))
	if !u.DevicesVoidedAt.IsZero() {
		_, _ = fmt.Fprintf(m, " %d", u.DevicesVoidedAt.Unix())
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))[:deviceMark]
}

// readMarks are the marks in the value of the cookie.
func readMarks(value string) []string {
	marks := strings.Split(cut(value, (deviceMark+1)*maxDeviceUsers), ".")
	return slices.DeleteFunc(marks, func(m string) bool {
		return len(m) != deviceMark || strings.Trim(m, base64urlAlphabet) != ""
	})
}

const base64urlAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// withMark are the marks of a browser with that of a user, the latest first.
func (s *Service) withMark(marks []string, u User) []string {
	mark := s.markOf(u)
	marks = slices.DeleteFunc(slices.Clone(marks), func(m string) bool { return m == mark })
	return append([]string{mark}, marks[:min(len(marks), maxDeviceUsers-1)]...)
}

// newDeviceNotices tell the user of a sign-in by a browser that has no mark of theirs. The
// very first sign-in is told to nobody. u is as it was before the sign-in.
func (s *Service) newDeviceNotices(ctx context.Context, c Caller, u User, n *Session) ([]Mail, error) {
	known := slices.ContainsFunc(c.browser.marks, func(m string) bool { return hmac.Equal([]byte(m), []byte(s.markOf(u))) })
	if known || u.LastLoginAt.IsZero() {
		return nil, nil
	}
	return s.boundedNotices(ctx, u, MailNewDevice, "device", Device(n.UserAgent), "address", n.Address, "session", n.ID)
}
