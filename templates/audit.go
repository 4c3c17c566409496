package templates

import (
	"cmp"
	"slices"
	"strings"
)

// auditAction is an action in the audit log with its sentence.
type auditAction struct {
	Name     string
	Sentence Text // see Language.AuditSentence
	Own      Text // the sentence for the person who did it to their own account, "" for none
}

// AuditActions has every action that is written today, grouped by kind.
var AuditActions = sortedActions([]auditAction{
	{"session.create", "{actor} signed in{how}", "You signed in{how}"},
	{"session.reauthenticate", "{actor} signed in again{how}", "You signed in again{how}"},
	{"session.confirm", "{actor} confirmed their identity{how}", "You confirmed your identity{how}"},
	{"session.end", "{actor} ended one of their sessions", "You ended one of your sessions"},
	{"session.sign_out", "{actor} signed out", "You signed out"},
	{"session.end_others", "{actor} signed out everywhere else", "You signed out everywhere else"},
	{"session.not_me", "{actor} reported a sign-in by someone else", "You reported a sign-in by someone else"},
	{"session.bind", "A session of {actor} was bound to its device", "Your session was bound to your device"},
	{"session.copied", "A session of {actor} was used without the key of its device",
		"Your session was used without the key of its device"},
	{"session.refused", "{actor} could not sign in: the account is suspended",
		"You could not sign in: the account was suspended"},
	{"session.limited", "{actor} tried too many wrong passwords or codes for {account}", ""},
	{"user.register", "{actor} joined with an invite", "You joined with an invite"},
	{"join.ask", "{actor} asked to join", ""},
	{"join.accept", "{actor} accepted a request to join", ""},
	{"join.refuse", "{actor} declined a request to join", ""},
	{"profile.change", "{actor} changed their profile", "You changed your profile"},
	{"profile.picture", "{actor} uploaded a picture", "You uploaded a picture"},
	{"profile.picture_remove", "{actor} removed their picture", "You removed your picture"},
	{"email.change", "{actor} changed their email address", "You changed your email address"},
	{"email.request", "{actor} asked for a new email address", "You asked for a new email address"},
	{"email.replace", "{actor} confirmed their new email address", "You confirmed your new email address"},
	{"email.cancel", "{actor} cancelled a change of email address", "You cancelled a change of your email address"},
	{"email.refuse", "{actor} kept their email address", "You kept your email address"},
	{"email.ask", "{actor} asked for an email to verify their address",
		"You asked for an email to verify your address"},
	{"email.verify", "{actor} verified their email address", "You verified your email address"},
	{"email.undo", "{actor} restored their earlier email address", "You restored your earlier email address"},
	{"password.change", "{actor} changed their password", "You changed your password"},
	{"password.remove", "{actor} removed their password", "You removed your password"},
	{"password.reset", "{actor} set a new password with a code", "You set a new password with a code"},
	{"password.limited", "{actor} tried too many wrong codes for a new password of {account}", ""},
	{"factor.add", "{actor} added a way to sign in", "You added a way to sign in"},
	{"factor.remove", "{actor} removed a way to sign in", "You removed a way to sign in"},
	{"factor.rename", "{actor} renamed a passkey", "You renamed a passkey"},
	{"factor.counter", "{actor} used a passkey that may have been copied: its counter was lower than before",
		"You used a passkey that may have been copied: its counter was lower than before"},
	{"factor.recovery_codes", "{actor} created new recovery codes", "You created new recovery codes"},
	{"factor.recovery_code_used", "{actor} used a recovery code", "You used a recovery code"},
	{"factor.refused", "{actor} entered a wrong code after the password",
		"You entered a wrong code after the password"},
	{"account.export", "{actor} downloaded all data of their account", "You downloaded all data of your account"},
	{"account.delete", "{actor} deleted their account", "You deleted your account"},
	{"app.allow", "{actor} gave an application access", "You gave an application access"},
	{"app.lasting", "{actor} let an application keep access after sign-out",
		"You let an application keep access after sign-out"},
	{"app.remove", "{actor} removed the access of an application", "You removed the access of an application"},
	{"invite.create", "{actor} created an invite", "You created an invite"},
	{"invite.create_wide", "{actor} created an invite for several people or with permissions",
		"You created an invite for several people or with permissions"},
	{"invite.delete", "{actor} deleted one of their invites", "You deleted one of your invites"},
	{"factor.second_step_on", "{actor} switched on the second step after the password",
		"You switched on the second step after the password"},
	{"factor.second_step_off", "{actor} switched off the second step after the password",
		"You switched off the second step after the password"},
	{"user.create", "{actor} created {account}", ""},
	{"user.amend", "{actor} changed the profile of {account}", "You changed your profile as an administrator"},
	{"user.flags", "{actor} changed the permissions of {account}", "You changed the permissions of your account"},
	{"user.suspend", "{actor} suspended {account}", ""},
	{"user.end", "{actor} changed the expiry date of {account}", ""},
	{"user.ended", "Expired: {account}", ""},
	{"user.flags_ended", "Permissions expired: {account}", ""},
	{"user.unsuspend", "{actor} lifted the suspension of {account}", ""},
	{"user.unlock", "{actor} unlocked sign-in for {account}", "You unlocked sign-in for your account"},
	{"user.invite", "{actor} emailed a link to choose a password: {account}", ""},
	{"user.reset_code", "{actor} created a code for a new password of {account}", ""},
	{"user.reset_factors", "{actor} removed the second factors of {account}", ""},
	{"user.end_session", "{actor} ended a session of {account}", "You ended a session of your account"},
	{"user.end_sessions", "{actor} ended all sessions of {account}", "You ended all sessions of your account"},
	{"user.delete", "{actor} deleted {account}", ""},
	{"invite.revoke", "{actor} revoked an invite of {person}", ""},
	{"invite.revoke_branch", "{actor} revoked the open invites of {person} and of everyone they invited", ""},
	{"settings.update", "{actor} changed the settings", ""},
	{"settings.logo", "{actor} changed the club picture", ""},
	{"user.import", "{actor} imported accounts", ""},
	{"settings.steps", "{actor} closed the list of next steps", ""},
	{"user.export", "{actor} downloaded the list of people", ""},
	{"audit.export", "{actor} downloaded the audit log", ""},
	{"mail.test", "{actor} sent a test email", ""},
	{"mail.failed", "An email could not be delivered", ""},
	{"keys.seal", "{actor} encrypted the stored secrets with the data key", ""},
	{"keys.migrate", "{actor} set when sessions signed with the shared secret end", ""},
	{"installation.restore", "{actor} restored a backup", ""},
	{"client.create", "{actor} registered the application {target}", ""},
	{"client.update", "{actor} changed the application {target}", ""},
	{"client.rotate_secret", "{actor} gave the application {target} a new secret", ""},
	{"client.remove", "{actor} removed the application {target}", ""},
	{"api.create", "{actor} registered the API {target}", ""},
	{"api.update", "{actor} changed the API {target}", ""},
	{"api.rotate_secret", "{actor} gave the API {target} a new secret", ""},
	{"api.remove", "{actor} removed the API {target}", ""},
	{"client.allow", "{actor} allowed applications described at {target}", ""},
	{"client.disallow", "{actor} stopped allowing applications described at {target}", ""},
})

