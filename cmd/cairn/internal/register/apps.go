package register

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/provider/recipes"
)

type appsClientCommand struct {
	App string `arg:"" optional:"" help:"Print the settings of this application."`
	cli.Output
	Issuer string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Issuer to print in the settings."`
}

// Run lists the recipes, or prints one.
func (c *appsClientCommand) Run(p *cli.Program) error {
	if c.App != "" {
		return c.print(p)
	}
	all, err := recipes.All()
	if err != nil {
		return err
	}
	out := c.List(p, "APP", "NAME", "KNOWN", "NEEDS")
	for _, r := range all {
		row := map[string]string{
			"app": r.App, "name": r.Title, "kind": r.Kind, "known": r.Known, "version": r.Version, "date": r.Date,
			"from": r.From, "needs": r.Needs,
		}
		out.Add(r.App, row, r.App, r.Title, r.Status(), r.Needs)
	}
	return out.End()
}

// print prints the recipe of an application at the address of its example: the command that registers it, and its
// settings.
func (c *appsClientCommand) print(p *cli.Program) error {
	r, err := recipeOf(c.App)
	if err != nil {
		return err
	}
	if _, r, err = recipeKeys(r, r.Example, c.Issuer, ""); err != nil {
		return err
	}
	if r.IsClient() {
		fmt.Fprintf(p.Stdout, "cairn client add --app %s --url %s\n\n", r.App, r.Example)
	}
	fmt.Fprint(p.Stdout, settingsOf(r))
	return nil
}

// recipeOf returns the recipe of an application.
func recipeOf(app string) (recipes.Recipe, error) {
	all, err := recipes.All()
	if err != nil {
		return recipes.Recipe{}, err
	}
	var names []string
	for _, r := range all {
		if r.App == app {
			return r, nil
		}
		names = append(names, r.App)
	}
	if best, near := config.NearestName(app, names); near {
		return recipes.Recipe{}, cli.Usagef("there is no recipe for %q: did you mean %s?", app, best)
	}
	return recipes.Recipe{}, cli.Usagef("there is no recipe for %q: cairn client apps lists them; "+
		"without --app any application is registered", app)
}

// fromRecipe sets what the recipe of --app says and no flag does, and returns the application's own settings.
func (c *addClientCommand) fromRecipe(p *cli.Program) (settings string, err error) {
	switch {
	case c.App == "" && c.URL != "":
		return "", cli.UsageError("--url: give --app, too; without it --redirect-uri says where answers go")
	case c.App == "" && c.Name == "":
		return "", cli.UsageError("give the client's name, or --app")
	case c.App == "":
		return "", nil
	case c.URL == "":
		return "", cli.UsageError("--app: give the address of the application with --url, " +
			"as https://photos.example.org")
	}
	r, err := recipeOf(c.App)
	if err != nil {
		return "", err
	}
	keys, r, err := recipeKeys(r, c.URL, c.Issuer, c.ID)
	if err != nil {
		return "", err
	}
	if !r.IsClient() {
		fmt.Fprint(p.Stdout, settingsOf(r))
		return "", fmt.Errorf("%s is no client of OpenID Connect: nothing was registered", r.Title)
	}
	if c.RedirectURIs == nil { // else those of the recipe are not used
		insecure := c.AllowInsecureRedirect != nil && *c.AllowInsecureRedirect
		for _, uri := range keys.RedirectURIs {
			if err := provider.CheckRedirectURI(uri, insecure); err != nil {
				return "", cli.Usagef("--url %q: %s", c.URL, err)
			}
		}
	}
	c.ID, c.Name = keys.ID, cmp.Or(c.Name, keys.Name)
	flags, given := reflect.ValueOf(&c.clientOptions).Elem(), reflect.ValueOf(keys.clientOptions)
	for i := range flags.NumField() {
		if flags.Field(i).IsNil() {
			flags.Field(i).Set(given.Field(i))
		}
	}
	if c.HomeURI == nil {
		home := strings.TrimSuffix(c.URL, "/") + "/"
		c.HomeURI = &home
	}
	return "\n" + settingsOf(r), nil
}

// recipeKeys returns the client of a recipe at an address, and the recipe with its values. An empty id
// is that of the recipe.
func recipeKeys(r recipes.Recipe, url, issuer, id string) (*clientKeys, recipes.Recipe, error) {
	var named struct{ ID string }
	if err := r.Client.Decode(&named); r.IsClient() && err != nil {
		return nil, r, err
	}
	id = cmp.Or(id, named.ID)
	r, err := r.For(url, issuer, id)
	if err != nil {
		return nil, r, cli.Usagef("--url: %s", err)
	}
	lists, err := sections()
	if err != nil || !r.IsClient() {
		return &clientKeys{}, r, err
	}
	f := &applyFile{sections: lists, ctx: context.Background()}
	f.entry(lists[0], r.App+".yaml", &r.Client)
	keys := lists[0].keys.(*clientKeys)
	keys.ID = id
	return keys, r, f.err()
}

// settingsOf returns the settings of an application as they are printed.
func settingsOf(r recipes.Recipe) string {
	known := r.Status() + ", " + r.Date
	if r.From != "" {
		known += ": " + r.From
	}
	body := strings.TrimLeft(strings.Replace(r.Body, "{register}\n\n", "", 1), "\n")
	return fmt.Sprintf("%s, %s\n\n%s\n%s", r.Title, known, body, r.SigningOut())
}
