package activityschema

// timeseries looks at the columns, in one pass each and without allocating for
// a sample that is as it should be.
func (l *linter) timeseries(s *Timeseries) {
	l.time(s.T)
	n := len(s.T)
	if (s.Lat == nil) != (s.Lon == nil) {
		alone := "/timeseries/lat"
		if s.Lat == nil {
			alone = "/timeseries/lon"
		}
		l.add(CodeLatLonUnpaired, alone, "latitudes and longitudes are both there or both null")
	}
	columnLength(l, "/timeseries/lat", s.Lat, n)
	l.degrees("/timeseries/lat", s.Lat, s.Lon, 90)
	columnLength(l, "/timeseries/lon", s.Lon, n)
	l.degrees("/timeseries/lon", s.Lon, s.Lat, 180)
	columnLength(l, "/timeseries/elevation_m", s.ElevationM, n)
	columnLength(l, "/timeseries/speed_kmh", s.SpeedKmh, n)
	columnValues(l, "/timeseries/speed_kmh", s.SpeedKmh)
	columnLength(l, "/timeseries/hr_bpm", s.HRBpm, n)
	columnValues(l, "/timeseries/hr_bpm", s.HRBpm)
	columnLength(l, "/timeseries/cadence_rpm", s.CadenceRpm, n)
	columnValues(l, "/timeseries/cadence_rpm", s.CadenceRpm)
	columnLength(l, "/timeseries/power_w", s.PowerW, n)
	columnValues(l, "/timeseries/power_w", s.PowerW)
	columnLength(l, "/timeseries/temperature_c", s.TemperatureC, n)
}

func (l *linter) time(t Integers) {
	for i, v := range t {
		if v < 0 {
			l.addItem(CodeTNegative, "/timeseries/t", i, "%d seconds after the start", v)
		}
		if i > 0 && v <= t[i-1] {
			l.addItem(CodeTNotRising, "/timeseries/t", i, "%d does not come after %d", v, t[i-1])
		}
		if v > mostExact || v < -mostExact {
			l.addItem(CodeIntegerPrecision, "/timeseries/t", i, imprecise)
		}
	}
}

func columnLength[T int64 | float64](l *linter, at string, c Column[T], n int) {
	if c != nil && len(c) != n {
		l.add(CodeColumnLength, at, "%d values beside the %d of t", len(c), n)
	}
}

// degrees looks at the latitudes or the longitudes. The one that is null is
// the one reported of a pair.
func (l *linter) degrees(at string, c, other Column[float64], most float64) {
	for i, v := range c {
		switch {
		case v.Valid && !(v.Value >= -most && v.Value <= most):
			l.addItem(CodeCoordinateRange, at, i, "not between %v and %v degrees", -most, most)
		case !v.Valid && i < len(other) && other[i].Valid:
			l.addItem(CodeLatLonUnpaired, at, i, "null, but the other half of the position is there")
		}
	}
}

// columnValues looks at values that are never below zero.
func columnValues[T int64 | float64](l *linter, at string, c Column[T]) {
	for i, v := range c {
		if !v.Valid {
			continue
		}
		if v.Value < 0 {
			l.addItem(CodeNegativeValue, at, i, "%v is below zero", v.Value)
		}
		if n, ok := any(v.Value).(int64); ok && (n > mostExact || n < -mostExact) {
			l.addItem(CodeIntegerPrecision, at, i, imprecise)
		}
	}
}
