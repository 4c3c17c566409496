package register

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider/recipes"
)

// ApplicationThatSends says which application probably sent a redirect URI that its client has not registered, and
// what it should send: the recipe with the longest path that fits, before all one with the client's id. It is empty
// if none fits, or several do equally well.
func ApplicationThatSends(issuer, id, sent string, registered []string) (text string) {
	const address = "https://app.invalid"
	all, err := recipes.All()
	if err != nil {
		return ""
	}
	best := 0
	for _, r := range all {
		keys, _, err := recipeKeys(r, address, issuer, "")
		if err != nil {
			return ""
		}
		for _, uri := range keys.RedirectURIs {
			path, ours := strings.CutPrefix(uri, address)
			if !ours || strings.Count(path, "/") < 2 { // one that many have, as /callback
				continue
			}
			weight, fits := len(path), ""
			if id == keys.ID || id == r.App {
				weight += 1 << 10
			}
			for _, have := range registered {
				if base, found := strings.CutSuffix(have, path); found {
					fits = r.Title + " sends " + have + settingWith(r, base)
					break
				}
				// Of another host nothing is said: whoever made up a request must not have it registered.
				if base, found := strings.CutSuffix(sent, path); found && strings.HasPrefix(have, base+"/") {
					const format = "That is where %s gets its answers: cairn client update %s --add-redirect-uri %s"
					fits = fmt.Sprintf(format, r.Title, id, config.ShellQuote(sent))
				}
			}
			switch {
			case fits == "" || weight < best:
			case weight > best:
				best, text = weight, fits
			default:
				text = ""
			}
		}
	}
	return text
}

// addressSetting is a setting that begins with the application's address, not one that has it in a query.
var addressSetting = regexp.MustCompile(`(?m)^[^?&\n]*[=:] ?"?\{url\}.*$`)

// settingWith returns the first setting of an application that has its address, as a sentence.
func settingWith(r recipes.Recipe, address string) string {
	line := strings.TrimSpace(addressSetting.FindString(r.Body))
	if line == "" {
		return ""
	}
	return ". Its setting: " + strings.ReplaceAll(line, "{url}", address)
}
