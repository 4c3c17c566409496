package activityschema

import (
	"fmt"
	"strconv"
	"strings"
)

// What problems say. Both engines take their words from here.

// formsWanted is expected of a document of which no member tells its form.
const formsWanted = "an index document (owner, generated_at, activities) or an activity detail document (id, laps, timeseries, custom)"

// wanted says what keyword with value, as decoded from the schema, expects.
func wanted(keyword string, value any) string {
	switch keyword {
	case "type":
		if one, ok := value.(string); ok {
			return one
		}
		return alternatives(value, func(v any) string { return fmt.Sprint(v) })
	case "const":
		return jsonText(value)
	case "enum":
		return "one of " + alternatives(value, jsonText)
	case "format":
		return "a date-time of RFC 3339 with its zone, such as 2026-05-17T08:30:00Z"
	case "minLength":
		return "a string of at least " + amount(value, "character")
	case "minimum":
		return fmt.Sprintf("%v or more", value)
	case "minItems":
		return "an array of at least " + amount(value, "item")
	case "maxItems":
		return "an array of at most " + amount(value, "item")
	}
	return ""
}

// alternatives writes a list as: a, b or c.
func alternatives(list any, show func(any) string) string {
	items, _ := list.([]any)
	var s strings.Builder
	for i, item := range items {
		switch {
		case i == 0:
		case i == len(items)-1:
			s.WriteString(" or ")
		default:
			s.WriteString(", ")
		}
		s.WriteString(show(item))
	}
	return s.String()
}

// jsonText writes a string or null as JSON does.
func jsonText(value any) string {
	if s, ok := value.(string); ok {
		return quote(s)
	}
	return "null"
}

// amount writes a number of things.
func amount(n any, thing string) string {
	if number := fmt.Sprint(n); number != "1" {
		return number + " " + thing + "s"
	}
	return "1 " + thing
}

// messageOf is what a problem says of a value that is there and of what is
// wanted in its place.
func messageOf(keyword, expected, found string) string {
	switch keyword {
	case "required":
		return expected + " is missing"
	case "additionalProperties":
		return found + " is not part of the format here"
	}
	return "must be " + expected + ", not " + found
}

// memberNamed shows a member by its name.
func memberNamed(name string) string { return "member " + quote(name) }

// foundString shows a string by its text, of which the beginning is enough.
func foundString(text string) string { return "string " + quote(text) }

// foundNumber shows a number as it is written.
func foundNumber(digits string, whole bool) string {
	if len(digits) > mostShown {
		digits = digits[:mostShown] + "..."
	}
	if whole {
		return "integer " + digits
	}
	return "number " + digits
}

// foundArray shows an array whose length is what is wrong.
func foundArray(items int) string { return "array of " + amount(items, "item") }

// mostShown is how many characters of the document a message repeats at most.
const mostShown = 60

// quote shows a text of the document in a message: control characters escaped,
// a long text cut.
func quote(text string) string {
	n := 0
	for i := range text {
		if n++; n > mostShown {
			return strconv.Quote(text[:i]) + "..."
		}
	}
	return strconv.Quote(text)
}
