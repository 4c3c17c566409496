package letter

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

// plainNotice is a mail that needs only a text, and a link that is the same for everybody.
type plainNotice struct {
	subject, text, advice templates.Text // with {handle} and {time}
	link                  templates.Text // its label, "" for none
	path                  string
}

const (
	notYou    templates.Text = "If this wasn’t you, set a new password now and tell an administrator."
	askAdmin  templates.Text = "If you have questions, ask an administrator of your club."
	tellAdmin templates.Text = "If you did not ask for this, tell an administrator."
	setANew   templates.Text = "Set a new password"

	thatWasNotMe templates.Text = "That wasn’t me"
)

var plainNotices = map[string]plainNotice{
	account.MailPasswordChanged: {
		"Your password was changed", "The password of your account @{handle} was changed on {time}.", notYou, setANew,
		"/forgot-password/",
	},
	account.MailPasswordRemoved: {
		"Your password was removed", "The password of your account @{handle} was removed on {time}. You sign in with " +
			"a passkey.",
		notYou, setANew, "/forgot-password/",
	},
	account.MailFactorAdded: {
		"A way to sign in was added",
		"New recovery codes were created for your account @{handle} on {time}. Your earlier codes no longer work.",
		notYou, setANew, "/forgot-password/",
	},
	account.MailFactorRemoved: {
		"A way to sign in was removed",
		"A way to sign in was removed from your account @{handle} on {time}.", notYou, setANew, "/forgot-password/",
	},
	account.MailFactorsReset: {
		"Your second factors were removed",
		"An administrator removed all passkeys, authenticator apps and recovery codes of your account @{handle} on " +
			"{time}. You are signed out everywhere.",
		tellAdmin, "", "",
	},
	account.MailFactorCounter: {
		"A passkey may have been copied",
		"The passkey “{name}” of your account @{handle} was used on {time}, and its counter was lower than " +
			"before. There may be a copy of it.",
		"If you do not know why, remove the passkey and add it again.", "Account security",
		"/account/security",
	},
	account.MailRecoveryCodeUsed: {
		"A recovery code was used",
		"A recovery code of your account @{handle} was used on {time}. It no longer works. If you have lost your " +
			"authenticator app or passkey, set up a new one.",
		notYou, "Set up a new one", "/account/security",
	},
	account.MailFlagsChanged: {
		"Your access was changed", "An administrator changed what your account @{handle} can use on {time}.",
		askAdmin, "", "",
	},
	account.MailResetCodeMade: {
		"A code for a new password was created",
		"An administrator created a code on {time} that can set a new password for your account @{handle}.",
		tellAdmin, "", "",
	},
	account.MailSessionsEnded: {
		"You were signed out", "An administrator signed you out of your account @{handle} on {time}. Sign in again.",
		askAdmin, "", "",
	},
	account.MailDisowned: {
		"Your account was signed out everywhere",
		"Someone opened the link “That wasn’t me” in an email about your account @{handle} on {time}. It is " +
			"signed out everywhere, applications no longer have access, and the password that it had no longer works.",
		tellAdmin, "", "",
	},
	account.MailSuspended: {
		"Your account is suspended",
		"An administrator suspended your account @{handle} on {time}. You cannot sign in.", askAdmin, "", "",
	},
	account.MailUnsuspended: {
		"Your account is no longer suspended",
		"An administrator lifted the suspension of your account @{handle} on {time}. You can sign in again.", "", "",
		"",
	},
	account.MailEndChanged: {
		"The expiry date of your account was changed", "An administrator changed the expiry date of your account " +
			"@{handle} on {time}.",
		askAdmin, "", "",
	},
	account.MailExported: {
		"Your data was downloaded", "All data of your account @{handle} was downloaded on {time}.", notYou,
		setANew, "/forgot-password/",
	},
	account.MailWideInvite: {
		"You created an invite for several people or with permissions",
		"With your account @{handle}, an invite that only administrators can create was created on {time}.",
		"If this wasn’t you, delete it, set a new password now and tell an administrator.",
		"Your invites", "/account/invites",
	},
	account.MailLastingAccess: {
		"{name} may now act for you while you are away",
		"Since {time}, {name} may act for your account @{handle} while you are away. This continues after you sign " +
			"out, until you end it.",
		"If this wasn’t you, end its access under Apps in your account, and set a new password.", "Your apps",
		"/account/apps",
	},
	account.MailDeleted: {
		"Your account is deleted", "The account @{handle} and its personal data were deleted on {time}.",
		askAdmin, "", "",
	},
}

