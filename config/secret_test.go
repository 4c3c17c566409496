package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/config"
)

const goodSecret = "0123456789abcdef0123456789abcdef"

// lookup is an environment of pairs.
func lookup(pairs ...string) func(string) (string, bool) {
	return config.NewEnvironment(pairs).Lookup
}

func TestTheSecretIsTakenByteForByte(t *testing.T) {
	secret, source, err := config.Secret(lookup())
	if secret != nil || source != "" || err != nil {
		t.Errorf("nothing set: %q %q %v", secret, source, err)
	}
	secret, source, err = config.Secret(lookup("SERVICE_AUTH_JWT_SECRET= " + goodSecret + "=\n"))
	if string(secret) != " "+goodSecret+"=\n" || source != "SERVICE_AUTH_JWT_SECRET" || err != nil {
		t.Errorf("from the variable: %q %q %v", secret, source, err)
	}
	for _, end := range []string{"", "\n", "\r\n", "\n\n"} {
		path := write(t, "secret", goodSecret+" "+end)
		secret, source, err = config.Secret(lookup("SERVICE_AUTH_JWT_SECRET_FILE="+path, "SERVICE_AUTH_JWT_SECRET="))
		if string(secret) != goodSecret+" " || source != "SERVICE_AUTH_JWT_SECRET_FILE "+path || err != nil {
			t.Errorf("from the file: %q %q %v", secret, source, err)
		}
	}
}

func TestAWeakOrExposedSecretIsRefused(t *testing.T) {
	const variable, file = "SERVICE_AUTH_JWT_SECRET", "SERVICE_AUTH_JWT_SECRET_FILE"
	inFile := func(text string) string { return file + "=" + write(t, "secret", text) }
	withMode := func(mode os.FileMode) string {
		path := write(t, "a secret", goodSecret)
		must(t, os.Chmod(path, mode))
		return file + "=" + path
	}
	for _, tt := range []struct {
		environ []string
		words   []string
	}{
		{[]string{variable + "="}, []string{variable, "0 bytes", "at least 32"}},
		{[]string{variable + "=" + goodSecret[:5]}, []string{variable, "5 bytes", "openssl rand"}},
		{[]string{variable + "=" + goodSecret[:31]}, []string{variable, "31 bytes", "openssl rand"}},
		{[]string{variable + "=" + goodSecret, inFile(goodSecret)}, []string{variable, file, "unset one"}},
		{[]string{inFile("")}, []string{file, "0 bytes"}},
		{[]string{inFile(goodSecret[:31] + "\n")}, []string{file, "31 bytes"}},
		{[]string{inFile(goodSecret + "\n" + goodSecret)}, []string{file, "more than one line"}},
		{[]string{inFile(goodSecret + "\x00")}, []string{file, "more than one line"}},
		{[]string{inFile(strings.Repeat("a", 1<<17))}, []string{file, "longer than"}},
		{[]string{file + "=" + filepath.Join(t.TempDir(), "gone")}, []string{file, "gone", "check the path"}},
		{[]string{file + "=" + t.TempDir()}, []string{file, "is a folder"}},
		{[]string{withMode(0o644)}, []string{file, "mode 0644", "run chmod 600 '", "a secret'"}},
		{[]string{withMode(0o640)}, []string{file, "mode 0640", "run chmod 600"}},
		{[]string{withMode(0o604)}, []string{file, "mode 0604", "run chmod 600"}},
	} {
		secret, _, err := config.Secret(lookup(tt.environ...))
		refused(t, err, tt.words...)
		if secret != nil {
			t.Errorf("%v: a secret comes with the error", err)
		}
		if err != nil && strings.Contains(err.Error(), goodSecret[:5]) {
			t.Errorf("the error repeats the secret: %v", err)
		}
	}
}
