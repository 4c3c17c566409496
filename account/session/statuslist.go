package session

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// StatusChecker reports whether a session was revoked. RemoteStatusList is one.
type StatusChecker interface {
	// Revoked reports whether the status at ref is not valid. It returns ErrInvalid for a reference
	// that does not exist, and another error, preferably ErrStatusUnavailable, if the status is not
	// known now. It must be safe for concurrent use and return soon after ctx ends. ref comes from
	// a token with a valid signature.
	Revoked(ctx context.Context, ref StatusRef) (bool, error)
}

const (
	// maxListToken is the maximum length of a status list in bytes. Cairn's have 6,000 if one
	// session in 50 is revoked, and never more than 40,000.
	maxListToken = 1 << 20
	// maxListBytes is the maximum length of an unpacked byte array; Cairn's have 16,384.
	maxListBytes = 1 << 20

	maxTTL = 24 * 60 * 60 // seconds, whatever a list says
)

// statusList is a verified copy of a Status List Token (draft-ietf-oauth-status-list section 5.1).
// It is replaced, never changed.
type statusList struct {
	status  []byte // one bit a session
	issued  time.Time
	ttl     time.Duration // how long the copy may be used before it is asked for again
	expires time.Time     // after this time it no longer proves that a session is valid

	kid  string // of the key that signed it, "" for the secret
	etag string
	asOf time.Time // a time at which this was Cairn's current list
}

// at returns the status at an index, or false if the list is shorter.
func (l *statusList) at(index int) (revoked, ok bool) {
	if index < 0 || index/8 >= len(l.status) {
		return false, false
	}
	return l.status[index/8]>>(index%8)&1 == 1, true
}

// statusPath is the path of Cairn's lists below the issuer, followed by a number from 1.
const statusPath = "/oauth2/status/"

// isListURI reports whether uri is that of a list below prefix, in its only spelling. Nothing else
// is ever fetched, because a token must not choose the address of a request.
func isListURI(prefix, uri string) bool {
	number, ok := strings.CutPrefix(uri, prefix)
	n, err := strconv.ParseUint(number, 10, 31)
	return ok && err == nil && n > 0 && strconv.FormatUint(n, 10) == number
}

var errNotList = errors.New("the answer is not a status list")

// readStatusList reads the payload of a list from uri (section 8.3 of the draft).
func readStatusList(m map[string]any, uri string, now time.Time, leeway time.Duration) (*statusList, error) {
	issued, hasIssued := instant(m["iat"])
	expires, hasExpires := instant(m["exp"])
	ttl, hasTTL := integer(m["ttl"], latestSecond)
	switch {
	case !hasIssued || !hasExpires || !hasTTL || ttl == 0:
		return nil, errNotList
	case m["sub"] != uri:
		return nil, errors.New("the status list is another one than was asked for")
	case issued.After(now.Add(leeway)):
		return nil, errors.New("the status list was issued in the future")
	case !now.Before(expires):
		return nil, errors.New("the status list has expired")
	}
	status, err := unpack(m["status_list"])
	if err != nil {
		return nil, err
	}
	return &statusList{status: status, issued: issued, ttl: time.Duration(min(ttl, maxTTL)) * time.Second,
		expires: expires}, nil
}

// unpack reads {"bits":1,"lst":"..."} (section 4.2).
func unpack(value any) ([]byte, error) {
	m, _ := value.(map[string]any)
	encoded, _ := m["lst"].(string)
	packed, ok := canonical(encoded)
	if !ok || m["bits"] != 1.0 {
		return nil, errNotList
	}
	from := bytes.NewReader(packed)
	z, err := zlib.NewReader(from)
	if err != nil {
		return nil, errNotList
	}
	defer z.Close()
	// Limits the output: a megabyte of zeros is packed in a thousand bytes.
	status, err := io.ReadAll(io.LimitReader(z, maxListBytes+1))
	if err != nil || len(status) == 0 || len(status) > maxListBytes || from.Len() > 0 {
		return nil, errNotList
	}
	return status, nil
}
