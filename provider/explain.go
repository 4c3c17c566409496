package provider

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Explainer is the input of Explain. Explain only reads.
type Explainer struct {
	Storage Storage
	// Settings may be zero: then nobody needs a second factor.
	Settings account.Settings
	Issuer   string
	Keys     []jose.JSONWebKey // of id_token_hint; may be empty
	User     *account.User     // who signs in; nil: any user whom the client accepts
	Now      func() time.Time  // nil: time.Now
	// DocumentRoots is as in Options.
	DocumentRoots *x509.CertPool
	// Nearest returns the known name that was probably meant, and whether it is near enough.
	Nearest func(name string, known []string) (best string, near bool)
	// Application says what is known of the application that sent a redirect URI which its client has
	// not registered. It may be nil.
	Application func(clientID, sent string, registered []string) string
}

// Results of a request.
const (
	AnswerCode  = "code"  // the application gets a code, after the steps
	AnswerError = "error" // the application gets an OAuth error
	answerPage  = "page"  // the browser stays here: the application receives nothing
)

// Explanation describes what the authorization endpoint would do with a request.
type Explanation struct {
	Device   bool           `json:"device,omitempty"` // a device's request: SentTo is the endpoint that answers it
	Answer   string         `json:"answer"`           // one of the Answer constants
	Error    string         `json:"error,omitempty"`  // with AnswerError: the error code that the application gets
	Why      string         `json:"why,omitempty"`    // a sentence; empty with AnswerCode
	SentTo   string         `json:"sent_to,omitempty"`
	Findings []Finding      `json:"findings"`
	Steps    []string       `json:"steps"` // the pages before the code
	User     *explainedUser `json:"user,omitempty"`
}

// Verdicts of a Finding.
const (
	FindingGood  = "ok"
	FindingWrong = "wrong"
	findingNote  = "note"
)

// Finding is an observation about one parameter.
type Finding struct {
	Parameter string `json:"parameter"`
	Verdict   string `json:"verdict"` // one of the Finding constants
	Text      string `json:"text"`
}

// explainedUser describes the request for one user.
type explainedUser struct {
	Handle       string         `json:"handle"`
	RequiredFlag string         `json:"required_flag,omitempty"` // several: with "or" or "and" between them
	HasFlag      bool           `json:"has_required_flag"`
	Consented    []string       `json:"consented_scopes"`
	IDToken      map[string]any `json:"id_token,omitempty"`     // with AnswerCode
	UserInfo     map[string]any `json:"userinfo,omitempty"`     // with AnswerCode
	AccessToken  map[string]any `json:"access_token,omitempty"` // own claims of one for APIs
}

// explaining runs one request through the checks of authorize.
type explaining struct {
	*Explanation
	rules
	by    Explainer
	req   *authorization
	given url.Values // its parameters as they came
}

// Explain returns what the authorization endpoint would do with a request, and why. raw is the
// URL that an application sent the browser to, or its query; for a device, the URL of the device
// authorization endpoint with the parameters as its query. Nothing is stored or spent, and only
// the description of an allowed client is fetched. An error means that reading failed, never that
// the request is bad.
func Explain(ctx context.Context, raw string, by Explainer) (*Explanation, error) {
	if by.Now == nil {
		by.Now = time.Now
	}
	e := &explaining{Explanation: &Explanation{Findings: []Finding{}, Steps: []string{}}, by: by}
	e.rules = newRules(Options{
		Storage: by.Storage, Issuer: by.Issuer, Keys: by.Keys, Now: by.Now,
		Log: slog.New(slog.DiscardHandler), DocumentRoots: by.DocumentRoots,
	}, func(_ context.Context, u account.User) (bool, error) { return by.Settings.NeedsSecondFactor(u), nil })
	return e.Explanation, e.explain(ctx, raw)
}

