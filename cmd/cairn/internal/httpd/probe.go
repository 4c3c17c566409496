package httpd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/disk"
	"github.com/cairn-id/cairn/templates"
)

// A probe asks through the public address how a request arrives here: only the service sees which
// address a proxy passes on. Only someone who can read the database can ask. The question is sealed
// with a key derived from the installation's secret and is valid for a minute; for anyone else the
// path does not exist. It grants nothing else. The answer describes the request that carries it, so
// whoever intercepts a question and repeats it learns their own address and that of the proxy in
// front of the service. The answer repeats the question's nonce under its own seal, which proves
// that no other server made it.

const (
	// probePath is below the path of the issuer.
	probePath   = "/doctor"
	probeHeader = "X-Cairn-Probe"
	// ProbePadding is a header with the number of bytes of further headers that the answer shall have, at most
	// maxPadding.
	ProbePadding = "X-Cairn-Padding"
	maxPadding   = 4 << 10

	sealProbe, sealSeen = "probe", "probe answer"
	maxProbeAnswer      = 16 << 10
)

// probe seals and opens questions and answers.
type probe struct{ seal *web.Sealer }

func newProbe(installation []byte, now func() time.Time) (probe, error) {
	if now == nil {
		now = time.Now
	}
	lifetimes := map[string]time.Duration{sealProbe: time.Minute, sealSeen: time.Minute}
	seal, err := web.NewSealer(installation, lifetimes, now)
	return probe{seal}, err
}

// Seen is a request as it arrived at the service.
type Seen struct {
	Nonce        string     `json:"nonce"`   // of the question
	Peer         netip.Addr `json:"peer"`    // that sent it
	Trusted      bool       `json:"trusted"` // the peer is a trusted proxy
	Client       netip.Addr `json:"client"`  // the visitor's address for the limits and the log
	ForwardedFor []string   `json:"forwarded_for"`
	OpenFiles    uint64     `json:"open_files"` // limit of the service; 0: not known
	NoCookie     bool       `json:"no_cookie"`
	// Passed are the headers of DeviceBinding, DPoP and FromPages that arrived, and those that came back.
	Passed []string `json:"passed"`
}

// Headers are the names of headers that a proxy must pass on.
type Headers struct{ Requests, Answers []string }

// DeviceBinding and DPoP (RFC 9449) are the headers of these, FromPages those that say which page made a request.
var (
	DeviceBinding = Headers{
		[]string{"Sec-Secure-Session-Id", "Secure-Session-Response"},
		[]string{"Secure-Session-Registration", "Secure-Session-Challenge"},
	}
	DPoP      = Headers{[]string{"DPoP"}, []string{"DPoP-Nonce"}}
	FromPages = Headers{Requests: []string{"Origin", "Sec-Fetch-Site"}}
)

// maxHops limits the addresses of X-Forwarded-For in an answer.
const maxHops = 16

func (p probe) answer(proxies []netip.Prefix, notFound http.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var seen Seen
		if p.seal.Open(sealProbe, r.Header.Get(probeHeader), &seen.Nonce) != nil {
			notFound.ServeHTTP(w, r)
			return nil
		}
		web.Note(r.Context(), "doctor")
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
			seen.Peer = peer.Addr().Unmap().WithZone("")
		}
		seen.OpenFiles, seen.NoCookie = disk.OpenFiles(), len(r.Cookies()) == 0
		seen.Client, seen.Trusted = clientAddress(r, proxies)
		for hop := range strings.SplitSeq(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",") {
			if hop = templates.Shortened(strings.TrimSpace(hop), 64); hop != "" && len(seen.ForwardedFor) < maxHops {
				seen.ForwardedFor = append(seen.ForwardedFor, hop)
			}
		}
		for _, name := range slices.Concat(DeviceBinding.Requests, DPoP.Requests, FromPages.Requests) {
			if r.Header.Get(name) != "" {
				seen.Passed = append(seen.Passed, name)
			}
		}
		for _, name := range slices.Concat(DeviceBinding.Answers, DPoP.Answers) {
			w.Header().Set(name, `"doctor"`)
		}
		sealed, err := p.seal.Seal(sealSeen, seen)
		if err != nil {
			return err
		}
		if n, _ := strconv.Atoi(r.Header.Get(ProbePadding)); n > 0 {
			w.Header().Set(ProbePadding, strings.Repeat("x", min(n, maxPadding)))
		}
		return web.WriteJSON(w, http.StatusOK, map[string]string{"answer": sealed})
	}
}

// ErrOtherService is the error for an answer that this installation did not give.
var ErrOtherService = errors.New("the answer is not from this installation, or the clocks differ by over a minute")

// AskSeen asks the service of this database at an issuer how a request with the header arrives.
// secret is account.SecretInstallation.
func AskSeen(
	ctx context.Context, client *http.Client, issuer string, secret []byte, header http.Header,
) (seen Seen, err error) {
	p, err := newProbe(secret, nil)
	if err != nil {
		return seen, err
	}
	nonce := rand.Text()
	question, err := p.seal.Seal(sealProbe, nonce)
	if err != nil {
		return seen, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, issuer+probePath, nil)
	if err != nil {
		return seen, fmt.Errorf("ask %s: %w", issuer, err)
	}
	maps.Copy(r.Header, header)
	r.Header.Set(probeHeader, question)
	res, err := client.Do(r)
	if err != nil {
		return seen, err
	}
	defer func() { _ = res.Body.Close() }()
	var body struct{ Answer string }
	text, err := io.ReadAll(io.LimitReader(res.Body, maxProbeAnswer))
	if err != nil {
		return seen, err
	}
	if res.StatusCode >= http.StatusInternalServerError || res.StatusCode == http.StatusTooManyRequests {
		return seen, fmt.Errorf("the answer is %s", res.Status)
	}
	err = json.Unmarshal(text, &body)
	if err != nil || p.seal.Open(sealSeen, body.Answer, &seen) != nil || seen.Nonce != nonce {
		return Seen{}, fmt.Errorf("%w (%s)", ErrOtherService, res.Status)
	}
	for _, name := range slices.Concat(DeviceBinding.Answers, DPoP.Answers) {
		if res.Header.Get(name) != "" {
			seen.Passed = append(seen.Passed, name)
		}
	}
	return seen, nil
}
