package pages

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

func TestDevice(t *testing.T) {
	t.Parallel()
	languages, err := readTexts()
	if err != nil {
		t.Fatal(err)
	}
	const webkit, chrome = "AppleWebKit/537.36 (KHTML, like Gecko) ", "Chrome/142.0.0.0 Safari/537.36"
	for agent, want := range map[string]string{
		"": "Unknown device", "Mozilla/5.0": "Unknown device", "<script>": "Unknown device", "1/2": "Unknown device",
		"Mozilla/5.0 (compatible)":                                                               "Unknown device",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) " + webkit + chrome:                           "Chrome on Windows",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) " + webkit + chrome + " Edg/142.0.0.0":        "Edge on Windows",
		"Mozilla/5.0 (X11; Linux x86_64) " + webkit + chrome + " OPR/120.0.0.0":                  "Opera on Linux",
		"Mozilla/5.0 (Linux; Android 10; K) " + webkit + "Chrome/142.0.0.0 Mobile Safari/537.36": "Chrome on Android",
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                 "Firefox on Linux",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
			"Version/26.0 Safari/605.1.15": "Safari on macOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
			"Version/26.0 Mobile/15E148 Safari/604.1": "Safari on iPhone",
		"Mozilla/5.0 (Plan 9) Firefox/1": "Firefox", "curl/8.14.1": "curl", "Go-http-client/2.0": "Go-http-client",
		"git/2.47.3": "git", "My App 1.0 (x)": "My App 1.0", strings.Repeat("x", 300): strings.Repeat("x", 40),
	} {
		if got, err := languages[0].device(agent); err != nil || got != want {
			t.Errorf("%.80q: %q, %v; want %q", agent, got, err, want)
		}
	}
}

// A user who was led to the page to add a factor is told so first.
func TestNeededFactorComesFirst(t *testing.T) {
	t.Parallel()
	page := source(t, func(w io.Writer) error {
		return english(t).Manage(w, Manage{
			Part: ManageFactors, Factors: &OwnFactors{TOTPAction: "/totp", Needed: "wiki.example.org"},
		})
	})
	if told, form := strings.Index(page, "wiki.example.org"), strings.Index(page, "/totp"); told < 0 || told > form {
		t.Errorf("the reason does not come first:\n%s", page)
	}
}

// Each part of the account leads to the others, and tells which one it is. With one part alone
// there is nothing to choose.
func TestManageParts(t *testing.T) {
	t.Parallel()
	parts := []PartLink{{ManageLogins, "/account"}, {ManagePassword, "/password"}, {ManageFactors, "/factors"},
		{ManagePrograms, "/programs"}}
	titles := map[ManagePart]string{
		ManageLogins: "Your account", ManagePassword: "Password", ManageFactors: "Second factors",
		ManagePrograms: "Programs",
	}
	for part, title := range titles {
		document := rendered(t, func(w io.Writer) error {
			return english(t).Manage(w, Manage{Part: part, Parts: parts, Factors: &OwnFactors{}})
		})
		if h1 := text(elements(document, "h1")[0]); h1 != title {
			t.Errorf("the heading is %q, want %q", h1, title)
		}
		for i, link := range elements(elements(document, "nav")[0], "a") {
			if current := attr(link, "aria-current") == "page"; attr(link, "href") != parts[i].URL ||
				text(link) != titles[parts[i].Part] || current != (parts[i].Part == part) {
				t.Errorf("%s: a link says %q, leads to %s, current: %v", title, text(link), attr(link, "href"), current)
			}
		}
	}
	alone := rendered(t, func(w io.Writer) error { return english(t).Manage(w, Manage{}) })
	if len(elements(alone, "nav")) > 0 {
		t.Error("one part alone has links to parts")
	}
}

