package activityschema_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// halfway is 2^1024 - 2^970, the smallest number that rounds to infinity: the
// middle between the largest double and the next one if there were one.
var halfway = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 1024), new(big.Int).Lsh(big.NewInt(1), 970))

// numberIs tells by exact arithmetic whether a number is an integer, and
// whether it lies within a double.
func numberIs(t *testing.T, literal string) (integer, inRange bool) {
	t.Helper()
	mantissa, exponent, _ := strings.Cut(strings.ToLower(literal), "e")
	if len(exponent) > 6 { // beyond any arithmetic, and so clear without
		zero := strings.Trim(mantissa, "-0.") == ""
		return zero, zero || exponent[0] == '-'
	}
	n, ok := new(big.Rat).SetString(literal)
	if !ok {
		t.Fatalf("%s is no number", literal)
	}
	return n.IsInt(), new(big.Rat).Abs(n).Cmp(new(big.Rat).SetInt(halfway)) < 0
}

// checkNumber validates a document with a number, as a field and as a sample.
func checkNumber(t *testing.T, literal string) {
	t.Helper()
	integer, inRange := numberIs(t, literal)
	want := ""
	switch {
	case !inRange:
		want = activityschema.KeywordNumber
	case !integer:
		want = "type"
	}
	field, _ := in(t, `"duration_s":`+literal)
	sample := withColumn(t, "1,"+literal+",2")
	last := withColumn(t, literal)
	for _, data := range [][]byte{field, sample, last} {
		found := problems(t, data)
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || found[0].Keyword != want) {
			t.Errorf("%.80s: %.300v, want %q", literal, found, want)
		}
	}
	free, _ := in(t, `"distance_m":`+literal)
	if found := problems(t, free); (len(found) == 0) != inRange {
		t.Errorf("%.80s as a number: %.300v, in range %t", literal, found, inRange)
	}
}

// withColumn returns a minimal detail document with items in its column t.
func withColumn(t *testing.T, items string) []byte {
	t.Helper()
	text := string(document(t, "detail-minimal.json"))
	start := strings.Index(text, `"t": [`) + len(`"t": [`)
	return []byte(text[:start] + items + text[start+strings.IndexByte(text[start:], ']'):])
}

func TestNumberIsNeverTakenForAnother(t *testing.T) {
	zeros := strings.Repeat("0", 400)
	most, least := halfway.String(), new(big.Int).Sub(halfway, big.NewInt(1)).String()
	for _, literal := range []string{
		"0", "-0", "0.0", "-0.0", "0e0", "0e999", "0.000e-999999999999999999999", "0E+99999999999999999999",
		"1", "-1", "12", "1234567", "12345678", "123456789", "1234567890123456", "12345678901234567", "123456789012345678901234567890",
		"1.0", "1.5", "-1.5", "1.00000000", "1.00000001", "1.000000000000000", "1.000000000000001", "1.0000000000000000001",
		"1.00000000000000000000000000000000", "1.00000000000000000000000000000001", "1." + zeros, "1." + zeros + "1", "1" + zeros[:100] + "." + zeros + "5",
		"1234567.0", "12345678.0", "1234567.5", "12345678.5", "123456789012345.0", "123456789012345.5", "1234567890123456.5",
		"1e0", "1e3", "1E3", "1e+3", "1e-3", "10e-1", "10e-2", "1.5e1", "1.5e0", "1.25e1", "1.25e2", "100e-2", "100e-3", "1.0e-1", "2.50e1", "2.50e0",
		"1e300", "1e308", "1e309", "-1e309", "1e310", "1e99999999999999999999", "1e-400", "1e-99999999999999999999", "9e307", "17e307", "18e307",
		"0." + zeros + "1", "0." + zeros + "1e401", "0." + zeros + "1e400", "0." + zeros + "1e709", "0." + zeros + "1e710", zeros[:0] + "1" + zeros + "e-400", "1" + zeros + "e-401", "1" + zeros + "e-92", "1" + zeros + "e-91",
		"1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "17976931348623158.0e292", "0.17976931348623159e309",
		most, "-" + most, least, most + ".0", least + ".9", least + "." + zeros + "1", least[:300] + "." + least[300:] + "e9", most[:1] + "." + most[1:] + "e308", "0." + zeros + most + "e709", "0." + zeros + least + "e709",
		"1" + zeros[:307], "1" + zeros[:308], "1" + zeros[:309], "9" + zeros[:308], "99" + zeros[:307], "17" + zeros[:307], "18" + zeros[:307],
	} {
		checkNumber(t, literal)
	}
}

func TestRandomNumberIsNeverTakenForAnother(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 7))
	digits := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte("0000123456789000"[random.IntN(16)])
		}
		return b.String()
	}
	for range 1500 {
		literal := []string{"", "-"}[random.IntN(2)]
		if random.IntN(3) == 0 {
			literal += "0"
		} else {
			literal += fmt.Sprint(1+random.IntN(9)) + digits(random.IntN(20))
		}
		if random.IntN(2) == 0 {
			literal += "." + digits(1+random.IntN(40))
		}
		if random.IntN(2) == 0 {
			literal += []string{"e", "E", "e+", "e-"}[random.IntN(4)] + fmt.Sprint(random.IntN([]int{5, 50, 400}[random.IntN(3)]))
		}
		checkNumber(t, literal)
	}
}

// Of a minimum only the sign counts, and minus zero is zero.
func TestNegativeIndexIsNeverTaken(t *testing.T) {
	for literal, want := range map[string]bool{
		"0": true, "-0": true, "-0.0": true, "-0e5": true, "-0.00000000000000000000": true, "1": true, "18446744073709551616": true,
		"-1": false, "-1.0": false, "-10e-1": false, "-1e5": false, "-123456789012345678901": false, "-1e300": false,
	} {
		lap := `{"index":` + literal + `,"started_at":"2026-05-17T06:30:00Z","duration_s":null}`
		data := strings.Replace(string(document(t, "detail-minimal.json")), `"laps": []`, `"laps": [`+lap+`]`, 1)
		found := problems(t, []byte(data))
		if want && len(found) > 0 || !want && (len(found) != 1 || found[0].Keyword != "minimum") {
			t.Errorf("%s: %v, want accepted %t", literal, found, want)
		}
	}
}
