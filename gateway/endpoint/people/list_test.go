package people_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// config lets those with the role admin look after accounts.
var config = rig.Base[:strings.Index(rig.Base, "accounts:")] +
	"accounts: {file: users.yaml, admins: {roles: [admin]}}\n" +
	rig.Base[strings.Index(rig.Base, "upstreams:"):]

// household are alice and dave, who look after accounts, bob, whom they look after, and
// root, who has a role that they do not have.
const household = `# the people of the house
- {username: alice, name: Alice Example, email: alice@example.org, roles: [user, admin], password_hash: "` +
	rig.AliceHash + `"}
- {username: bob, roles: [user], password_hash: "` + rig.BobHash + `"} # the builder
- {username: dave, roles: [user, admin], password_hash: "` + rig.BobHash + `"}
- {username: root, roles: [admin, root], password_hash: "` + rig.BobHash + `"}
`

const (
	dave = `{"username":"dave","password":"builder"}`
	root = `{"username":"root","password":"builder"}`
)

func newRig(t *testing.T) *rig.Rig {
	t.Helper()
	return rig.WithUsers(t, config, household)
}

// person is what the list says of one account.
type person struct {
	Username, Name, Email string
	Roles                 []string
	Disabled              bool
	Factors, Sessions     int
}

// listOf returns the list, by name.
func listOf(t *testing.T, r *rig.Rig, cookie string) map[string]person {
	t.Helper()
	var answer struct{ People []person }
	must.Do(t, json.Unmarshal(r.Want(200, "GET", "/account/people", "", cookie).Body.Bytes(), &answer))
	people := map[string]person{}
	for _, p := range answer.People {
		people[p.Username] = p
	}
	return people
}

func usersFile(t *testing.T, r *rig.Rig) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(r.Dir, "users.yaml")))(t))
}

// post posts a change.
func post(r *rig.Rig, status int, cookie, change, body string) *httptest.ResponseRecorder {
	r.T.Helper()
	return r.Want(status, "POST", "/account/people/"+change, body, rig.JSON, cookie)
}

// linkOf returns the link of an answer with an invitation.
func linkOf(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var answer map[string]string
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &answer))
	if len(answer) != 1 || !strings.HasPrefix(answer["url"], "https://gw.example/") {
		t.Fatalf("the answer is %s", w.Body)
	}
	return answer["url"]
}

func TestPeopleList(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := r.Login(rig.Alice)
	r.Login(rig.Bob)
	r.Login(rig.Bob)
	w := r.Want(200, "GET", "/account/people", "", in.Cookie)
	want := `{"people":[` +
		`{"username":"alice","name":"Alice Example","email":"alice@example.org","roles":["user","admin"],` +
		`"disabled":false,"factors":0,"sessions":1},` +
		`{"username":"bob","name":"","email":"","roles":["user"],"disabled":false,"factors":0,"sessions":2},` +
		`{"username":"dave","name":"","email":"","roles":["user","admin"],"disabled":false,"factors":0,"sessions":0},` +
		`{"username":"root","name":"","email":"","roles":["admin","root"],"disabled":false,"factors":0,"sessions":0}]}`
	if got := strings.TrimSpace(w.Body.String()); got != want || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("the list is\n%s, want\n%s", got, want)
	}
	r.Want(200, "HEAD", "/account/people", "", in.Cookie)
	r.Want(405, "PUT", "/account/people", "", in.Cookie)
	r.Want(405, "GET", "/account/people/add", "", in.Cookie)
}

// changes are all changes, with a body that would be right for bob.
var changes = map[string]string{
	"add": `{"username":"carol","roles":["user"]}`, "invite": `{"username":"bob"}`, "disable": `{"username":"bob"}`,
	"enable": `{"username":"bob"}`, "roles": `{"username":"bob","roles":[]}`, "reset-factors": `{"username":"bob"}`,
	"end": `{"username":"bob"}`,
}

// To all who do not look after accounts there is nothing, whatever they ask: not with the
// session of another user, not with a token of one who does, not without anything. It is the
// answer where nothing is.
func TestPeopleAreHiddenFromOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	api := "Authorization: Bearer " + r.NewToken(alice.Cookie, "").Token
	nothing := r.Want(404, "GET", "/nothing", "", bob.Cookie).Body.String()
	others := [][]string{
		nil, {bob.Cookie}, {bob.Bearer}, {alice.Bearer}, {api}, {alice.Bearer, alice.Cookie}, {"Authorization: Bearer x"},
		{rig.Basic("alice", "wonderland")}, {"Cookie: session_id=unknown"},
	}
	before := usersFile(t, r)
	for _, header := range others {
		for _, method := range []string{"GET", "PUT", "OPTIONS", "POST"} {
			if w := r.Want(404, method, "/account/people", "", header...); w.Body.String() != nothing {
				t.Errorf("%s with %q: %s", method, header, w.Body)
			}
		}
		for change, body := range changes {
			r.Want(404, "POST", "/account/people/"+change, body, append(header, rig.JSON)...)
			r.Want(404, "POST", "/account/people/"+change, "", append(header, rig.JSON)...)
			r.Want(404, "GET", "/account/people/"+change, "", header...)
			r.Want(404, "POST", "/account/people/"+change, "username=bob&roles=user", append(header, rig.Form, rig.Browser)...)
		}
	}
	rig.WantPage(t, r.Want(404, "GET", "/account/people", "", rig.Browser, bob.Cookie),
		"There is nothing here", "not alice")
	if got := usersFile(t, r); got != before {
		t.Errorf("the file has changed:\n%s", got)
	}
	r.WantSession(200, alice, bob)

	off := rig.New(t, rig.Base)
	in := off.Login(rig.Alice)
	for _, line := range []string{"", in.Cookie, in.Bearer} {
		off.Want(404, "GET", "/account/people", "", line)
		off.Want(404, "GET", "/account/people", "", line, rig.Browser)
		off.Want(404, "POST", "/account/people/end", `{"username":"bob"}`, rig.JSON, line)
	}
}

