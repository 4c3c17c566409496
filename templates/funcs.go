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

// funcs are the functions that the templates have besides the built-in ones.
func (r *Renderer) funcs() template.FuncMap {
	return template.FuncMap{
		"at":          func(path string) string { return r.base + path },
		"below":       r.below,
		"onward":      r.onward,
		"userpath":    r.userPath,
		"local":       localOrNothing,
		"sealed":      sealedOrNothing,
		"target":      redirectTarget,
		"link":        linkOrNothing,
		"plain":       func(target string) bool { return r.https && isPlainHTTP(target) },
		"static":      r.staticPath,
		"describedby": describedBy,
		"invalid":     isInvalid,
		"fielderror":  func(f form, field string) string { message, _ := f.fault(field); return message },
		"has":         slices.Contains[[]string],
		"contact":     contact,
		"qr":          newQR,
		"menu":        menu,
		"hasprefix":   strings.HasPrefix,
		"field":       profileField,
	}
}

// below is the address of a local path with a query, that the service has made.
func (r *Renderer) below(path string) string {
	if !isLocal(path) {
		return "#"
	}
	return r.base + path
}

// onward is a page of the service that later continues with a sealed authorization request.
func (r *Renderer) onward(path, next string) string {
	if next = sealedOrNothing(next); next == "" {
		return r.base + path
	}
	return r.base + path + "?continue=" + url.QueryEscape(next)
}

// sealedOrNothing lets a sealed authorization request through, which package provider made and alone can read: the
// base64url alphabet and a dot. Nothing of this form can be an address.
func sealedOrNothing(s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
	if strings.Trim(s, alphabet) != "" || strings.Count(s, ".") != 1 {
		return ""
	}
	return s
}

// userPath is an administration page of one user, or with an action the address of its form. The handle is one path
// segment with any content.
func (r *Renderer) userPath(handle, action string) string {
	return strings.TrimSuffix(r.base+"/admin/users/"+url.PathEscape(handle)+"/"+action, "/")
}

// isLocal says that a browser stays at this origin when it follows s: one leading slash, not two (another host), no
// backslash (browsers read it as a slash) and no control characters (browsers drop some of them before reading).
// Callers have checked already; the pages check again because a slip would be an open redirect.
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

// scriptSchemes are the schemes a browser runs, opens or embeds itself instead of handing them to an application.
var scriptSchemes = map[string]bool{
	"about": true, "blob": true, "data": true, "file": true, "filesystem": true, "javascript": true, "jar": true,
	"livescript": true, "mhtml": true, "mocha": true, "vbscript": true, "view-source": true,
}

// redirectTarget lets a registered redirect URI through html/template's filter, which knows only http, https and mailto
// and would blank the schemes of native applications ("app.example:/callback").
//
// template.URL switches that filter off, so this is deliberate and narrow: the caller has matched the URI against the
// client's registration; here it must still be absolute, free of control characters and of no scheme that runs code.
// The value stays escaped as an attribute.
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

// linkOrNothing is redirectTarget for a link, nil when there is none that may be linked.
func linkOrNothing(uri string) any {
	if target, err := redirectTarget(uri); err == nil {
		return target
	}
	return nil
}

// isPlainHTTP says that a target is reached over an unencrypted network; loopback is not a network.
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

// contact is whom to ask, which can be a sentence: a link where it is an e-mail address as a whole.
func contact(s string) template.HTML {
	if a, err := mail.ParseAddress(s); err == nil && a.Name == "" && a.Address == s {
		return mark(`<a href="mailto:`+template.HTMLEscapeString(url.PathEscape(s))+`">`, s, "</a>")
	}
	return mark("<bdi>", s, "</bdi>")
}
