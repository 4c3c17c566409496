package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/ory/fosite"

	"github.com/cairn-id/cairn/internal/nearest"
)

// explainClient says whose request it is. A wrong id or redirect URI is most
// often a slip, so the nearest registered one is named.
func (e *explaining) explainClient(ctx context.Context) error {
	id := e.req.form.Get("client_id")
	client, err := e.client(ctx, id)
	if err != nil {
		return err
	}
	if client == nil {
		clients, err := e.by.Clients.Clients(ctx)
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
		}
		if best, near := nearest.Name(clip(id), ids); near {
			text += " The nearest is " + best + "."
		}
		e.wrong("client_id", text)
		return nil
	}
	kind := "confidential"
	if client.IsPublic() {
		kind = "public"
	}
	e.good("client_id", fmt.Sprintf("%s (%s), %s", client.ID, client.Name, kind))
	e.req.client = client
	uri := e.req.form.Get("redirect_uri")
	switch {
	case uri == "":
		e.wrong("redirect_uri", "It is missing. Registered: "+strings.Join(client.RedirectURIs, " "))
	case client.matchRedirect(uri):
		e.good("redirect_uri", uri+" is registered")
	default:
		e.wrong("redirect_uri", whereTheyDiffer(uri, client.RedirectURIs))
	}
	return nil
}

// client is nil when there is none with this id.
func (e *explaining) client(ctx context.Context, id string) (*Client, error) {
	found, err := e.provider.clients.GetClient(ctx, id)
	if errors.Is(err, fosite.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find client: %w", err)
	}
	client, ok := found.(*Client)
	if !ok {
		return nil, errors.New("the store returned a client of another type")
	}
	return client, nil
}

// whereTheyDiffer names the registered URI that is nearest, and the place.
func whereTheyDiffer(uri string, registered []string) string {
	near, _ := nearest.Name(clip(uri), registered)
	if near == "" {
		return "The client has no redirect URI."
	}
	at := 0
	for at < len(uri) && at < len(near) && uri[at] == near[at] {
		at++
	}
	return fmt.Sprintf("%q is not registered. The nearest that is, %s, differs at character %d: it has %s, the request %s.", clip(uri), near, at+1, piece(near, at), piece(uri, at))
}

// piece is the place where two texts part, with a little of what follows.
func piece(s string, at int) string {
	if at >= len(s) {
		return "its end there"
	}
	return fmt.Sprintf("%q", s[at:min(len(s), at+12)])
}

// clip keeps what was pasted from filling the screen.
func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "..."
	}
	return s
}

// explainParameters looks at each parameter alone. The verdict on one comes
// from checkRequest, given a request in which everything else is right.
func (e *explaining) explainParameters() {
	f := e.req.form
	if d := e.req.duplicate; d != "" {
		e.wrong(d, "It is given more than once (RFC 6749 section 3.1).")
	}
	if e.req.client == nil {
		return
	}
	wrongType := fmt.Sprintf("%q: only code is supported.", clip(f.Get("response_type")))
	if f.Get("response_type") == "" {
		wrongType = "It is missing: only code is supported."
	}
	e.judge("response_type", "code", wrongType, "response_type")
	if mode := f.Get("response_mode"); mode != "" {
		e.judge("response_mode", mode, fmt.Sprintf("%q: only query and form_post are supported, and with form_post a state of plain text.", clip(mode)), "response_mode", "state")
	}
	e.explainScopes()
	e.explainPKCE()
	e.explainPrompt(f.Get("prompt"))
	if age := f.Get("max_age"); age != "" {
		e.judge("max_age", age+" seconds", fmt.Sprintf("%q: it is a whole number of seconds.", clip(age)), "max_age")
	}
	if f.Get("claims") != "" {
		e.judge("claims", "it can be read", "It is not a claims request (OpenID Connect Core section 5.5).", "claims", "scope")
	}
	for _, name := range []string{"request", "request_uri", "registration"} {
		if f.Has(name) {
			e.judge(name, "supported", "It is not supported: put the parameters into the address, or push them (RFC 9126).", name)
		}
	}
	e.explainTexts()
}

func (e *explaining) explainPrompt(raw string) {
	prompts, known := parsePrompts(raw)
	_, problem := decide(question{client: e.req.client, prompts: prompts})
	switch {
	case raw == "":
	case known && problem != nil && problem.ErrorField == fosite.ErrInvalidRequest.ErrorField:
		e.wrong("prompt", "none stands alone (OpenID Connect Core section 3.1.2.1).")
	default:
		wrong := fmt.Sprintf("%q: the values are %s, separated by spaces.", clip(raw), strings.Join(knownPrompts, ", "))
		e.judge("prompt", strings.Join(prompts, " "), wrong, "prompt")
	}
}

