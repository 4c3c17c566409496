package person

import (
	"fmt"
	"testing"
	"time"
)

func TestVisitsAreTheLatestAndBounded(t *testing.T) {
	var v visits
	now := time.Now()
	for i := range maxVisits + 1 {
		v.note(fmt.Sprint(i), now)
	}
	v.note("1", now.Add(time.Second))
	v.note("2", now.Add(-time.Second))
	if seen := v.take(); len(seen) != maxVisits || !seen["1"].After(now) || !seen["2"].Equal(now) {
		t.Errorf("%d visits, the later %v, the earlier %v", len(seen), seen["1"], seen["2"])
	}
}
