// Package browser plays those who use the service from outside, for tests and measurements: a person's browser and an
// application, over any transport. It fails no test and judges nothing; an answer says what came back.
package browser

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pquerna/otp/totp"
)

// SessionCookie is the name of the cookie of a session.
const SessionCookie = "cairn_session"

// Content types of what is sent.
const (
	FormType = "application/x-www-form-urlencoded"
	JSONType = "application/json"
)

// NewClient returns a client with connections of its own that follows no redirects and gives up after a while.
func NewClient(patience time.Duration, transport *http.Transport) *http.Client {
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	}
	return &http.Client{
		Transport: transport, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Answer is a response, read; Status 0: there was none, and Err says why.
type Answer struct {
	Status int
	Header http.Header
	Body   string
	Err    error
}

// Request is one of a method to an absolute address; header are names and values. A form has the origin of host, as a
// browser sends it from a page of the service; host is the issuer's, empty: that of the address.
func Request(
	ctx context.Context, method, address, host, contentType, body string, header ...string,
) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if host != "" {
		r.Host = host
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if contentType == FormType {
		r.Header.Set("Origin", r.URL.Scheme+"://"+r.Host)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r, nil
}

// Send sends a request and reads the answer.
func Send(client *http.Client, r *http.Request) Answer {
	got, err := client.Do(r)
	if err != nil {
		return Answer{Err: err}
	}
	defer func() { _ = got.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(got.Body, 16<<20))
	if err != nil {
		return Answer{Err: err}
	}
	return Answer{Status: got.StatusCode, Header: got.Header, Body: string(b)}
}

// Unknown reports whether the request may have been carried out or not.
func (a Answer) Unknown() bool { return a.Status == 0 || a.Status >= 500 }

// JSON is the body, nil where it is no object.
func (a Answer) JSON() (v map[string]any) {
	_ = json.Unmarshal([]byte(a.Body), &v)
	return v
}

// Str is a text of the body, an object.
func (a Answer) Str(name string) string { s, _ := a.JSON()[name].(string); return s }

// Given is Str of a successful answer: a problem has members of the same names.
func (a Answer) Given(name string) string {
	if a.Status >= 300 {
		return ""
	}
	return a.Str(name)
}

// Location is where the answer leads to.
func (a Answer) Location() *url.URL {
	u, err := url.Parse(a.Header.Get("Location"))
	if err != nil {
		return &url.URL{}
	}
	return u
}

// Code is the authorization code of a redirect; empty: it has none.
func (a Answer) Code() string { return a.Location().Query().Get("code") }

// Cookies are those that the answer sets, without those that it removes, as a browser sends them: "a=b; c=d".
func (a Answer) Cookies(but ...string) string {
	var all []string
	for _, line := range a.Header.Values("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		if err == nil && c.Value != "" && c.MaxAge >= 0 && (len(but) == 0 || c.Name != but[0]) {
			all = append(all, c.Name+"="+c.Value)
		}
	}
	return strings.Join(all, "; ")
}

// Cookie is the value of one of Cookies.
func (a Answer) Cookie(name string) string {
	for c := range strings.SplitSeq(a.Cookies(), "; ") {
		if value, ok := strings.CutPrefix(c, name+"="); ok {
			return value
		}
	}
	return ""
}

// App is an application: a client of the provider. Its verifier is that of each of its requests (RFC 7636).
type App struct{ ID, Secret, Callback string }

const (
	verifier  = "verifier-0123456789-0123456789-0123456789-01"
	challenge = "2KfT10pRvbEHCad_kfvn6HmTv0fwF8aU0HX0lYc3ywY"
)

// Authorization is the query of a request for a code; more are names and values.
func (p App) Authorization(scope string, more ...string) url.Values {
	q := url.Values{
		"response_type": {"code"}, "client_id": {p.ID}, "scope": {scope}, "state": {"state-0123456789"},
		"redirect_uri": {p.Callback}, "code_challenge_method": {"S256"}, "code_challenge": {challenge},
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return q
}

// Authorize is the path of a request for a code.
func (p App) Authorize(scope string, more ...string) string {
	return "/oauth2/authorize?" + p.Authorization(scope, more...).Encode()
}

// Form adds the credentials to a form, as client_secret_post (RFC 6749 section 2.3.1).
func (p App) Form(form url.Values) url.Values {
	form.Set("client_id", p.ID)
	if p.Secret != "" {
		form.Set("client_secret", p.Secret)
	}
	return form
}

// Exchange is the form that exchanges a code.
func (p App) Exchange(code string) url.Values {
	return url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {p.Callback}, "code_verifier": {verifier},
	}
}

// Refresh is the form that rotates a refresh token.
func (p App) Refresh(token string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
}

// Claims are those of a session or access token, not verified, and the bits of a Status List Token
// (draft-ietf-oauth-status-list).
type Claims struct {
	Sid    string `json:"sid"`
	Status struct {
		List struct {
			Index int    `json:"idx"`
			URI   string `json:"uri"`
		} `json:"status_list"`
	} `json:"status"`
	List struct {
		Data string `json:"lst"`
	} `json:"status_list"`
}

// ClaimsOf reads the claims of a JWT; of anything else there are none.
func ClaimsOf(token string) (c Claims) {
	_ = Part(token, 1, &c)
	return c
}

// Part decodes the header of a JWT, 0, or its payload, 1, not verified.
func Part(token string, i int, into any) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return fmt.Errorf("not a JWT: %d parts", len(parts))
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[i])
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// Bits are those of a Status List Token (draft-ietf-oauth-status-list section 5.1).
func Bits(token string) ([]byte, error) {
	packed, err := base64.RawURLEncoding.DecodeString(ClaimsOf(token).List.Data)
	if err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// Bit is the status of an index in a Status List Token; 1: revoked.
func Bit(token string, index int) (int, error) {
	list, err := Bits(token)
	if err != nil || index/8 >= len(list) {
		return 0, errors.Join(err, errors.New("no such index"))
	}
	return int(list[index/8]>>(index%8)) & 1, nil
}

var (
	tick     = regexp.MustCompile(`<input type="checkbox" id="scope-[^"]*" name="scope" value="([^"]*)"`)
	hidden   = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)
	formHead = regexp.MustCompile(`<form method="post" action="([^"]*)" id="consent"`)
)

