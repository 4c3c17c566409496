package account

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Kinds of mail that notify a user of a change to the account. Data has the handle and the time
// ("at"); the rest follows the kind.
const (
	MailPasswordChanged  = "password-changed"
	MailPasswordRemoved  = "password-removed"
	MailEmailChanged     = "email-changed" // see composeEmailChanged
	MailNewDevice        = "new-device"    // device, address, session
	MailFactorAdded      = "factor-added"  // factor: FactorTOTP, FactorPasskey or empty; name: of a passkey, or empty
	MailFactorRemoved    = "factor-removed"
	MailFactorsReset     = "factors-reset"
	MailFactorCounter    = "factor-counter"
	MailRecoveryCodeUsed = "recovery-code-used" // left: the number of unused codes
	MailFlagsChanged     = "flags-changed"      // flags: "admin=on activity=off"; ends: "activity:1800000000", 0: no end
	MailResetCodeMade    = "reset-code-made"
	MailSessionsEnded    = "sessions-ended"
	MailSuspended        = "suspended" // reason, or empty
	MailUnsuspended      = "unsuspended"
	MailExported         = "exported"
	MailLastingAccess    = "lasting-access" // name: of the application
	MailDeleted          = "deleted"
	MailWideInvite       = "wide-invite" // flags: as in MailFlagsChanged
	MailEndChanged       = "end-changed" // ends: Unix seconds, 0: never
	MailEnds             = "ends"        // ends; names: the flags, or empty: the account
	MailEndsList         = "ends-list"   // ends: a line of handle, Unix seconds and flags for each; more: how many others
	MailJoinsAsked       = "joins-asked" // see TellJoins
)

// Kinds of mail that were requested.
const (
	MailVerify  = "verify-email"    // asked: User.EmailAskedAt
	MailForgot  = "forgot-password" // name: a handle or an address; becomes a MailReset if there is such an account
	MailReset   = "reset-password"
	MailWelcome = "welcome" // by: the administrator who added the user
	MailInvite  = "invite"  // invite: the hash of its code; asked: if its reader asked for it; welcome: if they asked to join
	MailJoin    = "join"    // name, reason: see JoinRequest

	MailJoinRefused = "join-refused" // text: of the administrator, or empty
)

// userMail returns a mail to an address of the user, in the language that the user has chosen, or
// else in that of the request. data are pairs.
func userMail(ctx context.Context, u User, address, kind string, now time.Time, data ...string) Mail {
	m := Mail{
		Kind: kind, Sub: u.Sub, Address: address,
		Language: templates.PickLanguage(u.Profile.Locale, templates.LanguageOf(ctx).Tag()).Tag(),
		Data:     map[string]string{"handle": u.Handle, "at": strconv.FormatInt(now.Unix(), 10)},
	}
	if u.Profile.Zoneinfo != "" {
		m.Data["zone"] = u.Profile.Zoneinfo
	}
	for i := 0; i+1 < len(data); i += 2 {
		m.Data[data[i]] = data[i+1]
	}
	return m
}

// notices returns the mails that notify a user of an act, for Audit.Mails. They go to the verified
// address, and to the previous ones for as long as their change can be undone: an attacker who
// changes the address first, and verifies the new one, must not silence later notices. There are none
// if mail is off.
func (a *Administration) notices(ctx context.Context, u User, kind string, data ...string) ([]Mail, error) {
	if !a.mail {
		return nil, nil
	}
	former, err := a.store.FormerEmails(ctx, u.Sub, a.Now())
	if err != nil {
		return nil, err
	}
	if u.EmailVerified {
		former = append(former, EmailChange{Email: u.Email})
	}
	var mails []Mail
	for _, f := range former {
		if slices.ContainsFunc(mails, func(m Mail) bool { return strings.EqualFold(m.Address, f.Email) }) {
			continue
		}
		m := userMail(ctx, u, f.Email, kind, a.Now(), data...)
		if kind == MailDeleted {
			m.Sub = "" // the waiting mails of a deleted user are deleted too
		}
		mails = append(mails, m)
	}
	return mails, nil
}

