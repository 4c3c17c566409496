package httpd

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

// publishProgram is the program of the page, as .ci/build makes it.
var publishProgram = sync.OnceValue(func() templates.Program {
	file := filepath.Join(testDir, "publish.wasm")
	build := exec.Command("sh", "-ec", `go run -exec=cp -ldflags='-s -w' ../../../publish-wasm "$0"
		gzip -9n "$0"; cp "$(go env GOROOT)/lib/wasm/wasm_exec.js" "$0.js"`, file)
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("build publish-wasm: %v: %s", err, out))
	}
	packed, err := os.ReadFile(file + ".gz")
	run, runErr := os.ReadFile(file + ".js")
	if err = cmp.Or(err, runErr); err != nil {
		panic(err)
	}
	return templates.Program{WASM: packed, Exec: run}
})

// someProgram is for tests that see the page and do not run the program.
var someProgram = templates.Program{WASM: []byte("not gzip"), Exec: []byte("// nothing")}

const homeLat, homeLon = 47.0, 8.0

// writeRides writes recordings of an hour that begin at the home, in an order of their names.
func writeRides(t *testing.T, dir string, n int) (files []string) {
	t.Helper()
	for i := range n {
		var b bytes.Buffer
		b.WriteString(`<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><trk><type>cycling</type><trkseg>` + "\n")
		start := time.Date(2026, 5, 3, 6, 30, 0, 0, time.UTC).AddDate(0, 0, i)
		for s := range 3600 {
			turn := 2 * math.Pi * float64(s) / 3600
			lat := homeLat + 0.05*(1-math.Cos(turn))
			lon := homeLon + 0.07*math.Sin(turn)*math.Cos(float64(i))
			fmt.Fprintf(&b, `<trkpt lat="%.7f" lon="%.7f"><ele>%.1f</ele><time>%s</time><extensions><hr>%d</hr><cad>85</cad></extensions></trkpt>`+"\n",
				lat, lon, 400+
					80*math.Sin(3*turn), start.Add(time.Duration(s)*time.Second).Format(time.RFC3339), 120+s%20)
		}
		b.WriteString("</trkseg></trk></gpx>\n")
		files = append(files, filepath.Join(dir, fmt.Sprintf("ride-%03d.gpx", i)))
		noError(t, os.WriteFile(files[i], b.Bytes(), 0o600))
	}
	return files
}

// writeArchive writes the archive of a Strava account: recordings of devices, with their titles.
func writeArchive(t *testing.T, file string) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/muktihari/fit").Output()
	noError(t, err)
	export, titles := t.TempDir(), "Activity ID,Activity Date,Activity Name,Filename\n"
	noError(t, os.Mkdir(filepath.Join(export, "activities"), 0o700))
	for i, name := range []string{"Activity.fit", "activity_multisport.fit", "activity_poolswim.fit", "Settings.fit", "WithGearChangeData.fit"} {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "from_official_sdk", name))
		noError(t, err)
		path := fmt.Sprintf("activities/%d.fit", i)
		noError(t, os.WriteFile(filepath.Join(export, path), data, 0o600))
		titles += fmt.Sprintf("%d,today,Title of %s,%s\n", i, name, path)
	}
	noError(t, os.WriteFile(filepath.Join(export, "activities.csv"), []byte(titles), 0o600))
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	noError(t, cmp.Or(z.AddFS(os.DirFS(export)), z.Close()))
	noError(t, os.WriteFile(file, b.Bytes(), 0o600))
}

var generatedAt = regexp.MustCompile(`"generated_at":"[^"]*"`)

// filesOf returns the files of a folder with their modes, but for when the index was written.
func filesOf(t *testing.T, at fs.FS) map[string]string {
	t.Helper()
	files := map[string]string{}
	noError(t, fs.WalkDir(at, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(at, name)
		noError(t, err)
		info, err := entry.Info()
		noError(t, err)
		files[name] = info.Mode().String() + " " + generatedAt.ReplaceAllString(string(data), "")
		return nil
	}))
	return files
}

// requests collects what the browser asks of the network, the page and its workers.
type requests struct {
	sync.Mutex
	list []string
}

func (l *requests) listen(t *testing.T, target context.Context) {
	t.Helper()
	noError(t, chromedp.Listen(target, func(ev any) {
		if sent, ok := ev.(*network.EventRequestWillBeSent); ok {
			l.Lock()
			defer l.Unlock()
			l.list = append(l.list, sent.Request.Method+" "+sent.Request.URL)
		}
	}))
}

func (l *requests) take() []string {
	l.Lock()
	defer l.Unlock()
	list := l.list
	l.list = nil
	return list
}

// download clicks a link and waits until the browser has saved the file.
func download(t *testing.T, tab context.Context, link string) {
	t.Helper()
	progress := chromedp.Events(tab, cdpbrowser.DownloadProgress)
	mustDo(t, tab, "download", chromedp.WaitVisible(id(link)), chromedp.Click(id(link)))
	for event, err := range progress {
		noError(t, err)
		if event.State == cdpbrowser.DownloadProgressStateCompleted {
			return
		}
	}
}

