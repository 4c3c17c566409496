package activityschema

import (
	"net/url"
	"path"
	"strings"
)

// An address leads from an index document to another file.
type address struct {
	// inFolder are the paths in the folder that a relative address may mean:
	// from the document, as RFC 3986 has it, and from the folder, as some
	// writers of shards have it.
	inFolder []string
	// elsewhere is the path of an address with a host or from the root of
	// one, where the folder may be anywhere.
	elsewhere string
}

func addressFrom(file, reference string) (address, bool) {
	u, err := url.Parse(reference)
	switch {
	case err != nil || u.Opaque != "" || u.Path == "":
		return address{}, false
	case u.IsAbs() || u.Host != "" || strings.HasPrefix(u.Path, "/"):
		return address{elsewhere: path.Clean(u.Path)}, true
	}
	var a address
	for _, from := range [...]string{path.Dir(file), "."} {
		if p := path.Join(from, u.Path); p != ".." && !strings.HasPrefix(p, "../") {
			a.inFolder = append(a.inFolder, p)
		}
	}
	return a, true
}

// detailAddress looks at a detail_url that ends as it should.
func (c *comparison) detailAddress(l *linter, at spot, file string, s *summaryRecord) {
	a, _ := addressFrom(file, s.detailURL)
	if a.elsewhere != "" {
		// Only if the details lie in this folder must this one, too.
		if _, ok := c.files[detailPath(s.id)]; !ok && len(c.details) > 0 {
			l.add(CodeDetailMissing, at.member("detail_url"), "there is no %q in the folder", detailPath(s.id))
		}
		return
	}
	for _, p := range a.inFolder {
		if _, ok := c.files[p]; ok {
			return
		}
	}
	if len(a.inFolder) == 0 {
		l.add(CodeDetailURL, at.member("detail_url"), "leads out of the published folder")
		return
	}
	l.add(CodeDetailMissing, at.member("detail_url"), "there is no %q in the folder", a.inFolder[0])
}

// A namedShard is a file that is said to be the shard of a year.
type namedShard struct {
	file string
	year int64
}

// shard looks at a shard that an index names.
func (c *comparison) shard(file string, at spot, shard *Shard) {
	target, ok := c.shardFile(file, shard.URL)
	x := c.files[target].index
	if x == nil {
		c.partial = true
		switch {
		case !ok:
			c.in(file).add(CodeShardMissing, at.member("url"), "there is no such file in the folder")
		case c.files[target].detail != nil:
			c.in(file).add(CodeShardMissing, at.member("url"), "%q is not an index document", target)
		}
		return
	}
	if n := len(x.activities); int64(n) != shard.Count {
		c.in(file).add(CodeShardCount, at.member("count"), "%d here, but %q has %d activities", shard.Count, target, n)
	}
	// Each shard may name all the others.
	if named := (namedShard{target, shard.Year}); !c.shards[named] {
		c.shards[named] = true
		c.shardYear(named, x)
	}
}

func (c *comparison) shardYear(named namedShard, x *indexRecord) {
	for i := range x.activities {
		// Whoever made the shard may have counted in either zone.
		if s := &x.activities[i]; int64(s.year) != named.year && int64(s.startedAt.Year()) != named.year {
			c.in(named.file).add(CodeShardYear, spot{"/activities", i}.member("started_at"), "%d, in the shard of %d", s.year, named.year)
		}
	}
}

// shardFile returns the file that an address names. It is empty for an address
// that may lead to another host; false means that it leads nowhere.
func (c *comparison) shardFile(file, reference string) (string, bool) {
	a, ok := addressFrom(file, reference)
	for _, p := range a.inFolder {
		if _, there := c.files[p]; there {
			return p, true
		}
	}
	if a.elsewhere == "" {
		return "", false
	}
	for p := strings.TrimPrefix(a.elsewhere, "/"); ok; _, p, ok = strings.Cut(p, "/") {
		if _, there := c.files[p]; there {
			return p, true
		}
	}
	return "", true
}
