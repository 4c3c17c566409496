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
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pquerna/otp/totp"
	"golang.org/x/net/html"
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

// CookieOf is the value of a cookie that a client with a jar sends to an address; empty: none.
func CookieOf(client *http.Client, address, name string) string {
	u, err := url.Parse(address)
	if err == nil {
		for _, c := range client.Jar.Cookies(u) {
			if c.Name == name {
				return c.Value
			}
		}
	}
	return ""
}

// JSON returns the content type and the text of a body; of nil there is none, and a text is sent as it is.
func JSON(body any) (contentType, text string) {
	switch body := body.(type) {
	case nil:
		return "", ""
	case string:
		return JSONType, body
	}
	b, _ := json.Marshal(body)
	return JSONType, string(b)
}

// Answer is a response, read; Status 0: there was none, and Err says why.
type Answer struct {
	Status   int
	Header   http.Header
	Body     string
	Err      error
	Response *http.Response // its Body is closed
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
		r.Header.Add(header[i], header[i+1])
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
	return Answer{Status: got.StatusCode, Header: got.Header, Body: string(b), Response: got}
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

// Find returns the first element of a page for which is holds; nil: there is none.
func Find(page string, is func(*html.Node) bool) *html.Node {
	doc, _ := html.Parse(strings.NewReader(page)) // it fails only with its reader
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && is(n) {
			return n
		}
	}
	return nil
}

// ByID is Find by an id.
func ByID(page, id string) *html.Node {
	return Find(page, func(n *html.Node) bool { return Attributes(n)["id"] == id })
}

// Name is the name of a page of the service, the data-page of its body.
func Name(page string) string {
	return Attributes(Find(page, func(n *html.Node) bool { return n.Data == "body" }))["data-page"]
}

// Attributes are those of an element.
func Attributes(n *html.Node) map[string]string {
	all := map[string]string{}
	for _, a := range n.Attr {
		all[a.Key] = a.Val
	}
	return all
}

// Form is a form of a page, as a browser sends it untouched.
type Form struct {
	Action, Kind   string     // Kind is its enctype
	Values, Hidden url.Values // Values has Hidden too
	Unticked       url.Values // its boxes that are not ticked
	Names          []string   // of Values, in the order of the page
}

// FormOf reads the form that a page posts to a path, or the first that has a method where that is empty; nil: there is
// none.
func FormOf(page, path string) *Form {
	n := Find(page, func(n *html.Node) bool {
		form := Attributes(n)
		action, _, _ := strings.Cut(form["action"], "#")
		action, _, _ = strings.Cut(action, "?as=")
		return n.Data == "form" && form["method"] != "" &&
			(path == "" || action == path && strings.EqualFold(form["method"], "post"))
	})
	if n == nil {
		return nil
	}
	of := Attributes(n)
	f := &Form{Action: of["action"], Kind: of["enctype"],
		Values: url.Values{}, Hidden: url.Values{}, Unticked: url.Values{}}
	for n := range n.Descendants() {
		in := Attributes(n)
		name, value := in["name"], in["value"]
		_, ticked := in["checked"]
		switch {
		case n.Data != "input" || name == "":
			continue
		case in["type"] == "checkbox" && !ticked:
			f.Unticked.Add(name, value)
			continue
		case in["type"] == "hidden":
			f.Hidden.Add(name, value)
		}
		if !f.Values.Has(name) {
			f.Names = append(f.Names, name)
		}
		f.Values.Add(name, value)
	}
	return f
}

// Follow plays a person from an answer on, over so many pages and redirects at the issuer: it posts the forms
// that fill fills in, as long as that is true, and goes back to an application that the person may not use. It asks for
// a path, or posts a form that is not nil. ended is false where nothing else came.
func Follow(
	a Answer, pages int, issuer string, fill func(page string, f *Form) bool,
	ask func(path string, form url.Values) Answer,
) (last Answer, ended bool) {
	for range pages {
		to, form := a.Header.Get("Location"), url.Values(nil)
		switch f, back := FormOf(a.Body, ""), ByID(a.Body, "access-denied-back"); {
		case a.Status == http.StatusSeeOther && (strings.HasPrefix(to, "/") || strings.HasPrefix(to, issuer+"/")):
		case a.Status == http.StatusForbidden && back != nil:
			to = Attributes(back)["href"]
		case a.Status == http.StatusOK && f != nil && fill(Name(a.Body), f):
			to, form = f.Action, f.Values
		default:
			return a, true
		}
		a = ask(to, form)
	}
	return a, false
}

// TOTP is a code of an authenticator app (RFC 6238).
func TOTP(secret string, at time.Time) string {
	code, _ := totp.GenerateCode(secret, at)
	return code
}
