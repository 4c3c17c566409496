package activityschema

// isDateTime tells whether s is a date-time of RFC 3339, section 5.6. A lower
// case t or z is one, and so is the second 60 at 23:59 UTC (a leap second);
// which days had a leap second is not checked.
//
// time.Parse does not do: it takes one-digit hours, a comma before the
// fraction and offsets up to +24:60, and it knows no leap second.
func isDateTime[T string | []byte](s T) bool {
	const shape = "0000-00-00T00:00:00"
	if len(s) <= len(shape) {
		return false
	}
	for i := range len(shape) {
		switch c := s[i]; {
		case shape[i] == '0' && isDigit(c), shape[i] == c, shape[i] == 'T' && c == 't':
		default:
			return false
		}
	}
	year, month, day := 100*twoDigits(s, 0)+twoDigits(s, 2), twoDigits(s, 5), twoDigits(s, 8)
	if month < 1 || month > 12 || day < 1 || day > daysOf(month, year) {
		return false
	}
	offset, ok := offsetMinutes(s, afterFraction(s, len(shape)))
	if !ok {
		return false
	}
	hour, minute, second := twoDigits(s, 11), twoDigits(s, 14), twoDigits(s, 17)
	if hour > 23 || minute > 59 || second > 60 {
		return false
	}
	const minutes = 24 * 60
	utc := (hour*60 + minute - offset + minutes) % minutes
	return second < 60 || utc == minutes-1
}

// daysOf returns how many days month, 1 to 12, has in year.
func daysOf(month, year int) int {
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 29
	}
	return [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
}

// afterFraction returns where s goes on after a point and its digits at i; a
// point alone stays.
func afterFraction[T string | []byte](s T, i int) int {
	if s[i] != '.' || i+1 == len(s) || !isDigit(s[i+1]) {
		return i
	}
	for i++; i < len(s) && isDigit(s[i]); i++ {
	}
	return i
}

// offsetMinutes reads the time-offset that ends s at i: Z, or a sign, hours and
// minutes.
func offsetMinutes[T string | []byte](s T, i int) (int, bool) {
	switch len(s) - i {
	case 1:
		return 0, s[i] == 'Z' || s[i] == 'z'
	case 6:
	default:
		return 0, false
	}
	if s[i+3] != ':' || !isDigit(s[i+1]) || !isDigit(s[i+2]) || !isDigit(s[i+4]) || !isDigit(s[i+5]) {
		return 0, false
	}
	hours, minutes := twoDigits(s, i+1), twoDigits(s, i+4)
	if hours > 23 || minutes > 59 {
		return 0, false
	}
	switch s[i] {
	case '+':
		return hours*60 + minutes, true
	case '-':
		return -hours*60 - minutes, true
	}
	return 0, false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// twoDigits reads the two digits of s at i.
func twoDigits[T string | []byte](s T, i int) int { return int(s[i]-'0')*10 + int(s[i+1]-'0') }
