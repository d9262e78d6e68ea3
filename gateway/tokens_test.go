package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"authgate/gateway/proxy/web"
	ownrig "authgate/internal/test/rig"
)

// events returns how often each event of tokens was counted.
func (r *rig) events() string {
	r.t.Helper()
	var all []string
	for _, event := range []string{web.TokenIssued, web.TokenRefreshed, web.TokenRevoked, web.TokenReused} {
		all = append(all, fmt.Sprint(r.sample("authgate_tokens_total", "event="+event)))
	}
	return strings.Join(all, " ")
}

// audited returns the events of the audit log.
func (r *rig) audited() string {
	r.t.Helper()
	var all []string
	for _, record := range r.log.Records(r.t, "audit") {
		line := fmt.Sprint(record["event"], " ", record["subject"])
		if result := record["result"]; result != nil {
			line += fmt.Sprint(" ", result)
		}
		all = append(all, line)
		if record["client"] != "192.0.2.7" || record["request_id"] == nil || record["route"] == nil ||
			record["event"] == "denied" && record["reason"] == "" {
			r.t.Errorf("the record lacks something: %v", record)
		}
	}
	return strings.Join(all, ", ")
}

// refresh returns what a refresh gives.
func (r *rig) refresh(token string) signedIn {
	r.t.Helper()
	return readLogin(r.t, r.want(200, "POST", "/refresh", refreshBody(token), jsonType))
}

// Each event of tokens is counted and audited once, whatever caused it.
func TestTokenEvents(t *testing.T) {
	t.Parallel()
	const in, wrong = "login local:alice", `{"username":"alice","password":"x"}`
	for _, c := range []struct {
		do      func(*rig)
		events  string // issued, refreshed, revoked, reused
		audited string
	}{
		{func(r *rig) { r.login(aliceIn) }, "1 0 0 0", in},
		{func(r *rig) { r.want(200, "POST", "/login?mechanism=session", aliceIn, jsonType) }, "0 0 0 0", in},
		{func(r *rig) {
			r.want(401, "POST", "/login", wrong, jsonType)
			r.want(401, "POST", "/login", strings.ReplaceAll(wrong, "alice", "wonderland"), jsonType)
			r.want(401, "POST", "/login", "", "Authorization: Basic #")
		}, "0 0 0 0", "login local:alice failure, login <nil> failure, login <nil> failure"},
		{func(r *rig) { r.refresh(r.refresh(r.login(aliceIn).refresh).refresh) },
			"1 2 0 0", in + ", refresh local:alice, refresh local:alice"},
		{func(r *rig) { r.want(401, "POST", "/refresh", refreshBody("x"), jsonType) }, "0 0 0 0", "refresh <nil> failure"},
		{func(r *rig) {
			s := r.login(aliceIn)
			r.refresh(s.refresh)
			r.want(401, "POST", "/refresh", refreshBody(s.refresh), jsonType)
		}, "1 1 0 0", in + ", refresh local:alice, refresh <nil> failure"},
		{func(r *rig) {
			s := r.login(aliceIn)
			r.refresh(s.refresh)
			r.clock.Advance(11 * time.Second)
			r.want(401, "POST", "/refresh", refreshBody(s.refresh), jsonType)
		}, "1 1 0 1", in + ", refresh local:alice, reuse_detected local:alice"},
		{func(r *rig) { r.want(200, "POST", "/logout", "", r.login(aliceIn).bearer) },
			"1 0 1 0", in + ", logout local:alice"},
		{func(r *rig) { r.want(200, "POST", "/logout", "", r.login(aliceIn).cookie) },
			"1 0 1 0", in + ", logout local:alice"},
		{func(r *rig) {
			s := r.login(aliceIn)
			r.want(200, "POST", "/logout", "", s.cookie, s.bearer)
		}, "1 0 1 0", in + ", logout local:alice"},
		{func(r *rig) { r.want(200, "POST", "/logout", "", r.login(aliceIn).cookie, r.login(bobIn).bearer) },
			"2 0 2 0", in + ", login local:bob, logout local:alice, logout local:bob"},
		{func(r *rig) {
			r.mustReload(ownrig.CookieDelivery)
			r.want(200, "POST", "/logout", "", jarOf(r.want(200, "POST", "/login", aliceIn, jsonType)).Line())
		}, "1 0 1 0", in + ", logout local:alice"},
		{func(r *rig) {
			r.want(302, "GET", "/logout", "", readLogin(r.t, r.do("POST", "/login?mechanism=session", aliceIn, jsonType)).cookie)
		}, "0 0 0 0", in + ", logout local:alice"},
		{func(r *rig) {
			r.want(200, "POST", "/logout", "")
			r.want(200, "POST", "/logout", "", "Cookie: session_id="+strings.Repeat("A", 43))
			r.want(401, "POST", "/logout", "", "Authorization: Bearer x")
		}, "0 0 0 0", ""},
		{func(r *rig) {
			r.want(403, "GET", "/admin/", "", r.login(bobIn).cookie)
			r.want(401, "GET", "/basic/", "", basicHeader("service", "x"))
			r.want(401, "GET", "/basic/", "")
		}, "1 0 0 0", "login local:bob, denied local:bob, denied <nil>"},
	} {
		r := newRig(t, baseConfig)
		c.do(r)
		if events, audited := r.events(), r.audited(); events != c.events || audited != c.audited {
			t.Errorf("counted %s, audited %q; want %s, %q", events, audited, c.events, c.audited)
		}
	}
}
