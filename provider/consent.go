package provider

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

const (
	decisionAllow = "allow"
	decisionDeny  = "deny"
)

// binding ties a sealed value to one user, one session and one authorization request, so that
// another user's form or decision does not count.
type binding struct {
	Sub      string `json:"u"`
	SID      string `json:"s"`
	Request  string `json:"r"` // hash of the continuation
	Decision string `json:"d,omitempty"`
	// Optional lists the scopes that the form lets the user leave out or, in a decision, those
	// that the user left out, separated by spaces.
	Optional string `json:"o,omitempty"`
	// Asked lists what the form asks for, separated by spaces. Decisions have none.
	Asked string `json:"a,omitempty"`
}

func bind(id *person.Identity, sealed, decision string, optional ...string) binding {
	return binding{
		Sub: id.User.Sub, SID: id.Session.ID, Request: shortHash(sealed),
		Decision: decision, Optional: strings.Join(optional, " "),
	}
}

// shown returns what a consent form is about: the request and, if the client's own description may
// change them meanwhile, its redirect URIs.
func (req *authorization) shown() string {
	if !req.client.Document {
		return req.sealed
	}
	return req.sealed + "\n" + strings.Join(req.client.RedirectURIs, "\n")
}

func shortHash(s string) string {
	h := sha256.Sum256([]byte(s))
	return base64.RawURLEncoding.EncodeToString(h[:16])
}

// openDecision returns allow or deny if the sealed decision is this user's about this request,
// else "", and the scopes that were left out.
func (p *Provider) openDecision(
	sealedDecision string, id *person.Identity, sealedRequest string,
) (decision string, leftOut []string) {
	if sealedDecision == "" {
		return "", nil
	}
	var b binding
	if p.seal.Open(purposeDecision, sealedDecision, &b) != nil {
		return "", nil
	}
	leftOut = strings.Fields(b.Optional)
	if b != bind(id, sealedRequest, b.Decision, leftOut...) {
		return "", nil
	}
	return b.Decision, leftOut
}

// consentItem describes what a scope gives the client: the stored values of this user, from
// claimsOf.
func consentItem(l *templates.Language, name string, u account.User, client *Client) templates.ScopeItem {
	scope := scopes[slices.Index(Scopes, name)]
	item := templates.ScopeItem{Name: name}
	if len(scope.claims) == 0 {
		item.Sentence = l.Text(scope.asks)
		return item
	}
	claims := claimsOf(u, client, []string{name}, nil)
	value, there := "", claims[scope.claims[0]] != nil
	switch first := claims[scope.claims[0]].(type) {
	case string:
		value = first
	case []string:
		value, there = strings.Join(first, ", "), len(first) > 0
	}
	if !there {
		item.Sentence = l.Text(scope.nothing)
		return item
	}
	item.Sentence = l.Text(scope.asks, "value", value)
	if name == "profile" {
		item.Detail = profileDetail(l, scope.claims, claims)
	}
	return item
}

// emailState returns what a user's address lacks, "" for a verified one.
func emailState(u account.User) templates.NoEmail {
	switch {
	case u.EmailVerified:
		return ""
	case u.Email == "":
		return templates.EmailMissing
	}
	return templates.EmailUnverified
}

// profileClaims are the names of the claims that accompany the name.
var profileClaims = map[string]templates.Text{
	"family_name": "family name", "given_name": "given name", "middle_name": "middle name", "nickname": "nickname",
	"preferred_username": "user name ({handle})", "profile": "profile page", "picture": "picture", "website": "website",
	"gender": "gender", "birthdate": "birthday", "zoneinfo": "time zone", "locale": "language",
}

// profileDetail names the other stored claims of the profile.
func profileDetail(l *templates.Language, names []string, claims map[string]any) string {
	var also []string
	for _, claim := range names {
		if text := profileClaims[claim]; text != "" && claims[claim] != nil {
			also = append(also, l.Text(text, "handle", claims[claim]))
		}
	}
	return l.Text("Also your {claims}", "claims", strings.Join(also, ", "))
}

