package activityschema_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-id/cairn/activityschema"
)

var engines = []activityschema.Engine{activityschema.EngineFast, activityschema.EngineQri, activityschema.EngineBoth}

func TestBothEnginesNeverAnswerOtherThanOne(t *testing.T) {
	for _, dir := range []string{"valid", "invalid"} {
		for name, data := range corpus(t, dir, min(leastValid, leastInvalid)) {
			form, one := answer(t, activityschema.Options{}, data)
			bothForm, both := answer(t, activityschema.Options{Engine: activityschema.EngineBoth}, data)
			if diff := cmp.Diff(one, both, cmpopts.EquateEmpty()); diff != "" || form != bothForm {
				t.Errorf("%s: %q and %q (-fast +both):\n%s", name, form, bothForm, diff)
			}
		}
	}
}

// No document is known over which the engines differ, so it is made up.
func TestDifferenceIsNeverDecidedInSilence(t *testing.T) {
	some := []activityschema.Problem{
		{Pointer: "/a\x1b", Keyword: "type"}, {Pointer: "/b", Keyword: "enum"}, {}, {}, {}, {Pointer: "/f", Keyword: "last"},
	}
	for _, c := range []struct {
		fast, qri []activityschema.Problem
		says      []string
	}{
		{nil, some, []string{"only qri finds", `type at "/a\x1b"`, `enum at "/b"`, "..."}},
		{some[:2], nil, []string{"only fast finds", `enum at "/b"`}},
	} {
		err := activityschema.CompareVerdicts(c.fast, c.qri)
		if !errors.Is(err, activityschema.ErrEnginesDiffer) {
			t.Fatalf("error %v", err)
		}
		for _, text := range c.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q does not say %s", err, text)
			}
		}
		if strings.Contains(err.Error(), "last") {
			t.Errorf("%q names all of many", err)
		}
	}
	for _, same := range [][2][]activityschema.Problem{{nil, nil}, {some[:1], some[1:]}} {
		if err := activityschema.CompareVerdicts(same[0], same[1]); err != nil {
			t.Errorf("one verdict, and yet %v", err)
		}
	}
}

func TestUnknownEngineIsNeverReplaced(t *testing.T) {
	r := strings.NewReader("{}")
	_, err := activityschema.Options{Engine: "slow"}.Validate(t.Context(), r)
	if err == nil || !strings.Contains(err.Error(), `engine "slow": want fast, qri or both`) || r.Len() != 2 {
		t.Errorf("error %v, %d bytes not read", err, r.Len())
	}
}

// The form is told by members, in the order of their weight.
func TestFormIsNeverGuessedWithoutAMember(t *testing.T) {
	for text, want := range map[string]activityschema.Form{
		`{}`:                       "",
		`{"bas_version": "1.0"}`:   "",
		`{"x": 1}`:                 "",
		`[]`:                       "",
		`null`:                     "",
		`{"activities": 1`:         "", // no JSON
		`{"laps": 1, "laps": 1}`:   "", // no I-JSON
		`{"activities": 1}`:        activityschema.FormIndex,
		`{"owner": 1}`:             activityschema.FormIndex,
		`{"generated_at": 1}`:      activityschema.FormIndex,
		`{"shards": 1}`:            activityschema.FormIndex,
		`{"laps": 1}`:              activityschema.FormDetail,
		`{"timeseries": 1}`:        activityschema.FormDetail,
		`{"custom": 1}`:            activityschema.FormDetail,
		`{"title": 1, "shards":1}`: activityschema.FormDetail,
		`{"owner": 1, "id": 1, "title": 1, "sport": 1, "privacy": 1}`:               activityschema.FormIndex,
		`{"title": 1, "sport": 1, "generated_at": 1}`:                               activityschema.FormDetail,
		`{"generated_at": 1, "shards": 1, "custom": 1}`:                             activityschema.FormIndex,
		`{"laps": 1, "owner": 1}`:                                                   activityschema.FormDetail,
		`{"laps": 1, "owner": 1, "shards": 1}`:                                      activityschema.FormIndex,
		`{"laps": 1, "owner": 1, "activities": 1, "custom": 1, "id": 1, "title":1}`: activityschema.FormIndex,
	} {
		form, found := answer(t, activityschema.Options{}, []byte(text))
		if form != want || len(found) == 0 {
			t.Errorf("%s: %q with %d problems, want %q", text, form, len(found), want)
		}
		problems(t, []byte(text)) // the other engine has the same opinion
	}
	for name, want := range map[string]activityschema.Form{
		"detail-full.json": activityschema.FormDetail, "index-full.json": activityschema.FormIndex,
	} {
		data := document(t, name)
		for _, engine := range engines {
			if form, found := answer(t, activityschema.Options{Engine: engine}, data); form != want || len(found) > 0 {
				t.Errorf("%s, %s: %q, %v", name, engine, form, found)
			}
		}
		// Who knows of no form has the same answer.
		if found, err := activityschema.Validate(t.Context(), bytes.NewReader(data)); err != nil || found != nil {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}
