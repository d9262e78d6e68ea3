package pages

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/language"

	"authgate/internal/test/must"
)

// own returns the pages with an operator's texts, in the language of a browser.
func own(t *testing.T, texts Texts, accept string) *Pages {
	t.Helper()
	return newSet(t, Options{Texts: texts}).In("", []string{accept})
}

// source returns the HTML of a page.
func source(t *testing.T, render func(io.Writer) error) string {
	t.Helper()
	var page strings.Builder
	if err := render(&page); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// An operator's texts are in the place of those of the pages, as text and never as HTML. All
// others stay.
func TestOwnTexts(t *testing.T) {
	t.Parallel()
	texts := Texts{
		"en": {"signin.submit": "Enter <b>&", "signin.current": "<i>{user}</i> goes"},
		"de": {"signin.submit": "Hinein"},
	}
	in := SignIn{Password: true, Current: "<b>alice"}
	en := source(t, func(w io.Writer) error { return own(t, texts, "en").SignIn(w, in) })
	for _, want := range []string{
		">Enter &lt;b&gt;&amp;</button>", ">&lt;i&gt;<strong>&lt;b&gt;alice</strong>&lt;/i&gt; goes", ">Password</label>",
	} {
		if !strings.Contains(en, want) {
			t.Errorf("%q is not in\n%s", want, en)
		}
	}
	de := source(t, func(w io.Writer) error { return own(t, texts, "de").SignIn(w, in) })
	if !strings.Contains(de, ">Hinein</button>") || !strings.Contains(de, ">Passwort</label>") {
		t.Errorf("in German\n%s", de)
	}
	before := source(t, func(w io.Writer) error { return own(t, nil, "en").SignIn(w, in) })
	if !strings.Contains(before, ">Sign in</button>") {
		t.Error("an operator's texts change those of others")
	}
}

// An operator's title is in the title of the page that tells of a mistake too. That has a form of its
// own where the operator has written one.
func TestOwnTitles(t *testing.T) {
	t.Parallel()
	wrong := func(texts Texts) string {
		page := rendered(t, func(w io.Writer) error {
			return own(t, texts, "en").SignIn(w, SignIn{Notice: NoticeWrong})
		})
		return text(elements(page, "title")[0])
	}
	for want, texts := range map[string]map[string]string{
		"Error: Come in": {"signin.title": "Come in"},
		"Come in (no)":   {"signin.title": "Come in", "title.error": "{title} (no)"},
		"Not like that":  {"signin.title": "Come in", "signin.title.error": "Not like that"},
	} {
		if got := wrong(Texts{"en": texts}); got != want {
			t.Errorf("with %v the title is %q, want %q", texts, got, want)
		}
	}
	names := must.Get(TextNames())(t)
	for _, l := range must.Get(readTexts())(t) {
		for key, own := range errorTitles {
			if err := CheckText(own, "Not like that"); err != nil || !slices.Contains(names, own) {
				t.Errorf("an operator cannot have the text %s: %v", own, err)
			}
			title, wrong := must.Get(l.titled(key, false))(t), must.Get(l.titled(key, true))(t)
			if !strings.HasSuffix(wrong, title) || wrong == title {
				t.Errorf("%s: of %q the title with a mistake is %q", l.tag, title, wrong)
			}
		}
	}
}

// A language of an operator's own has the texts that are missing from the language above it, and
// else from English.
func TestOwnLanguages(t *testing.T) {
	t.Parallel()
	texts := Texts{
		"sv":    {ownName: "Svenska", "signin.submit": "Logga in", "wait.seconds.other": "{n} sekunder"},
		"de-CH": {ownName: "Schweizerdeutsch", "signin.submit": "Aamälde"},
		"en-AU": {ownName: "Australian", "signin.submit": "G’day"},
	}
	for accept, want := range map[string][3]string{
		"sv-SE":           {"sv", "Logga in", "Password"},
		"de-CH":           {"de-CH", "Aamälde", "Passwort"},
		"de-DE":           {"de", "Anmelden", "Passwort"},
		"en-AU":           {"en-AU", "G’day", "Password"},
		"en":              {"en", "Sign in", "Password"},
		"fi, sv;q=0.9":    {"sv", "Logga in", "Password"},
		"de;q=0.1, sv-FI": {"sv", "Logga in", "Password"},
	} {
		p := own(t, texts, accept)
		page := source(t, func(w io.Writer) error { return p.SignIn(w, SignIn{Password: true}) })
		if p.Language() != want[0] || !strings.Contains(page, `<html lang="`+want[0]+`"`) ||
			!strings.Contains(page, ">"+want[1]+"</button>") || !strings.Contains(page, ">"+want[2]+"</label>") {
			t.Errorf("%s: want %q, got %s\n%s", accept, want, p.Language(), page)
		}
	}
}

// What a language lacks is the operator's own text of the language above it, and of English.
func TestOwnLanguagesInherit(t *testing.T) {
	t.Parallel()
	texts := Texts{
		"en":    {"signin.password": "Secret"},
		"de":    {"signin.submit": "Hinein"},
		"de-CH": {ownName: "Schweizerdeutsch"},
		"fi":    {ownName: "suomi"},
		"sv":    {ownName: "svenska", "signin.submit": "Logga in"},
		"sv-FI": {ownName: "finlandssvenska"},
		"zh-HK": {ownName: "Hong Kong", "signin.username": "HK"},
		"zh-TW": {ownName: "Taiwan"},
	}
	texts["zh-Hant"] = map[string]string{ownName: "Hant", "signin.submit": "Hant"}
	for accept, want := range map[string][2]string{
		"de-CH": {"Hinein", "Passwort"}, "fi": {"Sign in", "Secret"}, "sv-FI": {"Logga in", "Secret"},
		"zh-HK": {"Hant", "Secret"}, "zh-TW": {"Hant", "Secret"},
	} {
		p := own(t, texts, accept)
		page := source(t, func(w io.Writer) error { return p.SignIn(w, SignIn{Password: true}) })
		if p.Language() != accept || !strings.Contains(page, ">"+want[0]+"</button>") ||
			!strings.Contains(page, ">"+want[1]+"</label>") {
			t.Errorf("%s: want %q, got %s\n%s", accept, want, p.Language(), page)
		}
	}
}

// A language that is written from right to left has its page so.
func TestOwnLanguageLeftward(t *testing.T) {
	t.Parallel()
	texts := Texts{"he": {ownName: "עברית"}, "ur": {ownName: "اردو"}, "el": {ownName: "Ελληνικά"}}
	for accept, want := range map[string]string{
		"he": `<html lang="he" dir="rtl">`, "ur": `<html lang="ur" dir="rtl">`,
		"el": `<html lang="el">`, "en": `<html lang="en">`,
	} {
		page := source(t, func(w io.Writer) error { return own(t, texts, accept).SignedOut(w, SignedOut{}) })
		if !strings.Contains(page, want) {
			t.Errorf("the page is to have %s:\n%s", want, page)
		}
	}
}

// A language counts in its own forms.
func TestCount(t *testing.T) {
	t.Parallel()
	l := &texts{tag: language.MustParse("pl"), all: map[string]string{
		"x.one": "{n} kod", "x.few": "{n} kody", "x.many": "{n} kodów", "x.other": "{n} kodu",
	}}
	for n, want := range map[int]string{0: "0 kodów", 1: "1 kod", 2: "2 kody", 5: "5 kodów", 22: "22 kody"} {
		if got, err := l.count("x", n); got != want || err != nil {
			t.Errorf("%d: %q, %v", n, got, err)
		}
	}
	l.tag = language.English
	if got, err := l.count("x", 5); got != "5 kodu" || err != nil {
		t.Errorf("a form that a language does not have: %q, %v", got, err)
	}
}

// The texts of an operator's own language have no form that only English has.
func TestOwnCount(t *testing.T) {
	t.Parallel()
	p := own(t, Texts{"fi": {ownName: "suomi", "wait.seconds.other": "{n} s"}}, "fi")
	page := source(t, func(w io.Writer) error { return p.Error(w, ErrorPage{Status: 429, Wait: 1}) })
	if !strings.Contains(page, "<strong>1 s</strong>") {
		t.Error(page)
	}
}

func TestParseLanguage(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{
		"sv": "sv", "DE": "de", "pt_br": "pt-BR", "zh-Hant": "zh-Hant",
		"": "", "und": "", "deutsch": "", "xx": "", "<b>": "", "de fr": "",
	} {
		if got, err := ParseLanguage(tag); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q: %v", tag, got, err)
		}
	}
}

