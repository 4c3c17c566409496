// Package site has the doors of an account: the pages and the JSON endpoints through which people
// use what package account does. A handler reads a request, calls one operation, and answers; no
// rule about an account is here.
//
// Packages admin and provider, which have doors of their own, learn here who makes a request.
package site

import (
	"context"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/passkey"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Site serves the endpoints of an account. It is safe for concurrent use.
type Site struct {
	*person.Service
	*web.Site

	passkeys *passkey.Service
	https    bool
	// applications returns the application that a continuation belongs to; nil without OpenID
	// Connect.
	applications func(ctx context.Context, continuation string) templates.Application
	offerAccount func(continuation string, id *person.Identity) (string, error)
	// nextSteps reports whether administrators start on their overview; nil means no.
	nextSteps func(context.Context, account.User) (bool, error)
	// scopeTexts describes what an application may do with its scopes; nil without OpenID Connect.
	scopeTexts func(ctx context.Context, scopes []string) []string
}

// New returns the doors of a service.
func New(service *person.Service, passkeys *passkey.Service) *Site {
	at := service.Web()
	return &Site{Service: service, Site: at, passkeys: passkeys, https: strings.HasPrefix(at.URL(""), "https:")}
}
