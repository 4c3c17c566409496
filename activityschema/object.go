package activityschema

// object reads an object, which begins at pos.
func (s *scanner) object(sh *shape) bool {
	at := s.offset()
	if sh.kinds&kindObject == 0 {
		if !s.unfit(sh, "type", at, "object") {
			return false
		}
		sh = anything
	}
	l, ok := s.enter(sh)
	if !ok {
		return false
	}
	var seen uint64
	last := 0 // property of the member before, counted from 1
	if s.buf[s.pos] <= ' ' && !s.space() {
		return false
	}
	if s.buf[s.pos] == '}' {
		return s.closeObject(sh, l, at, seen)
	}
	for {
		child := anything
		nameAt, wide := s.offset(), s.wide
		property, ok := s.memberName(sh, l, last)
		if !ok {
			return false
		}
		if property != isUnlisted {
			if seen>>property&1 != 0 && !s.duplicate(nameAt, wide, sh.properties[property].name) {
				return false
			}
			seen |= 1 << property
			last = property + 1
			child = sh.properties[property].shape
			if sh == s.plan.root {
				s.meet(property, nameAt)
			}
		} else if !s.unlistedMember(sh, l, nameAt, wide) {
			return false
		}
		if s.buf[s.pos] <= ' ' && !s.space() || !s.value(child) {
			return false
		}
		if s.buf[s.pos] <= ' ' && !s.space() {
			return false
		}
		switch s.buf[s.pos] {
		case ',':
			s.pos++
		case '}':
			return s.closeObject(sh, l, at, seen)
		default:
			return s.unexpected("a comma or '}'")
		}
		if s.buf[s.pos] <= ' ' && !s.space() {
			return false
		}
	}
}

// closeObject ends an object that began at an offset, and notes what it lacks.
// What the document itself lacks depends on its form.
func (s *scanner) closeObject(sh *shape, l *level, at int64, seen uint64) bool {
	s.leave(l)
	for _, property := range sh.required {
		if seen>>property&1 == 0 && s.wants() && !s.add(missing(s.pointer(s.depth), at, sh.properties[property].name)) {
			return false
		}
	}
	return true
}

// memberName reads a name and the colon after it, and returns its property.
// The name of an unlisted one is the last of s.names then.
//
// The members of one kind of object mostly come in one order. So the first
// guess is the one that followed last property the last time, and it is
// compared as it stands in the document, quotes and all.
func (s *scanner) memberName(sh *shape, l *level, last int) (int, bool) {
	if s.pos > s.safe && !s.fill() {
		return 0, false
	}
	if sh.closed {
		guess := int(s.next[sh.slot+last])
		quoted := sh.properties[guess].quoted
		if string(s.buf[s.pos:][:len(quoted)]) == quoted {
			s.pos += len(quoted)
			l.property = guess
			return guess, true
		}
	}
	if s.buf[s.pos] != '"' {
		return 0, s.unexpected("a member name")
	}
	if !s.nameText(sh, l) {
		return 0, false
	}
	if sh.closed && l.property != isUnlisted {
		s.next[sh.slot+last] = uint8(l.property)
	}
	if s.buf[s.pos] <= ' ' && !s.space() {
		return 0, false
	}
	if s.buf[s.pos] != ':' {
		return 0, s.unexpected("a colon")
	}
	s.pos++
	return l.property, true
}

// unlistedMember notes the member that s.naming has read, if it must not be
// there.
func (s *scanner) unlistedMember(sh *shape, l *level, at, wide int64) bool {
	if sh == s.plan.root {
		s.within = ""
	}
	switch {
	case s.half:
		// Such names all decode to the same: they cannot be told apart.
		if !s.notIJSON(KeywordUTF8, at, wide, "the member's name has half a surrogate pair (RFC 7493, section 2.1)") {
			return false
		}
	case s.twice(l):
		if !s.duplicate(at, wide, string(s.names[l.from:l.to])) {
			return false
		}
	}
	if !sh.closed || !s.wants() {
		return true
	}
	return s.add(unlisted(s.pointer(s.depth), at, string(s.names[l.from:l.to])))
}

// duplicate notes that the member being read was there before.
func (s *scanner) duplicate(at, wide int64, name string) bool {
	return s.notIJSON(KeywordDuplicate, at, wide, memberNamed(name)+" occurs twice in one object")
}
