package activityschema_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

// in returns a minimal detail document with one member more, and the offset of
// that member.
func in(t testing.TB, member string) ([]byte, int64) {
	t.Helper()
	data := document(t, "detail-minimal.json")
	at := bytes.IndexByte(data, '{') + 1
	return slices.Concat(data[:at], []byte(member+","), data[at:]), int64(at)
}

// Each keyword's problem says where it is, what is there and what should be.
func TestProblemNeverLeavesAQuestionOpen(t *testing.T) {
	wide := strings.Repeat("ü", 59)
	for _, c := range []struct{ member, at, keyword, found, expected, message string }{
		{`"gear": 5`, "5", "type", "integer 5", "string or null", "must be string or null, not integer 5"},
		{`"gear": -2.5e0`, "-2.5", "type", "number -2.5e0", "string or null", "must be string or null, not number -2.5e0"},
		{`"gear": true`, "true", "type", "boolean true", "string or null", "must be string or null, not boolean true"},
		{`"gear": [1]`, "[1]", "type", "array", "string or null", "must be string or null, not array"},
		{`"gear": {"x": 1}`, "{", "type", "object", "string or null", "must be string or null, not object"},
		{`"duration_s": 2.5`, "2.5", "type", "number 2.5", "integer or null", "must be integer or null, not number 2.5"},
		{`"duration_s": "x\n\u0041é"`, `"x`, "type", `string "x\nAé"`, "integer or null", `must be integer or null, not string "x\nAé"`},
		{`"bbox": [1, null, 3, 4]`, "null", "type", "null", "number", "must be number, not null"},
		{`"bbox": [1, 2, 3, "4"]`, `"4"`, "type", `string "4"`, "number", `must be number, not string "4"`},
		{`"bbox": [1]`, "[1]", "minItems", "array of 1 item", "an array of at least 4 items", "must be an array of at least 4 items, not array of 1 item"},
		{`"bbox": [1, 2, 3, 4, 5]`, "[1, 2", "maxItems", "array of 5 items", "an array of at most 4 items", "must be an array of at most 4 items, not array of 5 items"},
		{`"sub_sport": "Road"`, `"Road"`, "enum", `string "Road"`, `one of "road", "mountain", "gravel", "indoor", "trail", "track" or null`, `must be one of "road", "mountain", "gravel", "indoor", "trail", "track" or null, not string "Road"`},
		{`"wind": {"laps": []}`, `"wind"`, "additionalProperties", `member "wind"`, "", `member "wind" is not part of the format here`},
		{`"w\u0131nd": 1`, `"w\u`, "additionalProperties", `member "wınd"`, "", `member "wınd" is not part of the format here`},
		{`"gear":` + " \n\t" + `1` + strings.Repeat("0", 100), `100`, "type", "integer 1" + strings.Repeat("0", 59) + "...", "string or null", ""},
		{`"gear": 0.` + strings.Repeat("1", 58), `0.1`, "type", "number 0." + strings.Repeat("1", 58), "string or null", ""},
		{`"gear": 0.` + strings.Repeat("1", 59), `0.1`, "type", "number 0." + strings.Repeat("1", 58) + "...", "string or null", ""},
		{`"duration_s": "` + wide + `x"`, `"ü`, "type", `string "` + wide + `x"`, "integer or null", ""},
		{`"duration_s": "` + wide + `xy"`, `"ü`, "type", `string "` + wide + `x"...`, "integer or null", ""},
		{`"duration_s": "` + strings.Repeat("🚲", 100) + `"`, `"🚲`, "type", `string "` + strings.Repeat("🚲", 60) + `"...`, "integer or null", ""},
		{`"` + strings.Repeat("🚲", 100) + `": 1`, `"🚲`, "additionalProperties", `member "` + strings.Repeat("🚲", 60) + `"...`, "", ""},
	} {
		data, base := in(t, c.member)
		found := problems(t, data)
		if len(found) != 1 {
			t.Errorf("%s: %+v, want one problem", c.member, found)
			continue
		}
		p := found[0]
		if at := base + int64(strings.Index(c.member, c.at)); p.Offset != at {
			t.Errorf("%s: offset %d, want %d", c.member, p.Offset, at)
		}
		if c.message == "" {
			c.message = p.Message
		}
		got := []string{p.Keyword, p.Found, p.Expected, p.Message}
		if diff := cmp.Diff([]string{c.keyword, c.found, c.expected, c.message}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.member, diff)
		}
	}
}

