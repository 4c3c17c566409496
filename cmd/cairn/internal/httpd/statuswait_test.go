package httpd

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// listOf returns the address of the list of a browser's session and its entity
// tag now.
func listOf(t *testing.T, b *browser) (uri, etag string) {
	t.Helper()
	ref := jwtPayload(t, b.cookie("cairn_session"))["status"].(map[string]any)["status_list"].(map[string]any)
	uri = ref["uri"].(string)
	return uri, b.get(uri).Header.Get("ETag")
}

func TestListIsNeverHeldLongerThanAsked(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	b := s.browser()
	b.signIn("ada")
	uri, etag := listOf(t, b)
	for prefer, want := range map[string]struct {
		tag     string
		status  int
		applied string
	}{
		"wait=1":                           {etag, http.StatusNotModified, "wait=1"},
		"respond-async, Wait = \"1\"; a=b": {etag, http.StatusNotModified, "wait=1"},
		"wait=25":                          {`W/"another"`, http.StatusOK, ""},
		"wait=24":                          {"", http.StatusOK, ""},
		"wait=0":                           {etag, http.StatusNotModified, ""},
		"wait=-1":                          {etag, http.StatusNotModified, ""},
		"wait=soon, wait=9":                {etag, http.StatusNotModified, ""},
		"return=minimal":                   {strings.TrimPrefix(etag, "W/"), http.StatusNotModified, ""},
		"waiter=9":                         {`"x" , ` + etag, http.StatusNotModified, ""},
	} {
		header := []string{"Prefer", prefer}
		if want.tag != "" {
			header = append(header, "If-None-Match", want.tag)
		}
		began := time.Now()
		got := b.get(uri, header...)
		if got.StatusCode != want.status || got.Header.Get("Preference-Applied") != want.applied || got.Header.Get("ETag") != etag {
			t.Errorf("%s: %d, applied %q", prefer, got.StatusCode, got.Header.Get("Preference-Applied"))
		}
		if held := time.Since(began); want.applied != "" && held < time.Second {
			t.Errorf("%s: held %v only", prefer, held)
		}
		if c := got.Header.Get("Cache-Control"); !strings.Contains(c, "max-age=60") || !strings.Contains(c, "no-cache") || !strings.Contains(strings.Join(got.Header.Values("Vary"), ","), "Prefer") {
			t.Errorf("%s: Cache-Control %q, Vary %q", prefer, c, got.Header.Values("Vary"))
		}
	}
}

// hold asks for the list and to be told of a change; the answer comes through the channel.
func hold(t *testing.T, base, uri, etag string) <-chan response {
	t.Helper()
	done := make(chan response, 1)
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, uri, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Host = strings.TrimPrefix(base, "http://")
	r.Header.Set("If-None-Match", etag)
	r.Header.Set("Prefer", "wait=25")
	go func() {
		defer close(done)
		got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Errorf("held request: %v", err)
			return
		}
		_ = got.Body.Close()
		done <- response{got, ""}
	}()
	return done
}

// Two instances on one database: what one takes back, the other serves at the
// next request and tells those who wait there.
func TestRevocationAtOneInstanceIsNeverUnknownAtTheOther(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		one := startService(t, serviceOptions{Store: storetest.Open(t, dsn)})
		two := startService(t, serviceOptions{Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Issuer = one.URL }})
		one.addUser("ada")
		for range 3 {
			ada := one.browser()
			ada.signIn("ada")
			uri, etag := listOf(t, ada)
			there := two.URL + strings.TrimPrefix(uri, one.URL)
			if got := two.browser().get(there, "If-None-Match", etag); got.StatusCode != http.StatusNotModified || got.Header.Get("ETag") != etag {
				t.Errorf("unchanged, at the other instance: %d, tag %s and %s", got.StatusCode, got.Header.Get("ETag"), etag)
			}
			held := hold(t, two.URL, uri, etag)
			ada.api("POST", "/api/auth/logout", nil)
			got := two.browser().get(there, "If-None-Match", etag)
			if got.StatusCode != http.StatusOK || got.Header.Get("ETag") == etag {
				t.Errorf("changed, at the other instance: %d", got.StatusCode)
			}
			if told := <-held; told.Response == nil || told.StatusCode != http.StatusOK || told.Header.Get("ETag") != got.Header.Get("ETag") {
				t.Errorf("who waited at the other instance was told %v", told.Response)
			}
		}
	})
}

// One address cannot take all the room, and a stop does not wait for those who wait.
func TestHeldRequestsNeverCrowdNorKeepTheServiceFromStopping(t *testing.T) {
	p := newInstalled(t, true, "")
	p.env = append(p.env, "SERVICE_RATE_LIMITS=all=off")
	p.serve()
	keeper := p.browser()
	uri, etag := p.URL+"/oauth2/status/1", ""
	if got := keeper.get(uri); got.StatusCode != http.StatusNotFound {
		t.Fatalf("a list before the first session: %d", got.StatusCode)
	}
	if got := keeper.register(strings.TrimSpace(p.run("invite", "add", "-q")), "ada"); got.StatusCode != http.StatusCreated {
		t.Fatalf("register: %d %s", got.StatusCode, got.Text)
	}
	etag = keeper.get(uri).Header.Get("ETag")
	const most = 32
	answers := make(chan response, 2*most)
	for range most + 1 {
		held := hold(t, p.URL, uri, etag)
		go func() { answers <- <-held }()
	}
	// One of them is too many: that it is answered says that the others are held.
	if got := <-answers; got.Response == nil || got.StatusCode != http.StatusNotModified || got.Header.Get("Preference-Applied") != "" {
		t.Errorf("one too many: %v", got.Response)
	}
	go p.stop()
	for range most {
		if got := <-answers; got.Response == nil || got.StatusCode != http.StatusNotModified {
			t.Errorf("held at the stop: %v", got.Response)
		}
	}
	p.stop()
}
