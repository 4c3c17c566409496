package templates_test

import (
	"fmt"
	"math"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/store/storetest/racetest"
	"github.com/cairn-id/cairn/templates"
)

// luminance is that of WCAG 2.2, of #rrggbb.
func luminance(t *testing.T, s string) float64 {
	t.Helper()
	var c [3]int
	if _, err := fmt.Sscanf(s, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
		t.Fatal(s, err)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		part := float64(c[i]) / 255
		if part <= 0.04045 {
			part /= 12.92
		} else {
			part = math.Pow((part+0.055)/1.055, 2.4)
		}
		sum += weight * part
	}
	return sum
}

// Whatever colour a club has, its links and buttons can be read, on light and dark pages, in each box of cairn.css.
func TestEveryAccentColourCanBeRead(t *testing.T) {
	racetest.Skip(t)
	r := newRenderer(t, templates.Options{})
	w := httptest.NewRecorder()
	r.Static().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", r.StaticURL("cairn.css"), nil))
	light, dark, _ := strings.Cut(w.Body.String(), "prefers-color-scheme: dark")
	var css [2]map[string]string // the colours of the style sheet by name
	for i, part := range []string{light, dark} {
		css[i] = make(map[string]string)
		for _, c := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(part, -1) {
			css[i][c[1]] = c[2]
		}
	}
	of := regexp.MustCompile(`--accent: (\S+); --accent-hover: (\S+); --on-accent: (\S+); --wash: (\S+);`)
	accents := []string{"#1f5e58", "#808080", "#123456", "#fedcba"}
	for n := range 16 * 16 * 16 {
		accents = append(accents, fmt.Sprintf("#%02x%02x%02x", n>>8*17, n>>4&15*17, n&15*17))
	}
	for _, accent := range accents {
		path := r.ThemeURL(accent)
		w := httptest.NewRecorder()
		r.Themes().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		schemes := of.FindAllStringSubmatch(w.Body.String(), -1)
		if w.Code != 200 || len(schemes) != 2 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/css") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		for i, c := range schemes {
			pairs := [][2]string{{c[1], c[4]}, {c[2], c[4]}, {c[3], c[1]}, {c[3], c[2]}, {css[i]["ink"], c[4]}, {css[i]["soft"], c[4]}}
			for _, g := range []string{"paper", "ground", "warm-wash", "bad-wash"} {
				pairs = append(pairs, [2]string{c[1], css[i][g]}, [2]string{c[2], css[i][g]})
			}
			for _, p := range pairs {
				a, b := luminance(t, p[0])+0.05, luminance(t, p[1])+0.05
				if ratio := max(a, b) / min(a, b); ratio < 4.5 {
					t.Errorf("%s: %s on %s has %.2f", accent, p[0], p[1], ratio)
				}
			}
		}
	}
	for _, path := range []string{"/theme/", "/theme/red.css", "/theme/1f5e58.css", "/theme/1f5e58-00000000.css", strings.Replace(r.ThemeURL("#1f5e58"), "1f5e58", "1f5e59", 1), "/theme/1f5e58;}-x.css"} {
		w := httptest.NewRecorder()
		r.Themes().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		equal(t, path, w.Code, 404)
	}
}
