package templates_test

import (
	"strings"
	"testing"

	"github.com/cairn-id/cairn/templates"
)

func TestAuditRowsAreSentences(t *testing.T) {
	english, german := templates.PickLanguage("en"), templates.PickLanguage("de")
	for _, c := range []struct{ actor, action, target, detail, english, german string }{
		{
			"eva", "session.create", "eva", "pwd otp mfa, Chrome on Linux",
			"eva signed in with password and code, Chrome on Linux", "eva hat sich mit Passwort und Code angemeldet, Chrome auf Linux",
		},
		{"eva", "session.reauthenticate", "eva", "swk user mfa", "eva signed in again with passkey", "eva hat sich mit Passkey erneut angemeldet"},
		{"eva", "session.create", "eva", "", "eva signed in", "eva hat sich angemeldet"},
		{"eva", "session.end", "eva", "0b9c", "eva ended one of their sessions", "eva hat eine eigene Sitzung beendet"},
		{
			"eva", "profile.change", "eva", "address.locality birthdate",
			"eva changed their profile: Town, Birthday", "eva hat das eigene Profil geändert: Ort, Geburtstag",
		},
		{
			"", "session.limited", "eva", "",
			"Someone tried too many wrong passwords or codes for eva’s account",
			"Jemand hat zu viele falsche Passwörter oder Codes eingegeben: Konto von eva",
		},
		{
			"operator", "user.suspend", "eva", "email {actor}",
			"The operator suspended eva’s account: email {actor}", "Der Betreiber hat ein Konto gesperrt: Konto von eva: email {actor}",
		},
		{
			"root", "user.flags", "root", "activity=off admin=on",
			"root changed the permissions of their own account: activity off, admin on", "root hat Berechtigungen geändert: eigenes Konto: activity aus, admin an",
		},
		{"root", "user.end_session", "eva", "0b9c", "root ended a session of eva’s account",
			"root hat eine Sitzung beendet: Konto von eva"},
		{"eva", "user.delete", "eva", "", "eva deleted their own account", "eva hat ein Konto gelöscht: eigenes Konto"},
		{"ada", "user.create", "eva", "imported flag=admin flag=coach", "ada created eva’s account: imported, flag=admin, flag=coach", "ada hat ein Konto angelegt: Konto von eva: importiert, flag=admin, flag=coach"},
		{"ada", "user.create", "eva", "flag=admin", "ada created eva’s account: flag=admin", "ada hat ein Konto angelegt: Konto von eva: flag=admin"},
		{"eva", "user.register", "eva", "invited by operator flag=coach", "eva joined with an invite: invited by the operator, flag=coach", "eva ist mit einer Einladung beigetreten: vom Betreiber eingeladen, flag=coach"},
		{"eva", "user.register", "eva", "invited by bob", "eva joined with an invite: invited by bob", "eva ist mit einer Einladung beigetreten: eingeladen von bob"},
		{"eva", "factor.add", "eva", "passkey My phone", "eva added a way to sign in: passkey My phone", "eva hat eine Anmeldemöglichkeit hinzugefügt: Passkey My phone"},
		{
			"operator", "client.update", "client:tours", "redirect_uris trusted=on",
			"The operator changed the application tours: redirect_uris, trusted on", "Der Betreiber hat eine Anwendung geändert: tours: redirect_uris, trusted an",
		},
		{
			"operator", "api.rotate_secret", "https://api.example.org", "",
			"The operator gave the API https://api.example.org a new secret",
			"Der Betreiber hat einer API ein neues Geheimnis gegeben: https://api.example.org",
		},
		{"root", "thing.done", "eva", "so", "root: thing.done, eva: so", "root: thing.done, eva: so"},
	} {
		row := templates.AuditRow{Actor: c.actor, Action: c.action, Target: c.target, Detail: c.detail}
		equal(t, "english.AuditSentence(row)", english.AuditSentence(row), c.english)
		equal(t, "german.AuditSentence(row)", german.AuditSentence(row), c.german)
	}
}

func TestOwnActivityIsInTheSecondPerson(t *testing.T) {
	english, german := templates.PickLanguage("en"), templates.PickLanguage("de")
	for _, c := range []struct{ actor, action, detail, english, german string }{
		{"eva", "session.create", "pwd", "You signed in with password", "Du hast dich mit Passwort angemeldet"},
		{"eva", "profile.change", "birthdate", "You changed your profile: Birthday", "Du hast dein Profil geändert: Geburtstag"},
		{"eva", "email.change", "email", "You changed your email address", "Du hast deine E‑Mail-Adresse geändert"},
		{"eva", "email.change", "address.locality birthdate email (ended: sessions 1)", "You changed your profile: Town, Birthday. You changed your email address (ended: sessions 1)",
			"Du hast dein Profil geändert: Ort, Geburtstag. Du hast deine E‑Mail-Adresse geändert (beendet: Sitzungen 1)"},
		{"eva", "email.request", "display_name email", "You changed your profile: Display name. You asked for a new email address",
			"Du hast dein Profil geändert: Anzeigename. Du hast eine neue E‑Mail-Adresse eingetragen"},
		{"root", "user.unsuspend", "", "root lifted the suspension of your account",
			"root hat eine Sperre aufgehoben: dein Konto"},
		{"", "session.limited", "", "Someone tried too many wrong passwords or codes for your account",
			"Jemand hat zu viele falsche Passwörter oder Codes eingegeben: dein Konto"},
	} {
		row := templates.AuditRow{Actor: c.actor, Action: c.action, Target: "eva", Detail: c.detail, Reader: "eva"}
		if e, g := english.AuditSentence(row), german.AuditSentence(row); e != c.english || g != c.german {
			t.Errorf("%q and %q, want %q and %q", e, g, c.english, c.german)
		}
	}
	for _, a := range templates.AuditActions { // of one's own account, by oneself
		row := templates.AuditRow{Actor: "eva", Action: a.Name, Target: "eva", Reader: "eva"}
		if got := english.AuditSentence(row); a.Own == "" && strings.Contains(got, "their ") || strings.Contains(string(a.Own), "{actor}") {
			t.Errorf("%s: %q is about somebody else", a.Name, got)
		}
	}
}
