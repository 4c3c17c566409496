//go:build unix

package httpd

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

// An agent that was never registered signs in at an MCP server, which verifies its token locally, or asks at
// introspection; a removed consent ends it within the ttl. Client and server are those of the MCP SDK for TypeScript, which
// speak two revisions. The client gets a refresh token because the 401 names its scope.
func TestRPAgentThatBringsItsOwnDescriptionUsesAnMCPServer(t *testing.T) {
	code := projectText(t, "docs/examples/mcp_server.mjs")
	for how, revision := range map[string]string{"locally": "2026-07-28", "by introspection": "2025-11-25"} {
		t.Run(how, func(t *testing.T) {
			client := nodeScript(t, "mcp_client.mjs", "@modelcontextprotocol/client", "@modelcontextprotocol/server", "@modelcontextprotocol/express",
				"@modelcontextprotocol/node", "jose", "express")
			server := []string{client[0], filepath.Join(filepath.Dir(client[1]), "server.mjs")}
			noError(t, os.WriteFile(server[1], []byte(code), 0o600))
			h := startAgentHost(t)
			s := startService(t, serviceOptions{DocumentRoots: h.roots(), BasePath: "/id", Settings: func(c *config.Settings) { c.StatusTTL = "5s" }})
			ada := s.addUser("ada")
			port, agentPort := freePort(t), freePort(t)
			resource, agent := "http://localhost:"+port+"/mcp", "http://127.0.0.1:"+agentPort
			id := h.describe("/ok/agent.json", nil)
			apiID, secret := s.addAPI(resource, "Notes", func(a *provider.API) {
				a.Scopes = []provider.APIScope{{Name: "notes.read", Sentence: "Read your notes"}}
			})
			s.allow(id, resource)
			env := []string{"ISSUER=" + s.URL, "RESOURCE=" + resource, "PORT=" + port}
			if how == "by introspection" {
				env = append(env, "INTROSPECTION_ID="+apiID, "INTROSPECTION_SECRET="+secret)
			}
			startProgram(t, port, server, env...)
			var pin []string
			if how == "locally" {
				pin = []string{"REVISION=" + revision}
			}
			startProgram(t, agentPort, client, append(pin, "SERVER="+resource, "DESCRIPTION="+id, "BASE="+agent)...)
			b := s.browser()
			trail := b.visit(agent+"/login", "ada")
			last := trail[len(trail)-1]
			var saw struct{ Revision, Said, Token, Refresh string }
			if err := json.Unmarshal([]byte(last.Text), &saw); err != nil || saw.Revision != revision || saw.Said != ada.Sub+" "+id {
				t.Fatalf("%d %s", last.StatusCode, last.Text)
			}
			if claims := jwtPayload(t, saw.Token); claims["aud"] != resource || claims["client_id"] != id || claims["scope"] != "notes.read offline_access" || saw.Refresh == "" {
				t.Errorf("claims %v, refresh token of %d characters", claims, len(saw.Refresh))
			}
			if got := b.get(agent + "/again"); got.StatusCode != http.StatusOK {
				t.Fatalf("again: %d %s", got.StatusCode, got.Text)
			}
			if got := b.call("DELETE /api/me/apps/" + url.PathEscape(id)); got.StatusCode != http.StatusNoContent {
				t.Fatalf("remove the consent: %d %s", got.StatusCode, got.Text)
			}
			for end := time.Now().Add(7 * time.Second); ; time.Sleep(200 * time.Millisecond) {
				got := b.get(agent + "/again")
				if strings.HasPrefix(got.Header.Get("Location"), s.URL+"/oauth2/authorize?") {
					break
				}
				if got.StatusCode != http.StatusOK || time.Now().After(end) {
					t.Fatalf("after the consent was removed: %d %s", got.StatusCode, got.Text)
				}
			}
		})
	}
}
