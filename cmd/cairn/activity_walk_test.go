package main

import (
	"slices"
	"testing"
)

// As activityschema.Library takes addresses, and never a path out of the folder.
func TestShardIsNeverLookedForElsewhere(t *testing.T) {
	for _, c := range []struct {
		file, address string
		want          []string
	}{
		{"index.json", "2025.json", []string{"2025.json", "2025.json"}},
		{"shards/2025.json", "2024.json", []string{"shards/2024.json", "2024.json"}},
		{"shards/2025.json", "shards/2024.json", []string{"shards/shards/2024.json", "shards/2024.json"}},
		{"index.json", "./shards/a%20b.json?v=1#x", []string{"shards/a b.json", "shards/a b.json"}},
		{"index.json", "https://ada.example/data/2025.json", []string{"data/2025.json", "2025.json"}},
		{"index.json", "/data/../2025.json", []string{"2025.json"}},
		{"index.json", "../2025.json", nil},
		{"shards/2025.json", "../2024.json", []string{"2024.json"}},
		{"index.json", "https://ada.example/", nil},
		{"index.json", "https://ada.example", nil},
		{"index.json", "..", nil},
		{"index.json", ".", nil},
		{"index.json", "", nil},
		{"index.json", "mailto:ada@example.org", nil},
		{"index.json", "%zz", nil},
	} {
		if got := shardFiles(c.file, c.address); !slices.Equal(got, c.want) {
			t.Errorf("%q in %s: %q, want %q", c.address, c.file, got, c.want)
		}
	}
}
