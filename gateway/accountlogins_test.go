package gateway

import (
	"testing"
	"time"

	ownrig "authgate/internal/test/rig"
)

// logins returns the logins of the user.
func (r *rig) logins(header ...string) []ownrig.OwnLogin {
	r.t.Helper()
	return r.client.Logins(header...)
}

// another signs alice in from a phone.
func (r *rig) another() signedIn {
	r.t.Helper()
	return readLogin(r.t, r.want(200, "POST", "/login", aliceIn, jsonType, ownrig.Phone))
}

// wantSession checks what sessions and access tokens open, without a refresh.
func (r *rig) wantSession(want int, ins ...signedIn) {
	r.t.Helper()
	for _, in := range ins {
		r.want(want, "GET", "/session/", "", in.cookie)
		r.want(want, "GET", "/bearer/", "", in.bearer)
	}
}

// Ending a login ends its open streams.
func TestStreamsEndWithAnEndedLogin(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			streamsOf(t, func(s *streaming) {
				here, phone := s.login(aliceIn), s.another()
				body := s.open(protocol, "/session/", phone.cookie)
				time.Sleep(time.Minute)
				s.alive(1)
				s.want(200, "POST", "/account/sessions/end", `{"others":true}`, jsonType, here.cookie)
				s.ends(body, time.Now())
				s.wantEnded("ended session")
			})
		})
	}
}
