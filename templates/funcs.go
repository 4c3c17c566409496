package templates

import (
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strings"
)

// funcs returns the functions of the templates that do not depend on the language.
func (r *Renderer) funcs() template.FuncMap {
	return template.FuncMap{
		"at":           func(path string) string { return r.base + path },
		"below":        r.below,
		"withcontinue": r.withContinue,
		"signin":       r.signIn,
		"userpath":     r.userPath,
		"local":        localOrNothing,
		"sealed":       sealedOrNothing,
		"target":       redirectTarget,
		"link":         linkOrNothing,
		"otpauth":      otpauthOrNothing,
		"plain":        func(target string) bool { return r.https && isPlainHTTP(target) },
		"static":       r.staticPath,
		"programsize":  r.program.Size,
		"describedby":  describedBy,
		"numberfield":  newNumberField,
		"invalid":      isInvalid,
		"fielderror":   func(f form, field string) string { message, _ := f.fault(field); return message },
		"has":          slices.Contains[[]string],
		"contact":      contact,
		"address":      shownAddress,
		"qr":           newQR,
		"menu":         menu,
		"counted":      counted,
		"under":        func(v view, name string) view { v.Name = name; return v }, // a page of another's menu entry
		"hasprefix":    strings.HasPrefix,
		"field":        profileField,
		"within":       func(form string, of any) part { return part{form, of} },
	}
}

// part is what a template shows in a form. Other forms of the page may show it too: its ids begin with Form.
type part struct {
	Form string
	Of   any
}

// below returns the address of a local path with a query that the service has made.
func (r *Renderer) below(path string) string {
	if !isLocal(path) {
		return "#"
	}
	return r.base + path
}

// withContinue returns the address of a page that later continues with a sealed authorization
// request.
func (r *Renderer) withContinue(path, next string) string {
	if next = sealedOrNothing(next); next == "" {
		return r.base + path
	}
	return r.base + path + "?continue=" + url.QueryEscape(next)
}

// signIn returns the address of the sign-in page on a page for people without an account. Who is signed
// in there chooses the account: the request asks for another than theirs, and would lead back.
func (r *Renderer) signIn(next, signedInAs string) string {
	if signedInAs == "" || sealedOrNothing(next) == "" {
		return r.withContinue("/login/", next)
	}
	return r.withContinue("/login/", next) + "&fresh=choose"
}

// sealedOrNothing returns s if it looks like an authorization request sealed by package provider:
// the base64url alphabet and one dot. Nothing of this form can be an address.
func sealedOrNothing(s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
	if strings.Trim(s, alphabet) != "" || strings.Count(s, ".") != 1 {
		return ""
	}
	return s
}

// userPath returns the path of a user's administration page or, with an action, of a form on it. The
// handle is one path segment with any content.
func (r *Renderer) userPath(handle, action string) string {
	return strings.TrimSuffix(r.base+"/admin/users/"+url.PathEscape(handle)+"/"+action, "/")
}

// isLocal reports whether a browser that follows s stays at this origin: one leading slash, not two
// (another host), no backslash (browsers read it as a slash) and no control characters (browsers
// drop some of them before parsing). Callers have checked this already; the pages check again
// because a slip would be an open redirect.
func isLocal(s string) bool {
	if !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") || strings.ContainsRune(s, '\\') {
		return false
	}
	return !strings.ContainsFunc(s, isControl)
}

func isControl(c rune) bool { return c < 0x20 || c == 0x7f }

func localOrNothing(s string) string {
	if isLocal(s) {
		return s
	}
	return ""
}

// scriptSchemes are the schemes that a browser runs, opens or embeds itself instead of passing them
// to an application.
var scriptSchemes = map[string]bool{
	"about": true, "blob": true, "data": true, "file": true, "filesystem": true, "javascript": true, "jar": true,
	"livescript": true, "mhtml": true, "mocha": true, "vbscript": true, "view-source": true,
}

// redirectTarget exempts a registered redirect URI from html/template's URL filter, which allows
// only http, https and mailto and would remove the URIs of native applications
// ("app.example:/callback").
//
// The caller has matched the URI against the client's registration. Here it must still be absolute,
// have no control characters and no scheme that runs code. It is still escaped as an attribute.
func redirectTarget(target string) (template.URL, error) {
	if strings.ContainsFunc(target, isControl) {
		return "", errors.New("redirect target holds a control character")
	}
	u, err := url.Parse(target)
	if err != nil {
		return "", errors.New("redirect target is not a URI") // the parse error would repeat the target
	}
	switch scheme := strings.ToLower(u.Scheme); {
	case scheme == "":
		return "", errors.New("redirect target is not an absolute URI")
	case scriptSchemes[scheme]:
		return "", fmt.Errorf("redirect target has the scheme %q", scheme)
	}
	return template.URL(target), nil //nolint:gosec // checked above: no scheme that a browser runs
}

// otpauthOrNothing returns the URI of an authenticator app, which html/template's URL filter would
// remove, or nil.
func otpauthOrNothing(uri string) any {
	if strings.HasPrefix(uri, "otpauth://totp/") {
		return template.URL(uri) //nolint:gosec // a scheme that no browser runs
	}
	return nil
}

// linkOrNothing returns redirectTarget of a link, or nil if uri must not be linked.
func linkOrNothing(uri string) any {
	if target, err := redirectTarget(uri); err == nil {
		return target
	}
	return nil
}

// isPlainHTTP reports whether a target is reached over a network without encryption. Loopback does
// not count as a network.
func isPlainHTTP(target string) bool {
	u, err := url.Parse(target)
	if err != nil || !strings.EqualFold(u.Scheme, "http") {
		return false
	}
	host := u.Hostname()
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return false
	}
	ip := net.ParseIP(host)
	return ip == nil || !ip.IsLoopback()
}

// contact returns the contact as HTML: a link if all of it is an email address, else its text.
func contact(s string) template.HTML {
	if a, err := mail.ParseAddress(s); err == nil && a.Name == "" && a.Address == s {
		return mark(`<a href="mailto:`+template.HTMLEscapeString(url.PathEscape(s))+`">`, s, "</a>")
	}
	return mark("<bdi>", s, "</bdi>")
}
