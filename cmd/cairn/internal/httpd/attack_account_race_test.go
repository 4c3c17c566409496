package httpd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// Attack 108: one invite, sixteen people at the same moment, eight times, all
// behind one address: the losers are no guessers, and nobody after them pays.
func TestInviteNeverLetsTwoPeopleIn(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		prefix := s.prefix()
		s.addUser(prefix+"keeper", "admin")
		keeper, address := s.signedIn(prefix+"keeper"), freshAddress()
		for round := range 8 {
			code := keeper.invite()
			got := inParallel(16, func(i int) int {
				return s.visitorAt(address).register(code, fmt.Sprintf("%s%d-%d", prefix, round, i)).StatusCode
			})
			if got[http.StatusCreated] != 1 || got[http.StatusBadRequest] != 15 {
				t.Errorf("round %d: %v", round, got)
			}
		}
		users, _, err := s.store.Users(t.Context(), userQuery(prefix))
		if err != nil || len(users) != 9 {
			t.Errorf("%d users after 8 invites: %v", len(users)-1, err)
		}
	})
}

// Attack 111: one handle, many invites.
func TestHandleIsNeverGivenTwice(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		prefix := s.prefix()
		s.addUser(prefix+"keeper", "admin")
		keeper := s.signedIn(prefix + "keeper")
		codes := make([]string, 12)
		for i := range codes {
			codes[i] = keeper.invite()
		}
		spellings := []string{prefix + "grace", " " + prefix + "GRACE", prefix + "Ｇｒａｃｅ"}
		got := inParallel(len(codes), func(i int) int { return s.visitor().register(codes[i], spellings[i%3]).StatusCode })
		if got[http.StatusCreated] != 1 || got[http.StatusConflict] != len(codes)-1 {
			t.Errorf("%v", got)
		}
		// Attack 109: the invites of the others are as good as before.
		open := 0
		for _, i := range keeper.api("GET", "/api/invites", nil).JSON(t)["invites"].([]any) {
			if i.(map[string]any)["used"] == false {
				open++
			}
		}
		if open != len(codes)-1 {
			t.Errorf("%d of %d invites are open", open, len(codes)-1)
		}
	})
}

// Attack 115.
func TestMemberNeverMakesMoreInvitesThanAllowed(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		prefix := s.prefix()
		s.addUser(prefix + "ada")
		b := s.signedIn(prefix + "ada")
		got := inParallel(16, func(int) int { return b.api("POST", "/api/invites", nil).StatusCode })
		if got[http.StatusCreated] != 3 || got[http.StatusForbidden] != 13 {
			t.Errorf("%v", got)
		}
		list := b.api("GET", "/api/invites", nil).JSON(t)
		if len(list["invites"].([]any)) != 3 || list["remaining"] != 0.0 {
			t.Errorf("%v", list)
		}
	})
}

// Attack 121.
func TestResetCodeIsNeverSpentTwice(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		prefix := s.prefix()
		s.addUser(prefix+"keeper", "admin")
		keeper := s.signedIn(prefix + "keeper")
		for round := range 3 {
			handle, address := fmt.Sprintf("%sada%d", prefix, round), freshAddress()
			s.addUser(handle)
			code, fresh := keeper.resetCode(handle), func(i int) string { return fmt.Sprintf("over %d of 8 hills", i) }
			got := inParallel(8, func(i int) int { return s.visitorAt(address).reset(handle, code, fresh(i)).StatusCode })
			if got[http.StatusOK] != 1 || got[http.StatusOK]+got[http.StatusBadRequest]+got[http.StatusTooManyRequests] != 8 {
				t.Errorf("round %d: %v", round, got)
			}
			works := 0
			for i := range 8 {
				if s.visitor().login(handle, fresh(i)).StatusCode == http.StatusOK {
					works++
				}
			}
			if works != 1 {
				t.Errorf("round %d: %d of the eight passwords work", round, works)
			}
		}
	})
}

