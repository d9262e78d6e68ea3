package people_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// Each change does what it says, to that account alone, keeps the rest of the file, and is in
// the audit log with who did it and to whom.
func TestPeopleChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	linkOf(t, post(r, 201, in.Cookie, "add", `{"username":" carol ","roles":["user","user"]}`))
	if got := listOf(t, r, in.Cookie)["carol"]; strings.Join(got.Roles, " ") != "user" || got.Disabled {
		t.Errorf("carol is %+v", got)
	}
	post(r, 200, in.Cookie, "roles", `{"username":"bob","roles":["admin"]}`)
	if got := listOf(t, r, in.Cookie)["bob"]; strings.Join(got.Roles, " ") != "admin" || got.Sessions != 1 {
		t.Errorf("bob is %+v", got)
	}
	post(r, 200, in.Cookie, "end", `{"username":"bob"}`)
	r.WantSession(401, bob)
	r.Clock.Advance(time.Second)
	bob = r.Login(rig.Bob)
	post(r, 200, in.Cookie, "disable", `{"username":"bob"}`)
	r.WantSession(401, bob)
	r.Want(401, "POST", "/login", rig.Bob, rig.JSON)
	if got := listOf(t, r, in.Cookie)["bob"]; !got.Disabled || got.Sessions != 0 {
		t.Errorf("bob is %+v", got)
	}
	post(r, 409, in.Cookie, "invite", `{"username":"bob"}`)
	post(r, 200, in.Cookie, "enable", `{"username":"bob"}`)
	r.WantSession(401, bob)
	r.Clock.Advance(time.Second)
	r.Login(rig.Bob)
	linkOf(t, post(r, 201, in.Cookie, "invite", `{"username":"bob"}`))
	post(r, 200, in.Cookie, "reset-factors", `{"username":"bob"}`)
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
	r := newRig(t)
	in, phone, bob := r.Login(rig.Alice), r.Another(), r.Login(rig.Bob)
	token := "Authorization: Bearer " + r.NewToken(in.Cookie, "").Token
	post(r, 200, in.Cookie, "end", `{"username":"alice"}`)
	r.WantSession(401, in, phone)
	r.WantSession(200, bob)
	r.Want(200, "GET", "/bearer/", "", token)
	r.Clock.Advance(time.Second)
	linkOf(t, post(r, 201, r.Login(rig.Alice).Cookie, "invite", `{"username":"alice"}`))
}

// A user cannot give a role that they do not have, neither to a new account, nor to another,
// nor to themselves. Each attempt leaves an event.
func TestPeopleGrantNothingBeyondThemselves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := r.Login(rig.Alice)
	before := usersFile(t, r)
	for change, names := range map[string][]string{"add": {"carol"}, "roles": {"bob", "alice", "dave"}} {
		for _, name := range names {
			for _, roles := range []string{`["root"]`, `["user","admin","root"]`, `["Admin"]`, `["a,b"]`} {
				post(r, 403, in.Cookie, change, `{"username":"`+name+`","roles":`+roles+`}`)
			}
			r.Want(403, "POST", "/account/people/"+change, "username="+name+"&roles=user,root", rig.Form, in.Cookie)
			r.Want(403, "POST", "/account/people/"+change, "username="+name+"&roles=user&roles=root", rig.Form, in.Cookie)
		}
	}
	if got := usersFile(t, r); got != before {
		t.Errorf("the file has changed:\n%s", got)
	}
	denied := 0
	for _, record := range r.Log.Records(t, "audit") {
		if record["event"] == "denied" && record["subject"] == "local:alice" && record["reason"] != nil {
			denied++
		}
	}
	if denied != 4*6 {
		t.Errorf("%d events tell of 24 refused changes", denied)
	}
}

// An account with a role that one does not have is out of reach, with every change.
func TestPeopleOutOfReach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in, of := r.Login(rig.Alice), r.Login(root)
	before := usersFile(t, r)
	for change := range changes {
		if change != "add" {
			post(r, 403, in.Cookie, change, `{"username":"root","roles":["admin"]}`)
		}
	}
	if usersFile(t, r) != before {
		t.Error("the file has changed")
	}
	r.WantSession(200, of)
	page := r.Want(200, "GET", "/account/people", "", in.Cookie, rig.Browser)
	rig.WantPage(t, page, "This account has a role that you do not have", `not name="username" value="root"`)
}

