package activityschema

import (
	"cmp"
	"fmt"
	"slices"
)

// mostText is about how much text an answer may have, in bytes, and the most
// that a pointer has: a document of long member names must not make an answer
// many times its size.
const mostText = 1 << 20

// problemList is a list of problems that is full at some number of them, or at
// mostText.
type problemList struct {
	problems []Problem
	text     int
}

func (l *problemList) full(most int) bool { return len(l.problems) >= most || l.text >= mostText }

func (l *problemList) add(p Problem) {
	l.problems = append(l.problems, p)
	l.text += len(p.Pointer) + len(p.Message) + len(p.Found) + len(p.Expected)
}

// inOrder sorts problems by their place and returns as many as an answer may
// have. Those of one place stay in the order of the schema's keywords.
func inOrder(problems []Problem, most int) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Offset, b.Offset) })
	var answer problemList
	for _, p := range problems {
		if answer.full(most) {
			break
		}
		answer.add(p)
	}
	return answer.problems
}

// A collector gathers the problems of one document while its form is not known
// yet, and decides at the end which of them count.
type collector struct {
	plan *plan
	most int

	// fault is why the document is no JSON: then nothing else counts.
	fault *Problem
	// json are the problems by which it is no I-JSON: then the schema is not
	// asked.
	json problemList
	// byForm are the problems inside the members of one form only, and the
	// others under the empty Form.
	byForm [3]problemList

	within   Form   // the form whose member is being read
	rootAt   int64  // offset of the document's value
	present  uint64 // members of the document that were there, by property of the plan's root
	nameAt   [mostProperties]int64
	isOther  bool // the document is not an object
	complete bool // it was read to its end
}

// reset begins a document.
func (c *collector) reset(p *plan, most int) { *c = collector{plan: p, most: most} }

func formIndex(form Form) int {
	switch form {
	case FormIndex:
		return 1
	case FormDetail:
		return 2
	}
	return 0
}

// wants tells whether a problem found by the schema would be kept.
func (c *collector) wants() bool {
	return len(c.json.problems) == 0 && !c.byForm[formIndex(c.within)].full(c.most)
}

// add takes a problem found by the schema; false means that enough are known
// to answer with, whatever follows.
func (c *collector) add(p Problem) bool {
	c.byForm[formIndex(c.within)].add(p)
	form := c.form()
	if form == "" {
		return true
	}
	both, own := &c.byForm[0], &c.byForm[formIndex(form)]
	return len(both.problems)+len(own.problems) < c.most && both.text+own.text < mostText
}

// addJSON takes a problem with what is not I-JSON.
func (c *collector) addJSON(p Problem) bool {
	c.json.add(p)
	return !c.json.full(c.most)
}

// meet notes a member of the document itself, whose name is at an offset.
func (c *collector) meet(property int, at int64) {
	c.present |= 1 << property
	c.nameAt[property] = at
	c.within = c.plan.root.properties[property].form
}

// form returns the form that the document was meant to be, as far as its
// members have been read.
func (c *collector) form() Form {
	return meantForm(func(name string) bool {
		return c.present>>c.plan.root.find([]byte(name))&1 != 0
	})
}

// answer returns the form of the document and its problems in their order.
func (c *collector) answer() (Form, []Problem) {
	switch {
	case c.fault != nil:
		return "", []Problem{*c.fault}
	case len(c.json.problems) > 0:
		return "", inOrder(c.json.problems, c.most)
	case c.isOther:
		return "", c.byForm[0].problems
	}
	form := c.form()
	if form == "" {
		return "", []Problem{noForm(c.rootAt)}
	}
	found := slices.Concat(c.byForm[0].problems, c.byForm[formIndex(form)].problems)
	for i, p := range c.plan.root.properties {
		if c.present>>i&1 != 0 && p.form != "" && p.form != form {
			found = append(found, unlisted("/"+p.name, c.nameAt[i], p.name))
		}
	}
	if c.complete {
		for _, i := range c.plan.required[form] {
			if c.present>>i&1 == 0 {
				found = append(found, missing("", c.rootAt, c.plan.root.properties[i].name))
			}
		}
	}
	return form, inOrder(found, c.most)
}

// noForm is the problem of an object none of whose members tells a form.
func noForm(at int64) Problem {
	return Problem{Offset: at, Keyword: "oneOf", Message: "must be " + formsWanted, Found: "object", Expected: formsWanted}
}

// unlisted is the problem of a member that must not be there.
func unlisted(pointer string, at int64, name string) Problem {
	found := memberNamed(name)
	return Problem{
		Pointer: pointer, Offset: at, Keyword: "additionalProperties",
		Message: messageOf("additionalProperties", "", found), Found: found,
	}
}

// missing is the problem of an object at pointer that lacks a member.
func missing(pointer string, at int64, name string) Problem {
	expected := memberNamed(name)
	return Problem{
		Pointer: pointer, Offset: at, Keyword: "required",
		Message: messageOf("required", expected, ""), Expected: expected,
	}
}

// unfit is the problem of a value that is not as keyword has it.
func unfit(pointer string, at int64, keyword, expected, found string) Problem {
	return Problem{
		Pointer: pointer, Offset: at, Keyword: keyword,
		Message: messageOf(keyword, expected, found), Found: found, Expected: expected,
	}
}

// tooLarge is the problem of a document of more than limit bytes.
func tooLarge(limit int64) Problem {
	return Problem{Offset: limit, Keyword: KeywordSize, Message: fmt.Sprintf("larger than %d bytes", limit)}
}