// A page load without a login goes to the sign-in page, and from there to the people, or to
// nothing.
func TestPeopleLeadNobodyToSignIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const place = "https://gw.example/account/people"
	p := r.Person()
	at, w := p.SignIn(place, "alice")
	if at != place {
		t.Errorf("the sign-in leads to %s", at)
	}
	rig.WantPage(t, w, "Alice Example", "Add a person")
	_, w = p.Visit("GET", "https://gw.example/account", "")
	rig.WantPage(t, w, `href="/account/people"`)
	bob := r.Person()
	if at, w := bob.SignIn(place, "bob"); at != place || w.Code != 404 {
		t.Errorf("the sign-in of bob leads to %s, %d", at, w.Code)
	}
	_, w = bob.Visit("GET", "https://gw.example/account", "")
	rig.WantPage(t, w, "not account/people")
	r.Want(404, "GET", "/account/people", "", rig.Browser, "Sec-Fetch-Mode: cors")
	stale := r.Want(302, "GET", "/account/people", "", rig.Browser, "Cookie: session_id=unknown")
	if to := stale.Header().Get("Location"); strings.Contains(to, "reason=") || len(rig.Cleared(stale)) == 0 {
		t.Errorf("a dead cookie leads to %s", to)
	}
}

// The people are at the host of public_url alone.
func TestPeopleAreAtHomeAlone(t *testing.T) {
	t.Parallel()
	r := rig.WithUsers(t, config+"  - {match: wiki.example.org/, name: wiki, upstream: app, auth: [session]}\n",
		household)
	in := rig.ReadLogin(t, r.WantAt("wiki.example.org", 200, "POST", "/login", rig.Alice, rig.JSON))
	r.WantAt("wiki.example.org", 403, "GET", "/account/people", "", in.Cookie)
	w := r.WantAt("wiki.example.org", 302, "GET", "/account/people", "", in.Cookie, rig.Browser)
	if to := w.Header().Get("Location"); to != "https://gw.example/account/people" {
		t.Errorf("to %s", to)
	}
	for change, body := range changes {
		r.WantAt("wiki.example.org", 403, "POST", "/account/people/"+change, body, rig.JSON, in.Cookie)
	}
}

// Another site cannot make changes with the session of one who looks after accounts.
func TestPeopleRefuseOtherSites(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	before := usersFile(t, r)
	for _, site := range rig.Sites {
		if !site.Foreign {
			continue
		}
		for change := range changes {
			r.Want(403, "POST", "/account/people/"+change, "username=bob&roles=", append(site.Headers, rig.Form, in.Cookie)...)
		}
	}
	if usersFile(t, r) != before {
		t.Error("the file has changed")
	}
	r.WantSession(200, bob)

	token := rig.WithUsers(t, strings.Replace(config, "store:", "session: {csrf_token: true}\nstore:", 1),
		household)
	in = token.Login(rig.Alice)
	post(token, 403, in.Cookie, "disable", `{"username":"bob"}`)
	token.Want(200, "POST", "/account/people/disable", `{"username":"bob"}`, rig.JSON, in.Cookie,
		"X-CSRF-Token: "+token.CSRFToken(in.Cookie))
}

// A change needs a sign-in of the last ten minutes. The list does not.
func TestPeopleNeedAFreshSignIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	r.Clock.Advance(10*time.Minute + 1)
	before := usersFile(t, r)
	for change, body := range changes {
		if w := post(r, 403, in.Cookie, change, body); rig.SignInAge(t, w) != 600.0 {
			t.Errorf("%s: %s", change, w.Body)
		}
		w := r.Post(303, "/account/people/"+change, "username=bob&roles=user", in.Cookie)
		if to := w.Header().Get("Location"); to != "/signin?reason=fresh&return_to=%2Faccount%2Fpeople" {
			t.Errorf("%s: a form leads to %s", change, to)
		}
	}
	page := r.Want(200, "GET", "/account/people", "", in.Cookie, rig.Browser)
	rig.WantPage(t, page, "Alice Example", "/signin?reason=fresh", `not action="/account/people`)
	if usersFile(t, r) != before {
		t.Error("the file has changed")
	}
	r.WantSession(200, bob)
	again := r.Login(rig.Alice)
	post(r, 200, again.Cookie, "disable", `{"username":"bob"}`)
}

