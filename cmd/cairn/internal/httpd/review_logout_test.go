package httpd

import (
	"net/http"
	"net/url"
	"testing"
)

// A form of another site arrives without the cookie (SameSite=Lax). An answer
// that clears the cookie would sign the person out all the same.
func TestForeignFormNeverSignsOut(t *testing.T) {
	s := startService(t, serviceOptions{})
	for _, confirm := range []string{"1", "a.b"} {
		got := s.browser().postForm("/oauth2/logout", url.Values{"confirm": {confirm}}, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		if got.StatusCode != http.StatusOK && got.StatusCode != http.StatusForbidden {
			t.Errorf("confirm=%s: %d", confirm, got.StatusCode)
		}
		if set := got.Header.Values("Set-Cookie"); len(set) != 0 {
			t.Errorf("confirm=%s: a foreign form clears the cookie: %q", confirm, set)
		}
	}
}
