package provider

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// The device grant (RFC 8628). A device without a browser shows a code, and its user enters the
// code on the page /device in a browser. From there the request is handled as any authorization
// request, except that consent is always asked for. The device code is the code of the resulting
// grant and is exchanged like any other.

const (
	// deviceLifetime is how long a device waits for its user.
	deviceLifetime = 10 * time.Minute
	// DeviceInterval is how long it waits between two polls.
	DeviceInterval = 5 * time.Second

	deviceAuthorizationPath = "/oauth2/device_authorization"
	grantTypeDevice         = "urn:ietf:params:oauth:grant-type:device_code"

	// userCodeLetters has no vowels, so that no code is a word. Codes of userCodeLength letters
	// number 2.6e10 (RFC 8628 section 6.1).
	userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"
	userCodeLength  = 8
)

// DeviceRequest is a device's request. Only hashes of its codes are stored.
type DeviceRequest struct {
	CodeSignature string // of the device code
	UserHash      []byte // of the user code
	ClientID      string
	Query         string // the equivalent authorization request
	Address       string // of the device
	CreatedAt     time.Time
	ExpiresAt     time.Time
}

// Errors of DeviceStore.PollDevice (RFC 8628 section 3.5).
var (
	ErrDevicePending = storageRefusal("the user has not decided yet")
	ErrDeviceTooSoon = storageRefusal("polled too soon")
	ErrDeviceDenied  = storageRefusal("the user has denied it")
	ErrDeviceExpired = storageRefusal("the device's request has expired")
)

// DeviceStore stores the requests of devices.
type DeviceStore interface {
	CreateDevice(ctx context.Context, d *DeviceRequest) error
	// DeviceOfUser finds a request that waits for its user, or returns ErrNotFound.
	DeviceOfUser(ctx context.Context, userHash []byte, now time.Time) (*DeviceRequest, error)
	// AllowDevice stores the user's grant, once; DenyDevice stores the refusal. Both return
	// ErrNotFound if the request no longer waits. AllowDevice returns account.ErrSessionNotFound
	// as CreateGrant does.
	AllowDevice(ctx context.Context, userHash []byte, g *Grant, now time.Time) error
	DenyDevice(ctx context.Context, userHash []byte, now time.Time) error
	// PollDevice returns nil if the user has allowed the request, on repeated polls too: SpendCode
	// issues the tokens once. Otherwise it returns one of the errors above or ErrNotFound.
	PollDevice(ctx context.Context, codeSignature, clientID string, now time.Time) error
}

// deviceAuthorization is the device authorization endpoint (RFC 8628 section 3.1).
func (p *Provider) deviceAuthorization(w http.ResponseWriter, r *http.Request, c *Client) error {
	if !c.DeviceGrant {
		return errUnauthorizedClient
	}
	form := equivalentRequest(c.ID, r.PostForm)
	req := &authorization{form: form, client: c, device: []byte{0}}
	var err error
	if req.apis, err = p.apisOf(r.Context(), c); err != nil {
		return err
	}
	if len(form.Encode()) > maxQuery {
		return errInvalidRequest.because(tooLarge, "The request is too long.")
	}
	q, faults := checkRequest(req)
	if len(faults) > 0 {
		return faults[0].err
	}
	if err := p.canSign(req, q.access); err != nil {
		return err
	}
	code, signature, err := p.tokens.GenerateAuthorizeCode(r.Context(), nil)
	if err != nil {
		return fmt.Errorf("make device code: %w", err)
	}
	user, now := newUserCode(), p.now()
	err = p.storage.CreateDevice(r.Context(), &DeviceRequest{
		CodeSignature: signature, UserHash: account.HashSecret(user), ClientID: c.ID, Query: form.Encode(),
		Address: web.ClientAddress(r), CreatedAt: now, ExpiresAt: now.Add(deviceLifetime),
	})
	if err != nil {
		return err
	}
	web.Note(r.Context(), "device_authorization")
	shown, page := shownUserCode(user), p.issuer+"/device"
	p.writeOAuth(w, r, http.StatusOK, map[string]any{
		"device_code": code, "user_code": shown, "verification_uri": page,
		"verification_uri_complete": page + "?" + url.Values{"user_code": {shown}}.Encode(),
		"expires_in":                int(deviceLifetime / time.Second), "interval": int(DeviceInterval / time.Second),
	})
	return nil
}

