package config

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// DataKeyName is the default name of the file of the data key.
const DataKeyName = "data.key"

// dataKeySize is the length of a data key in bytes. Its file has them as base64 on one line.
const dataKeySize = 32

// DataKeyBeside returns the default path of the data key: beside the signing key or the SQLite
// database, or "" without either.
func DataKeyBeside(file string) string {
	if file == "" || strings.Contains(file, "://") || strings.HasPrefix(file, credentials) {
		return ""
	}
	return filepath.Join(filepath.Dir(file), DataKeyName)
}

// checkDataKey finds the key at the path that init chooses, if no path is given.
func checkDataKey(c *Checked, s Settings) error {
	c.DataKeyFile = s.DataKeyFile
	for _, file := range []string{s.PrivateKeyFile, c.Database} {
		if beside := DataKeyBeside(file); c.DataKeyFile == "" && beside != "" {
			if _, err := os.Lstat(beside); err == nil {
				c.DataKeyFile = beside
			}
		}
	}
	return nil
}

// LoadDataKey reads the data key, which seals secrets in the database. The error for a missing file
// wraps os.ErrNotExist.
func LoadDataKey(path string) ([]byte, error) {
	const flag = "data-key-file"
	const lost = "if the key is lost, restore a backup with --new-data-key"
	text, info, err := readFile(path, maxSecretFile)
	if err != nil {
		return nil, refuse(flag, "check the path, and that this user may read the file; "+lost, "%w", err)
	}
	if err := checkPrivate(flag, path, info); err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(string(text)) // it ignores the line break
	if err != nil || len(key) != dataKeySize {
		return nil, refuse(flag, "put the right file back; "+lost,
			"%s holds no data key, which is %d bytes in base64", path, dataKeySize)
	}
	return key, nil
}

// GenerateDataKey writes a new data key to a file as [GenerateKeyFor] does.
func GenerateDataKey(path string) error {
	key := make([]byte, dataKeySize)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	err := createFile(path, []byte(base64.StdEncoding.EncodeToString(key)+"\n"))
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s: %w: keys are never overwritten, choose another path", path, os.ErrExist)
	}
	if err != nil {
		return fmt.Errorf("the data key file %w", err)
	}
	return nil
}
