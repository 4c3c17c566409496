package account_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/templates"
)

// The table in docs/threat-model.md is the one that decides. UPDATE_DOCS=1 writes it.
func TestThreatModelShowsTheTableOfActs(t *testing.T) {
	proofs := map[account.Proof]string{
		account.ProofSession: "a session", account.ProofSignIn: "what a sign-in asks for", account.ProofCode: "a code or link",
		account.ProofFresh: "fresh", account.ProofAdministrator: "an administrator, fresh", account.ProofPassword: "the password, and fresh with a second factor",
		account.ProofOperator: "the command line",
	}
	const byItself = "none: automatic"
	others := map[string]string{ // than the word for their proof
		account.EndAccount.Action: byItself, account.EndFlags.Action: byItself, account.GiveUpMail.Action: byItself,
		account.LimitSignIns.Action: byItself, account.LimitResets.Action: byItself,
		account.AskToJoin.Action: "none", account.ForgetPassword.Action: "none", account.SignOut.Action: "a session, where there is one",
	}
	var b strings.Builder
	b.WriteString("| act | proof | mail | ends |\n|---|---|---|---|\n")
	sentences := map[string]templates.Text{}
	for _, a := range templates.AuditActions {
		sentences[a.Name] = a.Sentence
	}
	rows, order := map[string][]string{}, []string(nil) // acts of which the same holds are one row
	for _, a := range account.Acts {
		if proofs[a.Proof] == "" {
			t.Errorf("%s has no proof", a.Action)
		}
		if a.Silent == (sentences[a.Action] != "") {
			t.Errorf("%s: the audit log says %q", a.Action, sentences[a.Action])
		}
		rest := fmt.Sprintf("%s | %s | %s |\n", cmp.Or(others[a.Action], proofs[a.Proof]), cmp.Or(a.Told, "-"), ending(a.Ends))
		if rows[rest] == nil {
			order = append(order, rest)
		}
		rows[rest] = append(rows[rest], "`"+a.Action+"`")
		delete(sentences, a.Action)
	}
	for action := range sentences {
		t.Errorf("no act has the action %s", action)
	}
	for _, rest := range order {
		fmt.Fprintf(&b, "| %s | %s", strings.Join(rows[rest], ", "), rest)
	}
	checkTable(t, "../docs/threat-model.md", "acts", b.String())
}

// checkTable compares the table between the marks of a name in a document, or writes it if UPDATE_DOCS is set.
func checkTable(t *testing.T, file, name, table string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	raw, err := os.ReadFile(file)
	must(t, err)
	before, rest, ok := strings.Cut(string(raw), begin)
	shown, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	if shown == table {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatalf("%s does not show the table of %s: run UPDATE_DOCS=1 go test ./account -run Table", file, name)
	}
	if err := os.WriteFile(file, []byte(before+begin+table+end+after), 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
}

// ending describes what an act ends.
func ending(e account.Ending) string {
	var words []string
	add := func(on bool, word string) {
		if on {
			words = append(words, word)
		}
	}
	sessions := map[account.EndedSessions]string{account.OneSession: "one session", account.OtherSessions: "other sessions", account.AllSessions: "all sessions"}
	grants := map[account.EndedGrants]string{
		account.OnlineGrants: "their grants without offline_access", account.SessionGrants: "all their grants and consents",
		account.GroupGrants: "their grants without offline_access or with groups", account.AllGrants: "all access of applications",
	}
	add(e.Sessions != account.NoSessions, sessions[e.Sessions])
	add(e.Grants != account.NoGrants, grants[e.Grants])
	invites := map[account.EndedInvites]string{
		account.StaleInvites: "**stale invites**", account.SessionInvites: "their open invites",
		account.RecentInvites: "recent open invites", account.AllInvites: "open invites",
	}
	add(e.Invites != account.NoInvites, invites[e.Invites])
	add(e.Consents, "recent consents")
	add(e.Addresses == account.SessionAddresses, "their known addresses")
	add(e.Addresses == account.AllAddresses, "known addresses")
	add(e.Pending == account.SessionPending, "their waiting address")
	add(e.Pending == account.AllPending, "a waiting address")
	add(e.Codes, "pending codes")
	add(e.Marks, "marks of known browsers")
	add(e.Password, "the password opens nothing")
	add(e.Factors == account.NamedFactors, "**young factors** that are named")
	add(e.Factors == account.DisownedFactors, "**young factors**")
	add(e.Unverify, "a recent address is unverified")
	add(e.Given == account.RecentGiven, "what they gave others recently")
	add(e.Given == account.AllGiven, "what they gave others")
	text := strings.Join(words, ", ")
	for _, s := range endings {
		text = strings.Replace(text, s.acts, s.name, 1)
	}
	return cmp.Or(text, "-")
}

// endings are what several acts end, by the names that the document explains.
var endings = []struct{ acts, name string }{
	{"all sessions, all access of applications, open invites, recent consents, known addresses, a waiting address, pending codes, marks of known browsers", "**everything**"},
	{
		"all sessions, all access of applications, recent open invites, recent consents, known addresses, a waiting address, pending codes, marks of known browsers",
		"**everything recent**",
	},
	{"other sessions, all their grants and consents, their open invites, their known addresses, a waiting address, pending codes", "**all of the others**"},
}

func TestActNeedsTheProofOfItsPolicy(t *testing.T) {
	w := accounttest.New(t)
	operator, session := account.Operator(), account.Session{ID: "x", ConfirmedAt: w.Clock.Now()}
	member := account.Caller{}.In(account.User{Handle: "ada"}, session)
	keyless := account.Caller{User: account.User{PasswordHash: account.NoPassword}}
	for i, c := range []struct {
		by   account.Caller
		act  account.Act
		want error
	}{
		{operator, account.RegisterClient, nil}, {operator, account.Suspend, nil}, {member, account.RemoveFactor, nil},
		{member, account.RegisterClient, account.ErrReauthenticationRequired}, {member, account.Suspend, account.ErrAdminRequired},
		{keyless, account.DeleteAccount, account.ErrReauthenticationRequired}, {account.Caller{}, account.DeleteAccount, nil},
	} {
		if err := w.Service.Allow(c.by, c.act); !errors.Is(err, c.want) {
			t.Errorf("%d, %s: %v", i, c.act.Action, err)
		}
	}
	for _, act := range []account.Act{{}, {Action: "session.end"}} {
		if err := w.Service.Allow(operator, act); err == nil {
			t.Errorf("%+v, without a policy, is allowed", act)
		}
	}
}
