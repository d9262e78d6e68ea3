package signin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// issued returns the mechanisms whose credentials a login has issued, each of which
// must open /me.
func issued(r *rig.Rig, w *httptest.ResponseRecorder) string {
	r.T.Helper()
	s := rig.ReadLogin(r.T, w)
	body, end := strings.TrimSpace(w.Body.String()), `,"token_type":"Bearer","expires_in":900}`
	if s.Access == "" {
		end = `{"message":"Signed in."}`
	}
	if !strings.HasSuffix(body, end) || (s.Access == "") != (s.Refresh == "") {
		r.T.Errorf("the login says %s", body)
	}
	var all []string
	for _, c := range []struct{ mechanism, credential, header string }{{"session", s.Cookie, s.Cookie},
		{"bearer", s.Access, s.Bearer}} {
		if c.credential == "" {
			continue
		}
		all = append(all, c.mechanism)
		if me := r.Want(200, "GET", "/me", "", c.header); !strings.Contains(me.Body.String(),
			`"mechanism":"`+c.mechanism+`"`) {
			r.T.Errorf("the %s opens %s", c.mechanism, me.Body)
		}
	}
	return strings.Join(all, " ")
}

// A login issues what its form and ?mechanism= ask for, if a route uses it.
func TestLoginIssues(t *testing.T) {
	t.Parallel()
	head, _, _ := strings.Cut(rig.Base, "routes:")
	for _, used := range []string{"session, bearer", "session", "bearer", "basic"} {
		r := rig.New(t, head+"routes:\n  - {match: /, upstream: app, auth: ["+used+"]}\n")
		for _, form := range []struct{ body, header, wanted string }{
			{rig.Alice, rig.JSON, "session bearer"}, {"", rig.Basic("alice", "wonderland"), "session"},
			{rig.AliceForm, rig.Form, "session"},
		} {
			for query, wanted := range map[string]string{"": form.wanted, "?x=y": form.wanted, "?mechanism=session": "session",
				"?mechanism=bearer": "bearer"} {
				want := strings.Join(slices.DeleteFunc(strings.Fields(wanted),
					func(m string) bool { return !strings.Contains(used, m) }), " ")
				if want == "" {
					r.Want(400, "POST", "/login"+query, form.body, form.header)
				} else if got := issued(r, r.Want(200, "POST", "/login"+query, form.body, form.header)); got != want {
					t.Errorf("routes use %s: %s with %s issues %s, want %s", used, query, form.header, got, want)
				}
			}
		}
		for _, query := range []string{
			"mechanism=", "mechanism=basic", "mechanism=oidc", "mechanism=Session", "mechanism=session&mechanism=bearer",
			"mechanism=session&mechanism=session", "mechanism=%zz", "a;b",
		} {
			if w := r.Want(400, "POST", "/login?"+query, rig.Alice, rig.JSON); w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s sets %q", query, w.Header()["Set-Cookie"])
			}
		}
	}
}

// ownCookies returns the cookies that an answer sets, sorted, with x for the values.
func ownCookies(w *httptest.ResponseRecorder) []string {
	var all []string
	for _, line := range w.Result().Header["Set-Cookie"] {
		name, rest, _ := strings.Cut(line, "=")
		if value, attributes, _ := strings.Cut(rest, ";"); value != "" {
			rest = "x;" + attributes
		}
		all = append(all, name+"="+rest)
	}
	slices.Sort(all)
	return all
}