// boundedNotices returns the notices of an act that can be repeated at will, within the limit of
// mails: the first ones inform, and more would fill the mailbox. If the limit cannot be read, they
// are sent.
func (s *Service) boundedNotices(ctx context.Context, u User, kind string, data ...string) ([]Mail, error) {
	mails, err := s.Administration().notices(ctx, u, kind, data...)
	if err != nil || len(mails) == 0 {
		return nil, err
	}
	if wait, err := s.limits.Take(ctx, web.LimitMail, kind+":"+u.Sub); err == nil && wait > 0 {
		return nil, nil
	}
	return mails, nil
}

// plainNotice is a mail that needs only a text, and a link that is the same for everybody.
type plainNotice struct {
	subject, text, advice templates.Text // with {handle} and {time}
	link                  templates.Text // its label, "" for none
	path                  string
}

const (
	notYou    templates.Text = "If that was not you, set a new password now and tell an administrator."
	askAdmin  templates.Text = "If you have questions, ask an administrator of your community."
	tellAdmin templates.Text = "If you have not asked for this, tell an administrator."
	setANew   templates.Text = "Set a new password"
)

var plainNotices = map[string]plainNotice{
	MailPasswordChanged: {
		"Your password was changed", "The password of your account @{handle} was changed on {time}.", notYou, setANew,
		"/forgot-password/",
	},
	MailPasswordRemoved: {
		"Your password was removed", "The password of your account @{handle} was removed on {time}. A passkey signs you in.",
		notYou, setANew, "/forgot-password/",
	},
	MailFactorAdded: {
		"A way to sign in was added",
		"New recovery codes were made for your account @{handle} on {time}. Those from before no longer work.",
		notYou, setANew, "/forgot-password/",
	},
	MailFactorRemoved: {
		"A way to sign in was removed",
		"A way to sign in was removed from your account @{handle} on {time}.", notYou, setANew, "/forgot-password/",
	},
	MailFactorsReset: {
		"Your second factors were removed",
		"An administrator removed all passkeys, authenticator apps and recovery codes of your account @{handle} on " +
			"{time}. All your sessions have ended.",
		tellAdmin, "", "",
	},
	MailFactorCounter: {
		"A passkey may have been copied",
		"The passkey “{name}” of your account @{handle} was used on {time}, and its counter went back. " +
			"This can mean that there is a copy of it.",
		"If you do not know why, remove the passkey and add it again.", "Security of your account",
		"/account/security",
	},
	MailRecoveryCodeUsed: {
		"A recovery code was used",
		"A recovery code of your account @{handle} was used on {time}. It no longer works. If you have lost your " +
			"authenticator app or passkey, set up a new one.",
		notYou, "Set up a new one", "/account/security",
	},
	MailFlagsChanged: {
		"Your access was changed", "On {time} an administrator changed what your account @{handle} may use.",
		askAdmin, "", "",
	},
	MailResetCodeMade: {
		"A code for a new password was created",
		"An administrator created a code on {time} that can set a new password for your account @{handle}.",
		tellAdmin, "", "",
	},
	MailSessionsEnded: {
		"You were signed out", "An administrator ended sessions of your account @{handle} on {time}. Sign in again.",
		askAdmin, "", "",
	},
	MailSuspended: {
		"Your account is suspended",
		"An administrator suspended your account @{handle} on {time}. You cannot sign in.", askAdmin, "", "",
	},
	MailUnsuspended: {
		"Your account is open again",
		"An administrator lifted the suspension of your account @{handle} on {time}. You can sign in again.", "", "",
		"",
	},
	MailEndChanged: {
		"The end of your account was changed", "On {time} an administrator changed when your account @{handle} ends.",
		askAdmin, "", "",
	},
	MailExported: {
		"Your data was exported", "All data stored for your account @{handle} was downloaded on {time}.", notYou,
		setANew, "/forgot-password/",
	},
	MailWideInvite: {
		"You created an invite for several people, or with flags",
		"An invite was created on {time} with your account @{handle} that only an administrator may create.",
		"If that was not you, delete it, set a new password now and tell an administrator.", "Your invites", "/account/invites",
	},
	MailLastingAccess: {
		"{name} may now act for you while you are away",
		"{name} may now act for your account @{handle} while you are away. This was allowed on {time}. It stays so " +
			"when you sign out, until you end it.",
		"If that was not you, end its access on the page of your apps, and set a new password.", "Your apps",
		"/account/apps",
	},
	MailDeleted: {
		"Your account is deleted", "The account @{handle} was deleted on {time}, with your personal data.",
		askAdmin, "", "",
	},
}

