package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	ownrig "authgate/internal/test/rig"
)

// interrupted is a request that needs the store.
type interrupted struct {
	name    string
	status  int // while the store works
	request func(signedIn) *http.Request
	// done checks what must hold after the usual answer, and undone what must hold
	// after a 503. The store works again by then.
	done, undone func(*rig, signedIn, *httptest.ResponseRecorder)
}

// interruptions are requests to a gateway that runs yaml.
func interruptions(yaml string) []interrupted {
	still := func(r *rig, s signedIn, _ *httptest.ResponseRecorder) { r.good(s, true) }
	ended := func(r *rig, s signedIn, _ *httptest.ResponseRecorder) { r.good(s, false) }
	anew := func(r *rig, s signedIn, w *httptest.ResponseRecorder) {
		r.good(readLogin(r.t, w), true)
		r.good(s, false) // it came with the login, so it has ended
	}
	login := func(s signedIn) *http.Request { return request("POST", "/login", bobIn, jsonType, s.cookie) }
	all := []interrupted{
		{"login", 200, login, anew, func(r *rig, s signedIn,
			_ *httptest.ResponseRecorder) {
			anew(r, s, r.wantOf(200, login(s)))
		}},
		{
			"refresh", 200, func(s signedIn) *http.Request {
				return request("POST", "/refresh", refreshBody(s.refresh),
					jsonType)
			},
			func(r *rig, s signedIn, w *httptest.ResponseRecorder) {
				s.refresh = readLogin(r.t, w).refresh
				r.good(s, true)
			}, still,
		},
	}
	type row struct {
		name, method, target string
		status               int
		header               func(signedIn) []string
	}
	rows := []row{
		{"logout by cookie", "POST", "/logout", 200, func(s signedIn) []string { return []string{s.cookie} }},
		{"logout by bearer", "POST", "/logout", 200, func(s signedIn) []string { return []string{s.bearer} }},
		{"logout by both", "POST", "/logout", 200, func(s signedIn) []string { return []string{s.bearer, s.cookie} }},
		{"logout by link", "GET", "/logout", 302, func(s signedIn) []string { return []string{s.cookie} }},
		{"me by cookie", "GET", "/me", 200, func(s signedIn) []string { return []string{s.cookie} }},
		{"me by bearer", "GET", "/me", 200, func(s signedIn) []string { return []string{s.bearer} }},
		{"session on a route", "GET", "/session/x", 200, func(s signedIn) []string { return []string{s.cookie} }},
		{"bearer on a route", "GET", "/bearer/x", 200, func(s signedIn) []string { return []string{s.bearer} }},
		{"both on a route", "GET", "/any/x", 200, func(s signedIn) []string { return []string{s.bearer, s.cookie} }},
	}
	if yaml == ownrig.CookieDelivery {
		rows = append(rows, row{"logout by refresh token", "POST", "/logout", 200,
			func(s signedIn) []string { return []string{"Cookie: refresh_token=" + s.refresh} }})
	}
	for _, c := range rows {
		i := interrupted{c.name, c.status, func(s signedIn) *http.Request {
			return request(c.method, c.target, "",
				c.header(s)...)
		}, still, still}
		if c.target == "/logout" {
			i.done = ended
			i.undone = func(r *rig, s signedIn, _ *httptest.ResponseRecorder) { // the logout can be repeated
				if w := r.serve(i.request(s)); w.Code != c.status && w.Code != 401 {
					r.t.Errorf("the second logout: %d", w.Code)
				}
				r.good(s, false)
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
	for delivery, yaml := range map[string]string{"tokens in the body": baseConfig,
		"tokens in cookies": ownrig.CookieDelivery} {
		for _, c := range interruptions(yaml) {
			for kind, outage := range ownrig.Outages {
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
	r := newRig(t, yaml)
	failed := 0
	ownrig.EachFailure(r.client, r.store.Store, outage, func(broken func(*http.Request) *httptest.ResponseRecorder) {
		s := r.login(aliceIn)
		if warm {
			r.do("GET", "/any/", "", s.cookie)
			r.do("GET", "/any/", "", s.bearer)
		}
		before := r.upstream.Reached()
		switch w := broken(c.request(s)); w.Code {
		case http.StatusServiceUnavailable:
			failed++
			ownrig.CheckUnavailable(t, r.log, w)
			if r.upstream.Reached() != before {
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
		for _, i := range interruptions(baseConfig) {
			t.Run(i.name+", "+away.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, baseConfig)
					s := r.login(aliceIn)
					r.store.do(func(ctx context.Context, _ string, _ int64, _ string) error {
						select {
						case <-time.After(away):
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					})
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
