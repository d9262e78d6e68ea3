package pages

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
)

// The pages keep to their own policy: what it forbids is not in them, and the style
// sheet has the hash that it allows.
func TestContentSecurityPolicy(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	for name, page := range all(p, "x") {
		document := rendered(t, page)
		styles := elements(document, "style")
		if len(styles) != 1 {
			t.Fatalf("%s: %d style elements, want 1", name, len(styles))
		}
		sum := sha256.Sum256([]byte(text(styles[0])))
		want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
		if got := p.ContentSecurityPolicy(""); got != want {
			t.Errorf("%s: the policy is\n%s, want\n%s", name, got, want)
		}
		want = strings.Replace(want, "form-action 'self'", "form-action 'self' https://a.example https://b.example", 1)
		if got := p.ContentSecurityPolicy("https://a.example https://b.example"); got != want {
			t.Errorf("%s: with other hosts the policy is\n%s, want\n%s", name, got, want)
		}
		for _, element := range []string{"script", "link", "img", "iframe", "object", "embed", "base"} {
			if len(elements(document, element)) > 0 {
				t.Errorf("%s has an element %s", name, element)
			}
		}
		for n := range document.Descendants() {
			for _, a := range n.Attr {
				if a.Key == "style" || a.Key == "src" || strings.HasPrefix(a.Key, "on") {
					t.Errorf("%s: %s has the attribute %s", name, n.Data, a.Key)
				}
			}
		}
	}
	if strings.Contains(style, "url(") || strings.Contains(style, "@import") {
		t.Error("the style sheet fetches something")
	}
}

func TestAccessible(t *testing.T) {
	t.Parallel()
	for name, page := range all(newPages(t), "x") {
		document := rendered(t, page)
		if lang := attr(elements(document, "html")[0], "lang"); lang != "en" {
			t.Errorf("%s: lang=%q, want en", name, lang)
		}
		for _, once := range []string{"title", "main", "h1"} {
			if found := elements(document, once); len(found) != 1 || text(found[0]) == "" {
				t.Errorf("%s: %d elements %s, want one with text", name, len(found), once)
			}
		}
		ids, labels := map[string]bool{}, map[string]bool{}
		for n := range document.Descendants() {
			if id := attr(n, "id"); id != "" {
				if ids[id] {
					t.Errorf("%s: two elements with the id %s", name, id)
				}
				ids[id] = true
			}
		}
		for _, label := range elements(document, "label") {
			labels[attr(label, "for")] = text(label) != ""
		}
		for _, input := range elements(document, "input") {
			if attr(input, "type") == "hidden" {
				continue
			}
			if !labels[attr(input, "id")] {
				t.Errorf("%s: the field %s has no label", name, attr(input, "name"))
			}
			if described := attr(input, "aria-describedby"); described != "" && !ids[described] {
				t.Errorf("%s: aria-describedby names %s, which is not there", name, described)
			}
			want := map[string]string{"username": "username", "password": "current-password"}[attr(input, "name")]
			if got := attr(input, "autocomplete"); want == "" || got != want {
				t.Errorf("%s: field %s has autocomplete=%q, want %q", name, attr(input, "name"), got, want)
			}
		}
	}
}

// The colours keep to WCAG 2.2 level AA: 4.5 to 1 for text
// (1.4.3), 3 to 1 for the edges of controls (1.4.11).
func TestContrast(t *testing.T) {
	t.Parallel()
	light, dark, found := strings.Cut(style, "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("the style sheet has no dark colours")
	}
	for scheme, sheet := range map[string]string{"light": light, "dark": dark} {
		for _, pair := range []struct {
			foreground, background string
			least                  float64
		}{
			{"text", "surface", 4.5}, {"text", "page", 4.5}, {"muted", "surface", 4.5}, {"accent", "surface", 4.5}, {"on-accent", "accent", 4.5},
			{"on-accent", "accent-strong", 4.5}, {"danger", "danger-surface", 4.5}, {"border", "surface", 3},
		} {
			a, b := luminance(t, sheet, pair.foreground), luminance(t, sheet, pair.background)
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < pair.least {
				t.Errorf("%s: --%s on --%s has a contrast of %.2f, want %.1f", scheme, pair.foreground, pair.background, ratio, pair.least)
			}
		}
	}
}

// luminance is the relative luminance (WCAG 2.2) of a custom property.
func luminance(t *testing.T, sheet, property string) float64 {
	t.Helper()
	match := regexp.MustCompile(`--` + property + `: #([0-9a-f]{6});`).FindStringSubmatch(sheet)
	if match == nil {
		t.Fatalf("--%s is not given as #rrggbb", property)
	}
	var channels [3]uint8
	fmt.Sscanf(match[1], "%02x%02x%02x", &channels[0], &channels[1], &channels[2])
	linear := func(channel uint8) float64 {
		c := float64(channel) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(channels[0]) + 0.7152*linear(channels[1]) + 0.0722*linear(channels[2])
}
