package signin_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// inviteConfig has its accounts in a file.
var inviteConfig = rig.Base[:strings.Index(rig.Base, "accounts:")] +
	"accounts: {file: users.yaml, admins: {roles: [admin]}}\n" + rig.Base[strings.Index(rig.Base, "upstreams:"):]

const inviteUsers = `- {username: alice, roles: [user, admin], password_hash: "` + rig.AliceHash + `"}
- {username: bob, roles: [user], password_hash: "` + rig.BobHash + `"} # the builder
- {username: carol} # new
`

// invitedRig has a rig and alice, who looks after accounts.
func invitedRig(t *testing.T) (*rig.Rig, rig.SignedIn) {
	t.Helper()
	r := rig.WithUsers(t, inviteConfig, inviteUsers)
	return r, r.Login(rig.Alice)
}

// inviteTo returns the target and the token of an invitation.
func inviteTo(t *testing.T, r *rig.Rig, admin rig.SignedIn, name string) (target, token string) {
	t.Helper()
	var answer struct{ URL string }
	w := r.Want(201, "POST", "/account/people/invite", `{"username":"`+name+`"}`, rig.JSON, admin.Cookie)
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &answer))
	link := must.Get(url.Parse(answer.URL))(t)
	if link.Host != "gw.example" || link.Path != "/signin/invite" {
		t.Fatalf("the link is %s", link)
	}
	return link.RequestURI(), link.Query().Get("token")
}

func setBy(token, password string) string {
	return url.Values{"token": {token}, "new": {password}, "again": {password}}.Encode()
}

// postInvite sends the form of the page, as a browser does.
func postInvite(r *rig.Rig, status int, form string) *httptest.ResponseRecorder {
	r.T.Helper()
	return r.Post(status, "/signin/invite", form, "")
}

// A user who is invited sets a password on the page, is signed in, and comes to their
// account.
func TestInvite(t *testing.T) {
	t.Parallel()
	r, alice := invitedRig(t)
	target, _ := inviteTo(t, r, alice, "carol")
	p := r.Person()
	_, page := p.Visit("GET", "https://gw.example"+target, "")
	rig.WantPage(t, page, "<strong>carol</strong>", `autocomplete="new-password"`)
	action, fields := rig.FormOf(t, page)
	fields.Set("new", "looking-glass")
	fields.Set("again", "looking-glass")
	at, page := p.Visit("POST", "https://gw.example"+action, fields.Encode(), rig.Form, "Origin: https://gw.example",
		"Sec-Fetch-Site: same-origin")
	if at != "https://gw.example/account" || page.Code != 200 {
		t.Errorf("the form leads to %s, %d", at, page.Code)
	}
	rig.WantPage(t, page, "carol")
	p.Sees("https://gw.example/session/", "carol")
	r.Login(`{"username":"carol","password":"looking-glass"}`)
	users := string(must.Get(os.ReadFile(filepath.Join(r.Dir, "users.yaml")))(t))
	if !strings.Contains(users, "# the builder") || !strings.Contains(users, "# new") {
		t.Errorf("the file has lost its comments:\n%s", users)
	}
	if log := r.Log.String(); strings.Contains(log, fields.Get("token")) || !strings.Contains(log, "invitation_used") {
		t.Error("the log has the token, or not the event")
	}
}

// Where there are applications, the first page of a user who is invited is the start page.
func TestInviteLeadsToApplications(t *testing.T) {
	t.Parallel()
	r := rig.WithUsers(t,
		inviteConfig+"  - {match: /wiki/, upstream: app, auth: [session], app: {title: Wiki}}\n", inviteUsers)
	_, token := inviteTo(t, r, r.Login(rig.Alice), "carol")
	at, page := r.Person().Visit("POST", "https://gw.example/signin/invite", setBy(token, "looking-glass"), rig.Form,
		"Origin: https://gw.example")
	if at != "https://gw.example/account/apps" {
		t.Errorf("the form leads to %s", at)
	}
	rig.WantPage(t, page, "Wiki", `href="/account"`)
}

