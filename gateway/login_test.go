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

// usingOnly is a configuration whose routes accept these mechanisms.
func usingOnly(t *testing.T, mechanisms ...string) string {
	t.Helper()
	head, _, _ := strings.Cut(baseConfig, "routes:")
	if len(mechanisms) == 0 {
		mechanisms = []string{"basic"}
	}
	return head + "routes:\n  - {match: /, upstream: app, auth: [" + strings.Join(mechanisms, ", ") + "]}\n"
}

// A login issues what its form and ?mechanism= ask for, if a route uses it.
func TestLoginIssues(t *testing.T) {
	t.Parallel()
	forms := map[string]struct {
		body   string
		header []string
		wanted []string
	}{
		"JSON":  {aliceIn, []string{jsonType}, []string{"session", "bearer"}},
		"Basic": {"", []string{basicHeader("alice", "wonderland")}, []string{"session"}},
		"form":  {"username=alice&password=wonderland", []string{formType}, []string{"session"}},
	}
	for _, used := range [][]string{{"session", "bearer"}, {"session"}, {"bearer"}, nil} {
		r := newRig(t, usingOnly(t, used...))
		for name, form := range forms {
			for query, want := range map[string][]string{
				"":                   form.wanted,
				"?x=y":               form.wanted,
				"?mechanism=session": {"session"},
				"?mechanism=bearer":  {"bearer"},
			} {
				want = slices.DeleteFunc(slices.Clone(want), func(m string) bool { return !slices.Contains(used, m) })
				w := r.do("POST", "/login"+query, form.body, form.header...)
				at := fmt.Sprintf("routes use %v: %s %s", used, name, query)
				if len(want) == 0 {
					if w.Code != 400 || w.Header()["Set-Cookie"] != nil {
						t.Errorf("%s: %d %q, want 400", at, w.Code, w.Header()["Set-Cookie"])
					}
					continue
				}
				checkIssued(t, r, w, at, want)
			}
			for _, query := range []string{
				"?mechanism=", "?mechanism=basic", "?mechanism=oidc", "?mechanism=none", "?mechanism=Session", "?mechanism=x",
				"?mechanism=session&mechanism=bearer", "?mechanism=session&mechanism=session", "?mechanism=%zz", "?a;b",
			} {
				if w := r.do("POST", "/login"+query, form.body, form.header...); w.Code != 400 || w.Header()["Set-Cookie"] != nil {
					t.Errorf("%s %s: %d, want 400", name, query, w.Code)
				}
			}
		}
	}
}

func checkIssued(t *testing.T, r *rig, w *httptest.ResponseRecorder, at string, want []string) {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != 200 || body["message"] != "Signed in." {
		t.Errorf("%s: %d %s", at, w.Code, w.Body)
		return
	}
	var got []string
	s := readLogin(t, w)
	if s.cookie != "" {
		got = append(got, "session")
		if w := r.do("GET", "/me", "", s.cookie); w.Code != 200 || !strings.Contains(w.Body.String(), `"mechanism":"session"`) {
			t.Errorf("%s: the session opens %d", at, w.Code)
		}
	}
	if s.access != "" {
		got = append(got, "bearer")
		if w := r.do("GET", "/me", "", s.bearer); w.Code != 200 || !strings.Contains(w.Body.String(), `"mechanism":"bearer"`) {
			t.Errorf("%s: the token opens %d", at, w.Code)
		}
		if s.refresh == "" || body["token_type"] != "Bearer" || body["expires_in"] != 900.0 {
			t.Errorf("%s: %s", at, w.Body)
		}
	} else if len(body) != 1 {
		t.Errorf("%s: without tokens the body says %s", at, w.Body)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: issued %v, want %v", at, got, want)
	}
}

