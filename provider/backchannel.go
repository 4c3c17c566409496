package provider

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/account/web"
)

// How logout tokens are sent. No request waits for it: what ends a session
// writes a notice, and SendLogouts sends it, also after a restart.
const (
	logoutPoll     = time.Second
	logoutTimeout  = 5 * time.Second // for one client's answer
	logoutLease    = time.Minute     // longer than an attempt can take
	logoutParallel = 16
	logoutGiveUp   = 24 * time.Hour
	logoutTokenTTL = 2 * time.Minute
)

// logoutEvent is the member of events that makes a token a logout token.
const logoutEvent = "http://schemas.openid.net/event/backchannel-logout"

// logoutSender delivers logout tokens (OpenID Connect Back-Channel Logout 1.0).
type logoutSender struct {
	*Provider
	signers signers
	guarded *http.Client
	open    *http.Client
}

// newLogoutSender makes the sender; its tokens have the type logout+jwt, so that
// they are neither ID tokens nor sessions.
func (p *Provider) newLogoutSender(keys []jose.JSONWebKey, fast jose.OpaqueSigner) (*logoutSender, error) {
	all, err := newSigners("logout+jwt", keys, fast)
	if err != nil {
		return nil, err
	}
	return &logoutSender{Provider: p, signers: all, guarded: newGuardedClient(logoutTimeout, refusePrivate, nil), open: newGuardedClient(logoutTimeout, nil, nil)}, nil
}

// newGuardedClient follows no redirect and uses no proxy: what is reached is the
// address itself and nothing else. control sees every address before the connection.
func newGuardedClient(timeout time.Duration, control func(network, address string, _ syscall.RawConn) error, conf *tls.Config) *http.Client {
	dialer := &net.Dialer{Timeout: timeout, Control: control}
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: timeout, TLSClientConfig: conf, MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var errPrivateAddress = errors.New("the address is private: cairn client update ID --allow-private-backchannel opens it")

// refusePrivate keeps the service from being a door into its own network. It
// sees the address that the name resolved to, so a name that changes does not help.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address of the client: %w", err)
	}
	if !publicAddress(ap.Addr()) {
		return errPrivateAddress
	}
	return nil
}

// reservedPrefixes are not private by netip's word, and not the internet either
// (RFC 6890): shared address space, protocol assignments, documentation, benchmarks, reserved, and the
// IPv6 forms that carry an IPv4 address.
var reservedPrefixes = func() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "::/96",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}()

func publicAddress(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range reservedPrefixes {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// SendLogouts delivers what is due until the context ends. Several instances
// may run it on one database.
func (p *Provider) SendLogouts(ctx context.Context) { p.logouts.run(ctx) }

func (s *logoutSender) run(ctx context.Context) {
	web.Queue[LogoutNotice]{
		Name: "logout notices", Poll: logoutPoll, Parallel: logoutParallel, Log: s.log,
		Lease: func(ctx context.Context, limit int) ([]LogoutNotice, error) {
			return s.storage.DueLogouts(ctx, s.now(), logoutLease, limit)
		},
		Do: s.deliver,
	}.Run(ctx)
}

// deliver sends one notice and writes down how it went. The log names the
// client, never the token.
func (s *logoutSender) deliver(ctx context.Context, n LogoutNotice) {
	err := s.send(ctx, n)
	if ctx.Err() != nil {
		return // the lease ends, and the next start goes on
	}
	log := s.log.With("client_id", n.ClientID, "attempt", n.Attempts+1)
	now := s.now()
	switch {
	case err == nil:
		log.InfoContext(ctx, "logout delivered")
		err = s.storage.LogoutDone(ctx, n.ID)
	case errors.Is(err, errLogoutRefused):
		log.WarnContext(ctx, "logout refused", "error", err)
		err = s.storage.LogoutDone(ctx, n.ID)
	case errors.Is(err, ErrClientNotFound) || now.Sub(n.CreatedAt) > logoutGiveUp:
		log.WarnContext(ctx, "logout given up", "error", err)
		err = s.storage.LogoutDone(ctx, n.ID)
	default:
		log.WarnContext(ctx, "logout not delivered", "error", err)
		err = s.storage.LogoutFailed(ctx, n.ID, now.Add(logoutBackoff(n.Attempts)))
	}
	if err != nil {
		log.WarnContext(ctx, "logout notice not updated", "error", err)
	}
}

// errLogoutRefused is the client's last word (Back-Channel Logout section 2.8):
// the same token again would be refused again.
var errLogoutRefused = errors.New("the client answered 400: it does not accept the logout token")

// logoutBackoff is 5 s, doubled for each failure before, at most an hour.
func logoutBackoff(failures int) time.Duration {
	return min(time.Hour, 5*time.Second<<min(failures, 20))
}

func (s *logoutSender) send(ctx context.Context, n LogoutNotice) error {
	client, err := s.client(ctx, n.ClientID)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if client.BackchannelLogoutURI == "" {
		return fmt.Errorf("no backchannel_logout_uri: %w", ErrClientNotFound)
	}
	token, err := s.logoutToken(n, client)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, client.BackchannelLogoutURI, strings.NewReader(url.Values{"logout_token": {token}}.Encode()))
	if err != nil {
		return errors.New("the backchannel_logout_uri is not a URL")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("User-Agent", "cairn")
	h := s.guarded
	if client.BackchannelPrivate {
		h = s.open
	}
	answer, err := h.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL, which may carry what is the client's business
		}
		return fmt.Errorf("post: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode == http.StatusBadRequest {
		return errLogoutRefused
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the client answered %d", answer.StatusCode)
	}
	return nil
}

// logoutToken makes the logout token (section 2.4): sub and sid, never a nonce; signed as
// the client's ID tokens are (section 2.6).
func (s *logoutSender) logoutToken(n LogoutNotice, c *Client) (string, error) {
	signer, err := s.signers.of(c)
	if err != nil {
		return "", err
	}
	now := s.now()
	claims := map[string]any{
		"iss": s.issuer, "aud": n.ClientID, "iat": now.Unix(), "exp": now.Add(logoutTokenTTL).Unix(), "jti": rand.Text(),
		"sub": n.Sub, "sid": n.SessionID, "events": map[string]any{logoutEvent: map[string]any{}},
	}
	t, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign logout token: %w", err)
	}
	return t, nil
}
