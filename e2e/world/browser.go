package world

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Browser behaves as a browser without scripts: it stores cookies, follows
// redirects and sends forms.
type Browser struct {
	T      testing.TB
	Client *http.Client
	URL    *url.URL // of the page
	Page   Answer

	// StopAt is the beginning of the addresses to which it follows no redirect;
	// Next is the address where it stopped.
	StopAt string
	Next   string
}

// Browse returns a browser without cookies.
func Browse(g *Instance) *Browser { return &Browser{T: g.T, Client: g.Client()} }

// Open goes to an address.
func (b *Browser) Open(address string) {
	b.T.Helper()
	b.Navigate(http.MethodGet, address, "")
}

// Send fills in fields of the page's form and sends it.
func (b *Browser) Send(fields map[string]string) {
	b.T.Helper()
	f, ok := b.Form()
	if !ok {
		b.T.Fatalf("%s shows no form: %d %s", b.URL, b.Page.Status, b.Page.Body)
	}
	for name, value := range fields {
		f.Fields.Set(name, value)
	}
	b.Navigate(f.Method, f.Action, f.Fields.Encode())
}

// Navigate sends a request and follows redirects to a page or to StopAt.
func (b *Browser) Navigate(method, address, body string) {
	b.T.Helper()
	for range 20 {
		target := b.resolve(address)
		b.ask(method, target, body)
		b.URL, b.Next = target, ""
		if b.Page.Status < 300 || b.Page.Status > 399 {
			return
		}
		next := b.resolve(b.Page.Header.Get("Location")).String()
		if b.StopAt != "" && strings.HasPrefix(next, b.StopAt) {
			b.Next = next
			return
		}
		method, address, body = http.MethodGet, next, ""
	}
	b.T.Fatalf("too many redirects, the last to %s", b.URL)
}

// ask sends one request and stores the answer as the page.
func (b *Browser) ask(method string, target *url.URL, body string) {
	b.T.Helper()
	g := &Instance{T: b.T, Base: target.Scheme + "://" + target.Host}
	headers := []string{"Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
	if method == http.MethodPost {
		headers = append(headers, "Content-Type", TypeForm, "Origin", b.URL.Scheme+"://"+b.URL.Host)
	}
	var err error
	if b.Page, err = g.Try(b.Client, method, target.RequestURI(), body, headers...); err != nil {
		b.T.Fatal(err)
	}
}

// resolve makes an address of the page absolute.
func (b *Browser) resolve(address string) *url.URL {
	b.T.Helper()
	u, err := url.Parse(address)
	if err != nil {
		b.T.Fatal(err)
	}
	if b.URL != nil {
		u = b.URL.ResolveReference(u)
	}
	return u
}

// form is a form of a page.
type form struct {
	Method, Action string
	Fields         url.Values // with the values of the page
}

// Form returns the first form of the page.
func (b *Browser) Form() (form, bool) {
	b.T.Helper()
	found := elements(b.document(), "form")
	if len(found) == 0 {
		return form{}, false
	}
	f := form{
		Method: strings.ToUpper(attribute(found[0], "method")),
		Action: attribute(found[0], "action"), Fields: url.Values{},
	}
	for _, field := range elements(found[0], "input") {
		if name := attribute(field, "name"); name != "" {
			f.Fields.Set(name, attribute(field, "value"))
		}
	}
	return f, true
}

// Links returns the addresses of the page's links.
func (b *Browser) Links() []string {
	b.T.Helper()
	var all []string
	for _, link := range elements(b.document(), "a") {
		all = append(all, attribute(link, "href"))
	}
	return all
}

func (b *Browser) document() *html.Node {
	b.T.Helper()
	page, err := html.Parse(strings.NewReader(b.Page.Body))
	if err != nil {
		b.T.Fatal(err)
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

// Cookie returns the value of a cookie that the browser sends to address, or an empty
// string.
func (b *Browser) Cookie(address, name string) string {
	for _, c := range b.Client.Jar.Cookies(b.resolve(address)) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// Describe returns the text of the page, for messages of tests.
func (b *Browser) Describe() string {
	return fmt.Sprintf("%s: %d %s\n%.2000s", b.URL, b.Page.Status, b.Page.Header.Get("Location"), b.Page.Body)
}
