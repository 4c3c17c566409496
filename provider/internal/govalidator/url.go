// Package govalidator has the one function that fosite calls of it.
package govalidator

import "net/url"

// IsRequestURL tells whether a redirect URI is absolute.
func IsRequestURL(rawurl string) bool {
	u, err := url.ParseRequestURI(rawurl)
	return err == nil && u.Scheme != ""
}
