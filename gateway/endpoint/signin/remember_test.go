package signin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

const (
	remembering = "session: {lifetime: 1h, remember: 30d}\n"
	month       = 30 * 24 * time.Hour
)

// A user who stays signed in has a session for session.remember, and others for
// session.lifetime. Where it is 0s, what is asked for does not count.
func TestRemember(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		header, body string
		remembered   bool
	}{
		"form":              {rig.Form, rig.AliceForm + "&remember=true", true},
		"form, as by HTML":  {rig.Form, rig.AliceForm + "&remember=on", true},
		"form, false":       {rig.Form, rig.AliceForm + "&remember=false", false},
		"form, empty":       {rig.Form, rig.AliceForm + "&remember=", false},
		"form without it":   {rig.Form, rig.AliceForm, false},
		"JSON":              {rig.JSON, `{"username":"alice","password":"wonderland","remember":true}`, true},
		"JSON, false":       {rig.JSON, `{"username":"alice","password":"wonderland","remember":false}`, false},
		"JSON without it":   {rig.JSON, rig.Alice, false},
		"Basic has no such": {rig.Basic("alice", "wonderland"), "remember=true", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, rig.Base+remembering)
			in := r.Want(200, "POST", "/login", test.body, test.header)
			lives := map[bool]time.Duration{true: month, false: time.Hour}[test.remembered]
			if got := rig.MaxAge(t, in, "session_id"); got != lives {
				t.Errorf("the cookie lives for %v, want %v", got, lives)
			}
			cookie := rig.JarOf(in).Line("session_id")
			r.Clock.Advance(lives - time.Second)
			r.Want(200, "GET", "/session/", "", cookie)
			if w := r.Want(200, "GET", "/account/sessions", "", cookie); strings.Count(w.Body.String(), `"current":true`) != 1 {
				t.Errorf("the user's logins are %s", w.Body)
			}
			r.Clock.Advance(time.Second)
			r.Want(401, "GET", "/session/", "", cookie)

			off := rig.New(t, rig.Base)
			w := off.Want(200, "POST", "/login", test.body, test.header)
			if got := rig.MaxAge(t, w, "session_id"); got != time.Hour {
				t.Errorf("without session.remember the cookie lives for %v", got)
			}
		})
	}
}

// What is neither true nor false is 400, also where it does not count.
func TestRememberMalformed(t *testing.T) {
	t.Parallel()
	for _, yaml := range []string{rig.Base + remembering, rig.Base} {
		r := rig.New(t, yaml)
		for _, value := range []string{`"true"`, "1", "null", "[]", "{}", "[true]"} {
			w := r.Want(400, "POST", "/login", `{"username":"alice","password":"wonderland","remember":`+value+`}`, rig.JSON)
			if !strings.Contains(w.Body.String(), `\"remember\"`) || w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s: %s, %q", value, w.Body, w.Header()["Set-Cookie"])
			}
		}
		for _, more := range []string{"&remember=maybe", "&remember=true&remember=true", "&remember=true&remember=false"} {
			r.Want(400, "POST", "/login", rig.AliceForm+more, rig.Form)
		}
	}
}

// The refresh tokens of a remembered login live as long as its session, and longer if
// token.refresh_lifetime is longer.
func TestRememberedTokens(t *testing.T) {
	t.Parallel()
	const in = `{"username":"alice","password":"wonderland","remember":true}`
	for refresh, lives := range map[string]time.Duration{"2h": month, "40h": month} {
		r := rig.New(t, rig.Base+remembering+"token: {refresh_lifetime: "+refresh+", delivery: cookie}\n")
		for _, query := range []string{"", "?mechanism=bearer"} {
			w := r.Want(200, "POST", "/login"+query, in, rig.JSON)
			if got := rig.MaxAge(t, w, "refresh_token"); got != lives {
				t.Errorf("the refresh token lives for %v, want %v", got, lives)
			}
			jar := rig.JarOf(w)
			for range 3 {
				r.Clock.Advance(lives/3 - time.Minute)
				w = r.Want(200, "POST", "/refresh", "", jar.Line("refresh_token"))
				jar.Take(w)
				if got, left := rig.MaxAge(t, w, "refresh_token"), lives; got >= left {
					t.Errorf("a refresh makes the login longer: %v", got)
				}
				r.Want(200, "GET", "/bearer/", "", jar.Line("access_token"))
			}
			r.Clock.Advance(3 * time.Minute)
			r.Want(401, "POST", "/refresh", "", jar.Line("refresh_token"))
			r.Want(401, "GET", "/bearer/", "", jar.Line("access_token"))
		}
		if got := rig.MaxAge(t, r.Want(200, "POST", "/login", rig.Alice, rig.JSON), "refresh_token"); got >= month {
			t.Errorf("without being remembered: %v", got)
		}
	}
	short := rig.New(t, rig.Base+"session: {lifetime: 1h, remember: 2h}\n")
	s := short.Login(in)
	short.Clock.Advance(3 * time.Hour)
	short.Want(401, "GET", "/session/", "", s.Cookie)
	short.Want(200, "POST", "/refresh", rig.RefreshBody(s.Refresh), rig.JSON)
}