// The sign-in of a user of a provider is as old as the provider says, whatever their session here. The
// page leads to a sign-in there that the provider's own session must not answer.
func TestPeopleNeedAFreshSignInAtTheProvider(t *testing.T) {
	t.Parallel()
	p := rig.NewProvider(t)
	r := rig.WithUsers(t, p.Config(config, "delegated: {lifetime: 1h, api_tokens: 2h}\n"), household)
	p.Now = r.Clock.Now
	said := func(ago time.Duration) {
		p.Claims = map[string]any{
			"preferred_username": "helen", "roles": []string{"user", "admin"}, "auth_time": r.Clock.Now().Add(-ago).Unix(),
		}
	}
	said(11 * time.Minute)
	old := r.Carol()
	before := usersFile(t, r)
	for change, body := range changes {
		if w := post(r, 403, old, change, body); rig.SignInAge(t, w) != 600.0 {
			t.Errorf("%s: %s", change, w.Body)
		}
	}
	w := r.Want(403, "POST", "/account/tokens", `{"name":"x","expires_in":60}`, rig.JSON, old)
	if rig.SignInAge(t, w) != 600.0 || usersFile(t, r) != before {
		t.Errorf("an API token: %s; the file is\n%s", w.Body, usersFile(t, r))
	}
	const again = "/signin?reason=fresh&return_to=%2Faccount%2Fpeople&max_age=10m0s"
	if to := r.Post(303, "/account/people/disable", "username=bob", old).Header().Get("Location"); to != again {
		t.Errorf("a form leads to %s", to)
	}
	page := r.Want(200, "GET", "/account/people", "", old, rig.Browser)
	rig.WantPage(t, page, strings.ReplaceAll(again, "&", "&amp;"), `not action="/account/people`)
	if page := r.Want(200, "GET", again, "", old, rig.Browser).Body.String(); !strings.Contains(page, "max_age=10m0s") {
		t.Errorf("the way to the provider does not ask for a fresh sign-in: %s", page)
	}
	said(9 * time.Minute)
	young := r.Carol()
	post(r, 200, young, "disable", `{"username":"bob"}`)
	r.Want(201, "POST", "/account/tokens", `{"name":"x","expires_in":60}`, rig.JSON, young)
	delete(p.Claims, "auth_time") // then the sign-in here counts
	unknown := r.Carol()
	post(r, 200, unknown, "enable", `{"username":"bob"}`)
	r.Clock.Advance(10*time.Minute + time.Second)
	post(r, 403, unknown, "disable", `{"username":"bob"}`)
}

// Who has the roles, and has proved too little, is led to the sign-in that proves more. Who
// lacks the roles is not.
func TestPeopleWithOneFactor(t *testing.T) {
	t.Parallel()
	yaml := rig.Edit(t, config, "admins: {roles: [admin]}", "admins: {roles: [admin], factors: 2}")
	r := rig.WithUsers(t, yaml, household)
	in, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	before := usersFile(t, r)
	w := r.Want(303, "GET", "/account/people", "", in.Cookie, rig.Browser)
	if to := w.Header().Get("Location"); to != "/signin?return_to=%2Faccount%2Fpeople&factors=2" {
		t.Errorf("a page load leads to %s", to)
	}
	if w := r.Want(401, "GET", "/account/people", "", in.Cookie); !strings.Contains(w.Header().Get("Www-Authenticate"),
		`error="insufficient_user_authentication"`) {
		t.Errorf("the challenge is %q", w.Header().Get("Www-Authenticate"))
	}
	for change, body := range changes {
		post(r, 401, in.Cookie, change, body)
		r.Post(303, "/account/people/"+change, "username=bob&roles=user", in.Cookie)
		post(r, 404, bob.Cookie, change, body)
		r.Want(404, "POST", "/account/people/"+change, body, rig.JSON, in.Bearer)
	}
	r.Want(404, "GET", "/account/people", "", bob.Cookie, rig.Browser)
	if usersFile(t, r) != before {
		t.Error("the file has changed")
	}
	r.WantSession(200, bob)
}

// max_age of the policy counts for the list too.
func TestPeopleWithAnOldSignIn(t *testing.T) {
	t.Parallel()
	yaml := rig.Edit(t, config, "admins: {roles: [admin]}", "admins: {roles: [admin], max_age: 5m}")
	r := rig.WithUsers(t, yaml, household)
	in := r.Login(rig.Alice)
	r.Want(200, "GET", "/account/people", "", in.Cookie)
	r.Clock.Advance(5*time.Minute + time.Second)
	r.Want(401, "GET", "/account/people", "", in.Cookie)
	r.Want(303, "GET", "/account/people", "", in.Cookie, rig.Browser)
}
