package register

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider/recipes"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// signOutAddress is Cairn's sign-out in the settings of an application.
const signOutAddress = "/oauth2/logout"

// Each recipe says how signing out works. Where its button leads to Cairn, the address that it comes back to is
// registered: without that people end on an error page, and the session lives.
func TestRecipesSayHowSigningOutWorks(t *testing.T) {
	all, err := recipes.All()
	must(t, err)
	for _, r := range all {
		if !slices.Contains([]string{"cairn", "here"}, r.SignOut.Ends) ||
			!slices.Contains([]string{"ci", "tried", "source", "documentation", "assumed"}, r.SignOut.Known) {
			t.Errorf("%s: sign-out %+v", r.App, r.SignOut)
		}
		keys, filled, err := recipeKeys(r, r.Example, "https://id.example.org", "")
		must(t, err)
		leads := strings.Contains(filled.Body+filled.SignOut.Text, signOutAddress)
		if leads && r.SignOut.Ends != "cairn" {
			t.Errorf("%s: its settings lead to Cairn's sign-out: sign-out ends cairn", r.App)
		}
		if r.SignOut.Ends != "cairn" {
			continue
		}
		if len(keys.PostLogoutRedirectURIs) == 0 {
			t.Errorf("%s: signing out there leads to Cairn, and no post-logout redirect URI is registered", r.App)
		}
		for _, m := range regexp.MustCompile("post_logout_redirect_uri=([^\\s`'\"&]+)").FindAllStringSubmatch(filled.Body+filled.SignOut.Text, -1) {
			if !slices.Contains(keys.PostLogoutRedirectURIs, m[1]) {
				t.Errorf("%s: comes back to %s, which is not among %q", r.App, m[1], keys.PostLogoutRedirectURIs)
			}
		}
	}
}

var must = assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
