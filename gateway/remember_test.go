package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

const (
	remembering = "session: {lifetime: 1h, remember: 30d}\n"
	month       = 30 * 24 * time.Hour
)

// maxAge returns how long a cookie lives that an answer sets.
func maxAge(t testing.TB, w *httptest.ResponseRecorder, name string) time.Duration {
	t.Helper()
	for _, c := range w.Result().Cookies() {
		if c.Name == name {
			return time.Duration(c.MaxAge) * time.Second
		}
	}
	t.Errorf("no cookie %s: %q", name, w.Header()["Set-Cookie"])
	return 0
}

// A user who stays signed in has a session for session.remember, and others for
// session.lifetime. Where it is 0s, what is asked for does not count.
func TestRemember(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		header, body string
		remembered   bool
	}{
		"form":              {formType, aliceForm + "&remember=true", true},
		"form, as by HTML":  {formType, aliceForm + "&remember=on", true},
		"form, false":       {formType, aliceForm + "&remember=false", false},
		"form, empty":       {formType, aliceForm + "&remember=", false},
		"form without it":   {formType, aliceForm, false},
		"JSON":              {jsonType, `{"username":"alice","password":"wonderland","remember":true}`, true},
		"JSON, false":       {jsonType, `{"username":"alice","password":"wonderland","remember":false}`, false},
		"JSON without it":   {jsonType, aliceIn, false},
		"Basic has no such": {basicHeader("alice", "wonderland"), "remember=true", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, baseConfig+remembering)
			in := r.want(200, "POST", "/login", test.body, test.header)
			lives := map[bool]time.Duration{true: month, false: time.Hour}[test.remembered]
			if got := maxAge(t, in, "session_id"); got != lives {
				t.Errorf("the cookie lives for %v, want %v", got, lives)
			}
			cookie := jarOf(in).line("session_id")
			r.clock.Advance(lives - time.Second)
			r.want(200, "GET", "/session/", "", cookie)
			if w := r.want(200, "GET", "/account/sessions", "", cookie); strings.Count(w.Body.String(), `"current":true`) != 1 {
				t.Errorf("the user's logins are %s", w.Body)
			}
			r.clock.Advance(time.Second)
			r.want(401, "GET", "/session/", "", cookie)

			off := newRig(t, baseConfig)
			if got := maxAge(t, off.want(200, "POST", "/login", test.body, test.header), "session_id"); got != time.Hour {
				t.Errorf("without session.remember the cookie lives for %v", got)
			}
		})
	}
}

// What is neither true nor false is 400, also where it does not count.
func TestRememberMalformed(t *testing.T) {
	t.Parallel()
	for _, yaml := range []string{baseConfig + remembering, baseConfig} {
		r := newRig(t, yaml)
		for _, value := range []string{`"true"`, "1", "null", "[]", "{}", "[true]"} {
			w := r.want(400, "POST", "/login", `{"username":"alice","password":"wonderland","remember":`+value+`}`, jsonType)
			if !strings.Contains(w.Body.String(), `\"remember\"`) || w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s: %s, %q", value, w.Body, w.Header()["Set-Cookie"])
			}
		}
		for _, more := range []string{"&remember=maybe", "&remember=true&remember=true", "&remember=true&remember=false"} {
			r.want(400, "POST", "/login", aliceForm+more, formType)
		}
	}
}

// The refresh tokens of a remembered login live as long as its session, and longer if
// token.refresh_lifetime is longer.
func TestRememberedTokens(t *testing.T) {
	t.Parallel()
	const in = `{"username":"alice","password":"wonderland","remember":true}`
	for refresh, lives := range map[string]time.Duration{"2h": month, "40h": month} {
		r := newRig(t, baseConfig+remembering+"token: {refresh_lifetime: "+refresh+", delivery: cookie}\n")
		for _, query := range []string{"", "?mechanism=bearer"} {
			w := r.want(200, "POST", "/login"+query, in, jsonType)
			if got := maxAge(t, w, "refresh_token"); got != lives {
				t.Errorf("the refresh token lives for %v, want %v", got, lives)
			}
			jar := jarOf(w)
			for range 3 {
				r.clock.Advance(lives/3 - time.Minute)
				w = r.want(200, "POST", "/refresh", "", jar.line("refresh_token"))
				jar.take(w)
				if got, left := maxAge(t, w, "refresh_token"), lives; got >= left {
					t.Errorf("a refresh makes the login longer: %v", got)
				}
				r.want(200, "GET", "/bearer/", "", jar.line("access_token"))
			}
			r.clock.Advance(3 * time.Minute)
			r.want(401, "POST", "/refresh", "", jar.line("refresh_token"))
			r.want(401, "GET", "/bearer/", "", jar.line("access_token"))
		}
		if got := maxAge(t, r.want(200, "POST", "/login", aliceIn, jsonType), "refresh_token"); got >= month {
			t.Errorf("without being remembered: %v", got)
		}
	}
	short := newRig(t, baseConfig+"session: {lifetime: 1h, remember: 2h}\n")
	s := short.login(in)
	short.clock.Advance(3 * time.Hour)
	short.want(401, "GET", "/session/", "", s.cookie)
	short.want(200, "POST", "/refresh", refreshBody(s.refresh), jsonType)
}

