package gateway

import (
	"testing"
	"time"

	"authgate/gateway/auth"
	ownrig "authgate/gateway/endpoint/rig"
)

// A user whose session has ended by time is told so: on the sign-in page, and in the detail of a
// 401. Its cookie outlives it by a day. Who signed out, and who makes up a cookie, is told nothing.
func TestSessionEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"  - {match: /asks/, upstream: app, auth: [session], unauthenticated: challenge}\n")
	w := r.want(200, "POST", "/login", aliceIn, jsonType)
	lifetime := r.Config().Session.Lifetime
	if got := ownrig.MaxAge(t, w, "session_id"); got != lifetime+24*time.Hour {
		t.Errorf("the cookie lives for %v", got)
	}
	ended, left := readLogin(t, w).cookie, r.login(bobIn).cookie
	r.want(200, "POST", "/logout", "", left)
	r.clock.Advance(lifetime)
	const text, page = "Your session has ended. Please sign in again.", "/signin?return_to=%2Fsession%2F"
	for cookie, told := range map[string]bool{
		ended: true, left: false, "Cookie: session_id=junk": false, "Cookie: theme=dark": false,
	} {
		place, detail, shown := page, auth.DetailNotSignedIn, "not "+text
		if told {
			place, detail, shown = page+"&reason=ended", "Your session has ended.", text
		}
		if got := r.want(302, "GET", "/session/", "", browser, cookie).Header().Get("Location"); got != place {
			t.Errorf("%s leads to %s, want %s", cookie, got, place)
		}
		for _, path := range []string{"/session/", "/asks/", "/me", "/account/sessions"} {
			for _, header := range []string{"Accept: application/json", "Sec-Fetch-Mode: cors"} {
				if got := detailOf(t, r.want(401, "GET", path, "", header, cookie)); got != detail {
					t.Errorf("%s with %s, %s: %q", path, cookie, header, got)
				}
			}
		}
		ownrig.WantPage(t, r.want(200, "GET", "/signin", "", browser, cookie), shown)
		ownrig.WantPage(t, r.want(200, "GET", place, "", browser), shown)
	}
	r.clock.Advance(24 * time.Hour)
	if got := detailOf(t, r.want(401, "GET", "/session/", "", ended)); got != auth.DetailNotSignedIn {
		t.Errorf("a day later: %q", got)
	}
}
