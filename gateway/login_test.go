package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

const aliceForm = "username=alice&password=wonderland"

// issued returns the mechanisms whose credentials a login has issued, each of which
// must open /me.
func (r *rig) issued(w *httptest.ResponseRecorder) string {
	r.t.Helper()
	s := readLogin(r.t, w)
	body, end := strings.TrimSpace(w.Body.String()), `,"token_type":"Bearer","expires_in":900}`
	if s.access == "" {
		end = `{"message":"Signed in."}`
	}
	if !strings.HasSuffix(body, end) || (s.access == "") != (s.refresh == "") {
		r.t.Errorf("the login says %s", body)
	}
	var all []string
	for _, c := range []struct{ mechanism, credential, header string }{{"session", s.cookie, s.cookie}, {"bearer", s.access, s.bearer}} {
		if c.credential == "" {
			continue
		}
		all = append(all, c.mechanism)
		if me := r.want(200, "GET", "/me", "", c.header); !strings.Contains(me.Body.String(), `"mechanism":"`+c.mechanism+`"`) {
			r.t.Errorf("the %s opens %s", c.mechanism, me.Body)
		}
	}
	return strings.Join(all, " ")
}

// A login issues what its form and ?mechanism= ask for, if a route uses it.
func TestLoginIssues(t *testing.T) {
	t.Parallel()
	head, _, _ := strings.Cut(baseConfig, "routes:")
	for _, used := range []string{"session, bearer", "session", "bearer", "basic"} {
		r := newRig(t, head+"routes:\n  - {match: /, upstream: app, auth: ["+used+"]}\n")
		for _, form := range []struct{ body, header, wanted string }{
			{aliceIn, jsonType, "session bearer"}, {"", basicHeader("alice", "wonderland"), "session"}, {aliceForm, formType, "session"},
		} {
			for query, wanted := range map[string]string{"": form.wanted, "?x=y": form.wanted, "?mechanism=session": "session", "?mechanism=bearer": "bearer"} {
				want := strings.Join(slices.DeleteFunc(strings.Fields(wanted), func(m string) bool { return !strings.Contains(used, m) }), " ")
				if want == "" {
					r.want(400, "POST", "/login"+query, form.body, form.header)
				} else if got := r.issued(r.want(200, "POST", "/login"+query, form.body, form.header)); got != want {
					t.Errorf("routes use %s: %s with %s issues %s, want %s", used, query, form.header, got, want)
				}
			}
		}
		for _, query := range []string{
			"mechanism=", "mechanism=basic", "mechanism=oidc", "mechanism=Session", "mechanism=session&mechanism=bearer", "mechanism=session&mechanism=session", "mechanism=%zz", "a;b",
		} {
			if w := r.want(400, "POST", "/login?"+query, aliceIn, jsonType); w.Header()["Set-Cookie"] != nil {
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
	for _, c := range []struct{ sameSite, prefix, attribute string }{{"lax", "/", "Lax"}, {"strict", "/auth/", "Strict"}, {"none", "/auth/", "None"}} {
		r := newRig(t, cookieDelivery+"session: {same_site: "+c.sameSite+"}\nendpoints: {prefix: "+c.prefix+"}\n")
		cookie := func(pair, life string) string {
			path, sameSite := "/", c.attribute
			if strings.HasPrefix(pair, "refresh_token") {
				path, sameSite = c.prefix, "Strict"
			}
			return pair + "; Path=" + path + "; " + life + "; HttpOnly; Secure; SameSite=" + sameSite
		}
		lives := func(seconds int) string {
			expires := r.clock.Now().Add(time.Duration(seconds) * time.Second).UTC().Format(http.TimeFormat)
			return fmt.Sprintf("Expires=%s; Max-Age=%d", expires, seconds)
		}
		cleared := []string{cookie("access_token=", gone), cookie("refresh_token=", gone), cookie("session_id=", gone)}
		check := func(w *httptest.ResponseRecorder, body string, want ...string) {
			t.Helper()
			if got := ownCookies(w); !slices.Equal(got, want) || strings.TrimSpace(w.Body.String()) != body {
				t.Errorf("the body is %s, the cookies are %q;\nwant %s, %q", w.Body, got, body, want)
			}
		}
		w := r.want(200, "POST", c.prefix+"login", aliceIn, jsonType)
		check(w, `{"message":"Signed in.","token_type":"Bearer","expires_in":900}`, cookie("access_token=x", lives(900)), cookie("refresh_token=x", lives(604800)), cookie("session_id=x", lives(3600)))
		jar := jarOf(w)
		if len(jar["session_id"]) != 43 {
			t.Errorf("the identifier does not have 256 bits: %s", jar["session_id"])
		}
		r.clock.Advance(time.Hour - time.Minute) // what remains is shorter, but for the session
		w = r.want(200, "POST", c.prefix+"refresh", "{}", jsonType, jar.line("refresh_token"))
		check(w, `{"message":"Refreshed.","token_type":"Bearer","expires_in":900}`, cookie("access_token=x", lives(900)), cookie("refresh_token=x", lives(601260)))
		check(r.want(200, "POST", c.prefix+"logout", ""), `{"message":"Signed out."}`, cleared...)
		check(r.want(302, "GET", c.prefix+"logout", ""), "", cleared...)
	}
}

// Each login has a new identifier, and ends the session that came with it. A login that
// fails ends nothing. An unknown identifier is ignored.
func TestLoginEndsPresented(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	other := r.login(aliceIn)
	for body, header := range map[string]string{aliceIn: jsonType, bobIn: jsonType, aliceForm: formType} {
		old := r.login(aliceIn)
		next := readLogin(t, r.want(200, "POST", "/login", body, header, old.cookie))
		if next.cookie == "" || next.cookie == old.cookie || next.cookie == other.cookie {
			t.Errorf("the identifier is not new: %q", next.cookie)
		}
		r.good(old, false)
	}
	r.want(401, "POST", "/login", `{"username":"alice","password":"x"}`, jsonType, other.cookie)
	r.good(other, true)
	r.want(200, "POST", "/login", aliceIn, jsonType, "Cookie: session_id="+strings.Repeat("A", 43))
}

// The form of the sign-in page redirects a browser. A script that sends the form gets
// JSON.
func TestLoginByForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	const good, bad = aliceForm + "&return_to=%2Fa", "username=%3Calice%3E&password=secretly&return_to=%2Fa"
	if w := r.want(303, "POST", "/login", good, formType, browser); w.Header().Get("Location") != "/a" || w.Header()["Set-Cookie"] == nil || w.Body.Len() > 0 {
		t.Errorf("a browser: %v %s", w.Header(), w.Body)
	}
	for accept, form := range map[string]struct{ body, media string }{"Accept: */*": {good, formType}, "Accept: application/json": {good, formType}, browser: {aliceIn, jsonType}} {
		if w := r.want(200, "POST", "/login", form.body, form.media, accept); w.Header().Get("Location") != "" || readLogin(t, w).cookie == "" {
			t.Errorf("%q: %v", accept, w.Header())
		}
	}
	w := r.want(401, "POST", "/login", bad, formType, browser)
	if w.Header()["Set-Cookie"] != nil || w.Header()["Www-Authenticate"] != nil {
		t.Errorf("wrong password: %v", w.Header())
	}
	if n := r.sample("authgate_requests_total", "decision=challenge", "code=401"); n != 1 {
		t.Errorf("the page of a failed login is counted as %v", r.log.Last(t, "request"))
	}
	for text, there := range map[string]bool{
		"Invalid username or password.": true, `value="&lt;alice&gt;"`: true, `name="return_to" value="/a"`: true, "secretly": false, "<alice>": false,
	} {
		if strings.Contains(w.Body.String(), text) != there {
			t.Errorf("the page holds %q: %t", text, !there)
		}
	}
	if w := r.want(401, "POST", "/login", bad, formType); detailOf(t, w) != "Invalid username or password." {
		t.Errorf("wrong password from a script: %s", w.Body)
	}
}

// All wrong credentials get the same answer, so that it does not tell which accounts
// exist.
func TestLoginRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"limits: {login_failures: 1000}\n")
	answers := map[string]bool{}
	for _, c := range [][2]string{
		{"alice", "x"}, {"stranger", "wonderland"}, {"Alice", "wonderland"}, {"alice", ""}, {"", "wonderland"},
		{"service", "s3rvice"}, {"al ice", "wonderland"}, {"alice", "wonderland "}, {"alice", strings.Repeat("x", 5000)},
	} {
		body, err := json.Marshal(map[string]string{"username": c[0], "password": c[1]})
		if err != nil {
			t.Fatal(err)
		}
		w := r.want(401, "POST", "/login", string(body), jsonType)
		w.Header().Del("X-Request-Id")
		answers[fmt.Sprint(w.Header(), w.Body)] = true
		if w := r.want(401, "POST", "/login", "", basicHeader(c[0], c[1])); w.Header().Get("Www-Authenticate") != `Basic realm="authgate", charset="UTF-8"` {
			t.Errorf("%q by Basic: %q", c, w.Header()["Www-Authenticate"])
		}
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ: %v", answers)
	}
	if got := r.sample("authgate_logins_total", "mechanism=session", "result=failure"); got != 18 || r.sample("authgate_logins_total") != got {
		t.Errorf("%v failures were counted", got)
	}
}

