package activityschema_test

import (
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

func TestPositionNeverHidesInSignsThatAreNotASCII(t *testing.T) {
	onlyOne(t, []string{
		"\"x\": \"40.71281, \u221274.00612\"", "\"x\": \"40.71281, \u201374.00612\"", "\"x\": [\"40.71281\", \"\u221274.00612\"]", "\"x\": \"４７.３７１２９, ８.５４２１１\"", "\"x\": \"４７．３７１２９，８．５４２１１\"",
		"\"x\": \"٤٧٫٣٧١٢٩، ٨٫٥٤٢١١\"", "\"x\": \"४७.३७१२९ ८.५४२११\"", "\"x\": \"𝟒𝟕.𝟑𝟕𝟏𝟐𝟗 𝟪.𝟧𝟦𝟤𝟣𝟣\"", "\"x\": \"47.37129\u00a08.54211\"", "\"x\": \"47.37129,\u20098.54211\"", "\"x\": \"47.37129、8.54211\"",
		"\"x\": \"47.\u200b37129, 8.5\u200d4211\"", "\"x\": \"\ufeff47.371, 8.542\"", "\"home\": \"\u200e47.37 8.54\"", "\"47.37129\u00a08.54211\": 1",
		`"x": [" 47.37129 ", "8.54211 "]`, `"x": ["47,37129", "8,54211"]`, `"x": ["47.37129N", "8.54211E"]`, `"x": ["S 33.86881", "E 151.20931"]`, `"x": ["47.37129°", "8.54211°"]`,
		`"geo": ["47,37129", " 8,54211"]`,
	})
	for _, custom := range []string{
		`"lat": " 47.37129", "lon": "8.54211 "`, `"lat": "47.37129°", "lon": "8.54211°"`, `"lat": "47.37129 N", "lon": "8.54211 E"`, `"lat": "N47.37129", "lon": "E8.54211"`,
		`"lat": "47,37129", "lon": "8,54211"`, `"start_lat": "47,371", "start_long": "8,542"`, "\"lat\": \"\u221233.86881\", \"lon\": \"151.20931\"", `"latitude": ["47,37129° N"], "longitude": ["8,54211° E"]`,
	} {
		if found := customFindings(t, "{"+custom+"}"); len(found) != 2 {
			t.Errorf("%s: %+v", custom, found)
		}
	}
}

// The western and the southern half are where their letters say: on the cut track,
// and on the other side of the Earth.
func TestLetterOfAHemisphereNeverMovesAPosition(t *testing.T) {
	const track = `"privacy": "blur_start", "timeseries": {"t": [60, 61], "lat": [-33.86881, -33.86885], "lon": [-70.20931, -70.20935]}, `
	for custom, want := range map[string]int{
		`"lat":"33.86881 S","lon":"70.20931 W"`: 0, `"lat":"33.86881 N","lon":"70.20931 W"`: 2, `"x":["33.86881S","70.20931W"]`: 0, `"x":["33.86881S","70.20931E"]`: 1,
	} {
		if found := activityschema.Lint(detailWith(t, track+`"custom": {`+custom+"}")); len(found) != want {
			t.Errorf("%s: %+v", custom, found)
		}
	}
}

func TestTextOfANumberIsNeverTakenForHalfAPosition(t *testing.T) {
	nothing(t, []string{
		`"x": ["12,345", "13,456"]`, `"x": [["12,345", "13,567"], ["14,345", "15,567"]]`, `"x": ["4.1234N", "251.1234W"]`, `"x": ["12,50", "13,75"]`, `"x": ["12.34°", "14.56°"]`, `"x": ["12,5012", "12,7512"]`,
		`"lat": "left", "lon": "right"`, `"x": ["  ", "\u00a0"]`, "\"x\": \"12.3456\u201313.4567\"", "\"x\": \"12.3456 \u2013 13.4567\"", "\"x\": \"12.5\u00a0km, 13.5\u00a0km\"", `"weight": ["72,3512", "41,8512"]`,
		`"x": "１２．５０　１３．７５"`, "\"x\": \"\u200b\"", `"lat": "N", "lon": "W"`, `"x": ["N12.5S", "8.54211EW"]`,
	})
}
