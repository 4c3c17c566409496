package httpd

import (
	"net/http"
	"net/netip"
	"testing"
)

// What strangers write into X-Forwarded-For stands left of what the proxy adds, and is not believed.
func FuzzClientAddress(f *testing.F) {
	for _, seed := range []string{"", "10.0.0.1", "1.2.3.4, ", "[2001:db8::1]:99, ::ffff:10.0.0.2%eth0", ",,\x00"} {
		f.Add(seed)
	}
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, written string) {
		for hop, want := range map[string]string{
			"198.51.100.7": "198.51.100.7", "[2001:db8::7]:5555": "2001:db8::7", "no address": "10.0.0.9",
			"198.51.100.7, 10.0.0.8": "198.51.100.7",
		} {
			r := &http.Request{RemoteAddr: "10.0.0.9:4040", Header: http.Header{"X-Forwarded-For": {written, hop}}}
			if got, trusted := clientAddress(r, proxies); !trusted || got.String() != want {
				t.Fatalf("%q, %s: %s, %t", written, hop, got, trusted)
			}
		}
		r := &http.Request{RemoteAddr: "192.0.2.1:4040", Header: http.Header{"X-Forwarded-For": {written}}}
		if got, trusted := clientAddress(r, proxies); trusted || got.String() != "192.0.2.1" {
			t.Fatalf("%q of a stranger: %s, %t", written, got, trusted)
		}
	})
}
