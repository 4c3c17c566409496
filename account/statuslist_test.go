package account_test

import (
	"compress/zlib"
	"encoding/base64"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
)

// statusBit follows the status claim of a session token to its bit.
func statusBit(w *world, token string) int {
	w.t.Helper()
	ref := claimsOf(w.t, token)["status"].(map[string]any)["status_list"].(map[string]any)
	u, err := url.Parse(ref["uri"].(string))
	if err != nil {
		w.t.Fatal(err)
	}
	a := w.browser().send("GET", u.Path, "", "").is(200)
	if a.header.Get("Content-Type") != "application/statuslist+jwt" || len(a.set) != 0 {
		w.t.Errorf("%v", a.header)
	}
	list := claimsOf(w.t, a.body)
	if list["sub"] != ref["uri"] {
		w.t.Errorf("sub %v, want %v", list["sub"], ref["uri"])
	}
	packed, err := base64.RawURLEncoding.DecodeString(list["status_list"].(map[string]any)["lst"].(string))
	if err != nil {
		w.t.Fatal(err)
	}
	z, err := zlib.NewReader(strings.NewReader(string(packed)))
	if err != nil {
		w.t.Fatal(err)
	}
	bits, err := io.ReadAll(z)
	if err != nil {
		w.t.Fatal(err)
	}
	i := int(ref["idx"].(float64))
	return int(bits[i/8]>>(i%8)) & 1
}

func TestApplicationsLearnThatASessionEnded(t *testing.T) {
	for name, change := range map[string]func(*account.Options){"HS256": func(*account.Options) {}, "RS256": withKey} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			w.addUser("ada")
			w.addUser("bob")
			out, stays, suspended := w.signedIn("ada"), w.signedIn("ada"), w.signedIn("bob")
			tokens := []string{out.cookies["cairn_session"], stays.cookies["cairn_session"], suspended.cookies["cairn_session"]}
			out.call("POST", "/api/auth/logout", nil).is(200)
			w.suspend("bob")
			for i, want := range []int{1, 0, 1} {
				if got := statusBit(w, tokens[i]); got != want {
					t.Errorf("token %d: status %d, want %d", i, got, want)
				}
			}
		})
	}
}

func TestUnknownListsAreNotFound(t *testing.T) {
	w := newWorld(t)
	for _, list := range []string{"99", "0", "-1", "01", "x", "%00", "1e3", "99999999999999999999"} {
		w.browser().call("GET", "/oauth2/status/"+list, nil).is(404)
	}
}