// The page offers what its user can do, and nothing else.
func TestManage(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	here := OwnLogin{"1", true, "session", "local", "192.0.2.7", "curl/8", now, now, now}
	there := OwnLogin{"2", false, "session", "local", "192.0.2.8", "wget/1", now, now, now}
	token := OwnToken{"t1", "ci", nil, now, time.Time{}, now}
	user := User{Username: "alice", LogoutAction: "/logout", LogoutToken: "c"}
	full := Manage{
		User: user, CSRFToken: "c", Logins: []OwnLogin{here, there}, EndAction: "/end", PasswordAction: "/password",
		TokenAction: "/tokens", RevokeAction: "/revoke", Tokens: []OwnToken{token}, TokenRoles: []string{"user", "admin"},
	}
	of := func(part ManagePart, change func(*Manage)) Manage {
		m := full
		m.Part = part
		change(&m)
		return m
	}
	all := func(*Manage) {}
	for name, c := range map[string]struct {
		page    Manage
		actions string
		says    []string
	}{
		"all logins": {of(ManageLogins, all), "/logout /end /end",
			[]string{"curl This device", "wget", "192.0.2.8", "2 January 2030, 03:04 UTC"}},
		"one login": {of(ManageLogins, func(m *Manage) { m.Logins = m.Logins[:1] }),
			"/logout /end", []string{"Sign out everywhere else, and revoke all API tokens"}},
		"one login alone": {of(ManageLogins, func(m *Manage) { m.Logins, m.Tokens = m.Logins[:1], nil }), "/logout",
			nil},
		"a reader": {Manage{User: user, Logins: full.Logins}, "/logout", []string{"wget"}},
		"no login": {Manage{User: user}, "/logout", []string{"You have no login here."}},
		"done": {of(ManageLogins, func(m *Manage) { m.Notice = ManageEnded }), "/logout /end /end",
			[]string{"The login has ended."}},
		"a password": {of(ManagePassword, all), "/password", []string{"Current password"}},
		"wrong password": {of(ManagePassword, func(m *Manage) { m.Notice = ManageWrong }),
			"/password", []string{"The current password is wrong."}},
		"programs": {of(ManagePrograms, all), "/revoke /tokens",
			[]string{"ci", "Not yet", "RolesNone", "Without one, it opens only what needs no role."}},
		"no tokens": {of(ManagePrograms, func(m *Manage) { m.Tokens = nil }), "/tokens", nil},
		"an old sign-in": {of(ManagePrograms, func(m *Manage) { m.SignInAgainURL = "/again" }),
			"/revoke", []string{"To create a token, sign in again", "Sign in again"}},
		"nothing": {of(ManagePrograms, func(m *Manage) { m.TokenAction = "" }), "",
			[]string{"No application may act for you."}},
		"a new token": {of(ManagePrograms, func(m *Manage) { m.NewToken, m.TokenName = "agt_x", "ci" }),
			"/revoke /tokens", []string{"Copy the token ci now.", "agt_x"}},
		"a new token without a role": {
			of(ManagePrograms, func(m *Manage) { m.NewToken, m.TokenName, m.NewTokenPlain = "agt_x", "ci", true }),
			"/revoke /tokens", []string{"This token has no role."},
		},
		"too many tokens": {of(ManagePrograms, func(m *Manage) { m.Notice = ManageTooManyTokens }),
			"/revoke /tokens", []string{"Revoke one that you do not need."}},
	} {
		document := rendered(t, func(w io.Writer) error { return english(t).Manage(w, c.page) })
		forms := elements(document, "form")
		actions := each(document, "form", func(n *html.Node) string { return attr(n, "action") })
		if got := strings.Join(actions, " "); got != c.actions {
			t.Errorf("%s: the forms are %s, want %s", name, got, c.actions)
		}
		for _, form := range forms {
			if token := each(form, "input", fieldOf); c.page.CSRFToken != "" && !slices.Contains(token,
				"csrf_token=c") ||
				attr(form, "method") != "post" {
				t.Errorf("%s: the form %s has no token: %q", name, attr(form, "action"), token)
			}
		}
		says := strings.Join(strings.Fields(text(elements(document, "main")[0])), " ")
		for _, want := range c.says {
			if !strings.Contains(says, want) {
				t.Errorf("%s: it does not say %q: %s", name, want, says)
			}
		}
		title := text(elements(document, "title")[0])
		if failed := strings.HasPrefix(title, "Error: "); failed != c.page.Notice.Error() {
			t.Errorf("%s: the title is %q", name, title)
		}
	}
}

// Each notice has words of its own, in each language.
func TestManageNotices(t *testing.T) {
	t.Parallel()
	languages, err := readTexts()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range languages {
		seen := map[string]ManageNotice{}
		for n := ManageNothing; n <= ManageTooManyTokens; n++ {
			words, err := l.managed(n)
			if before, twice := seen[words]; err != nil || twice || (words == "") != (n == ManageNothing) {
				t.Errorf("%s: %d says %q, %v; as %d", l.tag, n, words, err, before)
			}
			seen[words] = n
		}
	}
}

// A login is one line, with what tells it from others; the rest is there on demand.
func TestManageShows(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	document := rendered(t, func(w io.Writer) error {
		return english(t).Manage(w, Manage{
			User:      User{Username: "alice"},
			Logins:    []OwnLogin{{"1", false, "session", "local", "192.0.2.7", "curl/8", now, now, now}},
			EndAction: "/end",
		})
	})
	line := strings.Join(strings.Fields(text(elements(document, "summary")[0])), " ")
	if line != "curl 192.0.2.7 Last used: 2 January 2030, 03:04 UTC" {
		t.Errorf("a login is %q", line)
	}
	details := elements(document, "details")[0]
	if _, open := attribute(details, "open"); open || !strings.Contains(text(details), "Signed in until") ||
		len(elements(details, "button")) > 0 {
		t.Errorf("the details are %q", text(details))
	}
}

// A new token is the first thing on the page, and what keyboards and screen readers are at. No role
// is ticked: a token has those that its owner chooses.
func TestManageShowsToken(t *testing.T) {
	t.Parallel()
	document := rendered(t, func(w io.Writer) error {
		return english(t).Manage(w, Manage{
			Part: ManagePrograms, User: User{Username: "alice"}, TokenAction: "/tokens", RevokeAction: "/revoke",
			NewToken: "agt_x", TokenName: "ci", TokenRoles: []string{"user"},
		})
	})
	main := text(elements(document, "main")[0])
	if token := strings.Index(main, "agt_x"); token < 0 || token > strings.Index(main, "API tokens") {
		t.Errorf("the token is not first: %s", main)
	}
	focus := ""
	for n := range document.Descendants() {
		if _, focused := attribute(n, "autofocus"); focused {
			focus += attr(n, "id")
		}
	}
	if focus != "new-token" {
		t.Errorf("the focus is on %q", focus)
	}
	for _, input := range elements(document, "input") {
		if _, ticked := attribute(input, "checked"); ticked {
			t.Errorf("%s is ticked", attr(input, "value"))
		}
	}
}
