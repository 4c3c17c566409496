package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// Each of three sessions and somebody unknown has made a thing of each kind: a (s)ession, a (g)rant
// and an (o)ffline one, a (c)onsent, an (i)nvite and one that is s(t)ale, and a (k)nown address. What
// an act leaves of them:
func TestActsEndWhatTheirMakersLeft(t *testing.T) {
	const before = "mine:sgocitk other:sgocitk third:sgocitk old:ocit reset mailed verify mark"
	after := map[string]string{
		"session.sign_out":                   "mine:ocitk other:sgocitk third:sgocitk old:ocit reset mailed verify mark",
		"session.end":                        "mine:oci other:sgocitk third:sgocitk old:ocit reset mailed verify mark",
		"session.end_others":                 "mine:sgocitk mark",
		"factor.add":                         "mine:sgocitk mark",
		"factor.remove":                      "mine:sgocitk mark",
		"email.change":                       "mine:sgocitk mark",
		"email.replace":                      "mine:sgocitk mark",
		"password.change":                    "mine:sitk other:i third:i old:ci",
		"session.not_me":                     "old:ci disowned unverified", // old: before the sign-in
		"password.reset":                     "old:ci unverified",
		"password.reset with an old address": "old:ci",
		"email.undo":                         "old:ci disowned",
		"user.suspend":                       "old:c",
		"user.end_sessions":                  "old:ci unverified",
		"user.end_sessions with all invites": "old:c unverified", // recent consents end whatever is of invites
		"user.reset_factors":                 "mine:ik other:ik third:ik old:ci unverified",
		"user.flags":                         "mine:ocitk other:ocitk third:ocitk old:ocit reset mailed verify mark",
		"app.remove":                         before,
	}
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for action, want := range after {
			t.Run(action, func(t *testing.T) {
				u, clients := addUser(t, s, strings.NewReplacer(".", "-", "_", "-", " ", "-").Replace(action)), map[string]string{}
				names := map[string]string{"": "old"}
				since := noon.Add(-time.Hour)
				for _, name := range []string{"mine", "other", "third", "old"} {
					n, made := account.Session{Sub: u.Sub}, noon
					if name == "old" {
						made = since.Add(-time.Hour)
						n.ID = "gone-" + u.Handle
						names[n.ID] = name
					} else {
						row := newSession(u.Sub)
						row.Address = name
						must(t, s.CreateSession(ctx, row, u.PasswordHash, act("session.create")))
						n = *row
						names[n.ID] = name
					}
					c := addClient(t, s, u.Handle+"-"+name)
					clients[c.ID] = name
					for i, scopes := range [][]string{{"openid"}, {"openid", "offline_access"}} {
						if name == "old" && i == 0 {
							continue
						}
						g := newGrant(c, n, scopes...)
						if name == "old" { // from before a session was needed
							g.SessionID = firstOf(names, "mine")
							g.SessionToken = []byte("token " + g.SessionID)
						}
						must(t, spendCode(ctx, s, addCode(t, s, g)))
						if name == "old" {
							must(t, s.Exec("UPDATE grants SET sid = ? WHERE id = ?", n.ID, g.ID))
						}
					}
					by := act("app.allow")
					if name != "old" {
						by.Session = n.ID
					}
					must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid"}, made, by))
					for _, stale := range []bool{false, true} {
						i, err := account.NewInvite(u.Sub, "", made)
						must(t, err)
						if i.Stale = stale; name != "old" {
							i.SessionID = n.ID
						}
						must(t, s.CreateInvite(ctx, i, -1, act("invite.create")))
					}
				}
				must(t, s.CreateResetCode(ctx, u.Sub, []byte("hash"), noon.Add(time.Hour), noon, act("user.reset_code")))
				must(t, s.Exec("INSERT INTO mailed_reset_codes (sub, hash, created_at, expires_at) VALUES (?, ?, 0, ?)", u.Sub, []byte("mailed "+u.Sub), noon.Add(time.Hour).Unix()))
				must(t, s.Exec("UPDATE users SET email_verified = (1 = 1), email_asked_at = 5, email_changed_at = ? WHERE sub = ?", noon.Unix(), u.Sub))
				lives := func() string { return livingOf(t, s, u, names, clients) }
				if got := lives(); got != before {
					t.Fatalf("before:\n%s, want\n%s", got, before)
				}
				mine := firstOf(names, "mine")
				action, all := strings.CutSuffix(action, " with all invites")
				action, old := strings.CutSuffix(action, " with an old address")
				a := during(mine, act(action))
				if all {
					a.Ends.Invites = account.AllInvites
				}
				if old {
					must(t, s.Exec("UPDATE users SET email_changed_at = ? WHERE sub = ?", since.Unix()-1, u.Sub))
				}
				a.Since = since
				if a.Ends.Sessions == account.OneSession {
					must(t, s.EndSession(ctx, u.Sub, mine, noon, a))
				} else {
					_, err := s.EndSessions(ctx, u.Sub, noon, a)
					must(t, err)
				}
				same(t, "lives", lives(), want)
			})
		}
	})
}

