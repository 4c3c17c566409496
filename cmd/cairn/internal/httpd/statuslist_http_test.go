package httpd

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// A number that no list has is no failure of the database, whoever asks.
func TestStatusListThatIsNotThereIsA404(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st})
		for _, path := range []string{"/oauth2/status/99", "/oauth2/status/0", "/oauth2/status/x"} {
			wantProblem(t, path, s.browser().api("GET", path, nil, "If-None-Match", `"x"`, "Prefer", "wait=1"), http.StatusNotFound, "status_list_not_found")
		}
		if log := s.log.String(); strings.Contains(log, `"level":"ERROR"`) {
			t.Errorf("logged as a failure: %s", log)
		}
	})
}

// What an answer is to be, by what the request says; draft-ietf-oauth-status-list
// sections 8.1, 8.2 and 8.4.
func TestListIsNeverServedAsSomethingElse(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	b := s.browser()
	b.signIn("ada")
	uri, etag := listOf(t, b)
	b.client.Transport = &http.Transport{DisableCompression: true} // what is asked for below and nothing else
	plain := b.get(uri).Text
	for _, c := range []struct {
		query, header, value string
		status               int
		zipped               bool
	}{
		{"", "Accept", "application/statuslist+jwt", 200, false},
		{"", "Accept", "application/statuslist+cwt, application/statuslist+jwt;q=0.5", 200, false},
		{"", "Accept", "Application/StatusList+CWT;q=1, application/*;q=0.1", 200, false},
		{"", "Accept", "application/json", 200, false}, // there is nothing else
		{"", "Accept", "application/statuslist+cwt", 406, false},
		{"?time=1686925000", "Accept", "*/*", 501, false},
		{"?tim%65", "Accept", "*/*", 501, false},
		{"?other=1&atime=2", "Accept", "*/*", 200, false},
		{"", "Accept-Encoding", "gzip", 200, true},
		{"", "Accept-Encoding", "br, GZIP;q=0.5", 200, true},
		{"", "Accept-Encoding", "br, *;q=0.1, gzip;q=0", 200, false},
		{"", "Accept-Encoding", "gzip;q=0.000, deflate", 200, false},
		{"", "Accept-Encoding", "identity", 200, false},
		{"", "If-None-Match", `"a,*,b"`, 200, false},
		{"", "If-None-Match", `"a,b", ` + etag, 304, false},
		{"", "If-None-Match", `,, *`, 304, false},
	} {
		got := b.get(uri+c.query, c.header, c.value)
		if got.StatusCode != c.status || (got.Header.Get("Content-Encoding") == "gzip") != c.zipped {
			t.Errorf("%s %s: %s: %d, encoding %q", c.query, c.header, c.value, got.StatusCode, got.Header.Get("Content-Encoding"))
			continue
		}
		if c.status != 200 {
			continue
		}
		text := got.Text
		if c.zipped {
			z, err := gzip.NewReader(bytes.NewReader([]byte(text)))
			if err != nil {
				t.Fatal(err)
			}
			unzipped, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			text = string(unzipped)
		}
		if vary := strings.Join(got.Header.Values("Vary"), ","); text != plain || got.Header.Get("ETag") != etag || !strings.Contains(vary, "Accept-Encoding") {
			t.Errorf("%s: %s: another list, or tag %s, Vary %s", c.header, c.value, got.Header.Get("ETag"), vary)
		}
	}
}
