package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/account/text"
)

// maxTokenBytes keeps the whole cookie under the 4,096 bytes that browsers keep.
const maxTokenBytes = 4000

// minter signs session tokens: HS256 with the shared secret, or RS256 with the first key if there
// is one. It is safe for concurrent use.
type minter struct {
	issuer    string
	algorithm string
	key       jose.SigningKey
	keyID     string // empty: the shared secret
	signer    jose.Signer
}

func newMinter(issuer string, secret []byte, keys []jose.JSONWebKey, fast jose.OpaqueSigner) (*minter, error) {
	opts := (&jose.SignerOptions{}).WithType("JWT")
	sk := jose.SigningKey{Algorithm: jose.HS256, Key: secret}
	if len(keys) > 0 {
		sk = jose.SigningKey{Algorithm: jose.RS256, Key: keys[0]} // the JWK brings the kid header
		if fast != nil {
			sk.Key = fast
		}
	} else if len(secret) < 32 {
		return nil, errors.New("the shared secret is shorter than 32 bytes (RFC 7518 section 3.2)")
	}
	signer, err := jose.NewSigner(sk, opts)
	if err != nil {
		return nil, fmt.Errorf("session token signer: %w", err)
	}
	m := &minter{issuer: issuer, algorithm: string(sk.Algorithm), key: sk, signer: signer}
	if len(keys) > 0 {
		m.keyID = keys[0].KeyID
	}
	return m, nil
}

// SessionAudience is the audience of session tokens. No client may have it as its id, or its ID
// tokens would be session tokens.
const SessionAudience = session.Audience

// SessionLifetime is the maximum lifetime of a session token.
const SessionLifetime = session.Lifetime

// sessionClaims is the exact payload of the session token.
type sessionClaims struct {
	Issuer   string                       `json:"iss"`
	Subject  string                       `json:"sub"`
	Audience string                       `json:"aud"`
	IssuedAt int64                        `json:"iat"`
	Expires  int64                        `json:"exp"`
	AuthTime int64                        `json:"auth_time"`
	AMR      []string                     `json:"amr"`
	ACR      string                       `json:"acr"`
	ID       string                       `json:"jti"`
	Session  string                       `json:"sid"`
	Handle   string                       `json:"preferred_username"`
	Name     string                       `json:"name"`
	Groups   []string                     `json:"groups"`
	Status   map[string]session.StatusRef `json:"status"`
}

// StatusClaim is the claim status of a token with an index in the token status lists of the issuer
// (draft-ietf-oauth-status-list section 6.1).
func StatusClaim(issuer string, list, index int) map[string]session.StatusRef {
	return map[string]session.StatusRef{"status_list": {Index: index,
		URI: issuer + "/oauth2/status/" + strconv.Itoa(list)}}
}

