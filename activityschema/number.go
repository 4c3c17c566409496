package activityschema

import (
	"math"
	"strconv"
	"strings"
)

// classify reports whether a number is an integer, and whether it is within the range of a double.
// 1.0, 1e3 and 10e-1 are integers; 1.0000000000000000001 is not, although the nearest double is.
func classify(raw []byte) (kind kinds, inRange bool) {
	kind, plain := kindInteger, len(raw) <= 300
	for _, c := range raw {
		if c == '.' {
			kind, plain = kindFraction, plain && raw[len(raw)-1] != '0'
		}
		plain = plain && c <= '9' // no e
	}
	if plain {
		return kind, true
	}
	kind = kindFraction
	if digits, exponent := decimal(raw); digits == "" || exponent >= 0 {
		kind = kindInteger
	}
	_, err := strconv.ParseFloat(string(raw), 64)
	return kind, err == nil
}

// decimal returns the digits of a number, without leading and trailing zeros, and the power of
// ten to multiply them by.
func decimal(raw []byte) (digits string, exponent int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(string(raw), "-")), "e")
	if power != "" {
		var err error
		exponent, err = strconv.Atoi(power)
		if err != nil || exponent > math.MaxInt32 || exponent < math.MinInt32 {
			exponent = math.MaxInt32
			if power[0] == '-' {
				exponent = math.MinInt32
			}
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = strings.TrimRight(whole+fraction, "0")
	exponent += len(whole) - len(digits)
	return strings.TrimLeft(digits, "0"), exponent
}

func isZero(raw []byte) bool {
	digits, _ := decimal(raw)
	return digits == ""
}

// integer returns an integer, or the nearest one of 64 bits.
func integer(raw []byte) (n int64, fits bool) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err == nil {
		return n, true
	}
	digits, exponent := decimal(raw)
	if digits == "" {
		return 0, true
	}
	if n = math.MaxInt64; raw[0] == '-' {
		n, digits = math.MinInt64, "-"+digits
	}
	if exponent < 0 || len(digits)+exponent > len("-9223372036854775808") {
		return n, false
	}
	if exact, err := strconv.ParseInt(digits+strings.Repeat("0", exponent), 10, 64); err == nil {
		return exact, true
	}
	return n, false
}
