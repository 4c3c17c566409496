// Command house checks how the Go files look that it is given, tests aside: no line goes beyond column
// 120 at a tab width of 4, and no function has more than 80 lines.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"unicode/utf8"
)

const (
	maxColumns, tabWidth = 120, 4
	maxLines             = 80
)

func main() {
	faults := 0
	for _, name := range os.Args[1:] {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for i, line := range bytes.Split(src, []byte("\n")) {
			width := utf8.RuneCount(line) + (tabWidth-1)*bytes.Count(line, []byte("\t"))
			if width > maxColumns {
				fmt.Printf("%s:%d: %d columns, at most %d\n", name, i+1, width, maxColumns)
				faults++
			}
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from := files.Position(f.Pos()).Line
			if n := files.Position(f.End()).Line - from + 1; n > maxLines {
				fmt.Printf("%s:%d: %s has %d lines, at most %d\n", name, from, f.Name.Name, n, maxLines)
				faults++
			}
		}
	}
	if faults > 0 {
		os.Exit(1)
	}
}
