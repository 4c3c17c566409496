package person_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

// set changes one member of a profile.
func set(p *account.Profile, name, value string) error {
	u := account.User{Profile: *p}
	err := account.UserChange{name: value}.Apply(&u)
	*p = u.Profile
	return err
}

func claims() []string {
	return slices.DeleteFunc(account.UserMembers(), func(name string) bool {
		return slices.Contains([]string{"display_name", "email", "email_verified"}, name)
	})
}

// kept is what is stored of a value, or "refused".
func kept(t *testing.T, name, value string) string {
	t.Helper()
	var p account.Profile
	err := set(&p, name, value)
	var problem *web.Problem
	if errors.As(err, &problem) {
		want := "/" + strings.ReplaceAll(name, ".", "/")
		if problem.Status != 400 || problem.Code != "invalid_profile" || len(problem.Errors) != 1 || problem.Errors[0].Pointer != want || problem.Detail == "" {
			t.Errorf("%s=%q: %+v", name, value, problem)
		}
		if !reflect.DeepEqual(p, account.Profile{}) {
			t.Errorf("%s=%q was refused and changed %+v", name, value, p)
		}
		return "refused"
	}
	if err != nil {
		t.Fatalf("%s=%q: %v", name, value, err)
	}
	b, err := json.Marshal(p)
	must(t, err)
	var m map[string]any
	must(t, json.Unmarshal(b, &m))
	if outer, inner, ok := strings.Cut(name, "."); ok {
		m, _ = m[outer].(map[string]any)
		name = inner
	}
	s, _ := m[name].(string)
	return s
}

func TestNoClaimHoldsWhatItsReadersCannotTake(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"given_name", " Ada ", "Ada"},
		{"given_name", "Zo\u00eb \U0001F469\u200d\U0001F680", "Zo\u00eb \U0001F469\u200d\U0001F680"},
		{"given_name", strings.Repeat("é", 100), strings.Repeat("é", 100)},
		{"given_name", strings.Repeat("é", 101), "refused"},
		{"family_name", "a\nb", "refused"},
		{"middle_name", "a\x00b", "refused"},
		{"nickname", "a\u202eb", "refused"},
		{"nickname", "\xff", "refused"},
		{"nickname", "   ", ""},
		{"gender", "any word", "any word"},
		{"gender", strings.Repeat("x", 51), "refused"},
		{"profile", "https://example.org/ada?x=1#me", "https://example.org/ada?x=1#me"},
		{"picture", "http://example.org/ada.png", "http://example.org/ada.png"},
		{"website", "javascript:alert(1)", "refused"},
		{"website", "data:text/html,x", "refused"},
		{"website", "//example.org", "refused"},
		{"website", "https://", "refused"},
		{"website", "https:example.org", "refused"},
		{"website", "https://user:pw@example.org", "refused"},
		{"website", "https://example.org/a b", "refused"},
		{"website", "https://example.org/\"onload=x", "refused"},
		{"website", "https://example.org/" + strings.Repeat("x", 2000), "refused"},
		{"birthdate", "1990-03-31", "1990-03-31"},
		{"birthdate", "0000-02-29", "0000-02-29"},
		{"birthdate", "1990", "1990"},
		{"birthdate", "1990-02-29", "refused"},
		{"birthdate", "1990-3-31", "refused"},
		{"birthdate", "0000", "refused"},
		{"birthdate", "31.3.1990", "refused"},
		{"birthdate", "1990-03-31T00:00:00Z", "refused"},
		{"zoneinfo", "Europe/Rome", "Europe/Rome"},
		{"zoneinfo", "UTC", "UTC"},
		{"zoneinfo", "Local", "refused"},
		{"zoneinfo", "Europe/Atlantis", "refused"},
		{"zoneinfo", "../../etc/passwd", "refused"},
		{"zoneinfo", "/etc/localtime", "refused"},
		{"zoneinfo", "+02:00", "refused"},
		{"locale", "it", "it"},
		{"locale", "en_gb", "en-GB"},
		{"locale", "zh-hant-tw", "zh-Hant-TW"},
		{"locale", "xx-notalanguage", "refused"},
		{"locale", "und", "refused"},
		{"locale", strings.Repeat("en-", 20), "refused"},
		{"phone_number", "+39 06 1234-567", "+39061234567"},
		{"phone_number", "+1 (425) 555-1212", "+14255551212"},
		{"phone_number", "06 1234567", "refused"},
		{"phone_number", "+0391234567", "refused"},
		{"phone_number", "+391234567890123456", "refused"},
		{"phone_number", "+39 CALL ME", "refused"},
		{"phone_number", "+39 06 1234567" + strings.Repeat(" ", 40) + "1", "refused"},
		{"address.formatted", "Via Roma 1\r\n00100 Roma", "Via Roma 1\n00100 Roma"},
		{"address.formatted", strings.Repeat("x\n", 11) + "x", "refused"},
		{"address.street_address", strings.Repeat("x", 201), "refused"},
		{"address.locality", "a\nb", "refused"},
		{"address.postal_code", "00100", "00100"},
		{"address.postal_code", strings.Repeat("1", 21), "refused"},
		{"address.country", "Italia", "Italia"},
	} {
		same(t, fmt.Sprintf("%s=%q", c.name, c.value), kept(t, c.name, c.value), c.want)
	}
	var p account.Profile
	for _, name := range []string{"", "name", "address", "address.planet", "sub", "GIVEN_NAME"} {
		problem, _ := web.ProblemOf(set(&p, name, "x"))
		same(t, fmt.Sprintf("%q: %v", name, problem), problem.Code, "invalid_request")
	}
}

