package gateway

import (
	"net/http/httptest"
	"testing"
	"time"

	ownrig "authgate/internal/test/rig"
)

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
		r.want(429, "POST", "/login", ownrig.AliceForm, formType, browser),
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
