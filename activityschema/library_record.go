package activityschema

import (
	"hash/maphash"
	"math"
	"strings"
	"time"
	"unique"
)

// facts are what a summary and a detail both say, in little space and without
// a pointer into the document they were read from.
type facts struct {
	id                               string
	title                            uint64 // hash
	sport, subSport, source, privacy unique.Handle[string]
	startedAt                        time.Time // in UTC: a zone would cost more than the time
	numbers                          [len(numberNames)]float64
}

// numberNames are the members in facts.numbers, where NaN stands for null.
var numberNames = [...]string{
	"distance_m", "duration_s", "moving_time_s", "elevation_gain_m", "avg_speed_kmh",
	"max_speed_kmh", "avg_hr_bpm", "max_hr_bpm", "avg_cadence_rpm", "avg_power_w",
}

// titles is the seed of the titles' hashes.
var titles = maphash.MakeSeed()

func orNaN[T int64 | float64](v *T) float64 {
	if v == nil {
		return math.NaN()
	}
	return float64(*v)
}

func orEmpty[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

func (f *facts) setNumbers(g figures) {
	f.numbers = [...]float64{
		orNaN(g.distanceM), orNaN(g.durationS), orNaN(g.movingTimeS), orNaN(g.elevationGainM), orNaN(g.avgSpeedKmh),
		orNaN(g.maxSpeedKmh), orNaN(g.avgHRBpm), orNaN(g.maxHRBpm), orNaN(g.avgCadenceRpm), orNaN(g.avgPowerW),
	}
}

// An indexRecord is what is kept of an index document.
type indexRecord struct {
	shards     []Shard
	activities []summaryRecord
}

// A summaryRecord is what is kept of an activity in an index.
type summaryRecord struct {
	facts
	year      int // of the start, in the zone it is written with
	detailURL string
}

func recordOfIndex(x *Index) *indexRecord {
	r := &indexRecord{shards: make([]Shard, len(x.Shards)), activities: make([]summaryRecord, len(x.Activities))}
	for i, shard := range x.Shards {
		r.shards[i] = Shard{Year: shard.Year, URL: strings.Clone(shard.URL), Count: shard.Count}
	}
	for i := range x.Activities {
		s := &x.Activities[i]
		r.activities[i] = summaryRecord{
			facts: facts{
				id:        strings.Clone(s.ID),
				title:     maphash.String(titles, s.Title),
				sport:     unique.Make(string(s.Sport)),
				subSport:  unique.Make(orEmpty(s.SubSport)),
				source:    unique.Make(orEmpty(s.Source)),
				privacy:   unique.Make(string(s.Privacy)),
				startedAt: s.StartedAt.UTC(),
			},
			year:      s.StartedAt.Year(),
			detailURL: strings.Clone(orEmpty(s.DetailURL)),
		}
		r.activities[i].setNumbers(figuresOfSummary(s))
	}
	return r
}

// A detailRecord is what is kept of a detail document.
type detailRecord struct {
	facts
	duplicateOf string
	own, shown  []position // where the activity begins and ends: see endsOf
}

func recordOfDetail(d *Detail) *detailRecord {
	r := &detailRecord{
		facts: facts{
			id:        strings.Clone(d.ID),
			title:     maphash.String(titles, d.Title),
			sport:     unique.Make(string(d.Sport)),
			subSport:  unique.Make(orEmpty(d.SubSport)),
			source:    unique.Make(orEmpty(d.Source)),
			privacy:   unique.Make(string(d.Privacy)),
			startedAt: d.StartedAt.UTC(),
		},
		duplicateOf: strings.Clone(orEmpty(d.DuplicateOf)),
	}
	r.own, r.shown = endsOf(d)
	r.setNumbers(figuresOf(d))
	return r
}

func (f *facts) is(privacy Privacy) bool { return f.privacy.Value() == string(privacy) }
