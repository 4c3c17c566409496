package main

import (
	"bufio"
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// releaseProgramPages takes the pages of the program's own file and of the libraries, which
// the start has read and an idle service does not need, out of the process: 15 MB of tables,
// initialisers and templates' code that would count as its memory for ever. The kernel has them in its
// page cache and puts them back where they are touched, sixteen at a time and without
// reading the disk.
//
// Only mappings that are as they are in the file: of one that the loader or a debugger has
// written to, the changes would be lost.
func releaseProgramPages() {
	file, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range unchangedMappings(maps, file) {
		// What fails stays, which is no harm.
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED)
	}
}

// isLibrary is the end of a line about a library, as libcrypto.so.3.
var isLibrary = regexp.MustCompile(`/[^/ ]+\.so(\.[0-9.]+)?$`)

type mapping struct{ start, end uintptr }

// unchangedMappings are those of a file, and of shared libraries, in the form of proc_pid_smaps(5) that cannot be
// written to, and of which no page is a copy of the process's own.
func unchangedMappings(smaps []byte, file string) (unchanged []mapping) {
	var current *mapping
	for lines := bufio.NewScanner(bytes.NewReader(smaps)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) >= 6 && !strings.HasSuffix(words[0], ":"): // start-end perms offset device inode path
			current = nil
			from, to, _ := strings.Cut(words[0], "-")
			start, err := strconv.ParseUint(from, 16, 64)
			end, err2 := strconv.ParseUint(to, 16, 64)
			if err == nil && err2 == nil && (strings.HasSuffix(lines.Text(), " "+file) || isLibrary.MatchString(lines.Text())) && (words[1] == "r--p" || words[1] == "r-xp") {
				current = &mapping{uintptr(start), uintptr(end)}
			}
		case len(words) == 5: // without a path
			current = nil
		case current != nil && (words[0] == "Anonymous:" || words[0] == "Swap:"): // a copy that was swapped out is under Swap alone
			if words[1] != "0" {
				current = nil
			} else if words[0] == "Swap:" {
				unchanged = append(unchanged, *current)
			}
		}
	}
	return unchanged
}
