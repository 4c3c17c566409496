package main

import "strconv"

// accountState is what the service must have of the account. Each bit is that of the step which
// made the thing.
type accountState struct {
	live                     uint64 // session tokens
	spent                    uint64 // codes and refresh tokens
	renewed                  uint64 // sessions from before the reset that set the password
	made, ended              uint64 // grants
	suspended, deleted, flag bool
	disowned                 bool // the password
	factor                   bool // the password alone opens nothing
	due                      bool // the account has ended by itself, with its sessions a little later
	password, reset          int8 // the step that set it; of reset: -2 for none
}

// accountModel is that of a person's account. With a grace, a refresh token that was used once is
// good for a while.
func accountModel(grace bool) func(s *script) model {
	return func(s *script) model {
		roots, by := rootsOf(s), map[int]step{}
		for _, st := range s.Steps {
			by[st.ID] = st
		}
		a := accountRules{roots: roots, by: by, grace: grace, api: forAPI(s), flagged: flagged(s), late: s.Fault != ""}
		return model{begin: accountState{live: bit(-1), password: -1, reset: -2, flag: true}, next: a.next}
	}
}

type accountRules struct {
	roots map[int]int
	by    map[int]step
	grace bool
	api   bool
	// flagged: the application requires the flag. late: a fault may keep from the list what ended by itself.
	flagged, late bool
}

// alive reports whether some token of the session counts.
func (a accountRules) alive(st accountState, root int) bool {
	for token, of := range a.roots {
		if of == root && st.live&bit(token) != 0 {
			return true
		}
	}
	return false
}

// endSessions ends the sessions for which which holds, and of the grants that they made those that
// a sign-out ends, or all.
func (a accountRules) endSessions(st accountState, all bool, which func(root int) bool) accountState {
	for token, root := range a.roots {
		if which(root) {
			st.live &^= bit(token)
		}
	}
	for id, s := range a.by {
		// offline_access outlives the session (OpenID Connect Core section 11), but not as a code
		// that no client has spent.
		if s.Do == "authorize" && which(a.roots[s.On]) && (all || s.With != "offline" || st.spent&bit(id) == 0) {
			st.ended |= bit(id)
		}
	}
	return st
}

// endAccess ends everything.
func (a accountRules) endAccess(st accountState) accountState {
	st = a.endSessions(st, true, func(int) bool { return true })
	st.reset = -2
	return st
}

// after is the state after what an administrator does, or the owner of the mailbox.
func (a accountRules) after(st accountState, s step) accountState {
	switch {
	case s.Do == "resetcode":
		st.reset = int8(s.ID)
	case s.Do == "notme": // no password counts, and the page has a code for another
		st = a.endAccess(st)
		st.disowned, st.reset = true, int8(s.ID)
	case s.Do == "unsuspend":
		st.suspended = false
	case (s.Do == "suspend" || s.Do == "ends") && (st.suspended || st.deleted): // nothing more ends
	case s.Do == "flag":
		if st.flag { // the tokens of an API may have it
			st = a.endSessions(st, a.api, func(int) bool { return true })
		}
		st.flag = false
	default:
		st = a.endAccess(st)
		st.suspended = st.suspended || s.Do != "endall" && s.Do != "resetfactors"
		st.deleted, st.due = s.Do == "delete", st.due || s.Do == "ends"
	}
	return st
}

func (a accountRules) next(state any, s step, o outcome) []any {
	st := state.(accountState)
	q := asked{accountRules: a, st: st, s: s, yes: o == accepted, root: a.roots[s.On]}
	q.live = st.live&bit(s.On) != 0 || s.proven
	q.right = strconv.Itoa(int(st.password)) == s.With || st.password == -1 && s.With == ""
	q.lacks = a.flagged && !st.flag
	for _, of := range []func(asked) ([]any, bool){asked.session, asked.ownAct, asked.managed, asked.grant} {
		if states, has := of(q); has {
			return states
		}
	}
	panic("no step " + s.Do)
}

// asked is a request and its answer in a state.
type asked struct {
	accountRules
	st          accountState
	s           step
	yes         bool
	root        int  // of the session or grant
	live, right bool // the session counts; the password is that of the account
	lacks       bool // the flag that the application requires
}

// living reports whether the grant has not ended.
func (q asked) living() bool { return q.st.ended&bit(q.root) == 0 }

// ended is the state after the end of the grant.
func (q asked) ended() accountState {
	q.st.ended |= bit(q.root)
	return q.st
}

