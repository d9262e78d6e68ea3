package login

import (
	"testing"
	"time"

	"authgate/gateway/auth"
)

// unrecorded returns an instance with a store that does not record.
func (r *rig) unrecorded(tb testing.TB) *rig {
	tb.Helper()
	next := r.instance(tb)
	next.logins.store = r.store.Store
	return next
}

// BenchmarkAuthenticate measures sessions and access tokens, warm. A cold token is seen for
// the first time.
func BenchmarkAuthenticate(b *testing.B) {
	for _, test := range []struct {
		name, algorithm string
		idle            time.Duration
		session, cold   bool
	}{
		{"session", "HS256", 0, true, false},
		{"session, idle", "HS256", time.Hour, true, false},
		{"HS256", "HS256", 0, false, false},
		{"RS256", "RS256", 0, false, false},
		{"HS256, cold", "HS256", 0, false, true},
		{"RS256, cold", "RS256", 0, false, true},
	} {
		b.Run(test.name, func(b *testing.B) {
			r := newRig(b, func(r *rig) { r.sessionOptions.Idle, r.keys = test.idle, testKeys(b, test.algorithm) }).unrecorded(b)
			s := r.signIn(b, "alice")
			var mechanism auth.Authenticator = r.bearer
			creds := &auth.Credentials{Scheme: "bearer", Value: s.access}
			if test.session {
				mechanism, creds = r.session, &auth.Credentials{Session: s.session}
			}
			b.ReportAllocs()
			for b.Loop() {
				if test.cold {
					r.bearer.verified.Purge()
				}
				if _, err := mechanism.Authenticate(b.Context(), creds); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
