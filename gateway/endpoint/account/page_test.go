package account_test

import (
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

const (
	endForm      = `action="/account/sessions/end"`
	passwordForm = `action="/account/password"`
	tokenForm    = `action="/account/tokens"`
)

// A token is made by a form too. The page shows it once.
func TestAccountPageTokens(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	in := r.Login(rig.Alice)
	w := r.Post(201, "/account/tokens", "name=%3Cb%3Eci&expires_in=604800&roles=user", in.Cookie)
	rig.WantPage(t, w, "Copy the token <strong>&lt;b&gt;ci</strong> now.", "agt_", "not <b>")
	_, rest, _ := strings.Cut(w.Body.String(), "agt_")
	token := "agt_" + rest[:59]
	r.Want(200, "GET", "/bearer/", "", "Authorization: Bearer "+token)
	r.Want(403, "GET", "/admin/", "", "Authorization: Bearer "+token)
	page := r.Want(200, "GET", "/account?part=programs", "", rig.Browser, in.Cookie)
	rig.WantPage(t, page, "&lt;b&gt;ci", "not agt_")
	_, rest, _ = strings.Cut(page.Body.String(), `action="/account/tokens/revoke"`)
	_, rest, _ = strings.Cut(rest, `name="id" value="`)
	id, _, _ := strings.Cut(rest, `"`)
	for form, status := range map[string]int{
		"name=&expires_in=1": 400, "name=a&expires_in=0": 400, "name=a&expires_in=x": 400,
		"name=a&expires_in=99999999":     400,
		"name=a&expires_in=1&roles=root": 400,
		"name=a":                         400, "expires_in=1": 400, "name=a&name=b&expires_in=1": 400,
		"name=%ff&expires_in=1": 400,
	} {
		rig.WantPage(t, r.Post(status, "/account/tokens", form, in.Cookie), `role="alert"`, "A token needs a name",
			tokenForm)
	}
	if w := r.Post(303, "/account/tokens/revoke", "id="+id,
		in.Cookie); w.Header().Get("Location") != "/account?done=token" {
		t.Errorf("to %q", w.Header().Get("Location"))
	}
	r.Want(401, "GET", "/bearer/", "", "Authorization: Bearer "+token)
	r.Post(404, "/account/tokens/revoke", "id="+id, in.Cookie)
	r.Post(400, "/account/tokens/revoke", "", in.Cookie)
	// Without roles, a token by a form has none. A program that sends a form gets JSON.
	made := rig.ReadToken(t, r.Want(201, "POST", "/account/tokens", "name=a&expires_in=60", rig.Form, in.Cookie))
	if len(made.Roles) != 0 || made.Token == "" {
		t.Errorf("made %+v", made)
	}
	for range 99 {
		r.NewToken(in.Cookie, "")
	}
	rig.WantPage(t, r.Post(409, "/account/tokens", "name=a&expires_in=60", in.Cookie), `role="alert"`,
		"You have as many tokens")
}

// The page says so if a token has no role, when it is made and in the list.
func TestAccountPageTokenWithoutRoles(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	in := r.Login(rig.Alice)
	const told = "This token has no role. It opens only what needs no role."
	rig.WantPage(t, r.Post(201, "/account/tokens", "name=a&expires_in=60&roles=user", in.Cookie), "not "+told)
	rig.WantPage(t, r.Post(201, "/account/tokens", "name=b&expires_in=60", in.Cookie), told)
	rig.WantPage(t, r.Want(200, "GET", "/account?part=programs", "", rig.Browser, in.Cookie),
		"<dt>Roles</dt><dd>None</dd>", "Tick the roles that the program may use.")
}

// The account is in parts with addresses of their own. Each leads to the others, has one main
// action, and says how a form of its own went. A part that a user does not have is the first.
func TestAccountParts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	cookie := r.Login(rig.Alice).Cookie
	const nav, programs = `<nav aria-label="Your account">`, "Tick the roles"
	for target, want := range map[string][]string{
		"/account": {nav, "Where you are signed in", "not " + programs,
			`<a href="/account" aria-current="page">`},
		"/account?part=programs": {nav, programs, "not Where you are", `programs" aria-current="page">Programs</a>`},
		"/account?done=token":    {nav, programs, "The token is revoked."},
		"/account?done=login":    {nav, "Where you are signed in", "The login has ended."},
		"/account?part=password": {nav, "Where you are signed in", "not Current password"}, // the accounts are fixed
		"/account?part=factors":  {nav, "Where you are signed in"},
		"/account?part=x":        {nav, "Where you are signed in"},
	} {
		w := r.Want(200, "GET", target, "", rig.Browser, cookie)
		rig.WantPage(t, w, want...)
		if n := strings.Count(w.Body.String(), `class="primary"`); n > 1 {
			t.Errorf("%s has %d buttons that stand out", target, n)
		}
	}
	rig.WantPage(t, r.Want(200, "GET", "/account?part=programs&x=y", "", rig.Browser, cookie),
		`name="back" value="/account?part=programs"`)
	r.Want(302, "GET", "/account?part=programs", "", rig.Browser)
	asJSON := r.Want(200, "GET", "/account?part=programs", "", cookie).Body.String()
	if plain := r.Want(200, "GET", "/account", "", cookie).Body.String(); asJSON != plain {
		t.Errorf("a program gets %s, and %s", plain, asJSON)
	}
	rig.WantPage(t, r.Want(200, "GET", "/account?part=programs", "", rig.Browser, r.Login(rig.Alice).Bearer),
		"not <nav")
}

