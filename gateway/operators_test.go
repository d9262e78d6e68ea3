package gateway

import (
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/login"
	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// users returns the users of the live logins, sorted.
func (r *rig) users() (names []string, err error) {
	err = r.Operators().EachLogin(r.t.Context(), func(l *login.UserLogin) error {
		names = append(names, l.User)
		return nil
	})
	slices.Sort(names)
	return names, err
}

// An operator sees all live logins, and ends one as a logout does.
func TestOperatorEndsLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	if names, err := r.users(); err != nil || !slices.Equal(names, []string{"alice", "bob"}) {
		t.Errorf("the live logins: %q, %v", names, err)
	}
	var id string
	if err := r.Operators().EachLogin(t.Context(), func(l *login.UserLogin) error {
		if l.User == "alice" {
			id = l.ID
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r.store.breakIf(func(operation string, _ int64, key string) bool {
		return operation == "swap" && strings.HasPrefix(key, "login:")
	})
	if found, err := r.Operators().EndLogin(t.Context(), id); found || !isOutage(err) {
		t.Errorf("without the store: %t, %v", found, err)
	}
	r.store.heal()
	r.good(alice, true)
	for _, want := range []bool{true, false} {
		if found, err := r.Operators().EndLogin(t.Context(), id); found != want || err != nil {
			t.Errorf("ended: %t, %v; want %t", found, err, want)
		}
	}
	r.good(alice, false)
	r.good(bob, true)
	if names, err := r.users(); err != nil || !slices.Equal(names, []string{"bob"}) {
		t.Errorf("the live logins: %q, %v", names, err)
	}
	logged := slices.ContainsFunc(r.log.Records(t, "audit"), func(line map[string]any) bool {
		return line["event"] == "logout" && line["by"] == "operator" &&
			line["subject"] == "local:alice" && line["login"] == id
	})
	if !logged {
		t.Errorf("logged %v", r.log.Records(t, "audit"))
	}
	if n := r.sample("authgate_tokens_total", "event=revoked"); n != 1 {
		t.Errorf("%v revoked tokens were counted", n)
	}
	r.store.breakIf(func(operation string, _ int64, _ string) bool { return operation == "walk" })
	if _, err := r.users(); !isOutage(err) {
		t.Errorf("a list without the store: %v", err)
	}
}

// The login of a provider's user ends too.
func TestOperatorEndsDelegatedLogin(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	back := r.client.Leave("")
	session := jarOf(r.want(302, "GET", back.Target, "", back.Cookie)).Line()
	r.want(200, "GET", "/delegated/", "", session)
	var found []*login.UserLogin
	if err := r.Operators().EachLogin(t.Context(), func(l *login.UserLogin) error {
		found = append(found, l)
		return nil
	}); err != nil || len(found) != 1 || !strings.HasPrefix(found[0].User, "small:") {
		t.Fatalf("the live logins: %+v, %v", found, err)
	}
	if found, err := r.Operators().EndLogin(t.Context(), found[0].ID); !found || err != nil {
		t.Errorf("ended: %t, %v", found, err)
	}
	r.want(401, "GET", "/delegated/", "", session)
}

// All logins of a provider's user end, and none of a local account with that name.
func TestOperatorEndsLoginsOfDelegatedUser(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	var sessions []string
	for range 2 {
		back := r.client.Leave("")
		sessions = append(sessions, jarOf(r.want(302, "GET", back.Target, "", back.Cookie)).Line())
	}
	alice := r.login(aliceIn)
	names := must.Get(r.users())(t)
	user := names[slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "small:") })]
	for name, want := range map[string]int{strings.TrimPrefix(user, "small:"): 0, "other" + user[5:]: 0,
		user + "x": 0} {
		if n, err := r.Operators().EndLoginsOf(t.Context(), name); n != want || err != nil {
			t.Errorf("%s: %d logins end, %v", name, n, err)
		}
	}
	r.store.breakIf(func(operation string, _ int64, key string) bool { return operation == "walk" })
	if _, err := r.Operators().EndLoginsOf(t.Context(), user); !isOutage(err) {
		t.Errorf("without the store: %v", err)
	}
	r.store.heal()
	r.want(200, "GET", "/delegated/", "", sessions[0])
	for _, want := range []int{2, 0} {
		if n, err := r.Operators().EndLoginsOf(t.Context(), user); n != want || err != nil {
			t.Errorf("%s: %d logins end, %v; want %d", user, n, err, want)
		}
	}
	for _, session := range sessions {
		r.want(401, "GET", "/delegated/", "", session)
	}
	r.good(alice, true)
}

// All logins of a user end by any form of the name, and no logins of another user.
func TestOperatorEndsLoginsOf(t *testing.T) {
	t.Parallel()
	decomposed := "e\u0301lan"
	r, _ := newFileRig(t, "accounts.yaml", strings.Replace(fileAccounts, "username: bob", `username: "`+decomposed+`"`, 1))
	for _, name := range []string{decomposed, "\u00e9lan"} {
		alice, elan := r.client.Login(ownrig.Alice), r.client.Login(signInWith(name, "builder"))
		if n, err := r.Operators().EndLoginsOf(t.Context(), name); n != 1 || err != nil {
			t.Errorf("%q: ended %d, %v", name, n, err)
		}
		r.client.WantSession(401, elan)
		r.client.WantSession(200, alice)
		r.clock.Advance(time.Second)
	}
}
