// Command histories checks the program cairn against a model. Many clients act at once on real
// processes under faults, every answer is recorded, and each history has to be one that the model
// of its objects allows. README.md says what is checked.
//
//	histories run --database sqlite,postgres --minutes 10
//	histories replay FILE
package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// kinds are what histories are made of.
var kinds = map[string]*kind{}

func init() { // a literal would refer to itself
	once := func(name string, often int, own bool, begin beginning) *kind {
		return &kind{name: name, often: often, generate: generateOnce, begin: beginOnce(own, begin), model: onceModel}
	}
	for _, k := range []*kind{
		{name: "code", often: 12, generate: generateCode, begin: beginAccount("app", false), model: accountModel(false)},
		{name: "refresh", often: 12, generate: generateRefresh, begin: beginAccount("app", false), model: accountModel(false)},
		{name: "grace", often: 12, generate: generateRefresh, begin: beginAccount("grace", false), model: accountModel(true)},
		{name: "account", often: 20, generate: generateAccount, begin: beginAccount("app", true), model: accountModel(false)},
		once("invite", 5, true, beginInvite),
		once("reset", 3, true, beginReset),
		once("mailed", 3, true, beginMailed),
		once("address", 3, true, beginAddress),
		once("par", 9, false, beginPAR),
		once("page", 4, false, beginPage),
		once("assertion", 9, false, beginAssertion),
		once("proof", 9, false, beginProof),
		once("undo", 3, true, beginUndo),
		once("handle", 3, false, beginHandle),
		once("recovery", 3, true, beginRecovery),
		once("device", 5, true, beginDevice),
		once("approval", 3, true, beginApproval),
		{name: "consent", often: 9, generate: generateConsent, begin: beginConsent, model: consentModel},
		{name: "factor", often: 3, generate: generateFactor, begin: beginFactor, model: factorModel},
		{name: "passkey", often: 3, generate: generateFactor, begin: beginFactor, model: factorModel},
		{name: "expiry", alone: true, often: 2, generate: generateExpiry, begin: beginExpiry, model: expiryModel},
		{name: "change", generate: generateChange, begin: beginChange, model: changeModel},
		{name: "admins", alone: true, generate: generateAdmins, begin: beginAdmins, model: adminsModel},
	} {
		kinds[k.name] = k
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options of a run.
type options struct {
	program, database string
	kinds             []string // empty: all
	faults            []string
	seed              uint64
	length            time.Duration
	clients           int
	out               string        // folder for histories that fail
	first             bool          // end with the first violation
	mails             time.Duration // how long to wait for mails at the end
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("histories", flag.ContinueOnError)
	f.SetOutput(stderr)
	var o options
	f.StringVar(&o.program, "program", "", "program cairn, built with -tags histories; empty: build it; several with commas take turns")
	f.StringVar(&o.database, "database", "sqlite", "sqlite, sqlite-two (two services on one file) or postgres; several with commas")
	names := f.String("kinds", "", "kinds of objects with commas: "+strings.Join(kindNames(), ","))
	faulty := f.String("faults", strings.Join(faults, ","), "faults in turn")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano())%1_000_000, "seed of the first history")
	minutes := f.Float64("minutes", 1, "length of the run, in all")
	f.IntVar(&o.clients, "clients", 8, "histories at once")
	f.StringVar(&o.out, "out", os.TempDir(), "folder for histories that fail")
	f.DurationVar(&o.mails, "mails", 3*time.Minute, "how long to wait for mails at the end")
	f.BoolVar(&o.first, "first", false, "end with the first violation")
	if len(args) == 0 || args[0] != "run" && args[0] != "replay" {
		_, _ = fmt.Fprintln(stderr, "histories run [flags], or histories replay FILE")
		f.PrintDefaults()
		return 2
	}
	if err := f.Parse(args[1:]); err != nil {
		return 2
	}
	o.length = time.Duration(*minutes * float64(time.Minute))
	if o.faults = strings.Split(*faulty, ","); *names != "" {
		o.kinds = strings.Split(*names, ",")
	}
	if o.program == "" {
		dir, err := os.MkdirTemp("", "cairn-histories-program-")
		if err != nil {
			_, _ = fmt.Fprintln(stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		o.program = filepath.Join(dir, "cairn")
		if err := build(ctx, ".", o.program); err != nil {
			_, _ = fmt.Fprintln(stderr, err)
			return 1
		}
	}
	var violations int
	var err error
	if disk, err := newDisk(true); err != nil {
		o.faults = slices.DeleteFunc(o.faults, func(f string) bool { return f == "full" })
		_, _ = fmt.Fprintln(stdout, "NOTICE: no fault full:", err)
	} else {
		removeDisk(disk)
	}
	if args[0] == "replay" {
		violations, err = replay(ctx, o, f.Arg(0), stdout)
	} else {
		databases := strings.Split(o.database, ",")
		o.length /= time.Duration(len(databases))
		for _, o.database = range databases {
			t, failed := execute(ctx, o, stdout)
			if _, _ = fmt.Fprintln(stdout, t); failed != nil {
				err = failed
				break
			}
			violations += t.violations
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "histories:", err)
		return 1
	}
	if violations > 0 {
		return 3
	}
	return 0
}

// build builds the program with a clock that can be moved, in the module of a folder.
func build(ctx context.Context, dir, program string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags=nopgxregisterdefaulttypes,histories", "-ldflags=-s -w", "-o", program, "github.com/cairn-id/cairn/cmd/cairn")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
}

// tally counts what a run has done.
type tally struct {
	mu                   sync.Mutex
	byKind               map[string]int
	operations, requests int64
	unknown, unjudged    int
	inVain               int // histories in a row that were not judged
	violations           int
	why                  []string // of the first violation
	took                 time.Duration
}

func (t *tally) add(h *history) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byKind[h.Kind]++
	t.inVain = 0
	t.operations += int64(len(h.operations))
	for _, op := range h.operations {
		if op.outcome == unknown {
			t.unknown++
		}
	}
}

// skip counts a history that was not judged, and reports whether there were too many without a fault.
func (t *tally) skip(fault string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unjudged++
	t.inVain++
	return t.inVain > 100 && fault == ""
}

func (t *tally) String() string {
	all, text := 0, ""
	for _, name := range kindNames() {
		if n := t.byKind[name]; n > 0 {
			all += n
			text += fmt.Sprintf(" %s %d", name, n)
		}
	}
	return fmt.Sprintf("%d histories (%s), %d operations of which %d unknown, %d requests, %d histories not judged, %d violations, %s",
		all, strings.TrimSpace(text), t.operations, t.unknown, t.requests, t.unjudged, t.violations, t.took.Round(time.Second))
}

// runner makes histories and checks them.
type runner struct {
	options
	w      *world
	stdout io.Writer
	*tally
	failed error
}

func execute(ctx context.Context, o options, stdout io.Writer) (t *tally, err error) {
	t = &tally{byKind: map[string]int{}}
	w, err := newWorld(ctx, o.program, o.database, slices.Contains(o.faults, "full"))
	if err != nil {
		return t, err
	}
	defer w.close()
	if len(o.kinds) == 0 {
		o.kinds = kindNames()
	}
	var together, alone []string
	for _, name := range o.kinds {
		switch k := kinds[name]; {
		case k == nil:
			return t, fmt.Errorf("no kind %q: there are %s", name, strings.Join(kindNames(), ", "))
		case k.alone:
			alone = append(alone, name)
		default:
			together = append(together, slices.Repeat([]string{name}, k.often+1)...)
		}
	}
	r := &runner{options: o, w: w, stdout: stdout, tally: t}
	began := time.Now()
	_, _ = fmt.Fprintf(stdout, "%s, seed %d\n", o.database, o.seed)
	faults := slices.DeleteFunc(slices.Clone(o.faults), func(f string) bool {
		return f == "power" && w.postgres != nil || w.postgres == nil && slices.Contains([]string{"database", "cut", "failover"}, f)
	})
	r.again(ctx)
	length := max(3*time.Second, min(8*time.Second, o.length/time.Duration(len(faults))))
	for turn := int(o.seed % 1000); time.Since(began) < o.length && !r.ends(ctx); turn++ { // a short run begins with another fault
		if len(together) > 0 {
			r.round(ctx, faults[turn%len(faults)], together, time.Now().Add(min(length, o.length-time.Since(began))))
		}
		r.fail(w.ready(ctx))
		if len(alone) > 0 || o.first { // a mail is given up after a day; or a lost one is found at the end alone
			r.settle(ctx)
		}
		for _, name := range alone {
			for range kinds[name].often + 1 {
				r.next(ctx, name, "")
			}
		}
	}
	r.settle(ctx)
	t.took, t.requests = time.Since(began), w.requests.Load()
	return t, r.failed
}

// ends reports whether the run ends before its time.
func (r *runner) ends(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed != nil || ctx.Err() != nil || r.first && r.violations > 0
}

func (r *runner) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil && !errors.Is(err, context.Canceled) {
		r.failed = err
	}
}

