package account_test

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

// The table in docs/threat-model.md is the one that decides. UPDATE_DOCS=1 writes it.
func TestThreatModelShowsTheTableOfActs(t *testing.T) {
	const file, begin, end = "../docs/threat-model.md", "<!-- acts -->\n", "<!-- /acts -->\n"
	proofs := map[account.Proof]string{
		account.ProofSession: "a session, where there is one", account.ProofSignIn: "what a sign-in asks for", account.ProofCode: "a code or link",
		account.ProofFresh: "fresh", account.ProofPassword: "the password, and fresh with a second factor",
	}
	endings := map[account.Ending]string{
		account.EndsNothing: "-", account.EndsOthers: "other sessions, unless kept", account.EndsOthersAndGrants: "other sessions, all access of applications, reset codes",
		account.EndsOne: "one session, its codes and grants without offline_access", account.EndsSignIn: "the session, all its grants, device marks, its known address",
		account.EndsAccess: "all sessions, all access of applications", account.EndsIfSet: "all sessions, where the settings say so on the loss of a flag",
	}
	var b strings.Builder
	b.WriteString("| act | proof | mail | ends | in the audit log |\n|---|---|---|---|---|\n")
	sentences := map[string]templates.Text{}
	for _, a := range templates.AuditActions {
		sentences[a.Name] = a.Sentence
	}
	for _, a := range account.Acts {
		if proofs[a.Proof] == "" || endings[a.Ends] == "" {
			t.Errorf("%s has no words for its proof or its ending", a.Name)
		}
		if elsewhere := a.Name == "account.delete" || a.Name == "password.forgot"; elsewhere == (sentences[a.Name] != "") {
			t.Errorf("%s: the audit log says %q", a.Name, sentences[a.Name])
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", a.Name, proofs[a.Proof], cmp.Or(a.Told, "-"), endings[a.Ends], cmp.Or(string(sentences[a.Name]), "-"))
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	shown, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	if shown == b.String() {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatalf("%s does not show the table of acts: run UPDATE_DOCS=1 go test ./account -run Acts", file)
	}
	if err := os.WriteFile(file, []byte(before+begin+b.String()+end+after), 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
}
