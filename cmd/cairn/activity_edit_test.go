package main

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

func TestEditNeverChangesWhatItIsNotAskedTo(t *testing.T) {
	for _, c := range []struct {
		data, pointer string
		edit          edit
		want          string
	}{
		{`{"a":1}`, "/a", drop, `{}`},
		{`{ "a":1 }`, "/a", drop, `{ }`},
		{`{"a":1, "b":2}`, "/a", drop, `{ "b":2}`},
		{`{"a":1, "b":2}`, "/b", drop, `{"a":1}`},
		{"{\n  \"a\":1,\n  \"b\":2,\n  \"c\":3\n}", "/b", drop, "{\n  \"a\":1,\n  \"c\":3\n}"},
		{`{"a":{"b":null,"c":1e5}}`, "/a/b", dropNull, `{"a":{"c":1e5}}`},
		{`{"a":{"b":0}}`, "/a/b", dropNull, `{"a":{"b":0}}`},
		{`{"a":[1,{"b":2},3]}`, "/a/1", drop, `{"a":[1,null,3]}`},
		{`{"a":[1,{"b":2},3]}`, "/a/1/b", drop, `{"a":[1,{},3]}`},
		{`{"a":[1,2,3]}`, "/a/3", drop, `{"a":[1,2,3]}`},
		{`{"a/b~":{"":1},"c":"}"}`, "/a~1b~0/", drop, `{"a/b~":{},"c":"}"}`},
		{`{"\u0061\"":1,"b":"\\"}`, `/a"`, drop, `{"b":"\\"}`},
		{`{"a":[{"i":1},{"i":2.0}]}`, "/a/1/i", replace, `{"a":[{"i":1},{"i":X}]}`},
		{`{"a":{"b":1}}`, "/a/c", drop, `{"a":{"b":1}}`},
		{`[1`, "/0", drop, `[1`},
		{`{"a":1,}`, "/a", drop, `{"a":1,}`},
		{`{"a"`, "/a", drop, `{"a"`},
		{``, "/a", drop, ``},
	} {
		root := newPlace()
		p := root.place(c.pointer)
		p.edit, p.literal = c.edit, "X"
		got, n := editJSON([]byte(c.data), root)
		if string(got) != c.want || (n == 1) != (c.want != c.data) || n == 1 && !p.edited {
			t.Errorf("%s of %s: %s, %d edits, want %s", c.pointer, c.data, got, n, c.want)
		}
	}
}

func TestEditsOfOneObjectNeverLeaveACommaTooMany(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for mask := range 1 << len(names) {
		root := newPlace()
		want := map[string]any{}
		for i, name := range names {
			if mask>>i&1 != 0 {
				root.place("/x/" + name).edit = drop
			} else {
				want[name] = float64(i)
			}
		}
		got, n := editJSON([]byte(`{"x" : { "a":0 , "b": 1,"c":2,  "d":3 } ,"y":[]}`), root)
		var v map[string]any
		if err := json.Unmarshal(got, &v); err != nil || !reflect.DeepEqual(v["x"], want) {
			t.Errorf("%04b, %d edits: %s: %v", mask, n, got, err)
		}
	}
}

// FuzzEdit drops a place of a document and holds what is left against the tree
// of encoding/json from which the same place was taken.
func FuzzEdit(f *testing.F) {
	for _, name := range append(corpus(f, "valid", 15), corpus(f, "lint", 60)...) {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, pointer := range []string{"/custom", "/laps/0/index", "/timeseries/t/1", "/owner/handle", "/activities/1"} {
			f.Add(data, pointer)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, pointer string) {
		root := newPlace()
		root.place(pointer).edit = drop
		got, n := editJSON(data, root)
		if n == 0 && !bytes.Equal(got, data) {
			t.Fatalf("no edit, and another document: %q", got)
		}
		var tree any
		if !json.Valid(data) || hasMemberTwice(data) || json.Unmarshal(data, &tree) != nil {
			return
		}
		want, dropped := withoutPlace(tree, root)
		var left any
		if err := json.Unmarshal(got, &left); err != nil || !reflect.DeepEqual(left, want) || dropped != (n == 1) {
			t.Fatalf("%q without %q: %q (%d edits, %v)", data, pointer, got, n, err)
		}
	})
}

// withoutPlace takes from a tree what the places below p say.
func withoutPlace(tree any, p *jsonPlace) (any, bool) {
	dropped := false
	for token, child := range p.below {
		switch v := tree.(type) {
		case map[string]any:
			if member, ok := v[token]; ok && child.edit == drop {
				delete(v, token)
				dropped = true
			} else if ok {
				v[token], dropped = withoutPlace(member, child)
			}
		case []any:
			for i := range v {
				if name, _ := json.Marshal(i); string(name) != token {
					continue
				}
				if child.edit == drop {
					v[i], dropped = nil, true
				} else {
					v[i], dropped = withoutPlace(v[i], child)
				}
			}
		}
	}
	return tree, dropped
}

// hasMemberTwice tells whether an object of data has: encoding/json keeps the
// last of two. The validator refuses such a document before it is edited.
func hasMemberTwice(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	var value func() bool
	value = func() bool {
		token, err := d.Token()
		if err != nil || token != json.Delim('{') && token != json.Delim('[') {
			return false
		}
		seen, twice := map[any]bool{}, false
		for d.More() {
			if token == json.Delim('{') {
				name, _ := d.Token()
				twice = twice || seen[name]
				seen[name] = true
			}
			twice = value() || twice
		}
		_, _ = d.Token()
		return twice
	}
	return value()
}
