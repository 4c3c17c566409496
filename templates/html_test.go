package templates_test

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func parse(t *testing.T, s string) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(s))
	must(t, err)
	return doc
}

func walk(n *html.Node, visit func(*html.Node)) {
	if n.Type == html.ElementNode {
		visit(n)
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		walk(c, visit)
	}
}

// all finds elements by a small part of CSS: tag, #id, [key=value] and [key], joined without spaces in this order.
func all(doc *html.Node, selector string) []*html.Node {
	tag, rest := selector, ""
	if i := strings.IndexAny(selector, "#["); i >= 0 {
		tag, rest = selector[:i], selector[i:]
	}
	want := map[string]*string{}
	if id, ok := strings.CutPrefix(rest, "#"); ok {
		id, after, found := strings.Cut(id, "[")
		want["id"] = &id
		rest = ""
		if found {
			rest = "[" + after
		}
	}
	for _, part := range strings.Split(rest, "[") {
		part = strings.TrimSuffix(part, "]")
		if part == "" {
			continue
		}
		key, value, found := strings.Cut(part, "=")
		want[key] = nil
		if found {
			want[key] = &value
		}
	}
	var out []*html.Node
	walk(doc, func(n *html.Node) {
		if tag != "" && n.Data != tag {
			return
		}
		for key, value := range want {
			if !hasAttr(n, key) || value != nil && attr(n, key) != *value {
				return
			}
		}
		out = append(out, n)
	})
	return out
}

// one is the element of a selector that must match exactly once.
func one(t *testing.T, doc *html.Node, selector string) *html.Node {
	t.Helper()
	found := all(doc, selector)
	if len(found) != 1 {
		t.Fatalf("%s: found %d times, want once", selector, len(found))
	}
	return found[0]
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func hasAttr(n *html.Node, key string) bool {
	for _, a := range n.Attr {
		if a.Key == key {
			return true
		}
	}
	return false
}

func text(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		b.WriteString(text(c))
	}
	return b.String()
}

// inside is the nearest element of that tag around n, nil for none.
func inside(n *html.Node, tag string) *html.Node {
	for p := n.Parent; p != nil; p = p.Parent {
		if p.Type == html.ElementNode && p.Data == tag {
			return p
		}
	}
	return nil
}
