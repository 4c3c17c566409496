package account

import (
	"net/http"
	"strings"

	"github.com/cairn-id/cairn/templates"
)

// auditSentences say in words what the actions of the audit log are, to the person whom
// they are about.
var auditSentences = map[string]templates.Text{
	"session.create":            "Signed in",
	"session.reauthenticate":    "Signed in again",
	"session.end":               "A session has ended",
	"session.end_others":        "All other sessions have ended",
	"session.refused":           "A sign-in was refused, as the account is suspended",
	"session.limited":           "Too many wrong passwords were tried",
	"session.not_me":            "A sign-in was reported as somebody else’s",
	"user.register":             "The account was made with an invite",
	"user.create":               "The account was made",
	"user.amend":                "The profile was changed",
	"user.flags":                "What the account may use was changed",
	"user.suspend":              "The account was suspended",
	"user.unsuspend":            "The suspension was lifted",
	"user.reset_code":           "A code for a new password was made",
	"user.reset_factors":        "The second factors were taken away",
	"user.end_session":          "A session was ended",
	"user.end_sessions":         "All sessions were ended",
	"password.change":           "The password was changed",
	"password.reset":            "A new password was set with a code",
	"password.limited":          "Too many wrong codes for a new password were tried",
	"profile.change":            "The profile was changed",
	"email.ask":                 "Another email address was asked for",
	"email.change":              "The email address was changed",
	"email.undo":                "The change of the email address was undone",
	"email.verify":              "The email address was confirmed",
	"factor.add":                "A second factor was added",
	"factor.remove":             "A second factor was removed",
	"factor.counter":            "A passkey may have been copied: its counter went back",
	"factor.recovery_codes":     "New recovery codes were made",
	"factor.recovery_code_used": "A recovery code was used",
	"account.export":            "All data of the account was downloaded",
	"app.allow":                 "An application was let in",
	"app.remove":                "The access of an application was removed",
	"invite.create":             "An invite was made",
	"invite.delete":             "An invite was deleted",
	"invite.revoke":             "An invite was revoked",
}

// AuditSentence says an action in words; what has none of its own is a change.
func AuditSentence(action string) templates.Text {
	if s, ok := auditSentences[action]; ok {
		return s
	}
	return "The account was changed"
}

// shownHistory is how many rows the page shows; where an administrator has acted on
// others, fewer of those read are about them.
const shownHistory, readHistory = 20, 100

// describeHistory shows what has lately happened with the account.
func (s *Service) describeHistory(r *http.Request, page *templates.AccountSecurity) error {
	l := templates.LanguageOf(r.Context())
	rows, err := s.store.AuditLog(r.Context(), AuditQuery{Person: page.Handle, Limit: readHistory})
	for _, a := range rows {
		if a.Target != page.Handle || len(page.History) == shownHistory {
			continue
		}
		row := templates.HistoryRow{Action: a.Action, Text: l.Text(AuditSentence(a.Action)), At: a.At, Address: a.Address}
		switch {
		case a.Actor == Operator().Name:
			row.By, row.Address = l.Text("by the operator"), ""
		case a.Actor != page.Handle && a.Actor != "": // their address is their own affair
			row.By, row.Address = l.Text("by {handle}", "handle", a.Actor), ""
		case strings.HasPrefix(a.Action, "session."):
			_, device, _ := strings.Cut(a.Detail, ", ")
			row.Browser, row.System, _ = strings.Cut(device, " on ")
		}
		page.History = append(page.History, row)
	}
	return err
}
