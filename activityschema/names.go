package activityschema

import "hash/maphash"

// Names that the schema does not list: the scanner keeps those on the way to
// the present value for pointers, and the sums of all in the open objects to
// find a member that is there twice.

// nameSum stands for a member name. Each process has seeds of its own, so that
// nobody can make a document in which two names have the same 128 bits.
type nameSum [2]uint64

// naming makes sums.
type naming struct {
	seeds [2]maphash.Seed
	pair  [2]maphash.Hash // of a name that comes in pieces
	sum   nameSum         // of the name read last
}

func newNaming() naming {
	return naming{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// begin begins a name that comes in pieces.
func (n *naming) begin() {
	for i := range n.pair {
		n.pair[i].SetSeed(n.seeds[i])
	}
}

func (n *naming) piece(text []byte) {
	for i := range n.pair {
		_, _ = n.pair[i].Write(text) // it never fails
	}
}

func (n *naming) end() { n.sum = nameSum{n.pair[0].Sum64(), n.pair[1].Sum64()} }

// whole sums a name that is there in one piece.
func (n *naming) whole(text []byte) {
	n.sum = nameSum{maphash.Bytes(n.seeds[0], text), maphash.Bytes(n.seeds[1], text)}
}

// nameText reads a member name as text, which begins at pos. It sets l.property,
// and of an unlisted name what is kept of it.
func (s *scanner) nameText(sh *shape, l *level) bool {
	s.names = s.names[:l.from]
	s.half, l.unnamed = false, false
	if text, ok := s.plainString(); ok {
		if l.property = sh.find(text); l.property != isUnlisted {
			return true
		}
		s.naming.whole(text)
		s.keepName(l, text)
		return true
	}
	s.naming.begin()
	if !s.longString(stringUse{keep: mostText, name: true}) {
		return false
	}
	if l.property = sh.find(s.text); l.property != isUnlisted {
		return true
	}
	s.naming.end()
	s.keepName(l, s.text)
	return true
}

// keepName adds an unlisted name to those on the way, unless a pointer could
// not repeat it anyway.
func (s *scanner) keepName(l *level, text []byte) {
	if len(s.names)+len(text) > mostText {
		l.unnamed = true
		text = text[:min(len(text), mostKept)] // enough for a message
	}
	s.names = append(s.names, text...)
	l.to = len(s.names)
}

// Up to few sums are compared one by one; more are put into a map, which is
// kept for the next object if it has no more than much.
const (
	few  = 32
	much = 4 * few
)

// twice tells whether the unlisted name that was read last has been in the
// object before, and remembers it.
func (s *scanner) twice(l *level) bool {
	own := s.hashes[l.hashes:]
	if len(own) < few {
		for _, sum := range own {
			if sum == s.naming.sum {
				return true
			}
		}
		s.hashes = append(s.hashes, s.naming.sum)
		return false
	}
	if len(l.many) == 0 {
		if l.many == nil {
			l.many = make(map[nameSum]struct{}, much)
		}
		for _, sum := range own {
			l.many[sum] = struct{}{}
		}
	}
	_, before := l.many[s.naming.sum]
	l.many[s.naming.sum] = struct{}{}
	return before
}

// forget empties what the level remembers, for the next object at its depth. A
// large map is let go, because each emptying would cost its whole size.
func (l *level) forget() {
	if len(l.many) > much {
		l.many = nil
	} else if len(l.many) > 0 {
		clear(l.many)
	}
}