// auditKinds has the headings of actions, by the part of their names before the dot.
var auditKinds = map[string]Text{
	"account": "Data", "api": "APIs", "app": "Applications", "audit": "Audit log", "client": "Registered applications",
	"email": "Email", "factor": "Second factor", "installation": "The service", "invite": "Invites",
	"join": "Requests to join",
	"keys": "Keys", "mail": "Email delivery", "password": "Password", "profile": "Profile", "session": "Sign-ins",
	"settings": "Settings", "user": "People",
}

// auditWords has the words of a row's detail that are translated.
var auditWords = map[string]Text{
	"display_name": "Display name", "email": "Email", "given_name": "Given name", "family_name": "Family name",
	"middle_name": "Middle name", "nickname": "Nickname", "birthdate": "Birthday", "gender": "Gender",
	"phone_number": "Phone number", "zoneinfo": "Time zone", "locale": "Language", "website": "Website",
	"profile": "Profile page", "picture": "Picture", "address.street_address": "Street and number",
	"address.postal_code": "Postal code", "address.locality": "Town", "address.region": "Region",
	"address.country": "Country", "address.formatted": "Full address, as on a letter",
	"email_verified": "Email address verified", "phone_number_verified": "Phone number verified",
	"imported": "imported", "first administrator": "first administrator",
	"totp": "authenticator app", "passkey": "passkey",
}

