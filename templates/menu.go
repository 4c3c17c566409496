package templates

import "fmt"

// Menu leads to the pages of one area, beside each of them.
type Menu struct {
	Label   string
	Entries []MenuEntry
}

// MenuEntry is a page in a menu.
type MenuEntry struct {
	Path, Text string
	Current    bool // it is the page that is shown
}

// menu makes a Menu of its label, the name of the page that is shown and, for each entry, the name of its page, its path and its text.
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
