package pages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/google/go-cmp/cmp"

	"authgate/policy"
)

// all renders each page with value v in every one of its string fields, and no field
// empty.
func all(p *Pages, v string) map[string]func(io.Writer) error {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	user := User{v, v, v, v}
	account := func(part ManagePart, notice ManageNotice) Manage {
		return Manage{
			part, []PartLink{{ManageLogins, v}, {ManagePassword, v}, {ManageFactors, v}, {ManagePrograms, v}},
			user, v, []string{v}, policy.Ends{Account: now, Roles: map[string]time.Time{v: now}}, v, v, v, v, v, notice,
			[]OwnLogin{{v, true, v, v, v, v, now, now, now}, {v, false, v, v, v, v, now, now, now}},
			v, v, ownFactors(v), v, "", v, []OwnToken{{v, v, []string{v}, now, now, now}, {v, v, nil, now, now, now}},
			[]OwnClient{{v, v, []string{v, ""}, now}}, v, v, v, true, []string{v, v}, true,
		}
	}
	return map[string]func(io.Writer) error{
		"sign-in": func(w io.Writer) error {
			return p.SignIn(w, SignIn{Form{v, v, true, v, v}, v, v, NoticeThrottled, time.Minute, v, v, true, true,
				true, &PasskeyForm{v, v}, []Provider{{v, v}, {v, v}}})
		},
		"second step": func(w io.Writer) error {
			return p.Code(w, Code{Form{v, v, true, v, v}, v, v, true, v, true, true, &PasskeyForm{v, v}, v, NoticeCode,
				time.Minute})
		},
		"stopped codes": func(w io.Writer) error {
			return p.Code(w, Code{Form{v, v, true, v, v}, v, v, true, v, false, true, nil, v, NoticeStopped, 0})
		},
		"signed in": func(w io.Writer) error { return p.SignedIn(w, SignedIn{user, v, v, v, true, nil}) },
		"asked":     func(w io.Writer) error { return p.SignedIn(w, SignedIn{user, v, v, v, true, &Provider{v, v}}) },
		"home":      func(w io.Writer) error { return p.Home(w, Home{User: user, AccountURL: v}) },
		"apps": func(w io.Writer) error {
			return p.Home(w, Home{user, v, v, true, []App{{v, v, v, v}, {v, "", v, ""}}})
		},
		"no apps":  func(w io.Writer) error { return p.Home(w, Home{User: user, AccountURL: v, Lists: true}) },
		"stranger": func(w io.Writer) error { return p.Home(w, Home{SignInURL: v}) },
		"error": func(w io.Writer) error {
			return p.Error(w, ErrorPage{418, 0, v, v, v, time.Hour, true, v, v, v, user, &Twin{v, v, v}})
		},
		"account": func(w io.Writer) error {
			return p.Account(w, Account{v, v, v, []string{v, v}, policy.Ends{Account: now, Roles: map[string]time.Time{v: now}}, v, v, now, v, v})
		},
		"manage": func(w io.Writer) error {
			return p.Manage(w, account(ManageLogins, ManageEnded))
		},
		"a password": func(w io.Writer) error { return p.Manage(w, account(ManagePassword, ManageWrong)) },
		"factors":    func(w io.Writer) error { return p.Manage(w, account(ManageFactors, ManageFactor)) },
		"programs":   func(w io.Writer) error { return p.Manage(w, account(ManagePrograms, ManageClient)) },
		"no programs": func(w io.Writer) error {
			return p.Manage(w, Manage{Part: ManagePrograms, User: user})
		},
		"managed": func(w io.Writer) error {
			return p.Manage(w, Manage{
				Part: ManagePrograms, User: user, Notice: ManageTokenRefused, TokenAction: v, RevokeAction: v,
				TokenRoles: []string{v},
			})
		},
		"a new app": func(w io.Writer) error {
			f := ownFactors(v)
			f.Setup, f.NewCodes = &TOTPSetup{v, "<svg></svg>"}, nil
			return p.Manage(w, Manage{Part: ManageFactors, User: user, CSRFToken: v, Factors: f})
		},
		"a wrong code": func(w io.Writer) error {
			f := ownFactors(v)
			f.Setup, f.NewCodes = &TOTPSetup{}, nil
			return p.Manage(w, Manage{Part: ManageFactors, User: user, CSRFToken: v, Factors: f,
				Notice: ManageWrongCode})
		},
		"factors and an old sign-in": func(w io.Writer) error {
			f := ownFactors(v)
			f.SignInAgainURL, f.NewCodes = v, nil
			return p.Manage(w, Manage{Part: ManageFactors, User: user, Factors: f, Notice: ManagePasskeyRefused})
		},
		"sign in again": func(w io.Writer) error {
			return p.Manage(w, Manage{Part: ManagePrograms, User: user, TokenAction: v, SignInAgainURL: v,
				RevokeAction: v})
		},
		"consent": func(w io.Writer) error {
			scopes := []string{v, "openid", "profile", "email", "groups", "offline_access"}
			return p.Consent(w, Consent{user, v, false, v, v, false, scopes, v, v, v, v})
		},
		"consent to sign in": func(w io.Writer) error {
			return p.Consent(w, Consent{User: user, Client: v,
				Who: true})
		},
		"consent to all": func(w io.Writer) error {
			return p.Consent(w, Consent{User: user, Client: v,
				Known: true})
		},
		"leave": func(w io.Writer) error {
			return p.Leave(w, Leave{Host: v, URL: "https://a.example/",
				Detail: v})
		},
		"leave, refused": func(w io.Writer) error {
			return p.Leave(w, Leave{Host: v, URL: "https://a.example/",
				Refused: true})
		},
		"leave, signed out": func(w io.Writer) error {
			return p.Leave(w, Leave{Host: v, URL: "https://a.example/",
				SignedOut: true})
		},
		"form post": func(w io.Writer) error {
			return p.FormPost(w, FormPost{"https://a.example/", []FormField{{v, v}, {v, v}}})
		},
		"device": func(w io.Writer) error {
			return p.Device(w, Device{User: user, Code: v, Wrong: true, Action: v, CSRFToken: v})
		},
		"device allowed": func(w io.Writer) error {
			return p.Device(w, Device{User: user, Decided: true, Allowed: true, Client: v})
		},
		"device refused": func(w io.Writer) error { return p.Device(w, Device{User: user, Decided: true, Client: v}) },
		"people": func(w io.Writer) error {
			return p.People(w, People{user, v, v, v, true, "", []string{v, "user"}, somePeople(v), PeopleExists, v, v})
		},
		"people and an old sign-in": func(w io.Writer) error {
			return p.People(w, People{User: user, AccountURL: v, Action: v, Writable: true, SignInAgainURL: v,
				People: somePeople(v)})
		},
		"people who cannot be changed": func(w io.Writer) error {
			return p.People(w, People{User: user, AccountURL: v, People: somePeople(v), Notice: PeopleDisabled})
		},
		"invitation":            func(w io.Writer) error { return p.Invite(w, Invite{v, v, v, ManageNothing}) },
		"invitation, once more": func(w io.Writer) error { return p.Invite(w, Invite{v, v, v, ManageShort}) },
		"logout":                func(w io.Writer) error { return p.ConfirmLogout(w, ConfirmLogout{v, v, true}) },
		"signed out":            func(w io.Writer) error { return p.SignedOut(w, SignedOut{ContinueURL: v}) },
		"goodbye":               func(w io.Writer) error { return p.SignedOut(w, SignedOut{SignInURL: v}) },
		"ask":                   func(w io.Writer) error { return p.Ask(w, Ask{v, v}) },
		"onward":                func(w io.Writer) error { return p.Onward(w, Onward{v}) },
	}
}

