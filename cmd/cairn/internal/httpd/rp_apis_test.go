//go:build unix

package httpd

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
)

const pageAPI = "https://api.example.org"

// apiPrograms starts the APIs of docs/apis.md and docs/examples, so the test runs what the page shows. It returns their addresses, by language.
func apiPrograms(t *testing.T, issuer string) map[string]string {
	t.Helper()
	dir, urls := t.TempDir(), map[string]string{}
	run := func(section, language, file string, command func(file, port string) []string) {
		port := freePort(t)
		names := []string{"https://id.example.org", issuer}
		if language != "java" {
			names = append(names, "8080", port)
		}
		program := []string{""}
		if language == "go" { // short enough for the page
			program = blocks(projectText(t, "docs/apis.md"), language)
		} else {
			program[0] = projectText(t, "docs/examples/"+file)
		}
		if len(program) != 1 {
			t.Fatalf("docs/apis.md: %d blocks of %s", len(program), language)
		}
		renamed(t, section, program, names...)
		file = filepath.Join(dir, file)
		noError(t, os.WriteFile(file, []byte(program[0]), 0o600))
		startProgram(t, port, command(file, port))
		urls[section] = "http://127.0.0.1:" + port + "/trails"
	}
	build := func(command ...string) {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command[0], err, out)
		}
	}
	run("Go", "go", "trails.go", func(file, _ string) []string {
		build("go", "build", "-o", file+".program", file)
		return []string{file + ".program"}
	})
	run("Python", "python", "trails.py", func(file, _ string) []string {
		needFiles(t, "/usr/bin/python3", "/usr/lib/python3/dist-packages/authlib", "/usr/lib/python3/dist-packages/flask")
		return []string{"/usr/bin/python3", "-E", "-s", "-B", file}
	})
	run("Node.js", "js", "trails.mjs", func(file, _ string) []string {
		node := nodeScript(t, "openid_client.mjs", "jose", "express")[0]
		noError(t, os.Symlink(filepath.Join(relyingPartyHome(), "node_modules"), filepath.Join(dir, "node_modules")))
		return []string{node, file}
	})
	run("Spring Boot", "java", "Trails.java", func(file, port string) []string {
		list := filepath.Join(relyingPartyHome(), "spring-classpath")
		needFiles(t, list)
		libraries, err := os.ReadFile(list)
		noError(t, err)
		classes := dir + ":" + strings.TrimSpace(string(libraries))
		build("javac", "-parameters", "-d", dir, "-cp", classes, file)
		return []string{"java", "-XX:TieredStopAtLevel=1", "-cp", classes, "org.example.trails.Trails", "--server.port=" + port, "--server.address=127.0.0.1", "--spring.main.banner-mode=off"}
	})
	return urls
}

