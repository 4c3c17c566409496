package account_test

import (
	"errors"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

func TestAmendingTellsTheAuditLogWhatAndNeverTheValue(t *testing.T) {
	w := newWorld(t)
	u := w.addUser("ada")
	office := account.NewAdministration(w.store, w.clock.Now)
	got, err := office.Amend(t.Context(), account.Operator(), u, account.UserChange{
		"display_name": " Ada L ", "email": "ada@example.org", "email_verified": "true",
		"phone_number_verified": "true", "phone_number": "+39061234567", "gender": "f",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.DisplayName != "Ada L" || !got.EmailVerified || !got.Profile.PhoneNumberVerified || got.Profile.Gender != "f" || got.Handle != "ada" {
		t.Errorf("%+v", got)
	}
	rows, err := office.AuditLog(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r := rows[0]; r.Action != "user.amend" || r.Actor != "operator" || r.Target != "ada" || r.Detail != "display_name email email_verified gender phone_number phone_number_verified" {
		t.Errorf("%+v", r)
	}
}

func TestAChangedAddressIsNeverVerifiedByItself(t *testing.T) {
	w := newWorld(t)
	u := w.addUser("ada")
	office := account.NewAdministration(w.store, w.clock.Now)
	amend := func(c account.UserChange) account.User {
		t.Helper()
		u, err := office.Amend(t.Context(), account.Operator(), u, c)
		if err != nil {
			t.Fatal(err)
		}
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
	w := newWorld(t)
	u := w.addUser("ada")
	office := account.NewAdministration(w.store, w.clock.Now)
	_, err := office.Amend(t.Context(), account.Operator(), u, account.UserChange{
		"display_name": "", "email_verified": "true", "locale": "klingon!",
	})
	var p *web.Problem
	if !errors.As(err, &p) || len(p.Errors) != 3 || p.Errors[0].Pointer != "/display_name" || p.Errors[1].Pointer != "/email_verified" || p.Errors[2].Pointer != "/locale" {
		t.Errorf("%v %+v", err, p)
	}
	if _, err := office.Amend(t.Context(), account.Operator(), u, account.UserChange{"sub": "x"}); err == nil {
		t.Error("sub was changed")
	}
	if got := w.user("ada"); got.DisplayName != u.DisplayName {
		t.Errorf("%+v", got)
	}
}
