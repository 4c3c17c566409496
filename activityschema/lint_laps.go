package activityschema

// laps looks at the laps one after another and against the activity. Laps of
// which one begins a moment before the other ends are common, and so are gaps
// between laps: both are let be.
func (l *linter) laps(d *Detail) {
	t, duration := d.Timeseries.T, d.DurationS
	if duration != nil && *duration < 0 {
		duration = nil
	}
	end := 0.0 // within the samples, the duration is what is wrong, and is reported
	if duration != nil {
		end = float64(*duration)
	}
	if len(t) > 0 {
		end = max(end, float64(t[len(t)-1]))
	}
	// Between laps the clock may have stood still, and the duration be that of the clock.
	lapEnd, pauses := -1.0, 0.0 // lapEnd is that of the lap before, -1 if unknown
	next, together, before := int64(0), 0.0, l.counts[CodeLapOutside]
	for i := range d.Laps {
		lap := &d.Laps[i]
		at := spot{"/laps", i}
		if lap.Index != next {
			l.add(CodeLapsNumbered, at.member("index"), "lap %d where %d comes next", lap.Index, next)
		}
		next = lap.Index + 1 // one finding for laps that are counted from 1
		figure(l, at, "index", &lap.Index)

		if i > 0 && lap.StartedAt.Sub(d.Laps[i-1].StartedAt.Time).Seconds() < -roundingS {
			l.add(CodeLapOrder, at.member("started_at"), "starts before the lap before it")
		}
		// Sub has a range of 292 years and stays at its end.
		after := lap.StartedAt.Sub(d.StartedAt.Time).Seconds()
		if lapEnd >= 0 {
			pauses += max(0, after-lapEnd)
		}
		if lapEnd = -1; lap.DurationS != nil {
			lapEnd = after + float64(*lap.DurationS)
		}
		switch {
		case after < -roundingS:
			l.add(CodeLapOutside, at.member("started_at"), "starts before the activity")
		case duration == nil:
		case after > end+roundingS:
			l.add(CodeLapOutside, at.member("started_at"), "starts after the end of the activity")
		case lapEnd > end+pauses+2*roundingS:
			l.add(CodeLapOutside, at.member("duration_s"), "ends %.0f seconds after the activity", lapEnd-end)
		}
		l.figures(at, figuresOfLap(lap))
		if lap.DurationS != nil {
			together += float64(*lap.DurationS)
		}
	}
	if slack := roundingS * float64(len(d.Laps)+1); duration != nil && together > float64(*duration)+slack && l.counts[CodeLapOutside] == before {
		l.add(CodeLapOutside, "/laps", "the laps last %.0f seconds together, the activity %d", together, *duration)
	}
}
