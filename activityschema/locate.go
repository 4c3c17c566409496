package activityschema

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/qri-io/jsonschema"
)

// locate turns what the library found into problems: it reads data, which is
// valid JSON, once more for the bytes at which the values stand that the
// pointers lead to.
func locate(ctx context.Context, data []byte, failures []jsonschema.KeyError) ([]Problem, error) {
	root := new(place)
	for _, failure := range failures {
		at := root
		for _, token := range strings.Split(failure.PropertyPath, "/")[1:] {
			at = at.make(pointerUnescapes.Replace(token))
		}
		at.failures = append(at.failures, failure)
	}
	l := &locator{ctx: ctx, data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	l.dec.UseNumber()
	if err := l.value(root, 0, ""); err != nil {
		return nil, err
	}
	return l.problems, nil
}

var pointerUnescapes = strings.NewReplacer("~1", "/", "~0", "~")

// A place is a place of a document at or below which something failed.
type place struct {
	below    map[string]*place
	failures []jsonschema.KeyError
}

// make returns the place of a member or item, which it makes if need be.
func (p *place) make(token string) *place {
	if p.below[token] == nil {
		if p.below == nil {
			p.below = map[string]*place{}
		}
		p.below[token] = new(place)
	}
	return p.below[token]
}

// find returns the place of a member or item, nil if nothing failed there.
func (p *place) find(token string) *place {
	if p == nil {
		return nil
	}
	return p.below[token]
}

// A locator reads a document token by token.
type locator struct {
	ctx      context.Context
	data     []byte
	dec      *json.Decoder
	tokens   int
	problems []Problem
}

// token returns the next token and where it begins.
func (l *locator) token() (json.Token, int64, error) {
	if l.tokens++; l.tokens%4096 == 0 {
		if err := l.ctx.Err(); err != nil {
			return nil, 0, err
		}
	}
	at := l.dec.InputOffset()
	token, err := l.dec.Token()
	for at < int64(len(l.data)) && strings.IndexByte(" \t\r\n,:", l.data[at]) >= 0 {
		at++
	}
	return token, at, err
}

// value reads the value at p, which is that of the member name at an offset,
// or an item.
func (l *locator) value(p *place, nameAt int64, name string) error {
	token, at, err := l.token()
	if err != nil {
		return err
	}
	items := 0
	if token == json.Delim('{') || token == json.Delim('[') {
		for l.dec.More() {
			step, stepAt := "", int64(0)
			if token == json.Delim('{') {
				var key json.Token
				if key, stepAt, err = l.token(); err != nil {
					return err
				}
				step, _ = key.(string)
			} else if p != nil {
				step = strconv.Itoa(items)
			}
			if err := l.value(p.find(step), stepAt, step); err != nil {
				return err
			}
			items++
		}
		if _, _, err := l.token(); err != nil { // the closing bracket
			return err
		}
	}
	if p != nil {
		for _, failure := range p.failures {
			l.problems = append(l.problems, l.problem(failure, at, nameAt, name, items))
		}
	}
	return nil
}

func (l *locator) problem(failure jsonschema.KeyError, at, nameAt int64, name string, items int) Problem {
	why, _ := failure.InvalidValue.(failed)
	pointer := cutPointer(failure.PropertyPath)
	switch why.keyword {
	case "additionalProperties":
		return unlisted(pointer, nameAt, name)
	case "required":
		return missing(pointer, at, why.expected)
	}
	found := foundAt(l.data[at:])
	if why.keyword == "minItems" || why.keyword == "maxItems" {
		found = foundArray(items)
	}
	return unfit(pointer, at, why.keyword, why.expected, found)
}

// foundAt shows the value that valid JSON begins with.
func foundAt(data []byte) string {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	token, _ := dec.Token() // data was read before
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return "object"
		}
		return "array"
	case string:
		return foundString(v)
	case json.Number:
		return foundNumber(v.String(), isWhole(v.String()))
	case bool:
		return fmt.Sprintf("boolean %t", v)
	}
	return "null"
}
