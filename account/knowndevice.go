package account

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"
)

// The cookie of known devices has a mark for each user who has signed in there lately.
// It proves nothing and opens nothing: without it a sign-in is told by mail.
const (
	maxDeviceUsers = 10
	deviceLifetime = 400 * 24 * time.Hour // browsers keep none longer
	deviceMark     = 20                   // characters
)

func (s *Service) deviceCookie() string {
	if s.https {
		return "__Host-cairn_device"
	}
	return "cairn_device"
}

// markOf is the mark of a user, which nobody else can make.
func (s *Service) markOf(sub string) string {
	m := hmac.New(sha256.New, s.deviceKey)
	m.Write([]byte(sub))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))[:deviceMark]
}

// deviceMarks are the marks that the browser has.
func (s *Service) deviceMarks(r *http.Request) []string {
	c, err := r.Cookie(s.deviceCookie())
	if err != nil {
		return nil
	}
	marks := strings.Split(cut(c.Value, (deviceMark+1)*maxDeviceUsers), ".")
	return slices.DeleteFunc(marks, func(m string) bool {
		return len(m) != deviceMark || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != ""
	})
}

// rememberDevice marks the browser as one that the user signs in with, where sign-ins are
// told by mail.
func (s *Service) rememberDevice(w http.ResponseWriter, r *http.Request, sub string) {
	if !s.MailEnabled() {
		return
	}
	mark := s.markOf(sub)
	marks := slices.DeleteFunc(s.deviceMarks(r), func(m string) bool { return m == mark })
	marks = append([]string{mark}, marks[:min(len(marks), maxDeviceUsers-1)]...)
	http.SetCookie(w, &http.Cookie{
		Name: s.deviceCookie(), Value: strings.Join(marks, "."), Path: "/", MaxAge: int(deviceLifetime.Seconds()),
		HttpOnly: true, Secure: s.https, SameSite: http.SameSiteLaxMode,
	})
}

// newDeviceNotices tell the user of a sign-in by a browser that has no mark of theirs. The
// first sign-in of all is told to nobody. u is as it was before the sign-in.
func (s *Service) newDeviceNotices(ctx context.Context, r *http.Request, u User, n *Session) []Mail {
	if u.LastLoginAt.IsZero() {
		return nil
	}
	mark := s.markOf(u.Sub)
	for _, m := range s.deviceMarks(r) {
		if hmac.Equal([]byte(m), []byte(mark)) {
			return nil
		}
	}
	return s.boundedNotices(ctx, u, MailNewDevice, "device", Device(n.UserAgent), "address", n.Address, "session", n.ID)
}
