package gateway

import ownrig "authgate/internal/test/rig"

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
