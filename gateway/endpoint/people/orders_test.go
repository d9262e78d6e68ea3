package people_test

import (
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// Names are compared as everywhere: without case and normalization for a new account, without
// normalization for another.
func TestPeopleNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := r.Login(rig.Alice)
	post(r, 201, in.Cookie, "add", `{"username":"ren\u00e9"}`)
	for _, name := range []string{"bob", "Bob", "BOB ", "rene\u0301", "Ren\u00c9", "alice"} {
		post(r, 409, in.Cookie, "add", `{"username":"`+name+`","roles":[]}`)
	}
	for _, name := range []string{"", " ", "a:b", "a\\u0000b", "a\\nb"} {
		post(r, 400, in.Cookie, "add", `{"username":"`+name+`","roles":[]}`)
	}
	post(r, 200, in.Cookie, "disable", `{"username":"rene\u0301"}`)
	for change := range changes {
		if change != "add" {
			post(r, 404, in.Cookie, change, `{"username":"Bob","roles":[]}`)
			post(r, 404, in.Cookie, change, `{"username":"nobody","roles":[]}`)
			post(r, 404, in.Cookie, change, `{"username":"","roles":[]}`)
		}
	}
}

// No account gets a name that looks like that of another one. One that a file has can be changed.
func TestPeopleNamesAreSeen(t *testing.T) {
	t.Parallel()
	r := rig.WithUsers(t, config, household+"- {username: \"al\\u00adice\", roles: [user]}\n")
	in := r.Login(rig.Alice)
	before := usersFile(t, r)
	for _, hidden := range []string{
		"\u200b", "\u00ad", "\u202e", "\u2066", "\u200e", "\ufeff", "\u2060", "\u034f", "\u3164", "\ue000", "\u2028",
	} {
		for _, name := range []string{"al" + hidden + "ice", "carl" + hidden + "x"} {
			post(r, 400, in.Cookie, "add", `{"username":"`+name+`","roles":[]}`)
		}
	}
	w := r.Post(400, "/account/people/add", "username=al%E2%80%8Bice", in.Cookie)
	rig.WantPage(t, w, "An account cannot have this user name")
	if got := usersFile(t, r); got != before {
		t.Errorf("the file has changed:\n%s", got)
	}
	post(r, 200, in.Cookie, "disable", `{"username":"al\u00adice"}`)
}

func TestPeopleBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := r.Login(rig.Alice)
	before := usersFile(t, r)
	for change := range changes {
		for _, body := range []string{"", "{}", "[]", `{"username":1}`, `{"username":null}`,
			`{"username":"bob","username":"dave"}`} {
			post(r, 400, in.Cookie, change, body)
		}
		r.Want(400, "POST", "/account/people/"+change, "username=bob&username=dave&roles=", rig.Form, in.Cookie)
		r.Want(400, "POST", "/account/people/"+change, "roles=", rig.Form, in.Cookie)
		r.Want(415, "POST", "/account/people/"+change, "username=bob", "Content-Type: text/plain", in.Cookie)
	}
	for _, body := range []string{`{"username":"bob"}`, `{"username":"bob","roles":"user"}`,
		`{"username":"bob","roles":null}`} {
		post(r, 400, in.Cookie, "roles", body)
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
	r := newRig(t)
	in := r.Login(rig.Alice)
	page := r.Post(200, "/account/people/add", "username=carol&roles=user,admin", in.Cookie)
	rig.WantPage(t, page, "https://gw.example/signin/invite?token=", "Give this link to <strong>carol</strong>")
	if got := listOf(t, r, in.Cookie)["carol"].Roles; strings.Join(got, " ") != "user admin" {
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