// factorNotices are the texts of plainNotices that name the factor, by kind of mail and factor.
var factorNotices = map[[2]string]templates.Text{
	{MailFactorAdded, FactorTOTP}:      "An authenticator app was added to your account @{handle} on {time}.",
	{MailFactorAdded, FactorPasskey}:   "The passkey “{name}” was added to your account @{handle} on {time}.",
	{MailFactorRemoved, FactorTOTP}:    "The authenticator app was removed from your account @{handle} on {time}.",
	{MailFactorRemoved, FactorPasskey}: "The passkey “{name}” was removed from your account @{handle} on {time}.",
}

// clock formats a time for the reader of a mail: in the time zone of the user, or else in UTC, and
// with its name.
func (m Mail) clock(l *templates.Language, t time.Time) string {
	zone, name := time.UTC, " UTC"
	if z, err := time.LoadLocation(m.Data["zone"]); err == nil && m.Data["zone"] != "" {
		zone, name = z, " ("+m.Data["zone"]+")"
	}
	return t.In(zone).Format(l.Text("2 Jan 2006, 15:04")) + name
}

func (m Mail) time(name string) time.Time {
	seconds, _ := strconv.ParseInt(m.Data[name], 10, 64)
	return time.Unix(seconds, 0).UTC()
}

// texts returns the arguments for the texts of a mail.
func (m Mail) texts(l *templates.Language) []any {
	name := templates.MailName(m.Data["name"])
	return []any{"handle", m.Data["handle"], "time", m.clock(l, m.time("at")), "name", name}
}

// contactLine returns how to reach the administrators whom a mail mentions, or "".
func (s *Service) contactLine(ctx context.Context, l *templates.Language) string {
	v, err := s.Settings(ctx)
	if err != nil || v.Contact == "" {
		return ""
	}
	return l.Text("Contact: {contact}", "contact", v.Contact)
}

// recipientReason returns the sentence that says why the reader gets the mail.
func recipientReason(l *templates.Language, handle string) string {
	return l.Text("You receive this mail because your address belongs to the account @{handle}.", "handle", handle)
}

