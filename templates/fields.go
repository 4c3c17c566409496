package templates

import (
	"slices"
	"strings"
)

// form is a page whose error can belong to one of its fields.
type form interface {
	// fault says what is wrong with the field of that name: a message of its own, or blamed when the page's general
	// error is about this field.
	fault(field string) (message string, blamed bool)
}

// Answer is the result of the form that was just sent, on a page with several. It is in the section of that form,
// whose fragment the form's address carries, so that the browser opens the page there.
type Answer struct {
	// Section is the id of the section; "" is above all of them.
	Section string
	// Notice says what has been done, Error what failed, in the reader's language; ErrorCode is the service's code for it.
	Notice, Error, ErrorCode string
}

// In is the answer if it belongs to that section, else nil.
func (a Answer) In(section string) *Answer {
	if a.Section != section || a.Notice == "" && a.Error == "" {
		return nil
	}
	return &a
}

// describedBy is the aria-describedby of a field: the ids of its own error, of the page's error when that is about the
// field, and of the hint, in the order in which a screen reader should say them.
func describedBy(f form, field string, hints ...string) string {
	message, blamed := f.fault(field)
	var ids []string
	switch {
	case message != "":
		ids = append(ids, field+"-error")
	case blamed:
		ids = append(ids, "error")
	}
	return strings.Join(append(ids, hints...), " ")
}

// blames says which fields an error code of the service is about, in the order of the form.
var blames = map[string][]string{
	"invalid_credentials": {"handle", "password"},
	"invalid_invite":      {"code"},
	"invalid_reset_code":  {"handle", "code"},
	"invalid_handle":      {"handle"},
	"handle_taken":        {"handle"},
	"weak_password":       {"password"},
}

func blamed(code, field string) bool { return slices.Contains(blames[code], field) }

func isInvalid(f form, field string) bool {
	message, blamed := f.fault(field)
	return message != "" || blamed
}