func (r *runner) report(h *history, why []string) {
	r.mu.Lock()
	if r.violations++; r.violations == 1 {
		r.why = why
	}
	file, err := h.save(r.out, why)
	h.print(r.stdout, append(slices.Clone(why), "saved as "+file))
	r.mu.Unlock()
	r.fail(err)
}

// settle waits for the mails that are owed.
func (r *runner) settle(ctx context.Context) {
	for _, late := range r.w.settle(ctx, r.mails) {
		r.report(late.history, late.why)
	}
}

func newScript(k *kind, seed uint64, database, fault string) script {
	return script{Kind: k.name, Seed: seed, Database: database, Fault: fault, Steps: k.generate(rand.New(rand.NewPCG(seed, 41)))}
}

// round makes histories of several clients under one fault.
func (r *runner) round(ctx context.Context, fault string, names []string, deadline time.Time) {
	disturbed, calm := context.WithCancel(ctx)
	var injector, clients sync.WaitGroup
	chance := rand.New(rand.NewPCG(r.seed, 42))
	injector.Go(func() { r.fail(r.w.disturb(disturbed, fault, chance)) })
	for range r.clients {
		clients.Go(func() {
			for time.Now().Before(deadline) && !r.ends(ctx) {
				r.next(ctx, "", fault, names...)
			}
		})
	}
	clients.Wait()
	calm()
	injector.Wait()
}

