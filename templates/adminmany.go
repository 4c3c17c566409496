package templates

import (
	"strings"
	"time"
)

// AdminSelected shows selected people, and what can be done to all of them at once. POST {base}/admin/users/selected
// with who (handles, repeatable or separated by spaces), or all=true and filter (the query of the list), and seen
// (how many the list had). With do it asks, and with sure=yes it does:
//
//	flags    flag.NAME (on or off) for each that changes
//	end      ends (a date), or never
//	suspend  reason, tell_reason
//	invite   -
type AdminSelected struct {
	// Selected are all of them.
	Selected []AdminUserRow
	Flags    []FlagChoice
	ByMail   bool // mail is on
	// Matched is how many the list had, if that is another number now; otherwise 0.
	Matched int
	// Do is the act that is asked about, "" for none, and Plan what it would do.
	Do   string
	Plan ManyPlan
	Answer
	// Faults has the error sentences by field name. Reason, Tell, Ends and Never were typed.
	Faults       map[string]string
	Reason, Ends string
	Tell, Never  bool
}

// FlagChoice is a flag with what becomes of it: "", "on" or "off".
type FlagChoice struct{ Name, Choice string }

// Field is the name of its field.
func (f FlagChoice) Field() string { return "flag." + f.Name }

// ManyPlan is what an act on many people would do.
type ManyPlan struct {
	Change, Same []AdminUserRow
	Obstacles    []Obstacle
	Did          []ActRow // by administrators who lose their power
}

// Obstacle is a person to whom the act cannot be done, and why.
type Obstacle struct {
	User   AdminUserRow
	Reason string
}

// Others are the selected people who do not stand in the way.
func (p ManyPlan) Others() []AdminUserRow {
	return append(append([]AdminUserRow{}, p.Change...), p.Same...)
}

// Who returns the handles of people for the field who.
func (AdminSelected) Who(people []AdminUserRow) string {
	var all []string
	for _, p := range people {
		all = append(all, p.Handle)
	}
	return strings.Join(all, " ")
}

// Asked are the fields of the act that is asked about.
func (p AdminSelected) Asked() []FormField {
	all := []FormField{{"do", p.Do}}
	for _, f := range p.Flags {
		if p.Do == "flags" && f.Choice != "" {
			all = append(all, FormField{f.Field(), f.Choice})
		}
	}
	if p.Do == "end" {
		if all = append(all, FormField{"ends", p.Ends}); p.Never {
			all = append(all, FormField{"never", "true"})
		}
	}
	if p.Do == "suspend" {
		if all = append(all, FormField{"reason", p.Reason}); p.Tell {
			all = append(all, FormField{"tell_reason", "true"})
		}
	}
	return all
}

// shownPeople is how many people a list names.
const shownPeople = 20

// peopleList names some people, and says how many more there are.
type peopleList struct {
	ID    string
	Named []AdminUserRow
	More  int
}

// List returns the list of people with an id.
func (AdminSelected) List(id string, people []AdminUserRow) peopleList {
	named := people[:min(len(people), shownPeople)]
	return peopleList{id, named, len(people) - len(named)}
}

// LastDay is the day that was chosen, for the question.
func (p AdminSelected) LastDay() time.Time {
	day, _ := time.Parse(time.DateOnly, p.Ends)
	return day
}

func (AdminSelected) page() (string, bool) { return "admin-selected", false }

func (p AdminSelected) fault(field string) (string, bool) { return p.Faults[field], false }

// AdminPaste adds many people from a list. POST {base}/admin/users/paste with people (the list, a line each: name,
// address, flags, handle) shows what would happen, and with sure=yes it does.
type AdminPaste struct {
	// People is the list as typed; Checked has the handles too, for the form that adds them.
	People, Checked string
	Lines           []PastedLine
	Added, Bad      int // lines that would be added, and those that are refused
	Flags           []string
	ByMail          bool
	Apps            []AppRow // and App: as in AccountInvites
	App             string
	Fault           string // why the list cannot be read, "" if it can
	// Done is set once they are added. Links are those to pass on; only that response shows them.
	Done  bool
	Links []PastedLink
	Answer
}

// PastedLine is a line of the list. Member is the handle of the person who has the address already; Faults say why
// it is refused. A person who is added gets a mail with ByMail, and otherwise a link to pass on.
type PastedLine struct {
	Number                      int
	Name, Email, Handle, Member string
	Shares                      string // another account or line with the address
	Flags, Faults               []string
	FlagEnds                    []FlagEnd
	Ends                        time.Time
	ByMail                      bool
}

// PastedLink is the link with which a person chooses a password.
type PastedLink struct{ Handle, URL string }

func (AdminPaste) page() (string, bool) { return "admin-paste", false }

func (p AdminPaste) fault(field string) (string, bool) {
	return p.Fault, p.Fault == "" && p.Error != ""
}
