package letter_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/mail/mailtest"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// mailLog is a log that several goroutines write, and tests wait for.
type mailLog struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines chan string
}

func (l *mailLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	l.lines <- string(p)
	return len(p), nil
}

// wait returns the next line that has the words.
func (l *mailLog) wait(t *testing.T, words string) string {
	t.Helper()
	for {
		select {
		case line := <-l.lines:
			if strings.Contains(line, words) {
				return line
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("the log has no line %q", words)
		}
	}
}

func newMailLog() *mailLog { return &mailLog{lines: make(chan string, 10_000)} }

// withMail is an installation that sends mails by a server.
func withMail(t *testing.T, o mailtest.Options) (*accounttest.World, *mailtest.Server, *mailLog) {
	t.Helper()
	server, log := mailtest.New(t, o), newMailLog()
	return accounttest.New(t, mailOptions(t, server, log)), server, log
}

func mailOptions(t *testing.T, server *mailtest.Server, log *mailLog) func(*accounttest.Options) {
	return func(o *accounttest.Options) {
		sender := mail.NewSMTP(server.Settings)
		t.Cleanup(sender.Close)
		o.Mail = sender
		o.Log = slog.New(slog.NewTextHandler(log, nil))
	}
}

// sendMails runs the worker until the result is called.
func sendMails(w *accounttest.World) (stop func()) {
	ctx, cancel := context.WithCancel(w.T.Context())
	var done sync.WaitGroup
	done.Go(func() { w.Post.SendMails(ctx) })
	stop = func() { cancel(); done.Wait() }
	w.T.Cleanup(stop)
	return stop
}

// mail does something that sends mails.
func queueMails(w *accounttest.World, addresses ...string) {
	w.T.Helper()
	a := account.Operator().Audit(w.Clock.Now(), account.ChangeProfile, "", "")
	for _, to := range addresses {
		a.Mails = append(a.Mails, account.Mail{Kind: account.MailTest, Address: to, Language: "de"})
	}
	_, err := w.Store.AmendSettings(w.T.Context(), func(*account.Settings) (string, error) { return "test", nil }, a)
	if err != nil {
		w.T.Fatal(err)
	}
}

func mailState(w *accounttest.World) account.MailState {
	w.T.Helper()
	state, err := w.Administration().MailState(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	return state
}

func recipients(mails []mailtest.Received) map[string]int {
	out := map[string]int{}
	for _, m := range mails {
		out[m.To]++
	}
	return out
}

func TestMailIsSentAtOnceInTheLanguageOfItsReader(t *testing.T) {
	w, server, log := withMail(t, mailtest.Options{})
	w.SaveSettings(func(s *account.Settings) { s.InstanceName = "Rad & Tat" })
	sendMails(w)
	queueMails(w, "ada@example.net")
	got := server.Wait(1)[0]
	if got.To != "ada@example.net" || got.Subject != "Test-E‑Mail" || got.Header.Get("Content-Language") != "de" || !strings.Contains(got.HTML, `lang="de"`) {
		t.Errorf("%+v", got)
	}
	log.wait(t, "mail sent")
	state := mailState(w)
	same(t, state, state.Waiting, 0)
	if strings.Contains(log.text.String(), "ada") || strings.Contains(log.text.String(), mailtest.Password) {
		t.Errorf("the log has an address: %s", &log.text)
	}
}

func TestRefusedMailIsDroppedAndWrittenDown(t *testing.T) {
	w, server, log := withMail(t, mailtest.Options{Rcpt: func(to string) error {
		return &smtp.SMTPError{Code: 550, Message: "no mailbox " + to}
	}})
	sendMails(w)
	queueMails(w, "ada@example.net")
	log.wait(t, "mail given up")
	rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Kind: "mail.failed", Limit: 10})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	same(t, rows,
		rows[0].Detail, "test to example.net: recipient: the server answers 550 5.0.0 no mailbox …@example.net")
	if state := mailState(w); state.Waiting != 0 || len(server.Mails()) != 0 || strings.Contains(log.text.String(), "ada") {
		t.Errorf("%+v, %d mails, log %s", state, len(server.Mails()), &log.text)
	}
}

func TestGreylistedMailIsSentLater(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	w, server, log := withMail(t, mailtest.Options{Rcpt: func(to string) error {
		mu.Lock()
		defer mu.Unlock()
		if asked[to]++; strings.HasPrefix(to, "ada") && asked[to] == 1 {
			return &smtp.SMTPError{Code: 450, Message: "greylisted"}
		}
		return nil
	}})
	sendMails(w)
	queueMails(w, "ada@example.net", "bob@example.net")
	for range 2 {
		log.wait(t, "msg=\"mail ")
	}
	server.Wait(1)
	if state := mailState(w); state.Waiting != 1 || !strings.Contains(state.Failure, "450") {
		t.Errorf("%+v", state)
	}
	w.Clock.Advance(14 * time.Second)
	queueMails(w, "cyd@example.net")
	server.Wait(1)
	w.Clock.Advance(5 * time.Second)
	queueMails(w, "dee@example.net")
	if got := recipients(server.Wait(2)); len(got) != 4 || asked["ada@example.net"] != 2 {
		t.Errorf("%v, asked %v", got, asked)
	}
}

