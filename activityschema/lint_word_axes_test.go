package activityschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPositionAfterAnUnknownWordIsNeverShown(t *testing.T) {
	for custom, want := range map[string]string{
		`"house_lat": 47.37129, "house_lng": 8.54211`:                      "house_lat house_lng",
		`"office_lat": 47.4, "office_lon": 8.5`:                            "office_lat office_lon",
		`"apartmentLatitude": "47.37129", "apartmentLongitude": "8.54211"`: "apartmentLatitude apartmentLongitude",
		`"weather": {"weatherLatitude": 47.37, "weather_longitude": 8.54}`: "weather/weatherLatitude weather/weather_longitude",
		`"GRANDMA_LAT": 47.37129, "GRANDMA_LON": 8.54211`:                  "GRANDMA_LAT GRANDMA_LON",
		`"shop_lat": 47.37129, "shop_long": 8.54211`:                       "shop_lat shop_long",
		`"gym lat": [47.37129, 47.37139], "gym lng": [8.54211, 8.54221]`:   "gym lat gym lng",
		`"a": [{"club-lat": 473712912, "club-lng": 85421100}]`:             "a/0/club-lat a/0/club-lng",
		`"pub_lat": 47.37129, "pub_lng": 8.54211, "bar_lat": 3.25`:         "pub_lat pub_lng",
		`"pub_lat": [47.37129, 8.54211]`:                                   "pub_lat",
		`"pub_lat": [47.37129, 8.54211], "pub_lng": 8.54211`:               "pub_lat pub_lng",
	} {
		if diff := cmp.Diff(want, pointersIn(t, `"privacy": "no_gps", "custom": {`+custom+`}`)); diff != "" {
			t.Errorf("%s: (-expected +found)\n%s", custom, diff)
		}
	}
	const track = `"privacy": "blur_start", "timeseries": {"t": [60, 62], "lat": [47.01, 47.0101], "lon": [8, 8]}, `
	for custom, want := range map[string]string{
		`"club_lat": 47.0101, "club_lng": 8.00001`: "",
		`"club_lat": 47.0201, "club_lng": 8.00001`: "club_lat club_lng",
	} {
		if got := pointersIn(t, track+`"custom": {`+custom+`}`); got != want {
			t.Errorf("%s: %s", custom, got)
		}
	}
}

func TestUnknownWordBeforeHalfAPositionIsNeverAPosition(t *testing.T) {
	for _, custom := range []string{
		`"net_lat": 12.512, "net_loss": 0.5`, `"house_lat": 47.37129`, `"house_lng": 8.54211`, `"house_lat": 47.37129, "office_lng": 8.54211`, `"house_lat": 0, "house_lng": 0`, `"house_lat": null, "house_lng": null`,
		`"pull_lat": 47.5, "pull_long": 12.5`, `"salat": 12.512, "salon": 13.512`, `"flat": 12.512, "flong": 13.512`, `"house_lat": "yes", "house_lng": "no"`, `"house_lat": {"house_lng": 8.54211}`, `"_lat": "", "_": 1`,
	} {
		for _, privacy := range []string{"no_gps", "blur_start"} {
			if got := pointersIn(t, `"privacy": "`+privacy+`", "custom": {`+custom+`}`); got != "" {
				t.Errorf("%s: %s: %s", privacy, custom, got)
			}
		}
	}
}

func TestManyWordsBeforeAxesNeverKeepLintBusy(t *testing.T) {
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, `"w%d_lat": 1.1234, "w%d_lng": 2.2345, "q%d_lat": [1.12345, 2.2345], `, i, i, i)
	}
	for _, privacy := range []string{"no_gps", "blur_start"} {
		keepsUp(t, privacy, detailWith(t, `"privacy": "`+privacy+`", "custom": {`+b.String()+`"z": 1}`))
	}
}
