package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/rig"
)

// interrupted is a request that needs the store.
type interrupted struct {
	name    string
	status  int // while the store works
	request func(rig.SignedIn) *http.Request
	// done checks what must hold after the usual answer, and undone what must hold
	// after a 503. The store works again by then.
	done, undone func(*rig.Rig, rig.SignedIn, *httptest.ResponseRecorder)
}

// interruptions are requests to a gateway that runs yaml.
func interruptions(yaml string) []interrupted {
	still := func(r *rig.Rig, s rig.SignedIn, _ *httptest.ResponseRecorder) { r.Good(s, true) }
	ended := func(r *rig.Rig, s rig.SignedIn, _ *httptest.ResponseRecorder) { r.Good(s, false) }
	anew := func(r *rig.Rig, s rig.SignedIn, w *httptest.ResponseRecorder) {
		r.Good(rig.ReadLogin(r.T, w), true)
		r.Good(s, false) // it came with the login, so it has ended
	}
	login := func(s rig.SignedIn) *http.Request { return rig.Request("POST", "/login", rig.Bob, rig.JSON, s.Cookie) }
	all := []interrupted{
		{"login", 200, login, anew, func(r *rig.Rig, s rig.SignedIn,
			_ *httptest.ResponseRecorder) {
			anew(r, s, r.WantOf(200, login(s)))
		}},
		{
			"refresh", 200, func(s rig.SignedIn) *http.Request {
				return rig.Request("POST", "/refresh", rig.RefreshBody(s.Refresh),
					rig.JSON)
			},
			func(r *rig.Rig, s rig.SignedIn, w *httptest.ResponseRecorder) {
				s.Refresh = rig.ReadLogin(r.T, w).Refresh
				r.Good(s, true)
			}, still,
		},
	}
	type row struct {
		name, method, target string
		status               int
		header               func(rig.SignedIn) []string
	}
	rows := []row{
		{"logout by cookie", "POST", "/logout", 200, func(s rig.SignedIn) []string { return []string{s.Cookie} }},
		{"logout by bearer", "POST", "/logout", 200, func(s rig.SignedIn) []string { return []string{s.Bearer} }},
		{"logout by both", "POST", "/logout", 200, func(s rig.SignedIn) []string {
			return []string{s.Bearer,
				s.Cookie}
		}},
		{"logout by link", "GET", "/logout", 302, func(s rig.SignedIn) []string { return []string{s.Cookie} }},
		{"me by cookie", "GET", "/me", 200, func(s rig.SignedIn) []string { return []string{s.Cookie} }},
		{"me by bearer", "GET", "/me", 200, func(s rig.SignedIn) []string { return []string{s.Bearer} }},
		{"session on a route", "GET", "/session/x", 200, func(s rig.SignedIn) []string { return []string{s.Cookie} }},
		{"bearer on a route", "GET", "/bearer/x", 200, func(s rig.SignedIn) []string { return []string{s.Bearer} }},
		{"both on a route", "GET", "/any/x", 200, func(s rig.SignedIn) []string {
			return []string{s.Bearer,
				s.Cookie}
		}},
	}
	if yaml == rig.CookieDelivery {
		rows = append(rows, row{"logout by refresh token", "POST", "/logout", 200,
			func(s rig.SignedIn) []string { return []string{"Cookie: refresh_token=" + s.Refresh} }})
	}
	for _, c := range rows {
		i := interrupted{c.name, c.status, func(s rig.SignedIn) *http.Request {
			return rig.Request(c.method, c.target, "",
				c.header(s)...)
		}, still, still}
		if c.target == "/logout" {
			i.done = ended
			i.undone = func(r *rig.Rig, s rig.SignedIn, _ *httptest.ResponseRecorder) { // the logout can be repeated
				if w := r.Serve(i.request(s)); w.Code != c.status && w.Code != 401 {
					r.T.Errorf("the second logout: %d", w.Code)
				}
				r.Good(s, false)
			}
		}
		all = append(all, i)
	}
	return all
}

// While the store fails, the answer is 503 with Retry-After, whichever
// operation fails. It is never a decision, and never confirms something that has
// not happened. Cookies that carry tokens are no exception.
func TestStoreOutage(t *testing.T) {
	t.Parallel()
	for delivery, yaml := range map[string]string{"tokens in the body": rig.Base,
		"tokens in cookies": rig.CookieDelivery} {
		for _, c := range interruptions(yaml) {
			for kind, outage := range rig.Outages {
				for _, warm := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/warm=%t", delivery, c.name, kind, warm), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) { // on a slow machine, the time of a request runs out
							testOutage(t, yaml, c, outage, warm)
						})
					})
				}
			}
		}
	}
}

// testOutage checks the answers to a request of c while the store fails in one way.
func testOutage(
	t *testing.T, yaml string, c interrupted, outage func(int64) func(string, int64, string) bool, warm bool,
) {
	r := rig.New(t, yaml)
	failed := 0
	rig.EachFailure(r.Client, r.Store, outage, func(broken func(*http.Request) *httptest.ResponseRecorder) {
		s := r.Login(rig.Alice)
		if warm {
			r.Do("GET", "/any/", "", s.Cookie)
			r.Do("GET", "/any/", "", s.Bearer)
		}
		before := r.Reached()
		switch w := broken(c.request(s)); w.Code {
		case http.StatusServiceUnavailable:
			failed++
			rig.CheckUnavailable(t, r.Log, w)
			if r.Reached() != before {
				t.Error("the request was forwarded")
			}
			c.undone(r, s, w)
		case c.status:
			c.done(r, s, w)
		default:
			t.Errorf("%d %s, want 503 or %d", w.Code, w.Body, c.status)
		}
	})
	if failed == 0 {
		t.Error("no request noticed that the store failed")
	}
}

// While the store is slow or does not answer, the answer comes within two seconds. It
// is the usual one, and true, or a 503 without a cookie, after which the request can
// be repeated.
func TestStoreTime(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Hour} {
		for _, i := range interruptions(rig.Base) {
			t.Run(i.name+", "+away.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := rig.New(t, rig.Base)
					s := r.Login(rig.Alice)
					r.Store.Do(func(ctx context.Context, _ string, _ int64, _ string) error {
						select {
						case <-time.After(away):
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					})
					began := time.Now()
					w := r.Serve(i.request(s))
					took := time.Since(began)
					r.Store.Heal()
					time.Sleep(time.Minute) // all work has ended
					if took > 2*time.Second {
						t.Errorf("%d after %v", w.Code, took)
					}
					switch w.Code {
					case i.status:
						i.done(r, s, w)
					case http.StatusServiceUnavailable:
						if away <= 200*time.Millisecond || len(w.Result().Cookies()) > 0 || w.Header().Get("Retry-After") == "" {
							t.Errorf("%d %v", w.Code, w.Header())
						}
						i.undone(r, s, w)
					default:
						t.Errorf("%d %s", w.Code, w.Body)
					}
				})
			})
		}
	}
}
