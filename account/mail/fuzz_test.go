package mail

import (
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// An address that is taken is that of one mailbox, on one line, to which a mail can be written.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{" Ada@Example.org ", "ada+child@gmail.com", "a.d.a@googlemail.com", `"a b"@x.example`, "a@[127.0.0.1]",
		"a@b\r\nBcc: c@d", "=?utf-8?q?a?=@x.example", "ä@xn--bcher-kva.example", "<a@b>", "a@b,c@d", "a%b@sk.example", "a!b@SK.example", "a@\u017f\u212a.example"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		email, err := account.CheckEmail(typed)
		if err != nil || email == "" {
			return
		}
		if again, err := account.CheckEmail(email); again != email {
			t.Fatalf("%q became %q, and that %q: %v", typed, email, again, err)
		}
		invite := account.Invite{Domain: "sk.example"}
		if invite.Admits(email) && (!strings.EqualFold(Domain(email), "sk.example") || strings.ContainsAny(email, "%!\"\\")) {
			t.Fatalf("%q is of the domain", email)
		}
		if joins, err := invite.AddressOf("", email); (err == nil) != invite.Admits(email) || err == nil && joins != email {
			t.Fatalf("%q joins with %q: %v", email, joins, err)
		}
		from := &netmail.Address{Address: "id@example.org"}
		sent, err := encode(from, Message{To: email, Subject: "Hello", Text: "Hello", Language: "en"}, time.Unix(0, 0))
		if err != nil {
			return
		}
		m, err := netmail.ReadMessage(strings.NewReader(string(sent)))
		must(t, err)
		to, err := m.Header.AddressList("To")
		if err != nil || len(to) != 1 || to[0].Address != email || len(m.Header["Bcc"])+len(m.Header["Cc"]) > 0 {
			t.Fatalf("%q: %v %v", email, m.Header, err)
		}
	})
}

var must = assert.Must
