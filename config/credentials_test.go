//go:build linux

package config_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-id/cairn/config"
)

func TestFilesMayLieAmongTheCredentialsOfTheUnit(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"jwt": strings.Repeat("s", 40), "smtp": "hunter2"} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(text+"\n"), 0o400))
	}
	file := write(t, "cairn.yaml", "private-key-file: $CREDENTIALS_DIRECTORY/key.pem\nadditional-key-file: [old.pem, $CREDENTIALS_DIRECTORY/next.pem]\n")
	env := write(t, "env", "SERVICE_AUTH_JWT_SECRET_FILE=$CREDENTIALS_DIRECTORY/jwt\nSERVICE_COOKIE_NAME=$CREDENTIALS_DIRECTORY/x\n")
	args := []string{"--config", file, "--env-file", env, "serve"}
	p, e, err := parse(t, []string{"CREDENTIALS_DIRECTORY=" + folder, "SERVICE_SMTP_PASSWORD_FILE=$CREDENTIALS_DIRECTORY/smtp"}, args...)
	must(t, err)
	s := p.Serve.Settings
	if s.PrivateKeyFile != folder+"/key.pem" || len(s.AdditionalKeyFiles) != 2 || s.AdditionalKeyFiles[0] != filepath.Join(filepath.Dir(file), "old.pem") ||
		s.AdditionalKeyFiles[1] != folder+"/next.pem" || s.SMTPPasswordFile != folder+"/smtp" || s.CookieName != "$CREDENTIALS_DIRECTORY/x" {
		t.Errorf("%+v", s)
	}
	if secret, _, err := config.Secret(e.Lookup); err != nil || string(secret) != strings.Repeat("s", 40) {
		t.Errorf("the secret: %q %v", secret, err)
	}
	// Another command than the service, in a shell.
	if p, _, err = parse(t, nil, args...); err != nil {
		t.Fatal(err)
	}
	_, err = config.LoadSigningKeys(p.Serve.PrivateKeyFile, nil)
	refused(t, err, "--private-key-file", "CREDENTIALS_DIRECTORY", "name another file")
}

// systemd gives a credential to the service's user by an ACL, whose mask then stands where
// the bits of the group are: mode 0440.
func TestCredentialThatAnACLOpensToTheServiceAloneIsAccepted(t *testing.T) {
	const userObj, user, groupObj, group, mask, other = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
	type entry struct {
		tag, given uint16
		id         uint32
	}
	none, me := ^uint32(0), uint32(os.Geteuid())
	for name, tt := range map[string]struct {
		entries  []entry
		owner    int
		accepted bool
	}{
		"as systemd does":     {[]entry{{userObj, 4, none}, {user, 4, me}, {groupObj, 0, none}, {mask, 4, none}, {other, 0, none}}, int(me), true},
		"another user too":    {[]entry{{userObj, 4, none}, {user, 4, me}, {user, 4, me + 1}, {groupObj, 0, none}, {mask, 4, none}, {other, 0, none}}, int(me), false},
		"a named group":       {[]entry{{userObj, 4, none}, {groupObj, 0, none}, {group, 4, 7}, {mask, 4, none}, {other, 0, none}}, int(me), false},
		"the file's group":    {[]entry{{userObj, 4, none}, {user, 4, me}, {groupObj, 4, none}, {mask, 4, none}, {other, 0, none}}, int(me), false},
		"every user":          {[]entry{{userObj, 4, none}, {user, 4, me}, {groupObj, 0, none}, {mask, 4, none}, {other, 4, none}}, int(me), false},
		"no list, group only": {nil, int(me), false},
		"another owner":       {[]entry{{userObj, 4, none}, {user, 4, me}, {groupObj, 0, none}, {mask, 4, none}, {other, 0, none}}, 4242, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "secret", strings.Repeat("s", 40))
			must(t, os.Chmod(path, 0o440))
			if tt.entries != nil {
				b := binary.LittleEndian.AppendUint32(nil, 2)
				for _, e := range tt.entries {
					b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, e.tag), e.given)
					b = binary.LittleEndian.AppendUint32(b, e.id)
				}
				if err := syscall.Setxattr(path, "system.posix_acl_access", b, 0); errors.Is(err, syscall.ENOTSUP) {
					t.Skip("the file system has no ACLs")
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chown(path, tt.owner, -1); err != nil && os.Geteuid() != 0 {
				t.Skip("only root gives a file away")
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm()&0o440 != 0o440 {
				t.Fatalf("%v %v", info.Mode(), err)
			}
			_, e, parseErr := parse(t, []string{"SERVICE_AUTH_JWT_SECRET_FILE=" + path}, "serve")
			_, _, err = config.Secret(e.Lookup)
			err = errors.Join(parseErr, err)
			if (err == nil) != tt.accepted {
				t.Errorf("mode %v: %v", info.Mode(), err)
			}
		})
	}
}
