package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/storetest"
)

// "Personal data gone" holds for the file too, not only for queries.
func TestDeletedPersonIsNeverLeftInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	s := storetest.Open(t, path)
	u := addUser(t, s, "ada")
	name, mail := "Augusta Ada of Ockham", "augusta@ockham.example"
	_, err := s.ChangeUser(t.Context(), u.Sub, func(u *account.User) error { u.DisplayName, u.Email = name, mail; return nil }, noon, nil)
	must(t, err)
	secret := "a preference that nobody else has"
	_, err = s.MergePreferences(t.Context(), u.Sub, map[string]*string{"note": &secret}, 100)
	must(t, err)
	must(t, s.DeleteUser(t.Context(), u.Sub, noon, account.Audit{At: noon, Actor: "operator", Action: "user.delete", Target: "ada"}))
	must(t, s.Close()) // writes the log back into the file
	for _, file := range []string{path, path + "-wal"} {
		b, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		must(t, err)
		for _, text := range []string{name, mail, secret} {
			if bytes.Contains(b, []byte(text)) {
				t.Errorf("%s still holds %q", filepath.Base(file), text)
			}
		}
	}
}
