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
		{name: "code", often: 12, generate: generateCode, begin: beginAccount("app", false),
			model: accountModel(false)},
		{name: "refresh", often: 12, generate: generateRefresh, begin: beginAccount("app", false),
			model: accountModel(false)},
		{name: "grace", often: 12, generate: generateRefresh, begin: beginAccount("grace", false),
			model: accountModel(true)},
		{name: "account", often: 20, generate: generateAccount, begin: beginAccount("app", true),
			model: accountModel(false)},
		once("invite", 5, true, beginInvite),
		once("reset", 3, true, beginReset),
		once("mailed", 3, true, beginMailed),
		once("address", 3, true, beginAddress),
		once("par", 9, false, beginPAR),
		once("page", 4, false, beginPage),
		once("undo", 3, true, beginUndo),
		once("handle", 3, false, beginHandle),
		once("recovery", 3, true, beginRecovery),
		once("device", 5, true, beginDevice),
		once("approval", 3, true, beginApproval),
		{name: "consent", often: 9, generate: generateConsent, begin: beginConsent, model: consentModel},
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
	kinds, faults     []string // no kinds: all
	seed              uint64
	length            time.Duration
	clients           int
	out               string // folder for histories that fail
	first             bool   // end with the first violation
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("histories", flag.ContinueOnError)
	f.SetOutput(stderr)
	var o options
	f.StringVar(&o.program, "program", "",
		"program cairn; empty: build it, with a cheap hash of passwords; several with commas take turns")
	f.StringVar(&o.database, "database", "sqlite",
		"sqlite, sqlite-two (two services on one file) or postgres; several with commas")
	names := f.String("kinds", "", "kinds of objects with commas: "+strings.Join(kindNames(), ","))
	faulty := f.String("faults", strings.Join(faults, ","), "faults in turn")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano())%1_000_000, "seed of the first history")
	minutes := f.Float64("minutes", 1, "length of the run, in all")
	f.IntVar(&o.clients, "clients", 8, "histories at once")
	f.StringVar(&o.out, "out", os.TempDir(), "folder for histories that fail")
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
		defer func() { _ = os.RemoveAll(dir) }()
		if o.program = filepath.Join(dir, "cairn"); err == nil {
			err = build(ctx, "", o.program)
		}
		if err != nil {
			_, _ = fmt.Fprintln(stderr, err)
			return 1
		}
	}
	violations, err := 0, error(nil)
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

// build builds the program in a folder that has its module; empty: the one that this module needs. Its passwords are
// hashed with a thousandth of the work, so that more histories meet.
func build(ctx context.Context, dir, program string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	if dir == "" {
		out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cairn-id/cairn").Output()
		if err != nil {
			return fmt.Errorf("where the program is: %w: histories runs in its own folder, as by \"just histories\"",
				err)
		}
		dir = strings.TrimSpace(string(out))
	}
	overlay, err := cheapHasher(dir, filepath.Dir(program))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-ldflags=-s -w", "-o", program,
		"github.com/cairn-id/cairn/cmd/cairn")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	return nil
}

// cheapHasher writes what go build takes in the place of the hasher of passwords.
func cheapHasher(dir, to string) (overlay string, err error) {
	const costly = "newHasher(HashMemory>>10, 2)"
	file := filepath.Join(dir, "account", "password", "password.go")
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if strings.Count(string(source), costly) != 1 {
		return "", fmt.Errorf("%s does not have %s once", file, costly)
	}
	cheap := filepath.Join(to, "password.go")
	text := strings.Replace(string(source), costly, "NewTestHasher()", 1)
	names, _ := json.Marshal(map[string]any{"Replace": map[string]string{file: cheap}})
	overlay = filepath.Join(to, "overlay.json")
	return overlay, errors.Join(os.WriteFile(cheap, []byte(text), 0o600), os.WriteFile(overlay, names, 0o600))
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
	return fmt.Sprintf("%d histories (%s), %d operations of which %d unknown, %d requests, %d histories not judged, "+
		"%d violations, %s", all, strings.TrimSpace(text), t.operations, t.unknown, t.requests, t.unjudged,
		t.violations, t.took.Round(time.Second))
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
	w, err := newWorld(ctx, o.program, o.database)
	if err != nil {
		return t, err
	}
	defer w.close()
	if len(o.kinds) == 0 {
		o.kinds = kindNames()
	}
	var names []string
	for _, name := range o.kinds {
		k := kinds[name]
		if k == nil {
			return t, fmt.Errorf("no kind %q: there are %s", name, strings.Join(kindNames(), ", "))
		}
		names = append(names, slices.Repeat([]string{name}, k.often)...)
	}
	r := &runner{options: o, w: w, stdout: stdout, tally: t}
	began := time.Now()
	_, _ = fmt.Fprintf(stdout, "%s, seed %d\n", o.database, o.seed)
	faults := slices.DeleteFunc(slices.Clone(o.faults), func(f string) bool {
		return f == "power" && w.postgres != nil || w.postgres == nil &&
			slices.Contains([]string{"database", "cut", "failover"}, f)
	})
	r.again(ctx)
	length := max(3*time.Second, min(8*time.Second, o.length/time.Duration(len(faults))))
	// a short run begins with another fault
	for turn := int(o.seed % 1000); time.Since(began) < o.length && !r.ends(ctx); turn++ {
		r.round(ctx, faults[turn%len(faults)], names, time.Now().Add(min(length, o.length-time.Since(began))))
		r.fail(w.ready(ctx))
	}
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

func newScript(k *kind, seed uint64, database, fault string) script {
	return script{Kind: k.name, Seed: seed, Database: database, Fault: fault,
		Steps: k.generate(rand.New(rand.NewPCG(seed, 41)))}
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
				r.next(ctx, fault, names)
			}
		})
	}
	clients.Wait()
	calm()
	injector.Wait()
}

// next takes the script of the next seed, of one of the kinds.
func (r *runner) next(ctx context.Context, fault string, names []string) {
	r.mu.Lock()
	k := kinds[names[int(r.seed)%len(names)]]
	s := newScript(k, r.seed, r.database, fault)
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
	files, _ := found.ReadDir("testdata/found")
	for _, f := range files {
		b, _ := found.ReadFile("testdata/found/" + f.Name()) // else no script
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
	w, err := newWorld(ctx, o.program, s.Database)
	if err != nil {
		return 0, err
	}
	defer w.close()
	disturbed, calm := context.WithCancel(ctx)
	var injector sync.WaitGroup
	injector.Go(func() { _ = w.disturb(disturbed, s.Fault, rand.New(rand.NewPCG(s.Seed, 42))) })
	defer injector.Wait()
	defer calm()
	for try := range 100 {
		h, why, err := judge(ctx, w, k, s)
		if err != nil && ctx.Err() != nil {
			return 0, err
		}
		if err == nil && len(why) > 0 {
			h.print(stdout, append(why, fmt.Sprintf("at the %d. time", try+1)))
			return 1, nil
		}
	}
	_, _ = fmt.Fprintln(stdout, "a hundred times without a violation")
	return 0, nil
}
