package people_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// later returns the time of a gateway after a while.
func later(r *rig.Rig, d time.Duration) string {
	return r.Clock.Now().Add(d).Truncate(time.Second).UTC().Format(time.RFC3339)
}

// A new account gets an end, and a role that an account does not have yet: at a time, or after a while. The list
// tells both. What an account has keeps its end, whatever else is changed.
func TestPeopleUntil(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := r.Login(rig.Alice)
	linkOf(t, post(r, 201, in.Cookie, "add", `{"username":"carol","roles":["user"],"until":"`+later(r, 80*time.Hour)+`"}`))
	r.Want(200, "POST", "/account/people/add", "username=erin&roles=user&for=3d&until=", rig.Form, in.Cookie)
	post(r, 200, in.Cookie, "roles", `{"username":"bob","roles":["user","admin"],"for":"8h"}`)
	check := func() {
		t.Helper()
		var list struct {
			People []struct {
				Username   string
				Roles      []string
				Until      string
				RolesUntil map[string]string `json:"roles_until"`
			}
		}
		must.Do(t, json.Unmarshal(r.Want(200, "GET", "/account/people", "", in.Cookie).Body.Bytes(), &list))
		for _, p := range list.People {
			until := map[string]string{"carol": later(r, 80*time.Hour), "erin": later(r, 72*time.Hour)}[p.Username]
			admin := map[string]string{"bob": later(r, 8*time.Hour)}[p.Username]
			if p.Until != until || p.RolesUntil["admin"] != admin || p.RolesUntil["user"] != "" {
				t.Errorf("%+v, want until %q, and admin until %q", p, until, admin)
			}
		}
	}
	check()
	post(r, 200, in.Cookie, "disable", `{"username":"bob"}`)
	post(r, 200, in.Cookie, "enable", `{"username":"bob"}`)
	post(r, 200, in.Cookie, "reset-factors", `{"username":"bob"}`)
	post(r, 200, in.Cookie, "roles", `{"username":"bob","roles":["admin","user"],"for":"3d"}`)
	post(r, 200, in.Cookie, "roles", `{"username":"bob","roles":["admin"]}`)
	post(r, 200, in.Cookie, "roles", `{"username":"carol","roles":["user"],"for":"1h"}`)
	linkOf(t, post(r, 201, in.Cookie, "invite", `{"username":"carol"}`))
	check()
	page := r.Want(200, "GET", "/account/people", "", in.Cookie, rig.Browser)
	rig.WantPage(t, page, "Account until", "until <time")
	bob := r.Login(rig.Bob)
	me := r.Want(200, "GET", "/me", "", bob.Cookie).Body.String()
	if !strings.Contains(me, `"roles":["admin"]`) || !strings.Contains(me, `"roles_until":{"admin":"`+later(r, 8*time.Hour)) {
		t.Errorf("/me: %s", me)
	}
	r.Clock.Advance(8 * time.Hour)
	if got := listOf(t, r, r.Login(rig.Alice).Cookie)["bob"]; len(got.Roles) > 0 {
		t.Errorf("bob still has %q", got.Roles)
	}
	in = r.Login(rig.Alice)
	post(r, 200, in.Cookie, "roles", `{"username":"bob","roles":["admin"]}`) // given again, without an end
	if !strings.Contains(usersFile(t, r), "roles: [admin]") {
		t.Errorf("the file has\n%s", usersFile(t, r))
	}
	r.Clock.Advance(72 * time.Hour)
	in = r.Login(rig.Alice)
	w := post(r, 409, in.Cookie, "invite", `{"username":"carol"}`)
	if !strings.Contains(w.Body.String(), "has ended") {
		t.Errorf("an ended account: %s", w.Body)
	}
}

// A time without an offset, a duration that is none, both at once, and an end that has come for a new account
// change nothing.
func TestPeopleUntilWrong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := r.Login(rig.Alice)
	before := usersFile(t, r)
	for _, wrong := range []string{
		`"until":"2099-12-04T18:00:00"`, `"until":"2099-12-04"`, `"until":""`, `"until":7`, `"until":null`, `"for":"8"`,
		`"for":"0s"`, `"for":"-8h"`, `"for":""`, `"for":8`, `"for":"8h","until":"2099-12-04T18:00:00Z"`, `"for":"tomorrow"`,
	} {
		post(r, 400, in.Cookie, "add", `{"username":"carol",`+wrong+`}`)
		post(r, 400, in.Cookie, "roles", `{"username":"bob","roles":["admin"],`+wrong+`}`)
	}
	for _, wrong := range []string{"for=8", "until=2099-12-04", "for=8h&until=2099-12-04T18:00:00Z", "for=8h&for=8h"} {
		r.Want(400, "POST", "/account/people/roles", "username=bob&roles=admin&"+wrong, rig.Form, in.Cookie)
	}
	post(r, 409, in.Cookie, "add", `{"username":"carol","until":"2020-12-04T18:00:00Z"}`)
	if got := usersFile(t, r); got != before {
		t.Errorf("the file has changed:\n%s", got)
	}
}

// Who has a role until a time gives it until then at most, to anybody, and cannot reach an account that has it
// for longer.
func TestPeopleLend(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(4 * time.Hour).Truncate(time.Second).UTC() // the clock of the rig begins now
	text := end.Format(time.RFC3339)
	people := rig.Edit(t, household, "roles: [user, admin], password_hash: \""+rig.AliceHash,
		"roles: [user, {name: admin, until: \""+text+"\"}], password_hash: \""+rig.AliceHash)
	r := rig.WithUsers(t, config, people+"- {username: keeper, roles: [user, admin]}\n")
	in := r.Login(rig.Alice)
	before := usersFile(t, r)
	at := func(d time.Duration) string { return `"until":"` + end.Add(d).Format(time.RFC3339) + `"` }
	for _, change := range []string{`add {"username":"carol"`, `roles {"username":"bob"`} {
		name, body, _ := strings.Cut(change, " ")
		for _, wrong := range []string{`"x":""`, at(time.Second), `"for":"2d"`, `"until":"9999-01-01T00:00:00Z"`} {
			w := post(r, 403, in.Cookie, name, body+`,"roles":["admin"],`+wrong+`}`)
			if !strings.Contains(w.Body.String(), "until then at most") {
				t.Errorf("%s: %s", wrong, w.Body)
			}
		}
	}
	for change := range changes {
		if change != "add" {
			post(r, 403, in.Cookie, change, `{"username":"keeper","roles":["user"]}`)
		}
	}
	if got := usersFile(t, r); got != before {
		t.Errorf("the file has changed:\n%s", got)
	}
	post(r, 200, in.Cookie, "roles", `{"username":"bob","roles":["user","admin"],`+at(0)+`}`)
	post(r, 200, in.Cookie, "roles", `{"username":"alice","roles":["user","admin"],`+at(time.Hour)+`}`) // keeps its end
	post(r, 201, in.Cookie, "add", `{"username":"carol","roles":["user"]}`)
	post(r, 201, in.Cookie, "add", `{"username":"dora","roles":["admin"],`+at(-time.Second)+`}`)
	if got := usersFile(t, r); strings.Count(got, text) != 2 || strings.Contains(got, end.Add(time.Hour).Format(time.RFC3339)) {
		t.Errorf("the file has\n%s", got)
	}
	r.Clock.Advance(end.Sub(r.Clock.Now()))
	post(r, 404, r.Login(rig.Alice).Cookie, "roles", `{"username":"alice","roles":["user","admin"]}`)
}
