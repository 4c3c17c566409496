package activityschema_test

import (
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// Sensors write many digits, and pairs of them: left and right, average and
// highest, one a lap.
func TestSensorIsNeverTakenForAPosition(t *testing.T) {
	for _, custom := range []string{
		`"smo2": [61.1234, 58.2345], "thb": [12.3123, 12.4123]`, `"muscle_oxygen": [61.1234, 58.2345]`, `"total_hemoglobin_conc": [12.3123, 12.4123]`, `"SmO2_Left": [61.1234, 58.2345]`,
		`"core_temp": [37.1234, 38.0123]`, `"core": [37.1234, 38.0123]`, `"skinTemperature": [33.1234, 34.0123]`, `"gap": [4.5123, 4.4812]`, `"avg_gap": [4.5123, 4.4812]`,
		`"imu": [[0.1234, 9.8123, 0.5123], [0.1334, 9.7123, 0.4123]]`, `"imu": {"accel": [1.1234, 9.8123, 0.5123], "gyroscope": [1.1234, -3.8123, 0.5123]}`, `"imu_samples": [[1.1234, 9.8123, 0.5123]]`,
		`"zones_pct": [12.3456, 45.6789]`, `"zone_percent": [12.3456, 45.6789]`, `"zonesPct": [12.3456, 45.6789]`, `"decoupling_pct": [3.1234, 4.2345]`, `"drift-bpm": [3.1234, 4.2345]`,
		`"latency": [12.1234, 15.2345]`, `"latency_ms": [12.1234, 15.2345]`, `"software": "18.22, 4.10"`, `"app_version": "18.2234, 4.1012"`,
		`"left_torque_effectiveness": [71.1234, 68.4321]`, `"pedal_smoothness": [21.1234, 22.4321]`, `"power_phase": [[12.3456, 101.1234], [13.4567, 102.2345]]`, `"stance_time_balance": [49.8123, 50.1877]`,
		`"leg_spring_stiffness": [9.1234, 9.2345]`, `"respiration_rate": [32.1234, 33.2345]`, `"enhanced_speed": [3.1234, 3.2345]`, `"heart_rate": [61.1234, 72.2345]`,
		`"wind": [3.1234, -2.3456]`, `"gps_speed": [3.1234, 3.2345]`, `"slope_deg": [4.1234, 5.2345]`, `"quaternion": [1.1234, 2.1234, 0.1234, 0.5123]`, `"spo2": [97.1234, 96.2345]`, `"vo2max": [51.1234, 52.2345]`,
		// Two numbers of two decimals, or exercises, as a whole text.
		`"x": "4.25 4.75"`, `"tyres": "4.85 / 5.05"`, `"x": "12.50, 13.75"`, `"x": "[72.35, 71.85]"`, `"x": "Lat: 40 kg, Long: 3x8"`, `"x": "lat: 40.5kg, long: 3.5kg"`, `"x": "Lat: 3x8, Long: 12"`,
	} {
		for _, privacy := range []string{"no_gps", "blur_start"} {
			if found := activityschema.Lint(detailWith(t, `"privacy": "`+privacy+`", "custom": {`+custom+`}`)); len(found) > 0 {
				t.Errorf("%s: %s: %+v", privacy, custom, found)
			}
		}
	}
}

// A name that only holds the word of a measure, and a text that has the digits of
// a position, hide none.
func TestPositionIsNeverHiddenByTheWordOfAMeasure(t *testing.T) {
	for _, custom := range []string{
		`"start_speed_at": [47.37129, 8.54211]`, `"corepoint": [47.37129, 8.54211]`, `"gap_start": [47.37129, 8.54211]`, `"power": {"start": [47.37129, 8.54211]}`, `"point_c": [47.37129, 8.54211]`,
		`"ms": [47.37129, 8.54211]`, `"speed_data": [[47.37129, 8.54211, 3.2]]`, `"elevation": [[8.54211, 47.37129, 412.3]]`, `"wind_location": [47.37129, 8.54211]`, `"maxSpeedPosition": [47.37129, 8.54211]`,
		`"x": "47.371, 8.542"`, `"x": "N 47.37, E 8.54"`, `"x": "47.37° 8.54°"`, `"x": "lat: 47.4, long: 8.5"`, `"x": "lat=47&lon=8"`, `"x": "{\"lat\": 47.37129, \"long\": 8.54211}"`, `"place": "47.37 8.54"`,
	} {
		if found := customFindings(t, "{"+custom+"}"); len(found) != 1 {
			t.Errorf("%s: %+v", custom, found)
		}
	}
}