func (s *Service) composeNotice(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	n := plainNotices[m.Kind]
	text := cmp.Or(factorNotices[[2]string{m.Kind, m.Data["factor"]}], n.text)
	out := templates.Mail{
		Subject: l.Text(n.subject, m.texts(l)...), Paragraphs: []string{l.Text(text, m.texts(l)...)},
		Reason: recipientReason(l, m.Data["handle"]),
	}
	add := func(text templates.Text, args ...any) { out.Paragraphs = append(out.Paragraphs, l.Text(text, args...)) }
	for _, flag := range strings.Fields(m.Data["flags"]) {
		if name, state, _ := strings.Cut(flag, "="); state == "on" {
			add("Given: {flag}", "flag", name)
		} else {
			add("Taken away: {flag}", "flag", name)
		}
	}
	for _, end := range strings.Fields(m.Data["ends"]) {
		flag, at, ofFlag := strings.Cut(end, ":")
		if !ofFlag {
			at = end
		}
		seconds, _ := strconv.ParseInt(at, 10, 64)
		texts := []any{"flag", flag, "time", m.clock(l, time.Unix(seconds, 0))}
		switch {
		case ofFlag && seconds > 0:
			add("{flag} ends on {time}.", texts...)
		case ofFlag:
			add("{flag} has no end.", texts...)
		case seconds > 0:
			add("It ends on {time}.", texts...)
		default:
			add("It has no end.")
		}
	}
	if left, err := strconv.Atoi(m.Data["left"]); err == nil {
		add("{count} recovery codes are left.", "count", left)
	}
	if reason := m.Data["reason"]; reason != "" {
		add("Reason: {reason}", "reason", reason)
	}
	if n.advice != "" {
		add(n.advice)
	}
	if slices.Contains([]templates.Text{notYou, askAdmin, tellAdmin}, n.advice) {
		out.Paragraphs = append(out.Paragraphs, s.contactLine(ctx, l))
	}
	if n.link != "" {
		out.Link = &templates.MailLink{Label: l.Text(n.link), URL: s.site.URL(n.path)}
	}
	return out, nil
}