// Malformed logins are refused.
func TestLoginMalformed(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	basic := basicHeader("alice", "wonderland")
	for _, c := range []struct {
		body   string
		header []string
		want   int
	}{
		{"", nil, 401},
		{aliceIn, nil, 415},
		{aliceIn, []string{"Content-Type: text/plain"}, 415},
		{aliceIn, []string{"Content-Type: application/json; charset=utf-16"}, 415},
		{aliceIn, []string{"Content-Type: Application/JSON; charset=UTF-8"}, 200},
		{aliceIn, []string{"Content-Type: application/json; ="}, 415},
		{"", []string{jsonType}, 400},
		{"[" + aliceIn + "]", []string{jsonType}, 400},
		{"null", []string{jsonType}, 400},
		{aliceIn[:len(aliceIn)-1], []string{jsonType}, 400},
		{aliceIn + aliceIn, []string{jsonType}, 400},
		{`{"username":"alice"}`, []string{jsonType}, 400},
		{`{"password":"wonderland"}`, []string{jsonType}, 400},
		{`{"Username":"alice","Password":"wonderland"}`, []string{jsonType}, 400},
		{`{"username":"alice","password":1}`, []string{jsonType}, 400},
		{`{"username":"alice","password":null}`, []string{jsonType}, 400},
		{`{"username":"bob","username":"alice","password":"wonderland"}`, []string{jsonType}, 400},
		{`{"username":"alice","password":"wonderland","x":[1]}`, []string{jsonType}, 200},
		{"{\"username\":\"alice\",\"password\":\"\xff\"}", []string{jsonType}, 400},
		{"username=alice", []string{formType}, 400},
		{aliceForm + "&password=x", []string{formType}, 400},
		{"username=alice&password=%ff", []string{formType}, 400},
		{"username=alice&password=%", []string{formType}, 400},
		{"username=&password=", []string{formType}, 401},
		{"", []string{"Authorization: Basic ###"}, 401},
		{"{", []string{basic, jsonType}, 200}, // with Basic the body does not count
		{aliceIn, []string{"Authorization: Bearer x", jsonType}, 200},
		{"", []string{basic, basic}, 400},
		{aliceIn, []string{jsonType, "Cookie: session_id=a; session_id=b"}, 400},
	} {
		if w := r.want(c.want, "POST", "/login", c.body, c.header...); (w.Header()["Set-Cookie"] != nil) != (c.want == 200) {
			t.Errorf("%s with %q sets %q", c.body, c.header, w.Header()["Set-Cookie"])
		}
	}
}

