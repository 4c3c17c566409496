package cli

import (
	_ "embed"
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/cairn-id/cairn/config"
)

//go:embed help.txt
var helpText string

// Help sets the help of the commands, flags and arguments of the struct that commands points to, where they have
// no help tag: help.txt has that of all commands, and what would make a line of Go too long. An entry is a line
// "package.Type.Field: help"; indented lines below it are the detailed help of a command. A field that has neither
// is an error.
func Help(commands any) kong.Option {
	texts, name := map[string]string{}, ""
	for line := range strings.Lines(config.Help + helpText) {
		if line[0] != '\t' && line[0] != '\n' {
			name, line, _ = strings.Cut(line, ": ")
		}
		texts[name] += strings.TrimPrefix(line, "\t")
	}
	names := map[any]string{}
	nameFields(reflect.ValueOf(commands).Elem(), names)
	give := func(help, detail *string, field reflect.Value, tag *kong.Tag) error {
		name := names[field.Addr().Interface()]
		if *help == "" && texts[name] != "" {
			*help, *detail, _ = strings.Cut(strings.TrimSpace(texts[name]), "\n")
		}
		if *help == "" && name != "" && !tag.Hidden {
			return fmt.Errorf("%s has neither a help tag nor a text in help.txt", name)
		}
		return nil
	}
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) (err error) {
			switch node := node.(type) {
			case *kong.Node:
				err = give(&node.Help, &node.Detail, node.Target, node.Tag)
			case *kong.Value:
				err = give(&node.Help, new(string), node.Target, node.Tag)
			}
			return next(err)
		})
	})
}

// nameFields names the fields of a struct and of the structs in it by their addresses.
func nameFields(of reflect.Value, names map[any]string) {
	for field, at := range of.Fields() {
		if at.Kind() == reflect.Struct {
			nameFields(at, names)
		}
		if at.CanInterface() {
			names[at.Addr().Interface()] = of.Type().String() + "." + field.Name
		}
	}
}