// A member without a terminal: chooses recordings and an archive, names the home, and takes the folder. It is that of
// the command, with the same places. No recording and no place leaves the device, and nothing can: the network has
// no request, and the worker is refused one. CAIRN_PUBLISH_RIDES=200 measures it with so many recordings.
func TestMemberPublishesInTheBrowser(t *testing.T) {
	rides, err := strconv.Atoi(os.Getenv("CAIRN_PUBLISH_RIDES"))
	if err != nil {
		rides = 6
	}
	thirdParty(t)
	axeFile := filepath.Join(relyingPartyHome(), "node_modules", "axe-core", "axe.min.js")
	needFiles(t, axeFile)
	axe, err := os.ReadFile(axeFile)
	noError(t, err)
	if size := len(publishProgram().WASM); size > 6_000_000 {
		t.Errorf("the program has %d bytes, packed", size)
	}
	s := startService(t, serviceOptions{Program: publishProgram()}, "bob")
	s.addUser("ada", account.FlagActivity)
	dir := t.TempDir()
	recordings, saved := filepath.Join(dir, "recordings"), filepath.Join(dir, "saved")
	noError(t, os.Mkdir(recordings, 0o700))
	noError(t, os.Mkdir(saved, 0o700))
	files := writeRides(t, recordings, rides)
	files = append(files, filepath.Join(recordings, "export.zip"))
	writeArchive(t, files[rides])

	bob := s.signedIn("bob")
	needStatus(t, "without the flag", bob.get("/account/publish/"), 404)
	lacks(t, "the page of the data links what bob may not see", bob.get("/account/data").Text, "/account/publish/")

	tab := chromium(t)
	_, err = chromedp.Call(tab, cdppage.AddScriptToEvaluateOnNewDocument,
		cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: string(axe)})
	noError(t, err)
	var early requests
	early.listen(t, tab)
	mustDo(t, tab, "the page", chromedp.Navigate(s.URL+"/login/"), chromedp.SendKeys(field("handle"), "ada"), chromedp.SendKeys(field("password"), password),
		chromedp.Click(id("login-submit")), chromedp.WaitVisible(page("account")), chromedp.Navigate(s.URL+"/account/data"), chromedp.Click(id("publish-link")), chromedp.WaitVisible(id("make")))
	_, err = chromedp.Call(tab, cdpbrowser.SetDownloadBehavior,
		cdpbrowser.SetDownloadBehaviorParams{Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllow,
			DownloadPath: saved, EventsEnabled: new(true), BrowserContextID: chromedp.FromContext(tab).BrowserContextID})
	noError(t, err)
	for _, sent := range early.take() {
		if strings.Contains(sent, "publish.") && strings.Contains(sent, ".wasm") {
			t.Error("the program is loaded before anything is chosen")
		}
	}
	mustDo(t, tab, "nothing is chosen", chromedp.Click(id("make")))
	if says, err := chromedp.Run(tab, chromedp.Text(id("recordings-error"))); err != nil || says != "Choose recordings first." {
		t.Errorf("without recordings: %q %v", says, err)
	}
	mustDo(t, tab, "the program", chromedp.SetUploadFiles(id("recordings"), files[:1]), wait(`document.getElementById("found").textContent === "Recordings: 1"`))
	loaded := early.take()
	worker := workerOf(t, tab)
	var log requests
	log.listen(t, worker)
	log.listen(t, tab)

	all := fmt.Sprintf(`document.getElementById("found").textContent === "Recordings: %d"`, rides+5)
	mustDo(t, tab, "recordings", chromedp.SetUploadFiles(id("recordings"), files), wait(all))
	mustDo(t, tab, "a place", chromedp.SetValue(id("privacy"), "blur_start"), dispatch("privacy", "change"), chromedp.SendKeys(id("place-name"), "home"),
		chromedp.SendKeys(id("place-near"),
			"47;8"), chromedp.Click(id("place-add")), wait(`document.getElementById("place-near-error")?.textContent.startsWith("Enter latitude")`),
		chromedp.SetValue(id("place-at"), strconv.Itoa(5)), dispatch("place-at", "change"), chromedp.Click(id("place-add")), chromedp.WaitVisible(id("places-save")),
		chromedp.Click(id("make")), wait(`document.getElementById("place-error").textContent.startsWith("Save the file")`))
	// A file replaces no place that exists nowhere else, and one that cannot be read replaces nothing: the folder is made below.
	notPlaces := filepath.Join(dir, "notes.yaml")
	noError(t, os.WriteFile(notPlaces, []byte("these: are notes\n"), 0o600))
	mustDo(t, tab, "a file while a place is not saved", chromedp.SetUploadFiles(id("places-file"), []string{notPlaces}),
		wait(`document.getElementById("place-error").textContent.startsWith("Save the file") && !document.getElementById("places-file").value`))
	download(t, tab, "places-save")
	mustDo(t, tab, "a file without places", chromedp.SetUploadFiles(id("places-file"), []string{notPlaces}),
		wait(`/^(?!Save the file)./.test(document.getElementById("place-error").textContent)`))
	places := filepath.Join(saved, "places.yaml")
	noError(t, os.Chmod(places, 0o600))
	mustDo(t, tab, "titles", chromedp.Click(id("titles")))
	began := time.Now()
	mustDo(t, tab, "make", chromedp.Click(id("make")), wait(`!document.getElementById("make").disabled`))
	if rides >= 200 {
		took, memory := effort(t, tab)
		t.Logf("%d recordings in %v, %.1f s of processor time, %d MB of memory", rides, time.Since(began), took, memory)
		if took > 60 || memory > 500 {
			t.Error("that is more than 60 s and 500 MB")
		}
	}
	if says, _ := chromedp.Run(tab, chromedp.Text(id("make-error"))); says != "" {
		t.Fatalf("the page says %q", says)
	}
	download(t, tab, "zip")
	if sent := log.take(); len(sent) > 0 {
		t.Errorf("the browser asked for %v after the recordings were chosen", sent)
	}
	for _, sent := range loaded {
		if !strings.HasPrefix(sent, "GET "+s.URL+"/static/") {
			t.Errorf("the browser asked for %s", sent)
		}
	}
	refused, err := chromedp.Run(worker, chromedp.Evaluate[string](`fetch("/healthz").then(r => "answered " + r.status, e => e.name)`, chromedp.EvalAwaitPromise))
	if err != nil || refused != "TypeError" {
		t.Errorf("the worker asks the network: %q %v", refused, err)
	}
	if shown, err := chromedp.Run(tab, chromedp.Evaluate[int](`document.getElementById("preview").shadowRoot.querySelectorAll("section svg.track").length`)); err != nil || shown < rides && shown < 95 {
		t.Errorf("the preview shows %d tracks, %v", shown, err)
	}
	outcome, err := chromedp.Run(tab, chromedp.Text(id("outcome")))
	if err != nil || !strings.Contains(outcome, "near your places: "+strconv.Itoa(rides)) {
		t.Errorf("the page says %q %v", outcome, err)
	}
	schemes := []string{"light", "dark"}
	if rides > 100 {
		schemes = nil // of a preview that large, axe would say nothing else
	}
	for _, scheme := range schemes {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
			Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}
		_, err := chromedp.Call(tab, emulation.SetEmulatedMedia, media)
		noError(t, err)
		mustDo(t, tab, "a phone", chromedp.EmulateViewport(320, 640))
		for _, v := range axeViolations(t, tab, "") {
			t.Errorf("%s: %s", scheme, v)
		}
		if wide, err := chromedp.Run(tab, chromedp.Evaluate[int64]("document.documentElement.scrollWidth")); err != nil || wide > 320 {
			t.Errorf("%d pixels wide: %v", wide, err)
		}
	}
	shot(t, tab, "publish-made")

	public := filepath.Join(dir, "public") // one recording of the archive does not leave the disc
	cairn(t, exitFailed, "activity", "import", recordings, "--into", public, "--handle", "ada", "--name", "Ada", "--privacy", "blur_start", "--places", places, "--titles")
	archive, err := zip.OpenReader(filepath.Join(saved, "public.zip"))
	noError(t, err)
	t.Cleanup(func() { _ = archive.Close() })
	within, err := fs.Sub(archive, "public")
	noError(t, err)
	got, want := filesOf(t, within), filesOf(t, os.DirFS(public))
	if len(got) != len(want) || len(want) < rides+3 {
		t.Errorf("%d files in the archive, the command writes %d", len(got), len(want))
	}
	for name, text := range want {
		same(t, fmt.Sprintf("%s differs: the command writes", name), got[name], text)
	}
}

