package templates

import (
	"slices"
	"strings"
)

// form is a page whose error can belong to one of its fields.
type form interface {
	// fault returns the field's own error message, and blamed if the page's general error is about
	// the field.
	fault(field string) (message string, blamed bool)
}

// Answer is the result of the form just sent, on a page with several forms. It is shown in the
// form's section. The form's address has the section as its fragment, so the browser scrolls there.
type Answer struct {
	// Section is the id of the section; "" is above all of them.
	Section string
	// Notice says what was done and Error what failed, in the reader's language. ErrorCode is the
	// service's code for the error.
	Notice, Error, ErrorCode string
}

// In returns the answer if it belongs to the section, else nil.
func (a Answer) In(section string) *Answer {
	if a.Section != section || a.Notice == "" && a.Error == "" {
		return nil
	}
	return &a
}

// NewAnswer returns the answer to a refused form. Where the fields say what is wrong with them, the box counts them.
func NewAnswer(l *Language, section, detail, code string, faults map[string]string) Answer {
	if n := len(faults); n > 0 {
		detail = l.Text("{count} fields need you.", "count", n)
	}
	return Answer{Section: section, Error: detail, ErrorCode: code}
}

// describedBy returns the aria-describedby of a field: the id of its own error, which stands in the place of the
// hints; else of the page's error if that is about the field, and of the hints, in the order of reading.
func describedBy(f form, field string, hints ...string) string {
	message, blamed := f.fault(field)
	var ids []string
	switch {
	case message != "":
		return field + "-error"
	case blamed:
		ids = append(ids, "error")
	}
	return strings.Join(append(ids, hints...), " ")
}

// blames has the fields that an error code is about, in the order of the form.
var blames = map[string][]string{
	"invalid_credentials": {"handle", "password"},
	"invalid_invite":      {"code"},
	"invalid_reset_code":  {"handle", "code"},
	"invalid_handle":      {"handle"},
	"handle_taken":        {"handle"},
	"weak_password":       {"password"},
}

func blamed(code, field string) bool { return slices.Contains(blames[code], field) }

// numberField is a field for a number, with its hint.
type numberField struct {
	Name, Label, Value, Hint string
	Error, DescribedBy       string
	Invalid                  bool
}

func newNumberField(f form, name, label, value, hint string) numberField {
	message, _ := f.fault(name)
	return numberField{name, label, value, hint, message, describedBy(f, name, name+"-hint"), isInvalid(f, name)}
}

func isInvalid(f form, field string) bool {
	message, blamed := f.fault(field)
	return message != "" || blamed
}