// Who stays signed in stays so at all hosts.
func TestRememberedAtOtherHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t, fiveHostsConfig+remembering)
	wiki := pageOf("wiki.example.org")
	for _, remembered := range []bool{true, false} {
		p := r.person()
		_, page := p.visit("GET", wiki, "")
		action, fields := formOf(t, page)
		if _, ticked := fields["remember"]; ticked {
			t.Error("the page is ticked at first")
		}
		fields.Set("username", "alice")
		fields.Set("password", "wonderland")
		if remembered {
			fields.Set("remember", "true")
		}
		if at, w := p.visit("POST", "https://gw.example"+action, fields.Encode(), formType, "Origin: https://gw.example"); at != wiki || w.Code != 200 {
			t.Fatalf("led to %s, %d", at, w.Code)
		}
		p.sees(wiki, "alice")
		r.clock.Advance(2 * time.Hour)
		mail := pageOf("mail.example.net")
		if !remembered {
			p.isOut(wiki)
			p.isOut(mail)
			continue
		}
		p.sees(wiki, "alice")
		if got, want := maxAge(t, p.ask("GET", p.ticketOf("mail.example.net"), ""), "session_id"), month-2*time.Hour; got != want {
			t.Errorf("a late session lives for %v, want %v", got, want)
		}
		r.clock.Advance(month - 2*time.Hour - time.Second)
		p.sees(wiki, "alice")
		p.sees(mail, "alice")
		r.clock.Advance(time.Second)
		p.isOut(wiki)
		p.isOut(mail)
	}
}

// A remembered session that is not used ends by session.idle_timeout.
func TestRememberedSessionsGetIdle(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"session: {lifetime: 1h, remember: 30d, idle_timeout: 2d}\n")
	cookie := jarOf(r.want(200, "POST", "/login", aliceForm+"&remember=true", formType)).line("session_id")
	for range 5 {
		r.clock.Advance(47 * time.Hour)
		r.want(200, "GET", "/session/", "", cookie)
	}
	r.clock.Advance(49 * time.Hour)
	r.want(401, "GET", "/session/", "", cookie)
}

// A reload with a shorter time, or none, applies to those who are signed in.
func TestRememberIsTakenBack(t *testing.T) {
	t.Parallel()
	for yaml, lives := range map[string]time.Duration{
		baseConfig + "session: {remember: 1d}\n": 24 * time.Hour, baseConfig: time.Hour, baseConfig + "session: {remember: 60d}\n": month,
	} {
		r := newRig(t, baseConfig+remembering)
		cookie := jarOf(r.want(200, "POST", "/login", aliceForm+"&remember=true", formType)).line("session_id")
		r.want(200, "GET", "/session/", "", cookie)
		r.mustReload(yaml)
		r.clock.Advance(lives - time.Second)
		r.want(200, "GET", "/session/", "", cookie)
		r.clock.Advance(time.Second)
		r.want(401, "GET", "/session/", "", cookie)
	}
}

// The page offers it where it counts, in the user's language, and keeps what was chosen.
func TestRememberOnThePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+remembering+"limits: {login_failures: 3}\n")
	const unticked, ticked = `<input id="remember" name="remember" type="checkbox" value="true">`, `value="true" checked>`
	for language, label := range map[string]string{"en": "Stay signed in", "de": "Angemeldet bleiben"} {
		page := r.want(200, "GET", "/signin", "", browser, "Accept-Language: "+language).Body.String()
		if !strings.Contains(page, unticked+" "+label+"</label>") {
			t.Errorf("the page in %s does not offer it:\n%s", language, page)
		}
	}
	for i, status := range []int{401, 401, 401, 429} {
		form := url.Values{"username": {"alice"}, "password": {"wrong"}}
		if i != 1 {
			form.Set("remember", "true")
		}
		page := r.want(status, "POST", "/login", form.Encode(), formType, browser).Body.String()
		if got := strings.Contains(page, ticked); got != (i != 1) {
			t.Errorf("try %d: ticked: %v", i, got)
		}
	}
	for _, place := range []string{"/signin?mechanism=oidc"} {
		if page := r.want(200, "GET", place, "", browser).Body.String(); strings.Contains(page, "remember") {
			t.Errorf("%s offers it:\n%s", place, page)
		}
	}
	if page := newRig(t, baseConfig).want(200, "GET", "/signin", "", browser).Body.String(); strings.Contains(page, "remember") {
		t.Errorf("the page offers it without session.remember:\n%s", page)
	}
}

// A login at a provider lives for delegated.lifetime.
func TestRememberNotAtProviders(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, remembering+"delegated: {lifetime: 2h}\n")
	back := r.leaveFrom("/login?provider=small&remember=true", "")
	w := r.want(http.StatusFound, "GET", back.target+"&remember=true", "", back.cookie)
	if got := maxAge(t, w, "session"); got != 2*time.Hour {
		t.Errorf("the cookie lives for %v", got)
	}
	cookie := jarOf(w).line("session")
	r.clock.Advance(2 * time.Hour)
	r.want(401, "GET", "/delegated/", "", cookie)
}

// A new password gives a remembered login new values that live as long as the old ones.
func TestRememberedAfterANewPassword(t *testing.T) {
	t.Parallel()
	r, _ := newFileRig(t, "accounts.yaml", fileAccounts, remembering+"token: {delivery: cookie, refresh_lifetime: 2h}\n")
	jar := jarOf(r.want(200, "POST", "/login", `{"username":"alice","password":"wonderland","remember":true}`, jsonType))
	r.clock.Advance(time.Minute)
	w := r.want(200, "POST", "/account/password", changeTo("wonderland", "a new password"), jsonType, jar.line("session_id"))
	for _, name := range []string{"session_id", "refresh_token"} {
		if got := maxAge(t, w, name); got != month-time.Minute {
			t.Errorf("%s lives for %v", name, got)
		}
	}
	jar.take(w)
	r.stub() // the change has reloaded the accounts
	r.clock.Advance(24 * time.Hour)
	r.want(200, "GET", "/session/", "", jar.line("session_id"))
	r.want(200, "POST", "/refresh", "", jar.line("refresh_token"))
}
