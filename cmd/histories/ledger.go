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
	"endothers": "session.end_others", "logout": "session.sign_out",
}

// idle are those that have no row if nothing was to be done.
var idle = []string{"endall", "suspend", "unsuspend", "flag", "endothers", "logout"}

// mailed are the subjects of the mails that each accepted step sends.
var mailed = map[string]string{"password": "Your password was changed", "reset": "Your password was changed", "resetcode": "A code for a new password was created"}

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
	for _, op := range h.operations {
		if op.Do == "delete" { // the log and the outbox forget a deleted person
			return nil
		}
		action, has := audited[op.Do]
		if n, _ := strconv.Atoi(op.With); op.Do == "end" && roots[n] == roots[op.On] { // one's own
			action = audited["logout"]
		}
		if !has {
			continue
		}
		switch op.outcome {
		case accepted:
			if !slices.Contains(idle, op.Do) {
				least[action]++
			} else if op.Do == "flag" || op.Do == "suspend" && !ends {
				least[action] = 1
			}
			most[action]++
			if subject := mailed[op.Do]; subject != "" {
				mails[subject]++
				for _, later := range h.operations {
					if next := mailed[later.Do]; next != "" && next != subject && later.outcome == accepted && later.call > op.answer {
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
	r := w.retry(ctx, func(at int) reply {
		return w.manage(ctx, at, "GET", "/api/admin/audit?limit=200&person="+url.QueryEscape(p.handle), nil)
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
	for _, action := range audited {
		if n := rows[action]; n < least[action] || n > most[action] {
			wrong = append(wrong, fmt.Sprintf("the audit log has %d rows %s of %d acknowledged and %d possible operations", n, action, least[action], most[action]))
		}
	}
	slices.Sort(wrong)
	if p.email != "" && len(mails) > 0 {
		w.debts.mu.Lock()
		w.debts.all = append(w.debts.all, debt{h, p.email, mails, order})
		w.debts.mu.Unlock()
	}
	return slices.Compact(wrong)
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
