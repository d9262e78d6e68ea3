package rig

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Person is a browser with the cookies of each host.
type Person struct {
	*Client
	Jars  map[string]Jar
	Trail []string                // places that led on, since the last visit
	Extra []string                // header lines of each request
	Stop  func(place string) bool // before a request; nil: never
}

// Person returns a browser without cookies.
func (c *Client) Person() *Person { return &Person{Client: c, Jars: map[string]Jar{}} }

// Visit asks for an https URL as a page load and follows redirects, at most ten. It
// returns the last place and its answer.
func (p *Person) Visit(method, place, body string, header ...string) (string, *httptest.ResponseRecorder) {
	p.T.Helper()
	p.Trail = nil
	for {
		u, err := url.Parse(place)
		if p.Stop != nil && p.Stop(place) {
			return place, nil
		}
		if err != nil || u.Scheme != "https" {
			p.T.Fatalf("the browser was led to %q", place)
		}
		w := p.Ask(method, place, body, header...)
		if w.Code/100 != 3 {
			return place, w
		}
		p.Trail = append(p.Trail, place)
		if len(p.Trail) > 10 {
			p.T.Fatalf("the browser is led on without end: %q", p.Trail)
		}
		next, err := u.Parse(w.Header().Get("Location"))
		if err != nil {
			p.T.Fatal(err)
		}
		method, place, body, header = "GET", next.String(), "", nil
	}
}

// GoesOn is Visit, and follows a page of the gateway that loads itself once more: that
// request is one of the gateway's own site.
func (p *Person) GoesOn(place string) (string, *httptest.ResponseRecorder) {
	p.T.Helper()
	at, w := p.Visit("GET", place, "")
	if w == nil || !strings.Contains(w.Body.String(), `content="0; url=/`) ||
		!strings.HasPrefix(at, "https://gw.example/") {
		return at, w
	}
	extra := p.Extra
	p.Extra = []string{"Sec-Fetch-Site: same-origin"}
	defer func() { p.Extra = extra }()
	return p.Visit("GET", at, "")
}

// Ask sends one request with the cookies of its host, and keeps those of the answer.
func (p *Person) Ask(method, place, body string, header ...string) *httptest.ResponseRecorder {
	p.T.Helper()
	u, err := url.Parse(place)
	if err != nil {
		p.T.Fatal(err)
	}
	jar := p.Jars[u.Host]
	if jar == nil {
		jar = Jar{}
		p.Jars[u.Host] = jar
	}
	q := Request(method, u.RequestURI(), body, append(append(slices.Clone(header), Browser, jar.Line()), p.Extra...)...)
	q.Host = u.Host
	w := p.Serve(q)
	jar.Take(w)
	for _, c := range w.Result().Cookies() {
		if c.Domain != "" {
			p.T.Errorf("%s: a cookie for the domain %s", place, c.Domain)
		}
	}
	return w
}

// SignIn fills in the sign-in form that the browser was led to from a place.
func (p *Person) SignIn(place, account string) (string, *httptest.ResponseRecorder) {
	p.T.Helper()
	at, w := p.Visit("GET", place, "")
	if !strings.HasPrefix(at, "https://gw.example/signin?") || w.Code != 200 {
		p.T.Fatalf("%s leads to %s, %d, want the sign-in page of gw.example", place, at, w.Code)
	}
	return p.Post(w, account)
}

// Post sends the form of a page with an account of the rig.
func (p *Person) Post(page *httptest.ResponseRecorder, account string) (string, *httptest.ResponseRecorder) {
	p.T.Helper()
	action, fields := FormOf(p.T, page)
	fields.Set("username", account)
	fields.Set("password", map[string]string{"alice": "wonderland", "bob": "builder"}[account])
	return p.Visit("POST", "https://gw.example"+action, fields.Encode(), Form, "Origin: https://gw.example")
}

// FormOf returns the action and the fields of the first form of a page.
func FormOf(t testing.TB, w *httptest.ResponseRecorder) (action string, fields url.Values) {
	t.Helper()
	page, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		t.Fatal(err)
	}
	fields = url.Values{}
	for node := range page.Descendants() {
		attributes := map[string]string{}
		for _, a := range node.Attr {
			attributes[a.Key] = a.Val
		}
		switch node.Data {
		case "form":
			if action != "" {
				return action, fields
			}
			action = attributes["action"]
		case "input":
			if _, ticked := attributes["checked"]; attributes["type"] == "checkbox" && !ticked {
				continue // a browser leaves it out
			}
			fields.Set(attributes["name"], attributes["value"])
		}
	}
	return action, fields
}

// Sees fails the test unless the person gets a page of the application, as the user.
func (p *Person) Sees(place, user string) {
	p.T.Helper()
	before := p.App.Reached()
	at, w := p.Visit("GET", place, "")
	if at != place || w.Code != 200 || p.App.Reached() != before+1 || p.App.LastUser() != user {
		p.T.Errorf("%s leads by %q to %s, %d, want the page for %s", place, p.Trail, at, w.Code, user)
	}
}

// IsOut fails the test unless the person has to sign in for a page.
func (p *Person) IsOut(place string) {
	p.T.Helper()
	before := p.App.Reached()
	at, w := p.Visit("GET", place, "")
	if !strings.HasPrefix(at, "https://gw.example/signin?") || w.Code != 200 || p.App.Reached() != before {
		p.T.Errorf("%s leads by %q to %s, %d, want the sign-in page", place, p.Trail, at, w.Code)
	}
}

// PageOf returns a page for people at a host.
func PageOf(host string) string {
	if host == "gw.example" {
		return "https://gw.example/session/x?y=%2F&z"
	}
	return "https://" + host + "/x?y=%2F&z"
}

// TicketOf leads a person to the point where their browser would use a ticket for a
// host, and returns the place.
func (p *Person) TicketOf(host string) string {
	p.T.Helper()
	complete := "https://" + host + "/signin/complete?ticket="
	p.Stop = func(place string) bool { return strings.HasPrefix(place, complete) }
	defer func() { p.Stop = nil }()
	at, w := p.Visit("GET", "https://"+host+"/x?y", "")
	if w != nil {
		p.T.Fatalf("%s leads by %q to %s, %d, want a ticket", host, p.Trail, at, w.Code)
	}
	return at
}