// effort returns the processor time and the most memory, in MB, of the process of the page, which is the busiest.
func effort(t *testing.T, tab context.Context) (seconds float64, memory int) {
	t.Helper()
	info, err := chromedp.CallBrowser(tab, systeminfo.GetProcessInfo, cdp.Empty{})
	noError(t, err)
	for _, p := range info.ProcessInfo {
		if p.Type != "renderer" || p.CPUTime < seconds {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.ID))
		noError(t, err)
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		kB, err := strconv.Atoi(strings.Fields(peak)[0])
		noError(t, err)
		seconds, memory = p.CPUTime, kB/1024
	}
	return seconds, memory
}

// wait waits until an expression is true: WaitVisible knows no text.
func wait(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(4*time.Minute)))
		return err
	})
}

// dispatch sends the event that follows a choice of a person.
func dispatch(name, event string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(`document.getElementById(%q).dispatchEvent(new Event(%q))`, name, event)))
		return err
	})
}

// workerOf attaches to the worker of the page.
func workerOf(t *testing.T, tab context.Context) context.Context {
	t.Helper()
	targets, err := chromedp.Targets(tab)
	noError(t, err)
	for _, target := range targets {
		if target.Type == "worker" && strings.Contains(target.URL, "publish-worker") {
			worker, cancel := chromedp.NewContext(tab, chromedp.WithTargetID(target.TargetID))
			t.Cleanup(cancel)
			return worker
		}
	}
	t.Fatalf("the page has no worker: %v", targets)
	return nil
}
