package activityschema

import (
	"slices"
	"strconv"
)

// A list is an array of custom, as far as positions may be in it: one of two
// numbers, one of numbers that are pairs one after another, or one of such arrays.
type list struct {
	numbers []coordinate
	items   []int     // of the array that numbers are
	lists   []sublist // the items that are arrays with more than one number
	others  bool      // there are items that are something else, and not null
}

type sublist struct {
	list
	item int
}

// number adds text to an empty list if it is a number.
func (l *list) number(text string) bool {
	n, ok := coordinateOf(text)
	if ok {
		l.numbers, l.items = []coordinate{n}, []int{0}
	}
	return ok
}

// add notes an item. One that is neither number nor array spoils neither:
// [47.1, 8.2, null] still shows a position.
func (l *list) add(i int, item list) {
	switch {
	case len(item.lists) == 0 && len(item.numbers) == 0:
		l.others = l.others || item.others
	case len(item.lists) == 0 && len(item.numbers) == 1 && !item.others:
		l.numbers, l.items = append(l.numbers, item.numbers[0]), append(l.items, i)
	default:
		l.lists = append(l.lists, sublist{item, i})
	}
}

// pair returns the first two numbers of an array of two or of three, the third
// being the elevation.
func (l *list) pair() (reading, bool) {
	if n := len(l.numbers); n != 2 && n != 3 {
		return reading{}, false
	}
	return reading{lat: l.numbers[0], lon: l.numbers[1]}, true
}

// pairs calls yield with each pair in l.
func (l *list) pairs(yield func(r reading)) {
	for i := range l.lists {
		l.lists[i].pairs(yield)
	}
	if r, ok := l.pair(); ok {
		yield(r)
	}
}

// onlyPairs tells whether l holds nothing but pairs; with bare, whether these
// hold nothing but their numbers.
func (l *list) onlyPairs(bare bool) bool {
	if len(l.lists) == 0 {
		_, ok := l.pair()
		return ok && !(bare && l.others)
	}
	return len(l.numbers) == 0 && !l.others && !slices.ContainsFunc(l.lists, func(s sublist) bool { return !s.onlyPairs(bare) })
}

// judge reports the value just read if it is a position, or what of it is.
func (s *customSearch) judge(kind nameKind, l *list) {
	if kind == nameMeasure {
		return
	}
	n := len(l.numbers)
	flat := n == 4 && kind == nameBox || n >= 4 && n%2 == 0 && (kind == namePosition || kind == namePolyline || kind == namePlace)
	if !flat {
		s.tables(l)
	}
	var all []reading
	l.pairs(func(r reading) { all = append(all, r) })
	if flat {
		for i := 0; i < n; i += 2 {
			all = append(all, reading{lat: l.numbers[i], lon: l.numbers[i+1]})
		}
		if all = likely(kind, all); s.hides(all) && !s.shown(l.flat(s.longestM)) {
			s.reportNumbers(l)
		}
		return
	}
	if kind == nameOther && (len(all) < leastRows && l.onlyVectors() || !s.maybeWay(all)) {
		return
	}
	all = likely(kind, all)
	if !s.hides(all) {
		return
	}
	if s.privacy == PrivacyBlurStart {
		if all = slices.DeleteFunc(all, func(r reading) bool { return !s.beyond(r) }); len(all) == 0 {
			s.report() // for what it shows as a whole
			return
		}
	}
	s.reportPairs(l, &all)
}

// reportPairs reports the pairs of l that are next in shown: l as a whole if it
// holds nothing else, otherwise item by item, so that who removes
// what is reported removes no more than that. For programs that do so, what stands
// beside the numbers of a pair, a name or a note, counts as something else.
func (s *customSearch) reportPairs(l *list, shown *[]reading) {
	next := func(r reading) {
		if len(*shown) > 0 && (*shown)[0] == r {
			*shown = (*shown)[1:]
		}
	}
	left := len(*shown)
	if l.onlyPairs(s.l.all) {
		if l.pairs(next); len(*shown) < left {
			s.report()
		}
		return
	}
	for i := range l.lists {
		s.within(l.lists[i].item, func() { s.reportPairs(&l.lists[i].list, shown) })
	}
	left = len(*shown)
	if r, ok := l.pair(); ok {
		if next(r); len(*shown) < left {
			s.reportNumbers(&list{items: l.items[:2], others: true})
		}
	}
}

// reportNumbers reports l for its numbers.
func (s *customSearch) reportNumbers(l *list) {
	if !s.l.all || !l.others && len(l.lists) == 0 {
		s.report()
		return
	}
	for _, item := range l.items {
		s.report(strconv.Itoa(item))
	}
}
