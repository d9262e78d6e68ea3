package gateway

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/web"
)

// events returns how often each event of tokens was counted.
func (r *rig) events(t *testing.T) string {
	t.Helper()
	var all []string
	for _, event := range []string{web.TokenIssued, web.TokenRefreshed, web.TokenRevoked, web.TokenReused} {
		all = append(all, fmt.Sprint(sample(t, r.registry, "authgate_tokens_total", "event="+event)))
	}
	return strings.Join(all, " ")
}

// audited returns the events of the audit log.
func (r *rig) audited(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, record := range r.log.Records(t, "audit") {
		line := fmt.Sprint(record["event"], " ", record["subject"])
		if result := record["result"]; result != nil {
			line += fmt.Sprint(" ", result)
		}
		all = append(all, line)
	}
	return all
}

func TestRefreshBody(t *testing.T) {
	t.Parallel()
	byBody, byCookie := newRig(t, baseConfig), newRig(t, cookieDelivery)
	for _, c := range []struct {
		name, body  string
		header      []string
		body1, cook int // what the two kinds of delivery answer
	}{
		{"nothing", "", nil, 415, 401},
		{"empty JSON", "", []string{jsonType}, 400, 401},
		{"an empty object", "{}", []string{jsonType}, 400, 401},
		{"something else", `{"x":1}`, []string{jsonType}, 400, 401},
		{"garbage", refreshBody("garbage"), []string{jsonType}, 401, 401},
		{"an empty token", refreshBody(""), []string{jsonType}, 401, 401},
		{"a number", `{"refresh_token":7}`, []string{jsonType}, 400, 400},
		{"null", `{"refresh_token":null}`, []string{jsonType}, 400, 400},
		{"twice", `{"refresh_token":"a","refresh_token":"a"}`, []string{jsonType}, 400, 400},
		{"no JSON", "x", []string{jsonType}, 400, 400},
		{"a form", "refresh_token=x", []string{formType}, 415, 415},
		{"no media type", refreshBody("x"), nil, 415, 415},
		{"a cookie of garbage", "{}", []string{jsonType, "Cookie: refresh_token=x"}, 400, 401},
		{"two cookies", "{}", []string{jsonType, "Cookie: refresh_token=x; refresh_token=y"}, 400, 400},
	} {
		for rig, want := range map[*rig]int{byBody: c.body1, byCookie: c.cook} {
			w := rig.do("POST", "/refresh", c.body, c.header...)
			if w.Code != want || w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s, delivery %s: %d %s, want %d", c.name, rig.Config().Token.Delivery, w.Code, w.Body, want)
			}
		}
	}
	// The body comes before the cookie.
	s := byBody.login(aliceIn)
	if w := byBody.do("POST", "/refresh", "{}", jsonType, "Cookie: refresh_token="+s.refresh); w.Code != 400 {
		t.Errorf("without delivery by cookie one is taken: %d", w.Code)
	}
	refresh := cookieLines(byCookie.do("POST", "/login", aliceIn, jsonType))["refresh_token"]
	if w := byCookie.do("POST", "/refresh", refreshBody("x"), jsonType, refresh); w.Code != 401 {
		t.Errorf("a token in the body that is not good: %d", w.Code)
	}
	if w := byCookie.do("POST", "/refresh", refreshBody(strings.TrimPrefix(refresh, "Cookie: refresh_token=")), jsonType); w.Code != 200 {
		t.Errorf("a token in the body that is good: %d", w.Code)
	}
}

// Of two refreshes with one token, one succeeds: the other one finds the token
// changed between its read and its write.
func TestRefreshOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	s := r.login(aliceIn)
	refresh := func() *httptest.ResponseRecorder { return r.do("POST", "/refresh", refreshBody(s.refresh), jsonType) }
	var first *httptest.ResponseRecorder
	second := false
	r.store.do(func(_ context.Context, operation string, _ int64, _ string) error {
		if operation == "swap" && !second {
			second = true
			first = refresh()
		}
		return nil
	})
	if w := refresh(); w.Code != 401 || first.Code != 200 {
		t.Fatalf("%d and %d, want 200 and 401", first.Code, w.Code)
	}
	next := readLogin(t, first)
	next.cookie = s.cookie
	r.good(t, next, true)
}