// An invitation works once. To look at its page, or to choose a password that is not possible,
// does not use it up.
func TestInviteOnce(t *testing.T) {
	t.Parallel()
	r, alice := invitedRig(t)
	target, token := inviteTo(t, r, alice, "carol")
	for range 3 {
		r.Want(200, "GET", target, "", rig.Browser)
		r.Want(200, "HEAD", target, "")
	}
	for form, says := range map[string]string{
		setBy(token, "short"):                   "at least 8 characters",
		setBy(token, strings.Repeat("x", 1025)): "",
		url.Values{"token": {token}, "new": {"looking-glass"}, "again": {"wonderland"}}.Encode(): "",
	} {
		w := postInvite(r, 400, form)
		rig.WantPage(t, w, `role="alert"`, says, `value="`+token+`"`)
	}
	postInvite(r, 400, "new=looking-glass&again=looking-glass")
	postInvite(r, 400, setBy(token, "looking-glass")+"&token=x")
	r.Want(415, "POST", "/signin/invite", `{"token":"`+token+`","new":"looking-glass"}`, rig.JSON)
	postInvite(r, 303, setBy(token, "looking-glass"))
	rig.WantPage(t, postInvite(r, 400, setBy(token, "another-glass")), "This link is not valid any more",
		`<a class="button primary" href="/signin">Sign in</a>`)
	r.Want(400, "GET", target, "", rig.Browser)
	r.Login(`{"username":"carol","password":"looking-glass"}`)
}

// An invitation that is refused leaves an event, on the page and in its form. One whose password is not
// possible, or that is good, leaves none. No token is in the log.
func TestInvitationsRefusedAudited(t *testing.T) {
	t.Parallel()
	r, alice := invitedRig(t)
	_, token := inviteTo(t, r, alice, "carol")
	r.Want(400, "GET", "/signin/invite?token=made-up", "", rig.Browser)
	postInvite(r, 400, setBy(token, "short"))
	postInvite(r, 303, setBy(token, "looking-glass"))
	postInvite(r, 400, setBy(token, "another-glass"))
	got := r.EventsOf("credential_refused", "past", "cross_site", "kind", "reason", "client_id", "subject")
	const refused = "kind=invitation reason=the invitation is wrong, used or too old"
	if want := []string{refused, refused}; !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
	if log := r.Log.String(); strings.Contains(log, token) || strings.Contains(log, "made-up") {
		t.Error("the log has a token")
	}
}

// Of two requests with one invitation at once, one sets the password.
func TestInviteTwiceAtOnce(t *testing.T) {
	t.Parallel()
	r, alice := invitedRig(t)
	_, token := inviteTo(t, r, alice, "carol")
	r.BeforeEdit = func() { postInvite(r, 303, setBy(token, "looking-glass")) }
	postInvite(r, 400, setBy(token, "another-glass"))
	r.Login(`{"username":"carol","password":"looking-glass"}`)
}

// What is not an invitation, or not any more, sets no password.
func TestInviteRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*rig.Rig, rig.SignedIn){
		"too old": func(r *rig.Rig, _ rig.SignedIn) { r.Clock.Advance(72 * time.Hour) },
		"replaced": func(r *rig.Rig, alice rig.SignedIn) {
			r.Want(201, "POST", "/account/people/invite", `{"username":"bob"}`, rig.JSON, alice.Cookie)
		},
		"disabled": func(r *rig.Rig, alice rig.SignedIn) {
			r.Want(200, "POST", "/account/people/disable", `{"username":"bob"}`, rig.JSON, alice.Cookie)
		},
		"disabled meanwhile": func(r *rig.Rig, alice rig.SignedIn) {
			r.BeforeEdit = func() {
				r.Want(200, "POST", "/account/people/disable", `{"username":"bob"}`, rig.JSON, alice.Cookie)
			}
		},
		"removed meanwhile": func(r *rig.Rig, _ rig.SignedIn) {
			r.BeforeEdit = func() {
				users := inviteUsers[:strings.Index(inviteUsers, "- {username: bob")]
				must.Do(r.T, os.WriteFile(filepath.Join(r.Dir, "users.yaml"), []byte(users), 0o600))
			}
		},
		"another password": func(r *rig.Rig, _ rig.SignedIn) {
			users := strings.Replace(inviteUsers, rig.BobHash, rig.AliceHash, 1)
			must.Do(r.T, os.WriteFile(filepath.Join(r.Dir, "users.yaml"), []byte(users), 0o600))
			r.Reload(inviteConfig)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, alice := invitedRig(t)
			target, token := inviteTo(t, r, alice, "bob")
			spoil(r, alice)
			if !strings.HasSuffix(name, "meanwhile") {
				r.Want(400, "GET", target, "", rig.Browser)
			}
			w := postInvite(r, 400, setBy(token, "looking-glass"))
			if len(w.Result().Cookies()) > 0 {
				t.Errorf("cookies: %q", w.Header()["Set-Cookie"])
			}
			r.Want(401, "POST", "/login", `{"username":"bob","password":"looking-glass"}`, rig.JSON)
		})
	}
	r, _ := invitedRig(t)
	for _, token := range []string{"", "x", strings.Repeat("A", 64)} {
		r.Want(400, "GET", "/signin/invite?token="+token, "", rig.Browser)
		postInvite(r, 400, setBy(token, "looking-glass"))
	}
	r.Want(400, "GET", "/signin/invite", "", rig.Browser)
}