// A waiting address belongs to the session that asked: of it, of another and of one that is not known. For which of
// them it still waits after an act of mine, with a link that is as good as before:
func TestActsDropAWaitingAddressWithItsSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for action, want := range map[string]string{
			"session.sign_out": "mine other unknown", "user.flags": "mine other unknown", "app.remove": "mine other unknown", "user.ended": "mine other unknown",
			"session.end": "other unknown", "session.end_others": "", "factor.add": "", "factor.remove": "", "email.replace": "", "password.change": "",
			"session.not_me": "", "password.reset": "", "email.undo": "", "user.suspend": "", "user.end_sessions": "", "user.reset_factors": "",
		} {
			left := []string{}
			for _, asked := range []string{"mine", "other", "unknown"} {
				u := addUser(t, s, strings.NewReplacer(".", "-", "_", "-").Replace(action)+"-"+asked)
				mine, other := signIn(t, s, u), signIn(t, s, u)
				by := map[string]string{"mine": mine.ID, "other": other.ID}[asked]
				must(t, s.Exec(`UPDATE users SET email_verified = (1 = 1), email_pending = 'new@example.org', email_pending_at = 5,
					email_pending_session_id = ?, email_asked_at = 5 WHERE sub = ?`, by, u.Sub))
				a := during(mine.ID, act(action))
				if a.Ends.Sessions == account.OneSession {
					must(t, s.EndSession(ctx, u.Sub, mine.ID, noon, a))
				} else {
					_, err := s.EndSessions(ctx, u.Sub, noon, a)
					must(t, err)
				}
				switch u, err := s.UserBySub(ctx, u.Sub); {
				case err != nil:
					t.Fatal(err)
				case u.Pending.Email != "" && !u.EmailAskedAt.IsZero() && u.Pending.Session == by:
					left = append(left, asked)
				case u.Pending.Email+u.Pending.Session != "" || !u.Pending.At.IsZero() || !u.EmailAskedAt.IsZero():
					t.Errorf("%s, asked by %s: half of it waits: %+v, %v", action, asked, u.Pending, u.EmailAskedAt)
				}
			}
			same(t, fmt.Sprintf("%s: waits of", action), strings.Join(left, " "), want)
		}
	})
}

func firstOf(names map[string]string, name string) string {
	for id, n := range names {
		if n == name && id != "" && !strings.HasPrefix(id, "gone") {
			return id
		}
	}
	return ""
}

// livingOf describes what is left, by who made it.
func livingOf(t *testing.T, s *store.Store, u account.User, names, clients map[string]string) string {
	t.Helper()
	found := map[string]string{}
	look := func(letter, query string) {
		rows, err := s.Texts(query, u.Sub)
		must(t, err)
		for _, r := range rows {
			found[names[r]] += letter
		}
	}
	look("s", "SELECT id FROM sessions WHERE sub = ? AND ended_at = 0")
	look("g", "SELECT sid FROM grants WHERE sub = ? AND revoked_at = 0 AND NOT offline")
	look("o", "SELECT sid FROM grants WHERE sub = ? AND revoked_at = 0 AND offline")
	look("c", "SELECT session_id FROM consents WHERE sub = ?")
	look("i", "SELECT session_id FROM invites WHERE created_by = ? AND NOT stale")
	look("t", "SELECT session_id FROM invites WHERE created_by = ? AND stale")
	for _, name := range []string{"mine", "other", "third"} {
		if known, err := s.KnownAddress(t.Context(), u.Sub, name, time.Time{}); err != nil {
			t.Fatal(err)
		} else if known {
			found[name] += "k"
		}
	}
	var parts []string
	for _, name := range []string{"mine", "other", "third", "old"} {
		if found[name] != "" {
			parts = append(parts, name+":"+found[name])
		}
	}
	for _, flag := range []struct{ word, condition string }{
		{"reset", "EXISTS (SELECT 1 FROM reset_codes r WHERE r.sub = users.sub)"}, {"mailed", "EXISTS (SELECT 1 FROM mailed_reset_codes r WHERE r.sub = users.sub)"}, {"verify", "email_asked_at > 0"},
		{"mark", "devices_voided_at = 0"}, {"disowned", "password_disowned_at > 0"}, {"unverified", "NOT email_verified"},
	} {
		n, err := s.Count("SELECT count(*) FROM users WHERE sub = ? AND "+flag.condition, u.Sub)
		must(t, err)
		if n > 0 {
			parts = append(parts, flag.word)
		}
	}
	return strings.Join(parts, " ")
}

