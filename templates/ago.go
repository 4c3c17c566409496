package templates

import (
	"strconv"
	"time"
)

// ago says how far a time is from now, rounded as a person would: "3 hours ago", "in 14 days".
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case d < 0:
		return "in " + span(-d)
	case d < time.Minute:
		return "just now"
	default:
		return span(d) + " ago"
	}
}

func span(d time.Duration) string {
	const day = 24 * time.Hour
	rounded := func(unit time.Duration) int { return int((d + unit/2) / unit) }
	switch {
	case d < time.Minute:
		return "less than a minute"
	case rounded(time.Minute) < 60:
		return count(rounded(time.Minute), "minute")
	case rounded(time.Hour) < 24:
		return count(rounded(time.Hour), "hour")
	case rounded(day) <= 45:
		return count(rounded(day), "day")
	case rounded(30*day) < 12:
		return count(rounded(30*day), "month")
	}
	return count(max(1, rounded(365*day)), "year")
}

func count(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return strconv.Itoa(n) + " " + unit + "s"
}
