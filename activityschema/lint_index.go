package activityschema

import (
	"net/url"
	"strings"
)

func (l *linter) index(x *Index) {
	for i := range x.Shards {
		at := spot{"/shards", i}
		figure(l, at, "year", &x.Shards[i].Year)
		figure(l, at, "count", &x.Shards[i].Count)
	}
	first := make(map[string]int, len(x.Activities))
	newest := -1
	for i := range x.Activities {
		s, at := &x.Activities[i], spot{"/activities", i}
		l.id(at, s.ID)
		if j, ok := first[s.ID]; ok {
			l.add(CodeIDDuplicate, at.member("id"), "activity %d of this index has this id, too", j)
		} else {
			first[s.ID] = i
		}
		l.figures(at, figuresOfSummary(s))
		if s.DetailURL != nil && !leadsToDetail(*s.DetailURL, s.ID) {
			l.add(CodeDetailURL, at.member("detail_url"), "not the address of activities/{id}.json for the id of this activity")
		}
		l.links(at, s)
		if newest < 0 || s.StartedAt.After(x.Activities[newest].StartedAt.Time) {
			newest = i
		}
	}
	if newest >= 0 && x.Activities[newest].StartedAt.After(x.GeneratedAt.Time) {
		l.add(CodeGeneratedAt, "/generated_at", "before the start of activity %d", newest)
	}
}

// detailPath is the path of a detail document within the published folder.
func detailPath(id string) string { return "activities/" + id + ".json" }

// leadsToDetail tells whether address, relative or absolute, ends in
// activities/{id}.json.
func leadsToDetail(address, id string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Opaque == "" && (u.Scheme == "" || u.Scheme == "https" || u.Scheme == "http") &&
		strings.HasSuffix("/"+u.Path, "/"+detailPath(id))
}
