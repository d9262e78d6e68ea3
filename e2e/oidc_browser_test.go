package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// browser is a person in front of a browser: it keeps cookies, follows
// redirects, shows pages and sends their forms. It says about its requests
// what browsers say (Fetch Metadata). It runs no scripts.
type browser struct {
	t       testing.TB
	c       *http.Client
	url     *url.URL   // of what it shows
	page    answer     // what it shows
	history []*url.URL // what it asked for

	// stopAt is the beginning of addresses that it is not to follow a
	// redirect to; next is the one where it stopped.
	stopAt string
	next   string
}

// browse opens a browser with cookies of its own.
func (g *instance) browse() *browser { return &browser{t: g.t, c: g.client()} }

// open goes to an address that a person typed.
func (b *browser) open(address string) {
	b.t.Helper()
	b.navigate(http.MethodGet, address, "", "none")
}

// click follows a link of the page.
func (b *browser) click(address string) {
	b.t.Helper()
	b.navigate(http.MethodGet, address, "", site(b.url, b.resolve(address)))
}

// send sends the form of the page, with fields filled in.
func (b *browser) send(fields map[string]string) {
	b.t.Helper()
	f, ok := b.form()
	if !ok {
		b.t.Fatalf("%s shows no form: %d %s", b.url, b.page.status, b.page.body)
	}
	for name, value := range fields {
		f.fields.Set(name, value)
	}
	b.navigate(f.method, f.action, f.fields.Encode(), site(b.url, b.resolve(f.action)))
}

// navigate makes a request and those that follow from it, until there is a
// page or a place to stop at. from is the Sec-Fetch-Site of the first.
func (b *browser) navigate(method, address, body, from string) {
	b.t.Helper()
	for range 20 {
		target := b.resolve(address)
		b.ask(method, target, body, from)
		b.url, b.next, b.history = target, "", append(b.history, target)
		if b.page.status < 300 || b.page.status > 399 {
			return
		}
		next := b.resolve(b.page.header.Get("Location"))
		if b.stopAt != "" && strings.HasPrefix(next.String(), b.stopAt) {
			b.next = next.String()
			return
		}
		if from != "none" && from != "cross-site" { // which a chain of redirects stays
			from = site(target, next)
		}
		method, address, body = http.MethodGet, next.String(), ""
	}
	b.t.Fatalf("too many redirects, the last to %s", b.url)
}

// ask makes one request, and keeps the answer as the page.
func (b *browser) ask(method string, target *url.URL, body, from string) {
	b.t.Helper()
	request, err := http.NewRequest(method, target.String(), strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
	request.Header.Set("Sec-Fetch-Site", from)
	request.Header.Set("Sec-Fetch-Mode", "navigate")
	request.Header.Set("Sec-Fetch-Dest", "document")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", b.url.Scheme+"://"+b.url.Host)
	}
	response, err := b.c.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	b.page = answer{status: response.StatusCode, header: response.Header, body: string(content)}
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

// site is how browsers name the way between two addresses.
func site(from, to *url.URL) string {
	switch {
	case from.Scheme == to.Scheme && from.Host == to.Host:
		return "same-origin"
	case from.Hostname() == to.Hostname() && from.Scheme == to.Scheme:
		return "same-site"
	}
	return "cross-site"
}

// form is a form of a page.
type form struct {
	method, action string
	fields         url.Values // those that the page has filled in are
}

// form is the first form of the page.
func (b *browser) form() (form, bool) {
	b.t.Helper()
	for node := range b.document().Descendants() {
		if node.Type != html.ElementNode || node.Data != "form" {
			continue
		}
		f := form{method: strings.ToUpper(attribute(node, "method")), action: attribute(node, "action"), fields: url.Values{}}
		for field := range node.Descendants() {
			if name := attribute(field, "name"); name != "" && field.Data == "input" {
				f.fields.Set(name, attribute(field, "value"))
			}
		}
		return f, true
	}
	return form{}, false
}

// links are the addresses of the page's links.
func (b *browser) links() []string {
	b.t.Helper()
	var all []string
	for node := range b.document().Descendants() {
		if address := attribute(node, "href"); address != "" && node.Data == "a" {
			all = append(all, address)
		}
	}
	return all
}

func (b *browser) document() *html.Node {
	b.t.Helper()
	page, err := html.Parse(strings.NewReader(b.page.body))
	if err != nil {
		b.t.Fatal(err)
	}
	return page
}

func attribute(node *html.Node, name string) string {
	for _, a := range node.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// signIn goes to the gateway's page for signing in, which leads to the
// provider, signs in on the provider's pages and comes back.
func (b *browser) signIn(page string, p *openID, user string) {
	b.t.Helper()
	b.open(page)
	b.consent(p, user)
}

// consent does on the provider's pages what they ask for, up to the last.
func (b *browser) consent(p *openID, user string) {
	b.t.Helper()
	for range 5 {
		f, ok := b.form()
		if !ok || b.next != "" || b.url.Scheme+"://"+b.url.Host != p.issuer {
			return
		}
		if f.fields.Has("login") {
			b.send(map[string]string{"login": user, "password": "as good as any"})
		} else {
			b.send(nil)
		}
	}
	b.t.Fatalf("the provider asks on and on: %s", b.url)
}

// cookie is the value of a cookie that the browser would send to address,
// empty for none.
func (b *browser) cookie(address, name string) string {
	for _, c := range b.c.Jar.Cookies(b.resolve(address)) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// describe is what the browser shows, for messages of tests.
func (b *browser) describe() string {
	return fmt.Sprintf("%s: %d %s\n%.2000s", b.url, b.page.status, b.page.header.Get("Location"), b.page.body)
}
