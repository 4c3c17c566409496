package admin_test

import (
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
)

// Whatever is pasted or uploaded as a list of people is checked or refused, in words.
func FuzzListsOfPeople(f *testing.F) {
	w := newWorld(f)
	w.AddUser("root", account.FlagAdmin)
	root, a := w.SignedIn("root"), w.Administration()
	for _, seed := range []string{
		"Ada Lovelace\tada@example.org", "Name;E-Mail;Letzter Tag\nBo Berg;bo@example.org;31.12.2030", "handle,email,ends\nbo,bo@example.org,2030-12-31",
		"sep=;\n\"Bo \"\"B\"\" Berg\";bo@example.org;\"coach admin\"", "\ufeffVorname,Name\r\nAda,Lovelace", "\xff\xfea\x00,\x00b\x00", "Ada <ada@example.org>, ,,,,,", "handle\r=cmd()\r'",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		w.T = t
		if got := root.Page("/admin/users/paste", "people", list); got.Status != 200 && got.Status != 400 && got.Status != 413 {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		rows, err := roster.ReadList([]byte(list), nil)
		if err != nil {
			return
		}
		for _, row := range rows {
			if row.Row < 1 || strings.ContainsAny(row.Members["display_name"], "\r\n\t") {
				t.Fatalf("%+v", row)
			}
		}
		if _, err := a.CheckImport(t.Context(), nil, rows,
			roster.ImportOptions{ResetCodes: true, By: account.Operator()}); err != nil {
			t.Fatal(err)
		}
	})
}