// What the edges of the schema's other keywords look like.
func TestProblemOfEachTableNeverLosesItsPlace(t *testing.T) {
	const start = `{"laps":[{"index":-1,"started_at":"today","duration_s":null},{"duration_s":1}],` +
		`"bas_version":"1.1","timeseries":{},"id":"","title":"","sport":"other","started_at":"2026-05-17T06:30:00Z","privacy":"public"}`
	at := func(text string) int64 { return int64(strings.Index(start, text)) }
	want := []activityschema.Problem{
		{Pointer: "", Offset: 0, Keyword: "required", Expected: `member "custom"`, Message: `member "custom" is missing`},
		{
			Pointer: "/laps/0/index", Offset: at("-1"), Keyword: "minimum", Found: "integer -1", Expected: "0 or more",
			Message: "must be 0 or more, not integer -1",
		},
		{
			Pointer: "/laps/0/started_at", Offset: at(`"today"`), Keyword: "format", Found: `string "today"`,
			Expected: "a date-time of RFC 3339 with its zone, such as 2026-05-17T08:30:00Z",
			Message:  `must be a date-time of RFC 3339 with its zone, such as 2026-05-17T08:30:00Z, not string "today"`,
		},
		{Pointer: "/laps/1", Offset: at(`{"duration_s":1}`), Keyword: "required", Expected: `member "index"`, Message: `member "index" is missing`},
		{Pointer: "/laps/1", Offset: at(`{"duration_s":1}`), Keyword: "required", Expected: `member "started_at"`, Message: `member "started_at" is missing`},
		{Pointer: "/bas_version", Offset: at(`"1.1"`), Keyword: "const", Found: `string "1.1"`, Expected: `"1.0"`, Message: `must be "1.0", not string "1.1"`},
		{Pointer: "/timeseries", Offset: at(`{},"id"`), Keyword: "required", Expected: `member "t"`, Message: `member "t" is missing`},
		{
			Pointer: "/id", Offset: at(`"","title"`), Keyword: "minLength", Found: `string ""`, Expected: "a string of at least 1 character",
			Message: `must be a string of at least 1 character, not string ""`,
		},
	}
	if diff := cmp.Diff(want, problems(t, []byte(start))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A document of neither form, or that is no object, has one problem.
func TestDocumentOfNoFormNeverHasProblemsWithin(t *testing.T) {
	const forms = "an index document (owner, generated_at, activities) or an activity detail document (id, laps, timeseries, custom)"
	for text, want := range map[string]activityschema.Problem{
		` {"bas_version": 1, "x": 2}`: {Offset: 1, Keyword: "oneOf", Found: "object", Expected: forms, Message: "must be " + forms},
		"\n\n[{\"x\": 1}, null]":      {Offset: 2, Keyword: "type", Found: "array", Expected: "object", Message: "must be object, not array"},
		`null`:                        {Keyword: "type", Found: "null", Expected: "object", Message: "must be object, not null"},
		`false `:                      {Keyword: "type", Found: "boolean false", Expected: "object", Message: "must be object, not boolean false"},
		`"laps"`:                      {Keyword: "type", Found: `string "laps"`, Expected: "object", Message: `must be object, not string "laps"`},
		` 1e2`:                        {Offset: 1, Keyword: "type", Found: "integer 1e2", Expected: "object", Message: "must be object, not integer 1e2"},
	} {
		if diff := cmp.Diff([]activityschema.Problem{want}, problems(t, []byte(text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// Problems inside the members of the other form do not count, whichever comes
// first; the members themselves do.
func TestMemberOfTheOtherFormNeverHasProblemsWithin(t *testing.T) {
	wrong := strings.Repeat(`"x",`, activityschema.MaxProblems-10) + `"x"`
	members := []string{
		`"activities":[` + wrong + `]`, `"laps":[` + wrong[:7] + `]`, `"timeseries":{"t":[0.5]}`, `"bas_version":"1"`, `"id":""`,
	}
	want := []string{
		" required", " required", " required", " required", " required",
		"/activities additionalProperties", "/bas_version const", "/id minLength", "/laps/0 type", "/laps/1 type", "/timeseries/t/0 type",
	}
	for turn := range members {
		order := slices.Concat(members[turn:], members[:turn])
		found := problems(t, []byte("{"+strings.Join(order, ",")+"}"))
		got := places(found)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d members later (-want +got):\n%s", turn, diff)
		}
		if !slices.IsSortedFunc(found, func(a, b activityschema.Problem) int { return int(a.Offset - b.Offset) }) {
			t.Errorf("%d members later: not in the order of the document: %v", turn, found)
		}
	}
	// Nor once there are more of them than an answer has.
	found := problems(t, []byte(`{"laps":[],"timeseries":{"t":[0.5]},"activities":[`+wrong+","+wrong+`],"id":""}`))
	if diff := cmp.Diff([]string{
		" required", " required", " required", " required", " required", " required",
		"/timeseries/t/0 type", "/activities additionalProperties", "/id minLength",
	}, places(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What is in neither form counts whatever it follows.
	found = problems(t, []byte(`{"activities":[1],"x":1,"laps":[],"timeseries":{"t":[]},"owner":2,"y":2,"custom":{},"z":3}`))
	if diff := cmp.Diff([]string{
		" required", " required", " required", " required", " required", " required",
		"/activities additionalProperties", "/x additionalProperties", "/owner additionalProperties", "/y additionalProperties", "/z additionalProperties",
	}, places(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The same the other way round.
	found = problems(t, []byte(`{"timeseries":{"t":[`+wrong+`]},"activities":[1],"owner":{"handle":"x","display_name":1}}`))
	if diff := cmp.Diff([]string{
		" required", " required", "/timeseries additionalProperties", "/activities/0 type", "/owner/display_name type",
	}, places(found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNumberOfProblemsIsNeverOtherThanAskedFor(t *testing.T) {
	items := strings.Repeat(`"x",`, 3000)
	// What is wrong twice at the document itself comes first.
	data := []byte(`{"timeseries":{"t":[` + items + `1]},"laps":[` + items + `1]}`)
	for asked, want := range map[int]int{0: 100, -1: 100, 1: 1, 2: 2, 99: 99, 250: 250, 1000: 1000, 5000: 1000} {
		for _, engine := range engines {
			_, found := answer(t, activityschema.Options{Engine: engine, MaxProblems: asked}, data)
			if len(found) != want {
				t.Errorf("%s, asked for %d: %d problems, want %d", engine, asked, len(found), want)
			}
		}
	}
	// One less than asked for is all there is.
	data, _ = in(t, `"bbox":["x","x","x","x"]`)
	for asked, want := range map[int]int{3: 3, 4: 4, 5: 4} {
		_, found := answer(t, activityschema.Options{MaxProblems: asked}, data)
		for i, p := range found {
			if p.Pointer != fmt.Sprintf("/bbox/%d", i) {
				t.Errorf("asked for %d: problem %d is at %s", asked, i, p.Pointer)
			}
		}
		if len(found) != want {
			t.Errorf("asked for %d: %d problems, want %d", asked, len(found), want)
		}
	}
}

// A problem that makes the document no I-JSON stands alone, wherever it is, and
// so does what makes it no JSON.
func TestProblemOfTheSchemaNeverStandsBesideABrokenText(t *testing.T) {
	wrong := `"bas_version":1,"laps":[1],"x":1`
	for text, want := range map[string][]string{
		`{` + wrong + `,"custom":{"a":1,"a":1e999}}`:                                               {"/custom/a duplicate", "/custom/a number"},
		`{"custom":{"a":1,"a":1e999},` + wrong + `}`:                                               {"/custom/a duplicate", "/custom/a number"},
		`{"custom":{"a":1e999},"timeseries":{"t":[` + strings.Repeat("null,", 300) + `1],"t":[]}}`: {"/custom/a number", "/timeseries/t duplicate"},
		`{"x":1e999,` + wrong + `}`:                                                                {"/x number", "/x duplicate"},
		`{` + wrong + `,"custom":{"a":1,"a":1e999}`:                                                {" syntax"},
		`{` + wrong + `,"custom":{"a":1,"a":1e999}}]`:                                              {" trailing-data"},
		`{` + wrong + `,"custom":{"a":1,"a":"` + "\xff\"}":                                         {" utf-8"},
		`{` + wrong + `,]` + "\xff":                                                                {" syntax"},
		`{` + wrong + "} \xff":                                                                     {" utf-8"},
		`{` + wrong + "} \u20ac\xff":                                                               {" trailing-data"},
	} {
		if diff := cmp.Diff(want, places(problems(t, []byte(text)))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// Of several faults of the text the first counts, and it is the one at the
// first byte which no JSON text could have there.
func TestFaultOfTheTextIsNeverReportedElsewhere(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "0 syntax",
		" \t\r\n":                      "4 syntax",
		"\u00a0":                       "0 syntax",
		"\x00":                         "0 syntax",
		"{":                            "1 syntax",
		"{\"":                          "2 syntax",
		"{\"a":                         "3 syntax",
		"{\"a\\":                       "4 syntax",
		"{\"a\\u00":                    "7 syntax",
		"{\"a\\x\":1}":                 "4 syntax",
		"{\"\\u00g0":                   "6 syntax",
		"{\"\\u00G0":                   "6 syntax",
		"{\"\\u@":                      "4 syntax",
		"{\"\\u`":                      "4 syntax",
		"{\"a\n\":1}":                  "3 syntax",
		"{\"a\x1f":                     "3 syntax",
		"{\"a\"":                       "4 syntax",
		"{\"a\" 1":                     "5 syntax",
		"{\"a\":":                      "5 syntax",
		"{\"a\":}":                     "5 syntax",
		"{\"a\":1":                     "6 syntax",
		"{\"a\":1]":                    "6 syntax",
		"{\"a\":1,":                    "7 syntax",
		"{\"a\":1,}":                   "7 syntax",
		"{\"a\":1,,":                   "7 syntax",
		"{,":                           "1 syntax",
		"{]":                           "1 syntax",
		"{1:":                          "1 syntax",
		"{'":                           "1 syntax",
		"[":                            "1 syntax",
		"[,":                           "1 syntax",
		"[}":                           "1 syntax",
		"[1":                           "2 syntax",
		"[1}":                          "2 syntax",
		"[1,":                          "3 syntax",
		"[1,]":                         "3 syntax",
		"[1 2":                         "3 syntax",
		"]":                            "0 syntax",
		"+1":                           "0 syntax",
		"-":                            "1 syntax",
		"-a":                           "1 syntax",
		"--1":                          "1 syntax",
		".5":                           "0 syntax",
		"1.":                           "2 syntax",
		"1.e1":                         "2 syntax",
		"1e":                           "2 syntax",
		"1e-":                          "3 syntax",
		"1ee":                          "2 syntax",
		"1e1.5":                        "3 trailing-data",
		"01":                           "1 trailing-data",
		"[01]":                         "2 syntax",
		"[-01]":                        "3 syntax",
		"[0x1]":                        "2 syntax",
		"[1_0]":                        "2 syntax",
		"n":                            "1 syntax",
		"nul":                          "3 syntax",
		"nulL":                         "3 syntax",
		"[truefalse":                   "5 syntax",
		"NaN":                          "0 syntax",
		"Infinity":                     "0 syntax",
		"/**/1":                        "0 syntax",
		"1//":                          "1 trailing-data",
		"{} {}":                        "3 trailing-data",
		"nullnull":                     "4 trailing-data",
		"\"\x80\"":                     "1 utf-8",
		"\"\xc0\x80\"":                 "1 utf-8",
		"\"\xed\xa0\x80\"":             "1 utf-8",
		"\"\xf4\x90\x80\x80\"":         "1 utf-8",
		"\"ab\xe2\x82\"":               "3 utf-8",
		"\"\xf0\x9f\x9a":               "1 utf-8",
		"\xff":                         "0 utf-8",
		"[\xff":                        "1 utf-8",
		"[1\xff":                       "2 utf-8",
		"[\u20ac":                      "1 syntax",
		"\xef\xbb\xbf1":                "0 byte-order-mark",
		"\xef\xbb":                     "0 utf-8",
		" \xef\xbb\xbf1":               "1 syntax",
		"\xfe\xff":                     "0 utf-8",
		strings.Repeat("[", 65):        "64 depth",
		strings.Repeat("[", 64):        "64 syntax",
		strings.Repeat("[", 63) + "{[": "64 syntax",
	} {
		found := problems(t, []byte(text))
		if len(found) != 1 || fmt.Sprintf("%d %s", found[0].Offset, found[0].Keyword) != want {
			t.Errorf("%q: %+v, want %s", text, found, want)
		}
	}
	// The same in a column, which has a way of its own.
	for items, want := range map[string]string{
		",":                   "0 syntax",
		"1,":                  "2 syntax",
		"1,,2":                "2 syntax",
		"1, ,2":               "3 syntax",
		"1 2":                 "2 syntax",
		"1 null":              "2 syntax",
		"1-2":                 "1 syntax",
		"01":                  "1 syntax",
		"-":                   "1 syntax",
		"-,1":                 "1 syntax",
		"--1":                 "1 syntax",
		"1.":                  "2 syntax",
		"1.,2":                "2 syntax",
		".5":                  "0 syntax",
		"1.2.3":               "3 syntax",
		"00.5,1":              "1 syntax",
		"-00,1":               "2 syntax",
		"1e,1":                "2 syntax",
		"1:2":                 "1 syntax",
		"nul,1":               "3 syntax",
		"nulll":               "4 syntax",
		"null null":           "5 syntax",
		"1;2":                 "1 syntax",
		"123456789012345678.": "19 syntax",
		"1,\x00":              "2 syntax",
		"1,\xff":              "2 utf-8",
		"1}":                  "1 syntax",
	} {
		for name, column := range map[string]string{"t": `"t":[`, "lat": `"t":[],"lat":[`, "hr_bpm": `"t":[],"hr_bpm":[`} {
			start := `{"laps":[],"timeseries":{` + column
			var offset int
			var keyword string
			if _, err := fmt.Sscan(want, &offset, &keyword); err != nil {
				t.Fatal(err)
			}
			found := problems(t, []byte(start+items+`]}}`))
			if len(found) != 1 || found[0].Offset != int64(len(start)+offset) || found[0].Keyword != keyword {
				t.Errorf("%s: [%s]: %+v, want %s", name, items, found, want)
			}
		}
	}
}
