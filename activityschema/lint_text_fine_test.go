package activityschema_test

import (
	"strings"
	"testing"
)

func TestPositionNeverHidesBehindTheSignBetweenItsNumbers(t *testing.T) {
	onlyOne(t, []string{
		`"x": "47.37129 and 8.54211"`, `"x": "47.37129_8.54211"`, `"x": "47.37129:8.54211"`, `"x": "47.37129 - 8.54211"`, `"x": "'47.37129', '8.54211'"`, `"x": "https://maps.example.org/?q=47.37129+8.54211"`,
		`"x": "https://maps.example.org/?q=47.37129%208.54211"`, `"x": "https://maps.example.org/?q=47.37129%2C%208.54211"`, `"x": "https://maps.example.org/?p=47.37129~8.54211"`,
		`"x": "ride_47.37129,8.54211.gpx"`, `"x": "47.37129_8.54211.gpx"`, `"x": "home_-33.86881_151.20931.fit"`, `"x": "47.37129 und 8.54211."`, `"x": "[\"47.37129\", \"8.54211\"]"`,
		`"x": "latitude : 47,37129 ; longitude : 8,54211"`, `"x": "Latitude is 47.37129 and longitude is 8.54211"`, `"x": "lat: 47,37129 lon: 8,54211"`,
	})
	nothing(t, []string{
		`"x": "12.3456_13.4567"`, `"x": "12.34567-13.45678"`, `"x": "12.34567 km in 45.43210 min"`, `"x": "12.34567% - 13.45678%"`, `"x": "06:30:12.12345 - 06:30:13.12345"`, `"x": "30:12.123456_30:13.123456"`,
		`"x": "v12.34567_v13.45678"`, `"x": "72.35123 - 71.85123"`, `"x": "72.35123 and 71.85123"`, `"x": "12.34567km - 13.45678km"`, `"x": "12.34567.8_13.45678.9"`, `"x": "12.34567 EUR - 13.45678 EUR"`,
		`"x": "M10.12345 L20.23456 M30.34567"`, `"x": "3.5 and 4.5"`, `"x": "0.00000_0.00000"`, `"x": "200.12345_300.12345"`, `"weight": "72.35123_41.85123"`, `"x": "12.34567 x 13.45678"`,
		`"x": "lat is 40 kg, long is 30 kg"`, `"x": "lat: 40,50 kg, long: 30,25 kg"`, `"x": "flat is 47.37129 long is 8.54211"`,
	})
}

func TestPositionNeverHidesInTheAddressOfAMap(t *testing.T) {
	onlyOne(t, []string{
		`"x": "https://www.google.com/maps/place/Home/@47.371,8.542,15z"`, `"x": "https://www.google.com/maps/place/Home/data=!3d47.37129!4d8.54211"`, `"x": "https://maps.example.org/?ll=47.371,8.542"`,
		`"x": "https://maps.google.com/?q=47.37,8.54"`, `"x": "maps.google.com/maps?z=3&q=loc:47.37,8.54"`, `"x": "https://www.openstreetmap.org/#map=13/47.371/8.542"`, `"x": "https://www.bing.com/maps?cp=47.37~8.54"`,
		`"x": "https://maps.example.org/?y=47.37129&x=8.54211"`, `"x": "https://maps.example.org/?x=8.5421&zoom=3&y=47.3712"`, `"x": "https://maps.example.org/?center=-33.87%2C151.21&zoom=3"`,
	})
	nothing(t, []string{
		`"x": "3x8 @ 40.25, 45.50"`, `"x": "3x8 @40.25,45.50"`, `"x": "https://charts.example.org/?x=12.34&y=15.67"`, `"x": "https://example.org/?page=12.34,15.67"`, `"x": "https://example.org/?q=12.3,15.6"`,
		`"x": "https://example.org/?q=gel+2.5"`, `"x": "https://example.org/@runner/12.34"`, `"x": "q=12.34,15.67"`, `"x": "https://example.org/?q=112.34,215.67"`, `"x": "eq=47.37,8.54"`,
	})
}

func TestLongTextNeverKeepsLintBusyWithSignsAndAddresses(t *testing.T) {
	for _, piece := range []string{
		"12.34567_", "12.34567:", "12.34567-", ":1.23456 ", "1.23456 x", "?y=1.2345&", "?y=1.2345&x=200.1234", "?x=1.2345&y=1.2345&a=1&", "/@12.34", "#map=1/", "!3d1.23!4d", "latitude is ", "lat: 47,", "%20%2c",
		"\u221212.34567\u2009", "٤٧٫٣٧١٢٩", "\u200b", "1.", "1_",
	} {
		rest := strings.Repeat(piece, 300_000/len(piece))
		for _, privacy := range []string{"no_gps", "blur_start"} {
			keepsUp(t, piece+" "+privacy, detailWith(t, `"privacy": "`+privacy+`", "custom": {"x": "`+rest+`"}`))
		}
	}
}