// Each event of tokens is counted and audited once, whatever caused it.
func TestTokenEvents(t *testing.T) {
	t.Parallel()
	refresh := func(r *rig, token string) signedIn {
		w := r.do("POST", "/refresh", refreshBody(token), jsonType)
		if w.Code != 200 {
			t.Errorf("POST /refresh: %d", w.Code)
		}
		return readLogin(t, w)
	}
	for name, c := range map[string]struct {
		yaml    string
		do      func(*rig)
		events  string // issued, refreshed, revoked, reused
		audited []string
	}{
		"login": {baseConfig, func(r *rig) { r.login(aliceIn) }, "1 0 0 0", []string{"login local:alice"}},
		"login without tokens": {baseConfig, func(r *rig) { r.do("POST", "/login?mechanism=session", aliceIn, jsonType) }, "0 0 0 0",
			[]string{"login local:alice"}},
		"failed logins": {baseConfig, func(r *rig) {
			r.do("POST", "/login", `{"username":"alice","password":"x"}`, jsonType)
			r.do("POST", "/login", `{"username":"wonderland","password":"x"}`, jsonType)
			r.do("POST", "/login", "", "Authorization: Basic #")
		}, "0 0 0 0", []string{"login local:alice failure", "login <nil> failure", "login <nil> failure"}},
		"refresh": {baseConfig, func(r *rig) { refresh(r, refresh(r, r.login(aliceIn).refresh).refresh) }, "1 2 0 0",
			[]string{"login local:alice", "refresh local:alice", "refresh local:alice"}},
		"refresh with garbage": {baseConfig, func(r *rig) { r.do("POST", "/refresh", refreshBody("x"), jsonType) }, "0 0 0 0",
			[]string{"refresh <nil> failure"}},
		"reuse at once": {baseConfig, func(r *rig) {
			s := r.login(aliceIn)
			refresh(r, s.refresh)
			r.do("POST", "/refresh", refreshBody(s.refresh), jsonType)
		}, "1 1 0 0", []string{"login local:alice", "refresh local:alice", "refresh <nil> failure"}},
		"reuse later": {baseConfig, func(r *rig) {
			s := r.login(aliceIn)
			refresh(r, s.refresh)
			r.clock.Advance(11 * time.Second)
			r.do("POST", "/refresh", refreshBody(s.refresh), jsonType)
		}, "1 1 0 1", []string{"login local:alice", "refresh local:alice", "reuse_detected local:alice"}},
		"logout by bearer": {baseConfig, func(r *rig) { r.do("POST", "/logout", "", r.login(aliceIn).bearer) }, "1 0 1 0",
			[]string{"login local:alice", "logout local:alice"}},
		"logout by session": {baseConfig, func(r *rig) { r.do("POST", "/logout", "", r.login(aliceIn).cookie) }, "1 0 1 0",
			[]string{"login local:alice", "logout local:alice"}},
		"logout by both": {baseConfig, func(r *rig) {
			s := r.login(aliceIn)
			r.do("POST", "/logout", "", s.cookie, s.bearer)
		}, "1 0 1 0", []string{"login local:alice", "logout local:alice"}},
		"logout of two logins": {baseConfig, func(r *rig) {
			r.do("POST", "/logout", "", r.login(aliceIn).cookie, r.login(bobIn).bearer)
		}, "2 0 2 0", []string{"login local:alice", "login local:bob", "logout local:alice", "logout local:bob"}},
		"logout by all cookies": {cookieDelivery, func(r *rig) {
			header := "Cookie: a=b"
			for _, c := range r.do("POST", "/login", aliceIn, jsonType).Result().Cookies() {
				header += "; " + c.Name + "=" + c.Value
			}
			r.do("POST", "/logout", "", header)
		}, "1 0 1 0", []string{"login local:alice", "logout local:alice"}},
		"logout of a session alone": {baseConfig, func(r *rig) {
			w := r.do("POST", "/login?mechanism=session", aliceIn, jsonType)
			r.do("GET", "/logout", "", readLogin(t, w).cookie)
		}, "0 0 0 0", []string{"login local:alice", "logout local:alice"}},
		"logout without a login": {baseConfig, func(r *rig) {
			r.do("POST", "/logout", "")
			r.do("POST", "/logout", "", "Cookie: session_id="+strings.Repeat("A", 43))
			r.do("POST", "/logout", "", "Authorization: Bearer x")
		}, "0 0 0 0", nil},
		"denied": {baseConfig, func(r *rig) {
			r.do("GET", "/admin/", "", r.login(bobIn).cookie)
			r.do("GET", "/basic/", "", basicHeader("service", "x"))
			r.do("GET", "/basic/", "")
		}, "1 0 0 0", []string{"login local:bob", "denied local:bob", "denied <nil>"}},
	} {
		r := newRig(t, c.yaml)
		c.do(r)
		if got := r.events(t); got != c.events {
			t.Errorf("%s: counted %s, want %s", name, got, c.events)
		}
		if got := r.audited(t); !slices.Equal(got, c.audited) {
			t.Errorf("%s: audited %q, want %q", name, got, c.audited)
		}
		for _, record := range r.log.Records(t, "audit") {
			if record["client"] != "192.0.2.7" || record["request_id"] == nil || record["route"] == nil {
				t.Errorf("%s: the record lacks something: %v", name, record)
			}
		}
	}
}