func (m *minter) token(u User, s *Session, jti string) (string, error) {
	groups := slices.Clone(u.Flags)
	if groups == nil {
		groups = []string{}
	}
	t, err := jwt.Signed(m.signer).Claims(sessionClaims{
		Issuer: m.issuer, Subject: u.Sub, Audience: SessionAudience, IssuedAt: s.AuthTime.Unix(),
		Expires:  s.ExpiresAt.Unix(),
		AuthTime: s.AuthTime.Unix(), AMR: s.AMR, ACR: ACR(s.AMR),
		ID: jti, Session: s.ID, Handle: u.Handle, Name: u.DisplayName, Groups: groups,
		Status: StatusClaim(m.issuer, s.StatusList, s.StatusIndex),
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign session token: %w", err)
	}
	if len(t) > maxTokenBytes {
		return "", fmt.Errorf("session token of %d bytes is too long for a cookie", len(t))
	}
	return t, nil
}

// CheckSecrets signs a session token with the secret, or with the first key if there are keys, and
// verifies it as another application would.
func CheckSecrets(ctx context.Context, issuer string, secret []byte, keys []jose.JSONWebKey, now time.Time) error {
	m, err := newMinter(issuer, secret, keys, nil)
	if err != nil {
		return err
	}
	n := &Session{
		ID: rand.Text(), AuthTime: now, ExpiresAt: now.Add(SessionLifetime), StatusList: 1,
		AMR: []string{MethodPassword},
	}
	token, err := m.token(User{Sub: rand.Text(), Handle: "check", Flags: []string{}}, n, rand.Text())
	if err != nil {
		return err
	}
	verifier := session.Verifier{Issuer: issuer, Secret: secret, Now: func() time.Time { return now }}
	if len(keys) > 0 {
		public := make([]jose.JSONWebKey, len(keys))
		for i, k := range keys {
			public[i] = k.Public()
		}
		verifier.Secret, verifier.Keys = nil, session.NewStaticKeySet(public...)
	}
	if _, err := verifier.Verify(ctx, token); err != nil {
		return fmt.Errorf("verify a session token: %w", err)
	}
	return nil
}

// Authentication context classes (acr) of sign-ins, weakest first.
const (
	ACRPassword          = session.ACRPassword
	ACRTwoFactors        = session.ACRTwoFactors
	ACRPhishingResistant = session.ACRPhishingResistant
)

// ACR returns the authentication context class of a sign-in by its methods (RFC 8176).
func ACR(amr []string) string {
	switch {
	case slices.Contains(amr, MethodHardwareKey), slices.Contains(amr, MethodSoftwareKey):
		return ACRPhishingResistant
	case slices.Contains(amr, MethodMultiFactor):
		return ACRTwoFactors
	}
	return ACRPassword
}

// SatisfiesACR reports whether the class of a sign-in is the required one or stronger. Every class
// satisfies "", and none an unknown one.
func SatisfiesACR(class, required string) bool {
	return session.Claims{ACR: class}.SatisfiesACR(required)
}

type cookieNames struct{ session, domain, login string }

// setCookies sets the cookies of a sign-in.
func (s *Service) setCookies(w http.ResponseWriter, in SignedIn) {
	if in.step != "" {
		http.SetCookie(w, s.stepCookie(in.step, int(sealLifetimes[signInSeal].Seconds())))
	}
	if in.marks != nil {
		http.SetCookie(w, s.markCookie(strings.Join(in.marks, ".")))
	}
	if in.token != "" {
		http.SetCookie(w, s.cookie(s.cookies.session, in.token, s.cookies.domain))
	}
	if in.login != "" {
		http.SetCookie(w, s.cookie(s.cookies.login, in.login, ""))
	}
}

// clearCookies uses the attributes of setCookies, because browsers replace only such cookies.
func (s *Service) clearCookies(w http.ResponseWriter) {
	for name, domain := range map[string]string{s.cookies.session: s.cookies.domain, s.cookies.login: ""} {
		if name == "" {
			continue
		}
		c := s.cookie(name, "", domain)
		c.MaxAge = -1
		http.SetCookie(w, c)
	}
}

// stepCookie returns the cookie with the first of two steps of a sign-in.
func (s *Service) stepCookie(value string, maxAge int) *http.Cookie {
	c := s.cookie(s.hostOnly("cairn_second_factor"), value, "")
	c.MaxAge = maxAge
	return c
}

// markCookie returns the cookie with the marks of a known device.
func (s *Service) markCookie(value string) *http.Cookie {
	c := s.cookie(s.hostOnly(deviceCookie), value, "")
	c.MaxAge = int(deviceLifetime.Seconds())
	return c
}

// Names of cookies, without the prefix of hostOnly.
const (
	deviceCookie  = "cairn_device"
	passkeyCookie = "cairn_passkey" // binds a challenge to a browser without a session
)

// givePasskeyCookie sets the cookie that binds a challenge to a browser, unless the browser has
// one: several tabs share it.
func (s *Service) givePasskeyCookie(w http.ResponseWriter, has string) string {
	if len(has) != len(rand.Text()) {
		has = rand.Text()
	}
	c := s.cookie(s.hostOnly(passkeyCookie), has, "")
	c.MaxAge, c.SameSite = int((2 * passkeyTime).Seconds()), http.SameSiteStrictMode
	http.SetCookie(w, c)
	return has
}

// hostOnly returns the name of a cookie that no sibling host can set.
func (s *Service) hostOnly(name string) string {
	if s.https {
		return "__Host-" + name
	}
	return name
}

func (s *Service) cookie(name, value, domain string) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", Domain: domain, MaxAge: int(session.Lifetime.Seconds()),
		HttpOnly: true, Secure: s.https, SameSite: http.SameSiteLaxMode,
	}
}

// The cookie of known devices has a mark for each user who recently signed in there. It proves
// nothing and opens nothing: without it, the user is notified of the sign-in by mail.
const (
	maxDeviceUsers = 10
	deviceLifetime = 400 * 24 * time.Hour // browsers keep none longer
	deviceMark     = 20                   // characters
)

// readMarks returns the marks in the value of the cookie.
func readMarks(value string) []string {
	marks := strings.Split(text.Cut(value, (deviceMark+1)*maxDeviceUsers), ".")
	return slices.DeleteFunc(marks, func(m string) bool {
		return len(m) != deviceMark || strings.Trim(m, base64urlAlphabet) != ""
	})
}

const base64urlAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