// session: what opens a session, or asks whether one counts.
func (q asked) session() ([]any, bool) {
	st, s, yes := q.st, q.s, q.yes
	switch s.Do {
	case "signin":
		opens := q.right && !st.suspended && !st.deleted && !st.disowned && !st.factor
		if !yes {
			return only(!opens, st), true
		}
		st.live |= bit(s.ID)
		st.renewed &^= bit(s.ID)
		return only(opens, st), true
	case "local", "bit":
		if by := q.by[s.On].Do; by == "exchange" || by == "rotate" {
			return only(q.living() == yes, st), true
		}
		return only(q.live == yes || yes && st.due && (q.late || s.Do == "bit"), st), true
	case "me":
		return only(q.live == yes, st), true
	case "pause", "link":
		return only(yes, st), true
	case "knows":
		return only(q.right, st), true
	case "confirm", "password":
		if !yes {
			return only(!q.live || !q.right, st), true
		}
		// The transaction asks again for the session, but not for the token, which another request
		// of the same session may have replaced meanwhile.
		live := q.live && q.alive(st, q.root)
		for token, of := range q.roots {
			if of == q.root {
				st.live &^= bit(token)
			}
		}
		if s.Do == "password" {
			st = q.endSessions(st, true, func(r int) bool { return r != q.root })
			for id, by := range q.by {
				if by.Do == "authorize" {
					st.ended |= bit(id)
				}
			}
			st.password, st.reset, st.renewed = int8(s.ID), -2, 0
		}
		st.live |= bit(s.ID)
		return only(live && q.right, st), true
	}
	return nil, false
}

// ownAct: what a person does with a session, or the code for a new password.
func (q asked) ownAct() ([]any, bool) {
	st, s, yes := q.st, q.s, q.yes
	others := func() accountState {
		after := q.endSessions(st, true, func(r int) bool { return r != q.root })
		after.reset = -2
		return after
	}
	switch s.Do {
	case "logout":
		if !yes {
			return nil, true
		}
		after := q.endSessions(st, false, func(r int) bool { return r == q.root })
		if q.live {
			return only(true, after), true
		}
		return only(true, st, after), true // a former cookie of the session
	case "end", "endone": // an administrator's
		live := q.live || s.Do == "endone"
		n, _ := strconv.Atoi(s.With)
		victim, has := q.roots[n]
		alive := has && q.alive(st, victim)
		if !yes {
			return only(!live || !alive, st), true
		}
		return only(live && (alive || st.due), q.endSessions(st, false, func(r int) bool { return r == victim })), true
	case "addapp":
		if !yes {
			return only(!q.live || st.factor, st), true
		}
		after := others()
		after.factor = true
		former := after // under a fault the app may have been added, and the session not have its new token
		after.live = after.live&^bit(s.On) | bit(s.ID)
		if q.late {
			return only(q.live && !st.factor, after, former), true
		}
		return only(q.live && !st.factor, after), true
	case "endothers", "email":
		if !yes {
			return only(!q.live, st), true
		}
		after, live := others(), q.live
		if s.Do == "endothers" {
			live, after.live = live && q.alive(st, q.root), bit(s.ID)
		}
		return only(live, after), true
	case "reset":
		if !yes {
			return only(int(st.reset) != s.On || st.suspended || st.deleted, st), true
		}
		after := q.endAccess(st)
		after.password, after.disowned, after.renewed = int8(s.ID), false, ^uint64(0)
		return only(int(st.reset) == s.On && !st.deleted, after), true
	case "leave":
		if !yes {
			return only(!q.live || !q.right, st), true
		}
		if s.proven && st.deleted { // by another at the same time
			return only(true, st), true
		}
		return only(q.live && (q.right || s.proven), q.after(st, step{Do: "delete"})), true
	}
	return nil, false
}

// managed: what an administrator does, or the owner of the mailbox.
func (q asked) managed() ([]any, bool) {
	switch q.s.Do {
	case "resetcode", "notme", "suspend", "unsuspend", "delete", "endall", "flag", "resetfactors", "ends":
		if !q.yes {
			return only(q.st.deleted, q.st), true
		}
		after := q.after(q.st, q.s)
		if q.s.Do == "notme" && q.st.renewed&bit(q.by[q.s.On].On) != 0 { // it stays, but in the second of the sign-in
			kept := after
			kept.disowned = q.st.disowned
			return only(!q.st.deleted, after, kept), true
		}
		return only(!q.st.deleted || q.s.Do == "ends", after), true
	}
	return nil, false
}

// grant: what an application does, and the end of its access.
func (q asked) grant() ([]any, bool) {
	st, s, yes := q.st, q.s, q.yes
	switch s.Do {
	case "removeapp":
		if !yes {
			return only(!q.live || st.made&^st.ended == 0, st), true
		}
		st.ended |= st.made
		return only(q.live, st), true
	case "authorize":
		if !yes {
			return only(!q.live || q.lacks, st), true
		}
		after := st
		after.ended &^= bit(s.ID) // it was not there when the others ended
		after.made |= bit(s.ID)
		return only(q.live && q.alive(st, q.root) && !q.lacks, after), true
	case "exchange", "rotate":
		spent, graced := st.spent&bit(s.On) != 0, q.grace && s.Do == "rotate"
		switch after := st; {
		case s.With != "" && spent: // whether it ends the grant is not said
			return only(!yes, st, q.ended()), true
		case s.With != "":
			return only(!yes, st), true
		case yes:
			after.spent |= bit(s.On)
			return only(q.living() && !q.lacks && (!spent || graced), after), true
		}
		return only(spent && !graced || !q.living() || q.lacks, q.ended()), true
	case "revoke":
		if st.spent&bit(s.On) != 0 {
			return only(yes, st, q.ended()), true
		}
		return only(yes, q.ended()), true
	case "userinfo", "introspect":
		return only((q.living() && !q.lacks) == yes, st), true
	}
	return nil, false
}
