package site_test

import (
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/mail/mailtest"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/accounttest"
)

// A name of a club, of a person and of an application arrives unchanged behind each door that writes another language.
func TestHostileNamesLeaveWhole(t *testing.T) {
	server := mailtest.New(t, mailtest.Options{})
	sender := mail.NewSMTP(server.Settings)
	t.Cleanup(sender.Close)
	w := accounttest.New(t, func(o *accounttest.Options) { o.Mail = sender })
	b := w.Member("ada")
	for i, name := range accounttest.HostileNames {
		w.SaveSettings(func(v *account.Settings) { v.InstanceName, v.InvitesPerMember = name, 50 })
		b.Call("PATCH", "/api/me", map[string]string{"display_name": name}).Is(200)

		drawn := b.Call("POST", "/api/me/totp", nil).Is(200).JSON()
		uri, secret := drawn["uri"].(string), drawn["secret"].(string)
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		issuer := strings.ReplaceAll(name, ":", " ")
		q, err := url.ParseQuery(u.RawQuery)
		if err != nil || u.Scheme != "otpauth" || u.Host != "totp" || u.Path != "/"+issuer+":ada" || u.Fragment != "" ||
			strings.Contains(uri, "+") || len(q) != 5 || q.Get("issuer") != issuer || len(q["secret"]) != 1 ||
			q.Get("secret") != secret || q.Get("period") != "30" || q.Get("digits") != "6" || q.Get("algorithm") != "SHA1" {
			t.Errorf("%q: %s", name, uri)
		}

		same(t, "Remote-Name", b.Page("/api/verify").Is(200).Header.Get("Remote-Name"), name)
		encoded := b.Page("/api/verify?encode=percent").Is(200).Header.Get("Remote-Name")
		got, err := url.PathUnescape(encoded)
		if err != nil || got != name ||
			strings.ContainsFunc(encoded, func(r rune) bool { return r <= ' ' || r > '~' || r == '+' }) {
			t.Errorf("%q: Remote-Name, encoded: %q", name, encoded)
		}

		to := "guest" + strconv.Itoa(i) + "@example.org"
		code := b.Call("POST", "/api/invites", map[string]string{"email": to, "note": name}).Is(201).JSON()["code"].(string)
		must(t, w.Post.DeliverMails(t.Context()))
		m := server.Mails()[2*i]
		if m.To != to || m.Subject != "@ada invites you: "+name || !strings.Contains(m.Text, "join “"+name+"”") ||
			!strings.Contains(html.UnescapeString(m.HTML), "join “"+name+"”") || strings.Contains(m.HTML, "<C>") {
			t.Errorf("%q: the mail is %q, %s, %s", name, m.Subject, m.Text, m.HTML)
		}
		slip := b.Page("/account/invites/slip?code=" + code).Is(200)
		if got := html.UnescapeString(slip.Body); strings.Contains(slip.Body, "<C>") || !strings.Contains(got, " · "+name+"</title>") ||
			!strings.Contains(got, "<h1>Invite: <bdi>"+name+"</bdi></h1>") || !strings.Contains(got, "<p><bdi>"+name+"</bdi> invites you.</p>") ||
			!strings.Contains(got, "<blockquote><p><bdi>"+name+"</bdi></p></blockquote>") {
			t.Errorf("%q: the slip is %s", name, slip.Body)
		}

		id := "app-" + strconv.Itoa(i)
		c := &provider.Client{ID: id, Name: name, RedirectURIs: []string{"https://app.example/cb"}, AuthMethod: provider.AuthNone, CreatedAt: w.Clock.Now()}
		must(t, w.Store.(clients).CreateClient(t.Context(), c, account.Operator().Audit(w.Clock.Now(), account.RegisterClient, "", "")))
		if apps := b.Page("/account/apps").Is(200); strings.Contains(apps.Body, "<C>") || !strings.Contains(html.UnescapeString(apps.Body), "<bdi>"+name+"</bdi>") {
			t.Errorf("%q: the application is shown as %s", name, apps.Body)
		}
		told := account.UserMail(t.Context(), w.User("ada"), to, account.MailLastingAccess, w.Clock.Now(), "name", name)
		must(t, w.Store.QueueMail(t.Context(), told, w.Clock.Now()))
		must(t, w.Post.DeliverMails(t.Context()))
		if m := server.Mails()[2*i+1]; !strings.Contains(m.Text, name) || !strings.Contains(html.UnescapeString(m.HTML), name) || strings.Contains(m.HTML, "<C>") {
			t.Errorf("%q: the mail is %q, %s, %s", name, m.Subject, m.Text, m.HTML)
		}
	}
	b.Page("/api/verify?encode=latin1").Is(400, "invalid_request")
	b.Page("/api/verify?encode=percent&encode=percent").Is(400, "invalid_request")
	// What would break a header or reverse a line cannot be entered.
	for _, name := range []string{"a\r\nRemote-User: root", "a\u2028b", "a\u202eb"} {
		b.Call("PATCH", "/api/me", map[string]string{"display_name": name}).Is(400)
	}
}
