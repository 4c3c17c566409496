package activityschema_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-id/cairn/activityschema"
)

// withCustom returns a valid detail document with the members of custom.
func withCustom(t testing.TB, members string) []byte {
	t.Helper()
	return bytes.Replace(document(t, "detail-minimal.json"), []byte(`"custom": {}`), []byte(`"custom": {`+members+`}`), 1)
}

// distinct writes members of so many names.
func distinct(prefix string, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%s%d":0`, prefix, i)
	}
	return b.String()
}

// An object of any size, in any surroundings, knows its own names and no others.
func TestNameIsNeverMixedUpWithThatOfAnotherObject(t *testing.T) {
	many := distinct("n", 2000)
	for name, custom := range map[string]string{
		"siblings":            `"x":[{"a":0,"b":0},{"a":0,"b":0}],"a":0,"b":0`,
		"inside and outside":  `"a":{"a":{"a":0}},"b":[{"a":{"b":0}}]`,
		"large siblings":      `"x":[{` + many + `},{` + many + `},{"n0":0},{` + distinct("n", 40) + `},{` + distinct("n", 40) + `}]`,
		"large one inside":    distinct("n", 40) + `,"x":{` + many + `},"y":{"n0":0}`,
		"after a large one":   `"x":{` + many + `},"y":0,"n0":0`,
		"one more than few":   distinct("n", 33),
		"other spelling":      `"a":0,"A":0,"a ":0,"":0,"\u0000":0,"ä":0,"a\u0308":0`,
		"empty and nothing":   `"":0,"x":{"":0,"x":{"":{}}}`,
		"pair and its halves": `"🚴":0,"\ufffd":0,"\ufffd\ufffd":0`,
	} {
		if found := problems(t, withCustom(t, custom)); len(found) > 0 {
			t.Errorf("%s: %.300v", name, found)
		}
	}
}

func TestNameTwiceIsNeverMissed(t *testing.T) {
	long := strings.Repeat("äb", 70_000)
	for _, custom := range []string{
		`"a":0,"a":0`,
		`"":0,"":0`,
		`"a":0,"\u0061":0`,
		`"\u0061":0,"a":0`,
		`"ä":0,"\u00e4":0`,
		`"🚴":0,"\uD83d\uDEB4":0`,
		`"\/\b\f\n\r\t\"\\":0,"/\u0008\u000c\u000a\u000d\u0009\u0022\u005C":0`,
		`"a":{"a":{},"b":[{"c":0}]},"a":0`,
		`"x":[0,{"y":{"a":0,"b":0,"a":0}}]`,
		distinct("n", 31) + `,"n0":0`,
		distinct("n", 32) + `,"n0":0`,
		distinct("n", 32) + `,"n31":0`,
		distinct("n", 33) + `,"n32":0`,
		distinct("n", 3000) + `,"n2999":0`,
		`"x":{` + distinct("n", 600) + `},"y":{` + distinct("n", 40) + `,"n39":0}`,
		`"x":{` + distinct("n", 100) + `},"y":{` + distinct("n", 40) + `,"n0":0}`,
		`"` + long + `":0,"` + long + `":0`,
		`"` + long + `":0,"\u00e4b` + long[len("äb"):] + `":0`,
		`"` + strings.Repeat("a", 2<<20) + `":0,"` + strings.Repeat("a", 2<<20-1) + `\u0061":0`,
	} {
		found := problems(t, withCustom(t, custom))
		if len(found) != 1 || found[0].Keyword != activityschema.KeywordDuplicate {
			t.Errorf("%.100s: %.300v, want a duplicate", custom, found)
		}
	}
	// Listed names, and unlisted ones beside them.
	for _, c := range []struct {
		member string
		want   []string
	}{
		{`"gear":null,"device":null,"gear":null`, []string{"/gear duplicate"}},
		{`"gear":null,"ge\u0061r":null`, []string{"/gear duplicate"}},
		{`"x":null,"\u0078":null,"x":null`, []string{"/x duplicate", "/x duplicate"}},
		{`"gear":null,"x":1,"gear":5,"x":2`, []string{"/gear duplicate", "/x duplicate"}},
	} {
		data, _ := in(t, c.member)
		if diff := cmp.Diff(c.want, places(problems(t, data)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.member, diff)
		}
	}
}

