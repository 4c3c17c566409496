package account

import (
	"slices"
	"strings"
	"time"
)

// The cookie of known devices has a mark for each user who has recently signed in there.
// It proves nothing and opens nothing: without it a sign-in is told by mail.
const (
	maxDeviceUsers = 10
	deviceLifetime = 400 * 24 * time.Hour // browsers keep none longer
	deviceMark     = 20                   // characters
)

// readMarks are the marks in the value of the cookie.
func readMarks(value string) []string {
	marks := strings.Split(cut(value, (deviceMark+1)*maxDeviceUsers), ".")
	return slices.DeleteFunc(marks, func(m string) bool {
		return len(m) != deviceMark || strings.Trim(m, base64urlAlphabet) != ""
	})
}

const base64urlAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

type mark struct{ token, name string }

// The order matters: most browsers also claim to be the ones below them.
var (
	browsers = []mark{
		{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"FxiOS/", "Firefox"}, {"Firefox/", "Firefox"},
		{"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	}
	systems = []mark{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"CrOS", "ChromeOS"}, {"Windows", "Windows"},
		{"Macintosh", "macOS"}, {"Linux", "Linux"}, {"FreeBSD", "FreeBSD"},
	}
)

// Device names a browser and its system ("Firefox on Linux") as its User-Agent
// claims, for people to tell their sessions apart; empty when neither is known.
func Device(userAgent string) string {
	browser, system := browserAndSystem(userAgent)
	switch {
	case browser == "" || system == "":
		return browser + system
	default:
		return browser + " on " + system
	}
}

func browserAndSystem(userAgent string) (browser, system string) {
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
