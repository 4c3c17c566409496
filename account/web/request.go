package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
)

// FromOtherSite reports whether a page of another site or host made the browser send the request
// (Fetch Metadata). Programs, links in a mail program and typed addresses have no such page.
func FromOtherSite(r *http.Request) bool {
	from := r.Header.Get("Sec-Fetch-Site")
	return from != "" && from != "same-origin" && from != "none"
}

var errOtherSite = NewProblem(http.StatusForbidden, "cross_origin",
	"Another site asked for this file. Open it from the pages of this service. A program must ask without "+
		"Sec-Fetch-Site.")

// OwnSite refuses a GET from a page of another site, for files whose download is recorded: with a link
// to them, browsers send the session (SameSite=Lax).
func OwnSite(h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if FromOtherSite(r) {
			return errOtherSite
		}
		return h(w, r)
	}
}

// RequestInfo travels with a request: the middleware creates it, handlers add to it, and the one
// log line of the request is written from it. It never contains a secret, code or token.
type RequestInfo struct {
	ID      string
	Address netip.Addr // of the client, behind trusted proxies
	// Observer counts the events of the request, unless it is nil.
	Observer Observer
	Proxied  bool // whether a trusted proxy has sent it, whose X-Forwarded-* are believed

	addressText, addressKey string // of Address

	mu     sync.Mutex
	acted  bool // see FirstAct
	user   string
	event  string
	client string
	reason string
	limit  string
	whose  string
	route  string
	page   bool
}

// Observer counts events for monitoring. Its arguments become labels of time series, so this
// program or its operator chooses them, never the sender of a request. It is safe for concurrent
// use.
type Observer interface {
	// SignIn counts the end of a sign-in: success, failed or suspended, with the kind of proof.
	SignIn(outcome, factor string)
	// Tokens counts issued tokens of a registered client.
	Tokens(grantType, clientID string)
	// Limited counts a request that a limit refused.
	Limited(limit string)
	// Unproven counts a request of a session bound to its device that lacked the bound cookie.
	Unproven()
}

type infoKey struct{}

// WithRequestInfo returns a context with info, whose address must not change afterwards.
func WithRequestInfo(ctx context.Context, info *RequestInfo) context.Context {
	if info.addressText = info.Address.String(); info.Address.IsValid() {
		info.addressKey = info.addressText
		if !info.Address.Is4() {
			info.addressKey = AddressKey(info.Address)
		}
	}
	return context.WithValue(ctx, infoKey{}, info)
}

func infoOf(ctx context.Context) *RequestInfo {
	info, _ := ctx.Value(infoKey{}).(*RequestInfo)
	return info
}

// AddressText returns the address for the log.
func (i *RequestInfo) AddressText() string { return i.addressText }

// RequestID returns the id of the request in the log line and in problems.
func RequestID(ctx context.Context) string {
	if i := infoOf(ctx); i != nil {
		return i.ID
	}
	return ""
}

// FromProxy reports whether a trusted proxy sent the request.
func FromProxy(ctx context.Context) bool {
	i := infoOf(ctx)
	return i != nil && i.Proxied
}

// Note names the event (login_failed, logout, ...) for the log line; the last one counts.
func Note(ctx context.Context, event string) {
	add(ctx, func(i *RequestInfo) { i.event = event })
}

// Noted notes event if err is nil, and returns err: for the end of an operation.
func Noted(ctx context.Context, event string, err error) error {
	if err == nil {
		Note(ctx, event)
	}
	return err
}

// FirstAct reports whether it was not called before for this request. An act on many users counts once.
func FirstAct(ctx context.Context) bool {
	first := true
	add(ctx, func(i *RequestInfo) { first, i.acted = !i.acted, true })
	return first
}

// NoteDefault names the event unless a more specific one was noted.
func NoteDefault(ctx context.Context, event string) {
	add(ctx, func(i *RequestInfo) { i.event = cmp.Or(i.event, event) })
}

// NoteClient names the client of a protocol request for the log line; the first one counts.
func NoteClient(ctx context.Context, id string) {
	add(ctx, func(i *RequestInfo) { i.client = cmp.Or(i.client, id) })
}

// NoteReason says why a protocol request was refused; the first one counts.
func NoteReason(ctx context.Context, reason string) {
	add(ctx, func(i *RequestInfo) { i.reason = cmp.Or(i.reason, reason) })
}

