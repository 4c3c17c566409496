package activityschema_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

// typeOf says which Go type holds an object of each table.
var typeOf = map[string]reflect.Type{
	"index":            reflect.TypeFor[activityschema.Index](),
	"owner":            reflect.TypeFor[activityschema.Owner](),
	"shard":            reflect.TypeFor[activityschema.Shard](),
	"activity_summary": reflect.TypeFor[activityschema.Summary](),
	"detail":           reflect.TypeFor[activityschema.Detail](),
	"lap":              reflect.TypeFor[activityschema.Lap](),
	"timeseries":       reflect.TypeFor[activityschema.Timeseries](),
}

// fieldTypeOf says which Go type holds a value of each shape.
var fieldTypeOf = map[string]reflect.Type{
	"string":             reflect.TypeFor[string](),
	"string, min 1":      reflect.TypeFor[string](),
	"string|null":        reflect.TypeFor[*string](),
	"version":            reflect.TypeFor[string](),
	"date-time":          reflect.TypeFor[activityschema.Time](),
	"integer":            reflect.TypeFor[int64](),
	"integer, min 0":     reflect.TypeFor[int64](),
	"integer|null":       reflect.TypeFor[*int64](),
	"number|null":        reflect.TypeFor[*float64](),
	"object":             reflect.TypeFor[map[string]json.RawMessage](),
	"sport":              reflect.TypeFor[activityschema.Sport](),
	"sub_sport":          reflect.TypeFor[*activityschema.SubSport](),
	"privacy":            reflect.TypeFor[activityschema.Privacy](),
	"source":             reflect.TypeFor[*activityschema.Source](),
	"latlng":             reflect.TypeFor[*activityschema.LatLng](),
	"bbox":               reflect.TypeFor[*activityschema.BBox](),
	"owner":              reflect.TypeFor[activityschema.Owner](),
	"timeseries":         reflect.TypeFor[activityschema.Timeseries](),
	"[]shard":            reflect.TypeFor[[]activityschema.Shard](),
	"[]lap":              reflect.TypeFor[[]activityschema.Lap](),
	"[]activity_summary": reflect.TypeFor[[]activityschema.Summary](),
	"[]integer":          reflect.TypeFor[activityschema.Integers](),
	"[]integer|null":     reflect.TypeFor[activityschema.Column[int64]](),
	"[]number|null":      reflect.TypeFor[activityschema.Column[float64]](),
	"[]number|null 0":    reflect.TypeFor[activityschema.Column[float64]](),
}

func TestTypesNeverDepartFromTheSpecificationsTables(t *testing.T) {
	for table, fields := range tables {
		var want, got []string
		for _, f := range fields {
			tag := f.name
			if !f.required {
				tag += ",omitzero"
			}
			want = append(want, tag+" "+fieldTypeOf[f.shape].String())
		}
		for i := range typeOf[table].NumField() {
			f := typeOf[table].Field(i)
			got = append(got, f.Tag.Get("json")+" "+f.Type.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-specification +type):\n%s", table, diff)
		}
	}
	for name, shape := range map[string]string{"BBox": "bbox", "LatLng": "latlng"} {
		if got, want := fieldTypeOf[shape].Elem().Len(), int(schemaOf(shape)["minItems"].(float64)); got != want {
			t.Errorf("%s has %d items, want %d", name, got, want)
		}
	}
}

// Also where one of the inner types is marshalled by itself.
func TestOptionalMemberIsNeverWrittenWhenNil(t *testing.T) {
	for table, fields := range tables {
		var want []string
		for _, f := range fields {
			if f.required {
				want = append(want, f.name)
			}
		}
		zero := reflect.New(typeOf[table])
		switch v := zero.Interface().(type) {
		case *activityschema.Index:
			v.Version, v.Owner.Handle = activityschema.Version, "mira"
		case *activityschema.Detail:
			v.Version, v.ID, v.Sport, v.Privacy = activityschema.Version, "1", activityschema.SportOther, activityschema.PrivacyPrivate
		}
		got := slices.Sorted(maps.Keys(decode(t, written(t, zero.Interface())).(map[string]any)))
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-required +written):\n%s", table, diff)
		}
	}
}

// What is required is never null where the format knows no null, and what is
// empty is not taken for absent.
func TestNilAndEmptyAreNeverTakenForEachOther(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{activityschema.Lap{}, `{"index":0,"started_at":"0001-01-01T00:00:00Z","duration_s":null}`},
		{activityschema.Timeseries{}, `{"t":[]}`},
		{activityschema.Timeseries{Lat: activityschema.Column[float64]{}, PowerW: activityschema.Column[int64]{{}}}, `{"t":[],"lat":[],"power_w":[null]}`},
		{activityschema.Index{Version: "1.0", Owner: activityschema.Owner{Handle: "x", AvatarURL: new("")}, Shards: []activityschema.Shard{}},
			`{"bas_version":"1.0","owner":{"handle":"x","display_name":"","avatar_url":""},"generated_at":"0001-01-01T00:00:00Z","shards":[],"activities":[]}`},
		{activityschema.Detail{Version: "1.0", ID: "x", Sport: "other", Privacy: "public", DurationS: new(int64(0)), Custom: map[string]json.RawMessage{"a": nil}},
			`{"bas_version":"1.0","id":"x","title":"","sport":"other","started_at":"0001-01-01T00:00:00Z","duration_s":0,"laps":[],"timeseries":{"t":[]},"privacy":"public","custom":{"a":null}}`},
	} {
		if got := string(written(t, c.value)); got != c.want {
			t.Errorf("%T:\n%s, want\n%s", c.value, got, c.want)
		}
	}
}

func TestVocabularyNeverLacksAValue(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "vocabulary.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			constant := spec.(*ast.ValueSpec)
			value, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			kind, ok := constant.Type.(*ast.Ident)
			if !ok {
				continue
			}
			got[kind.Name] = append(got[kind.Name], value)
			if name := kind.Name + strings.ReplaceAll(value, "_", ""); !strings.EqualFold(constant.Names[0].Name, name) {
				t.Errorf("%s is %q", constant.Names[0].Name, value)
			}
		}
	}
	if diff := cmp.Diff(enumOf, got); diff != "" {
		t.Errorf("(-specification +constants):\n%s", diff)
	}
	if want := schemaOf("version")["const"]; activityschema.Version != want {
		t.Errorf("version %q, want %q", activityschema.Version, want)
	}
}
