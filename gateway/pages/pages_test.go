package pages

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/google/go-cmp/cmp"
)

// all renders each page with value in every one of its string fields.
func all(p *Pages, value string) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"sign-in": func(w io.Writer) error { return p.SignIn(w, filled[SignIn](value)) },
		"error":   func(w io.Writer) error { return p.Error(w, filled[ErrorPage](value)) },
		"account": func(w io.Writer) error { return p.Account(w, filled[Account](value)) },
		"logout":  func(w io.Writer) error { return p.ConfirmLogout(w, filled[ConfirmLogout](value)) },
	}
}

// filled returns a T in which nothing is left at its zero value.
func filled[T any](value string) T {
	var page T
	fill(reflect.ValueOf(&page).Elem(), value)
	return page
}

func fill(v reflect.Value, value string) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(value)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(403)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), value)
		}
	default:
		panic("a page has a field of a kind that this test does not know: " + v.Type().String())
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
	var found []*html.Node
	for n := range document.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			found = append(found, n)
		}
	}
	return found
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
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

func newPages(t testing.TB) *Pages {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var hostile = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' onfocus='alert(1)' x='`,
	`" autofocus onfocus="alert(1)`,
	`</title><script>alert(1)</script>`,
	`</style><script>alert(1)</script>`,
	`</textarea></form><form action=//evil.example>`,
	`<!--`, `-->`, `]]>`, `{{.}}`, `&quot;&gt;<b>`, "`", `\"><b>`,
	"\x00<b\x00>", "\xff\xfe<b>", "javascript:alert(1)", "data:text/html,<b>",
}

func TestValuesAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	const value = `<script>alert("1")</script> & 'Ä'`
	for name, page := range all(p, value) {
		document := rendered(t, page)
		if name != "logout" && !strings.Contains(text(elements(document, "main")[0]), value) {
			t.Errorf("%s does not show %s", name, value)
		}
	}
	document := rendered(t, all(p, value)["sign-in"])
	for _, input := range elements(document, "input") {
		if field := attr(input, "name"); field != "password" && attr(input, "value") != value {
			t.Errorf("field %s is %q, want %q", field, attr(input, "value"), value)
		}
	}
}

// FuzzNothingIsInjected: whatever the fields contain, a page has the elements and
// attributes that it has with harmless text, and no address that runs code.
func FuzzNothingIsInjected(f *testing.F) {
	for _, value := range hostile {
		f.Add(value)
	}
	p := newPages(f)
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
					scheme, _, _ := strings.Cut(a.Val, ":")
					if (a.Key == "href" || a.Key == "action") && (scheme == "javascript" || scheme == "data") {
						t.Errorf("%s with %q: %s=%q can run", name, value, a.Key, a.Val)
					}
				}
			}
		}
	})
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	providers := []Provider{{Title: "Company account", URL: "/login?provider=a&b=c"}, {Title: "Other", URL: "/login?provider=b"}}
	tests := []struct {
		name   string
		page   SignIn
		forms  []string // actions
		fields []string // name=value
		links  []string // address text
		focus  string
		alert  string
	}{
		{"first visit", SignIn{Action: "/login", Password: true},
			[]string{"/login"}, []string{"username=", "password="}, nil, "username", ""},
		{"return path", SignIn{Action: "/auth/login", Password: true, ReturnTo: "/a?b=c&d"},
			[]string{"/auth/login"}, []string{"return_to=/a?b=c&d", "username=", "password="}, nil, "username", ""},
		{"wrong password", SignIn{Action: "/login", Password: true, Username: "alice", Error: "Invalid username or password."},
			[]string{"/login"}, []string{"username=alice", "password="}, nil, "password", "Invalid username or password."},
		{"providers", SignIn{Action: "/login", Providers: providers},
			nil, nil, []string{"/login?provider=a&b=c Continue with Company account", "/login?provider=b Continue with Other"}, "", ""},
		{"both", SignIn{Action: "/login", Password: true, Providers: providers[1:]},
			[]string{"/login"}, []string{"username=", "password="}, []string{"/login?provider=b Continue with Other"}, "username", ""},
		{"neither", SignIn{Action: "/login"}, nil, nil, nil, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			document := rendered(t, func(w io.Writer) error { return p.SignIn(w, tt.page) })
			var forms, fields, links []string
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
			for _, n := range elements(document, "form") {
				forms = append(forms, attr(n, "action"))
				if attr(n, "method") != "post" {
					t.Errorf("the form's method is %q, want post", attr(n, "method"))
				}
			}
			for _, n := range elements(document, "input") {
				fields = append(fields, attr(n, "name")+"="+attr(n, "value"))
			}
			for _, n := range elements(document, "a") {
				links = append(links, attr(n, "href")+" "+text(n))
			}
			got := []any{forms, fields, links, focus, alert}
			if diff := cmp.Diff([]any{tt.forms, tt.fields, tt.links, tt.focus, tt.alert}, got); diff != "" {
				t.Errorf("forms, fields, links, focus, alert (-want +got):\n%s", diff)
			}
			nothing := strings.Contains(text(document), "No way to sign in is set up here.")
			if want := !tt.page.Password && tt.page.Providers == nil; nothing != want {
				t.Errorf("says that nothing is set up: %t, want %t", nothing, want)
			}
		})
	}
}

