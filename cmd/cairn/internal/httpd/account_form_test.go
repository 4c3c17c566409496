package httpd

import (
	"bytes"
	"image"
	"image/png"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	ua "github.com/cairn-id/cairn/account/web/browser"
)

// confirmForm is the form of a page that asks before it does what was sent to a path, with all that was sent
// in hidden fields; nil where the answer is another one.
func confirmForm(t *testing.T, what string, got response, status int, path string, typed url.Values) *ua.Form {
	t.Helper()
	if got.StatusCode != status || pageName(t, got.Text) != "confirm" {
		t.Errorf("%s: %d to %q, want the page confirm with %d", what, got.StatusCode, got.Header.Get("Location"), status)
		return nil
	}
	f := ua.FormOf(got.Text, path)
	if f == nil {
		t.Errorf("%s: no form that posts to %s: %s", what, path, mainOf(got.Text))
		return nil
	}
	for name, values := range typed {
		if !slices.Equal(f.Hidden[name], values) {
			t.Errorf("%s: %s is %q, want what was sent: %q", what, name, f.Hidden[name], values)
		}
	}
	return f
}

// What was typed into a form is not lost because the session is no longer fresh: the page asks for the proof
// and sends the form on.
func TestFormIsNotLostWhereAProofIsMissing(t *testing.T) {
	l := startLife(t, serviceOptions{}, "ada", "bob")
	ada := l.signedIn("ada")
	phone := l.addTOTP(ada)
	var logo bytes.Buffer
	noError(t, png.Encode(&logo, image.NewGray(image.Rect(0, 0, 8, 8))))
	const better = "another of 3 hills"
	secret := password // of ada
	for _, c := range []struct {
		b    *browser
		path string
		sent url.Values // nil: the logo
		done func() bool
	}{
		{ada, "/account/profile", url.Values{
			"display_name": {"Ada & <Co>"}, "email": {"new@example.org"}, "address.street_address": {"1 Quay\nBoat 7"},
		}, func() bool { return ada.me().JSON(t)["email_pending"] == "new@example.org" }},
		{ada, "/account/password", url.Values{"current_password": {password}, "new_password": {better}}, func() bool {
			secret = better
			return ada.confirm(better, phone.code()).StatusCode == 200
		}},
		{ada, "/account/delete", url.Values{"password": {better}}, func() bool { return ada.me().StatusCode == 401 }},
		{l.keeper, "/admin/users/bob/profile", url.Values{
			"display_name": {`Bob "B"`}, "email": {"bob2@example.org"}, "email_verified": {"true"},
		}, func() bool {
			u := l.user("bob")
			return u["email"] == "bob2@example.org" && u["email_verified"] == true && u["display_name"] == `Bob "B"`
		}},
		{l.keeper, "/admin/settings/general", url.Values{
			"instance_name": {"Rowing"}, "registration": {"invite"}, "max_users": {"9"}, "invites_per_member": {"3"},
			"contact": {"Kim"}, "accent_colour": {""},
		}, func() bool {
			return l.keeper.call("GET /api/admin/settings").JSON(t)["instance_name"] == "Rowing"
		}},
		{l.keeper, "/admin/users/", url.Values{
			"handle": {"kim"}, "display_name": {"Kim"}, "email": {""}, "flag": {account.FlagActivity, account.FlagAdmin},
		}, func() bool { return mustJSON(t, l.user("kim")["flags"]) == `{"activity":true,"admin":true}` }},
		{l.keeper, "/admin/settings/logo", nil, func() bool {
			return strings.Contains(l.keeper.get("/admin/settings").Text, "/logo/")
		}},
	} {
		l.later(stale)
		got := response{}
		if c.sent != nil {
			got = c.b.postForm(c.path, c.sent)
		} else {
			got = c.b.postMultipart(c.path, nil, nil, logo.Bytes())
		}
		f := confirmForm(t, c.path, got, 403, c.path, c.sent)
		if f == nil {
			continue
		}
		if !f.Values.Has("confirm_password") || c.b == ada && !f.Values.Has("confirm_otp") {
			t.Errorf("%s: the page asks for %v", c.path, f.Names)
		}
		sent, before := c.sent, c.b.cookie("cairn_session")
		if sent == nil {
			sent = f.Hidden // the file
		}
		f.Values.Set("confirm_password", "not the password")
		f = confirmForm(t, c.path+", wrong password", c.b.sendForm(f), 401, c.path, sent)
		if f == nil {
			continue
		}
		if f.Values.Get("confirm_password") != "" {
			t.Errorf("%s: the wrong password is on the page", c.path)
		}
		f.Values.Set("confirm_password", password)
		if c.b == ada {
			f.Values.Set("confirm_password", secret)
			f.Values.Set("confirm_otp", phone.code())
		}
		if got := c.b.sendForm(f); got.StatusCode != 303 && got.StatusCode != 200 {
			t.Errorf("%s: %d %.300s", c.path, got.StatusCode, mainOf(got.Text))
		}
		if !c.done() || c.b.cookie("cairn_session") == before {
			t.Errorf("%s: not done, or no new cookie", c.path)
		}
	}
}