// If cookies deliver the tokens, the body has no token. The attributes of each cookie
// fit what it carries.
func TestLoginCookies(t *testing.T) {
	t.Parallel()
	for sameSite, want := range map[string]string{"lax": "Lax", "strict": "Strict", "none": "None"} {
		for _, prefix := range []string{"/", "/auth/"} {
			r := newRig(t, cookieDelivery+"session: {same_site: "+sameSite+"}\nendpoints: {prefix: "+prefix+"}\n")
			w := r.do("POST", prefix+"login", aliceIn, jsonType)
			if got, want := strings.TrimSpace(w.Body.String()), `{"message":"Signed in.","token_type":"Bearer","expires_in":900}`; got != want {
				t.Errorf("the body is %s, want %s", got, want)
			}
			attributes := map[string]string{
				"session_id":    "Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=" + want,
				"access_token":  "Path=/; Max-Age=900; HttpOnly; Secure; SameSite=" + want,
				"refresh_token": "Path=" + prefix + "; Max-Age=604800; HttpOnly; Secure; SameSite=Strict",
			}
			checkCookies(t, w, attributes, false)
			cookies := cookieLines(w)
			if !strings.HasPrefix(cookies["session_id"], "Cookie: session_id=") || len(cookies["session_id"]) != len("Cookie: session_id=")+43 {
				t.Errorf("the identifier does not have 256 bits: %s", cookies["session_id"])
			}

			r.clock.Advance(time.Hour - time.Minute) // what remains is shorter, but for the session
			w = r.do("POST", prefix+"refresh", "{}", jsonType, cookies["refresh_token"])
			if got, want := strings.TrimSpace(w.Body.String()), `{"message":"Refreshed.","token_type":"Bearer","expires_in":900}`; w.Code != 200 || got != want {
				t.Errorf("refresh: %d %s, want %s", w.Code, got, want)
			}
			delete(attributes, "session_id")
			attributes["refresh_token"] = strings.Replace(attributes["refresh_token"], "604800", "601260", 1)
			checkCookies(t, w, attributes, false)

			attributes["session_id"] = "Path=/; Secure; HttpOnly; SameSite=" + want
			checkCookies(t, r.do("POST", prefix+"logout", ""), attributes, true)
			checkCookies(t, r.do("GET", prefix+"logout", ""), attributes, true)
		}
	}
}

// checkCookies checks the cookies set, or cleared, and nothing else.
func checkCookies(t *testing.T, w *httptest.ResponseRecorder, attributes map[string]string, cleared bool) {
	t.Helper()
	lines := w.Header()["Set-Cookie"]
	if len(lines) != len(attributes) {
		t.Errorf("cookies %q, want %d", lines, len(attributes))
	}
	for _, line := range lines {
		cookie, err := http.ParseSetCookie(line)
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(line, "; ")
		want := attributes[cookie.Name]
		if cleared {
			path, rest, _ := strings.Cut(want, "; ")
			sameSite := rest[strings.LastIndex(rest, " ")+1:]
			want = path + "; Expires=Thu, 01 Jan 1970 00:00:01 GMT; Max-Age=0; HttpOnly; Secure; " + sameSite
		}
		if got != want || (cookie.Value == "") != cleared {
			t.Errorf("%s:\ngot  %s\nwant %s", cookie.Name, got, want)
		}
	}
}

// Each login has a new identifier, and ends the session that came with it.
func TestLoginEndsPresented(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, again := range []struct {
		body   string
		header string
	}{
		{aliceIn, jsonType}, {bobIn, jsonType}, {"username=alice&password=wonderland", formType}, {"", basicHeader("alice", "wonderland")},
	} {
		old, other := r.login(aliceIn), r.login(aliceIn)
		w := r.do("POST", "/login", again.body, again.header, old.cookie)
		if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		next := readLogin(t, w)
		if next.cookie == "" || next.cookie == old.cookie || next.cookie == other.cookie {
			t.Errorf("the identifier is not new: %q", next.cookie)
		}
		r.good(t, old, false)
		r.good(t, other, true)
	}
	// A login that fails ends nothing. An unknown identifier is ignored.
	s := r.login(aliceIn)
	if w := r.do("POST", "/login", `{"username":"alice","password":"x"}`, jsonType, s.cookie); w.Code != 401 {
		t.Errorf("%d", w.Code)
	}
	r.good(t, s, true)
	for _, cookie := range []string{"x", strings.Repeat("A", 43)} {
		if w := r.do("POST", "/login", aliceIn, jsonType, "Cookie: session_id="+cookie); w.Code != 200 {
			t.Errorf("with the cookie %s: %d", cookie, w.Code)
		}
	}
}