func TestMailIsGivenUpAfterADay(t *testing.T) {
	w, server, log := withMail(t, mailtest.Options{})
	queueMails(w, "ada@example.net")
	w.Clock.Advance(24*time.Hour + time.Second)
	sendMails(w)
	log.wait(t, "mail given up")
	queueMails(w, "bob@example.net")
	if got := server.Wait(1); len(got) != 1 || got[0].To != "bob@example.net" {
		t.Errorf("%+v", got)
	}
}

// An instance ends after it has leased a mail, as by a crash: another sends it when the
// lease has ended, once.
func TestMailOfACrashedInstanceIsSent(t *testing.T) {
	w, server, log := withMail(t, mailtest.Options{})
	queueMails(w, "ada@example.net")
	if due, err := w.Store.DueMails(t.Context(), w.Clock.Now(), 2*time.Minute, 1); err != nil || len(due) != 1 {
		t.Fatalf("%v, %v", due, err)
	}
	sendMails(w)
	queueMails(w, "bob@example.net")
	if got := recipients(server.Wait(1)); got["bob@example.net"] != 1 {
		t.Errorf("%v", got)
	}
	log.wait(t, "mail sent") // and is no longer leased
	w.Clock.Advance(2 * time.Minute)
	queueMails(w, "cyd@example.net")
	if got := recipients(server.Wait(2)); got["ada@example.net"] != 1 || len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// ending sends a mail as the instance ends.
type ending context.CancelFunc

func (end ending) Send(context.Context, mail.Message) error { end(); return nil }

func TestMailThatIsSentAsTheInstanceEndsIsNotSentAgain(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	w := accounttest.New(t, func(o *accounttest.Options) { o.Mail = ending(end) })
	queueMails(w, "ada@example.net")
	if err := w.Post.DeliverMails(ctx); err == nil {
		t.Error("the instance has not ended")
	}
	same(t, "mails that wait", mailState(w).Waiting, 0)
}

func TestInstancesSendEachMailOnce(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		server, log := mailtest.New(t, mailtest.Options{}), newMailLog()
		var worlds []*accounttest.World
		for range 2 {
			worlds = append(worlds, accounttest.On(t, storetest.Open(t, dsn), nil, mailOptions(t, server, log)))
		}
		const total = 40
		for i := range total {
			queueMails(worlds[i%2], fmt.Sprintf("to%d@example.net", i))
		}
		for _, w := range worlds {
			sendMails(w)
		}
		for to, n := range recipients(server.Wait(total)) {
			same(t, to, n, 1)
		}
		for range total {
			log.wait(t, "mail sent")
		}
		same(t, "mails", len(server.Mails()), total)
	})
}

// A mail server that answers nothing keeps no page waiting, and one bad mail keeps no other.
func TestThousandMailsKeepNoSignInWaiting(t *testing.T) {
	const total, workers = 1000, 4
	hanging, release := make(chan struct{}, total), make(chan struct{})
	w, server, _ := withMail(t, mailtest.Options{Data: func(mailtest.Received) error {
		hanging <- struct{}{}
		<-release
		return nil
	}})
	w.AddUser("ada")
	addresses := make([]string, total)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("to%d@example.net", i)
	}
	queueMails(w, addresses...)
	sendMails(w)
	for range workers {
		<-hanging
	}
	for range 20 { // none of which can end if it waits for a mail
		w.SignedIn("ada")
	}
	if state := mailState(w); state.Waiting != total || len(server.Mails()) != 0 {
		t.Errorf("%+v", state)
	}
	close(release)
	same(t, "recipients", len(recipients(server.Wait(total))), total)
	if n := server.Connections(); n > total/20 {
		t.Errorf("%d connections for %d mails", n, total)
	}
}

