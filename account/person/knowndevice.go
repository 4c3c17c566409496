package person

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
)

// The cookie of known devices has a mark for each user who recently signed in there. It proves
// nothing and opens nothing: without it, the user is notified of the sign-in by mail, and the failures
// of others limit it (see Service.signInLimits). A mark has the time at which it was made, so that what
// voids marks leaves later ones.
const (
	maxDeviceUsers = 10
	DeviceLifetime = 400 * 24 * time.Hour // browsers keep none longer
	markMAC        = 20                   // characters
	markTime       = 7                    // characters: seconds in base 36
	markLength     = markTime + markMAC
)

// ReadMarks returns the marks in the value of the cookie. Marks of the version before have no time.
func ReadMarks(value string) []string {
	marks := strings.Split(text.Cut(value, (markLength+1)*maxDeviceUsers), ".")
	return slices.DeleteFunc(marks, func(m string) bool {
		return len(m) != markLength && len(m) != markMAC || strings.Trim(m, web.Base64URL) != ""
	})
}

// markMade returns when a mark of the user was made; ok is false if it is not one of theirs. A mark of
// the version before is as old as can be.
func (s *Service) markMade(mark string, u account.User) (made time.Time, ok bool) {
	if len(mark) == markMAC {
		return made, hmac.Equal([]byte(mark), []byte(s.markCode(u.Sub)))
	}
	return s.stamped(mark, u.Sub)
}

// stamp returns a value that says of what it was made, and when.
func (s *Service) stamp(of string, made time.Time) string {
	at := strconv.FormatInt(made.Unix(), 36)
	at = strings.Repeat("0", max(0, markTime-len(at))) + at
	return at + s.markCode(of+" at "+at)
}

// stamped returns when a stamp of this was made; ok is false if it is not one.
func (s *Service) stamped(stamp, of string) (made time.Time, ok bool) {
	if len(stamp) != markLength {
		return made, false
	}
	at := stamp[:markTime]
	seconds, err := strconv.ParseInt(at, 36, 64)
	return time.Unix(seconds, 0), err == nil && hmac.Equal([]byte(stamp[markTime:]), []byte(s.markCode(of+" at "+at)))
}

func (s *Service) markCode(of string) string {
	m := hmac.New(sha256.New, s.deviceKey)
	m.Write([]byte(of))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))[:markMAC]
}

// markIn returns the mark of a user that a browser has and that was not voided, or "".
func (s *Service) markIn(b account.Browser, u account.User) string {
	latest := s.Now() // of a clock that was ahead, a later one is not known
	if u.DevicesVoidedAt.After(latest) {
		latest = u.DevicesVoidedAt
	}
	latest = latest.Add(time.Minute)
	i := slices.IndexFunc(b.Marks, func(m string) bool {
		made, ok := s.markMade(m, u)
		return ok && (u.DevicesVoidedAt.IsZero() || made.After(u.DevicesVoidedAt)) && !made.After(latest)
	})
	if i < 0 {
		return ""
	}
	return b.Marks[i]
}

// knownMarks returns the marks of a browser without that of a user who, or whose administrator, ended the last session
// there: the browser may be a thief's.
func (s *Service) knownMarks(ctx context.Context, b account.Browser, u account.User) ([]string, error) {
	made, ok := s.markMade(s.markIn(b, u), u)
	if !ok || made.IsZero() {
		return b.Marks, nil
	}
	disowned, err := s.Store().DisownedMark(ctx, u.Sub, made)
	if disowned {
		return s.withoutMark(b.Marks, u), nil
	}
	return b.Marks, err
}

// withMark returns the marks of a browser with one of a user, the latest first. One that counts stays: see Surplus.
func (s *Service) withMark(marks []string, u account.User) []string {
	mark := s.markIn(account.Browser{Marks: marks}, u)
	marks = s.withoutMark(marks, u)
	made := s.Now()
	if !made.After(u.DevicesVoidedAt) { // in the same second
		made = u.DevicesVoidedAt.Add(time.Second)
	}
	if len(mark) != markLength {
		mark = s.stamp(u.Sub, made)
	}
	return append([]string{mark}, marks[:min(len(marks), maxDeviceUsers-1)]...)
}

// withoutMark returns the marks of a browser that are not of a user, never nil.
func (s *Service) withoutMark(marks []string, u account.User) []string {
	left := []string{}
	for _, m := range marks {
		if _, own := s.markMade(m, u); !own {
			left = append(left, m)
		}
	}
	return left
}

// newDeviceNotices returns the mails that notify the user of a sign-in in a browser without their
// mark. There are none where the way in was chosen just now. p has the user before the sign-in.
func (s *Service) newDeviceNotices(
	ctx context.Context, c account.Caller, p Proven, n *account.Session,
) ([]account.Mail, error) {
	if p.first || s.markIn(c.Browser, p.user) != "" {
		return nil, nil
	}
	return s.boundedNotices(ctx, p.user, account.MailNewDevice,
		"device", c.Device, "address", n.Address, "session", n.ID)
}