// The access tokens of an API name the flags of their user, for as long as they live.
func TestLossOfAFlagEndsAccessTokensThatNameIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada", "coach")
		c, n := addClient(t, s, "app"), signIn(t, s, u)
		var refresh [2]string
		for i, list := range []int{0, 1} { // without and with tokens for an API
			g := newGrant(c, n, "openid", "offline_access")
			must(t, spendCode(ctx, s, addCode(t, s, g)))
			must(t, s.Exec("UPDATE grants SET status_list = ?, status_index = 7 WHERE id = ?", list, g.ID))
			_, refresh[i] = addTokens(t, s, g)
		}
		_, err := s.SetFlags(ctx, u.Sub, account.FlagChange{"coach": {}}, noon, act("user.flags"))
		must(t, err)
		_, err = useToken(ctx, s, refresh[0])
		must(t, err)
		_, err = useToken(ctx, s, refresh[1])
		want(t, err, provider.ErrSpent)
	})
}

// An application that a person keeps stays, of whichever session; the others end.
func TestKeptApplicationsStay(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		mine, other := signIn(t, s, u), signIn(t, s, u)
		refresh := map[string]string{}
		for _, id := range []string{"kept", "gone"} {
			g := newGrant(addClient(t, s, id), other, "openid", "offline_access")
			must(t, spendCode(ctx, s, addCode(t, s, g)))
			_, refresh[id] = addTokens(t, s, g)
		}
		a := during(mine.ID, act("session.end_others"))
		a.KeepApps = []string{"kept"}
		_, err := s.EndSessions(ctx, u.Sub, noon, a)
		must(t, err)
		_, err = useToken(ctx, s, refresh["kept"])
		must(t, err)
		_, err = useToken(ctx, s, refresh["gone"])
		want(t, err, provider.ErrSpent)
	})
}

// Marks and the address of a reset fall with what may be somebody else's, marks also twice in a second.
func TestWhatMadeABrowserKnownFalls(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		n := signIn(t, s, u)
		for _, ended := range []bool{false, true} {
			if ended {
				must(t, s.EndSession(ctx, u.Sub, n.ID, noon, act("session.end")))
			}
			if is, err := s.DisownedMark(ctx, u.Sub, noon.Add(time.Second)); err != nil || is != ended {
				t.Errorf("ended %t: the mark is disowned: %t, %v", ended, is, err)
			}
		}
		reset := act("password.reset")
		reset.Address = "192.0.2.1"
		must(t, s.CreateResetCode(ctx, u.Sub, []byte("code"), noon.Add(time.Hour), noon, act("user.reset_code")))
		must(t, s.ResetPassword(ctx, "ada", []byte("code"), "new", noon, reset))
		known := func(since time.Time) bool {
			is, err := s.KnownAddress(ctx, u.Sub, reset.Address, since)
			must(t, err)
			return is
		}
		if !known(noon) || known(noon.Add(time.Second)) {
			t.Fatal("the address of a reset is not known, or for ever")
		}
		var voided []time.Time
		for range 2 {
			_, err := s.EndSessions(ctx, u.Sub, noon, act("user.end_sessions"))
			must(t, err)
			u, err = s.UserBySub(ctx, u.Sub)
			must(t, err)
			voided = append(voided, u.DevicesVoidedAt)
		}
		if known(noon) || !voided[1].After(voided[0]) {
			t.Errorf("known: %t, marks voided at %v", known(noon), voided)
		}
	})
}

// Of scopes that a person leaves out, one that was given before ends the earlier grants, whatever the others are.
func TestALeftOutScopeEndsEarlierGrants(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		for i, refused := range [][]string{{"email", "phone"}, {"phone", "email"}} {
			ctx, u := t.Context(), addUser(t, s, name("ada", i))
			c, n := addClient(t, s, name("app", i)), signIn(t, s, u)
			must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid", "email"}, noon, act("app.allow")))
			_, refresh := addTokens(t, s, newGrantStored(t, s, c, n))
			must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid"}, noon, act("app.allow"), refused...))
			_, err := useToken(ctx, s, refresh)
			want(t, err, provider.ErrSpent)
		}
	})
}
