package provider_test

import (
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

func TestBackchannelLogoutURIsNeverPointElsewhere(t *testing.T) {
	for _, c := range []struct {
		uri     string
		private bool
		want    string // part of the refusal, empty: accepted
	}{
		{"https://app.example.org/logout", false, ""},
		{"https://app.example.org:8443/logout?tenant=1", false, ""},
		{"http://localhost:4041/logout", true, ""},
		{"http://127.0.0.1/logout", true, ""},
		{"http://[::1]:9/logout", true, ""},
		{"https://10.0.0.7/logout", true, ""},
		{"http://localhost:4041/logout", false, "--allow-private-backchannel"},
		{"https://10.0.0.7/logout", false, "--allow-private-backchannel"},
		{"https://169.254.169.254/latest", false, "--allow-private-backchannel"},
		{"https://[::ffff:10.0.0.7]/logout", false, "--allow-private-backchannel"},
		{"https://0.0.0.0/logout", false, "--allow-private-backchannel"},
		{"http://app.example.org/logout", true, "http is only for this machine"},
		{"http://10.0.0.7/logout", true, "http is only for this machine"},
		{"http://localhost.example.org/logout", true, "http is only for this machine"},
		{"https://app.example.org/logout#x", true, "no fragment"},
		{"https://app.example.org/logout#", true, "no fragment"},
		{"https://user:pw@app.example.org/logout", true, "no user name"},
		{"https://@app.example.org/logout", true, "no user name"},
		{"https:///logout", true, "not an absolute URL"},
		{"https:app.example.org", true, "not an absolute URL"},
		{"ftp://app.example.org/logout", true, "not an absolute URL"},
		{"/logout", true, "not an absolute URL"},
		{"", true, "1 to 2,000 characters"},
		{"https://app.example.org/" + strings.Repeat("x", 2000), true, "1 to 2,000 characters"},
		{"https://app.example.org/ x", true, "printable ASCII"},
		{"https://app.example.org\\@evil.example/", true, "printable ASCII"},
		{"https://app.example.org:/logout", true, "remove the colon"},
	} {
		err := provider.CheckBackchannelLogoutURI(c.uri, c.private)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q private=%v: %v, want %q", c.uri, c.private, err, c.want)
		}
	}
}
