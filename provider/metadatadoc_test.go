package provider

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Of the descriptions in memory that one goes which would be fetched again first, and not the one that has just come.
func TestOldDescriptionMakesRoom(t *testing.T) {
	d := newDocuments(func() time.Time { return noon }, slog.New(slog.DiscardHandler), nil)
	for i := range MaxDocuments {
		d.kept[fmt.Sprint(i)] = &keptDocument{until: noon.Add(time.Hour + time.Duration((i+500)%MaxDocuments)*time.Second)}
	}
	_, err := d.load(t.Context(), ":")
	must(t, err)
	if len(d.kept) != MaxDocuments || d.kept[":"] == nil || d.kept["500"] != nil {
		t.Errorf("%d are kept, the new one: %v, the old one: %v", len(d.kept), d.kept[":"], d.kept["500"])
	}
}

func TestNameOfADescriptionBeginsWithItsHost(t *testing.T) {
	deep := strings.Repeat("deep.", 12) + "a.example"
	for _, c := range [][3]string{
		{"a.example", "Notes", "a.example: Notes"}, {"a.example", " Notes", "a.example"}, {"a.example", strings.Repeat("x", 50), "a.example"},
		{deep, "Notes", "..." + deep[len(deep)-57:]},
	} {
		same(t, c, documentName("https://"+c[0]+"/client.json", c[1]), c[2])
	}
	same(t, "answers to localhost stay here", staysHere("https://localhost:8443/cb"), true)
}
