package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

// Own claims: rules of a client or an API, in the form NAME=VALUE or NAME=VALUE if FLAG. VALUE may
// contain {fields} of the user. After json: it is a number, true, false, a text or a list of these, and fields stand
// inside of its texts. Of the rules for one claim, the first that fits gives its value.
//
// What a rule tells of a user, a field or whether they have a flag, needs their consent: it is an entry
// of the consent beside the scopes, in braces, unless a scope of the request covers it. A grant stores
// what was agreed to, so later rules tell nothing more to the tokens of an earlier grant.

// Places of own claims (Client.ClaimIn).
const (
	claimInIDToken     = "id_token"
	claimInUserInfo    = "userinfo"
	claimInAccessToken = "access_token"
)

const (
	maxClaimRules = 50
	flagEntry     = "{flag:"
	attributeOpen = "{attribute:"
)

// claimFields maps the fields of rules to the claims that they are read as.
var claimFields = map[string]string{
	"{sub}": "sub", "{handle}": "preferred_username", "{name}": "name", "{given_name}": "given_name",
	"{family_name}": "family_name", "{nickname}": "nickname", "{email}": "email", "{phone_number}": "phone_number",
	"{birthdate}": "birthdate", "{picture}": "picture", "{zoneinfo}": "zoneinfo", "{locale}": "locale",
}

// reservedClaims have a meaning that a rule must not change: they are registered for tokens, or
// applications find accounts by them.
var reservedClaims = []string{
	"iss", "sub", "aud", "exp", "nbf", "iat", "auth_time", "nonce", "acr", "amr", "azp", "sid", "jti", "at_hash",
	"c_hash", "s_hash", "sub_jwk", "sub_id", "cnf", "scope", "client_id", "status", "events", "act", "may_act",
	"active", "token_type", "toe", "txn", "token_introspection", "authorization_details", "verified_claims", "email",
	"email_verified", "phone_number", "phone_number_verified", "address", "groups", "updated_at", "_claim_names",
	"_claim_sources",
}

// Names by which applications find an account, or decide what it may, in lower case. Who may choose the value of one
// could be taken for somebody else.
var (
	identityClaims = []string{
		"upn", "unique_name", "login", "uid", "user", "userid", "user_id", "user_name", "mail", "samaccountname",
	}
	rightsClaims = []string{"role", "roles", "is_admin", "isadmin", "admin", "permissions"}
)

