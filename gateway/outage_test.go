package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// outages are how a store may fail during a request: in one operation, or from one
// operation on.
var outages = map[string]func(n int64) func(string, int64, string) bool{
	"once": func(n int64) func(string, int64, string) bool {
		return func(_ string, call int64, _ string) bool { return call == n }
	},
	"from then": func(n int64) func(string, int64, string) bool {
		return func(_ string, call int64, _ string) bool { return call >= n }
	},
}

// interrupted is a request that needs the store.
type interrupted struct {
	name    string
	status  int // while the store works
	request func(signedIn) *http.Request
	// done checks what must hold after the usual answer, and undone what must hold
	// after a 503. The store works again by then.
	done, undone func(*testing.T, *rig, signedIn, *httptest.ResponseRecorder)
}

const cookieDelivery = baseConfig + "token: {delivery: cookie}\n"

// good checks that the credentials of s open everything, or nothing.
func (r *rig) good(t *testing.T, s signedIn, want bool) {
	t.Helper()
	for target, header := range map[string]string{"/session/": s.cookie, "/bearer/": s.bearer} {
		if w := r.do("GET", target, "", header); (w.Code == 200) != want || (w.Code == 401) == want {
			t.Errorf("GET %s afterwards: %d, want it to open: %t", target, w.Code, want)
		}
	}
	if w := r.do("POST", "/refresh", refreshBody(s.refresh), jsonType); (w.Code == 200) != want || (w.Code == 401) == want {
		t.Errorf("POST /refresh afterwards: %d, want it to open: %t", w.Code, want)
	}
}

func interruptions() []interrupted {
	still := func(t *testing.T, r *rig, s signedIn, _ *httptest.ResponseRecorder) {
		t.Helper()
		r.good(t, s, true)
	}
	ended := func(t *testing.T, r *rig, s signedIn, _ *httptest.ResponseRecorder) {
		t.Helper()
		r.good(t, s, false)
	}
	// A logout that failed can be repeated, and then everything has ended.
	again := func(make func(signedIn) *http.Request) func(*testing.T, *rig, signedIn, *httptest.ResponseRecorder) {
		return func(t *testing.T, r *rig, s signedIn, _ *httptest.ResponseRecorder) {
			t.Helper()
			w := r.serve(make(s))
			if w.Code != 200 && w.Code != 302 && w.Code != 401 {
				t.Errorf("the second logout: %d", w.Code)
			}
			r.good(t, s, false)
		}
	}
	logout := func(name string, make func(signedIn) *http.Request, status int) interrupted {
		return interrupted{name: name, status: status, request: make, done: ended, undone: again(make)}
	}
	signedInAnew := func(t *testing.T, r *rig, s signedIn, w *httptest.ResponseRecorder) {
		t.Helper()
		r.good(t, readLogin(t, w), true)
		r.good(t, s, false) // it was presented, so it has ended
	}
	return []interrupted{
		{
			name: "login", status: 200,
			request: func(s signedIn) *http.Request { return request("POST", "/login", bobIn, jsonType, s.cookie) },
			done:    signedInAnew,
			undone: func(t *testing.T, r *rig, s signedIn, _ *httptest.ResponseRecorder) {
				t.Helper()
				w := r.do("POST", "/login", bobIn, jsonType, s.cookie)
				if w.Code != 200 {
					t.Fatalf("the second login: %d %s", w.Code, w.Body)
				}
				signedInAnew(t, r, s, w)
			},
		},
		{
			name: "refresh", status: 200,
			request: func(s signedIn) *http.Request { return request("POST", "/refresh", refreshBody(s.refresh), jsonType) },
			done: func(t *testing.T, r *rig, s signedIn, w *httptest.ResponseRecorder) {
				t.Helper()
				s.refresh = readLogin(t, w).refresh
				r.good(t, s, true)
			},
			undone: still,
		},
		logout("logout by cookie", func(s signedIn) *http.Request { return request("POST", "/logout", "", s.cookie) }, 200),
		logout("logout by bearer", func(s signedIn) *http.Request { return request("POST", "/logout", "", s.bearer) }, 200),
		logout("logout by both", func(s signedIn) *http.Request { return request("POST", "/logout", "", s.bearer, s.cookie) }, 200),
		logout("logout by link", func(s signedIn) *http.Request { return request("GET", "/logout", "", s.cookie) }, 302),
		{name: "me by cookie", status: 200, request: func(s signedIn) *http.Request { return request("GET", "/me", "", s.cookie) }, done: still, undone: still},
		{name: "me by bearer", status: 200, request: func(s signedIn) *http.Request { return request("GET", "/me", "", s.bearer) }, done: still, undone: still},
		{name: "session on a route", status: 200, request: func(s signedIn) *http.Request { return request("GET", "/session/x", "", s.cookie) }, done: still, undone: still},
		{name: "bearer on a route", status: 200, request: func(s signedIn) *http.Request { return request("GET", "/bearer/x", "", s.bearer) }, done: still, undone: still},
		{name: "both on a route", status: 200, request: func(s signedIn) *http.Request { return request("GET", "/any/x", "", s.bearer, s.cookie) }, done: still, undone: still},
	}
}

