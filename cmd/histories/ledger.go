package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// audited are the actions of which each accepted step writes exactly one row.
var audited = map[string]string{
	"signin": "session.create", "confirm": "session.confirm", "password": "password.change", "reset": "password.reset",
	"resetcode": "user.reset_code", "notme": "session.not_me", "endall": "user.end_sessions",
	"end": "session.end", "endone": "user.end_session", "removeapp": "app.remove", "email": "email.change", "ends": "user.end",
	"resetfactors": "user.reset_factors", "suspend": "user.suspend", "unsuspend": "user.unsuspend", "flag": "user.flags",
	"addapp": "factor.add", "endothers": "session.end_others", "logout": "session.sign_out",
	// Of other kinds than account.
	"reset use": "password.reset", "undo use": "email.undo", "mailed use": "email.verify", "recovery use": "factor.recovery_code_used",
	"factor signin": "session.create", "factor remove": "factor.remove", "passkey signin": "session.create", "passkey remove": "factor.remove",
}

// idle are those that have no row if nothing was to be done.
var idle = []string{"endall", "suspend", "unsuspend", "flag", "endothers", "logout"}

// surely is said of an act of idle that has something to do, if every request before it was answered.
const surely = "surely"

// mailed are the subjects of the mails that each accepted step sends; those of idle have one at least.
var mailed = map[string]string{
	"password": "Your password was changed", "reset": "Your password was changed", "resetcode": "A code for a new password was created",
	"resetfactors": "Your second factors were removed", "suspend": "Your account is suspended", "flag": "Your access was changed",
	"ends": "The end of your account was changed", "endone": "You were signed out", "signin": "Sign-in from a new device",
	"addapp": "A way to sign in was added", "delete": "Your account is deleted", "leave": "Your account is deleted",
}

// lateFault is a fault that is found after the history has ended.
type lateFault struct {
	history *history
	why     []string
}

// debts are the mails that are owed to people.
type debts struct {
	mu  sync.Mutex
	all []debt
}

type debt struct {
	history *history
	to      string
	want    map[string]int // by subject
	order   [][2]string    // subjects of which the first is due before the last of the second
}

// owes checks the audit log of a history's person, and notes the mails that they have to get.
func (w *world) owes(ctx context.Context, h *history, p *person) (wrong []string) {
	least, most := map[string]int{}, map[string]int{}
	mails := map[string]int{}
	var order [][2]string
	roots := rootsOf(&h.script)
	ends := slices.ContainsFunc(h.operations, func(op operation) bool { return op.Do == "ends" })
	prefix := ""
	if h.Kind != "account" {
		prefix = h.Kind + " "
	}
	for _, op := range h.operations {
		if (op.Do == "delete" || op.Do == "leave") && op.outcome != refused { // the log and the outbox forget a deleted person, but for this
			if op.outcome == accepted {
				w.owe(debt{h, p.email, map[string]int{mailed[op.Do]: 1}, nil})
				return w.stays(ctx, p)
			}
			return nil
		}
		action, has := audited[prefix+op.Do]
		if n, _ := strconv.Atoi(op.With); op.Do == "end" && roots[n] == roots[op.On] { // one's own
			action = audited["logout"]
		}
		if !has {
			continue
		}
		if op.Do == "addapp" && op.outcome != refused { // its code confirms who it is
			if most["session.confirm"]++; op.outcome == accepted {
				least["session.confirm"]++
			}
		}
		switch op.outcome {
		case accepted:
			if !slices.Contains(idle, op.Do) {
				least[action]++
			} else if op.Do == "flag" || op.Do == "suspend" && !ends || op.With == surely && len(h.operations) == len(h.Steps) {
				least[action] = 1
			}
			most[action]++
			if subject := mailed[op.Do]; subject != "" && !(op.Do == "suspend" && ends) {
				if mails[subject]++; slices.Contains(idle, op.Do) || op.Do == "signin" {
					mails[subject] = 1
				}
				for _, later := range h.operations {
					if next := mailed[later.Do]; next != "" && next != subject && later.outcome == accepted && later.call > op.answer && later.Do != "signin" && !slices.Contains(idle, later.Do) {
						order = append(order, [2]string{subject, next})
					}
				}
			}
		case unknown:
			most[action]++
		}
	}
	// A second suspension has none, unless the first was lifted between.
	most["user.suspend"] = min(most["user.suspend"], 1+most["user.unsuspend"])
	rows := w.rowsOf(ctx, p.handle)
	if rows == nil {
		return nil
	}
	for do, action := range audited {
		if strings.HasPrefix(do, prefix) != (prefix != "" || !strings.Contains(do, " ")) {
			continue
		}
		if n := rows[action]; n < least[action] || n > most[action] {
			wrong = append(wrong, fmt.Sprintf("the audit log has %d rows %s of %d acknowledged and %d possible operations", n, action, least[action], most[action]))
		}
	}
	slices.Sort(wrong)
	w.owe(debt{h, p.email, mails, order})
	return slices.Compact(wrong)
}