// The form of the sign-in page redirects a browser. A script that sends the form gets
// JSON.
func TestLoginByForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	const good, bad = "username=alice&password=wonderland&return_to=%2Fa", "username=%3Calice%3E&password=secretly&return_to=%2Fa"
	if w := r.do("POST", "/login", good, formType, browser); w.Code != 303 || w.Header().Get("Location") != "/a" || w.Header()["Set-Cookie"] == nil || w.Body.Len() > 0 {
		t.Errorf("a browser: %d to %q", w.Code, w.Header().Get("Location"))
	}
	for _, accept := range []string{"", "Accept: application/json", "Accept: */*"} {
		if w := r.do("POST", "/login", good, formType, accept); w.Code != 200 || w.Header().Get("Location") != "" || readLogin(t, w).cookie == "" {
			t.Errorf("%q: %d to %q", accept, w.Code, w.Header().Get("Location"))
		}
	}
	if w := r.do("POST", "/login", aliceIn, jsonType, browser); w.Code != 200 || w.Header().Get("Location") != "" {
		t.Errorf("JSON from a browser: %d to %q", w.Code, w.Header().Get("Location"))
	}
	w := r.do("POST", "/login", bad, formType, browser)
	page := w.Body.String()
	if w.Code != 401 || w.Header()["Set-Cookie"] != nil || w.Header()["Www-Authenticate"] != nil {
		t.Errorf("wrong password: %d, cookies %q, challenges %q", w.Code, w.Header()["Set-Cookie"], w.Header()["Www-Authenticate"])
	}
	if n := sample(t, r.registry, "authgate_requests_total", "decision=challenge", "code=401"); n != 1 {
		t.Errorf("the page of a failed login is counted as %v", r.log.Last(t, "request"))
	}
	for text, there := range map[string]bool{
		"Invalid username or password.": true, `value="&lt;alice&gt;"`: true, `name="return_to" value="/a"`: true, "secretly": false, "<alice>": false,
	} {
		if strings.Contains(page, text) != there {
			t.Errorf("the page holds %q: %t", text, !there)
		}
	}
	if w := r.do("POST", "/login", bad, formType); w.Code != 401 || problemOf(t, w).Detail != "Invalid username or password." {
		t.Errorf("wrong password from a script: %d %s", w.Code, w.Body)
	}
}

// All wrong credentials get the same answer, so that it does not tell which accounts
// exist.
func TestLoginRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"limits: {login_failures: 1000}\n")
	var first *httptest.ResponseRecorder
	for _, c := range []struct{ username, password string }{
		{"alice", "x"}, {"nobody", "wonderland"}, {"Alice", "wonderland"}, {"alice", ""}, {"", "wonderland"}, {"", ""},
		{"service", "s3rvice"}, {"alice ", "wonderland"}, {"alice", "wonderland "}, {"alice", strings.Repeat("x", 5000)},
	} {
		body, err := json.Marshal(map[string]string{"username": c.username, "password": c.password})
		if err != nil {
			t.Fatal(err)
		}
		w := r.do("POST", "/login", string(body), jsonType)
		if first == nil {
			first = w
		}
		w.Header().Del("X-Request-Id")
		first.Header().Del("X-Request-Id")
		if w.Code != 401 || w.Body.String() != first.Body.String() || fmt.Sprint(w.Header()) != fmt.Sprint(first.Header()) || w.Header()["Set-Cookie"] != nil {
			t.Errorf("%q: %d %v %s", c, w.Code, w.Header(), w.Body)
		}
		w = r.do("POST", "/login", "", basicHeader(c.username, c.password))
		if w.Code != 401 || w.Header().Get("Www-Authenticate") != `Basic realm="authgate", charset="UTF-8"` {
			t.Errorf("%q by Basic: %d %q", c, w.Code, w.Header()["Www-Authenticate"])
		}
	}
	if got := sample(t, r.registry, "authgate_logins_total", "result=success"); got != 0 {
		t.Errorf("%v logins succeeded", got)
	}
	if got := sample(t, r.registry, "authgate_logins_total", "mechanism=session", "result=failure"); got != 20 {
		t.Errorf("%v failures were counted", got)
	}
}

