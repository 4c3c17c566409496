package templates

import (
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// funcs are the functions that the templates have besides the built-in ones.
func (r *Renderer) funcs() template.FuncMap {
	return template.FuncMap{
		"at":          func(path string) string { return r.base + path },
		"onward":      r.onward,
		"userpath":    r.userPath,
		"local":       localOrNothing,
		"sealed":      sealedOrNothing,
		"target":      redirectTarget,
		"link":        linkOrNothing,
		"plain":       func(target string) bool { return r.https && isPlainHTTP(target) },
		"static":      r.staticPath,
		"rfc3339":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"date":        func(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") },
		"ago":         func(t time.Time) string { return ago(r.now(), t) },
		"describedby": describedBy,
		"invalid":     isInvalid,
		"fielderror":  func(f form, field string) string { message, _ := f.fault(field); return message },
		"has":         slices.Contains[[]string],
		"contacturl":  contactURL,
	}
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

// contactURL is where a contact leads: the e-mail address that it is as a whole, "" for a sentence.
func contactURL(contact string) string {
	if a, err := mail.ParseAddress(contact); err == nil && a.Name == "" && a.Address == contact {
		return "mailto:" + url.PathEscape(contact)
	}
	return ""
}

// ago says how far a time is from now, rounded as a person would: "3 hours ago", "in 14 days".
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case d < 0:
		return "in " + span(-d)
	case d < time.Minute:
		return "just now"
	default:
		return span(d) + " ago"
	}
}

func span(d time.Duration) string {
	const day = 24 * time.Hour
	rounded := func(unit time.Duration) int { return int((d + unit/2) / unit) }
	switch {
	case d < time.Minute:
		return "less than a minute"
	case rounded(time.Minute) < 60:
		return count(rounded(time.Minute), "minute")
	case rounded(time.Hour) < 24:
		return count(rounded(time.Hour), "hour")
	case rounded(day) <= 45:
		return count(rounded(day), "day")
	case rounded(30*day) < 12:
		return count(rounded(30*day), "month")
	}
	return count(max(1, rounded(365*day)), "year")
}

func count(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return strconv.Itoa(n) + " " + unit + "s"
}