// owe notes mails that somebody with an address has to get.
func (w *world) owe(d debt) {
	if w.debts.mu.Lock(); d.to != "" && len(d.want) > 0 {
		w.debts.all = append(w.debts.all, d)
	}
	w.debts.mu.Unlock()
}

// stays checks that the handle of somebody who was deleted stays taken.
func (w *world) stays(ctx context.Context, p *person) []string {
	invite := w.manage(ctx, w.any(), "POST", "/api/invites", map[string]string{}).given("code")
	r := w.api(ctx, w.any(), "POST", "/api/register", "", map[string]string{"code": invite, "handle": p.handle, "password": password})
	if out, _ := r.result(); out == accepted {
		return []string{"no order of these requests explains that somebody else got the handle of a deleted person"}
	}
	return nil
}

// mailTo waits for a mail that was asked for before a history began. Without it there is no history, but it
// has to come.
func (w *world) mailTo(ctx context.Context, s *script, to, subject string, fits func(text string) bool) (string, error) {
	text, err := w.mail.wait(ctx, to, 15*time.Second, fits)
	if err != nil && ctx.Err() == nil {
		w.owe(debt{&history{script: *s}, to, map[string]int{subject: 1}, nil})
	}
	return text, err
}

// rowsOf counts the rows of the audit log about a person by their action; nil: it cannot be read.
func (w *world) rowsOf(ctx context.Context, handle string) map[string]int {
	r := w.retry(ctx, func(at int) reply {
		return w.manage(ctx, at, "GET", "/api/admin/audit?limit=200&person="+url.QueryEscape(handle), nil)
	})
	if r.status != http.StatusOK {
		return nil
	}
	rows := map[string]int{}
	events, _ := r.json["events"].([]any)
	for _, e := range events {
		if event, ok := e.(map[string]any); ok {
			rows[fmt.Sprint(event["action"])]++
		}
	}
	return rows
}

// owesToo checks one of the others to whom acts of a history were done: each has a row, a second suspension
// has none, and their session has ended.
func (w *world) owesToo(ctx context.Context, h *history, p *person) (wrong []string) {
	rows := w.rowsOf(ctx, p.handle)
	for _, do := range []string{"suspend", "flag"} {
		least, most := 0, 0
		for _, op := range h.operations {
			if op.Do == do && op.outcome != refused {
				most++
			}
			if op.Do == do && op.outcome == accepted {
				least = 1
			}
		}
		if do == "suspend" {
			most = min(most, 1)
		}
		if n := rows[audited[do]]; rows != nil && (n < least || n > most) {
			wrong = append(wrong, fmt.Sprintf("the audit log has %d rows %s of somebody else to whom that was done at least %d times, at most %d", n, audited[do], least, most))
		}
		if o, _ := w.read(0, func(at int) reply { return w.api(ctx, at, "GET", "/api/me", p.held, nil) }); least == 1 && o == accepted {
			wrong = append(wrong, "somebody else lives on after "+do)
		}
	}
	return wrong
}

// missing says what a person has not got, or not in order.
func (w *world) missing(d debt) (why []string) {
	came := map[string][]int{}
	for i, text := range w.mail.of(d.to) {
		for subject := range d.want {
			if strings.Contains(text, "Subject: "+subject) {
				came[subject] = append(came[subject], i)
			}
		}
	}
	for subject, n := range d.want {
		if got := len(came[subject]); got < n {
			why = append(why, fmt.Sprintf("%s got %d of %d mails %q", d.to, got, n, subject))
		}
	}
	for _, pair := range d.order {
		if first, last := came[pair[0]], came[pair[1]]; len(why) == 0 && first[0] > last[len(last)-1] {
			why = append(why, fmt.Sprintf("%s got the mail %q after %q", d.to, pair[0], pair[1]))
		}
	}
	return why
}

// mailLease is longer than a mail that an instance was sending when it was killed waits for another.
const mailLease = 150 * time.Second

// settle waits for the mails that are owed, and moves the clocks on meanwhile.
func (w *world) settle(ctx context.Context, within time.Duration) (late []lateFault) {
	w.debts.mu.Lock()
	open := w.debts.all
	w.debts.all = nil
	w.debts.mu.Unlock()
	defer func() { _ = w.setClocks(0, 0) }()
	for began, end := time.Now(), time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		if time.Since(began) > 3*time.Second {
			_ = w.setClocks(int(mailLease/time.Second), 0)
		}
		open = slices.DeleteFunc(open, func(d debt) bool { return len(w.missing(d)) == 0 })
		if len(open) == 0 || time.Now().After(end) || ctx.Err() != nil {
			break
		}
	}
	for _, d := range open {
		if ctx.Err() == nil {
			late = append(late, lateFault{d.history, w.missing(d)})
		}
	}
	return late
}
