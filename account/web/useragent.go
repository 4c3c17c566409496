package web

import "strings"

type mark struct{ token, name string }

// The order matters: most browsers also claim to be the ones below them.
var (
	browsers = []mark{
		{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"FxiOS/", "Firefox"},
		{"Firefox/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	}
	systems = []mark{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"CrOS", "ChromeOS"}, {"Windows", "Windows"},
		{"Macintosh", "macOS"}, {"Linux", "Linux"}, {"FreeBSD", "FreeBSD"},
	}
)

// Device returns the browser and its system ("Firefox on Linux") as the User-Agent claims, so that
// people can tell their sessions apart, or "" if neither is known.
func Device(userAgent string) string {
	browser, system := BrowserAndSystem(userAgent)
	switch {
	case browser == "" || system == "":
		return browser + system
	default:
		return browser + " on " + system
	}
}

// BrowserAndSystem returns the two parts of Device, each empty if it is not known.
func BrowserAndSystem(userAgent string) (browser, system string) {
	return firstMark(browsers, userAgent), firstMark(systems, userAgent)
}

func firstMark(marks []mark, userAgent string) string {
	for _, m := range marks {
		if strings.Contains(userAgent, m.token) {
			return m.name
		}
	}
	return ""
}
