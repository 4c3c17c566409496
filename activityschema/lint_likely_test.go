package activityschema_test

import (
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// onlyOne fails unless each member of custom, in a no_gps activity, is reported once.
func onlyOne(t *testing.T, customs []string) {
	t.Helper()
	for _, custom := range customs {
		if found := customFindings(t, "{"+custom+"}"); len(found) != 1 {
			t.Errorf("%s: %+v", custom, found)
		}
	}
}

// nothing fails if any of the members of custom is reported.
func nothing(t *testing.T, customs []string) {
	t.Helper()
	for _, custom := range customs {
		for _, privacy := range []string{"no_gps", "blur_start"} {
			if found := activityschema.Lint(detailWith(t, `"privacy": "`+privacy+`", "custom": {`+custom+`}`)); len(found) > 0 {
				t.Errorf("%s: %s: %+v", privacy, custom, found)
			}
		}
	}
}

// A number of JSON loses the zeros at its end, one coordinate in ten the last of four.
func TestZeroAtTheEndOfACoordinateNeverHidesThePosition(t *testing.T) {
	onlyOne(t, []string{
		`"secret": [40.7128, -74.006]`, `"secret": [-74.006, 40.7128]`, `"secret": [47.37129, 8.54]`, `"secret": [47.371, 8.5421, 412.3]`, `"secret": {"p": [47.371, 8.5421]}`,
		`"start": [52.52, 13.405]`, `"END": [52.52, 13.405]`, `"from": [47.3713, 8.54]`, `"to": [47.371, 8.54]`, `"arrivée": [47.371, 8.54]`, `"start_point": [52.52, 13.405]`,
		`"maison": [48.85, 2.35]`, `"casa": "41.39 2.17"`, `"Zuhause": [52.52, 13.41]`, `"garage": [47.37, 8.54]`,
	})
	nothing(t, []string{
		`"secret": [47.371, 8.542]`, `"secret": [47.3713, 8.54]`, `"secret": [47.37129, 8.5]`, `"end": [10.55, 20.33]`, `"end": [10.555, 20.3]`, `"start": [98.12, 72.12]`, `"start": [3.125, 3.75]`,
		`"start_time": [10.555, 20.33]`, `"end_reason": [10.555, 20.33]`, `"from_date": [10.555, 20.33]`, `"finish_order": [10.555, 20.33]`, `"start_hr": [10.555, 20.33]`, `"from_to": [10.555, 20.33]`,
		`"start": "10.55, 20.33"`, `"end": "4f8d2b9c"`, `"from": [12345678, 87654321]`, `"start": [1, 2, 3, 4]`, `"end": [1747463412, 1747467000]`, `"to": "2026-05-17"`,
	})
}

// An app may write degrees as integers, as FIT and Google Takeout do.
func TestPositionInIntegersNeverHidesInAnArray(t *testing.T) {
	onlyOne(t, []string{
		`"home": [473712900, 85421100]`, `"coords": [473712900, 85421100]`, `"latlng": [565168000, 101908000]`, `"coordinates": [85421100, 473712900]`,
		`"route": [473712900, 85421100, 473713900, 85431100]`, `"coords": [[47371290, 8542110], [47371390, 8542210]]`, `"location": {"coordinates": [47371290, 8542110]}`,
	})
	nothing(t, []string{
		`"secret": [473712900, 85421100]`, `"route": [12345678, 23456789]`, `"place": [3, 120000000]`, `"position": [1747463412, 1747467000]`, `"home": [900000, 473712900]`,
		`"waypoints": [1747463412, 1747463512, 1747463612, 1747463712]`, `"coords": [3, 400]`, `"location": [3100000000000000000, 3200000000000000000]`,
	})
}

// What is measured on both sides, or twice, is less than one apart; and what is named
// for a measure is one, whatever else is measured with it.
func TestMeasureBesideAnotherIsNeverTakenForAPosition(t *testing.T) {
	for _, name := range []string{
		"gct_balance", "hr_drift", "pace_hr", "powerHr", "speed_hr", "grade_speed", "normalized_power", "running_power", "power_curve", "wind_gust", "respiratory_rate", "decoupling",
		"hrv_baseline", "dew_point", "gear_ratio", "step_length", "dfa_a1", "training_load", "efficiency_factor", "wkg", "ftp_wkg", "lr", "left_right", "knee_flexion", "hip_angle", "rates", "ci",
		"coefficients", "weights", "elevation_gain", "tyres_bar", "max_kph", "kph", "tyre_pressure_bar", "soc", "thresholds",
	} {
		nothing(t, []string{`"` + name + `": [72.3512, 41.8512]`, `"` + name + `": "72.3512, 41.8512"`})
	}
	nothing(t, []string{
		`"x": [49.8123, 50.1877]`, `"x": [49.81234567, 50.18765432]`, `"x": "49.8123 / 50.1877"`, `"x": "Weight 72.3512 / 71.8512"`, `"x": ["72.3512", "71.8512"]`, `"x": [[3.1234, 3.2345], [3.2234, 3.3345]]`,
		`"lab": [47.3713, 8.5421, 12.3456]`, `"attitude": [2.1234, -11.1234, 17.1234]`, `"mag": [[21.12345, -9.81234, 40.51234], [21.13345, -9.82234, 40.52234]]`,
	})
	onlyOne(t, []string{
		`"x": [37.06123, 38.38212]`, `"home": [37.06123, 37.38212]`, `"coords": [37.06, 37.38]`, `"x": "N 37.0612, E 37.3821"`, `"x": "37.06123, 37.38212"`, `"power_location": [47.3712, 8.5421]`,
		`"hr_start": [47.3712, 8.5421]`, `"favourite_bar": [47.3712, 8.5421]`, `"tavern": [47.3712, 8.5421]`,
		`"x": [47.37129, 8.54211, 412.345]`, `"x": [8.54211, 47.37129, 412]`, `"home": [47.3712, 8.5421, 412.3456]`,
	})
}