// If cookies deliver the tokens, the body has no token. The attributes of each cookie
// fit what it carries.
func TestLoginCookies(t *testing.T) {
	t.Parallel()
	const gone = "Expires=Thu, 01 Jan 1970 00:00:01 GMT; Max-Age=0"
	for _, c := range []struct{ sameSite, prefix, attribute string }{{"lax", "/", "Lax"}, {"strict", "/auth/", "Strict"},
		{"none", "/auth/", "None"}} {
		r := rig.New(t, rig.CookieDelivery+"session: {same_site: "+c.sameSite+"}\nendpoints: {prefix: "+c.prefix+"}\n")
		cookie := func(pair, life string) string {
			path, sameSite := "/", c.attribute
			switch name, _, _ := strings.Cut(pair, "="); name {
			case "refresh_token":
				path, sameSite = c.prefix, "Strict"
			case "authgate_ended":
				sameSite = "Lax"
			}
			return pair + "; Path=" + path + "; " + life + "; HttpOnly; Secure; SameSite=" + sameSite
		}
		lives := func(seconds int) string {
			expires := r.Clock.Now().Add(time.Duration(seconds) * time.Second).UTC().Format(http.TimeFormat)
			return fmt.Sprintf("Expires=%s; Max-Age=%d", expires, seconds)
		}
		cleared := []string{cookie("access_token=", gone), cookie("authgate_ended=", gone), cookie("refresh_token=", gone),
			cookie("session_id=", gone)}
		check := func(w *httptest.ResponseRecorder, body string, want ...string) {
			t.Helper()
			if got := ownCookies(w); !slices.Equal(got, want) || strings.TrimSpace(w.Body.String()) != body {
				t.Errorf("the body is %s, the cookies are %q;\nwant %s, %q", w.Body, got, body, want)
			}
		}
		w := r.Want(200, "POST", c.prefix+"login", rig.Alice, rig.JSON)
		check(w, `{"message":"Signed in.","token_type":"Bearer","expires_in":900}`, cookie("access_token=x", lives(900)),
			cookie("authgate_ended=x", lives(3600+86400)), cookie("refresh_token=x", lives(604800)),
			cookie("session_id=x", lives(3600)))
		jar := rig.JarOf(w)
		if len(jar["session_id"]) != 43 {
			t.Errorf("the identifier does not have 256 bits: %s", jar["session_id"])
		}
		r.Clock.Advance(time.Hour - time.Minute) // what remains is shorter, but for the session
		w = r.Want(200, "POST", c.prefix+"refresh", "{}", rig.JSON, jar.Line("refresh_token"))
		check(w, `{"message":"Refreshed.","token_type":"Bearer","expires_in":900}`, cookie("access_token=x", lives(900)),
			cookie("refresh_token=x", lives(601260)))
		check(r.Want(200, "POST", c.prefix+"logout", ""), `{"message":"Signed out."}`, cleared...)
		check(r.Want(302, "GET", c.prefix+"logout", ""), "", cleared...)
	}
}

// Each login has a new identifier, and ends the session that came with it. A login that
// fails ends nothing. An unknown identifier is ignored.
func TestLoginEndsPresented(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	other := r.Login(rig.Alice)
	for body, header := range map[string]string{rig.Alice: rig.JSON, rig.Bob: rig.JSON, rig.AliceForm: rig.Form} {
		old := r.Login(rig.Alice)
		next := rig.ReadLogin(t, r.Want(200, "POST", "/login", body, header, old.Cookie))
		if next.Cookie == "" || next.Cookie == old.Cookie || next.Cookie == other.Cookie {
			t.Errorf("the identifier is not new: %q", next.Cookie)
		}
		r.Good(old, false)
	}
	r.Want(401, "POST", "/login", `{"username":"alice","password":"x"}`, rig.JSON, other.Cookie)
	r.Good(other, true)
	r.Want(200, "POST", "/login", rig.Alice, rig.JSON, "Cookie: session_id="+strings.Repeat("A", 43))
}

// The form of the sign-in page redirects a browser. A script that sends the form gets
// JSON.
func TestLoginByForm(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	const good, bad = rig.AliceForm + "&return_to=%2Fa", "username=%3Calice%3E&password=secretly&return_to=%2Fa"
	if w := r.Want(303, "POST", "/login", good, rig.Form, rig.Browser); w.Header().Get("Location") != "/a" ||
		w.Header()["Set-Cookie"] == nil || w.Body.Len() > 0 {
		t.Errorf("a browser: %v %s", w.Header(), w.Body)
	}
	for accept, form := range map[string]struct{ body, media string }{"Accept: */*": {good, rig.Form},
		"Accept: application/json": {good, rig.Form}, rig.Browser: {rig.Alice, rig.JSON}} {
		if w := r.Want(200, "POST", "/login", form.body, form.media, accept); w.Header().Get("Location") != "" ||
			rig.ReadLogin(t, w).Cookie == "" {
			t.Errorf("%q: %v", accept, w.Header())
		}
	}
	w := r.Want(401, "POST", "/login", bad, rig.Form, rig.Browser)
	if w.Header()["Set-Cookie"] != nil || w.Header()["Www-Authenticate"] != nil {
		t.Errorf("wrong password: %v", w.Header())
	}
	if n := r.Sample("authgate_requests_total", "decision=challenge", "code=401"); n != 1 {
		t.Errorf("the page of a failed login is counted as %v", r.Log.Last(t, "request"))
	}
	for text, there := range map[string]bool{
		"Invalid username or password.": true, `value="&lt;alice&gt;"`: true, `name="return_to" value="/a"`: true,
		"secretly": false, "<alice>": false,
	} {
		if strings.Contains(w.Body.String(), text) != there {
			t.Errorf("the page holds %q: %t", text, !there)
		}
	}
	if w := r.Want(401, "POST", "/login", bad, rig.Form); rig.DetailOf(t, w) != "Invalid username or password." {
		t.Errorf("wrong password from a script: %s", w.Body)
	}
}