// Attack 134: three administrators who remove one another, in every way there
// is, at the same moment.
func TestLastAdministratorNeverGoes(t *testing.T) {
	eachInstallation(t, func(t *testing.T, s *service) {
		prefix := s.prefix()
		for round := range 3 {
			var handles []string
			var browsers []*browser
			for i := range 3 {
				h := fmt.Sprintf("%s%d-%d", prefix, round, i)
				s.addUser(h, "admin")
				handles, browsers = append(handles, h), append(browsers, s.signedIn(h))
			}
			s.demoteAllBut(handles)
			var deeds []func() response
			for i, b := range browsers {
				for j, h := range handles {
					deeds = append(deeds, func() response { return b.api("PUT", "/api/admin/users/"+h+"/flags", map[string]bool{"admin": false}) })
					if i == j {
						deeds = append(deeds, func() response { return b.api("DELETE", "/api/me", map[string]string{"password": password}) })
						continue
					}
					deeds = append(deeds, func() response { return b.api("POST", "/api/admin/users/"+h+"/suspend", nil) },
						func() response { return b.api("DELETE", "/api/admin/users/"+h, nil) })
				}
			}
			got := inParallel(len(deeds), func(i int) int { return deeds[i]().StatusCode })
			for status := range got {
				if !slices.Contains([]int{200, 204, 401, 403, 404, 409, 429}, status) {
					t.Errorf("round %d: %v", round, got)
				}
			}
			if left := s.administrators(); len(left) != 1 {
				t.Errorf("round %d: administrators %v after %v", round, left, got)
			}
		}
	})
}

// administrators are the handles of those who can act.
func (s *service) administrators() (handles []string) {
	s.t.Helper()
	users, _, err := s.store.Users(context.Background(), userQuery(""))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, u := range users {
		if u.Has("admin") && !u.Suspended() {
			handles = append(handles, u.Handle)
		}
	}
	return handles
}

// demoteAllBut leaves the named administrators and no others.
func (s *service) demoteAllBut(keep []string) {
	s.t.Helper()
	for _, h := range s.administrators() {
		if slices.Contains(keep, h) {
			continue
		}
		u, err := s.store.UserByHandle(context.Background(), h)
		if err == nil {
			_, err = s.store.SetFlags(context.Background(), u.Sub, map[string]bool{"admin": false}, false, u.CreatedAt, operator("user.flags", h, ""))
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// Attack 137: what is done twice, or by two at once, is done once and never a
// server error.
func TestRepeatedAdministrationNeverFails(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada")
		keeper := s.signedIn("keeper")
		for _, deed := range []string{"suspend", "suspend", "unsuspend", "unsuspend"} {
			if got := keeper.api("POST", "/api/admin/users/ada/"+deed, nil); got.StatusCode != http.StatusOK {
				t.Errorf("%s: %d %s", deed, got.StatusCode, got.Text)
			}
		}
		got := inParallel(18, func(i int) int {
			switch i % 3 {
			case 0:
				return keeper.api("POST", "/api/admin/users/ada/suspend", nil).StatusCode
			case 1:
				return keeper.api("POST", "/api/admin/users/ada/unsuspend", nil).StatusCode
			}
			return keeper.api("POST", "/api/admin/users/ada/reset-password-code", nil).StatusCode
		})
		if got[http.StatusOK] != 12 || got[http.StatusCreated] != 6 {
			t.Errorf("suspend, lift and reset code in parallel: %v", got)
		}
		got = inParallel(12, func(int) int { return keeper.api("DELETE", "/api/admin/users/ada", nil).StatusCode })
		if got[http.StatusNoContent] != 1 || got[http.StatusNotFound] != 11 {
			t.Errorf("delete in parallel: %v", got)
		}
		wantProblem(t, "delete again", keeper.api("DELETE", "/api/admin/users/ada", nil), http.StatusNotFound, "user_not_found")
	})
}

// Attacks 46, 47 and 137: an account that goes while its password is compared
// answers like any other, and leaves no session.
func TestSignInDuringDeletionNeverTellsMore(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		keeper := s.signedIn("keeper")
		for round := range 6 {
			handle := fmt.Sprintf("user%d", round)
			s.addUser(handle)
			browsers := make([]*browser, 8)
			got := inParallel(9, func(i int) int {
				if i == 8 {
					return keeper.api("DELETE", "/api/admin/users/"+handle, nil).StatusCode
				}
				browsers[i] = s.visitor()
				return browsers[i].login(handle, password).StatusCode
			})
			if got[http.StatusNoContent] != 1 || got[http.StatusOK]+got[http.StatusUnauthorized] != 8 {
				t.Errorf("round %d: %v", round, got)
			}
			for _, b := range browsers {
				if got := b.api("GET", "/api/me", nil).StatusCode; got != http.StatusUnauthorized {
					t.Errorf("round %d: a session outlives its user: %d", round, got)
				}
			}
		}
	})
}