// NoteLimit names the limit that refused; the first one counts.
func NoteLimit(ctx context.Context, name string) {
	add(ctx, func(i *RequestInfo) { i.limit = cmp.Or(i.limit, name) })
}

// NoteAccount names the account that somebody tries to get into, for the log line: its sub, or a keyed hash of
// what was typed, which may be a password.
func NoteAccount(ctx context.Context, whose string) {
	add(ctx, func(i *RequestInfo) { i.whose = whose })
}

// NoteRoute stores the path template of the matching route.
func NoteRoute(ctx context.Context, template string) {
	add(ctx, func(i *RequestInfo) { i.route = template })
}

// Route returns the template of NoteRoute, or "" if no route matched.
func (i *RequestInfo) Route() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.route
}

// Observe calls the observer of the request, if there is one.
func Observe(ctx context.Context, tell func(Observer)) {
	if i := infoOf(ctx); i != nil && i.Observer != nil {
		tell(i.Observer)
	}
}

// NoteSignIn notes the end of a sign-in for the log line and the observer.
func NoteSignIn(ctx context.Context, outcome, factor string) {
	event := "login"
	if outcome != SignInSuccess {
		event += "_" + outcome
	}
	Note(ctx, event)
	Observe(ctx, func(o Observer) { o.SignIn(outcome, factor) })
}

// Ends of a sign-in.
const (
	SignInSuccess   = "success"
	SignInFailed    = "failed"
	SignInSuspended = "suspended"
)

// NoteUser names the user for the log line.
func NoteUser(ctx context.Context, sub string) {
	add(ctx, func(i *RequestInfo) { i.user = sub })
}

func add(ctx context.Context, change func(*RequestInfo)) {
	if i := infoOf(ctx); i != nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		change(i)
	}
}

// FromPage reports whether the form of a page was read: a person waits for the answer.
func FromPage(ctx context.Context) (page bool) {
	add(ctx, func(i *RequestInfo) { page = i.page })
	return page
}

// summary is what a request was about, for the log line.
type summary struct{ User, Event, Client, Reason, Limit, Account string }

// summary returns what was noted.
func (i *RequestInfo) Summary() summary {
	i.mu.Lock()
	defer i.mu.Unlock()
	return summary{i.user, i.event, i.client, i.reason, i.limit, i.whose}
}

// Address returns the client's address, behind trusted proxies; the zero Addr if it is not known.
func Address(ctx context.Context) netip.Addr {
	if i := infoOf(ctx); i != nil {
		return i.Address.Unmap().WithZone("")
	}
	return netip.Addr{}
}

// ClientAddress returns the client's address in the canonical form that limits and sessions store.
func ClientAddress(r *http.Request) string {
	if i := infoOf(r.Context()); i != nil && i.addressKey != "" {
		return i.addressKey
	}
	if ap, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return AddressKey(ap.Addr())
	}
	return "unknown"
}

// AddressKey returns the key under which an address is counted: the address for IPv4 (also mapped
// into IPv6), its /64 for IPv6, because one customer has all of it.
func AddressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr().String()
	}
	return a.String()
}

// Networks returns the networks around an address, the widest first. A customer has a /64 of IPv6, and often the /56
// or /48 around it. There are none around the zero Addr.
func Networks(a netip.Addr) (networks []netip.Prefix) {
	bits := []int{24, 32}
	if a.Is6() {
		bits = []int{48, 56, 64}
	}
	for _, n := range bits {
		if network, _ := a.Prefix(n); network.IsValid() {
			networks = append(networks, network)
		}
	}
	return networks
}

// Cursor returns the opaque cursor of the page after key.
func Cursor(key string) string { return base64.RawURLEncoding.EncodeToString([]byte(key)) }

// ReadCursor returns the key of the parameter cursor; "" means the first page. A value that this
// service did not make is refused, because a client that got the first page again would loop forever.
func ReadCursor(q url.Values) (key string, err error) {
	c := q.Get("cursor")
	if len(q["cursor"]) > 1 {
		return "", Repeated("cursor")
	}
	k, err := base64.RawURLEncoding.Strict().DecodeString(c)
	if err != nil || Cursor(string(k)) != c { // the decoder skips line breaks
		return "", ErrInvalidCursor
	}
	return string(k), nil
}
