package session

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"errors"
	"io"
	"time"
)

const (
	// maxListToken is the longest status list that is read, in bytes. Cairn's are of 6,000
	// when one session in 50 is revoked, and never over 40,000.
	maxListToken = 1 << 20
	// maxListBytes is the longest byte array that a list may unpack to; Cairn's have 16,384.
	maxListBytes = 1 << 20

	defaultTTL = time.Minute        // of a list that names none that can be followed
	maxTTL     = 24 * time.Hour     // whatever a list says
	maxExp     = 7 * 24 * time.Hour // of a copy, likewise
	noExp      = 24 * time.Hour     // of a copy of a list that names none
)

// statusList is a Status List Token (draft-ietf-oauth-status-list section 5.1) whose
// signature was good.
type statusList struct {
	status  []byte
	bits    int // of one status: 1, 2, 4 or 8
	issued  time.Time
	ttl     time.Duration // how long a copy may be used before it is asked for again
	expires time.Time     // after which a copy does not say any more that a session is valid
}

// at returns the status at an index; false when the list ends before it.
func (l *statusList) at(index int) (status byte, ok bool) {
	perByte := 8 / l.bits
	if index < 0 || index/perByte >= len(l.status) {
		return 0, false
	}
	shift := index % perByte * l.bits
	return l.status[index/perByte] >> shift & (1<<l.bits - 1), true
}

var errNotList = errors.New("the answer is not a status list")

// readStatusList reads the payload of a list from uri (section 8.3 of the draft).
func readStatusList(payload []byte, uri string, now time.Time, leeway time.Duration) (*statusList, error) {
	m, err := members(payload)
	if err != nil {
		return nil, errNotList
	}
	if sub, ok := text(m["sub"]); !ok || sub != uri {
		return nil, errors.New("the list is another one than was asked for")
	}
	iat, ok := integer(m["iat"], latestSecond)
	if !ok {
		return nil, errNotList
	}
	l := &statusList{issued: time.Unix(iat, 0), expires: now.Add(noExp), ttl: listTTL(m["ttl"])}
	if l.issued.After(now.Add(leeway)) {
		return nil, errors.New("the list was issued in the future")
	}
	if value := m["exp"]; value != nil {
		exp, ok := integer(value, latestSecond)
		if !ok {
			return nil, errNotList
		}
		l.expires = time.Unix(exp, 0)
	}
	if !now.Before(l.expires) {
		return nil, errors.New("the list has expired")
	}
	if latest := now.Add(maxExp); l.expires.After(latest) {
		l.expires = latest
	}
	return l, l.unpack(m["status_list"])
}

// older reports whether a list is from before another one: somebody has kept it, and those who
// were taken out since would be back. Instances of Cairn may have clocks that differ a little. A
// list of the future was signed, and believed, by clocks that were set back since.
func (l *statusList) older(than *statusList, now time.Time) bool {
	return l.issued.Before(than.issued.Add(-defaultLeeway)) && !than.issued.After(now.Add(defaultLeeway))
}

// listTTL reads ttl, the seconds for which a copy may be used (section 5.1 has it optional). A bad
// one is no reason to refuse what the list says of the sessions.
func listTTL(value json.RawMessage) time.Duration {
	seconds, ok := integer(value, latestSecond)
	if !ok || seconds == 0 {
		return defaultTTL
	}
	return time.Duration(min(seconds, int64(maxTTL/time.Second))) * time.Second
}

// unpack reads {"bits":1,"lst":"..."} (section 4.2).
func (l *statusList) unpack(value json.RawMessage) error {
	m, err := members(value)
	if err != nil {
		return errNotList
	}
	switch string(m["bits"]) {
	case "1", "2", "4", "8":
		l.bits = int(m["bits"][0] - '0')
	default:
		return errNotList
	}
	encoded, _ := text(m["lst"])
	packed, ok := canonical(encoded)
	if !ok {
		return errNotList
	}
	from := bytes.NewReader(packed)
	z, err := zlib.NewReader(from)
	if err != nil {
		return errNotList
	}
	defer z.Close()
	// A bound on what comes out: a megabyte of zeros is packed in a thousand bytes.
	if l.status, err = io.ReadAll(io.LimitReader(z, maxListBytes+1)); err != nil {
		return errNotList
	}
	if len(l.status) > maxListBytes {
		return errors.New("the list unpacks to too much")
	}
	if len(l.status) == 0 || from.Len() > 0 {
		return errNotList
	}
	return nil
}