// Who stays signed in stays so at all hosts.
func TestRememberedAtOtherHosts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.FiveHostsConfig+remembering)
	wiki := rig.PageOf("wiki.example.org")
	for _, remembered := range []bool{true, false} {
		p := r.Person()
		_, page := p.Visit("GET", wiki, "")
		action, fields := rig.FormOf(t, page)
		if _, ticked := fields["remember"]; ticked {
			t.Error("the page is ticked at first")
		}
		fields.Set("username", "alice")
		fields.Set("password", "wonderland")
		if remembered {
			fields.Set("remember", "true")
		}
		if at, w := p.Visit("POST", "https://gw.example"+action, fields.Encode(), rig.Form,
			"Origin: https://gw.example"); at != wiki || w.Code != 200 {
			t.Fatalf("led to %s, %d", at, w.Code)
		}
		p.Sees(wiki, "alice")
		r.Clock.Advance(2 * time.Hour)
		mail := rig.PageOf("mail.example.net")
		if !remembered {
			p.IsOut(wiki)
			p.IsOut(mail)
			continue
		}
		p.Sees(wiki, "alice")
		if got, want := rig.MaxAge(t, p.Ask("GET", p.TicketOf("mail.example.net"), ""),
			"session_id"), month-2*time.Hour; got != want {
			t.Errorf("a late session lives for %v, want %v", got, want)
		}
		r.Clock.Advance(month - 2*time.Hour - time.Second)
		p.Sees(wiki, "alice")
		p.Sees(mail, "alice")
		r.Clock.Advance(time.Second)
		p.IsOut(wiki)
		p.IsOut(mail)
	}
}

// A remembered session that is not used ends by session.idle_timeout.
func TestRememberedSessionsGetIdle(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base+"session: {lifetime: 1h, remember: 30d, idle_timeout: 2d}\n")
	cookie := rig.JarOf(r.Want(200, "POST", "/login", rig.AliceForm+"&remember=true", rig.Form)).Line("session_id")
	for range 5 {
		r.Clock.Advance(47 * time.Hour)
		r.Want(200, "GET", "/session/", "", cookie)
	}
	r.Clock.Advance(49 * time.Hour)
	r.Want(401, "GET", "/session/", "", cookie)
}

// The page offers it where it counts, in the user's language, and keeps what was chosen.
func TestRememberOnThePage(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base+remembering+"limits: {login_failures: 3}\n")
	const unticked, ticked = `<input id="remember" name="remember" type="checkbox" value="true">`, `value="true" checked>`
	for language, label := range map[string]string{"en": "Stay signed in", "de": "Angemeldet bleiben"} {
		page := r.Want(200, "GET", "/signin", "", rig.Browser, "Accept-Language: "+language).Body.String()
		if !strings.Contains(page, unticked+" "+label+"</label>") {
			t.Errorf("the page in %s does not offer it:\n%s", language, page)
		}
	}
	for i, status := range []int{401, 401, 401, 429} {
		form := url.Values{"username": {"alice"}, "password": {"wrong"}}
		if i != 1 {
			form.Set("remember", "true")
		}
		page := r.Want(status, "POST", "/login", form.Encode(), rig.Form, rig.Browser).Body.String()
		if got := strings.Contains(page, ticked); got != (i != 1) {
			t.Errorf("try %d: ticked: %v", i, got)
		}
	}
	for _, place := range []string{"/signin?mechanism=oidc"} {
		if page := r.Want(200, "GET", place, "", rig.Browser).Body.String(); strings.Contains(page, "remember") {
			t.Errorf("%s offers it:\n%s", place, page)
		}
	}
	if page := rig.New(t, rig.Base).Want(200, "GET", "/signin", "", rig.Browser).Body.String(); strings.Contains(page,
		"remember") {
		t.Errorf("the page offers it without session.remember:\n%s", page)
	}
}

// A login at a provider lives for delegated.lifetime.
func TestRememberNotAtProviders(t *testing.T) {
	t.Parallel()
	r, _ := rig.Delegated(t, remembering+"delegated: {lifetime: 2h}\n")
	back := r.LeaveFrom("/login?provider=small&remember=true", "")
	w := r.Want(http.StatusFound, "GET", back.Target+"&remember=true", "", back.Cookie)
	if got := rig.MaxAge(t, w, "session"); got != 2*time.Hour {
		t.Errorf("the cookie lives for %v", got)
	}
	cookie := rig.JarOf(w).Line("session")
	r.Clock.Advance(2 * time.Hour)
	r.Want(401, "GET", "/delegated/", "", cookie)
}

// A reload with a shorter time, or none, applies to those who are signed in.
func TestRememberIsTakenBack(t *testing.T) {
	t.Parallel()
	for yaml, lives := range map[string]time.Duration{
		rig.Base + "session: {remember: 1d}\n": 24 * time.Hour, rig.Base: time.Hour,
		rig.Base + "session: {remember: 60d}\n": month,
	} {
		r := rig.New(t, rig.Base+remembering)
		cookie := rig.JarOf(r.Want(200, "POST", "/login", rig.AliceForm+"&remember=true", rig.Form)).Line("session_id")
		r.Want(200, "GET", "/session/", "", cookie)
		r.Reload(yaml)
		r.Clock.Advance(lives - time.Second)
		r.Want(200, "GET", "/session/", "", cookie)
		r.Clock.Advance(time.Second)
		r.Want(401, "GET", "/session/", "", cookie)
	}
}