var (
	claimNameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:/-]{0,127}$`)
	claimIfForm   = regexp.MustCompile(`^(.*\S) if ([a-z][a-z0-9_-]*)$`)
	claimIfWord   = regexp.MustCompile(`(?i)\sif(\s|$)`)
	fieldForm     = regexp.MustCompile(`\{[^{}]*\}`)
)

// claimRule is a parsed rule.
type claimRule struct {
	name, value string
	typed       any      // value after json:, decoded; nil: a text
	texts       []string // the value, or those of typed
	fields      []string // in texts, with their braces
	flag        string   // that the user must have, or empty
}

func parseClaimRule(rule string) (r claimRule) {
	r.name, r.value, _ = strings.Cut(rule, "=")
	r.name, r.value = strings.TrimSpace(r.name), strings.TrimSpace(r.value)
	if m := claimIfForm.FindStringSubmatch(r.value); m != nil {
		r.value, r.flag = m[1], m[2]
	}
	r.texts = []string{r.value}
	if raw, ok := strings.CutPrefix(r.value, claimJSON); ok {
		r.typed, r.texts = decodeClaim(raw)
	}
	for _, text := range r.texts {
		r.fields = append(r.fields, fieldForm.FindAllString(text, -1)...)
	}
	return r
}

// claimJSON begins a value that has a type.
const claimJSON = "json:"

// decodeClaim decodes a value of JSON and returns the texts in it too. It returns nil for what a claim cannot be:
// null, objects, lists of lists, and numbers that lose digits as a float64.
func decodeClaim(raw string) (value any, texts []string) {
	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()
	if !json.Valid([]byte(raw)) || decoder.Decode(&value) != nil {
		return nil, nil
	}
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	for i, item := range list {
		switch item := item.(type) {
		case string:
			texts = append(texts, item)
		case bool:
		case json.Number:
			if list[i] = exactNumber(item); list[i] == nil {
				return nil, nil
			}
		default:
			return nil, nil
		}
	}
	if !isList {
		value = list[0]
	}
	return value, texts
}

// exactNumber returns a whole number as an int64, since the encoder of tokens writes a large float64 with an exponent,
// which integers of applications do not have. It returns nil for a number that loses digits as a float64.
func exactNumber(n json.Number) any {
	if i, err := n.Int64(); err == nil && i >= -1<<53 && i <= 1<<53 {
		return i
	}
	f, err := n.Float64()
	switch {
	case err != nil || math.Abs(f) >= 1<<53:
		return nil
	case f == math.Trunc(f):
		return int64(f)
	}
	return f
}

// always reports whether the rule fits every user.
func (r claimRule) always() bool { return r.flag == "" && len(r.fields) == 0 }

// entries returns what the rule needs consent for.
func (r claimRule) entries() []string {
	list := slices.DeleteFunc(slices.Clone(r.fields), func(f string) bool { return f == "{sub}" })
	if r.flag != "" {
		list = append(list, flagEntry+r.flag+"}")
	}
	return list
}

// attributeOf returns the attribute that a field or an entry of the consent names.
func attributeOf(field string) (name string, ok bool) {
	name, ok = strings.CutPrefix(field, attributeOpen)
	return strings.TrimSuffix(name, "}"), ok
}

// checkClaimRules validates rules. The error is a *RegistrationError.
func checkClaimRules(rules []string) error {
	if len(rules) > maxClaimRules {
		return &RegistrationError{"claims", "", fmt.Sprintf("at most %d rules", maxClaimRules)}
	}
	final := map[string]bool{}
	for _, rule := range rules {
		r := parseClaimRule(rule)
		if rule != strings.TrimSpace(rule) { // lists are stored by line
			return &RegistrationError{"claims", rule, "remove the spaces and line ends around it"}
		}
		if why := r.fault(); why != "" {
			return &RegistrationError{"claims", rule, why}
		}
		if final[r.name] {
			return &RegistrationError{"claims", rule, "an earlier rule for " + r.name +
				" fits everybody, so this one never would: give the rules in another order"}
		}
		final[r.name] = r.always()
	}
	return nil
}

// fault returns what is wrong with a rule, or "".
func (r claimRule) fault() string {
	lower := strings.ToLower(r.name) // some applications match names in any case
	switch {
	case !claimNameForm.MatchString(r.name):
		return "write NAME=VALUE or NAME=VALUE if FLAG; a name is a letter and up to 127 letters, digits and _ . : / -"
	case lower == "groups":
		return "this claim has the flags of the user: --group names them"
	case slices.Contains(reservedClaims, lower):
		return "this claim has a meaning that applications rely on: choose another name"
	}
	if _, err := account.CheckReason(r.value); err != nil || r.value == "" {
		return "a value has 1 to 200 characters, and no control characters"
	}
	if claimIfWord.MatchString(r.value) { // as a value it would go to everybody
		return "after if stands the name of one flag, in lower case; for another flag write another rule"
	}
	if strings.HasPrefix(r.value, claimJSON) && r.typed == nil {
		return `after json: stands a number, true, false, a text in "quotes", or a list of these, ` +
			`as json:10 or json:["a","b"]`
	}
	for _, f := range r.fields {
		name, attribute := attributeOf(f)
		switch {
		case attribute && account.CheckFlag(name) == nil:
		case claimFields[f] == "":
			return f + " is not a field: there are " + strings.Join(sortedFields(), " ") + " and {attribute:NAME}"
		case (lower == "preferred_username" || lower == "username") &&
			!slices.Contains([]string{"{sub}", "{handle}", "{email}"}, f):
			// Whoever may choose it could take another's account.
			return "people can give themselves any " + strings.Trim(f, "{}") +
				": " + lower + " takes {handle}, {email}, {sub} and {attribute:NAME}"
		}
	}
	if strings.ContainsAny(fieldForm.ReplaceAllString(strings.Join(r.texts, " "), ""), "{}") {
		return "a field is written in braces, such as {handle}, and other braces cannot be used"
	}
	return ""
}

// claimWarnings warns of rules by which members could be taken for somebody else. Of what they choose, only a user name
// and a verified address are nobody else's; for rights not even these, as a user name may read like a role.
func claimWarnings(rules []string) (out []string) {
	for _, rule := range rules {
		r := parseClaimRule(rule)
		own, known := []string{"{sub}", "{handle}", "{email}"}, "people"
		switch name := strings.ToLower(r.name); {
		case slices.Contains(rightsClaims, name):
			own, known = own[:1], "what people may do"
		case !slices.Contains(identityClaims, name):
			continue
		}
		for _, f := range r.fields {
			if _, attribute := attributeOf(f); !attribute && !slices.Contains(own, f) {
				out = append(out,
					fmt.Sprintf("--claim %q: members choose their %s, and an application that knows %s by %s "+
						"would believe them: use %s or {attribute:NAME}",
						rule, strings.Trim(f, "{}"), known, r.name, strings.Join(own, ", ")))
			}
		}
	}
	return out
}

func sortedFields() (names []string) {
	for f := range claimFields {
		names = append(names, f)
	}
	slices.Sort(names)
	return names
}

// checkClaims checks that the settings have the flags and attributes of rules. The error is a
// *RegistrationError.
func checkClaims(rules []string, v account.Settings) error {
	for _, rule := range rules {
		r := parseClaimRule(rule)
		if r.flag != "" && !slices.Contains(v.Flags, r.flag) {
			return &RegistrationError{"claims", rule, fmt.Sprintf(noSuchFlag, r.flag)}
		}
		for _, f := range r.fields {
			if name, ok := attributeOf(f); ok && !slices.Contains(v.Attributes, name) {
				return &RegistrationError{"claims", rule, fmt.Sprintf(
					"there is no attribute %[1]q here: cairn settings set attributes --add %[1]s declares it", name)}
			}
		}
	}
	return nil
}

const noSuchFlag = "there is no flag %[1]q here: cairn settings set flags --add %[1]s adds it"

// claimEntries returns what the rules of a client, and of those of the APIs that are named, need consent
// for.
func claimEntries(c *Client, list apis, resources []string) (entries []string) {
	rules := c.Claims
	for _, a := range list {
		if len(a.Claims) > 0 && slices.Contains(resources, a.URI) {
			rules = slices.Concat(rules, a.Claims)
		}
	}
	for _, rule := range rules {
		for _, e := range parseClaimRule(rule).entries() {
			if !slices.Contains(entries, e) {
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// covers reports whether scopes tell the client what an entry of the consent does.
func covers(c *Client, scopes []string, entry string) bool {
	if flag, ok := strings.CutPrefix(entry, flagEntry); ok {
		named := c.groupsOf(account.User{Flags: []string{strings.TrimSuffix(flag, "}")}})
		return slices.Contains(scopes, "groups") && len(named) > 0
	}
	scope := claimScope(claimFields[entry])
	return scope != "" && slices.Contains(scopes, scope)
}

// ownClaims returns the claims of rules for a user who agreed to the entries. A rule that needs more
// hides its claim: the next rule might give more than it would have.
func ownClaims(rules, agreed []string, u account.User, c *Client) map[string]any {
	var out map[string]any
	decided := map[string]bool{}
	for _, rule := range rules {
		r := parseClaimRule(rule)
		if decided[r.name] {
			continue
		}
		if len(subtract(r.entries(), agreed)) > 0 {
			decided[r.name] = true
			continue
		}
		value, fits := r.valueFor(u, c)
		if !fits {
			continue
		}
		if out == nil {
			out = map[string]any{}
		}
		decided[r.name], out[r.name] = true, value
	}
	return out
}

// valueFor returns the value for a user. A rule does not fit if a field has no value.
func (r claimRule) valueFor(u account.User, c *Client) (value any, fits bool) {
	if r.flag != "" && !u.Has(r.flag) {
		return nil, false
	}
	fits = true
	filled := func(text string) string {
		return fieldForm.ReplaceAllStringFunc(text, func(f string) string {
			v := fieldValue(f, u, c)
			fits = fits && v != ""
			return v
		})
	}
	switch typed := r.typed.(type) {
	case nil:
		value = filled(r.value)
	case string:
		value = filled(typed)
	case []any:
		list := slices.Clone(typed)
		for i, item := range list {
			if text, ok := item.(string); ok {
				list[i] = filled(text)
			}
		}
		value = list
	default:
		value = typed
	}
	return value, fits
}

// fieldValue returns a field of a user. An address or a number that anybody could have typed in has no
// value: applications may find accounts by it.
func fieldValue(field string, u account.User, c *Client) string {
	if name, ok := attributeOf(field); ok {
		return u.Profile.Attributes[name]
	}
	switch {
	case field == "{sub}":
		return u.Sub
	case field == "{email}" && !u.EmailVerified, field == "{phone_number}" && !u.Profile.PhoneNumberVerified:
		return ""
	}
	value, _ := claimValue(&u, c, claimFields[field]).(string)
	return value
}

// overrule puts own claims over others. A claim that has a rule comes from its rules alone: where none
// fits, the handle as preferred_username could be the name of another member there.
func overrule(claims map[string]any, rules []string, own map[string]any) {
	for _, rule := range rules {
		delete(claims, parseClaimRule(rule).name)
	}
	maps.Copy(claims, own)
}

// addOwnClaims adds the client's own claims for one of the places.
func (c *Client) addOwnClaims(claims map[string]any, place string, u account.User, g *Grant) {
	if c.hasClaimsIn(place) {
		overrule(claims, c.Claims, ownClaims(c.Claims, storedClaims(g.Claims, c).Told, u, c))
	}
}

func (c *Client) hasClaimsIn(place string) bool {
	if len(c.ClaimIn) == 0 {
		return place == claimInUserInfo || place == claimInIDToken && c.IDTokenClaims
	}
	return slices.Contains(c.ClaimIn, place)
}

// claimRules returns the rules for APIs, with those that the client has in access tokens.
func (list apis) claimRules(c *Client) (rules []string) {
	for _, a := range list {
		rules = append(rules, a.Claims...)
	}
	if c.hasClaimsIn(claimInAccessToken) {
		rules = append(rules, c.Claims...)
	}
	return rules
}

// ownClaims returns the claims of claimRules.
func (list apis) ownClaims(u account.User, c *Client, g *Grant) map[string]any {
	if g.Sub == "" {
		return nil
	}
	return ownClaims(list.claimRules(c), storedClaims(g.Claims, c).Told, u, c)
}

// entryItem is consentItem for an entry of own claims.
func entryItem(l *templates.Language, entry string, u account.User, client *Client) templates.ScopeItem {
	item := templates.ScopeItem{Name: entry}
	scope := claimScope(claimFields[entry])
	switch value := fieldValue(entry, u, client); {
	case scope == "email" || scope == "phone":
		item.Sentence = consentItem(l, scope, u, client).Sentence
	case scope != "" && value != "":
		item.Sentence = l.Text("From your profile: {value}", "value", value)
	default:
		item.Sentence = entryText(l, entry)
		if value != "" {
			item.Detail = value
		}
	}
	return item
}

// entryText describes an entry to the user who agreed to it.
func entryText(l *templates.Language, entry string) string {
	if flag, ok := strings.CutPrefix(entry, flagEntry); ok {
		return l.Text("Whether you are in the group {group}", "group", strings.TrimSuffix(flag, "}"))
	}
	if name, ok := attributeOf(entry); ok {
		return l.Text("What administrators saved about you as {name}", "name", name)
	}
	if i := slices.Index(Scopes, claimScope(claimFields[entry])); i >= 0 && scopes[i].name != "profile" {
		return l.Text(scopes[i].granted)
	}
	return l.Text("From your profile: {value}", "value", strings.Trim(entry, "{}"))
}

// entryTexts returns the texts of the entries among what was granted.
func entryTexts(ctx context.Context, granted []string) (texts []string) {
	for _, s := range granted {
		if strings.HasPrefix(s, "{") {
			texts = append(texts, entryText(templates.LanguageOf(ctx), s))
		}
	}
	return texts
}
