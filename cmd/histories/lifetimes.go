package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cairn-id/cairn/store"
)

// lifetimes of what is made, in seconds. Those of codes and refresh tokens are not among them: fosite
// compares them with the clock of the machine, which is not moved.
var lifetimes = map[string]int{
	"par": 60, "access": 3600, "grace": 30, "reset": 24 * 3600, "invite": 14 * 24 * 3600, "session": 30 * 24 * 3600,
	// Of an account, and of a flag that an application requires.
	"account": 14 * 24 * 3600, "sign-in": 14 * 24 * 3600, "flag": 14 * 24 * 3600, "flag session": 14 * 24 * 3600,
	// The session of the account is over for good, if the end is taken back afterwards.
	"lifted": 14 * 24 * 3600,
	// Who was suspended stays it, whatever becomes of the end.
	"suspended": 0,
	"device":    600, "fresh": 600, "used assertion": 0, "used proof": 0, "used request": 0, "used page": 0,
	"kept":   30 * 24 * 3600, // of an account whose end was removed before
	"mailed": 24 * 3600, "forgotten": 3600, "not me": 7 * 24 * 3600, "undo": 7 * 24 * 3600,
	"second step": 300, // of a sign-in, after the password
	// The bit of a session or grant that was ended stays set as long as its token could live.
	"bit": 30 * 24 * 3600, "bit of an API": 3600,
}

// looks are what can be asked again at a later time.
var looks = []string{"bit", "bit of an API", "session", "kept", "account", "sign-in", "flag", "flag session", "fresh", "access", "grace", "used assertion", "used proof", "used request", "used page"}

// expiry is one of each thing that expires, and a clock that is moved.
type expiry struct {
	w     *world
	began time.Time // before anything was made, by the machine's clock
	moved int
	spent map[string]*once // but for that of the device
	use   map[string]func(at int) reply
}