func (e *explaining) explain(ctx context.Context, raw string) error {
	if e.Why = e.read(ctx, raw); e.Why != "" {
		e.Answer = answerPage
		return nil
	}
	proven := e.proveClient(ctx, e.req)
	if err := e.explainClient(ctx); err != nil { // also that of proven, if reading failed
		return err
	}
	if e.req.client != nil {
		if e.req.mustPush && e.req.pushed == nil {
			e.req.pushed = []byte{} // check the rest as a pushed request
			e.note("request_uri",
				"These parameters have to be pushed (RFC 9126): in the address they are refused, as invalid_request.")
		}
		e.explainParameters()
	}
	if e.Device {
		e.SentTo = e.by.Issuer + deviceAuthorizationPath
		if refusal := e.deviceRefusal(proven); refusal != nil {
			e.refuse(refusal, "")
			return nil
		}
		e.SentTo = e.by.Issuer + "/oauth2/token"
		e.Steps = append(e.Steps, e.by.Issuer+"/device, where the user types the code that the device shows")
		return e.decide(ctx)
	}
	if proven != nil {
		problem, _ := web.ProblemOf(proven)
		e.Answer, e.Why = answerPage, problem.Detail
		return nil
	}
	e.SentTo = e.req.redirectURI
	return e.decide(ctx)
}

// deviceRefusal returns the error of the device authorization endpoint, or nil if it issues codes.
func (e *explaining) deviceRefusal(proven error) *oauthError {
	c := e.req.client
	switch {
	case e.req.duplicate != "":
		return errInvalidRequest.about(repeated, e.req.duplicate, "It is given more than once.")
	case c == nil:
		return errInvalidClient
	case !c.DeviceGrant:
		return errUnauthorizedClient
	case proven != nil: // it is too long
		return errInvalidRequest.because(tooLarge, "The request is too long.")
	}
	if _, faults := checkRequest(e.req); len(faults) > 0 {
		return faults[0].err
	}
	return nil
}

// read parses the request in the URL. If there is none, it returns why.
func (e *explaining) read(ctx context.Context, raw string) string {
	raw = strings.TrimSpace(raw)
	if !strings.Contains(raw, "?") && strings.Contains(raw, "=") {
		raw = e.by.Issuer + "/oauth2/authorize?" + raw // the query alone
	}
	target, err := url.Parse(raw)
	if err != nil {
		e.wrong("address",
			"This is not an address. Paste the whole one that the application sent the browser to, in single quotes.")
		return "The address cannot be read."
	}
	endpoint := *target
	endpoint.RawQuery, endpoint.ForceQuery, endpoint.Fragment = "", false, ""
	s, authorize := endpoint.String(), e.by.Issuer+"/oauth2/authorize"
	e.Device = s == e.by.Issuer+deviceAuthorizationPath
	if s != "" && !e.Device && s != authorize {
		e.note("address", "The application sent the browser to "+s+"; the authorization endpoint is "+authorize+".")
	}
	if target.Fragment != "" {
		e.note("address", "The fragment (# and what follows) never reaches the service.")
	}
	if target.Query().Has("continue") {
		e.wrong("continue", "This address is one of the service's own, on the way through sign-in. "+
			"Paste the one that the application sent the browser to.")
		return "The request itself is not in the address."
	}
	r := &http.Request{Method: http.MethodGet, URL: target, Body: http.NoBody}
	form, err := authorizationForm(r)
	if err != nil {
		problem, _ := web.ProblemOf(err)
		e.wrong("address", "The query is not of the form name=value&name=value: check the percent-encoding.")
		return problem.Detail
	}
	e.req = newAuthorization(form, e.now())
	if e.given = e.req.form; e.Device {
		e.req.device, e.req.form = []byte{0}, equivalentRequest(e.given.Get("client_id"), e.given)
	}
	if len(e.given) == 0 {
		e.note("address", "There is no query. In a shell the address needs single quotes, because & ends a command.")
	}
	if strings.HasPrefix(e.req.form.Get("request_uri"), requestURIPrefix) {
		if e.openPushed(ctx, e.req) != nil {
			e.note("request_uri", "A pushed request (RFC 9126): its parameters are stored for a minute, "+
				"which has passed. Explain the parameters that the application pushes instead.")
			return "The parameters of the pushed request are no longer there."
		}
		e.note("request_uri", "A pushed request (RFC 9126). What follows is about the parameters that were pushed.")
	}
	return ""
}