// Another site cannot send the form, and the page does not tell its address to other sites.
func TestInvitePage(t *testing.T) {
	t.Parallel()
	r, alice := invitedRig(t)
	target, token := inviteTo(t, r, alice, "carol")
	w := r.Want(200, "GET", target, "", rig.Browser)
	if h := w.Header(); h.Get("Referrer-Policy") != "strict-origin" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("the headers are %q", h)
	}
	for _, site := range rig.Sites {
		if site.Foreign {
			r.Want(403, "POST", "/signin/invite", setBy(token, "looking-glass"), append(site.Headers, rig.Form)...)
		}
	}
	r.Want(200, "GET", target, "")
	postInvite(r, 303, setBy(token, "looking-glass"))
}

// An invitation ends the logins that the account had, and the one of the browser.
func TestInviteEndsLogins(t *testing.T) {
	t.Parallel()
	r, alice := invitedRig(t)
	bob := r.Login(rig.Bob)
	token := "Authorization: Bearer " + r.NewToken(bob.Cookie, "").Token
	_, invitation := inviteTo(t, r, alice, "bob")
	r.Clock.Advance(time.Second)
	w := r.Post(303, "/signin/invite", setBy(invitation, "looking-glass"), alice.Cookie)
	r.WantSession(401, bob, alice)
	r.Want(401, "GET", "/bearer/", "", token)
	r.Want(200, "GET", "/session/", "", rig.JarOf(w).Line())
	r.Want(401, "POST", "/login", rig.Bob, rig.JSON)
}

// A store that does not answer costs no invitation, and sets no password.
func TestInviteWithoutTheStore(t *testing.T) {
	t.Parallel()
	r, alice := invitedRig(t)
	target, token := inviteTo(t, r, alice, "bob")
	for _, failing := range []string{"get", "swap"} {
		r.Store.BreakIf(func(operation string, _ int64, _ string) bool { return operation == failing })
		postInvite(r, 503, setBy(token, "looking-glass"))
		r.Store.Heal()
	}
	r.Want(200, "GET", target, "", rig.Browser)
	r.Login(rig.Bob)
}

// An invitation leaves factors alone, and does not stand in for one: after the new password,
// the user of an account with factors needs one to be signed in.
func TestInviteKeepsFactors(t *testing.T) {
	t.Parallel()
	p := newPeople(t, "")
	secret, _ := p.addTOTP("bob")
	link := must.Get(url.Parse(must.Get(p.Options.Local.Invited.Invite(t.Context(), "bob"))(t)))(t)
	b := p.Person()
	at, page := b.Visit("POST", "https://gw.example/signin/invite", setBy(link.Query().Get("token"), "looking-glass"),
		rig.Form, "Origin: https://gw.example")
	if at != "https://gw.example/signin/invite" || page.Code != 200 {
		t.Errorf("the form leads to %s, %d", at, page.Code)
	}
	rig.WantPage(t, page, `name="code"`)
	b.IsOut("https://gw.example/session/")
	action, fields := rig.FormOf(t, page)
	fields.Set("code", p.code(secret))
	at, _ = b.Visit("POST", "https://gw.example"+action, fields.Encode(), rig.Form, "Origin: https://gw.example")
	if at != "https://gw.example/account" {
		t.Errorf("the code leads to %s", at)
	}
	b.Sees("https://gw.example/vault/", "bob")
	asked := p.Want(401, "POST", "/login", `{"username":"bob","password":"looking-glass"}`, rig.JSON)
	if got := factorsOf(t, asked); got != "totp" {
		t.Errorf("a sign-in needs %q", got)
	}
}