func TestEveryNamedClaimCanBeSetAndRemoved(t *testing.T) {
	good := map[string]string{
		"profile": "https://example.org", "picture": "https://example.org", "website": "https://example.org", "birthdate": "1990", "zoneinfo": "UTC", "locale": "it",
		"phone_number": "+39061234567", "phone_number_verified": "true",
	}
	var p account.Profile
	names := claims()
	for _, name := range names {
		v := good[name]
		if v == "" {
			v = "x"
		}
		if err := set(&p, name, v); err != nil {
			t.Fatal(name, err)
		}
	}
	if !p.PhoneNumberVerified || p.Address == nil || p.Address.Country != "x" || p.Page != "https://example.org" || p.Locale != "it" {
		t.Errorf("%+v", p)
	}
	before := *p.Address
	copied := p
	for _, name := range names {
		if err := set(&p, name, ""); err != nil {
			t.Fatal(name, err)
		}
	}
	if !reflect.DeepEqual(p, account.Profile{}) {
		t.Errorf("left over: %+v", p)
	}
	same(t, "a change reached the profile that it was copied from", *copied.Address, before)
}

func TestChangedPhoneNumberIsUnverified(t *testing.T) {
	var p account.Profile
	mustSet := func(name, value string) {
		t.Helper()
		must(t, set(&p, name, value))
	}
	if err := set(&p, "phone_number_verified", "true"); err == nil {
		t.Error("no number is verified")
	}
	mustSet("phone_number", "+39061234567")
	mustSet("phone_number_verified", "true")
	mustSet("phone_number", "+39 06 1234567")
	if !p.PhoneNumberVerified {
		t.Error("the same number in other spelling lost its mark")
	}
	mustSet("phone_number", "+39061234568")
	if p.PhoneNumberVerified {
		t.Error("another number kept the mark")
	}
	if err := set(&p, "phone_number_verified", "yes"); err == nil {
		t.Error("yes is neither true nor false")
	}
}

func TestPeopleChangeTheirClaims(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	m := b.Send("PATCH", "/api/me", "application/json", `{"display_name":"Ada L","given_name":" Ada ","birthdate":"0000-12-10","phone_number":"+39 06 1234567",
		"address":{"street_address":"Via Roma 1\r\nScala B","locality":"Roma"}}`).Is(200).JSON()
	want := map[string]any{"street_address": "Via Roma 1\nScala B", "locality": "Roma"}
	if m["given_name"] != "Ada" || m["birthdate"] != "0000-12-10" || m["phone_number"] != "+39061234567" || m["phone_number_verified"] != false ||
		m["display_name"] != "Ada L" || !cmp.Equal(m["address"], any(want)) {
		t.Errorf("%v", m)
	}
	if _, there := m["family_name"]; there {
		t.Error("a claim that is not set is shown")
	}
	// An address is one value: the one before does not shine through.
	b.Send("PATCH", "/api/me", "application/json", `{"address":{"country":"Italia"},"given_name":null}`).Is(200)
	m = b.Call("GET", "/api/me", nil).Is(200).JSON()
	if _, there := m["given_name"]; there || !cmp.Equal(m["address"], any(map[string]any{"country": "Italia"})) || m["birthdate"] != "0000-12-10" {
		t.Errorf("%v", m)
	}
	exported := b.Call("GET", "/api/me/export", nil).Is(200).JSON()["user"].(map[string]any)
	if exported["birthdate"] != "0000-12-10" || exported["phone_number_verified"] != false || exported["address"] == nil {
		t.Errorf("%v", exported)
	}
	b.Send("PATCH", "/api/me", "application/json", `{"address":null,"birthdate":"","phone_number":null}`).Is(200)
	if p := w.User("ada").Profile; !reflect.DeepEqual(p, account.Profile{}) {
		t.Errorf("%+v", p)
	}
}

