package httpd

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/provider"
)

// parallelRefreshes sends the token at once several times and returns what was
// given out.
func (s *service) parallelRefreshes(id, secret, token string, times int) []map[string]any {
	s.t.Helper()
	answers := make([]response, times)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = s.refreshRequest(id, secret, token) })
	}
	wg.Wait()
	var won []map[string]any
	for _, a := range answers {
		if a.StatusCode == http.StatusOK {
			won = append(won, a.JSON(s.t))
			continue
		}
		wantOAuthError(s.t, "refresh that lost", a, http.StatusBadRequest, "invalid_grant")
	}
	return won
}

func TestGraceNeverFailsParallelRefreshesNorOutlivesItself(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", func(c *provider.Client) { c.RefreshGrace = 30 * time.Second })
	rp := s.relyingParty("app", secret)
	_, token := s.signedInTokens(rp, "ada")
	won := s.parallelRefreshes("app", secret, token.RefreshToken, 4)
	if len(won) != 4 {
		t.Fatalf("%d of 4 refreshes in the grace won", len(won))
	}
	for _, answer := range won {
		if s.userinfoStatus(answer["access_token"].(string)) != http.StatusOK {
			t.Error("a token of the grace does not work")
		}
	}
	if got := s.refreshRequest("app", secret, won[3]["refresh_token"].(string)); got.StatusCode != http.StatusOK {
		t.Errorf("a successor: %d %s", got.StatusCode, got.Text)
	}
	db.exec("UPDATE tokens SET used_at = used_at - 31 WHERE used_at > 0")
	wantOAuthError(t, "after the grace", s.refreshRequest("app", secret, token.RefreshToken), http.StatusBadRequest, "invalid_grant")
	wantOAuthError(t, "successor afterwards", s.refreshRequest("app", secret, won[0]["refresh_token"].(string)), http.StatusBadRequest, "invalid_grant")
}

func TestRefreshWithoutGraceIsNeverWonTwice(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	secret := s.addClient("app", nil)
	_, token := s.signedInTokens(s.relyingParty("app", secret), "ada")
	if won := s.parallelRefreshes("app", secret, token.RefreshToken, 4); len(won) > 1 {
		t.Errorf("%d refreshes won", len(won))
	}
}