// A logout ends the logins of its credentials, clears the cookies, and confirms it.
func TestLogout(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, c := range []struct {
		name   string
		header func(signedIn) []string
		want   int
	}{
		{"nothing", func(signedIn) []string { return nil }, 200},
		{"by session", func(s signedIn) []string { return []string{s.cookie} }, 200},
		{"by bearer", func(s signedIn) []string { return []string{s.bearer} }, 200},
		{"by both", func(s signedIn) []string { return []string{s.cookie, s.bearer} }, 200},
		{"an unknown session", func(signedIn) []string { return []string{"Cookie: session_id=x"} }, 200},
		{"an unknown bearer", func(signedIn) []string { return []string{"Authorization: Bearer x"} }, 401},
		{"an unknown bearer, and a session", func(s signedIn) []string { return []string{"Authorization: Bearer x", s.cookie} }, 401},
		{"the scheme alone", func(signedIn) []string { return []string{"Authorization: Bearer"} }, 401},
		{"another scheme", func(s signedIn) []string { return []string{basicHeader("service", "s3rvice"), s.cookie} }, 200},
	} {
		s := r.login(aliceIn)
		header := c.header(s)
		w := r.do("POST", "/logout", "", header...)
		if w.Code != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.want)
		}
		cleared := strings.Contains(fmt.Sprint(w.Header()["Set-Cookie"]), "session_id=; Path=/; Expires=Thu, 01 Jan 1970")
		if cleared != (c.want == 200) {
			t.Errorf("%s: cookies %q", c.name, w.Header()["Set-Cookie"])
		}
		if c.want == 200 && strings.TrimSpace(w.Body.String()) != `{"message":"Signed out."}` {
			t.Errorf("%s: %s", c.name, w.Body)
		}
		ends := c.want == 200 && (slices.Contains(header, s.cookie) || slices.Contains(header, s.bearer))
		r.good(t, s, !ends)
	}
	w := r.do("POST", "/logout", "", browser, r.login(aliceIn).cookie)
	if w.Code != 303 || w.Header().Get("Location") != "/" || w.Header()["Set-Cookie"] == nil {
		t.Errorf("a browser: %d to %q", w.Code, w.Header().Get("Location"))
	}
}