// All wrong credentials get the same answer, so that it does not tell which accounts
// exist.
func TestLoginRefuses(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base+"limits: {login_failures: 1000}\n")
	answers := map[string]bool{}
	for _, c := range [][2]string{
		{"alice", "x"}, {"stranger", "wonderland"}, {"Alice", "wonderland"}, {"alice", ""}, {"", "wonderland"},
		{"service", "s3rvice"}, {"al ice", "wonderland"}, {"alice", "wonderland "}, {"alice", strings.Repeat("x", 5000)},
	} {
		body, err := json.Marshal(map[string]string{"username": c[0], "password": c[1]})
		if err != nil {
			t.Fatal(err)
		}
		w := r.Want(401, "POST", "/login", string(body), rig.JSON)
		w.Header().Del("X-Request-Id")
		answers[fmt.Sprint(w.Header(), w.Body)] = true
		if w := r.Want(401, "POST", "/login", "",
			rig.Basic(c[0], c[1])); w.Header().Get("Www-Authenticate") != `Basic realm="authgate", charset="UTF-8"` {
			t.Errorf("%q by Basic: %q", c, w.Header()["Www-Authenticate"])
		}
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ: %v", answers)
	}
	if got := r.Sample("authgate_logins_total", "mechanism=session", "result=failure"); got != 18 ||
		r.Sample("authgate_logins_total") != got {
		t.Errorf("%v failures were counted", got)
	}
}

// Malformed logins are refused.
func TestLoginMalformed(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	basic := rig.Basic("alice", "wonderland")
	for _, c := range []struct {
		body   string
		header []string
		want   int
	}{
		{"", nil, 401},
		{rig.Alice, nil, 415},
		{rig.Alice, []string{"Content-Type: text/plain"}, 415},
		{rig.Alice, []string{"Content-Type: application/json; charset=utf-16"}, 415},
		{rig.Alice, []string{"Content-Type: Application/JSON; charset=UTF-8"}, 200},
		{rig.Alice, []string{"Content-Type: application/json; ="}, 415},
		{"", []string{rig.JSON}, 400},
		{"[" + rig.Alice + "]", []string{rig.JSON}, 400},
		{"null", []string{rig.JSON}, 400},
		{rig.Alice[:len(rig.Alice)-1], []string{rig.JSON}, 400},
		{rig.Alice + rig.Alice, []string{rig.JSON}, 400},
		{`{"username":"alice"}`, []string{rig.JSON}, 400},
		{`{"password":"wonderland"}`, []string{rig.JSON}, 400},
		{`{"Username":"alice","Password":"wonderland"}`, []string{rig.JSON}, 400},
		{`{"username":"alice","password":1}`, []string{rig.JSON}, 400},
		{`{"username":"alice","password":null}`, []string{rig.JSON}, 400},
		{`{"username":"bob","username":"alice","password":"wonderland"}`, []string{rig.JSON}, 400},
		{`{"username":"alice","password":"wonderland","x":[1]}`, []string{rig.JSON}, 200},
		{"{\"username\":\"alice\",\"password\":\"\xff\"}", []string{rig.JSON}, 400},
		{"username=alice", []string{rig.Form}, 400},
		{rig.AliceForm + "&password=x", []string{rig.Form}, 400},
		{"username=alice&password=%ff", []string{rig.Form}, 400},
		{"username=alice&password=%", []string{rig.Form}, 400},
		{"username=&password=", []string{rig.Form}, 401},
		{"", []string{"Authorization: Basic ###"}, 401},
		{"{", []string{basic, rig.JSON}, 200}, // with Basic the body does not count
		{rig.Alice, []string{"Authorization: Bearer x", rig.JSON}, 200},
		{"", []string{basic, basic}, 400},
		{rig.Alice, []string{rig.JSON, "Cookie: session_id=a; session_id=b"}, 400},
	} {
		if w := r.Want(c.want, "POST", "/login", c.body, c.header...); (w.Header()["Set-Cookie"] != nil) != (c.want == 200) {
			t.Errorf("%s with %q sets %q", c.body, c.header, w.Header()["Set-Cookie"])
		}
	}
}

// After a user signs in as another user, the browser has the new identity alone,
// also if it had other cookies before.
func TestOneIdentityAfterSignIn(t *testing.T) {
	t.Parallel()
	logins := []string{"/login?mechanism=bearer", "/login?mechanism=session", "/login"}
	for _, before := range logins {
		for _, after := range logins {
			r := rig.New(t, rig.CookieDelivery)
			jar := rig.JarOf(r.Want(200, "POST", before, rig.Alice, rig.JSON))
			stale := jar["refresh_token"]
			jar.Take(r.Want(200, "POST", after, rig.Bob, rig.JSON, jar.Line()))
			r.Want(200, "GET", "/any/", "", jar.Line())
			if got := r.LastUser(); got != "bob" {
				t.Errorf("%s, then %s: as %q", before, after, got)
			}
			r.Want(401, "POST", "/refresh", "", "Cookie: refresh_token="+stale)
		}
	}
}