// A text has the places of the one that it replaces, and no others.
func TestCheckText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"signin.submit", "Enter", ""},
		{"signin.heading", "Enter {host}", ""},
		{"signedin.unbegun", "{host} or {host}", ""},
		{"wait.seconds.few", "{n} s", ""},
		{"signin.heading", "Enter {user}", "has {user}; expected {host}, where a value is put in"},
		{"signin.heading", "Enter", "has no braces; expected {host}, where a value is put in"},
		{"signin.heading", "{host} {Host}", "has {Host}, {host}; expected {host}, where a value is put in"},
		{"signin.heading", "{host} {", "has {, {host}; expected {host}, where a value is put in"},
		{"signin.heading", "{host} }", "has {host}, }; expected {host}, where a value is put in"},
		{"signin.submit", "{}", "has {}; no value is put into this text, so it can have no braces"},
		{"wait.seconds.few", "some", "has no braces; expected {n}, where a value is put in"},
		{"signin.submit", " ", "is empty; remove the line to keep the text of the gateway"},
		{"signin.submit", "a\nb", "contains a control character or a line break"},
		{"signin.submit", strings.Repeat("ä", 1001), "has 1001 characters; at most 1000 fit on a page"},
		{"date.months", "1 2 3", "has 3 words; expected the names of the twelve months, with spaces between them"},
	} {
		got := ""
		if err := CheckText(c.name, c.text); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %.40q: %q, want %q", c.name, c.text, got, c.want)
		}
	}
}

