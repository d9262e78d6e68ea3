package pages

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"authgate/internal/test/must"
)

// The pages keep to their own policy: what it forbids is not in them, and the style
// sheet has the hash that it allows.
func TestContentSecurityPolicy(t *testing.T) {
	t.Parallel()
	p := english(t)
	for name, page := range all(p, "x") {
		document := rendered(t, page)
		styles := elements(document, "style")
		if len(styles) != 1 {
			t.Fatalf("%s: %d style elements, want 1", name, len(styles))
		}
		source := func(n *html.Node) string {
			sum := sha256.Sum256([]byte(text(n)))
			return " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
		want := "default-src 'none'; style-src" + source(styles[0])
		images := elements(document, "img")
		if len(images) > 0 {
			want += "; img-src 'self'"
		}
		if scripts := elements(document, "script"); len(scripts) > 0 {
			hashes := each(document, "script", source)
			slices.Sort(hashes)
			want += "; script-src" + strings.Join(hashes, "") + "; connect-src 'self'"
		}
		want += "; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
		var body bytes.Buffer
		must.Do(t, page(&body))
		if got := sorted(p.ContentSecurityPolicy(body.Bytes(), "")); got != want {
			t.Errorf("%s: the policy is\n%s, want\n%s", name, got, want)
		}
		want = strings.Replace(want, "form-action 'self'", "form-action 'self' https://a.example https://b.example", 1)
		if got := sorted(p.ContentSecurityPolicy(body.Bytes(), "https://a.example https://b.example")); got != want {
			t.Errorf("%s: with other hosts the policy is\n%s, want\n%s", name, got, want)
		}
		if (len(images) > 0) != (name == "apps") {
			t.Errorf("%s has %d images", name, len(images))
		}
		for _, element := range []string{"link", "iframe", "object", "embed", "base"} {
			if len(elements(document, element)) > 0 {
				t.Errorf("%s has an element %s", name, element)
			}
		}
		for n := range document.Descendants() {
			for _, a := range n.Attr {
				if a.Key == "style" || a.Key == "src" && n.Data != "img" || strings.HasPrefix(a.Key, "on") {
					t.Errorf("%s: %s has the attribute %s", name, n.Data, a.Key)
				}
			}
		}
	}
	if strings.Contains(style, "url(") || strings.Contains(style, "@import") {
		t.Error("the style sheet fetches something")
	}
}

// sorted returns a policy with the sources of script-src sorted.
func sorted(policy string) string {
	before, rest, found := strings.Cut(policy, "; script-src ")
	if !found {
		return policy
	}
	sources, after, _ := strings.Cut(rest, ";")
	hashes := strings.Fields(sources)
	slices.Sort(hashes)
	return before + "; script-src " + strings.Join(hashes, " ") + ";" + after
}

// The policy allows the product's scripts that a page has, and no other script.
func TestScripts(t *testing.T) {
	t.Parallel()
	p := english(t)
	all, err := readScripts()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d scripts, %v", len(all), err)
	}
	for name, script := range all {
		element, err := all.element(name)
		if err != nil {
			t.Fatal(err)
		}
		got := p.ContentSecurityPolicy([]byte("<p>"+element), "")
		if !strings.Contains(got, "; script-src "+script.hash+"; ") {
			t.Errorf("%s: %s", name, got)
		}
		if strings.Contains(strings.ToLower(script.source), "</script") || strings.Contains(script.source, "<!--") {
			t.Errorf("%s ends its element itself", name)
		}
	}
	for _, page := range []string{"", "<script>alert(1)</script>", "<script src=x></script>"} {
		if got := p.ContentSecurityPolicy([]byte(page), ""); strings.Contains(got, "script-src") ||
			strings.Contains(got, "connect") {
			t.Errorf("with %q: %s", page, got)
		}
	}
	if _, err := all.element("other"); err == nil {
		t.Error("there is another script")
	}
}

func TestAccessible(t *testing.T) {
	t.Parallel()
	for name, page := range all(english(t), "x") {
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
			_, hidden := attribute(input, "hidden") // from users, and not from password managers
			if attr(input, "type") == "hidden" || hidden {
				continue
			}
			if !labels[attr(input, "id")] {
				t.Errorf("%s: the field %s has no label", name, attr(input, "name"))
			}
			if described := attr(input, "aria-describedby"); described != "" && !ids[described] {
				t.Errorf("%s: aria-describedby names %s, which is not there", name, described)
			}
			want, known := map[string]string{
				"username": "username", "password": "current-password", "current": "current-password",
				"new": "new-password", "again": "new-password",
				"name": "off", "roles": "", "for": "", "remember": "", "code": "one-time-code", "recovery": "off", "user_code": "off",
				"person": "off", // the name of somebody else
			}[cmp.Or(map[string]string{"recovery": "recovery", "person": "person"}[attr(input, "id")], attr(input, "name"))]
			got := strings.TrimSuffix(attr(input, "autocomplete"), " webauthn") // fills in a passkey instead
			if !known || got != want {
				t.Errorf("%s: field %s has autocomplete=%q, want %q", name, attr(input, "name"), got, want)
			}
		}
		for _, form := range elements(document, "form") {
			if fields := completed(form); slices.ContainsFunc(fields, isPassword) && strings.Fields(fields[0])[0] != "username" {
				t.Errorf("%s: a form with a password does not tell password managers the username first: %q", name, fields)
			}
		}
	}
}