func beginExpiry(ctx context.Context, w *world, s *script) (object, error) {
	began := time.Now().Round(0)
	p, err := w.newPerson(ctx, false)
	if err != nil {
		return nil, err
	}
	verify, err := w.askCode(ctx, s, p, p.handle+"@mailed.example.org")
	if err != nil {
		return nil, err
	}
	forgetful, err := w.newPerson(ctx, true)
	if err != nil {
		return nil, err
	}
	forgotten, err := w.forget(ctx, s, forgetful.handle, forgetful.email)
	if err != nil {
		return nil, err
	}
	robbed, err := w.newPerson(ctx, true)
	if err != nil {
		return nil, err
	}
	_ = w.api(ctx, w.any(), "POST", "/api/auth/login", "", map[string]string{"handle": robbed.handle, "password": password})
	text, err := w.mailTo(ctx, s, robbed.email, mailed["signin"], notMe.MatchString)
	if err != nil {
		return nil, err
	}
	link, _ := url.QueryUnescape(notMe.FindStringSubmatch(text)[1])
	code := func(app, scope string) string {
		r := w.send(ctx, w.any(), "GET", authorizePath(app, "openid "+scope), p.held, "", "")
		return r.location().Query().Get("code")
	}
	rotate := func(at int, app, token string) reply {
		return w.oauth(ctx, at, "/oauth2/token", w.clients[app], url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
	}
	tokens, graced := w.exchange(ctx, w.any(), w.clients["app"], code("app", "offline_access")), w.exchange(ctx, w.any(), w.clients["grace"], code("grace", "offline_access"))
	par, _ := url.Parse(authorizePath("app", "openid"))
	pushed := w.oauth(ctx, w.any(), "/oauth2/par", w.clients["app"], par.Query()).given("request_uri")
	invite := w.manage(ctx, w.any(), "POST", "/api/invites", map[string]string{}).given("code")
	reset := w.manage(ctx, w.any(), "POST", "/api/admin/users/"+p.handle+"/reset-password-code", nil).given("code")
	if tokens.given("refresh_token") == "" || graced.given("refresh_token") == "" || pushed == "" || invite == "" || reset == "" {
		return nil, fmt.Errorf("something was not made: %d %d %q %d %d", tokens.status, graced.status, pushed, len(invite), len(reset))
	}
	if r := rotate(w.any(), "grace", graced.given("refresh_token")); r.status != http.StatusOK {
		return nil, failed("rotate", r)
	}
	granted := func(r reply) reply {
		if r.status == http.StatusSeeOther && !r.location().Query().Has("code") {
			r.status = http.StatusBadRequest // the session has expired, or the flag
		}
		return r
	}
	last := w.now().UTC().AddDate(0, 0, 13).Format(time.DateOnly) // it ends with this day
	leaver, err := w.newPerson(ctx, false)
	if err != nil {
		return nil, err
	}
	seasonal, err := w.newPerson(ctx, false)
	if err != nil {
		return nil, err
	}
	for _, p := range []*person{leaver, seasonal} {
		if r := w.manage(ctx, w.any(), "PUT", "/api/admin/users/"+p.handle+"/end", map[string]string{"ends": last}); r.status != http.StatusOK {
			return nil, failed("end", r)
		}
	}
	kept, err := w.newPerson(ctx, false)
	if err != nil {
		return nil, err
	}
	for _, ends := range []any{last, nil} {
		if r := w.manage(ctx, w.any(), "PUT", "/api/admin/users/"+kept.handle+"/end", map[string]any{"ends": ends}); r.status != http.StatusOK {
			return nil, failed("end", r)
		}
	}
	loser, err := w.newPerson(ctx, false)
	if err == nil {
		_, err = w.cairn(ctx, "user", "flags", loser.handle, "+activity@"+last)
	}
	if err != nil {
		return nil, err
	}
	r := w.api(ctx, w.any(), "POST", "/api/auth/login", "", map[string]string{"handle": p.handle, "password": password})
	if r.cookie == "" {
		return nil, failed("sign-in", r)
	}
	w.registry.note(r.cookie, r.cookie)
	ofAPI := w.exchange(ctx, w.any(), w.clients["app"], w.send(ctx, w.any(), "GET", authorizePath("app", "openid trails.read"), r.cookie, "", "").location().Query().Get("code"))
	if claimsOf(ofAPI.given("access_token")).Status.List.URI == "" {
		return nil, failed("token of an API", ofAPI)
	}
	if r := w.api(ctx, w.any(), "POST", "/api/auth/logout", r.cookie, nil); r.status != http.StatusOK {
		return nil, failed("sign-out", r)
	}
	set := func(token string) func(at int) reply {
		return func(at int) reply {
			status := claimsOf(token).Status.List
			list, err := url.Parse(status.URI)
			if err != nil {
				return reply{err: err}
			}
			r := w.send(ctx, at, "GET", list.Path, "", "", "")
			if set, err := bitOf(r.body, status.Index); r.status == http.StatusOK && (err != nil || !set) {
				r.status = http.StatusGone
			}
			return r
		}
	}
	careful, err := w.newPerson(ctx, false)
	if err != nil {
		return nil, err
	}
	secret, _, err := w.addApp(ctx, careful)
	if err != nil {
		return nil, err
	}
	asked := w.api(ctx, w.any(), "POST", "/api/auth/login", "", map[string]string{"handle": careful.handle, "password": password})
	if asked.str("code") != "second_factor_required" {
		return nil, failed("password", asked)
	}
	mover, err := w.newPerson(ctx, false)
	if err != nil {
		return nil, err
	}
	spent := map[string]*once{"undo": {}}
	if err := beginUndo(ctx, w, s, mover, spent["undo"]); err != nil {
		return nil, err
	}
	for name, begin := range map[string]beginning{"device": beginDevice, "used assertion": beginAssertion, "used proof": beginProof, "used request": beginPAR, "used page": beginPage} {
		spent[name] = &once{}
		if err := begin(ctx, w, s, p, spent[name]); err != nil {
			return nil, err
		}
		if name != "device" {
			_, _ = spent[name].use(ctx, w.any(), step{})
		}
	}
	// The grace counts from the first use, not from the last.
	if err := w.setClocks(20, 0); err != nil {
		return nil, err
	}
	if r := rotate(w.any(), "grace", graced.given("refresh_token")); r.status != http.StatusOK {
		return nil, errors.Join(failed("rotate within the grace", r), w.setClocks(0, 0))
	}
	return &expiry{w, began, 20, spent, map[string]func(at int) reply{
		"bit": set(r.cookie), "bit of an API": set(ofAPI.given("access_token")),
		"mailed": func(at int) reply {
			return w.api(ctx, at, "POST", "/api/me/email/verify", p.held, map[string]string{"code": verify})
		},
		"second step": func(at int) reply {
			return w.send(ctx, at, "POST", "/api/auth/login", "", jsonType, `{"otp":"`+totp(secret, w.now())+`"}`, "Cookie", asked.others)
		},
		"forgotten": func(at int) reply {
			return w.api(ctx, at, "POST", "/api/auth/reset-password", "", map[string]string{"handle": forgetful.handle, "code": forgotten, "password": password + " after"})
		},
		"not me": func(at int) reply {
			return w.send(ctx, at, "POST", "/not-me/", "", formType, url.Values{"link": {link}}.Encode())
		},
		// Its sessions are ended a little after the flag.
		"flag session": func(at int) (r reply) {
			for end := time.Now().Add(endedWithin); ; time.Sleep(100 * time.Millisecond) {
				r = w.api(ctx, at, "GET", "/api/me", loser.held, nil)
				if r.status == http.StatusUnauthorized {
					w.endedOnce(ctx, loser, "user.flags_ended")
					return r
				}
				if r.status != http.StatusOK || w.now().Sub(began) < time.Duration(lifetimes["flag"])*time.Second || time.Now().After(end) {
					return r
				}
			}
		},
		"fresh": func(at int) reply { return w.api(ctx, at, "GET", "/api/me/export", p.held, nil) },
		"lifted": func(at int) reply {
			_ = w.retry(ctx, func(at int) reply {
				return w.manage(ctx, at, "PUT", "/api/admin/users/"+leaver.handle+"/end", map[string]any{"ends": nil})
			})
			r := w.api(ctx, at, "GET", "/api/me", leaver.held, nil)
			if r.status == http.StatusUnauthorized {
				w.endedOnce(ctx, leaver, "user.ended")
			}
			return r
		},
		"suspended": func(at int) reply {
			_ = w.retry(ctx, func(at int) reply {
				return w.manage(ctx, at, "POST", "/api/admin/users/"+seasonal.handle+"/suspend", map[string]string{})
			})
			_ = w.retry(ctx, func(at int) reply {
				return w.manage(ctx, at, "PUT", "/api/admin/users/"+seasonal.handle+"/end", map[string]any{"ends": nil})
			})
			return w.api(ctx, at, "POST", "/api/auth/login", "", map[string]string{"handle": seasonal.handle, "password": password})
		},
		"kept":    func(at int) reply { return w.api(ctx, at, "GET", "/api/me", kept.held, nil) },
		"account": func(at int) reply { return w.api(ctx, at, "GET", "/api/me", leaver.held, nil) },
		"flag": func(at int) reply {
			return granted(w.send(ctx, at, "GET", authorizePath("flag", "openid"), loser.held, "", ""))
		},
		"sign-in": func(at int) reply {
			return w.api(ctx, at, "POST", "/api/auth/login", "", map[string]string{"handle": leaver.handle, "password": password})
		},
		"access": func(at int) reply {
			return w.send(ctx, at, "GET", "/oauth2/userinfo", "", "", "", "Authorization", "Bearer "+tokens.given("access_token"))
		},
		"grace":   func(at int) reply { return rotate(at, "grace", graced.given("refresh_token")) },
		"session": func(at int) reply { return w.api(ctx, at, "GET", "/api/me", p.held, nil) },
		"invite": func(at int) reply {
			return w.api(ctx, at, "POST", "/api/register", "", map[string]string{"code": invite, "handle": "x" + p.handle, "password": password})
		},
		"reset": func(at int) reply {
			return w.api(ctx, at, "POST", "/api/auth/reset-password", "", map[string]string{"handle": p.handle, "code": reset, "password": password + " after"})
		},
		"par": func(at int) reply {
			return granted(w.send(ctx, at, "GET", "/oauth2/authorize?client_id=app&request_uri="+url.QueryEscape(pushed), p.held, "", ""))
		},
	}}, nil
}

func (e *expiry) do(ctx context.Context, s step) (outcome, string) {
	if s.Do == "sweep" {
		if err := e.sweep(ctx); err != nil {
			return unknown, err.Error()
		}
		return accepted, "every expired row"
	}
	if s.Do != "clock" {
		o, note := skipped, ""
		if once := e.spent[s.Do]; once != nil {
			o, note = once.use(ctx, s.At, s)
		} else {
			o, note = e.use[s.Do](s.At).result()
		}
		if e.between(lifetimes[s.Do]) || strings.HasPrefix(s.Do, "bit") && e.moved > lifetimes[s.Do] { // it may be cleared
			return skipped, ""
		}
		return o, note
	}
	seconds, err := strconv.Atoi(s.With)
	if err != nil {
		return skipped, ""
	}
	if err := e.move(seconds); err != nil {
		return unknown, err.Error()
	}
	e.moved = seconds
	return accepted, "every clock"
}

// endedOnce notes it as wrong if what has ended by itself has not one row in the audit log.
func (w *world) endedOnce(ctx context.Context, p *person, action string) {
	if rows := w.rowsOf(ctx, p.handle); rows != nil && rows[action] != 1 && w.moved.Load() < int64(lifetimes["session"]) {
		w.registry.fault(fmt.Sprintf("the audit log has %d rows %s of what has ended once", rows[action], action))
	}
}

// endedWithin is longer than what depends on a flag may outlive it.
const endedWithin = 6 * time.Second

// between reports whether what lives so many seconds may have expired, but need not have: requests take
// time too, and an end that is a day's is up to a day earlier.
func (e *expiry) between(life int) bool {
	earliest := life
	if life == lifetimes["account"] {
		midnight := e.began.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
		earliest += int(midnight.Sub(e.began)/time.Second) - 24*3600
	}
	return e.moved <= life && earliest <= e.moved+1+int(time.Since(e.began)/time.Second)
}

// move sets all clocks. What a sweep removes meanwhile is gone for everybody.
func (e *expiry) move(seconds int) error {
	e.w.admin.forget()
	e.w.epoch.Add(1)
	return e.w.setClocks(seconds, 0)
}

// sweep lets a process sweep, which it does as it starts. It does not begin again before the clocks are
// right: what is made then would be gone. Afterwards an index may be given again.
func (e *expiry) sweep(ctx context.Context) error {
	const turn = "sweep"
	st, err := store.Open(ctx, e.w.databaseOf(0), store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	if err := st.NoteDone(ctx, turn, time.Unix(1, 0), ""); err != nil {
		return err
	}
	e.w.each[0].stop(syscall.SIGTERM)
	if err := errors.Join(e.w.each[0].start(), e.w.ready(ctx)); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		done, _, err := st.LastTurn(ctx, turn)
		if err != nil || time.Now().After(end) {
			return errors.Join(errors.New("no sweep"), err)
		}
		if done.Year() > 1970 {
			break
		}
	}
	e.w.registry.forget(e.w.now())
	return st.NoteDone(ctx, turn, time.Now().AddDate(0, 0, 60), "")
}

// end sets the clocks right: fosite's is, and others would not agree with it on what has expired.
func (e *expiry) end(context.Context, *history) []string {
	if err := e.move(0); err != nil {
		return []string{err.Error()}
	}
	return e.w.registry.take()
}

// expiryModel: what has expired is refused, what has not is accepted. The state is by how much the clocks
// were moved.
func expiryModel(*script) model {
	return model{begin: 20, next: func(state any, s step, o outcome) []any {
		moved := state.(int)
		if s.Do == "clock" {
			moved, _ = strconv.Atoi(s.With)
			return []any{moved}
		}
		life := lifetimes[s.Do]
		switch s.Do {
		case "sweep":
			return []any{state}
		case "par", "fresh", "mailed": // it needs the session too
			life = min(life, lifetimes["session"])
		}
		return only((moved < life) == (o == accepted), state)
	}}
}

// generateExpiry moves the clocks on two or three times.
func generateExpiry(r *rand.Rand) []step {
	b := &builder{r: r}
	const minute, hour, day = 60, 3600, 24 * 3600
	clocks := []int{40, 75, 9 * minute, 11 * minute, 59 * minute, 61 * minute, 23 * hour, 25 * hour, 6 * day, 8 * day, 12 * day, 15 * day, 29 * day, 31 * day, 40 * day}
	first, second := r.IntN(len(clocks)), r.IntN(len(clocks))
	to := []int{20, clocks[min(first, second)], clocks[max(first, second)]}
	if r.IntN(2) == 0 {
		to = slices.Concat([]int{40}, to[1:])
	}
	to = slices.Compact(to)
	for i, at := range to {
		b.add(0, "clock", -1, strconv.Itoa(at))
		b.phase++
		if at > minute && r.IntN(2) == 0 || at == 29*day {
			b.add(0, "sweep", -1, "")
			b.phase++
		}
		all := looks
		if i == len(to)-1 { // these are good once, or end others
			all = slices.Concat(looks, []string{"lifted", "device", "par", "mailed", "forgotten", "not me", "undo", "second step", "invite", "reset", "suspended"})
		}
		for _, what := range all {
			b.add(0, what, -1, "")
			b.phase++
		}
	}
	return b.steps
}

// change is a client that the command line changes beside the service. Another process may notice
// it so much later.
const noticedWithin = 5*time.Second + 500*time.Millisecond

type change struct {
	w       *world
	ids     map[string]client // by what they are
	token   string
	release func()
}

func beginChange(ctx context.Context, w *world, _ *script) (object, error) {
	id := fmt.Sprintf("c%d", w.names.Add(1))
	p, release, err := w.who(ctx, false, false)
	if err != nil {
		return nil, err
	}
	c := &change{w: w, ids: map[string]client{}, release: release}
	out, err := w.cairn(ctx, "client", "add", id, "--id", id, "--trusted", "--redirect-uri", callback, "--allow-insecure-redirect", "-o", "json")
	if err == nil {
		c.ids["first"], err = clientOf(id, out)
	}
	r := w.send(ctx, w.any(), "GET", authorizePath(id, "openid"), p.held, "", "")
	r = w.exchange(ctx, w.any(), c.ids["first"], r.location().Query().Get("code"))
	if c.token = r.given("access_token"); err != nil || c.token == "" {
		release()
		return nil, errors.Join(err, failed("token", r))
	}
	return c, nil
}

func (c *change) do(ctx context.Context, s step) (outcome, string) {
	first := c.ids["first"]
	switch s.Do {
	case "rotate": // With: which secret it gives
		args := []string{"client", "rotate-secret", first.id, "-o", "json"}
		if s.With == "second" { // the first works on for a while, unless it is rotated again
			args = append(args, "--overlap", "1h")
		}
		out, err := c.w.cairn(ctx, args...)
		if err == nil {
			c.ids[s.With], err = clientOf(first.id, out)
		}
		return commanded(err)
	case "remove":
		_, err := c.w.cairn(ctx, "client", "remove", first.id, "--yes")
		return commanded(err)
	case "narrow": // to those who have a flag
		_, err := c.w.cairn(ctx, "client", "update", first.id, "--require-flag", "admin", "--yes")
		return commanded(err)
	case "wait":
		time.Sleep(noticedWithin)
		return accepted, "a pause"
	}
	if s.With == "token" {
		return c.w.send(ctx, s.At, "GET", "/oauth2/userinfo", "", "", "", "Authorization", "Bearer "+c.token).result()
	}
	with, has := c.ids[s.With]
	if !has {
		return skipped, ""
	}
	return c.w.oauth(ctx, s.At, "/oauth2/introspect", with, url.Values{"token": {"none"}}).result()
}

func commanded(err error) (outcome, string) {
	if err != nil {
		return unknown, err.Error()
	}
	return accepted, "command"
}

func (c *change) end(context.Context, *history) []string { c.release(); return nil }

// changeModel: what is good is named by the state; until the change is noticed, all may be.
func changeModel(*script) model {
	return model{begin: "first token", next: func(state any, s step, o outcome) []any {
		st, yes := state.(string), o == accepted
		switch s.Do {
		case "rotate":
			return []any{map[string]string{"second": "?first second token", "third": "?third token"}[s.With]}
		case "remove":
			return []any{"?"}
		case "narrow":
			return []any{"?first"}
		case "wait":
			return []any{strings.TrimPrefix(st, "?")}
		}
		return only(strings.HasPrefix(st, "?") || yes == slices.Contains(strings.Fields(st), s.With), st)
	}}
}

func generateChange(r *rand.Rand) []step {
	b := &builder{r: r}
	use := func(with string) {
		for lane := range 3 {
			b.steps = append(b.steps, step{Phase: b.phase, Lane: lane, At: lane, Do: "use", On: -1, With: with, ID: len(b.steps)})
		}
		b.phase++
	}
	act := func(do, with string) { b.add(0, do, -1, with); b.phase++ }
	use("first")
	switch r.IntN(5) {
	case 0:
		act("remove", "")
	case 1:
		act("narrow", "")
	case 2:
		act("rotate", "second")
	case 3:
		act("rotate", "second")
		act("rotate", "third")
	case 4:
		act("rotate", "third")
	}
	use(b.pick("first", "second", "third", "token"))
	act("wait", "")
	use("first")
	use("second")
	use("third")
	use("token")
	return b.steps
}
