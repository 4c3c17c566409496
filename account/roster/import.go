package roster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// ImportRow is a user of another system or installation: texts by member (ImportMembers). Row names
// it in the report.
type ImportRow struct {
	Row     int
	Members map[string]string
}

// ImportMembers returns the names of the members that a row may have.
func ImportMembers() []string {
	return append([]string{"sub", "handle", "password_hash", "flags", "suspended", "suspend_reason", "ends",
		"created_at"},
		account.UserMembers()...)
}

// ImportOptions decide about rows that need a decision.
type ImportOptions struct {
	SkipExisting    bool // skip users whose handle is taken, instead of refusing them
	ReservedHandles bool // accept handles that a member could not choose: see NewUser.AnyHandle
	ResetCodes      bool // make a code for each user without a hash
	// ByMail mails such users the link to choose a password instead, if they have an address; By adds them.
	ByMail bool
	By     account.Caller
	// ByAddress skips users with the address and the name of an account, and refuses those that occur twice. Others
	// with the address are added, as a family has one: see ImportResult.Shares.
	ByAddress bool
}

// Outcomes of a row.
const (
	ImportCreated = "created"
	ImportSkipped = "skipped"
	ImportRefused = "refused"
)

// ImportResult is the outcome of a row, with the reason.
type ImportResult struct {
	Row     int    `json:"row"`
	Handle  string `json:"handle"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	user    account.User
	refused []error // the reasons of a refusal
	member  string  // see Member
	shares  string  // see Shares
}

// Import is a checked import, of which nothing is stored yet.
type Import struct {
	Results        []ImportResult
	Codes          []account.ImportedCode // with ImportOptions.ResetCodes
	maxUsers       int
	usual          []string // flags
	administrators []account.User
	mails          []account.Mail
}

// Count returns the number of rows with an outcome.
func (i *Import) Count(outcome string) (n int) {
	for _, r := range i.Results {
		if r.Outcome == outcome {
			n++
		}
	}
	return n
}

// Users returns the users to be added.
func (i *Import) Users() (users []account.User) {
	users = make([]account.User, 0, i.Count(ImportCreated))
	for _, r := range i.Results {
		if r.Outcome == ImportCreated {
			users = append(users, r.user)
		}
	}
	return users
}

// CheckImport checks all rows against the rules for new users, against each other and against the
// existing users. It returns an error only for a failure; the results have the refusals.
func (a *Administration) CheckImport(
	ctx context.Context, h *password.Hasher, rows []ImportRow, o ImportOptions,
) (*Import, error) {
	settings, err := a.Settings(ctx)
	if err != nil {
		return nil, err
	}
	out := &Import{Results: make([]ImportResult, len(rows)), maxUsers: settings.MaxUsers, usual: settings.DefaultFlags}
	zone, language := settings.Zone(a.Zone(ctx)), settings.LanguageFor(ctx)
	first := map[string]*ImportResult{}      // by HandleKey, sub or verified address, whose forms differ
	families := map[string][]*ImportResult{} // by address
	var handles, subs, emails []string
	for i, row := range rows {
		u, refused := row.user(h, settings, o, a.Now(), zone)
		u.Language = language
		r := &out.Results[i]
		*r = ImportResult{Row: row.Row, Handle: u.Handle, Outcome: ImportCreated, user: u}
		if u.Handle == "" {
			r.Handle = text.Cut(row.Members["handle"], 64)
		}
		for _, err := range refused {
			r.refuse(err)
		}
		r.refuseRepeated(first)
		if email := o.ownEmail(u); email != verifiedEmail(u) {
			for _, before := range families[email] {
				if r.shares = before.Handle; samePerson(u, before.user) {
					r.refuse(errRow.With(rowAlready, "key", email, "row", before.Row))
					break
				}
			}
			families[email] = append(families[email], r)
		}
		handles = append(handles, u.Handle)
		if row.Members["sub"] != "" {
			subs = append(subs, u.Sub)
		}
		emails = append(emails, o.ownEmail(u))
	}
	keys, err := a.Store().TakenUsers(ctx, handles, subs, emails)
	if err != nil {
		return nil, err
	}
	members := map[string][]account.User{} // by address
	// After the handles: who is added meanwhile is a member, not somebody else who has the handle.
	if o.ByAddress {
		users, err := a.Store().UsersByEmail(ctx, emails)
		if err != nil {
			return nil, err
		}
		for _, u := range users {
			members[strings.ToLower(u.Email)] = append(members[strings.ToLower(u.Email)], u)
		}
	}
	taken, as := map[string]bool{}, map[string]string{} // handles by HandleKey
	for _, key := range keys {
		taken[key], as[account.HandleKey(key)] = true, key
	}
	for i := range out.Results {
		r := &out.Results[i]
		a.settleRow(ctx, o, out, r, members, taken, as)
	}
	if there, err := a.Store().CountUsers(ctx, account.UserQuery{Limit: 1}); err != nil {
		return nil, err
	} else if all := there.Total + out.Count(ImportCreated); settings.MaxUsers > 0 && all > settings.MaxUsers &&
		out.Count(ImportCreated) > 0 {
		return nil, tooManyUsers{all, settings.MaxUsers}
	}
	return out, nil
}

// refuseRepeated refuses a row of which the handle, sub or verified address is in one before, which first has by these.
func (r *ImportResult) refuseRepeated(first map[string]*ImportResult) {
	handle := account.HandleKey(r.user.Handle)
	for _, key := range []string{handle, r.user.Sub, verifiedEmail(r.user)} {
		before, twice := first[key]
		switch {
		case !twice || key == "":
			first[key] = r
		case key == handle && before.Handle != r.user.Handle:
			r.refuse(errRow.With("{handle} is already in row {row}, as {other}: dots do not make a user name different",
				"handle", r.user.Handle, "row", before.Row, "other", before.Handle))
		case key == handle:
			r.refuse(errRow.With(rowAlready, "key", r.user.Handle, "row", before.Row))
		default:
			r.refuse(errRow.With(rowAlready, "key", key, "row", before.Row))
		}
	}
}

// settleRow refuses or skips a row whose user exists, and otherwise adds the mail or the reset code that the
// new user gets. members are by address, taken what existing users have, and as their handles by HandleKey.
func (a *Administration) settleRow(
	ctx context.Context, o ImportOptions, out *Import, r *ImportResult,
	members map[string][]account.User, taken map[string]bool, as map[string]string,
) {
	other := as[account.HandleKey(r.user.Handle)]
	for _, m := range members[o.ownEmail(r.user)] {
		if r.shares = m.Handle; samePerson(r.user, m) {
			r.member = m.Handle
			break
		}
	}
	switch {
	case r.Outcome == ImportCreated && r.member != "":
		r.Outcome, r.Reason = ImportSkipped, "the address is that of "+r.member
	case r.Outcome == ImportCreated && taken[r.user.Handle] && o.SkipExisting:
		r.Outcome, r.Reason = ImportSkipped, "the handle is taken"
	case taken[r.user.Handle]:
		r.refuse(errRow)
	case r.user.Handle != "" && other != "": // perhaps somebody else's: not to be skipped
		r.refuse(errRow.With("the user name is taken, as {other}: dots do not make a user name different",
			"other", other))
	case taken[r.user.Sub]:
		r.refuse(errors.New("the sub is another user's"))
	case taken[verifiedEmail(r.user)]:
		r.refuse(errors.New("email: another account has verified " + r.user.Email))
	case r.Outcome == ImportCreated:
		if r.user.Has(account.FlagAdmin) {
			out.administrators = append(out.administrators, r.user)
		}
		switch without := r.user.PasswordHash == "" || r.user.Passwordless(); {
		case without && o.ByMail && r.user.Email != "":
			out.mails = append(out.mails, a.welcome(ctx, o.By, r.user))
		case without && o.ResetCodes:
			out.Codes = append(out.Codes, account.ImportedCode{
				Sub: r.user.Sub, Handle: r.Handle, ResetCode: account.NewWelcomeCode(a.Now()),
			})
		}
	}
}

// tooManyUsers is ErrRegistrationFull with the numbers.
type tooManyUsers struct{ all, most int }

func (e tooManyUsers) Error() string {
	return fmt.Sprintf("there would be %d users, and max_users is %d: raise it with cairn settings set max_users %d",
		e.all, e.most, e.all)
}

func (e tooManyUsers) Unwrap() error {
	return account.ErrRegistrationFull.With("You would have {all} members, but the settings allow only {most}.",
		"all", e.all, "most", e.most)
}

// verifiedEmail returns the user's verified address in lower case, which no other account may have
// verified, or "".
func verifiedEmail(u account.User) string {
	if !u.EmailVerified {
		return ""
	}
	return strings.ToLower(u.Email)
}

// samePerson reports whether two users with one address may be the same person: with the same name, or one without.
func samePerson(a, b account.User) bool {
	return a.DisplayName == a.Handle || b.DisplayName == b.Handle || strings.EqualFold(a.DisplayName, b.DisplayName)
}

// ownEmail returns the address, in lower case, by which a user is known, or "".
func (o ImportOptions) ownEmail(u account.User) string {
	if o.ByAddress {
		return strings.ToLower(u.Email)
	}
	return verifiedEmail(u)
}

const (
	handleGone templates.Text = "the user name is taken (names of deleted accounts are never reused)"
	rowAlready templates.Text = "{key} is already in row {row}"
)

var errFlagEnd = account.ErrInvalidEnd.For(web.Fault("/flags", "a date such as coach@2030-12-24 that is not in the "+
	"past"))

var (
	errEnd     = account.ErrInvalidEnd.For(web.Fault("/ends", "a date such as 2030-12-24 that is not in the past"))
	errEndPast = account.ErrEndPast.For(web.Fault("/ends",
		"This date is in the past. To close an account now, suspend it."))
)

var errRow = web.NewProblem(409, "row_refused", handleGone)

func (r *ImportResult) refuse(err error) {
	reason := reasonOf(err)
	r.refused = append(r.refused, err)
	if r.Outcome == ImportRefused {
		reason = r.Reason + "; " + reason
	}
	r.Outcome, r.Reason = ImportRefused, reason
}

// reasonOf returns the error of a row in one line, with the members that it is about.
func reasonOf(err error) string {
	p, known := web.ProblemOf(err)
	if !known {
		return err.Error()
	}
	var words []string
	for _, f := range p.Errors {
		words = append(words, strings.ReplaceAll(strings.TrimPrefix(f.Pointer, "/"), "/", ".")+": "+string(f.Detail))
	}
	if words == nil {
		return p.Detail
	}
	return strings.Join(words, " ")
}

// user returns the user of the row, as far as it is valid, and the reason of a refusal.
func (row ImportRow) user(
	h *password.Hasher, settings account.Settings, o ImportOptions, now time.Time, zone *time.Location,
) (u account.User, refused []error) {
	m := row.Members
	add := func(err error) {
		if err != nil {
			refused = append(refused, err)
		}
	}
	n := account.NewUser{Handle: m["handle"], AnyHandle: o.ReservedHandles}
	var flagEnds map[string]time.Time
	if flags, given := m["flags"]; given {
		n.Flags = append([]string{},
			strings.FieldsFunc(flags, func(r rune) bool { return r == ' ' || r == ',' || r == ';' })...)
		named, ends, err := account.ParseFlags(n.Flags, zone)
		if err != nil {
			add(errFlagEnd)
		}
		n.Flags, flagEnds = append([]string{}, named...), ends
		slices.Sort(n.Flags)
		n.Flags = slices.Compact(n.Flags)
	}
	u, err := n.Check(settings)
	add(err)
	change := row.change()
	add(change.Undeclared(settings.Attributes))
	add(change.Apply(&u))
	if hash := m["password_hash"]; hash == account.NoPassword { // its passkeys do not come along
		u.PasswordHash = hash
	} else if hash != "" {
		u.PasswordHash, err = h.Imported(hash)
		add(err)
	}
	if sub := m["sub"]; sub != "" {
		if u.Sub = sub; !account.IsSessionID(sub) || sub != strings.ToLower(sub) {
			add(errors.New("sub: a UUID in lower case is kept, nothing else: without one the user gets a new one"))
		}
	}
	u.CreatedAt, u.UpdatedAt = now, now
	if at := m["created_at"]; at != "" {
		if u.CreatedAt, err = readTime(at); err == nil && u.CreatedAt.After(now) {
			err = errors.New("created_at: this is in the future")
		}
		add(err)
	}
	switch suspended, err := readBool(m["suspended"]); {
	case err != nil:
		add(errors.New("suspended: true or false"))
	case suspended:
		u.SuspendedAt = now
		if u.SuspendReason, err = account.CheckReason(m["suspend_reason"]); err != nil {
			add(errors.New("suspend_reason: at most 200 characters, without control characters"))
		}
	}
	for _, at := range flagEnds {
		if at.After(now) {
			u.FlagEnds = flagEnds
		} else { // it was ending as the file was written
			add(errFlagEnd)
		}
	}
	switch ends, err := account.ParseEnd(m["ends"], zone); {
	case err != nil:
		add(errEnd)
	case !ends.IsZero() && !ends.After(now) && u.SuspendedAt.IsZero():
		add(errEndPast)
	case !ends.IsZero() && !ends.After(now): // it ended automatically
		u.EndsAt, u.SuspendedAt = ends, ends
	default:
		u.EndsAt = ends
	}
	return u, refused
}

// change returns the profile and the attributes of the row.
func (row ImportRow) change() account.UserChange {
	change := account.UserChange{}
	for _, name := range account.UserMembers() {
		value := row.Members[name]
		if strings.HasSuffix(name, "_verified") {
			if mark, err := readBool(value); err == nil && mark {
				value = "true"
			} else if err == nil {
				value = ""
			}
		}
		if value != "" {
			change[name] = value
		}
	}
	for name, value := range row.Members {
		if strings.HasPrefix(name, account.AttributePrefix) {
			change[name] = value
		}
	}
	return change
}

// readBool parses the booleans that databases and spreadsheets write.
func readBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "", "no", "n", "f":
		return false, nil
	case "yes", "y", "t":
		return true, nil
	}
	return strconv.ParseBool(strings.ToLower(s))
}

// readTime parses the times that databases write. A time without a zone is UTC.
func readTime(s string) (time.Time, error) {
	for _, form := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z07", time.DateTime,
		"2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(form, s); err == nil && t.Year() >= 1970 {
			return t.UTC().Truncate(time.Second), nil
		}
	}
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && seconds >= 1 && seconds < 1<<36 {
		return time.Unix(int64(seconds), 0).UTC(), nil
	}
	return time.Time{}, errors.New("created_at: a time such as 2024-05-31T12:00:00Z, or a date")
}

// LeadTo lets the mails lead to an application of a client id, empty: to the account.
func (i *Import) LeadTo(app string) {
	for _, m := range i.mails {
		m.Data["app"] = app
	}
}

// Import stores everything of a checked import or nothing. ErrHandleTaken or ErrEmailTaken if a
// handle or a verified address was taken since the check.
func (a *Administration) Import(ctx context.Context, by account.Caller, i *Import, detail string) error {
	err := a.Allow(by, account.ImportUsers)
	if err == nil {
		err = a.CountAct(ctx, by, account.ImportUsers)
	}
	if err != nil || i.Count(ImportCreated) == 0 {
		return err
	}
	all := account.Bulk{
		Users: i.Users(), Codes: i.Codes, MaxUsers: i.maxUsers, DefaultFlags: i.usual,
	}
	row := by.Audit(a.Now(), account.ImportUsers, "users", detail).With(i.mails...)
	for _, u := range i.administrators {
		told, err := a.NewAdministrator(ctx, by.Name, u)
		if err != nil {
			return err
		}
		row = row.With(told...)
	}
	return web.Noted(ctx, "users_imported", a.Store().AddUsers(ctx, all, row))
}

// Exported returns a user in the form that an import reads, without the password hash.
func Exported(u account.User) (map[string]string, error) {
	text, err := json.Marshal(u.Profile)
	var profile map[string]any
	if err == nil {
		err = json.Unmarshal(text, &profile)
	}
	var m map[string]string
	if err == nil {
		m, err = Flatten(profile)
	}
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", u.Handle, err)
	}
	maps.Copy(m, map[string]string{
		"sub": u.Sub, "handle": u.Handle, "display_name": u.DisplayName, "email": u.Email,
		"email_verified": strconv.FormatBool(u.EmailVerified),
		"flags":          strings.Join(u.FlagWords(), " "), "suspended": strconv.FormatBool(u.Suspended()),
		"suspend_reason": u.SuspendReason, "created_at": u.CreatedAt.UTC().Format(time.RFC3339),
		"ends": formatEnd(u.EndsAt),
	})
	return m, nil
}

func formatEnd(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// Flatten returns the members of a JSON object as texts: those of a nested object as
// address.locality, the elements of an array separated by spaces. It omits null.
func Flatten(object map[string]any) (map[string]string, error) {
	m := map[string]string{}
	for name, value := range object {
		switch v := value.(type) {
		case string:
			m[name] = v
		case bool:
			m[name] = strconv.FormatBool(v)
		case float64:
			m[name] = strconv.FormatFloat(v, 'f', -1, 64)
		case []any:
			words := make([]string, len(v))
			for i, word := range v {
				w, ok := word.(string)
				if !ok {
					return nil, fmt.Errorf("%s: an array has texts alone", text.Cut(name, 64))
				}
				words[i] = w
			}
			m[name] = strings.Join(words, " ")
		case map[string]any:
			inner, err := Flatten(v)
			if err != nil {
				return nil, err
			}
			for member, text := range inner {
				m[name+"."+member] = text
			}
		}
	}
	return m, nil
}
