package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const listType = "statuslist+jwt"

// maxETag is the longest entity tag that is sent back, in bytes.
const maxETag = 256

// listAnswer is what a request has found: a list, or the word that the copy is unchanged.
type listAnswer struct {
	list *statusList // nil: unchanged
	etag string
	held time.Duration // for which Cairn says to have waited for a change at most; 0: it has not
}

// ask gets a list (draft-ietf-oauth-status-list section 8.1) and verifies it.
func (s *RemoteStatusList) ask(f *flight, uri string) (listAnswer, error) {
	resp, err := s.send(f, uri)
	if err != nil {
		return listAnswer{}, fmt.Errorf("fetching the status list: %w", err)
	}
	defer resp.Body.Close()
	answer := listAnswer{held: min(appliedWait(resp.Header.Values("Preference-Applied")), f.wait)}
	switch {
	case resp.StatusCode == http.StatusNotModified && f.etag != "":
		return answer, nil
	case resp.StatusCode != http.StatusOK:
		return listAnswer{}, fmt.Errorf("fetching the status list: the answer has status %d", resp.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "application/"+listType {
		return listAnswer{}, errors.New("fetching the status list: the answer is of another type than application/" + listType)
	}
	// The limit counts after decompression: a short answer may be a long list of zeros.
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxListToken+1))
	if err != nil {
		return listAnswer{}, fmt.Errorf("fetching the status list: reading the answer: %w", err)
	}
	if len(body) > maxListToken {
		return listAnswer{}, fmt.Errorf("fetching the status list: the answer is over %d bytes", maxListToken)
	}
	if answer.list, err = s.verify(f.ctx, strings.TrimSpace(string(body)), uri); err != nil {
		return listAnswer{}, fmt.Errorf("fetching the status list: %w", err)
	}
	if answer.etag = resp.Header.Get("ETag"); len(answer.etag) > maxETag {
		answer.etag = ""
	}
	return answer, nil
}

func (s *RemoteStatusList) send(f *flight, uri string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(f.ctx, http.MethodGet, uri, nil)
	if err != nil {
		// The cause quotes the address, which may hold a password.
		return nil, errors.New("the address is not a URL")
	}
	r.Header.Set("Accept", "application/"+listType)
	r.Header.Set("Cache-Control", "no-cache") // a cache in between would add to its age
	if f.etag != "" {
		r.Header.Set("If-None-Match", f.etag)
		if f.wait > 0 {
			r.Header.Set("Prefer", "wait="+strconv.Itoa(int(f.wait/time.Second))) // RFC 7240 section 4.3
		}
	}
	return s.client.send(r)
}

// appliedWait reads Preference-Applied: wait=SECONDS (RFC 7240 section 3); 0 without.
func appliedWait(values []string) time.Duration {
	for _, line := range values {
		for preference := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			if seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 16); err == nil {
				return time.Duration(seconds) * time.Second
			}
		}
	}
	return 0
}

// verify returns the list of a token that the issuer has signed for uri.
func (s *RemoteStatusList) verify(ctx context.Context, token, uri string) (*statusList, error) {
	payload, _, err := s.rules.verifySignature(ctx, token, tokenKind{typ: listType, longest: maxListToken})
	if err != nil {
		// Not wrapped: it is the list that is invalid, not the session token.
		return nil, errors.New("the list is not believed: " + strings.TrimPrefix(err.Error(), "session: "))
	}
	return readStatusList(payload, uri, s.rules.now(), s.rules.leeway())
}
