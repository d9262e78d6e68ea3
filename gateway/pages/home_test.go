package pages

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"authgate/internal/test/must"
)

// Only the icons of applications make the policy of a page allow images of this origin, beside
// the logo. What looks like one in a value does not.
func TestIconsInPolicy(t *testing.T) {
	t.Parallel()
	policy := func(o Options, page Home) string {
		t.Helper()
		p := must.Get(New(o))(t).In("", nil)
		var body bytes.Buffer
		must.Do(t, p.Home(&body, page))
		_, after, found := strings.Cut(p.ContentSecurityPolicy(body.Bytes(), ""), "; img-src ")
		if !found {
			return ""
		}
		sources, _, _ := strings.Cut(after, ";")
		return sources
	}
	logo := Options{Logo: Logo{"image/svg+xml", []byte("<svg/>")}}
	user := User{Username: iconElement, Name: iconElement}
	list := func(icon string) Home {
		return Home{User: user, Lists: true, Apps: []App{{iconElement, iconElement, "https://wiki.example/", icon}}}
	}
	for name, c := range map[string]struct {
		options Options
		page    Home
		want    string
	}{
		"nothing":             {Options{}, Home{User: user}, ""},
		"a letter":            {Options{}, list(""), ""},
		"an icon":             {Options{}, list("/icon"), "'self'"},
		"a logo":              {logo, list(""), "data:"},
		"a logo and an icon":  {logo, list("/icon"), "data: 'self'"},
		"a logo, and nothing": {logo, Home{}, "data:"},
	} {
		if got := policy(c.options, c.page); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A letter is shown in place of a missing icon. It is readable on each of the colours.
func TestLetters(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		"wiki": "W", "übersicht": "Ü", "«Zeit»": "Z", " 3D": "3", "🙂 chat": "C", "🙂": "·", "日程": "日",
	} {
		if got := (App{Title: title}).Initial(); got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
	found := map[int]bool{}
	for i := range 100 {
		found[App{Title: fmt.Sprint("application ", i)}.Hue()] = true
	}
	if len(found) != hues {
		t.Errorf("%d colours are used, want %d", len(found), hues)
	}
	for hue := range hues {
		_, rule, ok := strings.Cut(style, fmt.Sprintf("\n.hue-%d { background: ", hue))
		c := must.Get(parseColour(strings.Split(rule, ";")[0]))(t)
		if ratio := contrast(white, c); !ok || ratio < readable {
			t.Errorf("the letter on colour %d has a contrast of %.2f", hue, ratio)
		}
	}
	if strings.Contains(style, fmt.Sprintf(".hue-%d ", hues)) {
		t.Error("the style sheet has a colour that no application gets")
	}
}

// The page says what is true for its user: applications, none of them, or that they must sign
// in. Without applications for anybody, it says to open an address.
func TestHome(t *testing.T) {
	t.Parallel()
	p := english(t)
	alice := User{Username: "alice"}
	wiki := App{Title: "Wiki", URL: "https://wiki.example/"}
	const address, none, signIn = "open its address", "no application here", "Sign in to see your applications"
	for name, c := range map[string]struct {
		page Home
		has  []string
	}{
		"a user":             {Home{User: alice, Lists: true, Apps: []App{wiki}}, []string{"Wiki", "alice"}},
		"who may open none":  {Home{User: alice, Lists: true}, []string{none, "alice"}},
		"a stranger":         {Home{Lists: true, SignInURL: "/signin"}, []string{signIn}},
		"without the list":   {Home{User: alice}, []string{address, "alice"}},
		"a stranger without": {Home{SignInURL: "/signin"}, []string{address}},
	} {
		shown := text(rendered(t, func(w io.Writer) error { return p.Home(w, c.page) }))
		for _, part := range []string{"Wiki", "alice", address, none, signIn} {
			want := strings.Contains(strings.Join(c.has, " "), part)
			if strings.Contains(shown, part) != want {
				t.Errorf("%s: has %q: %t", name, part, !want)
			}
		}
	}
}