// What waits in the outbox is dropped where its reader has gone by now, or what it tells of is no longer so.
func TestMailThatServesNobodyIsDropped(t *testing.T) {
	w, server, _ := withMail(t, mailtest.Options{})
	quiet, operator, now := w.Administration().WithMail(false), account.Operator(), w.Clock.Now()
	w.AddUser("root1", account.FlagAdmin)
	must(t, w.Store.AddJoinRequest(t.Context(), account.JoinRequest{ID: "request", Name: "Bo", Email: "bo@example.org", Mailbox: "bo@example.org",
		AskedAt: now, ExpiresAt: now.Add(day)}, []byte("link"), 5, operator.Audit(now, account.AskToJoin, "", "")))
	send := func(m account.Mail) { must(t, w.Store.QueueMail(t.Context(), m, now)) }
	change := func(to func(*account.User)) func(account.User) {
		return func(u account.User) {
			_, err := w.Store.ChangeUser(t.Context(), u.Sub, func(u *account.User) error { to(u); return nil }, now, nil)
			must(t, err)
		}
	}
	flag := func(name string, f account.FlagState) func(account.User) {
		return func(u account.User) {
			_, err := quiet.SetFlags(t.Context(), operator, u, account.FlagChange{name: f})
			must(t, err)
		}
	}
	ends := now.Add(5 * day)
	ending, admin := func(u account.User) { setEnd(w, u.Handle, ends) }, flag(account.FlagAdmin, account.FlagState{On: true})
	flagEnding := flag(account.FlagActivity, account.FlagState{On: true, SetEnd: true, EndsAt: ends})
	suspend := func(u account.User) { must(t, quiet.Suspend(t.Context(), operator, u, "", false)) }
	asked := func(at time.Time) func(account.User) {
		return change(func(u *account.User) { u.EmailVerified, u.EmailAskedAt = false, at })
	}
	unix := func(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
	type data = map[string]string
	week := now.Add(-7 * day)
	for i, c := range []struct {
		kind string
		data data
		sent int
		then []func(account.User)
	}{
		{account.MailEnds, data{"ends": unix(ends)}, 1, []func(account.User){ending}},
		{account.MailEnds, data{"ends": unix(ends)}, 0, []func(account.User){ending, suspend}},
		{account.MailEnds, data{"ends": unix(ends)}, 0, []func(account.User){flagEnding}},
		{account.MailEnds, data{"ends": unix(ends), "names": "activity"}, 1, []func(account.User){flagEnding}},
		{account.MailEnds, data{"ends": unix(ends), "names": "activity"}, 0, []func(account.User){flagEnding, suspend}},
		{account.MailEnds, data{"ends": unix(ends), "names": "activity"}, 0, []func(account.User){ending}},
		{account.MailInvite, data{}, 1, nil}, {account.MailInvite, data{}, 0, []func(account.User){suspend}},
		{account.MailJoinsAsked, data{}, 1, []func(account.User){admin}},
		{account.MailJoinsAsked, data{}, 0, nil},
		{account.MailJoinsAsked, data{}, 0, []func(account.User){admin, suspend}},
		{account.MailJoinsAsked, data{}, 0, []func(account.User){admin, change(func(u *account.User) { u.EmailVerified = false })}},
		{account.MailJoinsAsked, data{}, 0, []func(account.User){admin, change(func(u *account.User) { u.Email = "new." + u.Email })}},
		{account.MailVerify, data{"asked": unix(now)}, 1, []func(account.User){asked(now)}},
		{account.MailVerify, data{"asked": unix(now)}, 0, []func(account.User){asked(now.Add(-time.Minute))}},
		{account.MailVerify, data{"asked": unix(week)}, 0, []func(account.User){asked(week)}},
	} {
		u := w.AddUser(fmt.Sprint("user", i))
		address := u.Handle + "@example.net"
		change(func(u *account.User) { u.Email, u.EmailVerified = address, true })(u)
		if c.kind == account.MailInvite {
			invite, err := account.NewInvite(u.Sub, "", now)
			must(t, err)
			must(t, w.Store.CreateInvite(t.Context(), invite, -1, operator.Audit(now, account.CreateInvite, "", "")))
			c.data["invite"] = invite.Hash()
		}
		for _, do := range c.then {
			do(w.User(u.Handle))
		}
		send(account.Mail{Kind: c.kind, Sub: u.Sub, Address: address, Language: "en", Data: c.data})
		must(t, w.Post.DeliverMails(t.Context()))
		same(t, fmt.Sprintf("%d, mails of the kind %s", i, c.kind), recipients(server.Mails())[address], c.sent)
	}
	for _, kind := range []string{account.MailEnds, account.MailInvite, account.MailJoinsAsked, account.MailVerify, account.MailReset, account.MailWelcome} {
		send(account.Mail{Kind: kind, Sub: "deleted", Address: "deleted@example.net", Data: data{}})
	}
	send(account.Mail{Kind: "of another version", Address: "ada@example.net"})
	must(t, w.Post.DeliverMails(t.Context()))
	same(t, "mails to who is deleted", recipients(server.Mails())["deleted@example.net"], 0)
	same(t, "mails that wait", mailState(w).Waiting, 1)
}

func TestNothingIsSentWithoutAMailServer(t *testing.T) {
	w := accounttest.New(t)
	if w.Service.MailEnabled() {
		t.Error("mail is on")
	}
	w.Post.SendMails(t.Context()) // returns at once
}

// TestMain stops the database server that TEST_DATABASE=postgres started.
func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

var must = assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
