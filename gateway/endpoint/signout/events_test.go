package signout_test

import (
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// Each event of tokens is counted and audited once, whatever caused it.
func TestTokenEvents(t *testing.T) {
	t.Parallel()
	const in, wrong = "login local:alice", `{"username":"alice","password":"x"}`
	for _, c := range []struct {
		do      func(*rig.Rig)
		events  string // issued, refreshed, revoked, reused
		audited string
	}{
		{func(r *rig.Rig) { r.Login(rig.Alice) }, "1 0 0 0", in},
		{func(r *rig.Rig) { r.Want(200, "POST", "/login?mechanism=session", rig.Alice, rig.JSON) }, "0 0 0 0", in},
		{func(r *rig.Rig) {
			r.Want(401, "POST", "/login", wrong, rig.JSON)
			r.Want(401, "POST", "/login", strings.ReplaceAll(wrong, "alice", "wonderland"), rig.JSON)
			r.Want(401, "POST", "/login", "", "Authorization: Basic #")
		}, "0 0 0 0", "login local:alice failure, login <nil> failure, login <nil> failure"},
		{func(r *rig.Rig) { r.Refresh(r.Refresh(r.Login(rig.Alice).Refresh).Refresh) },
			"1 2 0 0", in + ", refresh local:alice, refresh local:alice"},
		{func(r *rig.Rig) { r.Want(401, "POST", "/refresh", rig.RefreshBody("x"), rig.JSON) }, "0 0 0 0",
			"refresh <nil> failure"},
		{func(r *rig.Rig) {
			s := r.Login(rig.Alice)
			r.Refresh(s.Refresh)
			r.Want(401, "POST", "/refresh", rig.RefreshBody(s.Refresh), rig.JSON)
		}, "1 1 0 0", in + ", refresh local:alice, refresh <nil> failure"},
		{func(r *rig.Rig) {
			s := r.Login(rig.Alice)
			r.Refresh(s.Refresh)
			r.Clock.Advance(11 * time.Second)
			r.Want(401, "POST", "/refresh", rig.RefreshBody(s.Refresh), rig.JSON)
		}, "1 1 0 1", in + ", refresh local:alice, reuse_detected local:alice"},
		{func(r *rig.Rig) { r.Want(200, "POST", "/logout", "", r.Login(rig.Alice).Bearer) },
			"1 0 1 0", in + ", logout local:alice"},
		{func(r *rig.Rig) { r.Want(200, "POST", "/logout", "", r.Login(rig.Alice).Cookie) },
			"1 0 1 0", in + ", logout local:alice"},
		{func(r *rig.Rig) {
			s := r.Login(rig.Alice)
			r.Want(200, "POST", "/logout", "", s.Cookie, s.Bearer)
		}, "1 0 1 0", in + ", logout local:alice"},
		{func(r *rig.Rig) {
			r.Want(200, "POST", "/logout", "", r.Login(rig.Alice).Cookie, r.Login(rig.Bob).Bearer)
		},
			"2 0 2 0", in + ", login local:bob, logout local:alice, logout local:bob"},
		{func(r *rig.Rig) {
			r.Reload(rig.CookieDelivery)
			r.Want(200, "POST", "/logout", "", rig.JarOf(r.Want(200, "POST", "/login", rig.Alice, rig.JSON)).Line())
		}, "1 0 1 0", in + ", logout local:alice"},
		{func(r *rig.Rig) {
			r.Want(302, "GET", "/logout", "", rig.ReadLogin(r.T, r.Do("POST", "/login?mechanism=session", rig.Alice,
				rig.JSON)).Cookie)
		}, "0 0 0 0", in + ", logout local:alice"},
		{func(r *rig.Rig) {
			r.Want(200, "POST", "/logout", "")
			r.Want(200, "POST", "/logout", "", "Cookie: session_id="+strings.Repeat("A", 43))
			r.Want(401, "POST", "/logout", "", "Authorization: Bearer x")
		}, "0 0 0 0", "credential_refused <nil>"},
	} {
		r := rig.New(t, rig.Base)
		c.do(r)
		if events, audited := r.Events(), r.Audited(); events != c.events || audited != c.audited {
			t.Errorf("counted %s, audited %q; want %s, %q", events, audited, c.events, c.audited)
		}
	}
}
