package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// What stands beside a position in custom is the owner's, and no position.
func TestFixNeverTakesWhatStandsBesideAPosition(t *testing.T) {
	folder := t.TempDir()
	for custom, want := range map[string]string{
		`{"waypoints":[["Cafe",39.03783,-94.76813,"closed at 5"],{"note":"keep me"},12]}`:                                                                         `{"waypoints":[["Cafe",null,null,"closed at 5"],{"note":"keep me"},12]}`,
		`{"waypoints":[["Cafe",39.03783,-94.76813],["Inn",39.13783,-94.86813]]}`:                                                                                  `{"waypoints":[["Cafe",null,null],["Inn",null,null]]}`,
		`{"samples":[[0,47.37129,8.54211,140],[1,47.37131,8.54215,142]],"rpe":6}`:                                                                                 `{"samples":[[0,null,null,140],[1,null,null,142]],"rpe":6}`,
		`{"mixed":[[47.37129,8.54211],"flat",[47.37131,8.54215],null,[1,2]]}`:                                                                                     `{"mixed":[null,"flat",null,null,[1,2]]}`,
		`{"places":[{"name":"Inn","at":[47.37129,8.54211]},{"name":"Cafe"}]}`:                                                                                     `{"places":[{"name":"Inn"},{"name":"Cafe"}]}`,
		`{"route":["A",47.371,8.542,"B",47.372,8.543]}`:                                                                                                           `{"route":["A",null,null,"B",null,null]}`,
		`{"line":[[47.37129,8.54211],[47.37131,8.54215]],"path":[47.37129,8.54211,47.37131,8.54215],"a":1}`:                                                       `{"a":1}`,
		`{"legs":[[[47.37129,8.54211],[47.37131,8.54215]],"swim",[["Inn",47.37129,8.54211]]]}`:                                                                    `{"legs":[null,"swim",[["Inn",null,null]]]}`,
		`{"home":["Inn",[47.37129,8.54211],{"floor":2}],"overview":{"points":"qakjDj~}jN` + "`" + `DCf@iDsB}E{CqCaE_@oDcEeBsFeA}FeBaF}A_FkAmE","copyright":"x"}}`: `{"home":["Inn",null,{"floor":2}],"overview":{"copyright":"x"}}`,
	} {
		document := `{"bas_version":"1.0","id":"a","title":"Ride","sport":"cycling","started_at":"2026-05-17T06:30:00Z","duration_s":3600,"privacy":"no_gps","laps":[],"timeseries":{"t":[]},"custom":` + custom + `}`
		source := write(t, filepath.Join(folder, "a.json"), document)
		out := t.TempDir()
		if code, found := reported(t, "--fix", "--output", out, source); code != exitDone || found[0].Written == "" {
			t.Errorf("%s: exit code %d, %+v", custom, code, found)
			continue
		}
		data, err := os.ReadFile(filepath.Join(out, "a.json"))
		if err != nil {
			t.Fatal(err)
		}
		var written struct {
			Custom json.RawMessage `json:"custom"`
		}
		if err := json.Unmarshal(data, &written); err != nil || string(written.Custom) != want {
			t.Errorf("%s became\n%s, want\n%s (%v)", custom, written.Custom, want, err)
		}
	}
}