// Malformed logins are refused.
func TestLoginMalformed(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, c := range []struct {
		name, body string
		header     []string
		want       int
	}{
		{"nothing", "", nil, 401},
		{"no media type", aliceIn, nil, 415},
		{"text", aliceIn, []string{"Content-Type: text/plain"}, 415},
		{"XML", "<login/>", []string{"Content-Type: application/xml"}, 415},
		{"multipart", "x", []string{"Content-Type: multipart/form-data; boundary=x"}, 415},
		{"JSON in another character set", aliceIn, []string{"Content-Type: application/json; charset=utf-16"}, 415},
		{"JSON in UTF-8", aliceIn, []string{"Content-Type: Application/JSON; charset=UTF-8"}, 200},
		{"a broken media type", aliceIn, []string{"Content-Type: application/json; ="}, 415},
		{"empty JSON", "", []string{jsonType}, 400},
		{"an array", "[" + aliceIn + "]", []string{jsonType}, 400},
		{"null", "null", []string{jsonType}, 400},
		{"a string", `"alice"`, []string{jsonType}, 400},
		{"cut off", aliceIn[:len(aliceIn)-1], []string{jsonType}, 400},
		{"two objects", aliceIn + aliceIn, []string{jsonType}, 400},
		{"no password", `{"username":"alice"}`, []string{jsonType}, 400},
		{"no username", `{"password":"wonderland"}`, []string{jsonType}, 400},
		{"names in another case", `{"Username":"alice","Password":"wonderland"}`, []string{jsonType}, 400},
		{"a number", `{"username":"alice","password":1}`, []string{jsonType}, 400},
		{"a null", `{"username":"alice","password":null}`, []string{jsonType}, 400},
		{"an object", `{"username":"alice","password":{}}`, []string{jsonType}, 400},
		{"twice", `{"username":"bob","username":"alice","password":"wonderland"}`, []string{jsonType}, 400},
		{"twice, deeper", `{"username":"alice","password":"wonderland","x":{"a":1,"a":2}}`, []string{jsonType}, 400},
		{"something else besides", `{"username":"alice","password":"wonderland","x":[1]}`, []string{jsonType}, 200},
		{"invalid UTF-8", "{\"username\":\"alice\",\"password\":\"\xff\"}", []string{jsonType}, 400},
		{"a form without password", "username=alice", []string{formType}, 400},
		{"a form with two", "username=alice&password=wonderland&password=x", []string{formType}, 400},
		{"a form of invalid UTF-8", "username=alice&password=%ff", []string{formType}, 400},
		{"a broken form", "username=alice&password=%", []string{formType}, 400},
		{"a form with empty fields", "username=&password=", []string{formType}, 401},
		{"broken base64", "", []string{"Authorization: Basic ###"}, 401},
		{"no colon", "", []string{"Authorization: Basic YWxpY2U="}, 401},
		{"Basic, whatever the body", "{", []string{basicHeader("alice", "wonderland"), jsonType}, 200},
		{"another scheme, with a body", aliceIn, []string{"Authorization: Bearer x", jsonType}, 200},
		{"two headers", "", []string{basicHeader("alice", "wonderland"), basicHeader("alice", "wonderland")}, 400},
		{"two sessions", aliceIn, []string{jsonType, "Cookie: session_id=a; session_id=b"}, 400},
	} {
		w := r.do("POST", "/login", c.body, c.header...)
		if w.Code != c.want || (w.Header()["Set-Cookie"] != nil) != (c.want == 200) {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.want)
		}
	}
}

// Failures on routes and at /login count together. Existing sessions go on.
func TestLoginThrottled(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"limits: {login_failures: 4, login_window: 1m}\n")
	s := r.login(aliceIn)
	for range 2 {
		for _, w := range []*httptest.ResponseRecorder{
			r.do("POST", "/login", `{"username":"alice","password":"x"}`, jsonType),
			r.do("GET", "/basic/", "", basicHeader("ALICE ", "x")),
		} {
			if w.Code != 401 {
				t.Fatalf("a failure within the limit: %d", w.Code)
			}
		}
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"the right password":  r.do("POST", "/login", aliceIn, jsonType),
		"another user's":      r.do("POST", "/login", bobIn, jsonType), // from the same address
		"a shared credential": r.do("GET", "/basic/", "", basicHeader("service", "s3rvice")),
		"a form in a browser": r.do("POST", "/login", "username=alice&password=wonderland", formType, browser),
		"the wrong password":  r.do("POST", "/login", `{"username":"alice","password":"x"}`, jsonType),
	} {
		if w.Code != 429 || w.Header().Get("Retry-After") != "60" || w.Header()["Set-Cookie"] != nil {
			t.Errorf("%s: %d, Retry-After %q", name, w.Code, w.Header().Get("Retry-After"))
		}
	}
	r.good(t, s, true)
	if got := sample(t, r.registry, "authgate_logins_total", "result=throttled"); got != 5 {
		t.Errorf("%v throttled logins were counted", got)
	}
	r.clock.Advance(time.Minute)
	if w := r.do("POST", "/login", aliceIn, jsonType); w.Code != 200 {
		t.Errorf("after the window: %d", w.Code)
	}
}
