package account_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/gateway/endpoint/rig"
	"authgate/internal/test/must"
)

// peopleConfig lets those with the role admin look after accounts.
var peopleConfig = rig.Base[:strings.Index(rig.Base, "accounts:")] +
	"accounts: {file: users.yaml, admins: {roles: [admin]}}\n" +
	rig.Base[strings.Index(rig.Base, "upstreams:"):]

// peopleUsers are alice and dave, who look after accounts, bob, whom they look after, and
// root, who has a role that they do not have.
const peopleUsers = `# the people of the house
- {username: alice, name: Alice Example, email: alice@example.org, roles: [user, admin], password_hash: "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"}
- {username: bob, roles: [user], password_hash: "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"} # the builder
- {username: dave, roles: [user, admin], password_hash: "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"}
- {username: root, roles: [admin, root], password_hash: "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"}
`

const (
	dave = `{"username":"dave","password":"builder"}`
	root = `{"username":"root","password":"builder"}`
)

func newPeople(t *testing.T) *rig.Rig {
	t.Helper()
	return rig.WithUsers(t, peopleConfig, peopleUsers)
}

// aPerson is what the list says of one account.
type aPerson struct {
	Username, Name, Email string
	Roles                 []string
	Disabled              bool
	Factors, Sessions     int
}

// peopleOf returns the list, by name.
func peopleOf(t *testing.T, r *rig.Rig, cookie string) map[string]aPerson {
	t.Helper()
	var answer struct{ People []aPerson }
	must.Do(t, json.Unmarshal(r.Want(200, "GET", "/account/people", "", cookie).Body.Bytes(), &answer))
	people := map[string]aPerson{}
	for _, p := range answer.People {
		people[p.Username] = p
	}
	return people
}

func usersFile(t *testing.T, r *rig.Rig) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(r.Dir, "users.yaml")))(t))
}

