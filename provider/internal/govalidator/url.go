// Package govalidator has the only function of github.com/asaskevich/govalidator that fosite calls.
package govalidator

import "net/url"

// IsRequestURL reports whether a redirect URI is absolute.
func IsRequestURL(rawurl string) bool {
	u, err := url.ParseRequestURI(rawurl)
	return err == nil && u.Scheme != ""
}