func sortedActions(list []auditAction) []auditAction {
	slices.SortStableFunc(list, func(a, b auditAction) int { return strings.Compare(a.kind(), b.kind()) })
	return list
}

func (a auditAction) kind() string {
	kind, _, _ := strings.Cut(a.Name, ".")
	return kind
}

// auditOperator is the actor of the operator's actions.
const auditOperator = "operator"

// auditClient begins the target of a row about a client, so that its id is not mistaken for a handle.
const auditClient = "client:"

// AuditSentence returns a sentence for a row. It names people only by the handles in the row, also
// those who have left. The sentence is untrusted text.
func (l *Language) AuditSentence(r AuditRow) string {
	detail, ended, _ := strings.Cut(r.Detail, "(ended: ")
	r.Detail = strings.TrimSpace(detail)
	if r.Action == "email.change" || r.Action == "email.request" {
		isEmail := func(member string) bool { return member == "email" }
		others := slices.DeleteFunc(strings.Fields(r.Detail), isEmail)
		if r.Detail = ""; len(others) > 0 { // members of the profile that changed with it
			profile := r
			profile.Action, profile.Detail = "profile.change", strings.Join(others, " ")
			return l.auditSentence(profile) + ". " + l.auditSentence(r) + l.auditEnded(strings.TrimSuffix(ended, ")"))
		}
	}
	return l.auditSentence(r) + l.auditEnded(strings.TrimSuffix(ended, ")"))
}

// auditEnded describes what an act has ended: "sessions 3, applications 2".
func (l *Language) auditEnded(list string) string {
	if list == "" {
		return ""
	}
	words := map[string]Text{"sessions": "sessions", "applications": "applications", "invites": "invites"}
	parts := strings.Split(list, ", ")
	for i, part := range parts {
		name, n, _ := strings.Cut(part, " ")
		if word, ok := words[name]; ok {
			parts[i] = l.Text(word) + " " + n
		}
	}
	return " (" + l.Text("ended: {list}", "list", strings.Join(parts, ", ")) + ")"
}

func (l *Language) auditSentence(r AuditRow) string {
	actor, account, person := r.Actor, l.Text("{handle}’s account", "handle", r.Target), r.Target
	switch actor {
	case "":
		actor = l.Text("Someone")
	case auditOperator:
		actor = l.Text("The operator")
	case r.Target:
		account = l.Text("their own account")
	}
	if r.Reader != "" && r.Reader == r.Target {
		account = l.Text("your account")
	}
	if r.Target == "" {
		account, person = l.Text("an account"), l.Text("someone")
	}
	target := cmp.Or(strings.TrimPrefix(r.Target, auditClient), "…")
	args := []any{"actor", actor, "account", account, "person", person, "action", r.Action, "target", target}
	i := slices.IndexFunc(AuditActions, func(a auditAction) bool { return a.Name == r.Action })
	sentence := Text("{actor}: {action}, {target}")
	if i >= 0 {
		sentence = AuditActions[i].Sentence
		if own := AuditActions[i].Own; own != "" && r.Reader != "" && r.Reader == r.Actor {
			sentence = own
		}
	}
	if !strings.HasPrefix(r.Action, "session.") {
		return l.Text(sentence, args...) + l.auditDetail(r)
	}
	how, device := "", ""
	switch r.Action { // the details of the other actions are ids
	case "session.create", "session.reauthenticate", "session.confirm":
		methods, of, _ := strings.Cut(r.Detail, ", ")
		how = l.auditFactors(strings.Fields(methods))
		if browser, system, _ := strings.Cut(of, " on "); of != "" {
			device = ", " + l.Device(browser, system)
		}
	}
	return l.Text(sentence, append(args, "how", how)...) + device
}

