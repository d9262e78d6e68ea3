package oidc

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"authgate/e2e/world"

	"golang.org/x/net/html"
)

// browser does what a browser without scripts does: it stores cookies, follows
// redirects and sends forms.
type browser struct {
	t    testing.TB
	c    *http.Client
	url  *url.URL // of the page
	page world.Answer

	// stopAt is the beginning of the addresses to which it follows no redirect;
	// next is the address where it stopped.
	stopAt string
	next   string
}

// browse returns a browser without cookies.
func browse(g *world.Instance) *browser { return &browser{t: g.T, c: g.Client()} }

// open goes to an address.
func (b *browser) open(address string) {
	b.t.Helper()
	b.navigate(http.MethodGet, address, "")
}

// send fills in fields of the page's form and sends it.
func (b *browser) send(fields map[string]string) {
	b.t.Helper()
	f, ok := b.form()
	if !ok {
		b.t.Fatalf("%s shows no form: %d %s", b.url, b.page.Status, b.page.Body)
	}
	for name, value := range fields {
		f.fields.Set(name, value)
	}
	b.navigate(f.method, f.action, f.fields.Encode())
}

// navigate sends a request and follows redirects to a page or to stopAt.
func (b *browser) navigate(method, address, body string) {
	b.t.Helper()
	for range 20 {
		target := b.resolve(address)
		b.ask(method, target, body)
		b.url, b.next = target, ""
		if b.page.Status < 300 || b.page.Status > 399 {
			return
		}
		next := b.resolve(b.page.Header.Get("Location")).String()
		if b.stopAt != "" && strings.HasPrefix(next, b.stopAt) {
			b.next = next
			return
		}
		method, address, body = http.MethodGet, next, ""
	}
	b.t.Fatalf("too many redirects, the last to %s", b.url)
}

// ask sends one request and stores the answer as the page.
func (b *browser) ask(method string, target *url.URL, body string) {
	b.t.Helper()
	g := &world.Instance{T: b.t, Base: target.Scheme + "://" + target.Host}
	headers := []string{"Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
	if method == http.MethodPost {
		headers = append(headers, "Content-Type", world.TypeForm, "Origin", b.url.Scheme+"://"+b.url.Host)
	}
	var err error
	if b.page, err = g.Try(b.c, method, target.RequestURI(), body, headers...); err != nil {
		b.t.Fatal(err)
	}
}

// resolve makes an address of the page absolute.
func (b *browser) resolve(address string) *url.URL {
	b.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.url != nil {
		u = b.url.ResolveReference(u)
	}
	return u
}

// form is a form of a page.
type form struct {
	method, action string
	fields         url.Values // with the values of the page
}

// form returns the first form of the page.
func (b *browser) form() (form, bool) {
	b.t.Helper()
	found := elements(b.document(), "form")
	if len(found) == 0 {
		return form{}, false
	}
	f := form{method: strings.ToUpper(attribute(found[0], "method")), action: attribute(found[0], "action"), fields: url.Values{}}
	for _, field := range elements(found[0], "input") {
		if name := attribute(field, "name"); name != "" {
			f.fields.Set(name, attribute(field, "value"))
		}
	}
	return f, true
}

// links returns the addresses of the page's links.
func (b *browser) links() []string {
	b.t.Helper()
	var all []string
	for _, link := range elements(b.document(), "a") {
		all = append(all, attribute(link, "href"))
	}
	return all
}

func (b *browser) document() *html.Node {
	b.t.Helper()
	page, err := html.Parse(strings.NewReader(b.page.Body))
	if err != nil {
		b.t.Fatal(err)
	}
	return page
}

// elements returns the elements of a kind in a node.
func elements(in *html.Node, kind string) []*html.Node {
	var all []*html.Node
	for node := range in.Descendants() {
		if node.Type == html.ElementNode && node.Data == kind {
			all = append(all, node)
		}
	}
	return all
}

func attribute(node *html.Node, name string) string {
	for _, a := range node.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// signIn opens a page that leads to the provider, signs in there and comes back.
func (b *browser) signIn(page string, p *world.Provider, user string) {
	b.t.Helper()
	b.open(page)
	b.consent(p, user)
}

// consent sends the forms of the provider's pages.
func (b *browser) consent(p *world.Provider, user string) {
	b.t.Helper()
	for range 5 {
		f, ok := b.form()
		if !ok || b.next != "" || b.url.Scheme+"://"+b.url.Host != p.Issuer {
			return
		}
		if f.fields.Has("login") {
			b.send(map[string]string{"login": user, "password": "as good as any"})
		} else {
			b.send(nil)
		}
	}
	b.t.Fatalf("the provider shows too many forms: %s", b.url)
}

// cookie returns the value of a cookie that the browser sends to address, or an empty
// string.
func (b *browser) cookie(address, name string) string {
	for _, c := range b.c.Jar.Cookies(b.resolve(address)) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// describe returns what the browser shows, for messages of tests.
func (b *browser) describe() string {
	return fmt.Sprintf("%s: %d %s\n%.2000s", b.url, b.page.Status, b.page.Header.Get("Location"), b.page.Body)
}
