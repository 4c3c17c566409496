package activityschema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cairn-id/cairn/activityschema"
)

// The oracle reaches its verdict by other means than the package: another
// schema library on the published schema, and I-JSON by counting.

// compile reads schema with the other library, draft 2020-12, format asserted.
func compile(t testing.TB, schema any) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.RegisterFormat(&jsonschema.Format{Name: "date-time", Validate: dateTime})
	must(t, c.AddResource("https://example.org/schema.json", schema))
	compiled, err := c.Compile("https://example.org/schema.json")
	if err != nil {
		t.Fatalf("the schema is not accepted: %v", err)
	}
	return compiled
}

// decode keeps numbers as written, as the other library wants them.
func decode(t testing.TB, data []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	must(t, err)
	return v
}

func publishedOracle(t testing.TB) *jsonschema.Schema {
	t.Helper()
	return compile(t, decode(t, activityschema.Schema()))
}

var dateTimeShape = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// dateTime is RFC 3339; the other library's own takes a sign as an hour's digit.
func dateTime(v any) error {
	s, ok := v.(string)
	if !ok {
		return nil
	}
	if !dateTimeShape.MatchString(s) {
		return errors.New("not of the shape of a date-time")
	}
	leap := s[17:19] == "60"
	at, err := time.Parse(time.RFC3339, strings.ToUpper(s[:17])+"59"+strings.ToUpper(s[19:]))
	if !leap {
		at, err = time.Parse(time.RFC3339, strings.ToUpper(s))
	}
	if err == nil && leap && at.UTC().Format("15:04") != "23:59" {
		err = errors.New("a leap second at another time than 23:59 UTC")
	}
	return err
}

// accepts is the oracle's verdict; unsure means that it cannot tell: a
// surrogate alone decodes to a character.
func accepts(t testing.TB, published *jsonschema.Schema, data []byte) (ok, unsure bool) {
	t.Helper()
	if !utf8.Valid(data) || !json.Valid(data) {
		return false, false
	}
	// Outside of strings each colon is a member, each bracket a level.
	members, depth, deepest, inString := 0, 0, 0, false
	for i := 0; i < len(data); i++ {
		switch {
		case inString && data[i] == '\\':
			i++
		case data[i] == '"':
			inString = !inString
		case !inString && data[i] == ':':
			members++
		case !inString && strings.ContainsRune("[{", rune(data[i])):
			depth++
			deepest = max(deepest, depth)
		case !inString && strings.ContainsRune("]}", rune(data[i])):
			depth--
		}
	}
	root := decode(t, data)
	n, inRange, replaced := count(root)
	if n != members || deepest > 64 || !inRange {
		return false, replaced
	}
	return published.Validate(root) == nil, replaced
}

// count returns how many members a decoded tree has, which is less than were
// written if a name stood twice; whether all numbers are within a double; and
// whether a text has the replacement character.
func count(v any) (members int, inRange, replaced bool) {
	inRange = true
	add := func(v any) {
		n, in, rep := count(v)
		members, inRange, replaced = members+n, inRange && in, replaced || rep
	}
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			members++
			replaced = replaced || strings.ContainsRune(name, utf8.RuneError)
			add(member)
		}
	case string:
		replaced = strings.ContainsRune(v, utf8.RuneError)
	case []any:
		for _, item := range v {
			add(item)
		}
	case json.Number:
		_, err := strconv.ParseFloat(v.String(), 64)
		inRange = err == nil
	}
	return members, inRange, replaced
}

func TestPublishedSchemaIsDraft2020(t *testing.T) {
	published := publishedOracle(t)
	same(t, "read as draft", published.DraftVersion, 2020)
	same(t, "forms", len(published.OneOf), 2)
	// The library's own date-time, without ours, has the same opinion of the corpus.
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must(t, c.AddResource("https://example.org/schema.json", decode(t, activityschema.Schema())))
	plain := c.MustCompile("https://example.org/schema.json")
	for name, data := range corpus(t, "valid", leastValid) {
		if err := plain.Validate(decode(t, data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCorpusVerdictsEqualTheOracles(t *testing.T) {
	published := publishedOracle(t)
	for _, dir := range []string{"valid", "invalid"} {
		for name, data := range corpus(t, dir, min(leastValid, leastInvalid)) {
			want, unsure := accepts(t, published, data)
			if got := len(problems(t, data)) == 0; !unsure && got != want {
				t.Errorf("%s/%s: accepted %t, by the oracle %t", dir, name, got, want)
			}
		}
	}
}
