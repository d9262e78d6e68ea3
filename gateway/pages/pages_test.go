package pages

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/google/go-cmp/cmp"
)

// all renders each page with value v in every one of its string fields, and no field
// empty.
func all(p *Pages, v string) map[string]func(io.Writer) error {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	return map[string]func(io.Writer) error{
		"sign-in": func(w io.Writer) error {
			return p.SignIn(w, SignIn{v, v, v, v, true, v, true, []Provider{{v, v}, {v, v}}})
		},
		"error":      func(w io.Writer) error { return p.Error(w, ErrorPage{403, v, v, v, v}) },
		"account":    func(w io.Writer) error { return p.Account(w, Account{v, v, v, []string{v, v}, v, v, now, v, v}) },
		"logout":     func(w io.Writer) error { return p.ConfirmLogout(w, ConfirmLogout{v, v}) },
		"signed out": func(w io.Writer) error { return p.SignedOut(w, SignedOut{v}) },
		"onward":     func(w io.Writer) error { return p.Onward(w, Onward{v}) },
	}
}

// rendered parses what a page wrote.
func rendered(t testing.TB, page func(io.Writer) error) *html.Node {
	t.Helper()
	var body bytes.Buffer
	if err := page(&body); err != nil {
		t.Fatal(err)
	}
	document, err := html.Parse(&body)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// skeleton lists the elements of a document with the names of their
// attributes, and its comments.
func skeleton(document *html.Node) []string {
	var bones []string
	for n := range document.Descendants() {
		switch n.Type {
		case html.ElementNode:
			bone := n.Data
			for _, a := range n.Attr {
				bone += " " + a.Namespace + a.Key
			}
			bones = append(bones, bone)
		case html.CommentNode:
			bones = append(bones, "<!--"+n.Data+"-->")
		}
	}
	return bones
}

// elements returns the elements of the name.
func elements(document *html.Node, name string) []*html.Node {
	return slices.DeleteFunc(slices.Collect(document.Descendants()), func(n *html.Node) bool { return n.Type != html.ElementNode || n.Data != name })
}

// each returns what of says of each element of the name.
func each(document *html.Node, name string, of func(*html.Node) string) (all []string) {
	for _, n := range elements(document, name) {
		all = append(all, of(n))
	}
	return all
}

func attr(n *html.Node, key string) string {
	if i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key }); i >= 0 {
		return n.Attr[i].Val
	}
	return ""
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func formOf(n *html.Node) string  { return attr(n, "method") + " " + attr(n, "action") }
func fieldOf(n *html.Node) string { return attr(n, "name") + "=" + attr(n, "value") }

func newSet(t testing.TB, o Options) *Set {
	t.Helper()
	set, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// english returns the pages in English.
func english(t testing.TB) *Pages {
	t.Helper()
	return newSet(t, Options{Title: "Example"}).In(nil)
}

func TestValuesAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	const value = `<script>alert("1")</script> & 'Ä'`
	pages := all(english(t), value)
	for _, name := range []string{"sign-in", "error", "account"} {
		if document := rendered(t, pages[name]); !strings.Contains(text(elements(document, "main")[0]), value) {
			t.Errorf("%s does not show %s", name, value)
		}
	}
	for _, input := range elements(rendered(t, pages["sign-in"]), "input") {
		if field := attr(input, "name"); field != "password" && attr(input, "value") != value {
			t.Errorf("field %s is %q, want %q", field, attr(input, "value"), value)
		}
	}
}