// completed returns the values of autocomplete in a form, in their order.
func completed(form *html.Node) (fields []string) {
	for _, input := range elements(form, "input") {
		if field := attr(input, "autocomplete"); field != "" {
			fields = append(fields, field)
		}
	}
	return fields
}

func isPassword(field string) bool { return strings.HasSuffix(field, "-password") }

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
			{"text", "surface", 4.5}, {"text", "page", 4.5}, {"muted", "surface", 4.5}, {"accent", "surface", 4.5},
			{"on-accent", "accent", 4.5}, {"on-accent", "accent-strong", 4.5}, {"danger", "danger-surface", 4.5},
			{"border", "surface", 3},
		} {
			a, b := luminance(t, sheet, pair.foreground), luminance(t, sheet, pair.background)
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < pair.least {
				t.Errorf("%s: --%s on --%s has a contrast of %.2f, want %.1f",
					scheme, pair.foreground, pair.background, ratio, pair.least)
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

// Any accent of an operator is readable, as text and under text.
func TestAccentContrast(t *testing.T) {
	t.Parallel()
	for _, accent := range []string{
		"#000", "#fff", "#ff0", "#ffff00", "#1d5bb8", "#808080", "#00ff7f", "#ff0000", "#191f29", "#0000ff", "#777777",
	} {
		rules, err := accentRules(accent)
		if err != nil {
			t.Fatal(err)
		}
		light, dark, found := strings.Cut(rules, "@media (prefers-color-scheme: dark)")
		if !found {
			t.Fatal("there are no dark colours")
		}
		for sheet, surface := range map[string]string{light: lightSurface, dark: darkSurface} {
			behind, err := parseColour(surface)
			if err != nil || !strings.Contains(style, "--surface: "+surface+";") {
				t.Fatalf("%s is not a surface of the style sheet (%v)", surface, err)
			}
			a, strong, on := luminance(t, sheet, "accent"), luminance(t, sheet, "accent-strong"),
				luminance(t, sheet, "on-accent")
			for name, ratio := range map[string]float64{
				"the accent on the surface": (max(a, behind.luminance()) + 0.05) / (min(a, behind.luminance()) + 0.05),
				"text on the accent":        (max(a, on) + 0.05) / (min(a, on) + 0.05),
				"text on the strong accent": (max(strong, on) + 0.05) / (min(strong, on) + 0.05),
			} {
				if ratio < readable {
					t.Errorf("%s: %s has a contrast of %.2f in\n%s", accent, name, ratio, sheet)
				}
			}
		}
	}
	// A colour that is readable stays as it is.
	if rules, _ := accentRules("#1d5bb8"); !strings.HasPrefix(rules, ":root { --accent: #1d5bb8;") {
		t.Errorf("the accent is changed: %s", rules)
	}
	for _, wrong := range []string{
		"", "#", "red", "1d5bb8", "#1d5bb", "#12345g", "#+12345", "#1d5bb8;}", "#12", "rgb(1,2,3)",
	} {
		if err := CheckColour(wrong); err == nil {
			t.Errorf("%q is a colour", wrong)
		}
	}
}

// The logo is a part of the page, the help line is a text or a link.
func TestSite(t *testing.T) {
	t.Parallel()
	plain := func(o Options) *html.Node {
		return rendered(t, func(w io.Writer) error { return newSet(t, o).In("", nil).Error(w, ErrorPage{}) })
	}
	for help, want := range map[string]string{
		"":                                "",
		"Call 123 <b>":                    "Call 123 <b>",
		"https://help.example/?a=b&c=d":   "https://help.example/?a=b&c=d Help",
		"mailto:it@example.org?subject=x": "mailto:it@example.org?subject=x Help: it@example.org",
	} {
		page, got := plain(Options{Help: help}), ""
		for _, footer := range elements(page, "footer") {
			for _, a := range elements(footer, "a") {
				got += attr(a, "href") + " "
			}
			got += text(footer)
		}
		if got != want {
			t.Errorf("help %q is shown as %q, want %q", help, got, want)
		}
	}
	logo := Options{Title: "Example", Logo: Logo{"image/svg+xml", []byte("<svg/>")}}
	images := elements(plain(logo), "img")
	if len(images) != 1 || attr(images[0], "src") != "data:image/svg+xml;base64,PHN2Zy8+" {
		t.Errorf("the logo is %v", images)
	}
	if csp := newSet(t, logo).In("", nil).ContentSecurityPolicy(nil, ""); !strings.Contains(csp, "; img-src data:; ") {
		t.Errorf("the policy does not allow the logo: %s", csp)
	}
	if title := text(elements(plain(logo), "title")[0]); title != "This does not work · Example" {
		t.Errorf("the title is %q", title)
	}
}
