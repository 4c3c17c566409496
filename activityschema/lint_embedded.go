package activityschema

import (
	"encoding/json"
	"strings"
)

// embedded reports a text that is JSON and holds a position, and tells whether it did. In
// such JSON a text is a text: one level is what programs write that have only texts.
func (s *customSearch) embedded(text string, kind nameKind) bool {
	text = strings.TrimSpace(text)
	if s.inText || text == "" || text[0] != '{' && text[0] != '[' || !json.Valid([]byte(text)) {
		return false
	}
	l, dec, around := s.l, s.dec, s.drawing
	s.l, s.dec, s.drawing, s.inText = &linter{}, json.NewDecoder(strings.NewReader(text)), nil, true
	s.dec.UseNumber()
	found, _ := s.value(kind)
	s.judge(kind, &found)
	shows := len(s.l.findings) > 0
	s.l, s.dec, s.drawing, s.inText = l, dec, around, false
	if shows {
		s.report()
	}
	return shows
}
