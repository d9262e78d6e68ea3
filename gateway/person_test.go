package gateway

import (
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// person is a browser with the cookies of each host.
type person struct {
	*rig
	jars  map[string]browserJar
	trail []string                // places that led on, since the last visit
	extra []string                // header lines of each request
	stop  func(place string) bool // before a request; nil: never
}

func (r *rig) person() *person { return &person{rig: r, jars: map[string]browserJar{}} }

// visit asks for an https URL as a page load and follows redirects, at most ten. It
// returns the last place and its answer.
func (p *person) visit(method, place, body string, header ...string) (string, *httptest.ResponseRecorder) {
	p.t.Helper()
	p.trail = nil
	for {
		u, err := url.Parse(place)
		if p.stop != nil && p.stop(place) {
			return place, nil
		}
		if err != nil || u.Scheme != "https" {
			p.t.Fatalf("the browser was led to %q", place)
		}
		w := p.ask(method, place, body, header...)
		if w.Code/100 != 3 {
			return place, w
		}
		p.trail = append(p.trail, place)
		if len(p.trail) > 10 {
			p.t.Fatalf("the browser is led on without end: %q", p.trail)
		}
		next, err := u.Parse(w.Header().Get("Location"))
		if err != nil {
			p.t.Fatal(err)
		}
		method, place, body, header = "GET", next.String(), "", nil
	}
}

// goesOn is visit, and follows a page of the gateway that loads itself once more: that
// request is one of the gateway's own site.
func (p *person) goesOn(place string) (string, *httptest.ResponseRecorder) {
	p.t.Helper()
	at, w := p.visit("GET", place, "")
	if w == nil || !strings.Contains(w.Body.String(), `content="0; url=/`) || !strings.HasPrefix(at, "https://gw.example/") {
		return at, w
	}
	extra := p.extra
	p.extra = []string{"Sec-Fetch-Site: same-origin"}
	defer func() { p.extra = extra }()
	return p.visit("GET", at, "")
}

// ask sends one request with the cookies of its host, and keeps those of the answer.
func (p *person) ask(method, place, body string, header ...string) *httptest.ResponseRecorder {
	p.t.Helper()
	u, err := url.Parse(place)
	if err != nil {
		p.t.Fatal(err)
	}
	jar := p.jars[u.Host]
	if jar == nil {
		jar = browserJar{}
		p.jars[u.Host] = jar
	}
	q := request(method, u.RequestURI(), body, append(append(slices.Clone(header), browser, jar.line()), p.extra...)...)
	q.Host = u.Host
	w := p.serve(q)
	jar.take(w)
	for _, c := range w.Result().Cookies() {
		if c.Domain != "" {
			p.t.Errorf("%s: a cookie for the domain %s", place, c.Domain)
		}
	}
	return w
}

// signIn fills in the sign-in form that the browser was led to from a place.
func (p *person) signIn(place, account string) (string, *httptest.ResponseRecorder) {
	p.t.Helper()
	at, w := p.visit("GET", place, "")
	if !strings.HasPrefix(at, "https://gw.example/signin?") || w.Code != 200 {
		p.t.Fatalf("%s leads to %s, %d, want the sign-in page of gw.example", place, at, w.Code)
	}
	return p.post(w, account)
}

// post sends the form of a page with an account of the rig.
func (p *person) post(page *httptest.ResponseRecorder, account string) (string, *httptest.ResponseRecorder) {
	p.t.Helper()
	action, fields := formOf(p.t, page)
	fields.Set("username", account)
	fields.Set("password", map[string]string{"alice": "wonderland", "bob": "builder"}[account])
	return p.visit("POST", "https://gw.example"+action, fields.Encode(), formType, "Origin: https://gw.example")
}

// formOf returns the action and the fields of the one form of a page.
func formOf(t testing.TB, w *httptest.ResponseRecorder) (action string, fields url.Values) {
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

// sees fails the test unless the person gets a page of the application, as the user.
func (p *person) sees(place, user string) {
	p.t.Helper()
	before := p.upstream.count()
	at, w := p.visit("GET", place, "")
	if at != place || w.Code != 200 || p.upstream.count() != before+1 || p.upstream.last().Header.Get("X-Auth-User") != user {
		p.t.Errorf("%s leads by %q to %s, %d, want the page for %s", place, p.trail, at, w.Code, user)
	}
}

// isOut fails the test unless the person has to sign in for a page.
func (p *person) isOut(place string) {
	p.t.Helper()
	before := p.upstream.count()
	if at, w := p.visit("GET", place, ""); !strings.HasPrefix(at, "https://gw.example/signin?") || w.Code != 200 || p.upstream.count() != before {
		p.t.Errorf("%s leads by %q to %s, %d, want the sign-in page", place, p.trail, at, w.Code)
	}
}

func pageOf(host string) string {
	if host == "gw.example" {
		return "https://gw.example/session/x?y=%2F&z"
	}
	return "https://" + host + "/x?y=%2F&z"
}

// ticketOf leads a person to the point where their browser would use a ticket for a
// host, and returns the place.
func (p *person) ticketOf(host string) string {
	p.t.Helper()
	complete := "https://" + host + "/signin/complete?ticket="
	p.stop = func(place string) bool { return strings.HasPrefix(place, complete) }
	defer func() { p.stop = nil }()
	at, w := p.visit("GET", "https://"+host+"/x?y", "")
	if w != nil {
		p.t.Fatalf("%s leads by %q to %s, %d, want a ticket", host, p.trail, at, w.Code)
	}
	return at
}