// A user cannot disable, demote or reset themselves, so the last one who looks after accounts
// cannot be lost.
func TestPeopleLeaveThemselvesAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := r.Login(rig.Alice)
	before := usersFile(t, r)
	for change, body := range map[string]string{
		"disable": `{"username":"alice"}`, "reset-factors": `{"username":"alice"}`,
		"roles": `{"username":"alice","roles":["user"]}`,
	} {
		post(r, 403, in.Cookie, change, body)
	}
	post(r, 403, in.Cookie, "roles", `{"username":"alice","roles":["admin"]}`)
	post(r, 403, in.Cookie, "roles", `{"username":"alice","roles":[]}`)
	post(r, 200, in.Cookie, "roles", `{"username":"alice","roles":["user","admin"]}`)
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
			r := newRig(t)
			alice, other := r.Login(rig.Alice), r.Login(dave)
			var first *httptest.ResponseRecorder
			r.BeforeEdit = func() { // alice's request is admitted, and waits for the file
				first = post(r, 200, other.Cookie, change, `{"username":"alice",`+body+`}`)
			}
			w := r.Do("POST", "/account/people/roles", `{"username":"dave","roles":["user"]}`, rig.JSON, alice.Cookie)
			if first == nil || w.Code != 404 && w.Code != 401 {
				t.Errorf("%v; the second change: %d %s", first, w.Code, w.Body)
			}
			if got := listOf(t, r, other.Cookie)["dave"]; strings.Join(got.Roles, " ") != "user admin" {
				t.Errorf("dave is %+v", got)
			}
		})
	}
}

// What the file says counts, also before the gateway has read it again: an account that an
// operator has just given more roles is out of reach.
func TestPeopleGoByTheFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := r.Login(rig.Alice)
	r.BeforeEdit = func() {
		users := strings.Replace(usersFile(t, r), "{username: bob, roles: [user]", "{username: bob, roles: [user, root]", 1)
		must.Do(t, os.WriteFile(filepath.Join(r.Dir, "users.yaml"), []byte(users), 0o600))
	}
	post(r, 403, in.Cookie, "disable", `{"username":"bob"}`)

	for old, changed := range map[string]string{
		"{username: alice, ": "{username: alice, disabled: true, ", "username: alice,": "username: alison,",
		"roles: [user, admin], password_hash: \"$argon2id": "roles: [user], password_hash: \"$argon2id",
	} {
		r := newRig(t)
		in := r.Login(rig.Alice)
		r.BeforeEdit = func() {
			users := rig.Edit(t, household, old, changed)
			must.Do(t, os.WriteFile(filepath.Join(r.Dir, "users.yaml"), []byte(users), 0o600))
		}
		w := r.Do("POST", "/account/people/disable", `{"username":"bob"}`, rig.JSON, in.Cookie)
		if w.Code != 401 && w.Code != 404 || strings.Contains(usersFile(t, r), "bob, disabled") {
			t.Errorf("%s: %d %s", changed, w.Code, w.Body)
		}
	}
}

// With a file that cannot be written, the list is served, and nothing can be changed. An
// account of the configuration is in the list, and nothing of it can be changed.
func TestPeopleThatCannotBeChanged(t *testing.T) {
	t.Parallel()
	yaml := rig.Edit(t, config, "accounts: {file: users.yaml,", `accounts:
  users:
    - {username: fixed, roles: [user], password_hash: "`+rig.BobHash+`"}
  file: users.yaml
  admins: {roles: [admin]}
unused: {`)
	yaml = yaml[:strings.Index(yaml, "unused:")] + yaml[strings.Index(yaml, "upstreams:"):]
	r := rig.WithUsers(t, yaml, household)
	in := r.Login(rig.Alice)
	if _, listed := listOf(t, r, in.Cookie)["fixed"]; !listed {
		t.Error("the account of the configuration is not in the list")
	}
	before := usersFile(t, r)
	for _, change := range []string{"disable", "enable", "roles", "reset-factors", "invite", "end"} {
		post(r, 409, in.Cookie, change, `{"username":"fixed","roles":[]}`)
	}
	post(r, 409, in.Cookie, "add", `{"username":"Fixed","roles":[]}`)
	rig.WantPage(t, r.Want(200, "GET", "/account/people", "", in.Cookie, rig.Browser),
		"This account is in the configuration")

	// A link to a file in a folder that is gone cannot be replaced.
	path := filepath.Join(r.Dir, "users.yaml")
	must.Do(t, os.Remove(path))
	must.Do(t, os.Symlink(filepath.Join(r.Dir, "gone", "users.yaml"), path))
	listOf(t, r, in.Cookie)
	for change, body := range changes {
		post(r, 409, in.Cookie, change, body)
	}
	rig.WantPage(t, r.Want(200, "GET", "/account/people", "", in.Cookie, rig.Browser),
		"The list of accounts cannot be changed here", "not <form method=\"post\" action=\"/account/people")
	must.Do(t, os.Remove(path))
	must.Do(t, os.WriteFile(path, []byte(before), 0o600))
}

// If the store does not answer, nothing has changed.
func TestPeopleWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := r.Login(rig.Alice)
	before := usersFile(t, r)
	for change, body := range changes {
		if change == "add" || change == "enable" || change == "roles" {
			continue // they end nothing
		}
		r.Store.BreakIf(func(operation string, _ int64, _ string) bool { return operation == "swap" || operation == "put" })
		post(r, 503, in.Cookie, change, body)
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
	r := rig.WithUsers(t, provider.Config(config, ""), household)
	provider.Now = r.Clock.Now
	cookie := r.Carol()
	post(r, 200, cookie, "disable", `{"username":"alice"}`)
	post(r, 403, cookie, "disable", `{"username":"root"}`)
	if got := listOf(t, r, cookie); !got["alice"].Disabled || got["root"].Disabled {
		t.Errorf("the people are %+v", got)
	}
}
