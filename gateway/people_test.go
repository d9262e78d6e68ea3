package gateway

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// peopleConfig is the configuration with accounts in a file, and admins who look after them.
func peopleConfig(t *testing.T) string {
	t.Helper()
	return strings.Replace(fileConfig(t, "accounts.yaml"), "accounts: {", "accounts: {admins: {roles: [admin]}, ", 1)
}

// newPeopleRig returns a rig where alice and bob look after the accounts of a file.
func newPeopleRig(t *testing.T) (r *rig, path string) {
	t.Helper()
	users := strings.Replace(fileAccounts, "username: bob, roles: [user]", "username: bob, roles: [user, admin]", 1)
	r, path = newFileRig(t, "accounts.yaml", users)
	r.mustReload(peopleConfig(t))
	r.clock.Advance(time.Second)
	return r, path
}

func (r *rig) people(status int, in ownrig.SignedIn, change, body string) *httptest.ResponseRecorder {
	r.t.Helper()
	defer r.stub() // the change is a reload
	return r.client.Want(status, "POST", "/account/people/"+change, body, ownrig.JSON, in.Cookie)
}

// invitation returns the target and the token of an invitation.
func invitation(t *testing.T, w *httptest.ResponseRecorder) (target, token string) {
	t.Helper()
	var answer struct{ URL string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	link, err := url.Parse(answer.URL)
	if err != nil {
		t.Fatal(err)
	}
	return link.RequestURI(), link.Query().Get("token")
}

// setPassword sends the form of an invitation. To set a password takes time.
func (r *rig) setPassword(status int, token, password string) *httptest.ResponseRecorder {
	r.t.Helper()
	r.store.BreakIf(func(operation string, _ int64, key string) bool {
		if operation == "swap" && strings.HasPrefix(key, "invitation:") {
			r.clock.Advance(time.Millisecond)
		}
		return false
	})
	defer r.stub()
	defer r.store.Heal()
	return r.client.Post(status, "/signin/invite", url.Values{
		"token": {token}, "new": {password}, "again": {password},
	}.Encode(), "")
}

// An invitation serves no later account of the same name, and none that was disabled in
// between, by any change of the file.
func TestInvitationOfANamesake(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *rig, alice ownrig.SignedIn, path string){
		"removed and added": func(r *rig, alice ownrig.SignedIn, path string) {
			with := content(r.t, path)
			without := with[:strings.LastIndex(with[:strings.Index(with, "carol")], "- ")]
			for _, users := range []string{without, with} {
				if err := os.WriteFile(path, []byte(users), 0o640); err != nil {
					r.t.Fatal(err)
				}
				r.clock.Advance(time.Second)
				if err := r.Reload(r.state.Load().config.Reread); err != nil {
					r.t.Fatal(err)
				}
			}
		},
		"disabled and enabled": func(r *rig, alice ownrig.SignedIn, _ string) {
			r.people(200, alice, "disable", `{"username":"carol"}`)
			r.clock.Advance(time.Second)
			r.people(200, alice, "enable", `{"username":"carol"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, path := newPeopleRig(t)
			alice := r.client.Login(ownrig.Alice)
			target, token := invitation(t, r.people(201, alice, "add", `{"username":"carol"}`))
			r.client.Want(200, "GET", target, "", ownrig.Browser)
			change(r, alice, path)
			r.client.Want(400, "GET", target, "", ownrig.Browser)
			r.setPassword(400, token, "looking-glass")
			_, token = invitation(t, r.people(201, alice, "invite", `{"username":"carol"}`))
			r.clock.Advance(time.Second)
			r.setPassword(303, token, "looking-glass")
		})
	}
}

// An account that is removed and added again is another one, also if no gateway has seen the
// file without it.
func TestInvitationOfAnUnseenNamesake(t *testing.T) {
	t.Parallel()
	r, _ := newPeopleRig(t)
	alice := r.client.Login(ownrig.Alice)
	target, _ := invitation(t, r.people(201, alice, "add", `{"username":"carol"}`))
	r.client.Want(200, "GET", target, "", ownrig.Browser)
	file := r.state.Load().config.AccountsFile()
	for _, edit := range []accounts.Edit{{Username: "carol", Remove: true}, {Username: "carol", Add: true}} {
		must.Do(t, file.Edit(t.Context(), edit))
	}
	restarted := must.Get(startRig(t, r.dir, peopleConfig(t), r.store, r.clock.Now))(t)
	restarted.client.Want(400, "GET", target, "", ownrig.Browser)
}

// However two people who look after accounts take that from each other at once, one of them
// keeps it.
func TestPeopleDemoteEachOther(t *testing.T) {
	t.Parallel()
	r, path := newPeopleRig(t)
	before := content(t, path)
	for range 8 {
		alice, bob := r.client.Login(ownrig.Alice), r.client.Login(ownrig.Bob)
		var both sync.WaitGroup
		codes := make([]int, 2)
		for i, one := range []struct {
			in   ownrig.SignedIn
			name string
		}{{alice, "bob"}, {bob, "alice"}} {
			both.Go(func() {
				codes[i] = r.client.Do("POST", "/account/people/roles", `{"username":"`+one.name+`","roles":["user"]}`,
					ownrig.JSON, one.in.Cookie).Code
			})
		}
		both.Wait()
		if done := (codes[0] == 200) != (codes[1] == 200); !done || strings.Count(content(t, path), "[user, admin]") != 1 {
			t.Fatalf("%d:\n%s", codes, content(t, path))
		}
		if err := os.WriteFile(path, []byte(before), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := r.Reload(r.state.Load().config.Reread); err != nil {
			t.Fatal(err)
		}
	}
}
