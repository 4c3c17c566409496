package templates_test

import (
	"fmt"
	"math"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

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

// Whatever colour a club has, its links and buttons can be read, on light and dark pages.
func TestEveryAccentColourCanBeRead(t *testing.T) {
	r := newRenderer(t, templates.Options{})
	of := regexp.MustCompile(`--accent: (\S+); --accent-hover: (\S+); --on-accent: (\S+); --wash: (\S+);`)
	for _, accent := range []string{"#000000", "#ffffff", "#ffee00", "#ff0000", "#1f5e58", "#0000ff", "#808080", "#00ff00", "#123456", "#fedcba"} {
		path := r.ThemeURL(accent)
		w := httptest.NewRecorder()
		r.Themes().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		schemes := of.FindAllStringSubmatch(w.Body.String(), -1)
		if w.Code != 200 || len(schemes) != 2 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/css") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		for i, grounds := range [][]string{{"#ffffff", "#f4f2ee"}, {"#1e2426", "#15191a"}} {
			c := schemes[i]
			pairs := [][2]string{{c[1], c[4]}, {c[2], c[4]}, {c[3], c[1]}, {c[3], c[2]}}
			for _, g := range grounds {
				pairs = append(pairs, [2]string{c[1], g})
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
		if w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