// Hidden are the hidden fields of a page.
func Hidden(page string) url.Values {
	form := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(page, -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	return form
}

// Allow is the form of the question of an application, allowed but for some optional scopes; nil: the page does not
// ask.
func Allow(page string, leaveOut []string) url.Values {
	if !formHead.MatchString(page) {
		return nil
	}
	form := Hidden(page)
	form.Set("decision", "allow")
	for _, scope := range tick.FindAllStringSubmatch(page, -1) {
		if !slices.Contains(leaveOut, scope[1]) {
			form.Add("scope", scope[1])
		}
	}
	return form
}

// Decide answers the question of an application, to which an answer leads, and follows where that leads at the issuer,
// to a code or a page. It asks for a path with the cookies that were set on the way, "; a=b", and posts a form that is
// not nil.
func Decide(
	a Answer, issuer string, leaveOut []string, ask func(path, cookies string, form url.Values) Answer,
) Answer {
	cookies := ""
	follow := func() {
		for range 4 {
			if more := a.Cookies(SessionCookie); more != "" {
				cookies += "; " + more
			}
			to := a.Location()
			if a.Status != http.StatusSeeOther || a.Code() != "" ||
				to.Host != "" && !strings.HasPrefix(to.String(), issuer) {
				return
			}
			a = ask(to.RequestURI(), cookies, nil)
		}
	}
	follow()
	if form := Allow(a.Body, leaveOut); form != nil {
		a = ask("/oauth2/consent", cookies, form)
		follow()
	}
	return a
}

// TOTP is a code of an authenticator app (RFC 6238).
func TOTP(secret string, at time.Time) string {
	code, _ := totp.GenerateCode(secret, at)
	return code
}
