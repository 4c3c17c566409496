package register

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

// A flag --x replaces a list, --add-x and --remove-x change single entries of it. A replacement that
// would remove entries has to be confirmed: people give --x to add one more, and an application whose
// redirect URI is gone fails for everybody.

// listEdit are the flags that change single entries of a list: --add and --remove, followed by name.
type listEdit struct {
	name        string // -x, or empty
	add, remove []string
	keyed       bool // an entry is known by what is before its =
}

func (e listEdit) given() bool { return len(e.add)+len(e.remove) > 0 }

// keys returns by what the entries are known.
func (e listEdit) keys(list []string) (keys []string) {
	for _, entry := range list {
		if e.keyed {
			entry, _, _ = strings.Cut(entry, "=")
		}
		keys = append(keys, entry)
	}
	return keys
}

// apply returns the list after the changes.
func (e listEdit) apply(list []string) ([]string, error) {
	out, added := slices.Clone(list), e.keys(e.add)
	for _, key := range e.remove {
		i := slices.Index(e.keys(out), key)
		switch {
		case slices.Contains(added, key):
			return nil, cli.Usagef("--add%s and --remove%s both name %q", e.name, e.name, key)
		case i < 0:
			return nil, fmt.Errorf("--remove%s %q: there is no such entry; there is %s", e.name, key,
				orNone(strings.Join(e.keys(list), " ")))
		}
		out = slices.Delete(out, i, i+1)
	}
	for i, key := range added {
		if at := slices.Index(e.keys(out), key); at >= 0 {
			out[at] = e.add[i]
		} else {
			out = append(out, e.add[i])
		}
	}
	return out, nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// eitherOr refuses --x beside --add-x and --remove-x.
func (e listEdit) eitherOr(replaces bool) error {
	if replaces && e.given() {
		return cli.Usagef("give -%s, which replaces the list, or --add%s and --remove%s", e.name, e.name, e.name)
	}
	return nil
}

// clientLists are the lists of a client, by the fields of clientOptions. client update has them twice,
// as --add-… and as --remove-….
type clientLists struct {
	RedirectURIs           []string `name:"redirect-uri" sep:"none" placeholder:"URI"`
	PostLogoutRedirectURIs []string `name:"post-logout-redirect-uri" sep:"none" placeholder:"URI"`
	Scopes                 []string `name:"scope" sep:"none" commas:"" placeholder:"SCOPE"`
	OptionalScopes         []string `name:"optional-scope" sep:"none" commas:"" placeholder:"SCOPE"`
	RequireFlags           []string `name:"require-flag" sep:"none" commas:"" placeholder:"FLAG"`
	Claims                 []string `name:"claim" sep:"none" placeholder:"NAME=VALUE"`
	Groups                 []string `name:"group" sep:"none" commas:"" placeholder:"FLAG"`
	ClaimIn                []string `name:"claim-in" sep:"none" commas:"" placeholder:"PLACE"`
}

// emptyMeans says what a list means that is empty, where that is not "none".
var emptyMeans = map[string]string{"Groups": "all flags but admin", "ClaimIn": "where the claims of scopes are"}

// apiLists are the lists of an API, by the fields of apiOptions, for api update as clientLists for client update.
type apiLists struct {
	Scopes  []string `name:"scope" sep:"none" keyed:"" placeholder:"${entry}"`
	Clients []string `name:"client" placeholder:"ID" ids:"client"`
	Claims  []string `name:"claim" sep:"none" placeholder:"NAME=VALUE"`
}

// editLists turns --add-x and --remove-x into the whole list, as --x has it among the options, and returns the
// lists that --x replaces.
func editLists(registration, options, adds, removes any) (replaced []replacement, err error) {
	add, remove := reflect.ValueOf(adds), reflect.ValueOf(removes)
	for i, f := range reflect.VisibleFields(add.Type()) {
		name, given := f.Tag.Get("name"), reflect.ValueOf(options).Elem().FieldByName(f.Name)
		old := written(reflect.ValueOf(registration).Elem().FieldByName(f.Name)).([]string)
		_, keyed := f.Tag.Lookup("keyed")
		e := listEdit{"-" + name, entries(f, add.Field(i)), entries(f, remove.Field(i)), keyed}
		if err := e.eitherOr(!given.IsNil()); err != nil {
			return nil, err
		}
		if !given.IsNil() {
			replaced = append(replaced, replacement{name, e.keys(old), e.keys(entries(f, given))})
		}
		if !e.given() {
			continue
		}
		means, verb := emptyMeans[f.Name], "add"
		if len(e.add) == 0 {
			verb = "remove"
		}
		if means != "" && len(old) == 0 {
			return nil, cli.Usagef("--%s-%s: the list is empty, which means %s; --%[2]s gives it entries",
				verb, name, means)
		}
		list, err := e.apply(old)
		if err != nil {
			return nil, err
		}
		if means != "" && len(list) == 0 {
			return nil, cli.Usagef("--remove-%s: an empty list means %s; --%[1]s '' does that", name, means)
		}
		given.Set(reflect.ValueOf(list))
	}
	return replaced, nil
}

// entries returns the entries of a flag; commas separate them if its field says so.
func entries(f reflect.StructField, value reflect.Value) []string {
	list := value.Interface().([]string)
	if _, commas := f.Tag.Lookup("commas"); commas {
		list = strings.Split(strings.Join(list, ","), ",")
	}
	return nonEmpty(list)
}
