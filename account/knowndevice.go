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

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
)

// The cookie of known devices has a mark for each user who recently signed in there. It proves
// nothing and opens nothing: without it, the user is notified of the sign-in by mail.
const (
	maxDeviceUsers = 10
	DeviceLifetime = 400 * 24 * time.Hour // browsers keep none longer
	deviceMark     = 20                   // characters
)

// ReadMarks returns the marks in the value of the cookie.
func ReadMarks(value string) []string {
	marks := strings.Split(text.Cut(value, (deviceMark+1)*maxDeviceUsers), ".")
	return slices.DeleteFunc(marks, func(m string) bool {
		return len(m) != deviceMark || strings.Trim(m, web.Base64URL) != ""
	})
}

// markOf returns the mark of a user, which nobody else can make. A sign-in that was not the user's
// voids earlier marks.
func (s *Service) markOf(u User) string {
	m := hmac.New(sha256.New, s.deviceKey)
	m.Write([]byte(u.Sub))
	if !u.DevicesVoidedAt.IsZero() {
		_, _ = fmt.Fprintf(m, " %d", u.DevicesVoidedAt.Unix())
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))[:deviceMark]
}

// withMark returns the marks of a browser with that of a user, the latest first.
func (s *Service) withMark(marks []string, u User) []string {
	mark := s.markOf(u)
	marks = slices.DeleteFunc(slices.Clone(marks), func(m string) bool { return m == mark })
	return append([]string{mark}, marks[:min(len(marks), maxDeviceUsers-1)]...)
}

// newDeviceNotices returns the mails that notify the user of a sign-in in a browser without their
// mark. There are none for the very first sign-in. u is the user before the sign-in.
func (s *Service) newDeviceNotices(ctx context.Context, c Caller, u User, n *Session) ([]Mail, error) {
	known := slices.ContainsFunc(c.Browser.Marks,
		func(m string) bool { return hmac.Equal([]byte(m), []byte(s.markOf(u))) })
	if known || u.LastLoginAt.IsZero() {
		return nil, nil
	}
	return s.boundedNotices(ctx, u, MailNewDevice, "device", c.Device, "address", n.Address, "session", n.ID)
}
