package doctor

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/cmd/cairn/internal/disk"
	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// What no test can make on any machine: full disks, other file systems, old servers, slow processors, and proxies of
// other networks.
func TestJudgement(t *testing.T) {
	docker, visitor := netip.MustParseAddr("172.17.0.1"), netip.MustParseAddr("203.0.113.9")
	nobody := func(netip.Addr) bool { return false }
	seen := func(client netip.Addr, hops ...string) httpd.Seen {
		return httpd.Seen{Peer: netip.MustParseAddr("10.0.0.2"), Trusted: true, Client: client, ForwardedFor: hops}
	}
	for name, c := range map[string]struct {
		got   Finding
		level Level
		says  string
	}{
		"disk with room":                 {spaceLeft(60<<30, 100<<30), OK, "60 GiB free, 60 %"},
		"disk of which 5 % are a lot":    {spaceLeft(50<<30, 1000<<30), OK, "50 GiB"},
		"disk nearly full":               {spaceLeft(5<<30, 100<<30), Warning, "5120 MiB free, 5 %"},
		"small disk half full":           {spaceLeft(400<<20, 800<<20), Warning, "400 MiB"},
		"database that grows slowly":     {growth(60<<30, 10<<30, 1<<30), OK, "1024 MiB a day"},
		"database that grows fast":       {growth(60<<30, 10<<30, 3<<30), Warning, "full in 20 days"},
		"database that does not grow":    {growth(1<<30, 1<<20, 0), OK, "0 KiB a day"},
		"SQLite with the fault":          {versionOf(store.SQLite, "3.51.2", 3_051_002), Warning, "3.51.2"},
		"SQLite":                         {versionOf(store.SQLite, "3.51.3", 3_051_003), OK, "3.51.3"},
		"PostgreSQL 13":                  {versionOf(store.Postgres, "13.22", 130_022), Warning, "13.22"},
		"PostgreSQL 14":                  {versionOf(store.Postgres, "14.1", 140_001), OK, "14.1"},
		"few open files":                 {filesLeft(1024), Warning, "1024 files"},
		"many open files":                {filesLeft(1 << 19), OK, "524288 files"},
		"text as LATIN1":                 {textOf(store.Health{Encoding: "LATIN1"}), Problem, "encoding LATIN1"},
		"collation changed":              {textOf(store.Health{Encoding: "UTF8", CollationChanged: true}), Problem, "indexes may miss rows"},
		"text as UTF-8":                  {textOf(store.Health{Encoding: "UTF8"}), OK, "UTF-8"},
		"synchronous off":                {durability(map[string]string{"journal_mode": "delete", "synchronous": "0", "foreign_keys": "1"}), Problem, "synchronous is 0"},
		"foreign keys off":               {durability(map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "0"}), Problem, "foreign_keys is 0"},
		"PostgreSQL without fsync":       {durability(map[string]string{"synchronous_commit": "on", "fsync": "off", "full_page_writes": "on"}), Problem, "fsync is off"},
		"PostgreSQL as it should be":     {durability(map[string]string{"synchronous_commit": "remote_apply", "fsync": "on", "full_page_writes": "on"}), OK, "remote_apply"},
		"pooler by transaction":          {poolMode("club", true), Problem, "pooler that shares connections"},
		"slow processor":                 {hashing(501*time.Millisecond, 1<<40, 1), Warning, "501 ms"},
		"little memory":                  {hashing(50*time.Millisecond, 8*password.HashMemory-1, 8), Warning, "8 at once take 152 MiB"},
		"limit of the control groups":    {hashing(50*time.Millisecond, availableMemory(1<<20), 2), Warning, "of 1024 KiB available"},
		"memory not known":               {hashing(50*time.Millisecond, 0, 64), OK, "50 ms"},
		"gateway hides the visitors":     {judgeAddress(seen(forged, forged.String(), docker.String()), true, nobody), Warning, "covers 172.17.0.1"},
		"visitor seen with a port":       {judgeAddress(seen(visitor, forged.String(), "203.0.113.9:51234"), true, nobody), OK, "203.0.113.9"},
		"proxy that writes no address":   {judgeAddress(seen(netip.MustParseAddr("10.0.0.2"), forged.String(), "unknown"), true, nobody), Problem, "is not an address"},
		"service that speaks TLS itself": {judgeAddress(httpd.Seen{Peer: visitor, Client: visitor, ForwardedFor: []string{forged.String()}}, false, nobody), OK, "is ignored"},
	} {
		if c.got.Level != c.level || !strings.Contains(c.got.Found, c.says) || (c.got.Do == "") != (c.level == OK) {
			t.Errorf("%s: %+v", name, c.got)
		}
	}
	dir := t.TempDir()
	t.Chdir(dir)
	for err, want := range map[error]string{fs.ErrPermission: "chmod u+rwx " + dir + ";", syscall.EROFS: "mount -o remount,rw"} {
		if f := unwritable(err, dir); !strings.Contains(f.Do, want) {
			t.Errorf("own folder, %v: %q", err, f.Do)
		}
	}
	must(t, os.Chmod(dir, 0o777))
	must(t, os.WriteFile("cairn.db", nil, 0o600))
	x := &examination{checked: config.Checked{Database: "cairn.db"}}
	has(t, "folder of a relative path", databaseFile(t.Context(), x).Do, "chmod o-w "+dir+";")
	for kind, want := range map[int64]string{0x6969: "NFS", 0xff534d42: "CIFS", 0x65735546: "FUSE", 0xef53: "", 0x01021994: ""} {
		same(t, kind, (disk.FileSystem{Kind: kind}).Network(), want)
	}
}

// Secrets as the service and openssl make them are never called weak.
func TestRandomSecretIsNotWeak(t *testing.T) {
	for range 500 {
		var b [48]byte
		_, _ = rand.Read(b[:])
		for _, secret := range []string{base64.RawURLEncoding.EncodeToString(b[:]), hex.EncodeToString(b[:32]),
			base64.StdEncoding.EncodeToString(b[:32]), hex.EncodeToString(b[:20]), string(b[:32])} {
			if why := weakness([]byte(secret)); why != "" {
				t.Fatalf("%q %s", secret, why)
			}
		}
	}
}

var has, must = assert.Has, assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
