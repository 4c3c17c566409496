package main

import (
	"strconv"
)

// accountState is what the service must have of the account. Each bit is that of the step which
// made the thing.
type accountState struct {
	live                     uint64 // session tokens
	spent                    uint64 // codes and refresh tokens
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

// managed is the state after what an administrator does, or the owner of the mailbox.
func (a accountRules) managed(st accountState, s step) accountState {
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
	yes := o == accepted
	live, root := st.live&bit(s.On) != 0 || s.proven, a.roots[s.On]
	grantOf := func() uint64 { return bit(root) }
	ended := func() accountState { st := st; st.ended |= grantOf(); return st }
	living := func() bool { return st.ended&grantOf() == 0 }
	lacks := a.flagged && !st.flag
	right := strconv.Itoa(int(st.password)) == s.With || st.password == -1 && s.With == ""
	switch s.Do {
	case "signin":
		if after := st; yes {
			after.live |= bit(s.ID)
			return only(right && !st.suspended && !st.deleted && !st.disowned && !st.factor, after)
		}
		return only(!right || st.suspended || st.deleted || st.disowned || st.factor, st)
	case "local", "bit":
		if by := a.by[s.On].Do; by == "exchange" || by == "rotate" {
			return only(living() == yes, st)
		}
		return only(live == yes || yes && st.due && (a.late || s.Do == "bit"), st)
	case "me":
		return only(live == yes, st)
	case "pause", "link":
		return only(yes, st)
	case "confirm", "password":
		if !yes {
			return only(!live || !right, st)
		}
		// The transaction asks again for the session, but not for the token, which another request
		// of the same session may have replaced meanwhile.
		live = live && a.alive(st, root)
		after := st
		for token, of := range a.roots {
			if of == root {
				after.live &^= bit(token)
			}
		}
		if s.Do == "password" {
			after = a.endSessions(after, true, func(r int) bool { return r != root })
			for id, by := range a.by {
				if by.Do == "authorize" {
					after.ended |= bit(id)
				}
			}
			after.password, after.reset = int8(s.ID), -2
		}
		after.live |= bit(s.ID)
		return only(live && right, after)
	case "logout":
		if !yes {
			return nil
		}
		after := a.endSessions(st, false, func(r int) bool { return r == root })
		if live {
			return only(true, after)
		}
		return only(true, st, after) // a former cookie of the session
	case "end", "endone": // an administrator's
		live = live || s.Do == "endone"
		n, _ := strconv.Atoi(s.With)
		victim, has := a.roots[n]
		alive := has && a.alive(st, victim)
		if !yes {
			return only(!live || !alive, st)
		}
		return only(live && (alive || st.due), a.endSessions(st, false, func(r int) bool { return r == victim }))
	case "addapp":
		if !yes {
			return only(!live || st.factor, st)
		}
		after := a.endSessions(st, true, func(r int) bool { return r != root })
		after.reset, after.factor = -2, true
		former := after // under a fault the app may have been added, and the session not have its new token
		after.live = after.live&^bit(s.On) | bit(s.ID)
		if a.late {
			return only(live && !st.factor, after, former)
		}
		return only(live && !st.factor, after)
	case "endothers", "email":
		if !yes {
			return only(!live, st)
		}
		after := a.endSessions(st, true, func(r int) bool { return r != root })
		after.reset = -2
		return only(live, after)
	case "reset":
		if !yes {
			return only(int(st.reset) != s.On || st.suspended || st.deleted, st)
		}
		after := a.endAccess(st)
		after.password, after.disowned = int8(s.ID), false
		return only(int(st.reset) == s.On && !st.deleted, after)
	case "leave":
		if !yes {
			return only(!live || !right, st)
		}
		if s.proven && st.deleted { // by another at the same time
			return only(true, st)
		}
		return only(live && (right || s.proven), a.managed(st, step{Do: "delete"}))
	case "knows":
		return only(right, st)
	case "resetcode", "notme", "suspend", "unsuspend", "delete", "endall", "flag", "resetfactors", "ends":
		if !yes {
			return only(st.deleted, st)
		}
		return only(!st.deleted || s.Do == "ends", a.managed(st, s))
	case "removeapp":
		if !yes {
			return only(!live || st.made&^st.ended == 0, st)
		}
		after := st
		after.ended |= st.made
		return only(live, after)
	case "authorize":
		after := st
		after.ended &^= bit(s.ID) // it was not there when the others ended
		if after.made |= bit(s.ID); yes {
			return only(live && a.alive(st, root) && !lacks, after)
		}
		return only(!live || lacks, st)
	case "exchange", "rotate":
		spent, graced := st.spent&bit(s.On) != 0, a.grace && s.Do == "rotate"
		switch after := st; {
		case s.With != "" && spent: // whether it ends the grant is not said
			return only(!yes, st, ended())
		case s.With != "":
			return only(!yes, st)
		case yes:
			after.spent |= bit(s.On)
			return only(living() && !lacks && (!spent || graced), after)
		}
		return only(spent && !graced || !living() || lacks, ended())
	case "revoke":
		if st.spent&bit(s.On) != 0 {
			return only(yes, st, ended())
		}
		return only(yes, ended())
	case "userinfo", "introspect":
		return only((living() && !lacks) == yes, st)
	}
	panic("no step " + s.Do)
}