// somePeople returns people of all kinds, with value v in every field.
func somePeople(v string) []PersonOfList {
	later := time.Date(2026, 12, 4, 18, 0, 0, 0, time.UTC)
	ends := policy.Ends{Account: later, Roles: map[string]time.Time{"user": later}}
	return []PersonOfList{
		{v, v, v, []string{v, "user"}, ends, false, false, 1, 2, true, false, PeopleNothing},
		{v, v, v, []string{v}, policy.Ends{}, false, false, 1, 2, false, false, PeopleNothing},
		{v, "", "", nil, policy.Ends{}, true, false, 0, 0, false, false, PeopleNothing},
		{v, v, v, []string{v}, ends, false, true, 0, 0, false, true, PeopleNothing},
		{v, v, v, []string{v}, policy.Ends{}, false, false, 0, 0, false, false, PeopleReach},
		{v, v, v, []string{v}, policy.Ends{}, false, false, 0, 0, false, false, PeopleOpens},
	}
}

// ownFactors returns factors with value v in every field.
func ownFactors(v string) *OwnFactors {
	return &OwnFactors{
		Passkeys: []OwnPasskey{{v, v}, {v, v}}, TOTP: true, RecoveryCodes: 2,
		PasskeyOptions: v, PasskeyAction: v, PasskeyRemove: v,
		TOTPAction: v, TOTPRemove: v, TOTPConfirm: v, RecoveryAction: v,
		NewCodes: []string{v, v}, Needed: v, ContinueURL: v,
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
	return slices.DeleteFunc(slices.Collect(document.Descendants()), func(n *html.Node) bool {
		return n.Type != html.ElementNode || n.Data != name
	})
}

// each returns what of says of each element of the name.
func each(document *html.Node, name string, of func(*html.Node) string) (all []string) {
	for _, n := range elements(document, name) {
		all = append(all, of(n))
	}
	return all
}

func attr(n *html.Node, key string) string {
	value, _ := attribute(n, key)
	return value
}

func attribute(n *html.Node, key string) (value string, there bool) {
	if i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key }); i >= 0 {
		return n.Attr[i].Val, true
	}
	return "", false
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
	return newSet(t, Options{Title: "Example"}).In("", nil)
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
	others := []string{"password", "remember", "elsewhere", "credential"} // which have no value of the caller's
	for _, input := range elements(rendered(t, pages["sign-in"]), "input") {
		if field := attr(input, "name"); !slices.Contains(others, field) && attr(input, "value") != value {
			t.Errorf("field %s is %q, want %q", field, attr(input, "value"), value)
		}
	}
}

