package account

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/templates"
)

// EndNotices are the days before an end on which the user is told, the earliest first.
var EndNotices = []int{14, 1}

// EndNotice returns how long before an end the notice of so many days comes.
func EndNotice(days int) time.Duration { return time.Duration(days) * 24 * time.Hour }

// EndTold returns which of EndNotices is past for an end that is set now: nobody is told twice of what
// they have just been told. 0: none.
func EndTold(ends, now time.Time) (days int) {
	for _, d := range EndNotices {
		if !ends.IsZero() && ends.Sub(now) <= EndNotice(d) {
			days = d
		}
	}
	return days
}

// ComingEnd is what ends of a user at a time: the account, or flags.
type ComingEnd struct {
	User    User
	At      time.Time
	Account bool
	Flags   []string
	Days    int // of EndNotices: the notice that is due
}

// ByItself returns the audit row of what happens without anybody's act.
func ByItself(at time.Time, act Act, target, detail string) Audit {
	return Audit{At: at, Action: act.Action, Ends: act.Ends, Target: target, Detail: detail}
}

// FlagChange is what becomes of the named flags of a user. The others stay.
type FlagChange map[string]FlagState

// FlagState is a flag that is on or off. With SetEnd, only where it is on, it is on until EndsAt, zero: without an end;
// otherwise a flag that was on keeps its end.
type FlagState struct {
	On     bool
	SetEnd bool
	EndsAt time.Time
}

// Alters reports whether a user is not yet as the change makes them.
func (c FlagChange) Alters(u User) bool {
	for name, f := range c {
		if f.On != u.Has(name) || f.SetEnd && !f.EndsAt.Equal(u.FlagEnds[name]) {
			return true
		}
	}
	return false
}

// Check returns ErrEndPast if a flag would end in the past.
func (c FlagChange) Check(now time.Time) error {
	for _, f := range c {
		if err := CheckEnd(f.EndsAt, now); err != nil {
			return err
		}
	}
	return nil
}

func CheckEnd(ends, now time.Time) error {
	if !ends.IsZero() && !ends.After(now) {
		return ErrEndPast
	}
	return nil
}

// ParseEnd reads when something ends: a date, whose day in a time zone is the last one, or a time as
// RFC 3339 has it. Empty text is the zero time. ErrInvalidEnd.
func ParseEnd(typed string, zone *time.Location) (time.Time, error) {
	typed = strings.TrimSpace(typed)
	if typed == "" {
		return time.Time{}, nil
	}
	// Not in the zone, where the day may begin after midnight; the year is one that JSON can have in all zones.
	if day, err := time.Parse(time.DateOnly, typed); err == nil && day.Year() >= 1970 && day.Year() < 9999 {
		ends := time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, zone)
		if ends.Day() == day.Day() { // the clock skips midnight
			_, ends = ends.ZoneBounds()
		}
		return ends.UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339, typed); err == nil && t.Year() >= 1970 && t.Year() < 9999 {
		return t.UTC().Truncate(time.Second), nil
	}
	return time.Time{}, ErrInvalidEnd
}

// ParseFlags reads flags of which some have an end: coach@2030-12-24. The ends are nil without any.
// ErrInvalidEnd.
func ParseFlags(words []string, zone *time.Location) (flags []string, ends map[string]time.Time, err error) {
	for _, word := range words {
		name, typed, has := strings.Cut(word, "@")
		if flags = append(flags, name); !has {
			continue
		}
		at, err := ParseEnd(typed, zone)
		if err == nil && at.IsZero() {
			err = ErrInvalidEnd
		}
		if err != nil {
			return nil, nil, err
		}
		if ends == nil {
			ends = map[string]time.Time{}
		}
		ends[name] = at
	}
	return flags, ends, nil
}

// FlagEndRows returns the ends of those of the flags that have one.
func FlagEndRows(flags []string, ends map[string]time.Time) (rows []templates.FlagEnd) {
	for _, f := range flags {
		if at := ends[f]; !at.IsZero() {
			rows = append(rows, templates.FlagEnd{Flag: f, At: at})
		}
	}
	return rows
}

// FlagWords returns the flags of a user as ParseFlags reads them.
func (u User) FlagWords() []string {
	words := slices.Clone(u.Flags)
	for i, f := range words {
		words[i] = FlagWord(f, u.FlagEnds[f])
	}
	return words
}

// FlagWord is a flag as ParseFlags reads it; the zero time: it has no end.
func FlagWord(flag string, ends time.Time) string {
	if ends.IsZero() {
		return flag
	}
	return flag + "@" + ends.UTC().Format(time.RFC3339)
}

// LastDay returns the last day before an end, as ParseEnd reads it; empty for the zero time.
func LastDay(ends time.Time, zone *time.Location) string {
	if ends.IsZero() {
		return ""
	}
	return ends.In(zone).Add(-time.Second).Format(time.DateOnly)
}

// EndStore keeps when accounts and flags end by themselves. Every user that is read is as the ends
// have it by the clock of the store: see User.EndsAt.
type EndStore interface {
	// SetEndOfAll sets when the accounts of the users end whose subs rows has, all or none; zero: never.
	// An account that has ended is no longer suspended then. ErrUserNotFound, ErrLastAdmin as for
	// SuspendAll.
	SetEndOfAll(ctx context.Context, ends, now time.Time, rows map[string]Audit) error
	// EndDue ends what depends on accounts and flags that have ended: EndAccount and EndFlags, with an audit
	// row each. It returns when something ends next, zero: nothing does.
	EndDue(ctx context.Context) (next time.Time, err error)
	// AccessChanged receives a value when this process has changed flags or ends.
	AccessChanged() <-chan struct{}
	// ClockSettled reports whether the clock is trusted with what cannot be undone. It is not for an hour,
	// with a warning in the log, after the wall clock has moved by more than a day against the monotonic one
	// since the last call, and at the first call after a gap of more than 30 days to the last row.
	ClockSettled(ctx context.Context) (bool, error)
	// EndsToTell lists what ends and of which the users were not told by the last of EndNotices, the
	// earliest first, nothing of users who are suspended.
	EndsToTell(ctx context.Context, limit int) ([]ComingEnd, error)
	// EndTold notes that the user was told of an end, with the mails. If that was done, or the end
	// was changed, nothing happens.
	EndTold(ctx context.Context, e ComingEnd, mails []Mail) error
}