// composeEmailChanged notifies the previous address, even if the change can no longer be undone.
func (s *Service) composeEmailChanged(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	out := templates.Mail{
		Subject: l.Text("Your email address was changed"),
		Paragraphs: []string{l.Text("The email address of your account @{handle} was changed on {time}. It is no "+
			"longer this one.", m.texts(l)...)},
		Reason: recipientReason(l, m.Data["handle"]),
	}
	mentionAdmin := func(text templates.Text) {
		out.Paragraphs = append(out.Paragraphs, l.Text(text), s.contactLine(ctx, l))
	}
	id := m.Data["change"]
	switch {
	case m.Data["undone"] != "":
		mentionAdmin("Somebody with access to the earlier address undid the change, and all your sessions have " +
			"ended. If you do not know why, tell an administrator.")
		return out, nil
	case id == "":
		out.Paragraphs[0] = l.Text("An administrator changed the email address of your account @{handle} on {time}, "+
			"or whether it counts as verified.", m.texts(l)...)
		mentionAdmin(askAdmin)
		return out, nil
	}
	change, err := s.store.EmailChange(ctx, id, s.Now())
	if errors.Is(err, ErrInvalidLink) {
		mentionAdmin("This can no longer be undone here. If it was not you, tell an administrator.")
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Paragraphs = append(out.Paragraphs,
		l.Text("If that was not you, undo it: your address comes back, and every session ends."))
	out.Link, err = s.mailLink(PurposeUndo, undoLink{ID: id}, l.Text("Undo the change"))
	out.Notes = []string{l.Text("You can undo it until {time}.", "time", m.clock(l, change.ExpiresAt))}
	return out, err
}

func (s *Service) composeNewDevice(_ context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	device := m.Data["device"]
	if device == "" {
		device = l.Text("Unknown device")
	}
	link, err := s.mailLink(PurposeNotMe, notMeLink{Sub: m.Sub, Session: m.Data["session"]}, l.Text("That was not me"))
	return templates.Mail{
		Subject: l.Text("Sign-in from a new device"),
		Paragraphs: []string{
			l.Text("Somebody signed in to your account @{handle} on {time}, from a device that was not used before.",
				m.texts(l)...),
			l.Text("Device: {device}", "device", device),
			l.Text("Address: {address}", "address", m.Data["address"]),
			l.Text("If that was you, there is nothing to do. If not, open the link: it ends every session."),
		},
		Link: link, Reason: recipientReason(l, m.Data["handle"]),
	}, err
}

func (s *Service) composeVerify(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	u, err := s.store.UserBySub(ctx, m.Sub)
	asked := m.time("asked")
	if errors.Is(err, ErrUserNotFound) || err == nil &&
		(u.Email != m.Address || u.EmailVerified || !u.EmailAskedAt.Equal(asked) || !s.Verifiable(u)) {
		return templates.Mail{}, errMailPointless
	}
	if err != nil {
		return templates.Mail{}, err
	}
	link, err := s.mailLink(PurposeVerify, verifyLink{Sub: u.Sub, Email: u.Email, Asked: asked.Unix()},
		l.Text("Verify the address"))
	return templates.Mail{
		Subject: l.Text("Verify your email address"),
		Paragraphs: []string{
			l.Text("The account @{handle} has this address. Verify that it is yours: open the link, or enter the "+
				"code in your profile.", "handle", u.Handle),
		},
		Link: link, Code: s.emailCode(u),
		Notes: []string{
			l.Text("Link and code work once, until {time}.", "time", m.clock(l, asked.Add(VerificationLifetime))),
			l.Text("If this is not your account, ignore this mail: the address is then not verified."),
		},
		Reason: l.Text("You receive this mail because somebody has entered your address here."),
	}, err
}

// drawMailedReset creates the reset code of a mail to a user and voids that of an earlier attempt
// to send it.
func (s *Service) drawMailedReset(ctx context.Context, m Mail, lifetime time.Duration) (User, ResetCode, error) {
	c := NewResetCode(s.Now())
	c.ExpiresAt = s.Now().Add(lifetime)
	u, err := s.store.UserBySub(ctx, m.Sub)
	if err == nil {
		err = s.store.CreateMailedResetCode(ctx, u.Sub, m.Address, c.Hash, c.ExpiresAt, s.Now())
	}
	if errors.Is(err, ErrUserNotFound) {
		err = errMailPointless
	}
	return u, c, err
}

func (s *Service) composeReset(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	if u, err := s.store.UserBySub(ctx, m.Sub); err == nil && u.Passwordless() {
		return s.composeRecovery(u, l), nil
	}
	u, c, err := s.drawMailedReset(ctx, m, MailedResetLifetime)
	if err != nil {
		return templates.Mail{}, err
	}
	address := s.ResetURL(u.Handle, c) + "&" + MailedField + "=1"
	if next := m.Data["continue"]; next != "" {
		address += "&" + url.Values{"continue": {next}}.Encode()
	}
	return templates.Mail{
		Subject: l.Text("Set a new password"),
		Paragraphs: []string{l.Text("Somebody has asked for a new password of your account @{handle}. If that was "+
			"you, open the link.", "handle", u.Handle)},
		Link: &templates.MailLink{
			Label: l.Text("Set a new password"), URL: address,
		},
		Notes: []string{
			l.Text("The link works once, until {time}.", "time", m.clock(l, c.ExpiresAt)),
			l.Text("If that was not you, ignore this mail: your password does not change."),
		},
		Reason: recipientReason(l, u.Handle),
	}, nil
}

// composeRecovery composes the mail about a forgotten password to a user who has none.
func (s *Service) composeRecovery(u User, l *templates.Language) templates.Mail {
	return templates.Mail{
		Subject: l.Text("Get back into your account"),
		Paragraphs: []string{
			l.Text("Somebody has asked for a new password of your account @{handle}. It has no password: you sign in with a "+
				"passkey.", "handle", u.Handle),
			l.Text("If you have lost your passkeys, open the link and enter one of your recovery codes. If you have none of " +
				"them either, ask an administrator."),
		},
		Link: &templates.MailLink{
			Label: l.Text("Use a recovery code"), URL: s.site.URL("/recover/?" + url.Values{"handle": {u.Handle}}.Encode()),
		},
		Notes:  []string{l.Text("If that was not you, ignore this mail: nothing changes.")},
		Reason: recipientReason(l, u.Handle),
	}
}

// composeWelcome composes the mail to a user whom an administrator added, unless the user has a
// password by now.
func (s *Service) composeWelcome(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	u, c, err := s.drawMailedReset(ctx, m, ResetCodeLifetime)
	if err == nil && u.PasswordHash != "" {
		err = errMailPointless
	}
	if err != nil {
		return templates.Mail{}, err
	}
	texts := []any{"by", m.Data["by"], "handle", u.Handle, "instance", s.InstanceName()}
	return templates.Mail{
		Subject: l.Text("You have an account at {instance}", texts...),
		Paragraphs: []string{
			l.Text("@{by} created the account @{handle} at {instance} for you. Open the link and choose a password.",
				texts...),
		},
		Link: &templates.MailLink{Label: l.Text("Choose a password"), URL: s.ResetURL(u.Handle, c)},
		Notes: []string{
			l.Text("The link works once, until {time}.", "time", m.clock(l, c.ExpiresAt)),
			l.Text("Later, “Forgot your password?” on the sign-in page sends another one."),
		},
		Reason: recipientReason(l, u.Handle),
	}, nil
}

// errFound ends the search for an invite.
var errFound = errors.New("found")

func (s *Service) composeInvite(ctx context.Context, m Mail, l *templates.Language) (templates.Mail, error) {
	invite, u, err := s.mailedInvite(ctx, m)
	if err != nil {
		return templates.Mail{}, err
	}
	asked := m.Data["asked"] != "" // by its reader, or somebody who wrote their address
	if asked || m.Data["welcome"] != "" {
		switch known, err := s.store.UserByEmail(ctx, m.Address); {
		case err == nil:
			return s.composeHaveAccount(ctx, l, known), nil
		case !errors.Is(err, ErrUserNotFound):
			return templates.Mail{}, err
		}
	}
	sealed, err := s.seal.Seal(purposeInvite, inviteLink{invite.hash(), m.Address})
	if err != nil {
		return templates.Mail{}, err
	}
	texts := []any{"handle", u.Handle, "instance", s.InstanceName(), "note", templates.MailNote(invite.Note)}
	var out templates.Mail
	var opening string
	switch {
	case m.Data["welcome"] != "":
		out.Subject = l.Text("Welcome to {instance}", texts...)
		opening = l.Text("Your request to join {instance} was accepted. Open the link to choose a name and a password.", texts...)
	case u.Handle == "":
		out.Subject = l.Text("You are invited to {instance}", texts...)
		opening = l.Text("You are invited to become a member of {instance}. Open the link to choose a name and a password.",
			texts...)
	default:
		out.Subject = l.Text("@{handle} invites you to {instance}", texts...)
		opening = l.Text("@{handle} invites you to become a member of {instance}. Open the link to choose a name and a "+
			"password.", texts...)
	}
	out.Paragraphs = []string{opening}
	if invite.Note != "" {
		out.Paragraphs = append(out.Paragraphs, l.Text("“{note}”", texts...))
	}
	until := m.clock(l, invite.ExpiresAt)
	out.Link = &templates.MailLink{Label: l.Text("Accept the invite"), URL: s.InviteURL(invite) + "&mailed=" + sealed}
	out.Notes = []string{l.Text("The invite is for one person, until {time}.", "time", until)}
	if left := invite.Uses - invite.Used; left > 1 {
		out.Notes[0] = l.Text("The invite is for {n} people, until {time}. Only this link shows that the address is yours.",
			"n", left, "time", until)
	}
	switch {
	case asked:
		out.Reason = l.Text("You receive this mail because somebody has entered your address here.")
	case u.Handle == "" || m.Data["welcome"] != "":
		out.Reason = l.Text("You receive this mail because you asked to join.")
	default:
		out.Reason = l.Text("You receive this mail because @{handle} has entered your address. If you do not know "+
			"them, ignore it.", "handle", u.Handle)
	}
	return out, nil
}