// What a language lacks is known by name, but for forms in which it may not count.
func TestMissing(t *testing.T) {
	t.Parallel()
	languages, err := builtIn()
	if err != nil {
		t.Fatal(err)
	}
	whole := maps.Clone(languages[0].all)
	if got, err := Missing("sv", Texts{"sv": whole}); len(got) > 0 || err != nil {
		t.Errorf("a whole language lacks %q (%v)", got, err)
	}
	delete(whole, "signin.submit")
	delete(whole, "wait.seconds.one")
	texts := Texts{"sv": whole, "sv-FI": {ownName: "x"}, "de-CH": {ownName: "x"}}
	for tag, want := range map[string][]string{"sv": {"signin.submit"}, "sv-FI": {"signin.submit"}, "de-CH": nil} {
		if got, err := Missing(tag, texts); !slices.Equal(got, want) || err != nil {
			t.Errorf("%s lacks %q (%v), want %q", tag, got, err, want)
		}
	}
	for tag, fails := range map[string]bool{"de": false, "en": false, "de-CH": true, "sv": true, "en-GB": true} {
		got, err := Missing(tag, Texts{tag: {"signin.submit": "x"}})
		if len(got) > 0 || (err != nil) != fails {
			t.Errorf("%s lacks %q (%v)", tag, got, err)
		}
	}
}

// Wherever a page has an operator's text, it is text: the page has no other elements and attributes,
// and allows no more.
func TestOwnTextsInject(t *testing.T) {
	t.Parallel()
	languages, err := builtIn()
	if err != nil {
		t.Fatal(err)
	}
	hostile := map[string]string{}
	for name, text := range languages[0].all {
		written := `"'><script>alert(1)</script><img src=x onerror='alert(1)'></title></style><!--` +
			strings.Join(placesIn(text), `" onfocus="alert(1)`)
		if name == monthNames {
			written = strings.Repeat("<b> ", 12)
		}
		if err := CheckText(name, written); err != nil {
			t.Fatal(err)
		}
		hostile[name] = written
	}
	choice := Switch{"/language", "token", "/"}
	plain := newSet(t, Options{}).In("", nil).With(choice)
	attacked := own(t, Texts{"en": hostile}, "en").With(choice)
	expected := all(plain, "plain")
	for name, page := range all(attacked, "plain") {
		var want, got bytes.Buffer
		if err := errors.Join(expected[name](&want), page(&got)); err != nil {
			t.Fatal(err)
		}
		wantPolicy := plain.ContentSecurityPolicy(want.Bytes(), "")
		if policy := attacked.ContentSecurityPolicy(got.Bytes(), ""); policy != wantPolicy {
			t.Errorf("%s allows %s, want %s", name, policy, wantPolicy)
		}
		bones := func(b *bytes.Buffer) []string {
			return skeleton(rendered(t, func(w io.Writer) error { _, err := b.WriteTo(w); return err }))
		}
		if diff := cmp.Diff(bones(&want), bones(&got)); diff != "" {
			t.Errorf("%s has other elements (-want +got):\n%s", name, diff)
		}
	}
}

// The page shows the text that an operator writes, with its value, and no element of it.
func FuzzOwnText(f *testing.F) {
	f.Add("Enter {host}", "gw.example")
	f.Add("<script>{host}</script>", "<b>")
	f.Add("&amp; {host} \u2028{host}", "{host}")
	f.Add("{host", "x")
	f.Fuzz(func(t *testing.T, written, host string) {
		if CheckText("signin.heading", written) != nil || !utf8.ValidString(written+host) || host == "" ||
			strings.ContainsFunc(host, unicode.IsControl) {
			return
		}
		p := own(t, Texts{"en": {
			"signin.heading": written, "error.user": strings.ReplaceAll(written, "{host}", "{user}"),
		}}, "en")
		page := rendered(t, func(w io.Writer) error { return p.SignIn(w, SignIn{Host: host}) })
		want := strings.ReplaceAll(written, "{host}", host)
		if got := each(page, "h1", text); !slices.Equal(got, []string{want}) {
			t.Errorf("the heading is %q, want %q", got, want)
		}
		page = rendered(t, func(w io.Writer) error {
			return p.Error(w, ErrorPage{Status: 403, User: User{Username: host}})
		})
		if got := text(elements(page, "main")[0]); !strings.Contains(got, want) || len(elements(page, "script")) > 0 {
			t.Errorf("the page says %q, want %q", got, want)
		}
	})
}
