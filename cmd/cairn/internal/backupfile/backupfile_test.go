package backupfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
	"github.com/cairn-id/cairn/store/storetest/assert"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

const passphrase = "correct horse battery"

// written is a small backup.
func written(t *testing.T, passphrase string) []byte {
	t.Helper()
	database := filepath.Join(t.TempDir(), "db")
	must(t, os.WriteFile(database, bytes.Repeat([]byte("rows of a table "), 300), 0o600))
	m := &backupfile.Manifest{Created: time.Unix(1700000000, 0).UTC(),
		Files: []backupfile.File{{Name: backupfile.Database, Path: database},
			{Name: "keys/1", Setting: "private-key-file", Path: database}}}
	var b bytes.Buffer
	key, err := backupfile.NewKey("", passphrase)
	must(t, err)
	must(t, backupfile.Create(t.Context(), &b, m, key))
	return b.Bytes()
}

func open(t *testing.T, content []byte, passphrase string) (*backupfile.Manifest, error) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	must(t, err)
	name := filepath.Join(dir, "b")
	must(t, os.WriteFile(name, content, 0o600))
	f, err := os.Open(name)
	must(t, err)
	defer func() { _ = f.Close() }()
	m, err := backupfile.Open(t.Context(), f, filepath.Join(dir, "out"), func(bool) ([]backupfile.Identity, error) {
		return backupfile.PassphraseIdentity(passphrase)
	})
	if err == nil {
		if got, err := os.ReadFile(m.Files[1].Path); err != nil || len(got) != 4800 {
			t.Errorf("%d bytes: %v", len(got), err)
		}
	}
	return m, err
}

// A changed bit at any place, and an end at any place, is found.
func TestDamageOfEveryByteIsFound(t *testing.T) {
	racetest.Skip(t)
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

// changer overwrites a file before the first bytes of a backup are written: it was measured and not packed yet.
type changer struct {
	bytes.Buffer
	file string
}

func (c *changer) Write(b []byte) (int, error) {
	if c.Len() == 0 {
		if err := os.WriteFile(c.file, bytes.Repeat([]byte("rows of another "), 300), 0o600); err != nil {
			return 0, err
		}
	}
	return c.Buffer.Write(b)
}

// The sum of the whole file is right then, and so is the size of each member.
func TestMemberThatIsNotAsTheManifestSaysIsRefused(t *testing.T) {
	c := &changer{file: filepath.Join(t.TempDir(), "db")}
	must(t, os.WriteFile(c.file, bytes.Repeat([]byte("rows of a table "), 300), 0o600))
	m := &backupfile.Manifest{Files: []backupfile.File{{Name: backupfile.Database, Path: c.file}, {Name: "keys/1", Path: c.file}}}
	must(t, backupfile.Create(t.Context(), c, m, nil))
	_, err := open(t, c.Bytes(), "")
	fails(t, "a changed member", err, backupfile.ErrDamaged)
}

// A crafted backup says of each member what is true of it, and names a file outside of the folder.
func TestMemberOutsideOfTheFolderIsRefused(t *testing.T) {
	content := filepath.Join(t.TempDir(), "db")
	must(t, os.WriteFile(content, []byte("rows"), 0o600))
	for _, name := range []string{"../planted", "keys/../../planted", filepath.Join(t.TempDir(), "planted")} {
		m := &backupfile.Manifest{Files: []backupfile.File{{Name: backupfile.Database, Path: content},
			{Name: name, Path: content}}}
		var b bytes.Buffer
		must(t, backupfile.Create(t.Context(), &b, m, nil))
		folder := t.TempDir()
		file := filepath.Join(folder, "backup")
		must(t, os.WriteFile(file, b.Bytes(), 0o600))
		f, err := os.Open(file)
		must(t, err)
		_, err = backupfile.Open(t.Context(), f, filepath.Join(folder, "out"), nil)
		_ = f.Close()
		fails(t, name, err, backupfile.ErrDamaged)
		for _, planted := range []string{filepath.Join(folder, "planted"), name} {
			if _, err := os.Stat(planted); err == nil && filepath.IsAbs(planted) {
				t.Errorf("%s was written", planted)
			}
		}
	}
}

var fails, must = assert.Fails, assert.Must
