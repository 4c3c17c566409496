package site

import (
	"maps"
	"net/http"
	"slices"

	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Site) apiDeleteMe(w http.ResponseWriter, r *http.Request, in person.Confirmation) error {
	if err := s.DeleteAccount(r.Context(), s.Caller(r), in); err != nil {
		return err
	}
	s.clearCookies(w)
	return web.NoContent(w, nil)
}

func (s *Site) deleteForm(_ http.ResponseWriter, r *http.Request) error {
	return s.DeleteAccount(r.Context(), s.Caller(r), person.Confirmation{Password: r.PostForm.Get("password")})
}

// export sends a file, both for the API and for the form of a page.
func (s *Site) export(w http.ResponseWriter, r *http.Request) error {
	a, err := s.BeginExport(r.Context(), s.Caller(r))
	if err != nil {
		return err
	}
	out, err := s.exportOf(r.Context(), s.Caller(r))
	if err == nil {
		err = s.Store().Record(r.Context(), a, 0)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="account.json"`)
	if err = web.StreamJSON(w, s.Now, out); err != nil {
		w.Header().Del("Content-Disposition")
	}
	return err
}

func (s *Site) dataPage(r *http.Request, m templates.Member) (templates.Page, error) {
	page := templates.AccountData{Member: m}
	attributes := IdentityFrom(r.Context()).User.Profile.Attributes
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		page.Attributes = append(page.Attributes, templates.Attribute{Name: name, Value: attributes[name]})
	}
	return page, nil
}

// publishPage is for members with the flag activity. For others there is nothing at its address.
func (s *Site) publishPage(r *http.Request, m templates.Member) (templates.Page, error) {
	if !m.Publish {
		return nil, web.NewProblem(http.StatusNotFound, "not_found", "There is nothing at this address.")
	}
	return templates.AccountPublish{Member: m, Zone: IdentityFrom(r.Context()).User.Profile.Zoneinfo}, nil
}
