package register

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/provider"
)

// A flag sets the field of its name. One that names none would be accepted and do nothing; a field
// without a flag could not be set.
func TestFlagsOfAClientAreItsFields(t *testing.T) {
	client, flags := reflect.TypeFor[provider.Client](), reflect.TypeFor[clientOptions]()
	missing := func(from, in reflect.Type, but string) {
		t.Helper()
		for _, f := range reflect.VisibleFields(from) {
			if _, found := in.FieldByName(f.Name); found == strings.Contains(" "+but+" ", " "+f.Name+" ") {
				t.Errorf("%s.%s, %s: found %v", from.Name(), f.Name, in.Name(), found)
			}
		}
	}
	missing(flags, client, "Public JWKSFile LogoFile")
	missing(client, flags, "ID Name Document JWKS Logo Secrets CreatedAt Managed APIs")
}
