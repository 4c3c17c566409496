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
	// maxListBytes is the longest byte array that a list may unpack to.
	maxListBytes = 1 << 20

	defaultTTL = time.Minute        // of a list that names none
	maxTTL     = 24 * time.Hour     // whatever a list says
	maxExp     = 7 * 24 * time.Hour // of a copy, likewise
	noExp      = 24 * time.Hour     // of a copy of a list that names none
)

// statusList is a Status List Token (draft-ietf-oauth-status-list section 5.1) whose
// signature was good.
type statusList struct {
	status  []byte
	bits    int           // of one status: 1, 2, 4 or 8
	ttl     time.Duration // how long the copy may be used before it is asked for again
	expires time.Time     // after which it says nothing
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

var errNotList = errors.New("not a status list of this issuer")

// readStatusList reads the payload of a list from uri (section 8.3 of the draft).
func readStatusList(payload []byte, uri string, now time.Time, leeway time.Duration) (*statusList, error) {
	m, err := members(payload)
	if err != nil {
		return nil, errNotList
	}
	if sub, ok := text(m["sub"]); !ok || sub != uri {
		return nil, errors.New("the list is another one than asked for")
	}
	iat, ok := integer(m["iat"], latestSecond)
	if !ok || m["iat"] == nil {
		return nil, errNotList
	}
	issued := time.Unix(iat, 0)
	if issued.After(now.Add(leeway)) {
		return nil, errors.New("the list was issued in the future")
	}
	l := &statusList{expires: now.Add(noExp), ttl: defaultTTL}
	if m["exp"] != nil {
		exp, ok := integer(m["exp"], latestSecond)
		if !ok {
			return nil, errNotList
		}
		if l.expires = time.Unix(exp, 0); !now.Before(l.expires.Add(leeway)) {
			return nil, errors.New("the list has expired")
		}
	}
	if latest := now.Add(maxExp); l.expires.After(latest) {
		l.expires = latest
	}
	if m["ttl"] != nil {
		ttl, ok := integer(m["ttl"], latestSecond)
		if !ok || ttl == 0 {
			return nil, errNotList
		}
		l.ttl = min(time.Duration(min(ttl, int64(maxTTL/time.Second)))*time.Second, maxTTL)
	}
	return l, l.unpack(m["status_list"])
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
