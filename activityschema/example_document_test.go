package activityschema_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairn-id/cairn/activityschema"
)

func ExampleDecode() {
	document := strings.NewReader(`{
	  "bas_version": "1.0",
	  "owner": {"handle": "mira", "display_name": "Mira"},
	  "generated_at": "2026-05-17T20:00:00Z",
	  "activities": [
	    {"id": "1", "title": "Lake", "sport": "hiking", "started_at": "2026-05-17T08:30:00+02:00", "distance_m": 8200.5, "privacy": "public"},
	    {"id": "2", "title": "Home", "sport": "walking", "started_at": "2026-05-17T17:00:00+02:00", "privacy": "private"}
	  ]
	}`)
	decoded, problems, err := activityschema.Decode(context.Background(), document)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range problems {
		fmt.Printf("%q: %s\n", p.Pointer, p.Message)
	}
	if decoded == nil || decoded.Index == nil {
		return
	}
	for _, a := range decoded.Index.Activities {
		if a.Privacy != activityschema.PrivacyPublic {
			continue
		}
		fmt.Println(a.Title, a.Sport, a.StartedAt.UTC().Format(time.Kitchen))
		if a.DistanceM != nil {
			fmt.Println(*a.DistanceM, "m")
		}
	}
	// Output:
	// Lake hiking 6:30AM
	// 8200.5 m
}

func ExampleDetail() {
	start := activityschema.Time{Time: time.Date(2026, 5, 17, 8, 30, 0, 0, time.UTC)}
	detail := activityschema.Detail{
		Version: activityschema.Version,
		Activity: activityschema.Activity{
			ID:        "2026-05-17-lake",
			Title:     "Lake",
			Sport:     activityschema.SportHiking,
			StartedAt: start,
			Privacy:   activityschema.PrivacyPublic,
			DistanceM: new(8200.5),
		},
		Laps: []activityschema.Lap{{Index: 0, StartedAt: start}},
		Timeseries: activityschema.Timeseries{
			T:      activityschema.Integers{0, 1, 2},
			HRBpm:  activityschema.Column[int64]{activityschema.Some[int64](98), {}, activityschema.Some[int64](103)},
			PowerW: nil, // there was no power meter
		},
		Custom: map[string]jsontext.Value{"weather": jsontext.Value(`"fog"`)},
	}
	data, err := json.MarshalIndent(detail, "", "  ")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(data))

	detail.DistanceM = new(math.NaN())
	_, err = detail.MarshalJSON()
	fmt.Println(err)
	// Output:
	// {
	//   "bas_version": "1.0",
	//   "id": "2026-05-17-lake",
	//   "title": "Lake",
	//   "sport": "hiking",
	//   "started_at": "2026-05-17T08:30:00Z",
	//   "privacy": "public",
	//   "distance_m": 8200.5,
	//   "laps": [
	//     {
	//       "index": 0,
	//       "started_at": "2026-05-17T08:30:00Z",
	//       "duration_s": null
	//     }
	//   ],
	//   "timeseries": {
	//     "t": [
	//       0,
	//       1,
	//       2
	//     ],
	//     "hr_bpm": [
	//       98,
	//       null,
	//       103
	//     ]
	//   },
	//   "custom": {
	//     "weather": "fog"
	//   }
	// }
	// writing the detail document: "/distance_m": must be number or null, not string "NaN"
}