var deviceParameters = []string{"scope", "resource", "acr_values"}

// equivalentRequest returns the authorization request that is equivalent to a device's request.
func equivalentRequest(clientID string, given url.Values) url.Values {
	form := url.Values{"client_id": {clientID}, "response_type": {"code"}, "prompt": {"consent"}}
	for _, name := range deviceParameters {
		if len(given[name]) > 0 {
			form[name] = given[name]
		}
	}
	return form
}

// newUserCode returns a code chosen uniformly.
func newUserCode() string {
	var code []byte
	for len(code) < userCodeLength {
		var b [1]byte
		_, _ = rand.Read(b[:]) // never fails
		if n := int(b[0]); n < 256/len(userCodeLetters)*len(userCodeLetters) {
			code = append(code, userCodeLetters[n%len(userCodeLetters)])
		}
	}
	return string(code)
}

// canonicalUserCode returns the generated form of a typed code, or "" if it is not a code.
func canonicalUserCode(typed string) string {
	code := strings.Map(func(r rune) rune {
		if strings.ContainsRune(userCodeLetters, r) {
			return r
		}
		return -1
	}, strings.ToUpper(typed))
	if len(code) != userCodeLength {
		return ""
	}
	return code
}

// shownUserCode returns a code in two groups, or "" for "".
func shownUserCode(code string) string {
	if code == "" {
		return ""
	}
	return code[:userCodeLength/2] + "-" + code[userCodeLength/2:]
}

func (p *Provider) devicePage(w http.ResponseWriter, r *http.Request) error {
	code := canonicalUserCode(r.URL.Query().Get("user_code"))
	_, _ = p.accounts.Current(r) // sets the language of a member
	p.accounts.Show(w, r, http.StatusOK, templates.Device{Code: shownUserCode(code)})
	return nil
}

var errNoSuchDevice = web.NewProblem(http.StatusNotFound, "device_code",
	"No device is waiting with this code. Check your device: a code works once, within ten minutes.")

// deviceError returns the error for the user whose device no longer waits.
func deviceError(err error) error {
	if errors.Is(err, ErrNotFound) {
		return errNoSuchDevice
	}
	return err
}

// deviceForm finds the request of the typed code and continues as with every authorization
// request. Wrong codes count against the rate limit.
func (p *Provider) deviceForm(w http.ResponseWriter, r *http.Request) error {
	_, _ = p.accounts.Current(r) // sets the language of a member
	err := web.ReadForm(w, r)
	var d *DeviceRequest
	typed := r.PostForm.Get("user_code")
	if err == nil {
		guess := []web.LimitKey{{Name: web.LimitDevice, Key: web.ClientAddress(r)}}
		err = p.limits.Guess(r.Context(), guess, errNoSuchDevice, func() (err error) {
			code := canonicalUserCode(typed)
			if code == "" {
				return errNoSuchDevice
			}
			d, err = p.storage.DeviceOfUser(r.Context(), account.HashSecret(code), p.now())
			return deviceError(err)
		})
	}
	if err != nil {
		return p.refuseCode(w, r, typed, err)
	}
	form, err := url.ParseQuery(d.Query)
	if err != nil {
		return fmt.Errorf("read request of device: %w", err)
	}
	http.SetCookie(w, p.accounts.HostCookie(userCodeCookie, canonicalUserCode(typed), deviceLifetime))
	req := &authorization{form: form, arrived: p.now(), device: d.UserHash}
	return p.redirectTo(w, r, req, authzState{}, repeat)
}

// refuseCode shows the form again.
func (p *Provider) refuseCode(w http.ResponseWriter, r *http.Request, typed string, err error) error {
	refusal, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	page := templates.Device{Code: typed, Error: refusal.Detail, ErrorCode: refusal.Code}
	p.accounts.Show(w, r, refusal.Status, page)
	return nil
}

// userCodeCookie has the code that was typed in a browser.
const userCodeCookie = "cairn_user_code"