func TestErrorLeavesOutWhatIsEmpty(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	tests := []struct {
		name string
		page ErrorPage
		main string
		link string
	}{
		{"all", ErrorPage{403, "Forbidden", "The role admin is needed.", "r1", "/signin?return_to=%2Fx"},
			"Error 403 Forbidden The role admin is needed. Sign in If you ask for help, give this request number: r1", "/signin?return_to=%2Fx"},
		{"little", ErrorPage{Status: 504, Title: "Gateway Timeout"}, "Error 504 Gateway Timeout", ""},
		{"nothing", ErrorPage{}, "Error", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			document := rendered(t, func(w io.Writer) error { return p.Error(w, tt.page) })
			if got := strings.Join(strings.Fields(text(elements(document, "main")[0])), " "); got != tt.main {
				t.Errorf("it says %q, want %q", got, tt.main)
			}
			var link string
			for _, n := range elements(document, "a") {
				link += attr(n, "href")
			}
			if link != tt.link {
				t.Errorf("it links to %q, want %q", link, tt.link)
			}
		})
	}
}

func TestAccount(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	berlin := time.FixedZone("CET", 3600)
	tests := []struct {
		name string
		page Account
		want map[string]string
	}{
		{"all", Account{"alice", "Alice Example", "alice@example.org", []string{"user", "admin"}, "session", "local",
			time.Date(2030, 1, 2, 0, 30, 0, 0, berlin), "/logout", "the-token"},
			map[string]string{"User name": "alice", "Name": "Alice Example", "Email": "alice@example.org", "Roles": "useradmin",
				"Signed in with": "User name and password", "Provider": "This service", "Signed in until": "1 January 2030, 23:30 UTC"}},
		{"delegated", Account{Username: "bob", Mechanism: "oidc", Provider: "keycloak"},
			map[string]string{"User name": "bob", "Signed in with": "Identity provider", "Provider": "keycloak"}},
		{"bearer", Account{Mechanism: "bearer"}, map[string]string{"Signed in with": "Access token"}},
		{"basic", Account{Mechanism: "basic", Provider: "basic"},
			map[string]string{"Signed in with": "Shared credentials", "Provider": "This service"}},
		{"unknown", Account{Mechanism: "kerberos"}, map[string]string{"Signed in with": "kerberos"}},
		{"nothing", Account{}, map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			document := rendered(t, func(w io.Writer) error { return p.Account(w, tt.page) })
			got := map[string]string{}
			terms, values := elements(document, "dt"), elements(document, "dd")
			for i := range terms {
				got[text(terms[i])] = text(values[i])
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
			if forms := elements(document, "form"); (len(forms) == 1) != (tt.page.LogoutAction != "") {
				t.Errorf("%d forms for the action %q", len(forms), tt.page.LogoutAction)
			}
		})
	}
}

func TestConfirmLogoutPosts(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	document := rendered(t, func(w io.Writer) error { return p.ConfirmLogout(w, ConfirmLogout{Action: "/auth/logout"}) })
	forms := elements(document, "form")
	if len(forms) != 1 || attr(forms[0], "method") != "post" || attr(forms[0], "action") != "/auth/logout" {
		t.Errorf("forms %v, want one that posts to /auth/logout", skeleton(document))
	}
}

func TestFailingWriter(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	for name, page := range all(newPages(t), "x") {
		if err := page(failing{broken}); !errors.Is(err, broken) {
			t.Errorf("%s: error %v, want the writer's", name, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