// FuzzNothingIsInjected: whatever the fields contain, a page has the elements and
// attributes that it has with harmless text, and no address that runs code.
func FuzzNothingIsInjected(f *testing.F) {
	for _, value := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onfocus='alert(1)' x='`, `" autofocus onfocus="alert(1)`,
		`</title><script>alert(1)</script>`, `</style><script>alert(1)</script>`, `</textarea></form><form action=//evil.example>`,
		`<!--`, `-->`, `]]>`, `{{.}}`, `&quot;&gt;<b>`, "`", `\"><b>`, "\x00<b\x00>", "\xff\xfe<b>", "javascript:alert(1)", "JavaScript:alert(1)", "javascript", "data:text/html,<b>",
	} {
		f.Add(value)
	}
	p := english(f)
	want := map[string][]string{}
	for name, page := range all(p, "plain") {
		want[name] = skeleton(rendered(f, page))
	}
	f.Fuzz(func(t *testing.T, value string) {
		if value == "" { // an empty field leaves its elements out
			return
		}
		for name, page := range all(p, value) {
			document := rendered(t, page)
			if diff := cmp.Diff(want[name], skeleton(document)); diff != "" {
				t.Errorf("%s with %q has other elements (-want +got):\n%s", name, value, diff)
			}
			for n := range document.Descendants() {
				for _, a := range n.Attr {
					scheme, _, found := strings.Cut(a.Val, ":")
					if (a.Key == "href" || a.Key == "action") && found && (strings.EqualFold(scheme, "javascript") || strings.EqualFold(scheme, "data")) {
						t.Errorf("%s with %q: %s=%q can run", name, value, a.Key, a.Val)
					}
				}
			}
		}
	})
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	p := english(t)
	a, b := Provider{Title: "Company account", URL: "/login?provider=a&b=c"}, Provider{Title: "Other", URL: "/login?provider=b"}
	const linkA, linkB = "/login?provider=a&b=c Continue with Company account", "/login?provider=b Continue with Other"
	empty := []string{"username=", "password="}
	for name, tt := range map[string]struct {
		page   SignIn
		forms  []string // method and action
		fields []string // name=value
		links  []string // address text
		focus  string
		alert  string
	}{
		"first visit":    {SignIn{Action: "/login", Password: true}, []string{"post /login"}, empty, nil, "username", ""},
		"return path":    {SignIn{Action: "/login", Password: true, ReturnTo: "/a?b=c&d"}, []string{"post /login"}, append([]string{"return_to=/a?b=c&d"}, empty...), nil, "username", ""},
		"wrong password": {SignIn{Action: "/login", Password: true, Username: "alice", Wrong: true}, []string{"post /login"}, []string{"username=alice", "password="}, nil, "password", "Invalid username or password."},
		"providers":      {SignIn{Action: "/login", Providers: []Provider{a, b}}, nil, nil, []string{linkA, linkB}, "", ""},
		"both":           {SignIn{Action: "/login", Password: true, Providers: []Provider{b}}, []string{"post /login"}, empty, []string{linkB}, "username", ""},
		"neither":        {SignIn{Action: "/login"}, nil, nil, nil, "", ""},
	} {
		document := rendered(t, func(w io.Writer) error { return p.SignIn(w, tt.page) })
		var focus, alert string
		for n := range document.Descendants() {
			for _, a := range n.Attr {
				switch {
				case a.Key == "autofocus":
					focus += attr(n, "name")
				case a.Key == "role" && a.Val == "alert":
					alert += text(n)
				}
			}
		}
		got := []any{
			each(document, "form", formOf), each(document, "input", fieldOf),
			each(document, "a", func(n *html.Node) string { return attr(n, "href") + " " + text(n) }), focus, alert,
		}
		if diff := cmp.Diff([]any{tt.forms, tt.fields, tt.links, tt.focus, tt.alert}, got); diff != "" {
			t.Errorf("%s: forms, fields, links, focus, alert (-want +got):\n%s", name, diff)
		}
		if nothing := strings.Contains(text(document), "No way to sign in is set up here."); nothing != (name == "neither") {
			t.Errorf("%s: says that nothing is set up: %t", name, nothing)
		}
	}
}

func TestErrorLeavesOutWhatIsEmpty(t *testing.T) {
	t.Parallel()
	for want, page := range map[string]ErrorPage{
		"Error 403 Forbidden No. Sign in If you ask for help, give this request number: r1 [/signin?return_to=%2Fx]": {403, "Forbidden", "No.", "r1", "/signin?return_to=%2Fx"},
		"Error 504 Gateway Timeout []": {Status: 504, Title: "Gateway Timeout"},
		"Error []":                     {},
	} {
		document := rendered(t, func(w io.Writer) error { return english(t).Error(w, page) })
		links := each(document, "a", func(n *html.Node) string { return attr(n, "href") })
		if got := strings.Join(strings.Fields(text(elements(document, "main")[0])), " ") + " [" + strings.Join(links, " ") + "]"; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	p := english(t)
	until := time.Date(2030, 1, 2, 0, 30, 0, 0, time.FixedZone("CET", 3600))
	for _, tt := range []struct {
		page Account
		want map[string]string
	}{
		{Account{"alice", "Alice Example", "alice@example.org", []string{"user", "admin"}, "session", "local", until, "/logout", "the-token"},
			map[string]string{"User name": "alice", "Name": "Alice Example", "Email": "alice@example.org", "Roles": "useradmin",
				"Signed in with": "User name and password", "Provider": "This service", "Signed in until": "1 January 2030, 23:30 UTC"}},
		{Account{Mechanism: "oidc", Provider: "keycloak"}, map[string]string{"Signed in with": "Identity provider", "Provider": "keycloak"}},
		{Account{Mechanism: "bearer"}, map[string]string{"Signed in with": "Access token"}},
		{Account{Mechanism: "basic", Provider: "basic"}, map[string]string{"Signed in with": "Shared credentials", "Provider": "This service"}},
		{Account{Mechanism: "kerberos"}, map[string]string{"Signed in with": "kerberos"}},
		{Account{}, map[string]string{}},
	} {
		document := rendered(t, func(w io.Writer) error { return p.Account(w, tt.page) })
		got := map[string]string{}
		terms, values := elements(document, "dt"), elements(document, "dd")
		for i := range terms {
			got[text(terms[i])] = text(values[i])
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%+v is shown as (-want +got):\n%s", tt.page, diff)
		}
		wantLogoutForm(t, document, tt.page.LogoutAction, tt.page.LogoutToken)
	}
	wantLogoutForm(t, rendered(t, func(w io.Writer) error { return p.ConfirmLogout(w, ConfirmLogout{"/auth/logout", "t"}) }), "/auth/logout", "t")
}

// wantLogoutForm fails the test unless the document has a form that posts the token to
// the action, or none without an action.
func wantLogoutForm(t *testing.T, document *html.Node, action, token string) {
	t.Helper()
	got := append(each(document, "form", formOf), each(document, "input", fieldOf)...)
	var want []string
	if action != "" {
		want = []string{"post " + action, "csrf_token=" + token}
	}
	if !slices.Equal(got, want) {
		t.Errorf("forms and fields %q, want %q", got, want)
	}
}

func TestFailingWriter(t *testing.T) {
	t.Parallel()
	closed, w := io.Pipe()
	closed.Close()
	for page := range maps.Values(all(english(t), "x")) {
		if err := page(w); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("error %v, want the writer's", err)
		}
	}
}