// explainClient describes the client. A wrong id or redirect URI is usually a typo, so it names
// the nearest registered one.
func (e *explaining) explainClient(ctx context.Context) error {
	id := e.req.form.Get("client_id")
	client, err := e.client(ctx, id)
	if bad, ok := errors.AsType[*documentError](err); ok {
		e.wrong("client_id", "The client is allowed to bring its own description, which is not used. "+bad.Error())
		return nil
	}
	if errors.Is(err, ErrClientNotFound) && strings.HasPrefix(id, "https://") {
		e.wrong("client_id",
			fmt.Sprintf("%q is not allowed to bring its own description: cairn client allow lets it.", clip(id)))
		return nil
	}
	if errors.Is(err, ErrClientNotFound) {
		clients, err := e.by.Storage.Clients(ctx)
		if err != nil {
			return fmt.Errorf("list clients: %w", err)
		}
		var ids []string
		for _, c := range clients {
			ids = append(ids, c.ID)
		}
		text := fmt.Sprintf("There is no client %q.", clip(id))
		if id == "" {
			text = "There is no client_id."
		} else if best, near := e.by.Nearest(clip(id), ids); near {
			text += " The nearest is " + best + "."
		}
		e.wrong("client_id", text)
		return nil
	}
	if err != nil {
		return fmt.Errorf("find client: %w", err)
	}
	kind := "confidential"
	if client.IsPublic() {
		kind = "public"
	}
	if client.isFAPI() {
		kind += ", held to FAPI 2.0"
	}
	e.find("client_id", FindingGood, fmt.Sprintf("%s (%s), %s", client.ID, client.Name, kind))
	e.req.client = client
	if e.req.apis, err = e.apisOf(ctx, client); err != nil {
		return err
	}
	switch uri := e.req.form.Get("redirect_uri"); {
	case e.Device && !client.DeviceGrant:
		e.wrong("client_id", "It is not registered for the device grant: cairn client update "+client.ID+" --device")
	case e.Device:
	case uri == "" && client.DeviceGrant:
		e.wrong("redirect_uri",
			"It is missing. If a device asks, put "+e.by.Issuer+deviceAuthorizationPath+"? before its parameters.")
	case uri == "":
		e.wrong("redirect_uri", "It is missing. Registered: "+strings.Join(client.RedirectURIs, " "))
	case client.matchRedirect(uri):
		e.find("redirect_uri", FindingGood, uri+" is registered")
	default:
		e.wrong("redirect_uri", e.describeDifference(uri, client.RedirectURIs))
		if e.by.Application == nil {
			break
		}
		if text := e.by.Application(client.ID, clip(uri), client.RedirectURIs); text != "" {
			e.note("redirect_uri", text)
		}
	}
	return nil
}

// explainParameters reports the faults of checkRequest, and what the other parameters do.
func (e *explaining) explainParameters() {
	f, c := e.req.form, e.req.client
	q, faults := checkRequest(e.req)
	wrong := map[string]bool{}
	for _, fault := range faults {
		wrong[fault.parameter] = true
		e.wrong(fault.parameter, fault.given+fault.sentence)
	}
	good := func(parameter, text string) {
		if f.Get(parameter) != "" && !wrong[parameter] {
			e.find(parameter, FindingGood, text)
		}
	}
	if e.Device {
		good("resource", "the access token is for "+strings.Join(q.resources, " "))
		e.explainScopes(q.granted)
		for _, name := range slices.Sorted(maps.Keys(e.given)) {
			if !slices.Contains(deviceParameters, name) && !strings.HasPrefix(name, "client_") {
				e.note(name, "It is ignored in the request of a device.")
			}
		}
		return
	}
	good("response_type", f.Get("response_type"))
	good("response_mode", f.Get("response_mode"))
	good("prompt", strings.Join(q.prompts, " "))
	good("max_age", f.Get("max_age")+" seconds")
	good("claims", "it can be read")
	good("resource", "the access token is for "+strings.Join(q.resources, " "))
	good("code_challenge", f.Get("code_challenge_method"))
	e.explainScopes(q.granted)
	if hint := f.Get("id_token_hint"); hint != "" {
		switch _, err := e.hintSubject(hint, c.ID); {
		case err == nil:
			e.find("id_token_hint", FindingGood, "an ID token of this service for this client")
		case len(e.by.Keys) == 0:
			e.wrong("id_token_hint", "It cannot be verified without the keys: "+
				"give --private-key-file and --additional-key-file as for cairn serve.")
		default:
			e.wrong("id_token_hint", badHintSentence)
		}
	}
	pkce := f.Get("code_challenge") != ""
	openid := slices.Contains(strings.Fields(f.Get("scope")), "openid")
	classes := strings.Join(q.acr.values, ", ")
	for _, n := range []struct {
		applies         bool
		parameter, text string
	}{
		{!pkce && !wrong["code_challenge"], "code_challenge",
			"It is missing. This client may leave it out; with it a stolen code is worth nothing."},
		{f.Get("state") == "" && !pkce, "state",
			"It is missing, and so is PKCE: the application cannot tell its own answers from forged ones."},
		{f.Get("state") == "" && pkce, "state", "It is missing, which is accepted."},
		{f.Get("nonce") == "" && openid, "nonce", "It is missing, which is accepted: the ID token will have none."},
		{len(q.acr.values) > 0 && !q.acr.essential, "acr", "The request asks for " + classes +
			": users with a factor for one of them are asked for it, and the ID token has the acr of the sign-in."},
		{q.acr.essential, "acr", "One of " + classes +
			" is essential: for other users the answer is unmet_authentication_requirements."},
	} {
		if n.applies {
			e.note(n.parameter, n.text)
		}
	}
	known := append([]string{"client_id", "request", "request_uri", "registration", "resource"}, pushedParameters...)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if !slices.Contains(known, name) {
			e.note(name, "It is not known here and is ignored.")
		}
	}
}

