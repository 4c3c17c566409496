package admin

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

const (
	defaultPage = 50
	maxPage     = 200
	maxQuery    = 100 // runes
)

// page is what the query of a list says. Key is what the cursor holds: where
// the page before ended.
type page struct {
	query, key string
	limit      int
}

// readPage reads query, cursor and limit. What is there but cannot be used is
// refused.
func readPage(r *http.Request) (page, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return page{}, badParameter("The query of the address cannot be read.")
	}
	p := page{limit: defaultPage}
	for _, name := range []string{"query", "limit"} {
		if len(q[name]) > 1 {
			return page{}, badParameter("The parameter " + name + " is given more than once.")
		}
	}
	p.query = strings.TrimSpace(q.Get("query"))
	if utf8.RuneCountInString(p.query) > maxQuery || !utf8.ValidString(p.query) || strings.ContainsFunc(p.query, unicode.IsControl) {
		return page{}, badParameter("A query has at most 100 characters and no control characters.")
	}
	if l := q.Get("limit"); q.Has("limit") {
		p.limit, err = strconv.Atoi(l)
		if err != nil || p.limit < 1 || p.limit > maxPage || strconv.Itoa(p.limit) != l {
			return page{}, badParameter("A limit is a number from 1 to 200.")
		}
	}
	p.key, err = account.ReadCursor(q)
	return p, err
}

func badParameter(detail string) error {
	return web.NewProblem(http.StatusBadRequest, "invalid_request", detail)
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
