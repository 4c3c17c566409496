package templates

import "fmt"

// Menu links the pages of one area; each of these pages shows it. On a phone, Rest is folded.
type Menu struct {
	Label       string
	First, Rest []menuEntry
}

// menuEntry is a page in a menu.
type menuEntry struct {
	Icon, Path, Text string
	Current          bool // the page being shown
}

// unfolded is how many entries of a menu a phone shows.
const unfolded = 3

// counted returns the text of an entry with the number of what waits there, if anything does.
func counted(text string, n int) string {
	if n == 0 {
		return text
	}
	return fmt.Sprintf("%s (%d)", text, n)
}

// menu returns a Menu. shown is the name of the page being shown; each entry is four arguments: the
// name of its page, its icon, its path and its text.
func menu(label, shown string, entries ...string) (Menu, error) {
	m := Menu{Label: label}
	if len(entries)%4 != 0 {
		return m, fmt.Errorf("menu %q: an entry has a page, an icon, a path and a text", label)
	}
	for i := 0; i < len(entries); i += 4 {
		e := menuEntry{Icon: entries[i+1], Path: entries[i+2], Text: entries[i+3], Current: entries[i] == shown}
		if i/4 < unfolded {
			m.First = append(m.First, e)
		} else {
			m.Rest = append(m.Rest, e)
		}
	}
	return m, nil
}
