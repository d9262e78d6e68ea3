package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
)

// outages are the ways in which a store may fail in the middle of a request:
// for one operation, or from one operation on.
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
	// done checks what has to hold once the answer was as if the store
	// worked; undone what has to hold after a 503. The store works again.
	done, undone func(*testing.T, *rig, signedIn, *httptest.ResponseRecorder)
}

const cookieDelivery = baseConfig + "token: {delivery: cookie}\n"

// good makes sure that what s holds opens everything, or nothing.
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
	// A logout that failed can be made again, and then everything has ended.
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

// While the store cannot tell, the answer is 503 with Retry-After, whichever
// of its operations fails: never a decision, and never the confirmation of
// something that has not happened.
func TestStoreOutage(t *testing.T) {
	t.Parallel()
	for _, c := range interruptions() {
		for kind, outage := range outages {
			for _, warm := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/warm=%t", c.name, kind, warm), func(t *testing.T) {
					t.Parallel()
					r := newRig(t, baseConfig)
					failed := 0
					for n := int64(0); ; n++ {
						if n > 50 {
							t.Fatal("the request never ends")
						}
						s := r.login(aliceIn)
						if warm {
							r.do("GET", "/any/", "", s.cookie)
							r.do("GET", "/any/", "", s.bearer)
						}
						before := r.upstream.count()
						r.store.breakIf(outage(n))
						w := r.serve(c.request(s))
						calls := r.store.calls.Load()
						r.store.heal()
						switch w.Code {
						case http.StatusServiceUnavailable:
							failed++
							checkUnavailable(t, r, w, r.upstream.count()-before)
							c.undone(t, r, s, w)
						case c.status:
							c.done(t, r, s, w)
						default:
							t.Errorf("operation %d fails: %d %s, want 503 or %d", n, w.Code, w.Body, c.status)
						}
						if calls <= n {
							break // nothing was left to fail
						}
					}
					if failed == 0 {
						t.Error("no failure of the store was noticed")
					}
				})
			}
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
		t.Errorf("the body of the 503 tells too much: %s", body)
	}
	if forwarded != 0 {
		t.Error("the upstream was asked")
	}
	line := r.log.last(t, "request")
	if line["level"] != "WARN" || line["decision"] != "error" || !strings.Contains(fmt.Sprint(line["error"]), errBroken.Error()) {
		t.Errorf("the log does not tell why: %v", line)
	}
}

// Where cookies carry the tokens each of them alone leads a logout to the
// store, and none to 200 while that fails.
func TestStoreOutageTokenCookies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"session_id", "access_token", "refresh_token"} {
		for kind, outage := range outages {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, cookieDelivery)
				for n := int64(0); ; n++ {
					cookies := map[string]string{}
					for _, c := range r.do("POST", "/login", aliceIn, jsonType).Result().Cookies() {
						cookies[c.Name] = "Cookie: " + c.Name + "=" + c.Value
					}
					r.store.breakIf(outage(n))
					w := r.do("POST", "/logout", "", cookies[name])
					calls := r.store.calls.Load()
					r.store.heal()
					switch w.Code {
					case 503:
						if w.Header()["Set-Cookie"] != nil {
							t.Error("503 clears cookies, so that the logout cannot be made again")
						}
						w = r.do("POST", "/logout", "", cookies[name])
						fallthrough
					case 200:
						if w.Code != 200 {
							t.Errorf("logout: %d %s", w.Code, w.Body)
						}
						for _, header := range []string{cookies["session_id"], cookies["access_token"]} {
							if w := r.do("GET", "/any/", "", header); w.Code != 401 {
								t.Errorf("after the logout %.24s… opens: %d", header, w.Code)
							}
						}
						if w := r.do("POST", "/refresh", "", cookies["refresh_token"]); w.Code != 401 {
							t.Errorf("after the logout the refresh token is worth %d", w.Code)
						}
					default:
						t.Errorf("operation %d fails: %d %s", n, w.Code, w.Body)
					}
					if calls <= n {
						return
					}
				}
			})
		}
	}
}

// A reused refresh token that cannot be punished yet is punished later.
func TestStoreOutageAtReuse(t *testing.T) {
	t.Parallel()
	for kind, outage := range outages {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, baseConfig)
			for n := int64(0); ; n++ {
				s := r.login(aliceIn)
				w := r.do("POST", "/refresh", refreshBody(s.refresh), jsonType)
				next := readLogin(t, w)
				r.clock.advance(11e9) // past reuse_leeway
				r.store.breakIf(outage(n))
				w = r.do("POST", "/refresh", refreshBody(s.refresh), jsonType)
				calls := r.store.calls.Load()
				r.store.heal()
				if w.Code == 503 {
					checkUnavailable(t, r, w, 0)
					w = r.do("POST", "/refresh", refreshBody(s.refresh), jsonType)
				}
				if w.Code != 401 {
					t.Errorf("operation %d fails: the reused token gets %d", n, w.Code)
				}
				next.cookie = s.cookie
				r.good(t, next, false)
				if calls <= n {
					return
				}
			}
		})
	}
}

// farStore is a store on another machine: each call takes that long, and then
// happens, unless its context ends before.
type farStore struct {
	store.Store
	away atomic.Int64 // nanoseconds
}

func (s *farStore) travel(ctx context.Context) error {
	pause := time.NewTimer(time.Duration(s.away.Load()))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *farStore) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.travel(ctx); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, key)
}

func (s *farStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	if err := s.travel(ctx); err != nil {
		return err
	}
	return s.Store.Put(ctx, key, value, expires)
}

func (s *farStore) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	if err := s.travel(ctx); err != nil {
		return err
	}
	return s.Store.Swap(ctx, key, old, value, expires)
}

func (s *farStore) Take(ctx context.Context, key string) ([]byte, error) {
	if err := s.travel(ctx); err != nil {
		return nil, err
	}
	return s.Store.Take(ctx, key)
}

func (s *farStore) Delete(ctx context.Context, key string) error {
	if err := s.travel(ctx); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// TestStoreTime makes each kind of request on a store that is slow or does not
// answer. The answer comes within two seconds: it is the usual one, and true,
// or 503 without a cookie, after which the request can be made again.
func TestStoreTime(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Hour} {
		for _, i := range interruptions() {
			t.Run(i.name+", "+away.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, baseConfig)
					far := &farStore{Store: r.store.Store}
					r.store.Store = far
					s := r.login(aliceIn)
					far.away.Store(int64(away))
					began := time.Now()
					w := r.serve(i.request(s))
					took := time.Since(began)
					far.away.Store(0)
					time.Sleep(time.Minute) // nothing is under way any more
					t.Logf("%d after %v", w.Code, took)
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
