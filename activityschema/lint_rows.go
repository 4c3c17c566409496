package activityschema

import (
	"slices"
	"strconv"
)

// mostColumns is how many columns of a list of rows are looked at. Samples have fewer.
const mostColumns = 32

// A row is an array of a list of arrays, or a part of a flat list that is to be
// read as one.
type row struct {
	*list
	from, to int // the numbers that belong to it
	first    int // the item that is its first column
}

// rowOf returns an array as a row.
func rowOf(l *list) row { return row{l, 0, len(l.numbers), 0} }

// columnsOf returns the columns of which each may be the first of two with
// positions, from the left. In a flat list, in which one column of measurements
// would look like two, they must be well apart.
func columnsOf(rows []row, flat bool, longestM float64) []int {
	var pairs [mostColumns]columnPair
	for _, r := range rows {
		for j := r.from; j < r.to; j++ {
			item := r.items[j]
			column := item - r.first
			if column >= mostColumns {
				break
			}
			if j > r.from && r.items[j-1] == item-1 {
				pairs[column-1].add(reading{lat: r.numbers[j-1], lon: r.numbers[j]})
			} else if column > 0 {
				pairs[column-1].halves++
			}
			if j+1 == r.to || r.items[j+1] != item+1 {
				pairs[column].halves++
			}
		}
	}
	var found []int
	for k := range pairs {
		if c := &pairs[k]; c.positions(longestM) && (!flat || c.apart == c.rows) {
			found = append(found, k)
		}
	}
	return found
}

// at returns where among its numbers r has one in a column and another in that
// after it.
func (r *row) at(column int) (j int, ok bool) {
	j, found := slices.BinarySearch(r.items[r.from:r.to], r.first+column)
	j += r.from
	return j, found && j+1 < r.to && r.items[j+1] == r.items[j]+1
}

// pairs returns the items of r that are the two of a position in one of the columns,
// each once: of two that overlap, the first one is the position.
func (r *row) pairs(columns []int) (items []int) {
	next := 0
	for _, column := range columns {
		if column < next {
			continue
		}
		next = column + 2
		if j, ok := r.at(column); ok {
			items = append(items, r.items[j:j+2]...)
		}
	}
	return items
}

func readingsOf(rows []row, column int) (all []reading) {
	for _, r := range rows {
		if j, ok := r.at(column); ok {
			all = append(all, reading{lat: r.numbers[j], lon: r.numbers[j+1]})
		}
	}
	return all
}

// waysOf returns what rows show if positions begin in one of the columns, for each.
func waysOf(rows []row, columns []int) (ways [][]reading) {
	for _, column := range columns {
		ways = append(ways, readingsOf(rows, column))
	}
	return ways
}

// flat returns the ways to read numbers that follow one another as positions:
// latitude and longitude alone, with an elevation, or with a time, too.
func (l *list) flat(longestM float64) (ways [][]reading) {
	if len(l.numbers) < 4 || len(l.lists) > 0 {
		return nil
	}
	for n := 2; n <= 4; n++ {
		items := l.items[len(l.items)-1] + 1
		if items%n != 0 || items == n {
			continue
		}
		var rows []row
		for from, to := 0, 0; from < len(l.items); from = to {
			first := l.items[from] / n * n
			for to = from; to < len(l.items) && l.items[to] < first+n; to++ {
			}
			rows = append(rows, row{l, from, to, first})
		}
		ways = append(ways, waysOf(rows, columnsOf(rows, true, longestM))...)
	}
	return ways
}

// rows returns those of a list of arrays, and which columns may begin positions. It
// returns none if pairs says as much: for arrays that begin with the position and
// have no more than an elevation besides.
func (l *list) rows(longestM float64) (rows []row, columns []int) {
	more := false
	for i := range l.lists {
		r := &l.lists[i].list
		rows = append(rows, rowOf(r))
		more = more || len(r.numbers) > 3 || r.others
	}
	columns = columnsOf(rows, false, longestM)
	if len(columns) > 0 && columns[0] == 0 && !more {
		return nil, nil
	}
	return rows, columns
}

// shown tells whether the cut track shows the positions in one of the ways to
// read them, which is then the right one.
func (s *customSearch) shown(ways [][]reading) bool {
	return s.privacy == PrivacyBlurStart && slices.ContainsFunc(ways, func(all []reading) bool { return !s.hides(all) })
}

// tables reports the lists of rows, and the flat lists, that show positions. It takes
// out of l what it understood.
func (s *customSearch) tables(l *list) {
	if ways := l.flat(s.longestM); ways != nil && !s.amongMeasures() {
		if !s.shown(ways) {
			s.reportNumbers(l)
		}
		l.numbers, l.items = nil, nil
		return
	}
	rows, columns := l.rows(s.longestM)
	if len(columns) == 0 || s.amongMeasures() {
		for i := range l.lists {
			s.within(l.lists[i].item, func() { s.tables(&l.lists[i].list) })
		}
		return
	}
	switch {
	case s.shown(waysOf(rows, columns)):
	case s.l.all:
		// The rest of a row, such as a heart rate, is not for those to remove
		// who remove the position.
		for i := range rows {
			if items := rows[i].pairs(columns); len(items) > 0 {
				s.within(l.lists[i].item, func() { s.reportNumbers(&list{items: items, others: true}) })
			}
		}
	default:
		s.report()
	}
	l.lists, l.others = nil, true
}

// within does something at an item of the value just read.
func (s *customSearch) within(item int, do func()) {
	s.path = append(s.path, strconv.Itoa(item))
	do()
	s.path = s.path[:len(s.path)-1]
}
