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

// releaseProgramPages drops the pages of the program's own file and of the libraries from the process.
// The start has read 15 MB of tables, initialisers and templates' code that an idle service does not need
// and that would count as its memory forever. The kernel keeps them in its page cache and maps them again
// when they are touched, sixteen at a time and without reading the disk.
//
// It drops only unchanged mappings: if the loader or a debugger has written to one, the changes
// would be lost.
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
		// A failure is harmless: the pages stay.
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED)
	}
}

// isLibrary matches the end of a line about a library, such as libcrypto.so.3.
var isLibrary = regexp.MustCompile(`/[^/ ]+\.so(\.[0-9.]+)?$`)

type mapping struct{ start, end uintptr }

// unchangedMappings returns the mappings of a file and of shared libraries in smaps (proc_pid_smaps(5))
// that are read-only and of which no page is a private copy.
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
			wanted := strings.HasSuffix(lines.Text(), " "+file) || isLibrary.MatchString(lines.Text())
			readOnly := words[1] == "r--p" || words[1] == "r-xp"
			if err == nil && err2 == nil && wanted && readOnly {
				current = &mapping{uintptr(start), uintptr(end)}
			}
		case len(words) == 5: // without a path
			current = nil
		case current != nil && (words[0] == "Anonymous:" || words[0] == "Swap:"): // Swap counts swapped-out copies
			if words[1] != "0" {
				current = nil
			} else if words[0] == "Swap:" {
				unchanged = append(unchanged, *current)
			}
		}
	}
	return unchanged
}
