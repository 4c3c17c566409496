// Command house checks how the Go files look that it is given, tests aside: no line goes beyond column
// 120 at a tab width of 4, and no function has more than 80 lines. A line may be longer if all that is too
// long is a struct tag (the help of an option), or a word of more than 80 characters that has no space to
// break it at, such as a URL or a regular expression.
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
	unbreakable          = 80
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
		tags := map[int]int{} // width of the tag by line
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && f.Tag != nil {
				tags[files.Position(f.Tag.Pos()).Line] = utf8.RuneCountInString(f.Tag.Value)
			}
			return true
		})
		for i, line := range bytes.Split(src, []byte("\n")) {
			width := utf8.RuneCount(line) + (tabWidth-1)*bytes.Count(line, []byte("\t"))
			if width-tags[i+1] > maxColumns && !hasLongWord(line) {
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

func hasLongWord(line []byte) bool {
	for word := range bytes.FieldsSeq(line) {
		if utf8.RuneCount(word) > unbreakable {
			return true
		}
	}
	return false
}
