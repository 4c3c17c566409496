package site_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/accounttest"
)

// Each act of the policy, at its door; the rows that it writes have its name and no other's, and what is told goes to
// the address that was verified before. Acts of the command line have a test there, and AllowApp one in package provider.
func TestEachActIsInTheAuditLogByItsName(t *testing.T) {
	op := account.Operator()
	type scene struct {
		*accounttest.World
		post *postbox
		ada  *accounttest.Browser
		app  app // hers, once it is enrolled
	}
	enrolled := func(s *scene) { s.app = enrol(s.ada) }
	type step = func(s *scene)
	admin := func(do func(s *scene, a *roster.Administration, u account.User) error) step {
		return func(s *scene) {
			if err := do(s, s.Administration(), s.User("ada")); err != nil {
				s.T.Fatal(err)
			}
		}
	}
	followed := func(s *scene, to string) { // the link of the next mail
		path, button := link(t, s.post.one(to))
		page, _, _ := strings.Cut(path, "?")
		s.Browser().Page(page, button...).Is(200)
	}
	tried := func(s *scene, path string, body map[string]string, n int) {
		for range n {
			s.BrowserAt("198.51.100.7").Call("POST", path, body)
		}
	}
	invited := ""
	invite := func(s *scene) { invited = s.ada.Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string) }
	wrong := map[string]string{"handle": "ada", "password": "not the password"}
	cases := map[string]struct {
		act         account.Act
		before, run step
	}{
		"sign in": {account.SignIn, nil, func(s *scene) { s.Browser().Login("ada", password).Is(200) }},
		"again":   {account.SignInAgain, nil, func(s *scene) { s.ada.Login("ada", password).Is(200) }},
		"confirm": {account.ConfirmIdentity, nil, func(s *scene) {
			s.ada.Call("POST", "/api/auth/confirm", map[string]string{"password": password}).Is(200)
		}},
		"end": {account.EndSession, func(s *scene) { s.SignedIn("ada") }, func(s *scene) {
			_, others := s.ada.SessionIDs()
			s.ada.Call("DELETE", "/api/me/sessions/"+others[0], nil).Is(204)
		}},
		"sign out": {account.SignOut, nil, func(s *scene) { s.ada.Call("POST", "/api/auth/logout", nil).Is(200) }},
		"end own": {account.SignOut, nil, func(s *scene) {
			own, _ := s.ada.SessionIDs()
			s.ada.Call("DELETE", "/api/me/sessions/"+own, nil).Is(204)
		}},
		"end others": {account.EndOtherSessions, func(s *scene) { s.SignedIn("ada") }, func(s *scene) {
			s.ada.Call("POST", "/api/me/sessions/end-others", nil).Is(204)
		}},
		"not me": {account.DisownSession, func(s *scene) { s.Browser().Login("ada", password).Is(200) },
			func(s *scene) { followed(s, "ada@example.org") }},
		"suspended": {account.RefuseSuspended, func(s *scene) { s.Suspend("ada") },
			func(s *scene) { s.Browser().Login("ada", password).Is(403) }},
		"limited": {account.LimitSignIns, nil, func(s *scene) { tried(s, "/api/auth/login", wrong, 4) }},
		"register": {account.Register, invite, func(s *scene) {
			s.Browser().Call("POST", "/api/register", map[string]string{"code": invited, "handle": "bob", "password": newPassword}).Is(201)
		}},
		"picture": {account.SetPicture, nil, func(s *scene) { uploadPicture(s.ada, "picture", smallPicture(s.T, 1)).Is(303) }},
		"no picture": {account.RemovePicture, nil, func(s *scene) {
			s.ada.Page("/account/picture/remove", "x", "y").Is(303)
		}},
		"profile": {account.ChangeProfile, nil, func(s *scene) {
			s.ada.Call("PATCH", "/api/me", map[string]string{"nickname": "a"}).Is(200)
		}},
		"address":     {account.ChangeEmail, nil, func(s *scene) { changeEmail(s.ada, "") }},
		"new address": {account.RequestEmail, nil, func(s *scene) { changeEmail(s.ada, "ada@example.net") }},
		"cancel": {account.CancelEmail, func(s *scene) { changeEmail(s.ada, "ada@example.net") },
			func(s *scene) { s.ada.Call("DELETE", "/api/me/email/pending", nil).Is(204) }},
		"refuse": {account.RefuseEmail, func(s *scene) { changeEmail(s.ada, "ada@example.net") },
			func(s *scene) { press(s.T, s.Browser(), links(s.post.byAddress()["ada@example.org"])[0]).Is(200) }},
		"replace": {account.ReplaceEmail, func(s *scene) { changeEmail(s.ada, "ada@example.net") }, func(s *scene) {
			press(s.T, s.Browser(), links(s.post.byAddress()["ada@example.net"])[0]).Is(200)
		}},
		"ask": {account.AskVerification, func(s *scene) { setEmail(s.World, "ada", "ada@example.net", false) },
			func(s *scene) { s.ada.Call("POST", "/api/me/email/send-verification", nil).Is(204) }},
		"verify": {account.VerifyEmail, func(s *scene) {
			setEmail(s.World, "ada", "ada@example.net", false)
			s.ada.Call("POST", "/api/me/email/send-verification", nil).Is(204)
		}, func(s *scene) { followed(s, "ada@example.net") }},
		"undo": {account.UndoEmailChange, func(s *scene) { changeEmail(s.ada, "") }, func(s *scene) { followed(s, "ada@example.org") }},
		"password": {account.ChangePassword, nil, func(s *scene) {
			s.ada.Call("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": newPassword}).Is(200)
		}},
		"no password": {account.RemovePassword, func(s *scene) { addPasskey(s.ada, "key") }, func(s *scene) { s.ada.Call("DELETE", "/api/me/password", nil).Is(204) }},
		"reset": {account.ResetPassword, nil, func(s *scene) {
			s.Browser().Call("POST", "/api/auth/reset-password", reset("ada", s.ResetCode("ada"), newPassword)).Is(200)
		}},
		"resets limited": {account.LimitResets, nil, func(s *scene) {
			tried(s, "/api/auth/reset-password", reset("ada", "0", newPassword), 4)
		}},
		"add":    {account.AddFactor, nil, enrolled},
		"remove": {account.RemoveFactor, enrolled, func(s *scene) { s.ada.Call("DELETE", "/api/me/totp", nil).Is(204) }},
		"rename": {account.RenamePasskey, func(s *scene) { addPasskey(s.ada, "key") }, func(s *scene) {
			key := s.ada.Call("GET", "/api/me/passkeys", nil).Is(200).JSON()["passkeys"].([]any)[0].(map[string]any)
			s.ada.Call("PATCH", "/api/me/passkeys/"+key["id"].(string), map[string]string{"name": "blue"}).Is(200)
		}},
		"second step": {account.AskSecondStep, func(s *scene) { addWayIn(s.ada, "key") }, func(s *scene) {
			s.ada.Call("PUT", "/api/me/second-step", map[string]bool{"on": true}).Is(200)
		}},
		"no second step": {account.DropSecondStep, func(s *scene) { addPasskey(s.ada, "key") }, func(s *scene) {
			s.ada.Call("PUT", "/api/me/second-step", map[string]bool{"on": false}).Is(200)
		}},
		"codes": {account.RenewRecoveryCodes, enrolled, func(s *scene) { s.ada.Call("POST", "/api/me/recovery-codes", nil).Is(200) }},
		"code used": {account.UseRecoveryCode, enrolled, func(s *scene) {
			loginOTP(s.Browser(), "ada", password, s.app.codes[0]).Is(200)
		}},
		"code refused": {account.RefuseFactor, enrolled, func(s *scene) { loginOTP(s.Browser(), "ada", password, "000000x").Is(401) }},
		"export":       {account.ExportAccount, nil, func(s *scene) { s.ada.Page("/account/export", "x", "").Is(200) }},
		"delete": {account.DeleteAccount, nil, func(s *scene) {
			s.ada.Call("DELETE", "/api/me", map[string]string{"password": password}).Is(204)
		}},
		"remove app": {account.RemoveApp, func(s *scene) {
			c := &provider.Client{ID: "maps", Name: "Maps", RedirectURIs: []string{"https://maps.example.org/cb"}, AuthMethod: provider.AuthNone, CreatedAt: s.Clock.Now()}
			err := s.Store.(clients).CreateClient(s.T.Context(), c, op.Audit(s.Clock.Now(), account.RegisterClient, "", ""))
			if err == nil {
				row := op.Audit(s.Clock.Now(), account.AllowApp, "", "")
				err = s.Store.(clients).SaveConsent(s.T.Context(), s.User("ada").Sub, c.ID, []string{"openid"}, s.Clock.Now(), row)
			}
			if err != nil {
				s.T.Fatal(err)
			}
		}, func(s *scene) { s.ada.Call("DELETE", "/api/me/apps/maps", nil).Is(204) }},
		"invite": {account.CreateInvite, nil, invite},
		"wide invite": {account.CreateWideInvite, nil, func(s *scene) {
			if _, err := s.Store.SetFlagsOfAll(s.T.Context(), account.FlagChange{account.FlagAdmin: {On: true}}, s.Clock.Now(), map[string]account.Audit{s.User("ada").Sub: op.Audit(s.Clock.Now(), account.SetFlags, "ada", "")}); err != nil {
				s.T.Fatal(err)
			}
			s.ada.Call("POST", "/api/invites", map[string]any{"uses": 2}).Is(201)
		}},
		"delete invite": {account.DeleteInvite, invite, func(s *scene) { s.ada.Call("DELETE", "/api/invites/"+invited, nil).Is(204) }},

		"create": {account.AddUser, nil, admin(func(s *scene, a *roster.Administration, _ account.User) error {
			_, _, err := a.Add(s.T.Context(), op, account.NewUser{Handle: "bob"})
			return err
		})},
		"amend": {account.AmendUser, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			_, err := a.Amend(s.T.Context(), op, u, account.UserChange{"email": "ada@example.net"})
			return err
		})},
		"amend, verified": {account.AmendUser, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			_, err := a.Amend(s.T.Context(), op, u, account.UserChange{"email": "ada@example.net", "email_verified": "true"})
			return err
		})},
		"mark taken": {account.AmendUser, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			_, err := a.Amend(s.T.Context(), op, u, account.UserChange{"email_verified": "false"})
			return err
		})},
		"flags": {account.SetFlags, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			_, err := a.SetFlags(s.T.Context(), op, u, account.FlagChange{account.FlagActivity: {On: true}})
			return err
		})},
		"end of a flag": {account.SetFlags, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			end := account.FlagChange{account.FlagActivity: {On: true, SetEnd: true,
				EndsAt: s.Clock.Now().AddDate(1, 0, 0)}}
			_, err := a.SetFlags(s.T.Context(), op, u, end)
			return err
		})},
		"power taken": {account.SetFlags, func(s *scene) {
			_, err := s.Administration().SetFlags(s.T.Context(), op, s.User("ada"), account.FlagChange{account.FlagAdmin: {On: true}})
			must(s.T, err)
			s.AddUser("root", account.FlagAdmin)
		}, admin(func(s *scene, a *roster.Administration, u account.User) error {
			_, err := a.SetFlags(s.T.Context(), op, u, account.FlagChange{account.FlagAdmin: {On: false}})
			return err
		})},
		"suspend": {account.Suspend, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			return a.Suspend(s.T.Context(), op, u, "", false)
		})},
		"unsuspend": {account.Unsuspend, func(s *scene) { s.Suspend("ada") },
			admin(func(s *scene, a *roster.Administration, u account.User) error {
				return a.Unsuspend(s.T.Context(), op, u)
			})},
		"set end": {account.SetEnd, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			return a.SetEnd(s.T.Context(), op, u, s.Clock.Now().AddDate(1, 0, 0))
		})},
		"unlock": {account.UnlockUser, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			return a.Unlock(s.T.Context(), op, u)
		})},
		"reset code": {account.IssueResetCode, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			_, err := a.IssueResetCode(s.T.Context(), op, u)
			return err
		})},
		"reset factors": {account.ResetFactors, enrolled, admin(func(s *scene, a *roster.Administration, u account.User) error {
			return a.ResetFactors(s.T.Context(), op, u)
		})},
		"end session": {account.EndUserSession, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			own, _ := s.ada.SessionIDs()
			return a.EndSession(s.T.Context(), op, u, own)
		})},
		"end sessions": {account.EndUserSessions, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			_, err := a.EndSessions(s.T.Context(), op, u, account.Keep{})
			return err
		})},
		"delete user": {account.DeleteUser, nil, admin(func(s *scene, a *roster.Administration, u account.User) error {
			return a.Delete(s.T.Context(), op, u)
		})},
		"revoke": {account.RevokeInvite, invite, admin(func(s *scene, a *roster.Administration, _ account.User) error {
			return a.RevokeInvite(s.T.Context(), op, invited)
		})},
		"revoke branch": {account.RevokeBranch, invite, admin(func(s *scene, a *roster.Administration, u account.User) error {
			_, err := a.RevokeBranch(s.T.Context(), op, u)
			return err
		})},
		"settings": {account.UpdateSettings, nil, func(s *scene) {
			s.SaveSettings(func(v *account.Settings) { v.InstanceName = "Club" })
		}},
		"steps": {account.CloseNextSteps, func(s *scene) {
			row := op.Audit(s.Clock.Now(), account.UpdateSettings, "settings", "")
			_, err := s.Store.AmendSettings(s.T.Context(), func(v *account.Settings) (string, error) {
				v.NextSteps = true
				return "next_steps", nil
			}, row)
			if err != nil {
				s.T.Fatal(err)
			}
		}, admin(func(s *scene, a *roster.Administration, _ account.User) error {
			return a.CloseNextSteps(s.T.Context(), op)
		})},
		"logo": {account.SetLogo, nil, admin(func(s *scene, _ *roster.Administration, _ account.User) error {
			return s.Service.SetLogo(s.T.Context(), op, false, nil)
		})},
	}
	// These have their tests where they are done.
	elsewhere := []string{account.AllowApp.Action, account.GiveLastingAccess.Action, account.NoticeCounter.Action,
		account.ImportUsers.Action, account.ExportAudit.Action, account.ExportUsers.Action, account.TestMail.Action,
		account.ConfirmJoin.Action, account.AcceptJoin.Action, account.RefuseJoin.Action, account.InviteUser.Action,
		account.BindDevice.Action, account.RefuseDevice.Action}
	for _, act := range account.Acts {
		tested := slices.Contains(elsewhere, act.Action) || act.Silent || act.Proof == account.ProofOperator
		for _, c := range cases {
			tested = tested || c.act.Action == act.Action
		}
		if !tested {
			t.Errorf("%s is not done here", act.Action)
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, post := newMailWorld(t, withLimits(map[string]web.Rate{
				web.LimitLoginAccount: {Count: 2, Window: 15 * time.Minute}, web.LimitResetAccount: {Count: 2, Window: 15 * time.Minute},
			}))
			s := &scene{World: w, post: post}
			addMember(w, "ada", "ada@example.org")
			post.new()
			s.ada = w.SignedIn("ada")
			post.new()
			if c.before != nil {
				c.before(s)
			}
			if c.act.Proof != account.ProofCode { // else the mail has what it needs
				post.new()
			}
			before := actionsOf(t, w)
			c.run(s)
			if got := actionsOf(t, w)[len(before):]; !slices.Contains(got, c.act.Action) || len(got) > 2 {
				t.Errorf("rows %q, want %s", got, c.act.Action)
			}
			told := slices.DeleteFunc(post.new(), func(m mail.Message) bool {
				return m.To != "ada@example.org" || strings.HasPrefix(m.Subject, signInMail)
			})
			// What undoes a change is told to the address that goes.
			if c.act.Told != "" && c.act.Told != account.MailNewDevice && name != "undo" && len(told) != 1 {
				t.Errorf("%d mails to the address verified before, want 1", len(told))
			}
		})
	}
}

func actionsOf(t *testing.T, w *accounttest.World) (list []string) {
	t.Helper()
	err := w.Administration().EachAudit(t.Context(), account.AuditQuery{}, func(a account.Audit) error {
		list = append([]string{a.Action}, list...)
		return nil
	})
	must(t, err)
	return list
}
