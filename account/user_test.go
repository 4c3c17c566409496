package account_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

func TestCanonicalHandle(t *testing.T) {
	for typed, want := range map[string]string{
		"ada": "ada", "ADA": "ada", " Ada\n": "ada", "a": "a", "9": "9", "a-b_c": "a-b_c", "a--b": "a--b", "A.b": "a.b", "a．b": "a.b", "a.b-c_d.e": "a.b-c_d.e", "ＡＤＡ": "ada", strings.Repeat("a", 30): strings.Repeat("a", 30),
		"admin": "admin", // an existing account of the operator signs in
		"":      "", "-a": "", "a-": "", "a_": "", "a b": "", ".a": "", "a.": "", "a..b": "", "a.-b": "", "a_.b": "", ".": "", "a@b": "", "adа": "", "a\u200bb": "", "a\x00": "", "\xff": "", strings.Repeat("a", 31): "",
		strings.Repeat("a", 300): "", "ä": "", "ß": "", "K": "k", "a\u0301": "", "../a": "", "a%41": "",
	} {
		got, err := account.CanonicalHandle(typed)
		if got != want || (err == nil) != (want != "") || (err != nil && !errors.Is(err, account.ErrInvalidHandle)) {
			t.Errorf("%q: %q %v, want %q", typed, got, err, want)
		}
	}
	settings := account.DefaultSettings()
	if _, err := (account.NewUser{Handle: "ADMIN"}).Check(settings); !errors.Is(err, account.ErrInvalidHandle) {
		t.Errorf("a reserved handle: %v", err)
	}
	if u, err := (account.NewUser{Handle: "ADMIN", AnyHandle: true}).Check(settings); err != nil || u.Handle != "admin" || u.DisplayName != "admin" {
		t.Errorf("a reserved handle of the operator: %+v %v", u, err)
	}
}

var handleSeeds = []string{
	"", "ada", "ADA", "ａｄａ", "a-b", "-", "\u202eada", "ad\u200ba", "аda", "a\x00b", "\xff\xfe", "İ", "ﬁ", "K", "a.b", "a..b", "a-.b", ".a",
	"mallory@ｅxample.org", "Mallory@example｡org",
}

func FuzzCanonicalHandle(f *testing.F) {
	for _, s := range handleSeeds {
		f.Add(s)
	}
	form, beside := regexp.MustCompile(`^[a-z0-9](?:[a-z0-9._-]{0,28}[a-z0-9])?$`), regexp.MustCompile(`\.[._-]|[._-]\.`)
	f.Fuzz(func(t *testing.T, typed string) {
		key := account.AccountKey(typed)
		got, err := account.CanonicalHandle(typed)
		if err != nil {
			if len(key) > 4*64 {
				t.Errorf("a limit's key of %d bytes", len(key))
			}
			if email, err := account.CheckEmail(typed); err == nil && key != account.AccountKey(email) {
				t.Errorf("%q finds %s and is counted as %q", typed, email, key)
			}
			return
		}
		again, err := account.CanonicalHandle(got)
		if !form.MatchString(got) || beside.MatchString(got) || err != nil || again != got || key != strings.ReplaceAll(got, ".", "") {
			t.Errorf("%q: %q, again %q %v, counted as %q", typed, got, again, err, key)
		}
		if plain, err := account.CanonicalHandle(key); plain != key || err != nil {
			t.Errorf("%q without dots is %q %v", got, plain, err)
		}
	})
}

func TestDisplayNames(t *testing.T) {
	for name, want := range map[string]string{
		"Ada": "Ada", " Ada Lovelace ": "Ada Lovelace", "李雷": "李雷", "👩\u200d👩\u200d👧": "👩\u200d👩\u200d👧", "<b>": "<b>", strings.Repeat("ü", 60): strings.Repeat("ü", 60),
		"": "", "  ": "", strings.Repeat("x", 61): "", "a\nb": "", "a\x00b": "", "a\u202eb": "", "a\u200bb": "", "\u200d": "", "\u3164": "", "a\ufeff": "", "\xff": "",
		"a\u2028b": "", "\ue000": "", "a\u00adb": "", "\u2800": "", "\u115f": "", "\u1160": "", "\uffa0": "", "\x1b[31m": "", "\u2066admin\u2069": "", "a\ufffdb": "",
	} {
		got, err := account.CheckDisplayName(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", name, got, err)
		}
	}
}

func TestEmailAddresses(t *testing.T) {
	for address, ok := range map[string]bool{
		"": true, "ada@example.org": true, " ada@example.org ": true, "a+b@example.org": true, "ada": false, "Ada <ada@example.org>": false, "<ada@example.org>": false, "a\u200b@example.org": false, "a b@example.org": false,
		"ada@": false, "@example.org": false, "a@b\nBcc: c@d": false, "a@b, c@d": false, `"a b"@example.org`: false, strings.Repeat("a", 250) + "@example.org": false, "a@b\x00": false,
		"a@" + strings.Repeat("ü.", 60) + "example":                       false, // 488 bytes in ASCII
		strings.Repeat("a", 64) + "@" + strings.Repeat("e", 63) + ".test": true, strings.Repeat("a", 65) + "@e.test": false, "a@" + strings.Repeat("e", 64) + ".test": false,
		"a@-e.test": false, "a@e-.test": false, "a@[127.0.0.1]": false, "a@e..test": false, "a@e!.test": false, "a@e”x.test": false, "“a@e.test": false, "a\u00a0b@e.test": false,
		"a@col·legi.test": true, "ä@例。test": true, "o'neil@a_b.test": true,
	} {
		if _, err := account.CheckNewEmail(address); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestDevices(t *testing.T) {
	for ua, want := range map[string]string{
		"": "", "\x00": "", "Go-http-client/1.1": "", "curl/8.5.0": "curl",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0":   "Edge on Windows",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15":           "Safari on macOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0 Mobile Safari/604.1": "Chrome on iPhone",
		"Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36":                    "Chrome on Android",
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                          "Firefox on Linux",
	} {
		same(t, ua, web.Device(ua), want)
	}
}
