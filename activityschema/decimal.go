package activityschema

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

var (
	errNoNumber  = errors.New("not a number")
	errNoInteger = errors.New("not an integer")
	errRange     = errors.New("an integer beyond 64 bits")
)

// parseDecimal reads the number that data begins with: mantissa divided by ten
// to the power of decimals. It finds the end of a valid JSON number; of what is
// none it takes what looks like one, or size 0. A number with an exponent, or
// with more digits than surely fit the mantissa, is not exact: only its size
// and negative are right.
func parseDecimal(data []byte) (mantissa uint64, decimals, size int, negative, exact bool) {
	i := 0
	if len(data) > 0 && data[0] == '-' {
		negative = true
		i = 1
	}
	first := i
	for ; i < len(data) && data[i]-'0' <= 9; i++ {
		mantissa = mantissa*10 + uint64(data[i]-'0')
	}
	digits := i - first
	if digits == 0 {
		return 0, 0, 0, false, false
	}
	if i < len(data) && data[i] == '.' {
		i++
		point := i
		for ; i < len(data) && data[i]-'0' <= 9; i++ {
			mantissa = mantissa*10 + uint64(data[i]-'0')
		}
		decimals = i - point
	}
	exact = digits+decimals <= 19 // nineteen nines fit 64 bits
	if i < len(data) && data[i]|0x20 == 'e' {
		exact = false
		for i++; i < len(data) && (isDigit(data[i]) || data[i] == '+' || data[i] == '-'); i++ {
		}
	}
	return mantissa, decimals, i, negative, exact
}

// powersOfTen are those that a double holds exactly.
var powersOfTen = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// parseNumber reads the number that data begins with as the nearest double, and
// returns its size in bytes.
func parseNumber(data []byte) (float64, int, error) {
	mantissa, decimals, size, negative, exact := parseDecimal(data)
	// One division of two exact doubles is rounded once, and so correctly
	// (Clinger, How to Read Floating Point Numbers Accurately, 1990).
	if exact && mantissa <= 1<<53 && decimals < len(powersOfTen) {
		f := float64(mantissa) / powersOfTen[decimals]
		if negative {
			f = -f
		}
		return f, size, nil
	}
	f, err := strconv.ParseFloat(string(data[:size]), 64)
	if err != nil {
		return 0, size, errNoNumber
	}
	return f, size, nil
}

// parseInteger reads the integer that data begins with, and returns its size in
// bytes. An integer may be written 1.0, 1e3 or 10e-1. Beyond 64 bits it returns
// errRange and the end of the range, of equal distance from zero.
func parseInteger(data []byte) (int64, int, error) {
	mantissa, decimals, size, negative, exact := parseDecimal(data)
	if exact && decimals == 0 && mantissa <= math.MaxInt64 {
		n := int64(mantissa)
		if negative {
			n = -n
		}
		return n, size, nil
	}
	if size == 0 {
		return 0, 0, errNoNumber
	}
	n, err := exactInteger(data[:size])
	return n, size, err
}

// exactInteger reads literal digit by digit: by way of a double, 2^53+1 would
// become 2^53.
func exactInteger(literal []byte) (int64, error) {
	unsigned, negative := bytes.CutPrefix(literal, []byte("-"))
	coefficient, power, scientific := bytes.Cut(bytes.ToLower(unsigned), []byte("e"))
	units, decimals, _ := bytes.Cut(coefficient, []byte("."))
	all := bytes.TrimLeft(append(bytes.Clone(units), decimals...), "0")
	digits := bytes.TrimRight(all, "0")
	if len(all) == 0 {
		return 0, nil
	}
	exponent := 0
	if scientific {
		var err error
		if exponent, err = strconv.Atoi(string(power)); err != nil {
			return 0, errNoInteger // an exponent so far up would be beyond a double
		}
	}
	zeros := exponent - len(decimals) + len(all) - len(digits)
	if zeros < 0 {
		return 0, errNoInteger
	}
	if len(digits)+zeros <= 19 { // 2^63 has 19 digits
		digits = append(digits, bytes.Repeat([]byte("0"), zeros)...)
		if negative {
			digits = append([]byte("-"), digits...)
		}
		if n, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
			return n, nil
		}
	}
	if negative {
		return -math.MaxInt64, errRange
	}
	return math.MaxInt64, errRange
}
