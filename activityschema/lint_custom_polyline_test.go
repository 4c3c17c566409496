package activityschema_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// The first is from an answer of Google Directions.
const (
	overviewPolyline = "qakjDj~}jN`DCf@iDsB}E{CqCaE_@oDcEeBsFeA}FeBaF}A_FkAmE"
	shortPolyline    = "wxj`Hswcs@zBbBnBlBfB|A"
)

func TestPolylineNeverHidesUnderAnotherName(t *testing.T) {
	for _, custom := range []string{
		`{"overview_polyline":{"points":"LINE"}}`, `{"geometry":"LINE"}`, `{"shape":"LINE"}`, `{"route":"LINE"}`, `{"path":"LINE"}`, `{"points":"LINE"}`, `{"track":"LINE"}`,
		`{"map":"LINE"}`, `{"a":{"b":["x","LINE"]}}`, `{"note":"LINE"}`, `{"LINE":1}`, `{"position":"LINE"}`, `{"home":"LINE"}`,
	} {
		if got := customFindings(t, strings.ReplaceAll(custom, "LINE", overviewPolyline)); len(got) != 1 {
			t.Errorf("%s: %v", custom, got)
		}
	}
	for _, custom := range []string{`{"overview_polyline":{"points":"` + shortPolyline + `"}}`, `{"shape":"` + shortPolyline + `"}`} {
		if got := customFindings(t, custom); len(got) != 1 {
			t.Errorf("%s: %v", custom, got)
		}
	}
	// Six decimals, and across the antimeridian.
	var way, across [][2]float64
	for i := range 20 {
		way = append(way, [2]float64{5.6 + float64(i)/50, -0.19 - float64(i*i)/900})
		lon := 179.97 + float64(i)*0.003
		if lon > 180 {
			lon -= 360
		}
		across = append(across, [2]float64{-17.1 + float64(i)/1000, lon})
	}
	for _, line := range []string{encoded(way, 6), encoded(across, 5)} {
		if got := customFindings(t, `{"data":`+line+`}`); len(got) != 1 {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestKeyIsNeverTakenForAPolyline(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("interval session WarmUp Tempo threshold recovery CoolDown Over Under VO2max easy Hills Alpe du Zwift Watopia HillyRoute power Zone")
	texts := []string{
		"interval|warmup|tempo|threshold|cooldown", "WarmUp|Interval|CoolDown|Stretch|Done|ABCDEFGH", "????????????????????????", "~~~~~~~~~~~~~~~~~~~~~~~~", "@@@@@@@@@@@@@@@@@@@@@@@@", "____________________^^^^",
		`\\server\Share\Name\Of\A\Folder`, "[[A][B][C][D][E][F][G][H]]", "{A}{B}{C}{D}{E}{F}{G}{H}{I}", "Alpe|Du|Zwift", "ABCDEFGHIJKLMNOPQRSTUVWXYZ[]", "Mira@Home_Of_Riders_And_Runners", "^_^^_^^_^^_^^_^^_^^_^^_^",
	}
	for range 3000 {
		b := make([]byte, 15+random.IntN(150))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		texts = append(texts, base64.StdEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b), hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)))
		var some []string
		for range 2 + random.IntN(8) {
			some = append(some, words[random.IntN(len(words))])
		}
		for _, between := range []string{"_", "|", "", "~", "@"} {
			texts = append(texts, strings.Join(some, between))
		}
	}
	for _, name := range []string{"id", "route"} {
		for _, text := range texts {
			value, err := json.Marshal(map[string]string{name: text})
			if err != nil {
				t.Fatal(err)
			}
			if got := customFindings(t, string(value)); len(got) > 0 {
				t.Errorf("%s: %v", value, got)
			}
		}
	}
}
