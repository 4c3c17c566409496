package register

import (
	"cmp"
	"errors"
	"reflect"
	"regexp"
	"strings"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/provider"
)

// Flags set the fields of a registration that have their names: see clientOptions and apiOptions.

// assign sets the fields of a registration that have the name of a given flag. A flag that is not given is
// nil and leaves its field unchanged; a list replaces the previous one; an empty value clears the field.
func assign(registration, flags any) {
	given := reflect.ValueOf(flags)
	for i, f := range reflect.VisibleFields(given.Type()) {
		at, value := reflect.ValueOf(registration).Elem().FieldByName(f.Name), given.Field(i)
		if !at.IsValid() || value.IsNil() {
			continue
		}
		switch to := at.Addr().Interface().(type) {
		case *[]provider.APIScope:
			*to, _ = apiScopes("scope", entries(f, value)) // apply reports the error
		case *[]string:
			*to = entries(f, value)
		default:
			at.Set(value.Elem().Convert(at.Type()))
		}
	}
}

// memberFlag returns the flag that sets a member of a registration, or what others have for it.
func memberFlag[Registration, Options any](member string, others map[string]string) string {
	for _, flag := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
		if f, ok := reflect.TypeFor[Registration]().FieldByName(flag.Name); ok {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == member {
				return "--" + flagName(flag)
			}
		}
	}
	return others[member]
}

// flagName returns the name of the flag of a field.
func flagName(f reflect.StructField) string {
	return cmp.Or(f.Tag.Get("name"), strings.ToLower(wordStart.ReplaceAllString(f.Name, "$1-$2")))
}

var wordStart = regexp.MustCompile("([a-z])([A-Z])")

// inFlags names the flag where a registration breaks a rule.
func inFlags(err error, flag func(member string) string) error {
	var broken *provider.RegistrationError
	if !errors.As(err, &broken) {
		return err
	}
	text := broken.Describe(flag(broken.Member))
	if broken.Member == "clients" { // one does not exist
		return errors.New(text)
	}
	return cli.UsageError(text)
}

// set assigns a value if it was given.
func set[T any](at *T, given *T) {
	if given != nil {
		*at = *given
	}
}
