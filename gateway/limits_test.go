package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// rateConfig is baseConfig with rates.
const rateConfig = baseConfig + `
  - {match: /by-client/, name: by-client, upstream: app, auth: [basic], rate: {requests: 3, per: 1m}}
  - {match: /by-user/, name: by-user, upstream: app, auth: [session, bearer], rate: {requests: 3, per: 1m, by: user}}
`

// from makes a request of another client.
func from(address string, q *http.Request) *http.Request {
	q.RemoteAddr = address
	return q
}

// A route with a rate lets each client send so many requests, whatever its
// credentials. What is beyond is 429, and no password is checked for it.
func TestRateByClient(t *testing.T) {
	t.Parallel()
	r := newRig(t, rateConfig)
	good, bad := basicHeader("service", "s3rvice"), basicHeader("service", "guess")
	r.want(200, "GET", "/by-client/", "", good)
	r.want(401, "GET", "/by-client/", "", bad)
	r.want(200, "POST", "/by-client/x", "", good)
	failures := r.sample("authgate_logins_total", "result=failure")
	r.clock.Advance(20 * time.Second)
	for _, credential := range []string{good, bad, ""} {
		if w := r.want(429, "GET", "/by-client/", "", credential); w.Header().Get("Retry-After") != "40" ||
			detailOf(t, w) != "Too many requests. Try again later." {
			t.Errorf("Retry-After %q: %s", w.Header().Get("Retry-After"), w.Body)
		}
	}
	if got := r.sample("authgate_logins_total", "result=failure"); got != failures {
		t.Error("a request beyond the rate is a failed login")
	}
	page := r.want(429, "GET", "/by-client/", "", browser)
	if !strings.HasPrefix(page.Header().Get("Content-Type"), "text/html") {
		t.Error("a browser gets no page")
	}
	r.want(200, "GET", "/basic/", "", good)          // another route
	for i, want := range []int{200, 200, 200, 429} { // another client with many addresses
		r.wantOf(want, from(fmt.Sprintf("[2001:db8::%d]:1", i), request("GET", "/by-client/", "", good)))
	}
	if got := r.sample("authgate_requests_total", "route=by-client", "code=429", "decision=error"); got != 5 {
		t.Errorf("%v requests are counted as 429, want 5", got)
	}
	events := 0
	for _, line := range r.log.Records(t, "audit") {
		if line["event"] == "denied" && line["reason"] == "more than 3 requests in 1m0s" {
			events++
		}
	}
	if events != 2 {
		t.Errorf("%d audit events, want one for each client", events)
	}
	r.clock.Advance(40 * time.Second)
	r.want(200, "GET", "/by-client/", "", good)
}

// by: user counts the requests of a user from everywhere, and only those that are
// allowed.
func TestRateByUser(t *testing.T) {
	t.Parallel()
	r := newRig(t, rateConfig)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	for range 5 {
		r.want(401, "GET", "/by-user/", "")
		r.want(403, "POST", "/by-user/", "", alice.cookie, "Sec-Fetch-Site: cross-site")
	}
	r.want(200, "GET", "/by-user/", "", alice.cookie)
	r.want(200, "GET", "/by-user/", "", alice.bearer)
	r.wantOf(200, from("198.51.100.1:1", request("GET", "/by-user/", "", alice.cookie)))
	r.wantOf(429, from("198.51.100.2:1", request("GET", "/by-user/", "", alice.cookie)))
	r.want(429, "GET", "/by-user/", "", alice.bearer)
	r.want(200, "GET", "/by-user/", "", bob.cookie)
}

// A reload keeps the counts of a rate that stays the same.
func TestRateAfterReload(t *testing.T) {
	t.Parallel()
	r := newRig(t, rateConfig)
	good := basicHeader("service", "s3rvice")
	for range 3 {
		r.want(200, "GET", "/by-client/", "", good)
	}
	r.mustReload(rateConfig)
	r.want(429, "GET", "/by-client/", "", good)
	r.mustReload(edit(t, rateConfig, "requests: 3", "requests: 4"))
	for _, want := range []int{200, 200, 200, 200, 429} {
		r.want(want, "GET", "/by-client/", "", good)
	}
}