// While the store fails, the answer is 503 with Retry-After, whichever
// operation fails. It is never a decision, and never confirms something that has
// not happened.
func TestStoreOutage(t *testing.T) {
	t.Parallel()
	for _, c := range interruptions() {
		for kind, outage := range outages {
			for _, warm := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/warm=%t", c.name, kind, warm), func(t *testing.T) {
					t.Parallel()
					r := newRig(t, baseConfig)
					failed := 0
					eachFailure(t, r, outage, func(broken func(*http.Request) *httptest.ResponseRecorder) {
						s := r.login(aliceIn)
						if warm {
							r.do("GET", "/any/", "", s.cookie)
							r.do("GET", "/any/", "", s.bearer)
						}
						before := r.upstream.count()
						w := broken(c.request(s))
						switch w.Code {
						case http.StatusServiceUnavailable:
							failed++
							checkUnavailable(t, r, w, r.upstream.count()-before)
							c.undone(t, r, s, w)
						case c.status:
							c.done(t, r, s, w)
						default:
							t.Errorf("%d %s, want 503 or %d", w.Code, w.Body, c.status)
						}
					})
					if failed == 0 {
						t.Error("no request noticed that the store failed")
					}
				})
			}
		}
	}
}

// eachFailure calls f for each operation of the store that a request makes. f
// sends one request by broken, during which the operation fails.
func eachFailure(t *testing.T, r *rig, outage func(int64) func(string, int64, string) bool, f func(broken func(*http.Request) *httptest.ResponseRecorder)) {
	t.Helper()
	for n := int64(0); ; n++ {
		if n > 50 {
			t.Fatal("the request makes more than 50 operations")
		}
		calls := int64(-1)
		f(func(q *http.Request) *httptest.ResponseRecorder {
			r.store.breakIf(outage(n))
			defer r.store.heal()
			w := r.serve(q)
			calls = r.store.calls.Load()
			return w
		})
		if calls < 0 {
			t.Fatal("no request was sent")
		}
		if t.Failed() {
			t.Fatalf("operation %d failed", n)
		}
		if calls <= n {
			return // no operation was left to fail
		}
	}
}

func checkUnavailable(t *testing.T, r *rig, w *httptest.ResponseRecorder, forwarded int) {
	t.Helper()
	if got := w.Header().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After is %q", got)
	}
	if got := w.Header()["Set-Cookie"]; got != nil {
		t.Errorf("a cookie comes with 503: %q", got)
	}
	if body := w.Body.String(); strings.Contains(body, "_token") || strings.Contains(body, errBroken.Error()) {
		t.Errorf("the body of the 503 shows internals: %s", body)
	}
	if forwarded != 0 {
		t.Error("the request was forwarded")
	}
	line := r.log.Last(t, "request")
	if line["level"] != "WARN" || line["decision"] != "error" || !strings.Contains(fmt.Sprint(line["error"]), errBroken.Error()) {
		t.Errorf("the log does not have the cause: %v", line)
	}
}

// If cookies carry the tokens, each of them alone leads to the login that a
// logout ends. The answer is not 200 while the store fails.
func TestStoreOutageTokenCookies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"session_id", "access_token", "refresh_token"} {
		for kind, outage := range outages {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, cookieDelivery)
				eachFailure(t, r, outage, func(broken func(*http.Request) *httptest.ResponseRecorder) {
					cookies := cookieLines(r.do("POST", "/login", aliceIn, jsonType))
					w := broken(request("POST", "/logout", "", cookies[name]))
					if w.Code == http.StatusServiceUnavailable {
						if w.Header()["Set-Cookie"] != nil {
							t.Error("503 clears cookies, so that the logout cannot be repeated")
						}
						w = r.do("POST", "/logout", "", cookies[name])
					}
					if w.Code != http.StatusOK {
						t.Errorf("logout: %d %s", w.Code, w.Body)
					}
					for _, header := range []string{cookies["session_id"], cookies["access_token"]} {
						if w := r.do("GET", "/any/", "", header); w.Code != 401 {
							t.Errorf("after the logout, %.24s… is answered %d", header, w.Code)
						}
					}
					if w := r.do("POST", "/refresh", "", cookies["refresh_token"]); w.Code != 401 {
						t.Errorf("after the logout, the refresh token is answered %d", w.Code)
					}
				})
			})
		}
	}
}

// TestStoreTime sends each kind of request with a store that is slow or does not
// answer. The answer comes within two seconds. It is the usual one, and true, or a 503
// without a cookie, after which the request can be repeated.
func TestStoreTime(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Hour} {
		for _, i := range interruptions() {
			t.Run(i.name+", "+away.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, baseConfig)
					s := r.login(aliceIn)
					r.store.delay(away)
					began := time.Now()
					w := r.serve(i.request(s))
					took := time.Since(began)
					r.store.heal()
					time.Sleep(time.Minute) // all work has ended
					if took > 2*time.Second {
						t.Errorf("%d after %v", w.Code, took)
					}
					switch w.Code {
					case i.status:
						i.done(t, r, s, w)
					case http.StatusServiceUnavailable:
						if away <= 200*time.Millisecond || len(w.Result().Cookies()) > 0 || w.Header().Get("Retry-After") == "" {
							t.Errorf("%d %v", w.Code, w.Header())
						}
						i.undone(t, r, s, w)
					default:
						t.Errorf("%d %s", w.Code, w.Body)
					}
				})
			})
		}
	}
}