// next takes the script of the next seed, of a kind or of one of several.
func (r *runner) next(ctx context.Context, name, fault string, names ...string) {
	if r.ends(ctx) {
		return
	}
	r.mu.Lock()
	if len(names) > 0 {
		name = names[int(r.seed)%len(names)]
	}
	k, s := kinds[name], newScript(kinds[name], r.seed, r.database, fault)
	r.seed++
	r.mu.Unlock()
	r.take(ctx, k, s)
}

// found has the histories that failed once, as short as they could be made.
//
//go:embed testdata/found/*.json
var found embed.FS

// again performs those of the kinds of the run, ten times each.
func (r *runner) again(ctx context.Context) {
	files, err := found.ReadDir("testdata/found")
	r.fail(err)
	for _, f := range files {
		b, err := found.ReadFile("testdata/found/" + f.Name())
		if r.fail(err); err != nil {
			return
		}
		s, err := parseScript(b)
		if r.fail(err); err != nil || !slices.Contains(r.kinds, s.Kind) {
			continue
		}
		s.Database, s.Fault = r.database, ""
		for tries := 0; tries < 10 && !r.ends(ctx); tries++ {
			r.take(ctx, kinds[s.Kind], s)
		}
	}
}

func parseScript(b []byte) (s script, err error) {
	if err = json.Unmarshal(b, &s); err == nil && kinds[s.Kind] == nil {
		err = fmt.Errorf("no kind %q", s.Kind)
	}
	s.Lines = nil
	return s, err
}

// take performs and judges a script, and makes it as short as it can if it fails.
func (r *runner) take(ctx context.Context, k *kind, s script) {
	h, why, err := judge(ctx, r.w, k, s)
	if err != nil {
		if r.skip(s.Fault) {
			r.fail(err)
		}
		time.Sleep(100 * time.Millisecond) // the service may not be there at this moment
		return
	}
	r.add(h)
	if len(why) > 0 {
		if !r.first {
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			h, why = shrink(limited, r.w, k, h, why, 6)
		}
		r.report(h, why)
	}
}

// replay performs the script of a file until it fails, at most a hundred times.
func replay(ctx context.Context, o options, file string, stdout io.Writer) (violations int, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	s, err := parseScript(b)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	k := kinds[s.Kind]
	w, err := newWorld(ctx, o.program, s.Database, s.Fault == "full")
	if err != nil {
		return 0, err
	}
	defer w.close()
	disturbed, calm := context.WithCancel(ctx)
	var injector sync.WaitGroup
	injector.Go(func() { _ = w.disturb(disturbed, s.Fault, rand.New(rand.NewPCG(s.Seed, 42))) })
	defer injector.Wait()
	defer calm()
	var h *history
	for try := range 100 {
		got, why, err := judge(ctx, w, k, s)
		if err != nil && ctx.Err() != nil {
			return 0, err
		}
		if err == nil && len(why) > 0 {
			got.print(stdout, append(why, fmt.Sprintf("at the %d. time", try+1)))
			return 1, nil
		}
		if err == nil {
			h = got
		}
	}
	_, _ = fmt.Fprintln(stdout, "a hundred times without a violation; the last time:")
	if h != nil {
		_, _ = fmt.Fprintln(stdout, "  "+strings.Join(h.lines(), "\n  "))
	}
	return 0, nil
}