// auditFactors describes the methods of a sign-in (RFC 8176).
func (l *Language) auditFactors(amr []string) string {
	var factors []string
	has := func(method string) bool { return slices.Contains(amr, method) }
	if has("pwd") {
		factors = append(factors, l.Text("password"))
	}
	switch {
	case has("otp"):
		factors = append(factors, l.Text("code"))
	case has("hwk"), has("swk"):
		factors = append(factors, l.Text("passkey"))
	}
	switch len(factors) {
	case 0:
		return ""
	case 1:
		return " " + l.Text("with {factor}", "factor", factors[0])
	}
	return " " + l.Text("with {factor} and {second}", "factor", factors[0], "second", factors[1])
}

// auditDetail describes the detail of a row: names of fields and flags, or a text that somebody wrote.
func (l *Language) auditDetail(r AuditRow) string {
	word := func(s string) string {
		if text, ok := auditWords[s]; ok {
			return l.Text(text)
		}
		return s
	}
	listed := func(how, flags string) string { // flags without the first flag=
		if flags == "" {
			return how
		}
		return strings.TrimPrefix(how+", flag="+strings.ReplaceAll(flags, " flag=", ", flag="), ", ")
	}
	detail := r.Detail
	switch r.Action {
	case "user.create":
		how, flags, _ := strings.Cut(detail, "flag=")
		detail = listed(word(strings.TrimSpace(how)), flags)
	case "user.register":
		how, flags, _ := strings.Cut(detail, " flag=")
		if inviter, ok := strings.CutPrefix(how, "invited by "); ok && inviter == auditOperator {
			how = l.Text("invited by the operator")
		} else if ok {
			how = l.Text("invited by {handle}", "handle", inviter)
		}
		detail = listed(how, flags)
	case "profile.change", "user.amend":
		fields := strings.Fields(r.Detail)
		for i, f := range fields {
			fields[i] = word(f)
		}
		detail = strings.Join(fields, ", ")
	case "user.flags", "client.create", "client.update", "api.create", "api.update":
		on, off := " "+l.Text("on"), " "+l.Text("off")
		detail = strings.NewReplacer("=on@", " → ", "=on", on, "=off", off, " ", ", ").Replace(r.Detail)
	case "factor.add", "factor.remove":
		first, name, _ := strings.Cut(r.Detail, " ")
		detail = strings.TrimSpace(word(first) + " " + name)
	case "user.end_session":
		return "" // the id of the session
	}
	if detail == "" {
		return ""
	}
	return ": " + detail
}

// auditGroup has the actions of one kind to choose from.
type auditGroup struct {
	Title   string
	Choices []Choice
}

// auditGroups returns the actions that a list can be restricted to. An unknown chosen one is added.
func (l *Language) auditGroups(chosen string) (groups []auditGroup) {
	chosen = strings.TrimSuffix(chosen, ".")
	known := chosen == ""
	for i, a := range AuditActions {
		kind := a.kind()
		if i == 0 || kind != AuditActions[i-1].kind() {
			all := Choice{kind, l.Text("All of these"), kind == chosen}
			groups = append(groups, auditGroup{l.Text(auditKinds[kind]), []Choice{all}})
			known = known || all.Selected
		}
		g := &groups[len(groups)-1]
		g.Choices = append(g.Choices, Choice{a.Name, l.AuditSentence(AuditRow{Action: a.Name}), a.Name == chosen})
		known = known || a.Name == chosen
	}
	if !known {
		groups = append(groups, auditGroup{chosen, []Choice{{chosen, chosen, true}}})
	}
	return groups
}