// factorNotices are the texts of plainNotices that name the factor, by kind of mail and factor.
var factorNotices = map[[2]string]templates.Text{
	{account.MailFactorAdded, account.FactorTOTP}: "An authenticator app was added to your account @{handle} on " +
		"{time}.",
	{account.MailFactorAdded, account.FactorPasskey}: "The passkey “{name}” was added to your account @{handle} " +
		"on {time}.",
	{account.MailFactorAdded, account.FactorChoice}: "Since {time}, signing in to your account @{handle} needs a " +
		"second step after the password.",
	{account.MailFactorRemoved, account.FactorChoice}: "Since {time}, the password alone is enough to sign in to " +
		"your account @{handle}.",
	{account.MailFactorRemoved, account.FactorTOTP}: "The authenticator app was removed from your account " +
		"@{handle} on {time}.",
	{account.MailFactorRemoved, account.FactorPasskey}: "The passkey “{name}” was removed from your account " +
		"@{handle} on {time}.",
}

// zone returns the time zone of the reader of a mail, else that of the club, else UTC.
func (p *Post) zone(m account.Mail) *time.Location {
	settings, _ := p.accounts.Settings(context.Background()) // compose has just read them
	return templates.Zone(m.Data["zone"], settings.TimeZone)
}

// clock formats a time for the reader of a mail, with the name of the time zone.
func (p *Post) clock(m account.Mail, l *templates.Language, t time.Time) string {
	return l.Clock(t, p.zone(m))
}

// end formats an end: its last day, unless it is within a day.
func (p *Post) end(m account.Mail, l *templates.Language, t time.Time) string {
	for _, zone := range []*time.Location{p.accounts.Zone(context.Background()), p.zone(m), time.UTC} {
		again, err := account.ParseEnd(account.LastDay(t, zone), zone)
		if err == nil && again.Equal(t) {
			return l.Day(t.In(zone).Add(-time.Second))
		}
	}
	return p.clock(m, l, t)
}

// flagName returns what a mail calls a permission: the built-in ones in the language of its reader.
func flagName(l *templates.Language, flag string) string {
	switch flag {
	case account.FlagAdmin:
		return l.Text("Administration")
	case account.FlagActivity:
		return l.Text("Activities")
	}
	return flag
}

func timeOf(m account.Mail, name string) time.Time {
	seconds, _ := strconv.ParseInt(m.Data[name], 10, 64)
	return time.Unix(seconds, 0).UTC()
}

// texts returns the arguments for the texts of a mail.
func (p *Post) texts(m account.Mail, l *templates.Language) []any {
	name := templates.MailName(m.Data["name"])
	return []any{"handle", m.Data["handle"], "time", p.clock(m, l, timeOf(m, "at")), "name", name}
}

// contactLine returns how to reach the administrators whom a mail mentions, or "".
func (p *Post) contactLine(ctx context.Context, l *templates.Language) string {
	v, err := p.accounts.Settings(ctx)
	if err != nil || v.Contact == "" {
		return ""
	}
	return l.Text("Contact: {contact}", "contact", v.Contact)
}

// recipientReason returns the sentence that says why the reader gets the mail.
func recipientReason(l *templates.Language, handle string) string {
	return l.Text("You get this email because your address belongs to the account @{handle}.", "handle", handle)
}

// noticeReason is recipientReason of a notice, which may go to an address that the account has no longer.
func noticeReason(l *templates.Language, m account.Mail) string {
	if m.Data[account.MailFormer] != "" {
		return l.Text("You get this email because your address belonged to the account @{handle}.",
			"handle", m.Data["handle"])
	}
	return recipientReason(l, m.Data["handle"])
}

