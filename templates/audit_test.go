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
		{"eva", "session.end", "eva", "0b9c", "eva ended a session of their own", "eva hat eine eigene Sitzung beendet"},
		{
			"eva", "profile.change", "eva", "address.locality birthdate",
			"eva changed their profile: Town, Birthday", "eva hat das eigene Profil geändert: Ort, Geburtstag",
		},
		{
			"", "session.limited", "eva", "",
			"Somebody tried too many wrong passwords for the account of eva", "Jemand hat zu viele falsche Passwörter für das Konto von eva versucht",
		},
		{
			"operator", "user.suspend", "eva", "email {actor}",
			"The operator suspended the account of eva: email {actor}", "Der Betreiber hat das Konto von eva gesperrt: email {actor}",
		},
		{
			"root", "user.flags", "root", "activity=off admin=on",
			"root changed what their own account may use: activity off, admin on", "root hat geändert, was das eigene Konto nutzen darf: activity aus, admin an",
		},
		{"root", "user.end_session", "eva", "0b9c", "root ended a session of the account of eva", "root hat für das Konto von eva eine Sitzung beendet"},
		{"eva", "user.delete", "eva", "", "eva deleted their own account", "eva hat das eigene Konto gelöscht"},
		{"ada", "user.create", "eva", "imported flag=admin flag=coach", "ada created the account of eva: imported, flag=admin, flag=coach", "ada hat das Konto von eva angelegt: importiert, flag=admin, flag=coach"},
		{"ada", "user.create", "eva", "flag=admin", "ada created the account of eva: flag=admin", "ada hat das Konto von eva angelegt: flag=admin"},
		{"eva", "user.register", "eva", "invited by operator flag=coach", "eva created the account with an invite: invited by the operator, flag=coach", "eva hat das Konto mit einer Einladung angelegt: vom Betreiber eingeladen, flag=coach"},
		{"eva", "user.register", "eva", "invited by bob", "eva created the account with an invite: invited by bob", "eva hat das Konto mit einer Einladung angelegt: eingeladen von bob"},
		{"eva", "factor.add", "eva", "passkey My phone", "eva added a way to sign in: passkey My phone", "eva hat eine Anmeldemöglichkeit hinzugefügt: Passkey My phone"},
		{
			"operator", "client.update", "client:tours", "redirect_uris trusted=on",
			"The operator changed the application tours: redirect_uris, trusted on", "Der Betreiber hat die Anwendung tours geändert: redirect_uris, trusted an",
		},
		{
			"operator", "api.rotate_secret", "https://api.example.org", "",
			"The operator gave the API https://api.example.org a new secret", "Der Betreiber hat der API https://api.example.org ein neues Geheimnis gegeben",
		},
		{"root", "thing.done", "eva", "so", "root did thing.done: eva: so", "root: thing.done, eva: so"},
	} {
		row := templates.AuditRow{Actor: c.actor, Action: c.action, Target: c.target, Detail: c.detail}
		if got := english.AuditSentence(row); got != c.english {
			t.Errorf("%q, want %q", got, c.english)
		}
		if got := german.AuditSentence(row); got != c.german {
			t.Errorf("%q, want %q", got, c.german)
		}
	}
}

func TestOwnActivityIsInTheSecondPerson(t *testing.T) {
	english, german := templates.PickLanguage("en"), templates.PickLanguage("de")
	for _, c := range []struct{ actor, action, detail, english, german string }{
		{"eva", "session.create", "pwd", "You signed in with password", "Du hast dich mit Passwort angemeldet"},
		{"eva", "profile.change", "birthdate", "You changed your profile: Birthday", "Du hast dein Profil geändert: Geburtstag"},
		{"root", "user.unsuspend", "", "root lifted the suspension of your account", "root hat die Sperre für dein Konto aufgehoben"},
		{"", "session.limited", "", "Somebody tried too many wrong passwords for your account", "Jemand hat zu viele falsche Passwörter für dein Konto versucht"},
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
