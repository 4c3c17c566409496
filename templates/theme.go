package templates

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// colour is an sRGB colour with components from 0 to 1.
type colour [3]float64

var (
	white, black = colour{1, 1, 1}, colour{}
	colourForm   = regexp.MustCompile("^#?[0-9a-f]{6}$")
)

// parseColour parses a colour such as #1f5e58; the # is optional.
func parseColour(s string) (c colour, ok bool) {
	if !colourForm.MatchString(s) {
		return c, false
	}
	n, _ := strconv.ParseUint(strings.TrimPrefix(s, "#"), 16, 32)
	return colour{float64(n >> 16 & 255), float64(n >> 8 & 255), float64(n & 255)}.times(1.0 / 255), true
}

func (c colour) times(f float64) colour { return colour{c[0] * f, c[1] * f, c[2] * f} }

// mix returns the colour mixed with a share, from 0 to 1, of another.
func (c colour) mix(other colour, share float64) colour {
	a, b := c.times(1-share), other.times(share)
	return colour{a[0] + b[0], a[1] + b[1], a[2] + b[2]}
}

func (c colour) String() string {
	part := func(f float64) int { return int(math.Round(f * 255)) }
	return fmt.Sprintf("#%02x%02x%02x", part(c[0]), part(c[1]), part(c[2]))
}

// contrast returns the contrast ratio of two colours, from 1 to 21 (WCAG 2.2).
func contrast(a, b colour) float64 {
	luminance := func(c colour) float64 {
		part := func(f float64) float64 {
			if f <= 0.04045 {
				return f / 12.92
			}
			return math.Pow((f+0.055)/1.055, 2.4)
		}
		return 0.2126*part(c[0]) + 0.7152*part(c[1]) + 0.0722*part(c[2])
	}
	x, y := luminance(a)+0.05, luminance(b)+0.05
	return max(x, y) / min(x, y)
}

// minContrast is the contrast that text needs (WCAG 2.2, 1.4.3) with a margin, since colours are
// rounded when they are written.
const minContrast = 4.6

// scheme returns the colours of a theme on light or dark pages. It mixes the accent with toward,
// black or white, until it is readable on all backgrounds of such pages.
func scheme(accent, toward colour, backgrounds ...colour) string {
	for share := 0.0; ; share += 0.02 {
		c := accent.mix(toward, min(share, 1))
		wash := backgrounds[0].mix(c, 0.08)
		worst := contrast(c, wash)
		for _, b := range backgrounds {
			worst = min(worst, contrast(c, b))
		}
		if worst < minContrast && share < 1 {
			continue
		}
		on, hover := white, c.mix(toward, 0.2)
		if contrast(c, black) > contrast(c, white) {
			on = black
		}
		return fmt.Sprintf("--accent: %s; --accent-hover: %s; --on-accent: %s; --wash: %s;", c, hover, on, wash)
	}
}

// themeCSS returns the style sheet of an accent colour. The backgrounds are those of cairn.css:
// cards, the page, and the boxes of warnings and errors.
func themeCSS(accent colour) []byte {
	rgb := func(s string) colour { c, _ := parseColour(s); return c }
	light := scheme(accent, black, white, rgb("#f4f2ee"), rgb("#fdf3df"), rgb("#fbecea"))
	dark := scheme(accent, white, rgb("#1e2426"), rgb("#15191a"), rgb("#37301d"), rgb("#3a1f1c"))
	return []byte(":root { " + light + " }\n@media (prefers-color-scheme: dark) { :root { " + dark + " } }\n")
}

// ThemeURL returns the path of the style sheet of an accent colour, with a hash of its content. It
// returns "" if accent is not a colour.
func (r *Renderer) ThemeURL(accent string) string {
	c, ok := parseColour(accent)
	if !ok {
		return ""
	}
	sum := sha256.Sum256(themeCSS(c))
	return r.base + "/theme/" + strings.TrimPrefix(accent, "#") + "-" + hex.EncodeToString(sum[:4]) + ".css"
}

// Themes serves the style sheets under {base}/theme/. It generates each from the colour in its path.
func (r *Renderer) Themes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, r.base+"/theme/"), "-")
		c, ok := parseColour(name)
		if !ok || req.URL.Path != r.ThemeURL(name) || req.Method != http.MethodGet && req.Method != http.MethodHead {
			http.NotFound(w, req)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/css; charset=utf-8")
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("X-Content-Type-Options", "nosniff")
		if req.Method == http.MethodGet {
			_, _ = w.Write(themeCSS(c))
		}
	})
}
