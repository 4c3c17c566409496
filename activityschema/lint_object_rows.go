package activityschema

// A memberRow is an array that is a member of an object of a list, with the name that the
// others have, too: {"metrics": [145, 1747463412, 47.37129, 8.54211]}.
type memberRow struct {
	item   int // of the list
	name   string
	values list
}

// leastMembers are the numbers of such a row. Fewer are judged as a pair.
const leastMembers = 4

// memberRow notes the value just read for the list of the object that it is a member of.
func (s *customSearch) memberRow(name string, l *list) {
	d := s.drawing
	if d == nil || len(s.path) != d.depth+2 || len(l.numbers) < leastMembers || len(l.lists) > 0 {
		return
	}
	d.rows = append(d.rows, memberRow{d.item, name, *l})
}

// judgeMemberRows reports the rows in the objects of the list just read that show
// positions.
func (s *customSearch) judgeMemberRows(d *drawing) {
	byName := make(map[string][]int, 1)
	var names []string
	for i, r := range d.rows {
		if byName[r.name] == nil {
			names = append(names, r.name)
		}
		byName[r.name] = append(byName[r.name], i)
	}
	for _, name := range names {
		if len(byName[name]) < 2 {
			continue
		}
		var rows []row
		for _, i := range byName[name] {
			rows = append(rows, rowOf(&d.rows[i].values))
		}
		columns := columnsOf(rows, false, s.longestM)
		if len(columns) == 0 || s.amongMeasures() {
			continue
		}
		switch {
		case s.shown(waysOf(rows, columns)):
		case s.l.all:
			for k, i := range byName[name] {
				items := rows[k].pairs(columns)
				if len(items) == 0 {
					continue
				}
				s.within(d.rows[i].item, func() {
					s.path = append(s.path, name)
					s.reportNumbers(&list{items: items, others: true})
					s.path = s.path[:len(s.path)-1]
				})
			}
		default:
			s.report()
			return
		}
	}
}