func TestARefusedChangeNamesEveryFaultAndChangesNothing(t *testing.T) {
	w, b := accounttest.SignedIn(t, "ada")
	pointers := func(a *accounttest.Answer) []string {
		var out []string
		list, _ := a.JSON()["errors"].([]any)
		for _, e := range list {
			out = append(out, e.(map[string]any)["pointer"].(string))
		}
		return out
	}
	for _, c := range []struct {
		body, code string
		want       []string
	}{
		{`{"display_name":"","given_name":"Ada","website":"javascript:x","address":{"locality":"a\nb","country":"Italia"}}`, "invalid_display_name", []string{"/display_name", "/website", "/address/locality"}},
		{`{"birthdate":"yesterday","zoneinfo":"Mars/Base"}`, "invalid_profile", []string{"/birthdate", "/zoneinfo"}},
		{`{"given_name":5,"nickname":["x"]}`, "invalid_request", []string{"/given_name", "/nickname"}},
		{`{"address":"Roma","given_name":"Ada"}`, "invalid_request", []string{"/address"}},
		{`{"address":{"locality":{},"planet":"Earth"}}`, "invalid_request", []string{"/address/locality", "/address/planet"}},
		{`{"address.locality":"Roma"}`, "invalid_request", []string{"/address.locality"}},
		{`{"email_verified":true}`, "invalid_request", []string{"/email_verified"}},
		{`{"given_name":"Ada","phone_number_verified":true}`, "invalid_request", []string{"/phone_number_verified"}},
		{`{"updated_at":1}`, "invalid_request", []string{"/updated_at"}},
		{`{"name":"Ada"}`, "invalid_request", []string{"/name"}},
	} {
		sameList(t, c.body, pointers(b.Send("PATCH", "/api/me", "application/json", c.body).Is(400, c.code)), c.want)
	}
	b.Send("PATCH", "/api/me", "application/json", `{"address":{"locality":"a","locality":"b"}}`).Is(400, "invalid_request")
	if u := w.User("ada"); !reflect.DeepEqual(u.Profile, account.Profile{}) || u.DisplayName == "" {
		t.Errorf("%+v", u)
	}
}

func TestSomebodyWhoIsVerifiedLosesTheMarkWithTheNumber(t *testing.T) {
	w := accounttest.New(t)
	u := w.AddUser("ada")
	_, err := roster.NewAdministration(w.Store, w.Clock.Now).Amend(t.Context(), account.Operator(), u, account.UserChange{"phone_number": "+39061234567", "phone_number_verified": "true"})
	must(t, err)
	b := w.SignedIn("ada")
	if m := b.Call("PATCH", "/api/me", map[string]string{"nickname": "A"}).Is(200).JSON(); m["phone_number_verified"] != true {
		t.Errorf("%v", m)
	}
	if m := b.Call("PATCH", "/api/me", map[string]string{"phone_number": "+39061234568"}).Is(200).JSON(); m["phone_number_verified"] != false {
		t.Errorf("%v", m)
	}
}

func TestAuditLogHasChangedMembersWithoutValues(t *testing.T) {
	w := accounttest.New(t)
	u := w.AddUser("ada")
	administration := roster.NewAdministration(w.Store, w.Clock.Now)
	got, err := administration.Amend(t.Context(), account.Operator(), u, account.UserChange{
		"display_name": " Ada L ", "email": "ada@example.org", "email_verified": "true",
		"phone_number_verified": "true", "phone_number": "+39061234567", "gender": "f",
	})
	must(t, err)
	if got.DisplayName != "Ada L" || !got.EmailVerified || !got.Profile.PhoneNumberVerified || got.Profile.Gender != "f" || got.Handle != "ada" {
		t.Errorf("%+v", got)
	}
	rows, err := administration.AuditLog(t.Context(), account.AuditQuery{Limit: 1})
	must(t, err)
	if r := rows[0]; r.Action != "user.amend" || r.Actor != "operator" || r.Target != "ada" ||
		r.Detail != "display_name email email_verified gender phone_number phone_number_verified" {
		t.Errorf("%+v", r)
	}
}

func TestChangedAddressIsUnverified(t *testing.T) {
	w := accounttest.New(t)
	u := w.AddUser("ada")
	administration := roster.NewAdministration(w.Store, w.Clock.Now)
	amend := func(c account.UserChange) account.User {
		t.Helper()
		u, err := administration.Amend(t.Context(), account.Operator(), u, c)
		must(t, err)
		return u
	}
	if amend(account.UserChange{"email": "ada@example.org"}).EmailVerified {
		t.Error("verified without a word")
	}
	if !amend(account.UserChange{"email_verified": "true"}).EmailVerified {
		t.Error("the mark was not set")
	}
	if !amend(account.UserChange{"email": "ada@example.org", "display_name": "Ada"}).EmailVerified {
		t.Error("the same address lost its mark")
	}
	if got := amend(account.UserChange{"email": ""}); got.EmailVerified || got.Email != "" {
		t.Errorf("%+v", got)
	}
}

func TestARefusedAmendmentNamesEveryFault(t *testing.T) {
	w := accounttest.New(t)
	u := w.AddUser("ada")
	administration := roster.NewAdministration(w.Store, w.Clock.Now)
	_, err := administration.Amend(t.Context(), account.Operator(), u, account.UserChange{
		"display_name": "", "email_verified": "true", "locale": "klingon!",
	})
	var p *web.Problem
	if !errors.As(err, &p) || len(p.Errors) != 3 || p.Errors[0].Pointer != "/display_name" || p.Errors[1].Pointer != "/email_verified" || p.Errors[2].Pointer != "/locale" {
		t.Errorf("%v %+v", err, p)
	}
	if _, err := administration.Amend(t.Context(), account.Operator(), u, account.UserChange{"sub": "x"}); err == nil {
		t.Error("sub was changed")
	}
	got := w.User("ada")
	same(t, got, got.DisplayName, u.DisplayName)
}