func (p *Post) composeNotice(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	n := plainNotices[m.Kind]
	text := cmp.Or(factorNotices[[2]string{m.Kind, m.Data["factor"]}], n.text)
	if m.Data["factor"] == account.FactorChoice {
		n.subject = "How you sign in was changed"
	}
	out := templates.Mail{
		Subject: l.Text(n.subject, p.texts(m, l)...), Paragraphs: []string{l.Text(text, p.texts(m, l)...)},
		Reason: noticeReason(l, m),
	}
	add := func(text templates.Text, args ...any) { out.Paragraphs = append(out.Paragraphs, l.Text(text, args...)) }
	for _, flag := range strings.Fields(m.Data["flags"]) {
		if name, state, _ := strings.Cut(flag, "="); state == "on" {
			add("Added: {flag}", "flag", flagName(l, name))
		} else {
			add("Removed: {flag}", "flag", flagName(l, name))
		}
	}
	for _, end := range strings.Fields(m.Data["ends"]) {
		flag, at, ofFlag := strings.Cut(end, ":")
		if !ofFlag {
			at = end
		}
		seconds, _ := strconv.ParseInt(at, 10, 64)
		texts := []any{"flag", flagName(l, flag), "time", p.end(m, l, time.Unix(seconds, 0))}
		switch {
		case ofFlag && seconds > 0:
			add("{flag} expires on {time}.", texts...)
		case ofFlag:
			add("{flag} has no expiry date.", texts...)
		case seconds > 0:
			add("It expires on {time}.", texts...)
		default:
			add("It has no expiry date.")
		}
	}
	for _, name := range removedNames(m, l) {
		add("Removed: {flag}", "flag", name)
	}
	if left, err := strconv.Atoi(m.Data["left"]); err == nil {
		add("You have {count} recovery codes left.", "count", left)
	}
	if reason := m.Data["reason"]; reason != "" {
		add("Reason: {reason}", "reason", reason)
	}
	if m.Data[account.FactorChoice] != "" {
		add("The password alone is no longer enough to sign in.")
	}
	bare := m.Data[account.MailBare] != ""
	if m.Data["session"] != "" && !bare {
		add("If this wasn’t you, open the link. It signs everyone out and undoes the change.")
		address, err := p.accounts.NotMeURL(m, true)
		out.Link = &templates.MailLink{Label: l.Text(thatWasNotMe), URL: address}
		return out, err
	}
	if n.advice != "" {
		add(n.advice)
	}
	if slices.Contains([]templates.Text{notYou, askAdmin, tellAdmin}, n.advice) {
		out.Paragraphs = append(out.Paragraphs, p.contactLine(ctx, l))
	}
	if n.link != "" && !bare && m.Data[account.MailFormer] == "" { // a new password is mailed to the present address
		out.Link = &templates.MailLink{Label: l.Text(n.link), URL: p.accounts.Web().URL(n.path)}
	}
	return out, nil
}

// composeNewAdministrator tells an administrator of another one, who may be one no longer.
func (p *Post) composeNewAdministrator(
	ctx context.Context, m account.Mail, l *templates.Language,
) (templates.Mail, error) {
	return templates.Mail{
		Subject: l.Text("@{name} is now an administrator", p.texts(m, l)...),
		Paragraphs: []string{
			l.Text("Since {time}, @{name} can administer “{instance}”. Granted by: {by}",
				append(p.texts(m, l), "instance", p.accounts.InstanceName(), "by", m.Data["by"])...),
			l.Text("If this is wrong, take the permission away or suspend the account, and look at the audit log."),
		},
		Link:   &templates.MailLink{Label: l.Text("Audit log"), URL: p.accounts.Web().URL("/admin/audit")},
		Reason: noticeReason(l, m),
	}, nil
}

// removedNames returns the factors that an act removed, as the mail names them.
func removedNames(m account.Mail, l *templates.Language) (names []string) {
	for _, line := range strings.Split(m.Data[account.MailRemoved], "\n") {
		switch kind, name, _ := strings.Cut(line, " "); kind {
		case account.FactorPasskey:
			names = append(names, l.Text("Passkey")+" “"+templates.MailName(name)+"”")
		case account.FactorTOTP:
			names = append(names, l.Text("Authenticator app"))
		case account.FactorRecoveryCode:
			names = append(names, l.Text("Recovery codes"))
		case account.FactorChoice:
			names = append(names, l.Text("The last change of the second step"))
		}
	}
	return names
}

// composeEmailRequested tells that a new address waits.
func (p *Post) composeEmailRequested(_ context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	out := templates.Mail{
		Subject: l.Text("Someone asked to change your email address"),
		Paragraphs: []string{
			l.Text("Someone asked on {time} to give your account @{handle} another email address. It changes "+
				"only when someone opens the link that we emailed to the new address.", p.texts(m, l)...),
			l.Text("If you do not want this, cancel it. If it wasn’t you, open the other link: it signs out " +
				"everyone, and removes what was added."),
		},
		Reason: noticeReason(l, m),
	}
	for _, name := range removedNames(m, l) {
		out.Paragraphs = append(out.Paragraphs, l.Text("Removed: {flag}", "flag", name))
	}
	cancel, err := p.accounts.CancelURL(m, timeOf(m, "at"))
	notMe, err2 := p.accounts.NotMeURL(m, true)
	out.More = []templates.MailLink{{Label: l.Text("Cancel the change"), URL: cancel},
		{Label: l.Text(thatWasNotMe), URL: notMe}}
	return out, errors.Join(err, err2)
}