// With session.csrf_token, each form of the page has the token.
func TestAccountPageCSRFToken(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.WithToken)
	in := r.Login(rig.Alice)
	r.Another()
	for part, want := range map[string]int{"": 4, "?part=programs": 2} {
		body := r.Want(200, "GET", "/account"+part, "", rig.Browser, in.Cookie).Body.String()
		if forms, tokens := strings.Count(body, "<form"), strings.Count(body,
			`name="csrf_token" value="`+r.CSRFToken(in.Cookie)+`"`); forms != want || tokens != forms {
			t.Errorf("%s: %d forms have %d tokens", part, forms, tokens)
		}
	}
}

// Users of a provider have logins, and neither a password nor tokens.
func TestAccountPageOfProviders(t *testing.T) {
	t.Parallel()
	r, _ := rig.Delegated(t, "")
	back := r.Leave("")
	cookie := rig.JarOf(r.Want(302, "GET", back.Target, "", back.Cookie, rig.Phone)).Line()
	rig.WantPage(t, r.Want(200, "GET", "/account", "", rig.Browser, cookie), "carol", "small", "a phone",
		"not "+passwordForm, "not "+tokenForm)
}

// Users know a provider by its title, and programs by its name.
func TestProviderTitle(t *testing.T) {
	t.Parallel()
	r, op := rig.Delegated(t, "")
	r.Reload(strings.Replace(op.Config(rig.Base, ""), "name: small,", "name: small, title: Our company,", 1))
	cookie := r.Carol()
	for _, path := range []string{"/account", "/me"} {
		rig.WantPage(t, r.Want(200, "GET", path, "", rig.Browser, cookie), "Our company", "not small")
		if got := r.Want(200, "GET", path, "", cookie).Body.String(); !strings.Contains(got, `"provider":"small"`) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// A failure of the store is no page without logins.
func TestAccountPageWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	in := r.Login(rig.Alice)
	r.NewToken(in.Cookie, "")
	for _, kind := range []string{"group:", "apitokens:"} {
		r.Store.BreakIf(func(_ string, _ int64, key string) bool { return strings.HasPrefix(key, kind) })
		r.Want(503, "GET", "/account", "", rig.Browser, in.Cookie)
	}
	r.Store.Heal()
	r.Clock.Advance(time.Minute)
	r.Want(200, "GET", "/account", "", rig.Browser, in.Cookie)
}