// consenting opens the continuation and finds the user who decides. Without a valid session it
// sends the browser back to authorize.
func (p *Provider) consenting(
	h func(http.ResponseWriter, *http.Request, *authorization, *person.Identity) error,
) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		sealed := r.URL.Query().Get("continue")
		if r.Method == http.MethodPost {
			if err := web.ReadForm(w, r, "scope"); err != nil {
				return err
			}
			sealed = r.PostForm.Get("continue")
		}
		req, err := p.openContinuation(sealed)
		if err == nil {
			err = p.typedHere(r, req)
		}
		if err == nil {
			err = p.proveWaiting(r.Context(), req)
		}
		if err != nil {
			return err
		}
		if req.stale && r.Method == http.MethodPost && r.PostForm.Get("decision") != decisionAllow {
			return &refusal{errAccessDenied, req, nil} // a refusal is one however late
		}
		if req.stale { // Allow belongs to the page that was shown
			req.sealed, req.arrived, req.late = "", p.now(), r.Method == http.MethodPost
			return p.redirectTo(w, r, req, authzState{}, repeat)
		}
		id, err := p.accounts.Current(r)
		if err == nil {
			err = p.accounts.CheckSecondFactor(r.Context(), id)
		}
		if errors.Is(err, account.ErrNotAuthenticated) || errors.Is(err, account.ErrSecondFactorRequired) ||
			errors.Is(err, account.ErrSecondFactorSetupRequired) {
			return p.redirectTo(w, r, req, authzState{}, repeat)
		}
		if err != nil {
			return err
		}
		return h(w, r, req, id)
	}
}

func (p *Provider) consentPage(
	w http.ResponseWriter, r *http.Request, req *authorization, id *person.Identity,
) error {
	a, _ := req.access() // checked by authorize
	scopes := a.agreed
	granted, err := p.consented(r.Context(), id.User.Sub, req.client)
	if err != nil {
		return err
	}
	device, err := p.deviceFacts(r.Context(), req)
	if err != nil {
		return err
	}
	refused, err := p.storage.RefusedScopes(r.Context(), id.User.Sub, req.client.ID)
	if err != nil {
		return err
	}
	page := templates.Consent{
		ClientName: req.client.Name, ClientID: req.client.ID, Logo: req.client.Logo.Hash, Handle: id.User.Handle,
		Continue: req.sealed, RedirectHost: redirectHost(req.redirectURI), Device: device,
	}
	if req.client.Document {
		page.DocumentHost, page.StaysHere = documentHost(req.client.ID), staysHere(req.redirectURI)
	}
	if slices.Contains(scopes, "email") {
		page.NoEmail, page.Mail = emailState(id.User), p.accounts.MailEnabled()
	}
	optional := intersect(scopes, req.client.OptionalScopes)
	refused = intersect(optional, refused)
	added := subtract(scopes, slices.Concat(granted, refused))
	if len(granted)+len(refused) > 0 && len(added) > 0 && !strings.Contains(req.form.Get("prompt"), "consent") {
		page.NewOnly, scopes, optional = true, added, intersect(added, optional)
	}
	switch {
	case req.late:
		page.Again = "This page was open for more than ten minutes. Check it once more."
	case len(granted) > 0 && len(added) == 0:
		page.Again = "You have allowed this before. Confirm that you want to continue."
	case len(granted) == 0:
		if page.Again, err = p.allowedBefore(r.Context(), id.User.Handle, req.client.ID); err != nil {
			return err
		}
	}
	b := bind(id, req.shown(), "", optional...)
	b.Asked = strings.Join(scopes, " ")
	if page.Token, err = p.seal.Seal(purposeForm, b); err != nil {
		return err
	}
	for _, s := range Scopes { // in this order, which begins with openid
		if slices.Contains(scopes, s) {
			item := consentItem(templates.LanguageOf(r.Context()), s, id.User, req.client)
			item.Optional, item.Refused = slices.Contains(optional, s), slices.Contains(refused, s)
			page.Scopes = append(page.Scopes, item)
		}
	}
	for _, entry := range intersect(a.told, scopes) {
		item := entryItem(templates.LanguageOf(r.Context()), entry, id.User, req.client)
		page.Scopes = append(page.Scopes, item)
	}
	for _, api := range req.apis {
		item := templates.APIItem{Name: api.Name, URI: api.URI}
		for _, s := range api.Scopes {
			if slices.Contains(scopes, s.Name) {
				item.Scopes = append(item.Scopes, templates.ScopeItem{
					Name: s.Name, Sentence: s.Sentence,
					Optional: slices.Contains(optional, s.Name), Refused: slices.Contains(refused, s.Name),
				})
			}
		}
		if len(item.Scopes) > 0 || slices.Contains(scopes, api.URI) {
			page.APIs = append(page.APIs, item)
		}
	}
	p.accounts.Show(w, r, http.StatusOK, page)
	return nil
}

