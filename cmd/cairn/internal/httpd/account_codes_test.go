package httpd

import (
	"fmt"
	"net/http"
	"testing"
)

// Attacks 117 and 124: guessing ends soon, and tells nothing about handles.
func TestGuessesAtCodesEnd(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	s.addUser("keeper", "admin")
	s.addUser("ada")
	keeper := s.signedIn("keeper")
	code, b := keeper.invite(), s.visitor()
	for range 7 { // who looks for a free handle does not guess
		wantProblem(t, "taken", b.register(code, "keeper"), http.StatusConflict, "handle_taken")
	}
	for i := range 5 {
		wantProblem(t, "guess", b.register(fmt.Sprintf("%016d", i), []string{"keeper", "nobody"}[i%2]), http.StatusBadRequest, "invalid_invite")
	}
	wantProblem(t, "the 6th guess", b.register(fmt.Sprintf("%016d", 9), "x"), http.StatusTooManyRequests, "rate_limited")
	wantStatus(t, "a good one from there", b.register(code, "grace"), http.StatusCreated)
	guess := func(i int) string { return fmt.Sprintf("%026d", i) }
	for i := range 5 {
		wantProblem(t, "distributed guess", s.visitor().reset([]string{"ada", "ADA", " ada", "ａda", "adA"}[i], guess(i), password+"!"), http.StatusBadRequest, "invalid_reset_code")
	}
	wantProblem(t, "the 6th at one account", s.visitor().reset("ada", guess(9), password+"!"), http.StatusTooManyRequests, "rate_limited")
	one := s.visitor()
	for i := range 10 {
		wantProblem(t, "guess from one address", one.reset(fmt.Sprintf("user%d", i), guess(i), password+"!"), http.StatusBadRequest, "invalid_reset_code")
	}
	wantProblem(t, "the 11th from one address", one.reset("user11", guess(1), password+"!"), http.StatusTooManyRequests, "rate_limited")
}

// The page that an invite's link opens says whether a code is known: a wrong one is
// a guess like any other.
func TestWrongInviteLinksAreGuesses(t *testing.T) {
	limitedInstances(t, func(t *testing.T, instances []*service) {
		keeper := instances[0]
		keeper.addUser("keeper", "admin")
		code := keeper.signedIn("keeper").invite()
		address, good := freshAddress(), freshAddress()
		look := func(i int, address, code string) int {
			return instances[i%len(instances)].visitorAt(address).get("/register/?code=" + code).StatusCode
		}
		if got := inParallel(30, func(i int) int { return look(i, good, code) }); got[http.StatusOK] != 30 {
			t.Errorf("a crowd with one good link: %v", got)
		}
		got := inParallel(100, func(i int) int { return look(i, address, fmt.Sprintf("%016d", i)) })
		if got[http.StatusBadRequest] != 5 || got[http.StatusOK] != 95 { // the page without a word about the code
			t.Errorf("wrong links: %v, want 5 of 400", got)
		}
		wantProblem(t, "a guess from there", instances[0].visitorAt(address).register("0123456789ABCDEF", "grace"), http.StatusTooManyRequests, "rate_limited")
		wantStatus(t, "a good one from there", instances[0].visitorAt(address).register(code, "grace"), http.StatusCreated)
	})
}

// Attack 108: one invite, sixteen people at the same moment, eight times, all
// behind one address: the losers are no guessers, and nobody after them pays.
func TestInviteLetsOnePersonIn(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		keeper, address := s.signedIn("keeper"), freshAddress()
		for round := range 8 {
			code := keeper.invite()
			got := inParallel(16, func(i int) int {
				return s.visitorAt(address).register(code, fmt.Sprintf("user%d-%d", round, i)).StatusCode
			})
			if got[http.StatusCreated] != 1 || got[http.StatusBadRequest] != 15 {
				t.Errorf("round %d: %v", round, got)
			}
		}
		users, _, err := s.store.Users(t.Context(), userQuery(""))
		if err != nil || len(users) != 9 {
			t.Errorf("%d users after 8 invites: %v", len(users)-1, err)
		}
	})
}
