package templates_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/templates"
)

func TestMailSaysTheSameInBothParts(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	r.SetInstanceName(func() string { return "Rad & <b>Tat</b>\r\nBcc: x@example.org" })
	m, err := r.Mail(templates.PickLanguage("de"), templates.Mail{
		Subject: "Hello\r\nBcc: you@example.org \u202egro", Paragraphs: []string{"One <script>", "", "Two"}, Code: "123456",
		Link: &templates.MailLink{Label: "Open", URL: "https://id.example.org/a?b=c&d=e"}, Notes: []string{"Three"}, Reason: "Because.",
	})
	must(t, err)
	if want := "Hello Bcc: you@example.org gro"; m.Subject != want {
		t.Errorf("subject %q, want %q", m.Subject, want)
	}
	want := "One <script>\n\nTwo\n\nOpen:\nhttps://id.example.org/a?b=c&d=e\n\n    123456\n\nThree\n\n---\nRad & <b>Tat</b> Bcc: x@example.org\nBecause.\n"
	equal(t, "text", m.Text, want)
	for _, part := range []string{
		`<html lang="de">`, "<p>One &lt;script&gt;</p>", `<a href="https://id.example.org/a?b=c&amp;d=e" `, `>Open</a>`, `>https://id.example.org/a?b=c&amp;d=e</p>`, "<strong>123456</strong>", "<p>Three</p>",
		"Rad &amp; &lt;b&gt;Tat&lt;/b&gt; Bcc: x@example.org<br>Because.",
	} {
		if !strings.Contains(m.HTML, part) {
			t.Errorf("the HTML lacks %q:\n%s", part, m.HTML)
		}
	}
	for _, remote := range []string{"<img", "<link", "@import", "url(", "src="} {
		if strings.Contains(m.HTML, remote) {
			t.Errorf("the HTML has %q", remote)
		}
	}
	for _, link := range []string{"javascript:alert(1)", "/local", "https:///x", "https://id.example.org/\r\nBcc: x", "mailto:x@example.org", ""} {
		if _, err := r.Mail(nil, templates.Mail{Subject: "x", Link: &templates.MailLink{Label: "x", URL: link}}); err == nil {
			t.Errorf("a mail links %q", link)
		}
	}
	if m, err = r.Mail(nil, templates.Mail{Subject: strings.Repeat("ü", 1000)}); err != nil || len([]rune(m.Subject)) != 150 {
		t.Errorf("long subject: %d, %v", len(m.Subject), err)
	}
}

func TestNameOfSomebodyMakesNoLinkInAMail(t *testing.T) {
	for name, want := range map[string]string{
		"Åsa Öberg-O'Neill":                "Åsa Öberg-O'Neill",
		"Dr. B. Blue":                      "Dr. B. Blue",
		"win at https://evil.example/x":    "win at https evil. example x",
		"www.evil.example":                 "www. evil. example",
		"me@evil.example":                  "me evil. example",
		"evil\u3002example":                "evil\u3002 example",
		"a\r\nBcc: b\u202ec\x00\u2028d":    "a Bcc bc d",
		"\u2066hidden\u200b.\u200bexample": "hidden. example",
		strings.Repeat("x", 100):           strings.Repeat("x", 59) + "…",
	} {
		equal(t, name, templates.MailName(name), want)
	}
}

func TestImprintAndPrivacyPolicyAreLinkedOnPagesAndInMails(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	r.SetLook(func() templates.Look {
		return templates.Look{Imprint: "https://club.example/imprint?a&b", Privacy: "https://club.example/privacy"}
	})
	for name, page := range map[string]templates.Page{"login": templates.Login{}, "register": templates.Register{}, "consent": templates.Consent{}} {
		w := httptest.NewRecorder()
		must(t, r.Render(w, httptest.NewRequest("GET", "/", nil), 200, page))
		for _, part := range []string{`href="https://club.example/imprint?a&amp;b">Legal notice</a>`, `href="https://club.example/privacy">Privacy policy</a>`} {
			if !strings.Contains(w.Body.String(), part) {
				t.Errorf("%s lacks %q", name, part)
			}
		}
	}
	m, err := r.Mail(templates.PickLanguage("de"), templates.Mail{Subject: "x"})
	if want := "---\nCairn\nImpressum: https://club.example/imprint?a&b\nDatenschutz: https://club.example/privacy\n"; err != nil || !strings.HasSuffix(m.Text, want) {
		t.Errorf("%v: text %q", err, m.Text)
	}
	if !strings.Contains(m.HTML, `<br><a href="https://club.example/imprint?a&amp;b">Impressum</a>`) {
		t.Error(m.HTML)
	}
}