func (e *explaining) explainScopes(granted []string) {
	c := e.req.client
	for _, rule := range c.Claims {
		e.note("client_id", "A claim of its own: "+rule)
	}
	if len(granted) > 0 {
		text := strings.Join(granted, " ") + " can be granted"
		if slices.Contains(granted, "offline_access") {
			text += "; offline_access gives a refresh token"
		}
		e.find("scope", FindingGood, text)
	}
	if slices.Contains(granted, "groups") {
		text := "groups names the flags of the user but admin."
		if len(c.Groups) > 0 {
			text = "groups names those of the user's flags that the client is registered for (--group): " +
				strings.Join(c.Groups, " ")
		}
		e.note("scope", text)
	}
	for _, s := range strings.Fields(e.req.form.Get("scope")) {
		switch {
		case slices.Contains(granted, s):
		case slices.Contains(Scopes, s):
			e.note("scope", fmt.Sprintf("%s is ignored: the client is not registered for it.", s))
		default:
			e.note("scope", fmt.Sprintf(
				"%q is ignored: there is no such scope, or it is of an API that this client may not use.", clip(s)))
		}
	}
	if !slices.Contains(granted, "openid") {
		e.note("scope",
			"Without openid this is plain OAuth 2.0: there is no ID token, and userinfo refuses the access token.")
	}
}