// composeEmailChanged notifies the previous address, even if the change can no longer be undone.
func (p *Post) composeEmailChanged(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	out := templates.Mail{
		Subject: l.Text("Your email address was changed"),
		Paragraphs: []string{l.Text("The email address of your account @{handle} was changed on {time}. This address "+
			"is no longer used.", p.texts(m, l)...)},
		Reason: noticeReason(l, m),
	}
	mentionAdmin := func(text templates.Text) {
		out.Paragraphs = append(out.Paragraphs, l.Text(text), p.contactLine(ctx, l))
	}
	id := m.Data["change"]
	switch {
	case m.Data["undone"] != "":
		for _, name := range removedNames(m, l) {
			out.Paragraphs = append(out.Paragraphs, l.Text("Removed: {flag}", "flag", name))
		}
		mentionAdmin("Someone with access to your earlier address restored it, and you are signed out everywhere. If " +
			"you do not know why, tell an administrator.")
		return out, nil
	case id == "":
		out.Paragraphs[0] = l.Text("An administrator changed the email address of your account @{handle}, or its "+
			"verification, on {time}.", p.texts(m, l)...)
		mentionAdmin(askAdmin)
		return out, nil
	}
	change, err := p.store.EmailChange(ctx, id, p.accounts.Now())
	if errors.Is(err, account.ErrInvalidLink) {
		mentionAdmin("You can no longer undo this here. If it wasn’t you, tell an administrator.")
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Paragraphs = append(out.Paragraphs,
		l.Text("If this wasn’t you, undo it. You get your address back and are signed out everywhere."))
	address, err := p.accounts.UndoURL(id)
	out.Link = &templates.MailLink{Label: l.Text("Restore address"), URL: address}
	out.Notes = []string{l.Text("You can undo this until {time}.", "time", p.clock(m, l, change.ExpiresAt))}
	return out, err
}

func (p *Post) composeNewDevice(_ context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	browser, system, _ := strings.Cut(m.Data["device"], " on ") // web.Device
	device := l.Device(browser, system)
	address, err := p.accounts.NotMeURL(m, false)
	return templates.Mail{
		Subject: l.Text("New sign-in to your account"),
		Paragraphs: []string{
			l.Text("Someone signed in to your account @{handle} on {time} with a device that was not used before.",
				p.texts(m, l)...),
			l.Text("Device: {device}", "device", device),
			l.Text("IP address: {address}", "address", m.Data["address"]),
			l.Text("If this was you, you do not need to do anything. If it wasn’t, open the link to sign out " +
				"everywhere."),
		},
		Link:   &templates.MailLink{Label: l.Text(thatWasNotMe), URL: address},
		Reason: noticeReason(l, m),
	}, err
}

func (p *Post) composeVerify(ctx context.Context, m account.Mail, l *templates.Language) (templates.Mail, error) {
	u, err := p.store.UserBySub(ctx, m.Sub)
	asked := timeOf(m, "asked")
	if errors.Is(err, account.ErrUserNotFound) || err == nil &&
		(u.Unproven() != m.Address || !u.EmailAskedAt.Equal(asked) || !p.accounts.Verifiable(u)) {
		return templates.Mail{}, errMailPointless
	}
	if err != nil {
		return templates.Mail{}, err
	}
	address, err := p.accounts.VerifyURL(u, asked)
	var text templates.Text = "The account @{handle} has this address. If it is yours, open the link, or enter the " +
		"code in your profile."
	if u.EmailVerified {
		text = "Someone wants to use this address for the account @{handle}. If it is yours, open the link, or enter " +
			"the code in your profile. The account then has this address."
	}
	return templates.Mail{
		Subject:    l.Text("Verify your email address"),
		Paragraphs: []string{l.Text(text, "handle", u.Handle)},
		Link:       &templates.MailLink{Label: l.Text("Verify address"), URL: address}, Code: p.accounts.EmailCode(u),
		Notes: []string{
			l.Text("The link and the code work once, until {time}.",
				"time", p.clock(m, l, asked.Add(account.VerificationLifetime))),
			l.Text("If this is not your account, ignore this email. The address is then not verified."),
		},
		Reason: l.Text("You get this email because someone entered your address."),
	}, err
}