// What was given up in the middle of an object leaves nothing behind for the
// next document.
func TestNameIsNeverRememberedForTheNextDocument(t *testing.T) {
	many := distinct("n", 100)
	good := withCustom(t, `"x":{"y":{`+many+`}}`)
	broken := []byte(strings.Replace(string(good), `"n99":0`, `"n99":tru`, 1))
	for range 10 {
		for data, want := range map[*[]byte]int{&broken: 1, &good: 0} {
			if _, found := answer(t, activityschema.Options{}, *data); len(found) != want {
				t.Fatalf("%.300v, want %d problems", found, want)
			}
		}
	}
}

// Half a surrogate pair in a name is refused, wherever it stands, and is not
// taken for another half or for U+FFFD.
func TestHalfANameIsNeverTaken(t *testing.T) {
	for custom, want := range map[string][]string{
		`"\ud800":0`:                    {"/custom/\ufffd utf-8"},
		`"\udfff":0`:                    {"/custom/\ufffd utf-8"},
		`"a\ud83dz":0`:                  {"/custom/a\ufffdz utf-8"},
		`"\ud83d\ud83d\udeb4":0`:        {"/custom/\ufffd🚴 utf-8"},
		`"\ud83d\n":0`:                  {"/custom/\ufffd\n utf-8"},
		`"\ud83d\u0041":0`:              {"/custom/\ufffdA utf-8"},
		`"\ud83d\\udeb4":0`:             {"/custom/\ufffd\\udeb4 utf-8"},
		`"\ud800":0,"\udc00":0`:         {"/custom/\ufffd utf-8", "/custom/\ufffd utf-8"},
		`"\ud800":0,"\ufffd":0`:         {"/custom/\ufffd utf-8"},
		`"\ufffd":0,"\ud800":0`:         {"/custom/\ufffd utf-8"},
		`"x":{"\ud800":{"\ud800":0}}`:   {"/custom/x/\ufffd utf-8", "/custom/x/\ufffd/\ufffd utf-8"},
		`"x":"\ud800","y":["\udc00"]`:   nil,
		`"\ud83d\udeb4":"\udeb4\ud83d"`: nil,
	} {
		if diff := cmp.Diff(want, places(problems(t, withCustom(t, custom))), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", custom, diff)
		}
	}
}

// A problem in the middle of unlisted members is found by its pointer.
func TestPointerNeverLosesItsWay(t *testing.T) {
	found := problems(t, withCustom(t, `"a/b":[0,{"":[[],{"~1":1e999,"x":[1e999]}],"\u0061":-1e999}],"ä":{"sport":1e999}`))
	want := []string{
		"/custom/a~1b/1//1/~01 number", "/custom/a~1b/1//1/x/0 number", "/custom/a~1b/1/a number", "/custom/ä/sport number",
	}
	if diff := cmp.Diff(want, places(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Names that were left behind take no room on the way.
	left := strings.Repeat(`{"`+strings.Repeat("a", 1000)+`":{"b":0}},`, 1200)
	found = problems(t, withCustom(t, `"x":[`+left+`{"y":1e999}]`))
	if diff := cmp.Diff([]string{"/custom/x/1200/y number"}, places(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	data, _ := in(t, `"x":[{"y":1e999}],"bbox":{"z":1e999},"gear":[{"w":1e999}]`)
	want = []string{"/x/0/y number", "/bbox/z number", "/gear/0/w number"}
	if diff := cmp.Diff(want, places(problems(t, data))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
