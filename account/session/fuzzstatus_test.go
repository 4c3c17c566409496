package session_test

import (
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// statusSeeds are byte arrays that a list may hold, packed, and others that are none.
func statusSeeds() []string {
	one := string(zlibOf([]byte{0b1000_0001, 0, 7}))
	return []string{
		one, string(zlibOf(make([]byte, listSize/8))), string(zlibOf([]byte{255})), string(zlibOf(nil)), one + "x", one + one, one[:len(one)-1], one[:3], "", "x", "\x78\x9c", "\x78\xbb\x00\x00\x00\x01",
		string(zlibOf(make([]byte, 1<<20))), string(zlibOf(make([]byte, 1<<20+1))),
		toJSON(listPayload(issuer+"/oauth2/status/1", clock, 60, 7)), `{}`, `[]`, `{"sub":1}`, `{"sub":"` + issuer + `/oauth2/status/1","iat":1,"status_list":{"bits":8,"lst":"eJxjYGBgAAAABAAB"}}`,
		hsList(listPayload(issuer+"/oauth2/status/1", clock, 60)), hsToken(good()),
	}
}

func TestStatusSeedsAreAllThere(t *testing.T) {
	if n := len(statusSeeds()); n != 21 {
		t.Errorf("%d seeds", n)
	}
}

// FuzzStatusList serves data as a list token, as the payload of a signed one, and as the packed
// list of a genuine one. The first is believed only if it is one; the last exactly when
// the standard library unpacks it to the end, with the same bits.
func FuzzStatusList(f *testing.F) {
	for _, seed := range statusSeeds() {
		f.Add([]byte(seed))
	}
	genuine := hsList(listPayload(issuer+"/oauth2/status/1", clock, 60))
	f.Fuzz(func(t *testing.T, data []byte) {
		known := answers(t, string(data), 0, 7, listSize)
		if strings.TrimSpace(string(data)) != genuine && known[0].err == nil {
			t.Errorf("believed: %q", data)
		}
		if len(data) > 0 {
			answers(t, hsList(string(data)), 0, 7, listSize, 1<<30)
		}

		p := listPayload(issuer+"/oauth2/status/1", clock, 60)
		p["status_list"] = map[string]any{"bits": 1, "lst": b64(string(data))}
		bits, ok := unpacked(data)
		indices := []int{0, 1, 7, 8, 8*len(bits) - 1, 8 * len(bits)}
		for i, got := range answers(t, hsList(p), indices...) {
			index := indices[i]
			switch {
			case !ok:
				if !errors.Is(got.err, session.ErrStatusUnavailable) {
					t.Errorf("%x: %d: %t, %v", data, index, got.revoked, got.err)
				}
			case index < 0 || index >= 8*len(bits):
				if !errors.Is(got.err, session.ErrInvalid) {
					t.Errorf("%x: %d: %t, %v", data, index, got.revoked, got.err)
				}
			case got.err != nil || got.revoked != (bits[index/8]>>(index%8)&1 == 1):
				t.Errorf("%x: %d: %t, %v", data, index, got.revoked, got.err)
			}
		}
	})
}

type statusAnswer struct {
	revoked bool
	err     error
}

// answers asks an application for the statuses of sessions, when Cairn's answer is body.
func answers(t *testing.T, body string, indices ...int) []statusAnswer {
	lists := session.NewRemoteStatusList(session.RemoteStatusOptions{
		Issuer: issuer, Secret: secret, Now: func() time.Time { return clock },
		Client: &http.Client{Transport: transport(func(*http.Request) *http.Response {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Type", "application/statuslist+jwt")
			_, _ = w.WriteString(body)
			return w.Result()
		})},
	})
	defer func() { _ = lists.Close() }()
	out := make([]statusAnswer, len(indices))
	for i, index := range indices {
		revoked, err := lists.Revoked(t.Context(), place(index))
		if err != nil && (revoked || errors.Is(err, session.ErrStatusUnavailable) == errors.Is(err, session.ErrInvalid)) {
			t.Errorf("%d: %t, %v", index, revoked, err)
		}
		out[i] = statusAnswer{revoked, err}
	}
	return out
}

// unpacked is what the standard library makes of a packed list, if it is one that may be believed.
func unpacked(data []byte) ([]byte, bool) {
	const most = 1 << 20
	from := bytes.NewReader(data)
	z, err := zlib.NewReader(from)
	if err != nil || len(data) > most/2 {
		return nil, false
	}
	bits, err := io.ReadAll(io.LimitReader(z, most+1))
	return bits, err == nil && len(bits) > 0 && len(bits) <= most && from.Len() == 0
}
