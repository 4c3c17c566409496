package templates

import "fmt"

// Menu links the pages of one area; each of these pages shows it.
type Menu struct {
	Label   string
	Entries []MenuEntry
}

// MenuEntry is a page in a menu.
type MenuEntry struct {
	Path, Text string
	Current    bool // the page being shown
}

// menu returns a Menu. shown is the name of the page being shown; each entry is three arguments: the
// name of its page, its path and its text.
func menu(label, shown string, entries ...string) (Menu, error) {
	m := Menu{Label: label}
	if len(entries)%3 != 0 {
		return m, fmt.Errorf("menu %q: an entry has a page, a path and a text", label)
	}
	for i := 0; i < len(entries); i += 3 {
		m.Entries = append(m.Entries, MenuEntry{Path: entries[i+1], Text: entries[i+2], Current: entries[i] == shown})
	}
	return m, nil
}
