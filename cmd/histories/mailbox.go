package main

import (
	"context"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// mailbox is a mail server that keeps what it gets.
type mailbox struct {
	address string
	server  *smtp.Server
	mu      sync.Mutex
	mails   map[string][]string // by recipient
}

func newMailbox() (*mailbox, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &mailbox{address: l.Addr().String(), mails: map[string][]string{}}
	m.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &mailSession{m: m}, nil
	}))
	m.server.ErrorLog = log.New(io.Discard, "", 0)
	go func() { _ = m.server.Serve(l) }()
	return m, nil
}

// mailSession is a session of SMTP.
type mailSession struct {
	m  *mailbox
	to string
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error      { return nil }
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error { s.to = to; return nil }
func (s *mailSession) Reset()                                    {}
func (s *mailSession) Logout() error                             { return nil }

func (s *mailSession) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if rand.IntN(10) == 0 { // a slow server
		time.Sleep(rand.N(400 * time.Millisecond))
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.mails[s.to] = append(s.m.mails[s.to], strings.NewReplacer("=\r\n", "", "=3D", "=").Replace(string(b)))
	return nil
}

// wait waits for a mail that fits.
func (m *mailbox) wait(ctx context.Context, to string, within time.Duration, fits func(string) bool) (string, error) {
	for end := time.Now().Add(within); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		m.mu.Lock()
		mails := m.mails[to] // which only grows
		m.mu.Unlock()
		if i := slices.IndexFunc(mails, fits); i >= 0 {
			return mails[i], nil
		}
	}
	return "", errors.New("no such mail to " + to)
}

func (m *mailbox) close() { _ = m.server.Close() }