// FuzzNothingIsInjected: whatever the fields contain, a page has the elements and
// attributes that it has with harmless text, and no address that runs code.
func FuzzNothingIsInjected(f *testing.F) {
	for _, value := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onfocus='alert(1)' x='`,
		`" autofocus onfocus="alert(1)`, `</title><script>alert(1)</script>`, `</style><script>alert(1)</script>`,
		`</textarea></form><form action=//evil.example>`, `<!--`, `-->`, `]]>`, `{{.}}`, `&quot;&gt;<b>`, "`", `\"><b>`,
		"\x00<b\x00>", "\xff\xfe<b>", "javascript:alert(1)", "JavaScript:alert(1)", "javascript", "data:text/html,<b>",
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
					if (a.Key == "href" || a.Key == "action") && found &&
						(strings.EqualFold(scheme, "javascript") || strings.EqualFold(scheme, "data")) {
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
	a, b := Provider{Title: "Company account", URL: "/login?provider=a&b=c"},
		Provider{Title: "Other", URL: "/login?provider=b"}
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
		"first visit": {SignIn{Action: "/login", Password: true}, []string{"post /login"}, empty, nil, "username", ""},
		"return path": {SignIn{Action: "/login", Password: true, Form: Form{ReturnTo: "/a?b=c&d"}}, []string{"post /login"},
			append([]string{"return_to=/a?b=c&d"}, empty...), nil, "username", ""},
		"step-up": {
			SignIn{
				Action: "/login", Password: true, Username: "alice", Notice: NoticeFactors,
				Form: Form{Factors: "2", MaxAge: "15m0s"},
			},
			[]string{"post /login"}, []string{"factors=2", "max_age=15m0s", "username=alice", "password="}, nil, "password", "",
		},
		"wrong password": {SignIn{Action: "/login", Password: true, Username: "alice", Notice: NoticeWrong},
			[]string{"post /login"}, []string{"username=alice", "password="}, nil, "password",
			"Invalid username or password."},
		"remember": {SignIn{Action: "/login", Password: true, Remember: true}, []string{"post /login"},
			append(slices.Clone(empty), "remember=true"), nil, "username", ""},
		"providers": {SignIn{Action: "/login", Providers: []Provider{a, b}}, nil, nil, []string{linkA, linkB}, "", ""},
		"both": {SignIn{Action: "/login", Password: true, Providers: []Provider{b}}, []string{"post /login"},
			empty, []string{linkB}, "username", ""},
		"neither": {SignIn{Action: "/login"}, nil, nil, nil, "", ""},
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

// saysOf returns the text of a page and its links.
func saysOf(t testing.TB, page func(io.Writer) error) string {
	t.Helper()
	document := rendered(t, page)
	links := each(document, "a", func(n *html.Node) string { return attr(n, "href") })
	forms := each(document, "form", formOf)
	return strings.Join(strings.Fields(text(elements(document, "main")[0])), " ") + " " + fmt.Sprint(links, forms)
}

// A page tells what happened, what to do, and what to quote; and nothing of what is
// not known.
func TestError(t *testing.T) {
	t.Parallel()
	const quote = " If you ask for help, give this request number: r1 "
	bob := User{Username: "bob", Name: "Bob Example", LogoutAction: "/logout"}
	for want, page := range map[string]ErrorPage{
		"Error 403 You have no access You are signed in, but not allowed to do this. " +
			"Ask for access, or use another account. B You are signed in as Bob Example (bob). " +
			"Use another account Sign out" + quote + "[/signin?switch=1] [post /logout]": {
			Status: 403, Problem: ProblemForbidden, Detail: "No.", RequestID: "r1", SwitchURL: "/signin?switch=1", User: bob,
		},
		"Error 401 Please sign in You are not signed in, or your session has ended. Sign in [/signin?return_to=%2Fx] []": {
			Status: 401, Detail: "Not signed in.", SignInURL: "/signin?return_to=%2Fx",
		},
		"Error 415 This does not work The request was not accepted. Go back, and try it in another way. " +
			"Send JSON. [] []": {Status: 415, Detail: "Send JSON."},
		"Error 429 Too many requests You or your network sent more requests than are allowed in a short time. " +
			"Nothing is lost; wait a moment. " +
			"Try again in 1 second. Try again [] []": {Status: 429, Retry: true, Wait: time.Second / 2},
		"Error 429 Too many failed logins To protect accounts, sign-in pauses for a while. " +
			"Your password can be right all the same. Try again in 5 minutes. [] []": {
			Status: 429, Problem: ProblemLogins, Detail: "Later.", Wait: 4*time.Minute + time.Second,
		},
		"Error 404 There is nothing here The address may have a mistake, or the page has moved. " +
			"Check the address, or begin at the start page. " +
			"Go to the start page [/] []": {Status: 404, Detail: "There is nothing here.", HomeURL: "/"},
		"Error 504 The application is too slow The application did not answer in time. " +
			"What you sent may still be in progress. Try again in a moment. " +
			"Try again [] []": {Status: 504, Retry: true},
	} {
		if got := saysOf(t, func(w io.Writer) error { return english(t).Error(w, page) }); got != want {
			t.Errorf("it says\n%q, want\n%q", got, want)
		}
	}
}

// Each problem and status has words of its own, in each language.
func TestProblems(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"en", "de"} {
		seen := map[string]ErrorPage{}
		try := func(page ErrorPage) {
			got := saysOf(t, func(w io.Writer) error { return newSet(t, Options{}).In("", []string{language}).Error(w, page) })
			if before, twice := seen[got]; twice {
				t.Errorf("%s: %+v and %+v are the same page", language, before, page)
			}
			seen[got] = page
		}
		for problem := ProblemForbidden; problem <= ProblemBusy; problem++ {
			try(ErrorPage{Problem: problem})
		}
		for _, status := range []int{400, 401, 404, 405, 421, 429, 500, 502, 503, 504} {
			try(ErrorPage{Status: status})
		}
	}
}

// The page of a user who is signed in, the start page and the page after signing out.
func TestOnTheWay(t *testing.T) {
	t.Parallel()
	p, alice := english(t), User{Username: "alice", LogoutAction: "/logout", LogoutToken: "t"}
	for want, page := range map[string]func(io.Writer) error{
		"You are signed in A You are signed in as alice. Continue to wiki.example Use another account Sign out " +
			"[https://wiki.example/x /signin?switch=1] [post /logout]": func(w io.Writer) error {
			return p.SignedIn(w, SignedIn{
				User: alice, Host: "wiki.example", ContinueURL: "https://wiki.example/x", SwitchURL: "/signin?switch=1",
			})
		},
		"Welcome A You are signed in as alice. To use an application, open its address. " +
			"Your account Sign out [/me] [post /logout]": func(w io.Writer) error {
			return p.Home(w, Home{User: alice, AccountURL: "/me", SignInURL: "/signin"})
		},
		"Welcome You are not signed in. To use an application, open its address. " +
			"Sign in [/signin] []": func(w io.Writer) error {
			return p.Home(w, Home{SignInURL: "/signin"})
		},
		"You are signed out Your session has ended on this device. You can close this page. " +
			"Sign in again [/signin] []": func(w io.Writer) error {
			return p.SignedOut(w, SignedOut{SignInURL: "/signin"})
		},
	} {
		if got := saysOf(t, page); got != want {
			t.Errorf("it says\n%q, want\n%q", got, want)
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
		{Account{"alice", "Alice Example", "alice@example.org", []string{"user", "admin"},
			policy.Ends{Account: until, Roles: map[string]time.Time{"admin": until}}, "session", "local", until,
			"/logout", "the-token"},
			map[string]string{"User name": "alice", "Name": "Alice Example", "Email": "alice@example.org", "Roles": "useradmin until 1 January 2030, 23:30 UTC", "Account until": "1 January 2030, 23:30 UTC",
				"Signed in with": "User name and password", "Provider": "This service",
				"Signed in until": "1 January 2030, 23:30 UTC"}},
		{Account{Mechanism: "oidc", Provider: "keycloak"},
			map[string]string{"Signed in with": "Identity provider", "Provider": "keycloak"}},
		{Account{Mechanism: "bearer"}, map[string]string{"Signed in with": "Access token"}},
		{Account{Mechanism: "basic", Provider: "basic"},
			map[string]string{"Signed in with": "Shared credentials", "Provider": "This service"}},
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
	asks := rendered(t, func(w io.Writer) error {
		return p.ConfirmLogout(w, ConfirmLogout{"/auth/logout", "t", false})
	})
	wantLogoutForm(t, asks, "/auth/logout", "t")
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
