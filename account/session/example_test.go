package session_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// An activity application verifies the session cookie of its visitors. Both schemes are
// on, as in the 30 days after Cairn was given a private key: RS256 by the published
// keys, HS256 by the secret that `cairn show-secret` prints. A revoked session is refused,
// though its token has weeks to live: with Wait the application knows of it within a second.
func ExampleVerifier() {
	cairn := startCairn() // stands for https://id.example.org
	defer cairn.Close()

	v := &session.Verifier{
		Issuer: cairn.URL,
		Keys:   session.NewRemoteKeySet(cairn.URL+"/.well-known/jwks.json", session.RemoteOptions{}),
		Secret: []byte(cairn.SharedSecret), // in production os.Getenv("SERVICE_AUTH_JWT_SECRET")
	}
	lists := session.NewRemoteStatusList(session.RemoteStatusOptions{Issuer: v.Issuer, Keys: v.Keys, Secret: v.Secret,
		Wait: 25 * time.Second})
	defer lists.Close()
	v.Status = lists
	if err := v.Check(); err != nil {
		fmt.Println(err)
		return
	}

	for _, cookie := range []*http.Cookie{cairn.CookieRS256("ada"), cairn.CookieHS256("grace"), cairn.RevokedCookie("eve"), {Name: "cairn_session", Value: "made up"}} {
		r := httptest.NewRequest(http.MethodGet, "/activities/", nil)
		r.AddCookie(cookie)
		claims, err := v.VerifyRequest(r)
		switch {
		case errors.Is(err, session.ErrStatusUnavailable), errors.Is(err, session.ErrKeysUnavailable):
			fmt.Println("cannot be checked now")
		case errors.Is(err, session.ErrRevoked):
			fmt.Println("this session is over")
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println(claims.Handle, claims.HasGroup("activity"))
		}
	}
	// Output:
	// ada true
	// grace true
	// this session is over
	// session: invalid token: not in compact serialization
}

// The middleware lets only signed-in visitors through; the handler behind it reads
// who they are from the context.
func ExampleMiddleware() {
	cairn := startCairn()
	defer cairn.Close()

	v := &session.Verifier{
		Issuer: cairn.URL,
		Keys:   session.NewRemoteKeySet(cairn.URL+"/.well-known/jwks.json", session.RemoteOptions{}),
	}
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claims, _ := session.FromContext(r.Context())
		fmt.Fprintln(w, "Hello", claims.Name)
	})
	handler := session.Middleware(v, nil)(app)

	signedIn := httptest.NewRequest(http.MethodGet, "/", nil)
	signedIn.AddCookie(cairn.CookieRS256("ada"))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, signedIn)
	fmt.Print(w.Code, " ", w.Body)

	w = httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output:
	// 200 Hello Ada L.
	// 401 {"type":"about:blank","title":"Unauthorized","status":401,"detail":"Sign in to continue.","code":"not_authenticated"}
}

// An application for members who have signed in with a second factor. Who has signed in with the
// password alone is not a stranger: the sign-in page asks them for more.
func ExampleErrInsufficientAuthentication() {
	cairn := startCairn()
	defer cairn.Close()

	v := &session.Verifier{
		Issuer:     cairn.URL,
		Keys:       session.NewRemoteKeySet(cairn.URL+"/.well-known/jwks.json", session.RemoteOptions{}),
		RequireACR: session.ACRTwoFactors,
	}
	signIn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := v.Issuer + "/login/"
		if errors.Is(session.FailureFromContext(r.Context()), session.ErrInsufficientAuthentication) {
			address += "?fresh=confirm"
		}
		http.Redirect(w, r, address, http.StatusSeeOther)
	})
	handler := session.Middleware(v, signIn)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claims, _ := session.FromContext(r.Context())
		fmt.Fprintln(w, "Hello", claims.Name, claims.AMR)
	}))

	for _, cookie := range []*http.Cookie{{Name: "other"}, cairn.PasswordCookie("ada"), cairn.CookieRS256("ada")} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(cookie)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code == http.StatusOK {
			fmt.Print(w.Body)
		} else {
			fmt.Println(strings.TrimPrefix(w.Header().Get("Location"), v.Issuer))
		}
	}
	// Output:
	// /login/
	// /login/?fresh=confirm
	// Hello Ada L. [pwd otp mfa]
}

// An API verifies the access tokens that applications send it. The scope of each operation is demanded where it is mounted.
func ExampleAccessTokenVerifier() {
	cairn := startCairn()
	defer cairn.Close()

	keys := session.NewRemoteKeySet(cairn.URL+"/.well-known/jwks.json", session.RemoteOptions{})
	lists := session.NewRemoteStatusList(session.RemoteStatusOptions{Issuer: cairn.URL, Keys: keys})
	defer lists.Close()
	v := &session.AccessTokenVerifier{Issuer: cairn.URL, Audience: "https://api.example.org", Keys: keys, Status: lists}
	trails := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := session.AccessTokenFromContext(r.Context())
		fmt.Fprintln(w, "trails of", token.Subject)
	})
	handler := v.RequireScopes("trails.read")(trails)

	for _, scope := range []string{"openid trails.read", "openid"} {
		r := httptest.NewRequest(http.MethodGet, "/trails", nil)
		r.Header.Set("Authorization", "Bearer "+cairn.AccessToken(scope))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code == http.StatusOK {
			fmt.Print(w.Body)
		} else {
			fmt.Println(w.Header().Get("WWW-Authenticate"))
		}
	}
	// Output:
	// trails of u_7Q
	// Bearer realm="https://api.example.org", error="insufficient_scope", error_description="The access token lacks a scope.", scope="trails.read"
}
