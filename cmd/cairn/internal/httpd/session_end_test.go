package httpd

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/store/storetest"
)

func TestSessionsAreNeverEndedByHalf(t *testing.T) {
	database := filepath.Join(t.TempDir(), "cairn.db")
	s := startService(t, serviceOptions{Store: storetest.Open(t, database)})
	s.addUser("ada")
	s.addUser("bob")
	browsers := []*browser{s.browser(), s.browser(), s.browser()}
	for _, b := range browsers {
		b.signIn("ada")
	}
	cairn := func(want int, args ...string) string {
		t.Helper()
		out, errs := cairn(t, want, append(args, "--database", database)...)
		return out + errs
	}
	alive := func(want ...bool) {
		t.Helper()
		for i, b := range browsers {
			if got := b.api("GET", "/api/me", nil).StatusCode == http.StatusOK; got != want[i] {
				t.Errorf("browser %d: signed in %t", i, got)
			}
		}
	}
	id := func(b *browser) string { return jwtPayload(t, b.cookie("cairn_session"))["sid"].(string) }
	ids := strings.Fields(cairn(exitDone, "session", "list", "ada", "-q"))
	if len(ids) != 3 || !slices.Contains(ids, id(browsers[0])) {
		t.Fatalf("%q", ids)
	}
	const unknown = "6a0e9b7e-0000-4000-8000-000000000000"
	for _, wrong := range [][]string{{"ada", id(browsers[0]), unknown}, {"ada", id(browsers[0]), "x"}, {"bob", id(browsers[0])}} {
		if got := cairn(exitFailed, append([]string{"session", "end"}, wrong...)...); !strings.Contains(got, "nothing was changed") {
			t.Errorf("%v: %s", wrong, got)
		}
	}
	alive(true, true, true)
	if got := cairn(exitDone, "session", "end", "ada", id(browsers[0]), id(browsers[1]), id(browsers[0])); !strings.Contains(got, "2") {
		t.Errorf("%s", got)
	}
	alive(false, false, true)
}
