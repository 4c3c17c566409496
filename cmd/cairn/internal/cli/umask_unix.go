//go:build unix

package cli

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// OwnerOnly makes every file that the program creates private: the database holds people's data, and
// whoever has the keys can make sessions.
func OwnerOnly() { syscall.Umask(0o077) }

// EndAsGroup makes cancellation end a command together with the programs that it started.
func EndAsGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
}

// ownerBesideRoot returns the owner of a folder if the program runs as root and the folder is not
// root's. That user could not read the files that root creates there.
func ownerBesideRoot(folder string) string {
	info, err := os.Stat(folder)
	if err != nil || os.Geteuid() != 0 {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 {
		return ""
	}
	uid := strconv.FormatUint(uint64(stat.Uid), 10)
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}