// Each API of docs/apis.md accepts what Cairn gives for it, nothing else, and learns within the ttl of the list that a grant has ended.
func TestRPAPIsOfThePageVerifyTheirTokens(t *testing.T) {
	foreign(t)
	files, _ := keyFiles(t, jose.ES256)
	s := startService(t, serviceOptions{Settings: func(c *config.Settings) { c.AdditionalKeyFiles, c.StatusTTL = files, "1s" }})
	s.addClient("app", nil)
	s.addAPI(pageAPI, "Trails", func(a *provider.API) {
		a.Clients = []string{"app"}
		a.Scopes = []provider.APIScope{{Name: "trails.read", Sentence: "See your trails"}, {Name: "trails.write", Sentence: "Change your trails"}}
	})
	s.addAPI("https://other.example.org", "Other", func(a *provider.API) {
		a.AllClients, a.Algorithm, a.Scopes = true, "RS256", []provider.APIScope{{Name: "other", Sentence: "See others"}}
	})
	urls := apiPrograms(t, s.URL)
	visit := func(program, authorization string) response {
		header := []string{"Accept", "application/json"}
		if authorization != "" {
			header = append(header, "Authorization", authorization)
		}
		return s.browser().get(urls[program], header...)
	}
	rp := s.apiApp("app", "openid", "trails.read")
	u := s.addUser("ada")
	b, token := s.signedInTokens(rp, "ada")
	narrow := func(scope string) string {
		got, err := rp.exchange(b.authorize(rp.authURL("scope", scope), "ada").Get("code"))
		noError(t, err)
		return got.AccessToken
	}
	noScope, both := narrow("openid trails.write"), narrow("openid trails.read other")
	bad := map[string]string{
		"ID token": rawIDToken(token), "session": b.cookie("cairn_session"), "for another API": narrow("other"), "opaque": narrow("openid"),
		"changed": token.AccessToken[:len(token.AccessToken)-8] + "AAAAAAAA", "not a token": "x",
	}
	maps.Copy(bad, forgedAccessTokens(t, s, files, jwtPayload(t, token.AccessToken)))
	unknowable := bad["of a list that there is not"]
	delete(bad, "of a list that there is not")
	for program := range urls {
		for what, good := range map[string]string{"a good one": token.AccessToken, "for two APIs": both} {
			if got := visit(program, "Bearer "+good); got.StatusCode != http.StatusOK || got.JSON(t)["sub"] != u.Sub {
				t.Fatalf("%s, %s: %d %s %s", program, what, got.StatusCode, got.Header, got.Text)
			}
		}
		got := visit(program, "Bearer "+noScope)
		if challenge := got.Header.Get("WWW-Authenticate"); got.StatusCode != http.StatusForbidden || !strings.Contains(challenge, `error="insufficient_scope"`) {
			t.Errorf("%s, without the scope: %d %s", program, got.StatusCode, got.Header)
		}
		if got := visit(program, "Bearer "+unknowable); got.StatusCode != http.StatusServiceUnavailable &&
			(program != "Spring Boot" || got.StatusCode != http.StatusInternalServerError) {
			t.Errorf("%s, without a list: %d", program, got.StatusCode)
		}
		bad["none"] = ""
		for what, token := range bad {
			authorization := "Bearer " + token
			if token == "" {
				authorization = ""
			}
			got := visit(program, authorization)
			if got.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(strings.ToLower(got.Header.Get("WWW-Authenticate")), "bearer") {
				t.Errorf("%s, %s: %d %s %s", program, what, got.StatusCode, got.Header, got.Text)
			}
		}
	}

	keeper := s.joined("keeper", "admin")
	for what, end := range map[string]func(b *browser, user string){
		"sign-out": func(b *browser, _ string) { b.api("POST", "/api/auth/logout", nil) },
		"suspension": func(_ *browser, user string) {
			needStatus(t, "", keeper.api("POST", "/api/admin/users/"+user+"/suspend", nil), http.StatusOK)
		},
		"removed consent": func(b *browser, _ string) {
			needStatus(t, "", b.api("DELETE", "/api/me/apps/app", nil), http.StatusNoContent)
		},
	} {
		user := strings.ReplaceAll(what, " ", "-")
		s.addUser(user)
		b, token := s.signedInTokens(rp, user)
		for program := range urls {
			needStatus(t, program+" before "+what, visit(program, "Bearer "+token.AccessToken), http.StatusOK)
		}
		end(b, user)
		for program := range urls {
			for until := time.Now().Add(15 * time.Second); visit(program, "Bearer "+token.AccessToken).StatusCode != http.StatusUnauthorized; {
				if time.Now().After(until) {
					t.Fatalf("%s: 15 seconds after %s the token still counts", program, what)
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
}

// forgedAccessTokens are each wrong in one thing. Most have a signature by a key of the service.
func forgedAccessTokens(t *testing.T, s *service, files []string, claims map[string]any) map[string]string {
	t.Helper()
	keys, err := config.LoadSigningKeys(sharedKey(), files)
	noError(t, err)
	ec, attacker := keys[1], attackersKey()
	attacker.KeyID = keys[0].KeyID
	public, err := x509.MarshalPKIXPublicKey(keys[0].Public().Key.(*rsa.PublicKey))
	noError(t, err)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Errorf("a token made an API ask %s", r.URL) }))
	t.Cleanup(elsewhere.Close)
	sign := func(alg jose.SignatureAlgorithm, key any, typ string, change map[string]any) string {
		changed := maps.Clone(claims)
		for name, value := range change {
			if changed[name] = value; value == nil {
				delete(changed, name)
			}
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key},
			(&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
		noError(t, err)
		payload, err := json.Marshal(changed)
		noError(t, err)
		jws, err := signer.Sign(payload)
		noError(t, err)
		token, err := jws.CompactSerialize()
		noError(t, err)
		return token
	}
	with := func(name string, value any) string {
		return sign(jose.ES256, ec, "at+jwt", map[string]any{name: value})
	}
	place := func(uri any, index any) map[string]any {
		return map[string]any{"status_list": map[string]any{"uri": uri, "idx": index}}
	}
	list := claims["status"].(map[string]any)["status_list"].(map[string]any)["uri"]
	now := time.Now().Unix()
	return map[string]string{
		"of type JWT": sign(jose.ES256, ec, "JWT", nil), "logout token": sign(jose.ES256, ec, "logout+jwt", nil),
		"HS256 with the public key": sign(jose.HS256, jose.JSONWebKey{Key: public, KeyID: keys[0].KeyID}, "at+jwt", nil),
		"attacker's key":            sign(jose.RS256, attacker, "at+jwt", nil), "unknown key": sign(jose.RS256, attackersKey(), "at+jwt", nil),
		"PS256": sign(jose.PS256, jose.JSONWebKey{Key: keys[0].Key, KeyID: keys[0].KeyID}, "at+jwt", nil),
		"none":  reheaded(with("jti", "x"), `{"alg":"none","typ":"at+jwt"}`),
		"bound": with("cnf", map[string]any{"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}), "another issuer": with("iss", s.URL+"/"), "no issuer": with("iss", nil),
		"another audience": with("aud", pageAPI+"/"), "no audience": with("aud", nil), "no client": with("client_id", nil), "no jti": with("jti", nil),
		"expired": sign(jose.ES256, ec, "at+jwt", map[string]any{"iat": now - 3700, "exp": now - 100}), "no exp": with("exp", nil), "not yet valid": with("nbf", now+100),
		"no status": with("status", nil), "list elsewhere": with("status", place(elsewhere.URL+"/oauth2/status/1", 1)), "list of another host": with("status", place(s.URL+"@"+strings.TrimPrefix(elsewhere.URL, "http://")+"/oauth2/status/1", 1)),
		"of a list that there is not": with("status", place(s.URL+"/oauth2/status/999", 1)),
		"index beyond the list":       with("status", place(list, 1<<30)), "index below it": with("status", place(list, -1)), "index as text": with("status", place(list, "1")),
	}
}

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
			if claims := jwtPayload(t, saw.Token); claims["aud"] != resource || claims["client_id"] != id ||
				claims["scope"] != "notes.read offline_access" || saw.Refresh == "" {
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
