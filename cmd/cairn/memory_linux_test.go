package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Lines of smaps(5) as Linux writes them for a program whose loader has made a table
// read-only after it had written to it (RELRO).
const smaps = `55d0c0000000-55d0c0400000 r--p 00000000 fe:01 123 /opt/a folder/cairn
Rss:                4096 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me sd
55d0c0400000-55d0c1000000 r-xp 00400000 fe:01 123                        /opt/a folder/cairn
Rss:                8192 kB
Anonymous:             4 kB
55d0c1000000-55d0c1010000 r--p 01000000 fe:01 123                        /opt/a folder/cairn
Anonymous:            64 kB
55d0c1010000-55d0c1020000 rw-p 01010000 fe:01 123                        /opt/a folder/cairn
Anonymous:             0 kB
Swap:                  0 kB
7f0000000000-7f0000010000 r-xp 00000000 fe:01 77                         /lib/cairn
Anonymous:             0 kB
Swap:                  0 kB
7f0000011000-7f0000012000 r-xp 00000000 fe:01 78                         /usr/lib/x86_64-linux-gnu/libcrypto.so.3
Anonymous:             0 kB
Swap:                  0 kB
7f0000013000-7f0000014000 r--p 00001000 fe:01 78                         /usr/lib/x86_64-linux-gnu/libcrypto.so.3
Anonymous:             4 kB
7f0000015000-7f0000016000 r--p 00002000 fe:01 78                         /usr/lib/x86_64-linux-gnu/libcrypto.so.3
Anonymous:             0 kB
Swap:                  4 kB
7f0000020000-7f0000030000 r--p 00000000 00:00 0 
Anonymous:             0 kB
Swap:                  0 kB
`

// Of what was written to, the program would lose the changes and run on with the file's.
func TestOnlyUnchangedPagesOfTheProgramAreReleased(t *testing.T) {
	got := unchangedMappings([]byte(smaps), "/opt/a folder/cairn")
	if !slices.Equal(got, []mapping{{0x55d0c0000000, 0x55d0c0400000}, {0x7f0000011000, 0x7f0000012000}}) {
		t.Errorf("%x", got)
	}
}

// The real program goes on afterwards, with fewer pages of the file.
func TestProgramGoesOnWithoutItsPages(t *testing.T) {
	file := func() string {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "RssFile:")
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	before := file()
	releaseProgramPages()
	after := file()
	if len(strings.Fields(before)) != 2 || strings.Fields(before)[0] <= strings.Fields(after)[0] && len(strings.Fields(before)[0]) == len(strings.Fields(after)[0]) {
		t.Errorf("RssFile %s before and %s after", before, after)
	}
	if versionLine() == "" {
		t.Error("no version")
	}
}
