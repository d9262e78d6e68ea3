package pages

import (
	"bytes"
	"hash/fnv"
	"io"
	"unicode"
)

// Home is the start page: the applications that the user may open. It is at / of the gateway's
// host too, if no application is there.
type Home struct {
	User       User
	AccountURL string // of the user's own page
	SignInURL  string // for who is not signed in; empty: there is no way to sign in
	Lists      bool   // there are applications that the page lists for some users
	Apps       []App
}

// Few reports whether the applications fit beside each other on a narrow page.
func (h Home) Few() bool { return len(h.Apps) <= 4 }

// App is one application on the start page.
type App struct {
	Title, Description string
	URL                string
	Icon               string // the URL of an image; empty: the first letter of the title
}

// Initial returns the first letter or digit of the title, which is shown in place of an icon.
func (a App) Initial() string {
	for _, r := range a.Title {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return string(unicode.ToUpper(r))
		}
	}
	return "·"
}

// hues is how many colours the style sheet has for letters.
const hues = 6

// Hue returns the number of the colour behind the letter, the same for the same title.
func (a App) Hue() int {
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, a.Title)
	return int(sum.Sum32() % hues)
}

// Home writes the page.
func (p *Pages) Home(w io.Writer, page Home) error { return p.render(w, "home", page) }

// iconElement is how the template of the start page begins an icon. No value on a page can
// look like it, because values are escaped.
const iconElement = `<img class="icon" src="`

// images returns the sources that a Content-Security-Policy must allow for the images of a page.
func (l *layout) images(page []byte) string {
	sources := ""
	if l.Logo != "" {
		sources += " data:"
	}
	if bytes.Contains(page, []byte(iconElement)) {
		sources += " 'self'"
	}
	if sources == "" {
		return ""
	}
	return "; img-src" + sources
}
