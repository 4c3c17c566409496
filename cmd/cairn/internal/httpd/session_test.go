package httpd

import (
	"errors"
	"testing"

	"github.com/cairn-id/cairn/account"
)

func TestSessionThatTheOperatorEndsIsNeverUsedAgain(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	here, there, third := s.browser(), s.browser(), s.browser()
	for _, b := range []*browser{here, there, third} {
		b.signIn("ada")
	}
	u, err := s.store.UserByHandle(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	id, _ := here.api("GET", "/api/me", nil).JSON(t)["session"].(map[string]any)["id"].(string)
	office := account.NewAdministration(s.store, nil)
	if err := office.EndSession(t.Context(), account.Operator(), u, id); err != nil {
		t.Fatal(err)
	}
	if here.api("GET", "/api/me", nil).StatusCode != 401 || there.api("GET", "/api/me", nil).StatusCode != 200 {
		t.Error("the wrong session ended")
	}
	if err := office.EndSession(t.Context(), account.Operator(), u, id); !errors.Is(err, account.ErrSessionNotFound) {
		t.Errorf("ended twice: %v", err)
	}
	if n, err := office.EndSessions(t.Context(), account.Operator(), u); n != 2 || err != nil {
		t.Errorf("%d ended: %v", n, err)
	}
	if there.api("GET", "/api/me", nil).StatusCode != 401 || third.api("GET", "/api/me", nil).StatusCode != 401 {
		t.Error("a session is left")
	}
}