// explainTexts is about what is carried along and judged by the application.
func (e *explaining) explainTexts() {
	f := e.req.form
	switch state := f.Get("state"); {
	case state == "" && f.Get("code_challenge") == "":
		e.note("state", "It is missing, and so is PKCE: the application cannot tell its own answers from forged ones.")
	case state == "":
		e.note("state", "It is missing, which is accepted.")
	}
	if f.Get("nonce") == "" && slices.Contains(strings.Fields(f.Get("scope")), "openid") {
		e.note("nonce", "It is missing, which is accepted: the ID token will have none.")
	}
	if hint := f.Get("id_token_hint"); hint != "" {
		switch _, err := e.provider.idTokens.hintSubject(hint, e.req.client.ID); {
		case err == nil:
			e.good("id_token_hint", "an ID token of this service for this client")
		case len(e.by.Keys) == 0:
			e.wrong("id_token_hint", "It cannot be verified without the keys: give --private-key-file and --additional-key-file as for cairn serve.")
		default:
			e.wrong("id_token_hint", "It is not an ID token of this service for this client, signed by a key that is published.")
		}
	}
	if v := f.Get("acr_values"); v != "" {
		e.note("acr_values", fmt.Sprintf("It is accepted; the ID token will have acr %q, the only class there is.", acrPassword))
	}
	for _, name := range unknownParameters(f) {
		e.note(name, "It is not known here and is ignored.")
	}
}

// ignoredParameters are known to OpenID Connect and change nothing.
var ignoredParameters = []string{"state", "client_id", "display", "ui_locales", "claims_locales", "request", "request_uri", "registration"}

func unknownParameters(f url.Values) []string {
	var out []string
	for name := range f {
		if !slices.Contains(pushedParameters, name) && !slices.Contains(ignoredParameters, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// judge puts the named parameters of the request into one that is right in
// everything else and notes what checkRequest says.
func (e *explaining) judge(name, good, wrong string, with ...string) {
	if e.passes(with...) {
		e.good(name, good)
	} else {
		e.wrong(name, wrong)
	}
}

func (e *explaining) passes(with ...string) bool {
	c := e.req.client
	form := url.Values{"client_id": {c.ID}, "response_type": {"code"}, "scope": {"openid"}}
	if !slices.Contains(with, "code_challenge") {
		form.Set("code_challenge", strings.Repeat("A", 43))
		form.Set("code_challenge_method", "S256")
	}
	for _, name := range with {
		form.Del(name)
		if v, ok := e.req.form[name]; ok {
			form[name] = v[:1] // repetition is a fault of its own
		}
	}
	_, problem := e.provider.checkRequest(&authorization{form: form, client: c, arrived: e.req.arrived})
	return problem == nil
}

func (e *explaining) explainScopes() {
	c, asked := e.req.client, strings.Fields(e.req.form.Get("scope"))
	granted := knownScopes(asked, c)
	if len(granted) > 0 {
		text := strings.Join(granted, " ") + " can be granted"
		if slices.Contains(granted, "offline_access") {
			text += "; offline_access gives a refresh token"
		}
		e.good("scope", text)
	}
	if slices.Contains(granted, "groups") {
		text := "groups names the flags of the user but admin."
		if len(c.Groups) > 0 {
			text = "groups names those of the user's flags that the client is registered for (--group): " + strings.Join(c.Groups, " ")
		}
		e.note("scope", text)
	}
	for _, s := range asked {
		switch {
		case slices.Contains(granted, s):
		case slices.Contains(Scopes, s):
			e.note("scope", fmt.Sprintf("%s is ignored: the client is not registered for it.", s))
		default:
			e.note("scope", fmt.Sprintf("%q is ignored: there is no such scope.", clip(s)))
		}
	}
	if !slices.Contains(granted, "openid") {
		e.note("scope", "Without openid this is plain OAuth 2.0: there is no ID token, and userinfo refuses the access token.")
	}
}

func (e *explaining) explainPKCE() {
	f, c := e.req.form, e.req.client
	challenge, method := f.Get("code_challenge"), f.Get("code_challenge_method")
	if e.passes("code_challenge", "code_challenge_method") {
		switch {
		case challenge != "":
			e.good("code_challenge", "S256")
		default:
			e.note("code_challenge", "It is missing. This client may leave it out; with it a stolen code is worth nothing.")
		}
		return
	}
	switch {
	case challenge == "" && c.IsPublic():
		e.wrong("code_challenge", "It is missing, and a public client has to send one (RFC 7636).")
	case challenge == "" && c.NeedsPKCE():
		e.wrong("code_challenge", "It is missing, and the client is registered with --require-pkce.")
	case challenge == "":
		e.wrong("code_challenge", "There is a code_challenge_method and no code_challenge.")
	case method != "S256":
		e.wrong("code_challenge_method", fmt.Sprintf("%q: only S256 is supported, and it has to be named.", clip(method)))
	default:
		e.wrong("code_challenge", fmt.Sprintf("It has %d characters. S256 gives 43 of A-Z, a-z, 0-9, - and _: the SHA-256 of the verifier in base64url without =.", len(challenge)))
	}
}
