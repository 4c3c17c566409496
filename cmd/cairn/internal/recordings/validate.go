package recordings

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/cmd/cairn/internal/activitycheck"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

type validateCommand struct {
	Format      string   `name:"output" short:"o" enum:"text,json,github" default:"text"`
	Quiet       bool     `short:"q" help:"Print nothing; use the exit code."`
	Strict      bool     `help:"Treat warnings as errors."`
	NoLint      bool     `name:"no-lint" help:"Check the schema only; skip lint."`
	Ignore      []string `sep:"none" placeholder:"CODE[:POINTER]"`
	Engine      string   `enum:"default,reference" default:"default"`
	MaxProblems int      `default:"100" placeholder:"N" help:"Problems to report per document, 1 to 1000 (100)."`
	Jobs        int      `placeholder:"N" help:"Number of documents checked at once; one for each core unless given."`
	Paths       []string `arg:"" optional:"" name:"path"`
}

// Exit codes of validate.
const (
	exitInvalid    = 1
	exitUnreadable = 2 // also for a usage error, and when interrupted
)

// Run checks the documents. The exit code is 0 if all are valid, 1 if some are invalid, 2 if some are
// unreadable.
func (c *validateCommand) Run(p *cli.Program) error {
	v, err := c.validation()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.run(p.Ctx, p.Stdin, c.Paths)
	}()
	select {
	case <-done:
	case <-p.Ctx.Done(): // a read from a terminal cannot be cancelled
	}
	if p.Ctx.Err() != nil {
		fmt.Fprintln(p.Stderr, "cairn: stopped before all documents were checked: run again")
		return cli.ExitError(exitUnreadable)
	}
	return c.finish(p, v)
}

// validation builds the validation that the flags describe.
func (c *validateCommand) validation() (*validation, error) {
	if len(c.Paths) == 0 {
		c.Paths = []string{"-"}
	}
	switch i := slices.Index(c.Paths, "-"); {
	case c.MaxProblems < 1 || c.MaxProblems > 1000:
		return nil, cli.UsageError("--max-problems must be from 1 to 1000")
	case c.Jobs < 0:
		return nil, cli.UsageError("--jobs must be at least 1")
	case i >= 0 && slices.Contains(c.Paths[i+1:], "-"):
		return nil, cli.UsageError("standard input (-) can be read only once")
	}
	for _, ignored := range c.Ignore {
		code, pointer, _ := strings.Cut(ignored, ":")
		if !slices.Contains(activityschema.Codes(), code) {
			const format = "--ignore %s: there is no code %q; docs/activity.md lists the codes"
			return nil, cli.Usagef(format, cli.Shown(ignored), code)
		}
		if pointer != "" && pointer[0] != '/' {
			return nil, cli.Usagef("--ignore %s: a JSON Pointer begins with /", cli.Shown(ignored))
		}
	}
	return &validation{
		Checker: activitycheck.Checker{
			MaxProblems: c.MaxProblems, Reference: c.Engine == "reference",
			Lint: !c.NoLint, Ignore: c.Ignore, Strict: c.Strict,
		},
		slots: make(chan struct{}, cmp.Or(c.Jobs, runtime.GOMAXPROCS(0))),
	}, nil
}

// finish prints the report and returns the resulting exit code.
func (c *validateCommand) finish(p *cli.Program, v *validation) error {
	code := cli.ExitDone
	for _, r := range v.results {
		switch {
		case r.Error != "":
			fmt.Fprintf(p.Stderr, "cairn: %s: %s\n", cli.Shown(r.File), r.Error)
			code = exitUnreadable
		case !v.Passes(r.Answer) && code == cli.ExitDone:
			code = exitInvalid
		}
	}
	var err error
	switch {
	case c.Quiet:
	case c.Format == "json":
		if n := v.passedOver(); n > 0 {
			fmt.Fprintf(p.Stderr, "cairn: %s passed over\n", cli.Count(n, "other file"))
		}
		err = cli.WriteJSON(p.Stdout, v.results)
	case c.Format == "github":
		err = reportGitHub(p.Stdout, v)
	default:
		err = reportText(p.Stdout, v)
	}
	if err != nil {
		// Exit code 1 would promise a report.
		fmt.Fprintf(p.Stderr, "cairn: %s\n", err)
		code = exitUnreadable
	}
	if code != cli.ExitDone {
		return cli.ExitError(code)
	}
	return nil
}