var errTypedElsewhere = web.NewProblem(http.StatusForbidden, "device_browser",
	"This page is for a browser in which a device’s code was entered. This is a different browser, or it was too "+
		"long ago. Enter the code that your device shows.")

// typedHere checks that the code of a device's request was typed in this browser. Otherwise somebody
// could type the code of their own device and send the address of the next page to another person,
// who would allow it without having seen a code. The consent page shows the code.
func (p *Provider) typedHere(r *http.Request, req *authorization) error {
	if !req.forDevice() {
		return nil
	}
	for _, c := range r.CookiesNamed(p.accounts.HostCookie(userCodeCookie, "", 0).Name) {
		if bytes.Equal(account.HashSecret(c.Value), req.device) {
			req.userCode = c.Value
			return nil
		}
	}
	return errTypedElsewhere
}

// denyDevice stores the refusal for the device.
func (p *Provider) denyDevice(ctx context.Context, req *authorization) error {
	return deviceError(p.storage.DenyDevice(ctx, req.device, p.now()))
}

// allowDevice stores the grant for the device, in place of a code.
func (p *Provider) allowDevice(ctx context.Context, req *authorization, g *Grant) error {
	d, err := p.storage.DeviceOfUser(ctx, req.device, p.now())
	if err != nil {
		return deviceError(err)
	}
	if g.ID, err = newGrantID(); err != nil {
		return err
	}
	g.CodeSignature, g.CodeExpires, g.CreatedAt = d.CodeSignature, d.ExpiresAt, p.now()
	g.CodeChallenge = challengeOf(p.deviceVerifier(d.CodeSignature))
	return deviceError(p.storage.AllowDevice(ctx, req.device, g, p.now()))
}

// pollDevice handles the device access token request (RFC 8628 section 3.4).
func (p *Provider) pollDevice(r *http.Request, x *exchange) (map[string]any, error) {
	signature := p.tokens.signature(r.Context(), r.PostForm.Get("device_code"))
	if !x.client.DeviceGrant {
		return nil, errUnauthorizedClient
	}
	switch err := p.storage.PollDevice(r.Context(), signature, x.client.ID, p.now()); {
	case errors.Is(err, ErrNotFound):
		return nil, errInvalidGrant.about(codeUnknown, "device_code", "It is unknown, or of another client.")
	case errors.Is(err, ErrDevicePending):
		return nil, errAuthorizationPending
	case errors.Is(err, ErrDeviceTooSoon):
		return nil, errPolledTooSoon
	case errors.Is(err, ErrDeviceDenied):
		return nil, errAccessDenied.because(denied, "The user has denied the request, or may not use this client.")
	case errors.Is(err, ErrDeviceExpired):
		return nil, errExpiredToken
	case err != nil:
		return nil, err
	}
	x.polled = true
	exchange := *r
	exchange.PostForm = url.Values{
		"grant_type": {"authorization_code"}, "code": {r.PostForm.Get("device_code")},
		"code_verifier": {p.deviceVerifier(signature)}, "resource": r.PostForm["resource"],
	}
	exchange.Form = exchange.PostForm
	return p.exchange(&exchange, x)
}

// deviceVerifier returns the PKCE verifier of a device code. Only this service knows it, so only
// pollDevice can exchange the code.
func (p *Provider) deviceVerifier(signature string) string {
	return base64.RawURLEncoding.EncodeToString(p.tokens.mac([]byte("device code " + signature)))
}

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// forDevice reports whether a device made the request. It polls for the answer instead of a
// redirect.
func (req *authorization) forDevice() bool { return len(req.device) > 0 }

// deviceFacts returns what the consent page shows of the request: its code, when and from where it was
// made.
func (p *Provider) deviceFacts(ctx context.Context, req *authorization) (*templates.DeviceFacts, error) {
	if !req.forDevice() {
		return nil, nil
	}
	d, err := p.storage.DeviceOfUser(ctx, req.device, p.now())
	if err != nil {
		return nil, deviceError(err)
	}
	return &templates.DeviceFacts{Code: shownUserCode(req.userCode), Address: d.Address, StartedAt: d.CreatedAt}, nil
}