// toPeople posts a change.
func toPeople(r *rig.Rig, status int, cookie, change, body string) *httptest.ResponseRecorder {
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
	r := newPeople(t)
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

// peopleChanges are all changes, with a body that would be right for bob.
var peopleChanges = map[string]string{
	"add": `{"username":"carol","roles":["user"]}`, "invite": `{"username":"bob"}`, "disable": `{"username":"bob"}`,
	"enable": `{"username":"bob"}`, "roles": `{"username":"bob","roles":[]}`, "reset-factors": `{"username":"bob"}`,
	"end": `{"username":"bob"}`,
}

// To all who do not look after accounts there is nothing, whatever they ask: not with the
// session of another user, not with a token of one who does, not without anything. It is the
// answer where nothing is.
func TestPeopleAreHiddenFromOthers(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
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
		for change, body := range peopleChanges {
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

// Nobody's page load goes to the sign-in page, and from there to the people, or to nothing.
func TestPeopleLeadNobodyToSignIn(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
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
	if to := stale.Header().Get("Location"); !strings.Contains(to, "reason=ended") || len(rig.Cleared(stale)) == 0 {
		t.Errorf("a dead cookie leads to %s", to)
	}
}

// The people are at the host of public_url alone.
func TestPeopleAreAtHomeAlone(t *testing.T) {
	t.Parallel()
	r := rig.WithUsers(t, peopleConfig+"  - {match: wiki.example.org/, name: wiki, upstream: app, auth: [session]}\n",
		peopleUsers)
	in := rig.ReadLogin(t, r.WantAt("wiki.example.org", 200, "POST", "/login", rig.Alice, rig.JSON))
	r.WantAt("wiki.example.org", 403, "GET", "/account/people", "", in.Cookie)
	w := r.WantAt("wiki.example.org", 302, "GET", "/account/people", "", in.Cookie, rig.Browser)
	if to := w.Header().Get("Location"); to != "https://gw.example/account/people" {
		t.Errorf("to %s", to)
	}
	for change, body := range peopleChanges {
		r.WantAt("wiki.example.org", 403, "POST", "/account/people/"+change, body, rig.JSON, in.Cookie)
	}
}

// Another site cannot make changes with the session of one who looks after accounts.
func TestPeopleRefuseOtherSites(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	before := usersFile(t, r)
	for _, site := range rig.Sites {
		if !site.Foreign {
			continue
		}
		for change := range peopleChanges {
			r.Want(403, "POST", "/account/people/"+change, "username=bob&roles=", append(site.Headers, rig.Form, in.Cookie)...)
		}
	}
	if usersFile(t, r) != before {
		t.Error("the file has changed")
	}
	r.WantSession(200, bob)

	token := rig.WithUsers(t, strings.Replace(peopleConfig, "store:", "session: {csrf_token: true}\nstore:", 1),
		peopleUsers)
	in = token.Login(rig.Alice)
	toPeople(token, 403, in.Cookie, "disable", `{"username":"bob"}`)
	token.Want(200, "POST", "/account/people/disable", `{"username":"bob"}`, rig.JSON, in.Cookie,
		"X-CSRF-Token: "+token.CSRFToken(in.Cookie))
}

// A change needs a sign-in of the last ten minutes. The list does not.
func TestPeopleNeedAFreshSignIn(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	r.Clock.Advance(10*time.Minute + 1)
	before := usersFile(t, r)
	for change, body := range peopleChanges {
		if w := toPeople(r, 403, in.Cookie, change, body); maxAgeOf(t, w) != 600.0 {
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
	toPeople(r, 200, again.Cookie, "disable", `{"username":"bob"}`)
}

// Who has the roles, and has proved too little, is led to the sign-in that proves more. Who
// lacks the roles is not.
func TestPeopleWithOneFactor(t *testing.T) {
	t.Parallel()
	yaml := rig.Edit(t, peopleConfig, "admins: {roles: [admin]}", "admins: {roles: [admin], factors: 2}")
	r := rig.WithUsers(t, yaml, peopleUsers)
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
	for change, body := range peopleChanges {
		toPeople(r, 401, in.Cookie, change, body)
		r.Post(303, "/account/people/"+change, "username=bob&roles=user", in.Cookie)
		toPeople(r, 404, bob.Cookie, change, body)
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
	yaml := rig.Edit(t, peopleConfig, "admins: {roles: [admin]}", "admins: {roles: [admin], max_age: 5m}")
	r := rig.WithUsers(t, yaml, peopleUsers)
	in := r.Login(rig.Alice)
	r.Want(200, "GET", "/account/people", "", in.Cookie)
	r.Clock.Advance(5*time.Minute + time.Second)
	r.Want(401, "GET", "/account/people", "", in.Cookie)
	r.Want(303, "GET", "/account/people", "", in.Cookie, rig.Browser)
}

// Each change does what it says, to that account alone, keeps the rest of the file, and is in
// the audit log with who did it and to whom.
func TestPeopleChanges(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	linkOf(t, toPeople(r, 201, in.Cookie, "add", `{"username":" carol ","roles":["user","user"]}`))
	if got := peopleOf(t, r, in.Cookie)["carol"]; strings.Join(got.Roles, " ") != "user" || got.Disabled {
		t.Errorf("carol is %+v", got)
	}
	toPeople(r, 200, in.Cookie, "roles", `{"username":"bob","roles":["admin"]}`)
	if got := peopleOf(t, r, in.Cookie)["bob"]; strings.Join(got.Roles, " ") != "admin" || got.Sessions != 1 {
		t.Errorf("bob is %+v", got)
	}
	toPeople(r, 200, in.Cookie, "end", `{"username":"bob"}`)
	r.WantSession(401, bob)
	r.Clock.Advance(time.Second)
	bob = r.Login(rig.Bob)
	toPeople(r, 200, in.Cookie, "disable", `{"username":"bob"}`)
	r.WantSession(401, bob)
	r.Want(401, "POST", "/login", rig.Bob, rig.JSON)
	if got := peopleOf(t, r, in.Cookie)["bob"]; !got.Disabled || got.Sessions != 0 {
		t.Errorf("bob is %+v", got)
	}
	toPeople(r, 409, in.Cookie, "invite", `{"username":"bob"}`)
	toPeople(r, 200, in.Cookie, "enable", `{"username":"bob"}`)
	r.WantSession(401, bob)
	r.Clock.Advance(time.Second)
	r.Login(rig.Bob)
	linkOf(t, toPeople(r, 201, in.Cookie, "invite", `{"username":"bob"}`))
	toPeople(r, 200, in.Cookie, "reset-factors", `{"username":"bob"}`)
	r.WantSession(200, in)
	for _, part := range []string{"# the people of the house", "# the builder", "name: Alice Example"} {
		if !strings.Contains(usersFile(t, r), part) {
			t.Errorf("the file has lost %q:\n%s", part, usersFile(t, r))
		}
	}
	var events []string
	for _, record := range r.Log.Records(t, "audit") {
		if record["actor"] == "local:alice" {
			events = append(events, fmt.Sprint(record["event"], " ", record["change"], " ", record["subject"]))
		}
	}
	if got, want := strings.Join(events, "\n"), strings.Join([]string{
		"account_changed add local:carol", "account_changed roles local:bob", "account_changed end local:bob",
		"account_changed disable local:bob", "account_changed enable local:bob", "account_changed invite local:bob",
		"account_changed reset-factors local:bob",
	}, "\n"); got != want {
		t.Errorf("the audit log has\n%s, want\n%s", got, want)
	}
}

// "end" leaves API tokens alone, and users may do it to themselves.
func TestPeopleEnd(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in, phone, bob := r.Login(rig.Alice), r.Another(), r.Login(rig.Bob)
	token := "Authorization: Bearer " + r.NewToken(in.Cookie, "").Token
	toPeople(r, 200, in.Cookie, "end", `{"username":"alice"}`)
	r.WantSession(401, in, phone)
	r.WantSession(200, bob)
	r.Want(200, "GET", "/bearer/", "", token)
	r.Clock.Advance(time.Second)
	linkOf(t, toPeople(r, 201, r.Login(rig.Alice).Cookie, "invite", `{"username":"alice"}`))
}

// Nobody gives a role that they do not have, neither to a new account, nor to another, nor to
// themselves.
func TestPeopleGrantNothingBeyondThemselves(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in := r.Login(rig.Alice)
	before := usersFile(t, r)
	for change, names := range map[string][]string{"add": {"carol"}, "roles": {"bob", "alice", "dave"}} {
		for _, name := range names {
			for _, roles := range []string{`["root"]`, `["user","admin","root"]`, `["Admin"]`, `["a,b"]`} {
				toPeople(r, 403, in.Cookie, change, `{"username":"`+name+`","roles":`+roles+`}`)
			}
			r.Want(403, "POST", "/account/people/"+change, "username="+name+"&roles=user,root", rig.Form, in.Cookie)
			r.Want(403, "POST", "/account/people/"+change, "username="+name+"&roles=user&roles=root", rig.Form, in.Cookie)
		}
	}
	if got := usersFile(t, r); got != before {
		t.Errorf("the file has changed:\n%s", got)
	}
}

// An account with a role that one does not have is out of reach, with every change.
func TestPeopleOutOfReach(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in, of := r.Login(rig.Alice), r.Login(root)
	before := usersFile(t, r)
	for change := range peopleChanges {
		if change != "add" {
			toPeople(r, 403, in.Cookie, change, `{"username":"root","roles":["admin"]}`)
		}
	}
	if usersFile(t, r) != before {
		t.Error("the file has changed")
	}
	r.WantSession(200, of)
	page := r.Want(200, "GET", "/account/people", "", in.Cookie, rig.Browser)
	rig.WantPage(t, page, "This account has a role that you do not have", `not name="username" value="root"`)
}

// Nobody disables, demotes or resets themselves, so the last one who looks after accounts
// cannot be lost.
func TestPeopleLeaveThemselvesAlone(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in := r.Login(rig.Alice)
	before := usersFile(t, r)
	for change, body := range map[string]string{
		"disable": `{"username":"alice"}`, "reset-factors": `{"username":"alice"}`,
		"roles": `{"username":"alice","roles":["user"]}`,
	} {
		toPeople(r, 403, in.Cookie, change, body)
	}
	toPeople(r, 403, in.Cookie, "roles", `{"username":"alice","roles":["admin"]}`)
	toPeople(r, 403, in.Cookie, "roles", `{"username":"alice","roles":[]}`)
	toPeople(r, 200, in.Cookie, "roles", `{"username":"alice","roles":["user","admin"]}`)
	if usersFile(t, r) != before {
		t.Error("the file has changed")
	}
	r.WantSession(200, in)
}

// Of two who look after accounts and take that from each other at once, one does. The rights
// count that the file has when it is changed, and the login must still be there.
func TestPeopleCannotDemoteEachOther(t *testing.T) {
	t.Parallel()
	for change, body := range map[string]string{
		"roles": `"roles":["user"]`, "disable": `"roles":[]`, "reset-factors": `"roles":[]`, "end": `"roles":[]`,
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			r := newPeople(t)
			alice, other := r.Login(rig.Alice), r.Login(dave)
			var first *httptest.ResponseRecorder
			r.BeforeEdit = func() { // alice's request is admitted, and waits for the file
				first = toPeople(r, 200, other.Cookie, change, `{"username":"alice",`+body+`}`)
			}
			w := r.Do("POST", "/account/people/roles", `{"username":"dave","roles":["user"]}`, rig.JSON, alice.Cookie)
			if first == nil || w.Code != 404 && w.Code != 401 {
				t.Errorf("%v; the second change: %d %s", first, w.Code, w.Body)
			}
			if got := peopleOf(t, r, other.Cookie)["dave"]; strings.Join(got.Roles, " ") != "user admin" {
				t.Errorf("dave is %+v", got)
			}
		})
	}
}

// What the file says counts, also before the gateway has read it again: an account that an
// operator has just given more roles is out of reach.
func TestPeopleGoByTheFile(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in := r.Login(rig.Alice)
	r.BeforeEdit = func() {
		users := strings.Replace(usersFile(t, r), "{username: bob, roles: [user]", "{username: bob, roles: [user, root]", 1)
		must.Do(t, os.WriteFile(filepath.Join(r.Dir, "users.yaml"), []byte(users), 0o600))
	}
	toPeople(r, 403, in.Cookie, "disable", `{"username":"bob"}`)

	for old, changed := range map[string]string{
		"{username: alice, ": "{username: alice, disabled: true, ", "username: alice,": "username: alison,",
		"roles: [user, admin], password_hash: \"$2a$04$5Wz": "roles: [user], password_hash: \"$2a$04$5Wz",
	} {
		r := newPeople(t)
		in := r.Login(rig.Alice)
		r.BeforeEdit = func() {
			users := rig.Edit(t, peopleUsers, old, changed)
			must.Do(t, os.WriteFile(filepath.Join(r.Dir, "users.yaml"), []byte(users), 0o600))
		}
		w := r.Do("POST", "/account/people/disable", `{"username":"bob"}`, rig.JSON, in.Cookie)
		if w.Code != 401 && w.Code != 404 || strings.Contains(usersFile(t, r), "bob, disabled") {
			t.Errorf("%s: %d %s", changed, w.Code, w.Body)
		}
	}
}

// Names are compared as everywhere: without case and normalization for a new account, without
// normalization for another.
func TestPeopleNames(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in := r.Login(rig.Alice)
	toPeople(r, 201, in.Cookie, "add", `{"username":"ren\u00e9"}`)
	for _, name := range []string{"bob", "Bob", "BOB ", "rene\u0301", "Ren\u00c9", "alice"} {
		toPeople(r, 409, in.Cookie, "add", `{"username":"`+name+`","roles":[]}`)
	}
	for _, name := range []string{"", " ", "a:b", "a\\u0000b", "a\\nb"} {
		toPeople(r, 400, in.Cookie, "add", `{"username":"`+name+`","roles":[]}`)
	}
	toPeople(r, 200, in.Cookie, "disable", `{"username":"rene\u0301"}`)
	for change := range peopleChanges {
		if change != "add" {
			toPeople(r, 404, in.Cookie, change, `{"username":"Bob","roles":[]}`)
			toPeople(r, 404, in.Cookie, change, `{"username":"nobody","roles":[]}`)
			toPeople(r, 404, in.Cookie, change, `{"username":"","roles":[]}`)
		}
	}
}

func TestPeopleBodies(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in := r.Login(rig.Alice)
	before := usersFile(t, r)
	for change := range peopleChanges {
		for _, body := range []string{"", "{}", "[]", `{"username":1}`, `{"username":null}`,
			`{"username":"bob","username":"dave"}`} {
			toPeople(r, 400, in.Cookie, change, body)
		}
		r.Want(400, "POST", "/account/people/"+change, "username=bob&username=dave&roles=", rig.Form, in.Cookie)
		r.Want(400, "POST", "/account/people/"+change, "roles=", rig.Form, in.Cookie)
		r.Want(415, "POST", "/account/people/"+change, "username=bob", "Content-Type: text/plain", in.Cookie)
	}
	for _, body := range []string{`{"username":"bob"}`, `{"username":"bob","roles":"user"}`,
		`{"username":"bob","roles":null}`} {
		toPeople(r, 400, in.Cookie, "roles", body)
	}
	r.Want(400, "POST", "/account/people/roles", "username=bob", rig.Form, in.Cookie)
	if usersFile(t, r) != before {
		t.Error("the file has changed")
	}
}

// Forms lead back to the page, which says what was done. The link of an invitation is on a
// page once.
func TestPeopleForms(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in := r.Login(rig.Alice)
	page := r.Post(200, "/account/people/add", "username=carol&roles=user,admin", in.Cookie)
	rig.WantPage(t, page, "https://gw.example/signin/invite?token=", "Give this link to <strong>carol</strong>")
	if got := peopleOf(t, r, in.Cookie)["carol"].Roles; strings.Join(got, " ") != "user admin" {
		t.Errorf("carol has %q", got)
	}
	page = r.Want(200, "GET", "/account/people", "", in.Cookie, rig.Browser)
	rig.WantPage(t, page, "not signin/invite")
	rig.WantPage(t, r.Post(200, "/account/people/invite", "username=bob", in.Cookie), "signin/invite?token=")
	for change, says := range map[string]string{
		"disable": "The account is disabled", "enable": "The account is enabled", "roles": "The roles are changed",
		"reset-factors": "The second factors are removed", "end": "The logins of the account have ended",
	} {
		w := r.Post(303, "/account/people/"+change, "username=bob&roles=", in.Cookie)
		to := w.Header().Get("Location")
		if to != "/account/people?done="+change {
			t.Errorf("%s leads to %s", change, to)
		}
		rig.WantPage(t, r.Want(200, "GET", to, "", in.Cookie, rig.Browser), says)
	}
	for form, c := range map[string]struct {
		change, says string
		status       int
	}{
		"username=Bob":              {"add", "There is an account of this name already", 409},
		"username=a:b":              {"add", "An account cannot have this user name", 400},
		"username=carl&roles=root":  {"add", "You can give no role", 403},
		"username=root":             {"disable", "a role that you do not have", 403},
		"username=alice":            {"disable", "You cannot do this to your own account", 403},
		"username=nobody":           {"disable", "There is no account of this name", 404},
		"username=carl&roles=user;": {"roles", "", 400},
	} {
		w := r.Post(c.status, "/account/people/"+c.change, form, in.Cookie)
		rig.WantPage(t, w, c.says)
	}
}

// With a file that cannot be written, the list is served, and nothing can be changed. An
// account of the configuration is in the list, and only its logins can be ended.
func TestPeopleThatCannotBeChanged(t *testing.T) {
	t.Parallel()
	yaml := rig.Edit(t, peopleConfig, "accounts: {file: users.yaml,", `accounts:
  users:
    - {username: fixed, roles: [user], password_hash: "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"}
  file: users.yaml
  admins: {roles: [admin]}
unused: {`)
	yaml = yaml[:strings.Index(yaml, "unused:")] + yaml[strings.Index(yaml, "upstreams:"):]
	r := rig.WithUsers(t, yaml, peopleUsers)
	in := r.Login(rig.Alice)
	if _, listed := peopleOf(t, r, in.Cookie)["fixed"]; !listed {
		t.Error("the account of the configuration is not in the list")
	}
	before := usersFile(t, r)
	for _, change := range []string{"disable", "enable", "roles", "reset-factors", "invite"} {
		toPeople(r, 409, in.Cookie, change, `{"username":"fixed","roles":[]}`)
	}
	toPeople(r, 409, in.Cookie, "add", `{"username":"Fixed","roles":[]}`)
	rig.WantPage(t, r.Want(200, "GET", "/account/people", "", in.Cookie, rig.Browser),
		"This account is in the configuration")

	// A link to a file in a folder that is gone cannot be replaced.
	path := filepath.Join(r.Dir, "users.yaml")
	must.Do(t, os.Remove(path))
	must.Do(t, os.Symlink(filepath.Join(r.Dir, "gone", "users.yaml"), path))
	peopleOf(t, r, in.Cookie)
	for change, body := range peopleChanges {
		toPeople(r, 409, in.Cookie, change, body)
	}
	rig.WantPage(t, r.Want(200, "GET", "/account/people", "", in.Cookie, rig.Browser),
		"The list of accounts cannot be changed here", "not <form method=\"post\" action=\"/account/people")
	must.Do(t, os.Remove(path))
	must.Do(t, os.WriteFile(path, []byte(before), 0o600))
}

// If the store does not answer, nothing has changed.
func TestPeopleWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := newPeople(t)
	in := r.Login(rig.Alice)
	before := usersFile(t, r)
	for change, body := range peopleChanges {
		if change == "add" || change == "enable" || change == "roles" {
			continue // they end nothing
		}
		r.Store.BreakIf(func(operation string, _ int64, _ string) bool { return operation == "swap" || operation == "put" })
		toPeople(r, 503, in.Cookie, change, body)
		r.Store.Heal()
	}
	if usersFile(t, r) != before {
		t.Error("the file has changed")
	}
}

// A user of a provider can look after accounts too, and is not the local account of the same
// name.
func TestPeopleOfAProvider(t *testing.T) {
	t.Parallel()
	provider := rig.NewProvider(t)
	provider.Claims = map[string]any{"preferred_username": "alice", "roles": []string{"user", "admin"}}
	r := rig.WithUsers(t, provider.Config(peopleConfig, ""), peopleUsers)
	provider.Now = r.Clock.Now
	cookie := r.Carol()
	toPeople(r, 200, cookie, "disable", `{"username":"alice"}`)
	toPeople(r, 403, cookie, "disable", `{"username":"root"}`)
	if got := peopleOf(t, r, cookie); !got["alice"].Disabled || got["root"].Disabled {
		t.Errorf("the people are %+v", got)
	}
}