// A result is the outcome for one source, as the JSON report has it.
type result struct {
	File string `json:"file"`
	activitycheck.Answer
	Error string `json:"error,omitempty"` // why it could not be read

	source *source
	arg    int // index on the command line
	rank   int // in its folder: index, shards, details
}

// A validation checks the documents of a command line. Its slots limit how many at once.
type validation struct {
	activitycheck.Checker
	slots chan struct{}
	work  sync.WaitGroup

	mu      sync.Mutex
	results []*result
	folders []*folder
}

// run checks everything that the arguments name.
func (v *validation) run(ctx context.Context, stdin io.Reader, args []string) {
	for i, arg := range args {
		found, f := sourcesOf(arg, stdin, v.Lint)
		if f != nil {
			v.folders = append(v.folders, f)
		}
		for _, r := range found {
			r.arg = i
			v.start(ctx, r)
		}
	}
	v.work.Wait()
	for _, f := range v.folders {
		if f.library != nil && ctx.Err() == nil {
			v.compare(f)
		}
	}
	slices.SortStableFunc(v.results, func(a, b *result) int {
		return cmp.Or(cmp.Compare(a.arg, b.arg), cmp.Compare(a.rank, b.rank), cmp.Compare(a.File, b.File))
	})
}

// start checks a source as soon as there is a slot.
func (v *validation) start(ctx context.Context, r *result) {
	select {
	case v.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	v.work.Go(func() {
		defer func() { <-v.slots }()
		v.one(ctx, r)
	})
}

// one checks a source and starts the check of the shards that it names.
func (v *validation) one(ctx context.Context, r *result) {
	var document *activityschema.Document
	r.read(func(f io.Reader) (err error) {
		r.Answer, document, err = v.Check(ctx, f)
		return err
	})
	if f := r.source.folder; f != nil {
		for _, file := range f.add(r.source.file, document) {
			shard := &result{source: f.source(file), arg: r.arg, rank: rankShard}
			v.work.Go(func() { v.start(ctx, shard) })
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.results = append(v.results, r)
}

// read opens the source. A document that cannot be read has no answer.
func (r *result) read(do func(f io.Reader) error) {
	f, err := r.source.open()
	if err == nil {
		err = do(f)
		_ = f.Close()
	}
	if r.File = r.source.name; err != nil {
		r.Error = plainError(err)
		r.Answer = activitycheck.Answer{Problems: []activityschema.Problem{}, Findings: []activitycheck.Finding{}}
	}
}

// compare adds the findings from comparing the documents of a folder with one another. It reads the
// documents again to locate the findings.
func (v *validation) compare(f *folder) {
	about := map[string][]activityschema.Finding{}
	for _, found := range f.library.Findings() {
		about[found.File] = append(about[found.File], found.Finding)
	}
	for _, r := range v.results {
		plain, packed := strings.CutSuffix(r.source.file, ".gz")
		if r.source.folder != f || !r.Valid || len(about[plain]) == 0 || packed && f.documents[plain] {
			continue
		}
		r.read(func(f io.Reader) error {
			data, err := io.ReadAll(f)
			if err == nil {
				err = v.Add(&r.Answer, data, about[plain])
			}
			return err
		})
	}
}

// passedOver returns the number of files in the folders that are not documents.
func (v *validation) passedOver() int {
	n := 0
	for _, f := range v.folders {
		n += len(f.others)
	}
	return n
}

// summary returns the last line of a report: the number of documents of each kind.
func (v *validation) summary() string {
	documents, invalid, private, warnings, unreadable := 0, 0, 0, 0, 0
	for _, r := range v.results {
		if r.Error != "" {
			unreadable++
			continue
		}
		documents++
		if !r.Valid {
			invalid++
		}
		errs := 0
		for _, f := range r.Findings {
			if f.Severity == activityschema.SeverityError {
				errs++
			}
		}
		warnings += len(r.Findings) - errs
		private += min(errs, 1)
	}
	parts := []string{cli.Count(documents, "document"), strconv.Itoa(invalid) + " invalid"}
	if v.Lint {
		parts = append(parts, strconv.Itoa(private)+" with privacy errors", cli.Count(warnings, "warning"))
	}
	if unreadable > 0 {
		parts = append(parts, strconv.Itoa(unreadable)+" unreadable")
	}
	if n := v.passedOver(); n > 0 {
		parts = append(parts, cli.Count(n, "other file")+" passed over")
	}
	return strings.Join(parts, ", ")
}

// A remark is a line of a report: a problem or a finding, and the number of further ones of its kind.
type remark struct {
	activityschema.Place
	pointer, message, code string
	warning                bool
	more                   int
}

// remarks returns the remarks about a document in their order. A mistake that is repeated at the same
// member of other items or laps is one remark.
func (r *result) remarks() (all []*remark) {
	kinds := map[string]*remark{}
	add := func(m remark) {
		steps := strings.Split(m.pointer, "/")
		for i, step := range steps {
			if _, err := strconv.ParseUint(step, 10, 64); err == nil {
				steps[i] = "*"
			}
		}
		kind := m.code + " " + strings.Join(steps, "/")
		first := kinds[kind]
		if first == nil {
			kinds[kind] = &m
			all = append(all, &m)
			return
		}
		cut := 1 // the last of many findings gives the number that were cut off, itself included
		_, _ = fmt.Sscanf(m.message, "... and %d more", &cut)
		first.more += cut
	}
	for _, p := range r.Problems {
		add(remark{p.Place, p.Pointer, p.Message, p.Keyword, false, 0})
	}
	for _, f := range r.Findings {
		add(remark{f.Place, f.Pointer, f.Message, f.Code, f.Severity == activityschema.SeverityWarning, 0})
	}
	return all
}

// String returns the remark's text in one line.
func (m *remark) String() string {
	at := "the document"
	if m.pointer != "" {
		at = cli.Shown(m.pointer)
	}
	text := at + ": " + m.message
	if m.more > 0 {
		text += fmt.Sprintf(", and %d more of the kind", m.more)
	}
	return text
}

// reportText prints one line for each remark, and the summary.
func reportText(w io.Writer, v *validation) error {
	b := bufio.NewWriter(w)
	for _, r := range v.results {
		for _, m := range r.remarks() {
			code := m.code
			if m.warning {
				code += ", warning"
			}
			fmt.Fprintf(b, "%s:%d:%d: %s (%s)\n", cli.Shown(r.File), m.Line, m.Column, m, code)
		}
		// A file named on the command line is reported even if it is valid; a file of a folder is not.
		if r.Error == "" && r.source.folder == nil && len(r.Problems)+len(r.Findings) == 0 {
			fmt.Fprintf(b, "%s: valid\n", cli.Shown(r.File))
		}
	}
	fmt.Fprintln(b, v.summary())
	return flushed(b)
}

// Escapes of GitHub's workflow commands, in their text and in their properties.
var (
	githubText     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// reportGitHub prints one annotation for each remark and each file that could not be read.
func reportGitHub(w io.Writer, v *validation) error {
	b := bufio.NewWriter(w)
	for _, r := range v.results {
		file := githubProperty.Replace(r.File)
		if r.Error != "" {
			fmt.Fprintf(b, "::error file=%s::%s\n", file, githubText.Replace(r.Error))
		}
		for _, m := range r.remarks() {
			level := "error"
			if m.warning && !v.Strict {
				level = "warning"
			}
			fmt.Fprintf(b, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", level, file, m.Line, m.Column,
				githubProperty.Replace(m.code), githubText.Replace(m.String()))
		}
	}
	fmt.Fprintln(b, v.summary())
	return flushed(b)
}

func flushed(b *bufio.Writer) error {
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
