// Package recipes has what applications need to sign people in with Cairn: a file for each, whose form
// README.md describes. It leaves to others how a client is registered.
package recipes

import (
	"embed"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var files embed.FS

// Recipe is how one application is set up.
type Recipe struct {
	App     string    `yaml:"-"` // names it at the command line
	Title   string    `yaml:"title"`
	Kind    string    `yaml:"kind"`
	Example string    `yaml:"example"`
	Known   string    `yaml:"known"`
	Version string    `yaml:"version"`
	Date    string    `yaml:"date"`
	From    string    `yaml:"from"`
	Library string    `yaml:"library"`
	Needs   string    `yaml:"needs"`
	Client  yaml.Node `yaml:"client"`
	SignOut signOut   `yaml:"sign-out"`
	Body    string    `yaml:"body"`
}

// signOut is what the application's own button to sign out does.
type signOut struct {
	Ends  string `yaml:"ends"`  // "cairn": the session at Cairn, too; "here": the application's alone
	Known string `yaml:"known"` // as Recipe.Known, or "assumed"
	Text  string `yaml:"text"`  // what else is to know, as Markdown
}

// Kinds are the kinds of applications in their order.
var Kinds = []string{"sport", "application", "library"}

// All returns the recipes by kind and title.
var All = sync.OnceValues(func() (all []Recipe, err error) {
	names, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := files.Open(name.Name())
		if err != nil {
			return nil, err
		}
		r := Recipe{App: strings.TrimSuffix(name.Name(), path.Ext(name.Name()))}
		decoder := yaml.NewDecoder(text)
		decoder.KnownFields(true)
		if err := decoder.Decode(&r); err != nil {
			return nil, fmt.Errorf("%s: %w", name.Name(), err)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Recipe) int {
		if i, j := slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind); i != j {
			return i - j
		}
		return strings.Compare(strings.ToLower(a.Title), strings.ToLower(b.Title))
	})
	return all, nil
})

// IsClient reports whether the application is a client of OpenID Connect.
func (r Recipe) IsClient() bool { return len(r.Client.Content) > 0 }

// LibraryTest returns the library with which the application signs people in, and the test that tries it.
func (r Recipe) LibraryTest() (library, test string) {
	library, test, _ = strings.Cut(r.Library, ", ")
	return library, test
}

// known says how something is known.
func known(how string) string {
	switch how {
	case "ci":
		return "in CI"
	case "source":
		return "read in its source"
	case "assumed":
		return "not tried"
	}
	return how
}

// SigningOut says what signing out at the application ends, and what signing out at Cairn does there.
func (r Recipe) SigningOut() string {
	text := "Signing out there signs out of Cairn, too (" + known(r.SignOut.Known) + ")."
	if r.SignOut.Ends == "here" {
		text = "Signing out there ends the session there alone (" + known(r.SignOut.Known) +
			"): while somebody is signed in at Cairn, the next sign-in asks nothing. On a shared computer sign out " +
			"at Cairn, too."
	}
	for i := 0; i+1 < len(r.Client.Content); i += 2 {
		if r.Client.Content[i].Value == "backchannel-logout-uri" {
			text += " Signing out at Cairn ends the session there."
		}
	}
	if more := strings.TrimSpace(r.SignOut.Text); more != "" {
		text += " " + more
	}
	return "**Signing out.** " + text + "\n"
}

// Status says how the recipe is known, with the version and the library that is tried.
func (r Recipe) Status() string {
	text := known(r.Known)
	if r.Version != "" {
		text += " (" + r.Version + ")"
	}
	if library, _ := r.LibraryTest(); library != "" {
		text += ", " + library + " in CI"
	}
	return text
}

// For returns the recipe for an application at an address, a client of an issuer.
func (r Recipe) For(address, issuer, id string) (Recipe, error) {
	address = strings.TrimRight(address, "/")
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" ||
		u.Fragment != "" || u.User != nil {
		return r, errors.New("give the address of the application, as https://photos.example.org")
	}
	at, err := url.Parse(issuer)
	if err != nil {
		return r, fmt.Errorf("issuer: %w", err)
	}
	values := strings.NewReplacer("{url}", address, "{host}", u.Host, "{issuer}", issuer, "{issuer_host}", at.Host,
		"{id}", id)
	r.Body, r.SignOut.Text, r.Client = values.Replace(r.Body), values.Replace(r.SignOut.Text),
		*replaced(&r.Client, values)
	return r, nil
}

// replaced returns a copy of a node with other texts.
func replaced(node *yaml.Node, values *strings.Replacer) *yaml.Node {
	out := *node
	out.Value, out.Content = values.Replace(node.Value), nil
	for _, child := range node.Content {
		out.Content = append(out.Content, replaced(child, values))
	}
	return &out
}
