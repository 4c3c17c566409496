package backupfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
)

const passphrase = "correct horse battery"

// written is a small backup.
func written(t *testing.T, passphrase string) []byte {
	t.Helper()
	database := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(database, bytes.Repeat([]byte("rows of a table "), 300), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &backupfile.Manifest{Created: time.Unix(1700000000, 0).UTC(), Files: []backupfile.File{{Name: backupfile.Database, Path: database}, {Name: "keys/1", Setting: "private-key-file", Path: database}}}
	var b bytes.Buffer
	if err := backupfile.Create(t.Context(), &b, m, passphrase); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func open(t *testing.T, content []byte, passphrase string) (*backupfile.Manifest, error) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "b")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	m, err := backupfile.Open(t.Context(), f, filepath.Join(dir, "out"), func() (string, error) { return passphrase, nil })
	if err == nil {
		if got, err := os.ReadFile(m.Files[1].Path); err != nil || len(got) != 4800 {
			t.Errorf("%d bytes: %v", len(got), err)
		}
	}
	return m, err
}

// A changed bit at any place, and an end at any place, is found.
func TestDamageOfEveryByteIsFound(t *testing.T) {
	whole := written(t, "")
	if _, err := open(t, whole, ""); err != nil {
		t.Fatal(err)
	}
	damaged := func(what string, i int, content []byte) {
		if _, err := open(t, content, ""); !errors.Is(err, backupfile.ErrDamaged) && !errors.Is(err, backupfile.ErrNoBackup) {
			t.Errorf("%s %d: %v", what, i, err)
		}
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		damaged("byte", i, b)
		damaged("end", i, whole[:i])
	}
	damaged("longer", 1, append(bytes.Clone(whole), 0))
	damaged("twice", 2, append(bytes.Clone(whole), whole...))
}

func TestEncryptedBackupIsReadWithItsPassphraseAloneAndWhole(t *testing.T) {
	whole := written(t, passphrase)
	if _, err := open(t, whole, passphrase); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		content    []byte
		passphrase string
		want       error
	}{
		"another passphrase": {whole, passphrase + "!", backupfile.ErrPassphrase},
		"no passphrase":      {whole, "", backupfile.ErrPassphrase},
		"expensive":          {bytes.Replace(whole, []byte(" 10\n"), []byte(" 21\n"), 1), passphrase, backupfile.ErrDamaged},
		"cut":                {whole[:len(whole)-1], passphrase, backupfile.ErrDamaged},
		"longer":             {append(bytes.Clone(whole), 0), passphrase, backupfile.ErrDamaged},
		"changed":            {append(bytes.Clone(whole[:len(whole)-9]), bytes.Repeat([]byte{7}, 9)...), passphrase, backupfile.ErrDamaged},
	} {
		if _, err := open(t, c.content, c.passphrase); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}
