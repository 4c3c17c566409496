package activityschema

import (
	"reflect"
	"strings"
)

// A member is a member of an object of the format and the field that holds it.
type member struct {
	name  string
	field int
	// optional members are left out when their field is zero.
	optional bool
}

// memberList holds the members of one object in the order of its fields.
type memberList struct {
	all   []member
	named map[string]int // field by member name
}

// members are the objects of the format by the type that holds them. The struct
// tags are the only place where their names stand.
var members = func(objects ...any) map[reflect.Type]memberList {
	lists := map[reflect.Type]memberList{}
	for _, object := range objects {
		t := reflect.TypeOf(object)
		list := memberList{named: map[string]int{}}
		for i := range t.NumField() {
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			list.all = append(list.all, member{name: name, field: i, optional: options == "omitzero"})
			list.named[name] = i
		}
		lists[t] = list
	}
	return lists
}(Index{}, Owner{}, Shard{}, Summary{}, Detail{}, Lap{}, Timeseries{})
