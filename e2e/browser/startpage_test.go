package browser

import (
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/chromedp/chromedp"
)

// shownApps are applications as operators name them.
var shownApps = []struct{ title, description, icon string }{
	{"Wiki", "What we know", "#0a7350"}, {"Grafana", "How our machines feel", ""}, {"Nextcloud", "Files", "#0082c9"},
	{"Git", "", ""}, {"Mail", "Letters from everywhere", "#a8322a"}, {"Vault", "Needs a second factor", ""},
	{"Notebooks", "Jupyter", "#e6522c"}, {"Continuous integration", "", ""},
}

// startPageOf starts a gateway with many applications, the first of which has a host and a
// page of its own.
func (c *chromium) startPageOf(t *testing.T, many int) (*world.Instance, *world.Recorder) {
	t.Helper()
	g, up := c.prepared(t), world.Record(t)
	g.Public = strings.Replace(g.Base, "localhost", "id.example.test", 1)
	routes := "routes:\n"
	for i := range many {
		app, host := shownApps[i%len(shownApps)], "wiki.example.test"
		if i > 0 {
			host = fmt.Sprintf("a%d.example.test", i)
		}
		icon := ""
		if app.icon != "" {
			icon = fmt.Sprintf("icon%d.svg", i%len(shownApps))
			g.Write(icon, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 48 48">`+
				`<script>document.title = "run"</script><style>path { stroke: #fff }</style>`+
				`<rect width="48" height="48" rx="10" fill="`+app.icon+`"/>`+
				`<path d="M12 32 22 18 29 27 36 14" stroke-width="4" fill="none"/></svg>`)
		}
		routes += fmt.Sprintf("  - {match: %s/, upstream: app, auth: [session], "+
			"app: {title: %q, description: %q, icon: %q}}\n",
			host, app.title, app.description, icon)
	}
	g.Configure("site: {title: Example, help: 'mailto:help@example.test'}\n" +
		"accounts: {file: accounts.yaml}\n" + world.App(up.URL) + routes)
	g.Write("accounts.yaml", world.Person("alice", world.WonderlandHash, ", name: Alice Example"))
	g.Run()
	return g, up
}

// startPageInBrowser opens an application from the start page by keyboard, without scripts on
// the page, and looks at the page with few and with many applications.
func startPageInBrowser(t *testing.T, c *chromium) {
	few, up := c.startPageOf(t, len(shownApps))
	b := c.tab(t)
	b.open(few.Public + "/signin")
	b.signIn("alice")
	b.shows("/", 200, "Your applications", "Wiki", "What we know", "Continuous integration")
	if got := b.value("[...document.querySelectorAll('img.icon')].filter(i => i.naturalWidth > 0).length"); got != "4" {
		t.Errorf("%s icons are shown", got)
	}
	if got := b.value("document.scripts.length + document.title"); got != "0Your applications · Example" {
		t.Errorf("scripts and title: %s", got)
	}
	icon := b.value("document.querySelector('img.icon').src")
	inTab(b, chromedp.KeyEvent("\t\t\t")) // the account, signing out, the first application
	b.load(chromedp.KeyEvent("\r"))
	b.arrives(strings.Replace(few.Base, "localhost", "wiki.example.test", 1) + "/")
	wantAsked(t, up, "GET", "/", "alice")
	noComplaints(t, b)
	b.open(icon)
	if got := b.value("document.title + document.querySelectorAll('rect').length"); got != "1" {
		t.Errorf("the icon as a document: %s", got)
	}

	many, _ := c.startPageOf(t, 40)
	alice := c.tab(t)
	alice.open(many.Public + "/signin")
	alice.signIn("alice")
	exhibit{"applications", 200, "Your applications", "Ihre Anwendungen", func(shown *tab) {
		shown.open(few.Public + "/account/apps")
		shown.signIn("alice")
	}}.show(t, c.tab(t))
	alice.fits()
	alice.isDark()
	alice.obeysAxe("forty applications")
	noComplaints(t, alice)
	frontispiece(t, c, few)
}

// frontispiece makes the picture of README.md for each scheme of colours: the sign-in page and
// the start page, side by side. With the environment variable AUTHGATE_PICTURES it writes them.
func frontispiece(t *testing.T, c *chromium, g *world.Instance) {
	t.Helper()
	const left, right, height = 480, 640, 730
	readme := world.ReadFile(t, world.Path("README.md"))
	for name, form := range map[string][2]string{
		"readme":      {"light", `<img src="docs/pages/readme.png"`},
		"readme-dark": {"dark", `<source media="(prefers-color-scheme: dark)" srcset="docs/pages/readme-dark.png">`},
	} {
		if !strings.Contains(readme, form[1]) {
			t.Errorf("README.md does not show %s.png", name)
		}
		b := c.tab(t)
		b.prefers(form[0])
		b.open(g.Public + "/signin")
		both := image.NewRGBA(image.Rect(0, 0, left+right, height))
		draw.Draw(both, image.Rect(0, 0, left, height), b.picture(left, height), image.Point{}, draw.Src)
		b.signIn("alice")
		b.shows("/", 200, "Your applications")
		draw.Draw(both, image.Rect(left, 0, left+right, height), b.picture(right, height), image.Point{}, draw.Src)
		if os.Getenv(picturesVariable) != "" {
			keepPicture(t, name, both)
		}
		file := world.ReadFile(t, filepath.Join(picturesFolder, name+".png"))
		kept, err := png.DecodeConfig(strings.NewReader(file))
		if err != nil || kept.Width != left+right || kept.Height != height || len(file) > 60_000 {
			t.Errorf("%s.png is %v with %d bytes (%v); make it anew with %s=1", name, kept, len(file), err, picturesVariable)
		}
	}
}
