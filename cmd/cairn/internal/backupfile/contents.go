package backupfile

import (
	"strconv"
	"strings"
)

// Names of the files in a backup.
const (
	Database = "cairn.db"
	Config   = "cairn.yaml"

	keyPrefix = "keys/"
)

// Settings that name the files of keys, as the manifest has them.
const (
	PrivateKeySetting    = "private-key-file"
	AdditionalKeySetting = "additional-key-file"
	SecretSetting        = "SERVICE_AUTH_JWT_SECRET_FILE"
	DataKeySetting       = "data-key-file"
)

// IsKey reports whether the file holds a key or the shared secret.
func (f *File) IsKey() bool { return strings.HasPrefix(f.Name, keyPrefix) }

// Keys are the paths of the files that only an encrypted backup contains. Each may be empty.
type Keys struct {
	PrivateKey     string
	AdditionalKeys []string
	Secret         string // the shared secret of HS256
	DataKey        string
}

// Files returns a File for each path, whether the file exists or not.
func (k Keys) Files() (files []File) {
	add := func(setting, path string) {
		if path != "" {
			files = append(files, File{Name: keyPrefix + strconv.Itoa(len(files)+1), Setting: setting, Path: path})
		}
	}
	add(PrivateKeySetting, k.PrivateKey)
	for _, path := range k.AdditionalKeys {
		add(AdditionalKeySetting, path)
	}
	add(SecretSetting, k.Secret)
	add(DataKeySetting, k.DataKey)
	return files
}

// Contents are the files of one backup: a copy of the database, the settings unless Config is
// empty, and keys.
type Contents struct {
	Database, Config string
	Keys             Keys
}

// Files returns all files of the backup.
func (c Contents) Files() []File {
	files := []File{{Name: Database, Path: c.Database}}
	if c.Config != "" {
		files = append(files, File{Name: Config, Path: c.Config})
	}
	return append(files, c.Keys.Files()...)
}
