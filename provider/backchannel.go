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

	"github.com/cairn-id/cairn/account/web"
)

// Sending of logout tokens. Requests do not wait for it: ending a session writes a notice, and
// SendLogouts sends the notice, after a restart too.
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

// newLogoutSender makes the sender. Its tokens have the type logout+jwt, so that they cannot pass
// as ID tokens or sessions.
func (p *Provider) newLogoutSender(keys []jose.JSONWebKey, fast jose.OpaqueSigner) (*logoutSender, error) {
	all, err := newSigners("logout+jwt", keys, fast)
	if err != nil {
		return nil, err
	}
	guarded, open := newGuardedClient(logoutTimeout, refusePrivate, nil), newGuardedClient(logoutTimeout, nil, nil)
	return &logoutSender{Provider: p, signers: all, guarded: guarded, open: open}, nil
}

// newGuardedClient returns a client without redirects and proxies: it connects to the given host
// only. control sees every address before the connection.
func newGuardedClient(
	timeout time.Duration, control func(network, address string, _ syscall.RawConn) error, conf *tls.Config,
) *http.Client {
	dialer := &net.Dialer{Timeout: timeout, Control: control}
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: timeout,
			TLSClientConfig: conf, MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var errPrivateAddress = errors.New("the address is private: " +
	"cairn client update ID --allow-private-backchannel allows it")

// refusePrivate keeps clients from reaching the service's own network through it (SSRF). It sees
// the resolved address, so DNS rebinding does not help.
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

// reservedPrefixes are not private according to netip but not on the public internet either (RFC
// 6890): shared address space, protocol assignments, documentation, benchmarks, reserved, the host
// of a virtual machine at Azure, and the IPv6 forms that embed an IPv4 address.
var reservedPrefixes = func() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
		"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "168.63.129.16/32",
		"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "::/96",
		"::ffff:0:0:0/96", "3fff::/20", "5f00::/16", "fec0::/10",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}()

func publicAddress(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range reservedPrefixes {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// SendLogouts delivers pending notices until ctx ends. Several instances may run it on one
// database.
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

// deliver sends one notice and records the result. A delivery that has begun is not cut when ctx ends, or the
// client would be told again: it takes logoutTimeout at most. The log names the client, never the token.
func (s *logoutSender) deliver(ctx context.Context, n LogoutNotice) {
	ctx = context.WithoutCancel(ctx)
	err := s.send(ctx, n)
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
		err = s.storage.LogoutFailed(ctx, n.ID, now.Add(web.Backoff(5*time.Second, n.Attempts)))
	}
	if err != nil {
		log.WarnContext(ctx, "logout notice not updated", "error", err)
	}
}

// errLogoutRefused is final (Back-Channel Logout section 2.8): the client would refuse the same
// token again.
var errLogoutRefused = errors.New("the client answered 400: it does not accept the logout token")

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
	form := url.Values{"logout_token": {token}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, client.BackchannelLogoutURI, strings.NewReader(form))
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
			err = u.Err // without the URL, which may contain secrets of the client
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

// logoutToken makes the logout token (section 2.4) with sub and sid and without a nonce. It is
// signed like the client's ID tokens (section 2.6).
func (s *logoutSender) logoutToken(n LogoutNotice, c *Client) (string, error) {
	signer, err := s.signers.of(c)
	if err != nil {
		return "", err
	}
	now := s.now()
	claims := map[string]any{
		"iss": s.issuer, "aud": n.ClientID, "iat": now.Unix(), "exp": now.Add(logoutTokenTTL).Unix(),
		"jti": rand.Text(), "sub": n.Sub, "sid": n.SessionID, "events": map[string]any{logoutEvent: map[string]any{}},
	}
	return signed(signer, claims, "logout token")
}