// decide runs the request, first signed out, then with the user.
func (e *explaining) decide(ctx context.Context) error {
	q, refusal := e.stateOf(e.req)
	if refusal != nil {
		e.refuse(refusal, "")
		return nil
	}
	if len(e.by.Keys) > 0 {
		signing, err := newSigners("JWT", e.by.Keys, nil)
		if err != nil {
			return err
		}
		if err := canSign(signing, &accessTokenSigner{signers: signing}, e.req, q.access); err != nil {
			e.refuse(errNoSigningKey, "")
			e.Why = err.Error()
			return nil
		}
	}
	user, err := e.findUser(ctx, &q)
	if err != nil || e.Answer != "" {
		return err
	}
	silent, within := slices.Contains(q.prompts, "none"), q.maxAge
	proof := q.newLasting
	if silent && proof&lastsOffline != 0 {
		e.note("scope", "With prompt=none, a session whose user signed in more than 10 minutes ago gets the answer "+
			"without offline_access, unless it gave this client such access before.")
		proof &^= lastsOffline
	}
	if proof != 0 {
		e.note("scope", "What the application gets outlives the session ("+proof.String()+"): the user must "+
			"have signed in during the last 10 minutes, unless their session gave this client access of that kind "+
			"before. They get a mail about it, once in 30 days.")
		if within = min(within, account.FreshFor); within < 0 {
			within = account.FreshFor
		}
	}
	identity := &person.Identity{User: user, Session: account.Session{
		ID: "(id of the browser's session)", TokenHash: []byte("fresh"),
		AuthTime: q.arrived, ConfirmedAt: q.arrived, AMR: bestMethods(q.bestACR),
	}}
	e.signIn(q, identity, proof != 0, within)
	// After a sign-in page the sign-in is new when the request returns.
	q.identity, q.returned = identity, !silent
	v, refusal := decide(q)
	if v == setUpFactor {
		q.bestACR = q.requiredACR()
		identity.User.SecondFactor, identity.Session.AMR = true, bestMethods(q.bestACR)
		e.Steps = append(e.Steps, "the security page of the account, to set up a second factor, for acr "+q.bestACR+
			" is demanded; then the sign-in page")
		v, refusal = decide(q)
	}
	switch v {
	case consent:
		missing := slices.DeleteFunc(slices.Clone(q.agreed), func(s string) bool {
			return slices.Contains(q.consented, s) && !slices.Contains(q.prompts, "consent")
		})
		e.Steps = append(e.Steps, "the consent page, for: "+strings.Join(missing, " "))
		// The page stores the consent before the decision returns.
		q.decision, q.consented = decisionAllow, append([]string{}, q.agreed...)
		v, refusal = decide(q)
	case proceed:
		why := "the user has agreed to these scopes before"
		if q.client.Trusted {
			why = "the client is trusted"
		}
		e.Steps = append(e.Steps, "no consent page: "+why)
	}
	if v == notAllowed {
		e.Steps = append(e.Steps, "a page that says whom the application is for")
	}
	if v != proceed {
		e.refuse(refusal, user.Handle)
		return nil
	}
	e.answerCode(q, identity, user)
	return nil
}

// signIn adds the step before the decision: a sign-in, or the session that there has to be already.
func (e *explaining) signIn(q authzState, identity *person.Identity, lasting bool, within time.Duration) {
	if v, _ := decide(q); v == login {
		// Is a sign-in just before the request enough?
		q.identity, q.returned = identity, false
		text := "the sign-in page, unless the browser is signed in"
		if v, _ := decide(q); v == login {
			text = "the sign-in page, also for a browser that is signed in"
			if q.freshSignIn() == site.FreshSelect {
				text = "the sign-in page, where a user who is signed in may go on as they are (prompt=select_account)"
			}
		} else if within > 0 {
			text = fmt.Sprintf("the sign-in page, unless the browser signed in during the last %s", within)
		}
		if slices.Contains(q.prompts, promptCreate) {
			text = "the page on which people join (prompt=create)"
		}
		e.Steps = append(e.Steps, text)
	} else {
		already := "already"
		if lasting {
			already = fmt.Sprintf("already, since at most %s", within)
		}
		e.Steps = append(e.Steps,
			"no page (prompt=none): the browser has to be signed in "+already+", else the answer is login_required")
	}
}

// answerCode explains the code, and what the application then gets of the user.
func (e *explaining) answerCode(q authzState, identity *person.Identity, user account.User) {
	e.Answer = AnswerCode
	if e.User == nil {
		return
	}
	g := newGrant(e.req, identity, q)
	target := slices.DeleteFunc(slices.Clone(e.req.apis), func(a *API) bool {
		return !slices.Contains(q.resources, a.URI)
	})
	if len(target) > 0 {
		e.User.AccessToken = target.ownClaims(user, q.client, g)
	}
	if !slices.Contains(q.granted, "openid") {
		return
	}
	e.User.UserInfo = userInfo(user, q.client, g)
	e.User.IDToken = idTokenClaims(e.by.Issuer, user, q.client, g, "(hash of the access token)", e.by.Now())
}

// bestMethods returns the authentication methods of a sign-in of a class.
func bestMethods(class string) []string {
	switch class {
	case account.ACRPhishingResistant:
		return []string{account.MethodHardwareKey, account.MethodUser, account.MethodMultiFactor}
	case account.ACRTwoFactors:
		return []string{account.MethodPassword, account.MethodOTP, account.MethodMultiFactor}
	}
	return []string{account.MethodPassword}
}