// allowedBefore returns why the person is asked again for a client that has no consent now, "" if it never had one.
func (p *Provider) allowedBefore(ctx context.Context, handle, client string) (templates.Text, error) {
	rows, err := p.accounts.Store().AuditLog(ctx, account.AuditQuery{Person: handle, Kind: account.AllowApp.Action,
		Limit: 100})
	if slices.ContainsFunc(rows, func(a account.Audit) bool {
		return strings.HasPrefix(a.Detail+": ", client+": ")
	}) {
		return "You allowed this application before. Its access has ended since, or the application has changed.", nil
	}
	return "", err
}

// consentForm handles the user's decision. Consent is stored, and the sealed decision goes back
// to authorize, the only place that decides.
func (p *Provider) consentForm(
	w http.ResponseWriter, r *http.Request, req *authorization, id *person.Identity,
) error {
	var b binding
	err := p.seal.Open(purposeForm, r.PostForm.Get("token"), &b)
	asked := strings.Fields(b.Asked)
	b.Asked = ""
	if err != nil || b != bind(id, req.shown(), "", strings.Fields(b.Optional)...) {
		return web.NewProblem(http.StatusForbidden, "consent_form",
			"This form does not belong to your session. Go back to the application and start again.")
	}
	decision, leftOut := decisionDeny, []string(nil)
	if r.PostForm.Get("decision") == decisionAllow {
		decision = decisionAllow
		a, err := req.access()
		if err != nil { // an API was removed meanwhile
			return &refusal{errInvalidTarget, req, nil}
		}
		refused, err := p.storage.RefusedScopes(r.Context(), id.User.Sub, req.client.ID)
		if err == nil {
			err = p.keepDocument(r.Context(), req.client)
		}
		if err != nil {
			return err
		}
		// Refused scopes that the form did not show stay refused. A scope in the form counts only
		// if it was shown as optional.
		shown := strings.Fields(b.Optional)
		stillRefused := subtract(intersect(refused, intersect(a.agreed, req.client.OptionalScopes)), shown)
		if unseen := subtract(a.agreed, slices.Concat(asked, stillRefused)); len(unseen) > 0 {
			granted, err := p.consented(r.Context(), id.User.Sub, req.client)
			if err != nil {
				return err
			}
			// The page did not show it: the registration has changed, or the access was ended.
			if len(subtract(unseen, granted)) > 0 {
				return p.redirectTo(w, r, req, authzState{}, repeat)
			}
		}
		leftOut = slices.Concat(subtract(shown, r.PostForm["scope"]), stillRefused)
		q := authzState{client: req.client, access: a, apis: req.apis}
		q.without(leftOut)
		agreed := q.agreed
		allowed := req.client.ID
		if len(agreed) > 0 {
			allowed += ": " + strings.Join(agreed, " ")
		}
		by := p.accounts.CallerIn(r, id)
		if err := p.accounts.CountAct(r.Context(), by, account.AllowApp); err != nil {
			return err
		}
		row := by.Audit(p.now(), account.AllowApp, id.User.Handle, allowed)
		err = p.storage.SaveConsent(r.Context(), id.User.Sub, req.client.ID, agreed, p.now(), row, leftOut...)
		if err == nil {
			err = p.keepDocument(r.Context(), req.client) // another description may have come in between
		}
		if err != nil {
			return err
		}
	}
	web.Note(r.Context(), "consent_"+decision)
	sealed, err := p.seal.Seal(purposeDecision, bind(id, req.sealed, decision, leftOut...))
	if err != nil {
		return err
	}
	next := url.Values{"continue": {req.sealed}, "decision": {sealed}}
	return p.accounts.Redirect(w, r, "/oauth2/authorize?"+next.Encode())
}

// consented returns the scopes that a user has granted the client. If the client's document now
// has other redirect URIs than at the consent, there are none.
func (rs *rules) consented(ctx context.Context, sub string, c *Client) ([]string, error) {
	if c.Document {
		kept, err := rs.storage.Client(ctx, c.ID)
		if errors.Is(err, ErrClientNotFound) || err == nil && !slices.Equal(kept.RedirectURIs, c.RedirectURIs) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return rs.storage.ConsentedScopes(ctx, sub, c.ID)
}

// redirectHost returns where the answer goes, for the consent page.
func redirectHost(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || raw == "" { // a device has no redirect URI
		return ""
	}
	// The program that owns another scheme gets the answer, whatever the host says.
	if u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return u.Scheme + ":"
	}
	return u.Host
}
