package provider

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account/web"
)

const (
	webFingerPath = "/.well-known/webfinger"
	issuerRel     = "http://openid.net/specs/connect/1.0/issuer"
	maxResource   = 512
)

type jrdLink struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// webFinger names the issuer for the accounts of its domain (RFC 7033, OpenID Connect Discovery section
// 2). It answers alike whether an account exists: it reads nothing that is stored.
func (p *Provider) webFinger(w http.ResponseWriter, r *http.Request) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	resources := q["resource"]
	if err != nil || len(resources) != 1 || len(resources[0]) > maxResource || !isURI(resources[0]) {
		p.accounts.WriteProblem(w, r, web.BadRequest("A WebFinger request needs exactly one resource, such as "+
			"acct:ada@example.org."))
		return
	}
	if !p.ownsResource(resources[0]) {
		p.accounts.WriteProblem(w, r, web.NewProblem(http.StatusNotFound, "not_found",
			"This service answers only for accounts at its own domain."))
		return
	}
	links := []jrdLink{}
	if rels := q["rel"]; len(rels) == 0 || slices.Contains(rels, issuerRel) {
		links = append(links, jrdLink{issuerRel, p.issuer})
	}
	body, err := json.Marshal(struct {
		Subject string    `json:"subject"`
		Links   []jrdLink `json:"links"`
	}{resources[0], links})
	if err != nil {
		p.logFailure(r, "answer not written", err)
		return
	}
	w.Header().Set("Content-Type", "application/jrd+json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n'))
}

func isURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != ""
}

// ownsResource reports whether an account (acct:) or an address (mailto:) is of the issuer's host or of a
// domain above it: people of id.example.org type ada@example.org.
func (p *Provider) ownsResource(resource string) bool {
	scheme, account, _ := strings.Cut(resource, ":")
	at := strings.LastIndexByte(account, '@')
	issuer, err := url.Parse(p.issuer)
	if err != nil || at < 1 || !strings.EqualFold(scheme, "acct") && !strings.EqualFold(scheme, "mailto") {
		return false
	}
	host := strings.ToLower(account[at+1:])
	return host == issuer.Host || host == issuer.Hostname() ||
		strings.Contains(host, ".") && strings.HasSuffix(issuer.Hostname(), "."+host)
}