// findUser returns the given user, or one that satisfies the request.
func (e *explaining) findUser(ctx context.Context, q *authzState) (u account.User, err error) {
	flag := q.client.RequiredFlags()
	if e.by.User != nil {
		u = *e.by.User
		if err = e.readUser(ctx, q, u); err != nil {
			return u, err
		}
		granted, err := e.consented(ctx, u.Sub, q.client) // also of a trusted client
		e.User = &explainedUser{
			Handle: u.Handle, RequiredFlag: flag, HasFlag: q.client.admits(u),
			Consented: append([]string{}, granted...),
		}
		if state := emailState(u); state != "" && slices.Contains(q.granted, "email") {
			e.note("scope", u.Handle+"'s email address is "+string(state)+", which some applications answer with an "+
				"error: "+e.by.Issuer+"/account/ is where "+u.Handle+" verifies it.")
		}
		if u.Suspended() {
			e.Answer = answerPage
			e.Why = u.Handle + " is suspended and cannot sign in: the browser stays at the sign-in page."
		}
		return u, err
	}
	if err := e.readLasting(ctx, q); err != nil {
		return u, err
	}
	u.Sub, u.SecondFactor, q.bestACR = q.hintSub, true, account.ACRPhishingResistant
	if acr := q.client.RequireACR; acr != "" {
		e.note("client_id",
			"The client requires acr "+acr+": users who cannot sign in so are asked to set up a factor for it.")
	}
	if flag != "" {
		u.Flags = q.client.RequireFlags
		e.note("client_id", "Only users with the flag "+flag+" are let in.")
	}
	if u.EmailVerified = q.client.RequireVerifiedEmail; u.EmailVerified {
		e.note("client_id", "Only users with a verified email address are let in.")
	}
	if len(q.claims.subs) > 0 {
		u.Sub = q.claims.subs[0][0]
	}
	if slices.Contains(q.prompts, "none") {
		q.consented = q.agreed
		e.note("prompt", "Without a page it works only for a user who has agreed before; --user HANDLE checks one.")
	}
	return u, nil
}

func (e *explaining) refuse(problem *oauthError, handle string) {
	e.Answer, e.Error, e.Why = AnswerError, problem.code, problem.description
	if handle == "" {
		return
	}
	switch problem.reason {
	case flagMissing:
		e.Why = fmt.Sprintf("%s lacks the flag %s, which the client requires.", handle, e.req.client.RequiredFlags())
	case emailUnverified:
		e.Why = handle + " has no verified email address, which the client requires: " + e.by.Issuer +
			"/account/ is where it is verified."
	case noSession, otherUser:
		e.Why = handle + "'s session does not suffice: the request asks for another user (id_token_hint, claims), " +
			"or for a new sign-in, for which prompt=none allows no page."
	case acrUnmet:
		e.Why = handle + " has no factor for a sign-in of the class (acr) that the request makes essential."
	case noSecondFactor:
		e.Why = handle + " has to set up a second factor first, and prompt=none leaves no page to do so."
	case noConsent:
		e.Why = fmt.Sprintf("%s has not agreed to these scopes yet, and prompt=none leaves no page to do so.", handle)
	}
}

func (e *explaining) note(parameter, text string)  { e.find(parameter, findingNote, text) }
func (e *explaining) wrong(parameter, text string) { e.find(parameter, FindingWrong, text) }

func (e *explaining) find(parameter, verdict, text string) {
	if len(parameter) > 64 || strings.ContainsFunc(parameter, func(r rune) bool { return r <= ' ' || r > '~' }) {
		parameter = fmt.Sprintf("%.64q", parameter) // an unknown name
	}
	e.Findings = append(e.Findings, Finding{parameter, verdict, text})
}

// describeDifference names the nearest registered URI and the first difference.
func (e *explaining) describeDifference(uri string, registered []string) string {
	near, _ := e.by.Nearest(clip(uri), registered)
	if near == "" {
		return "The client has no redirect URI."
	}
	at := 0
	for at < len(uri) && at < len(near) && uri[at] == near[at] {
		at++
	}
	piece := func(s string) string {
		if at >= len(s) {
			return "its end there"
		}
		return fmt.Sprintf("%q", s[at:min(len(s), at+12)])
	}
	return fmt.Sprintf("%q is not registered. The nearest that is, %s, differs at character %d: "+
		"it has %s, the request %s.", clip(uri), near, at+1, piece(near), piece(uri))
}

// clip shortens pasted input in messages.
func clip(s string) string { return templates.Shortened(s, 200) }