// Failures on routes and at /login count together, under the limits of the configuration
// that runs. Existing sessions go on.
func TestLoginThrottled(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	r.mustReload(baseConfig + "limits: {login_failures: 4, login_window: 1m}\n")
	s := r.login(aliceIn)
	for range 2 {
		r.want(401, "POST", "/login", `{"username":"alice","password":"x"}`, jsonType)
		r.want(401, "GET", "/basic/", "", basicHeader("ALICE ", "x"))
	}
	for _, w := range []*httptest.ResponseRecorder{
		r.want(429, "POST", "/login", aliceIn, jsonType),
		r.want(429, "POST", "/login", bobIn, jsonType), // from the same address
		r.want(429, "GET", "/basic/", "", basicHeader("service", "s3rvice")),
		r.want(429, "POST", "/login", aliceForm, formType, browser),
	} {
		if w.Header().Get("Retry-After") != "60" || w.Header()["Set-Cookie"] != nil {
			t.Errorf("a throttled login: %v", w.Header())
		}
	}
	r.good(s, true)
	if got := r.sample("authgate_logins_total", "result=throttled"); got != 4 {
		t.Errorf("%v throttled logins were counted", got)
	}
	r.clock.Advance(time.Minute)
	r.want(200, "POST", "/login", aliceIn, jsonType)
}
