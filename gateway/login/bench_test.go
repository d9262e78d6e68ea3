package login

import (
	"testing"
	"time"

	"authgate/gateway/auth"
)

// benchmarkAuthenticate measures a warm mechanism.
func benchmarkAuthenticate(b *testing.B, mechanism auth.Authenticator, creds *auth.Credentials) {
	b.Helper()
	if _, err := mechanism.Authenticate(b.Context(), creds); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := mechanism.Authenticate(b.Context(), creds); err != nil {
			b.Fatal(err)
		}
	}
}

// unrecorded returns m with a store that does not record.
func (m *mechanisms) unrecorded(b *testing.B) *mechanisms {
	b.Helper()
	next := m.reloaded(b, alice(), bob())
	next.logins.store = m.store.Store
	return next
}

func BenchmarkSessionWarm(b *testing.B) {
	for name, idle := range map[string]time.Duration{"absolute": 0, "idle": time.Hour} {
		b.Run(name, func(b *testing.B) {
			m := newMechanisms(b, func(m *mechanisms) { m.sessionOptions.Idle = idle }).unrecorded(b)
			benchmarkAuthenticate(b, m.session, &auth.Credentials{Session: m.signIn(b, "alice").session})
		})
	}
}

func BenchmarkAccessTokenWarm(b *testing.B) {
	for _, algorithm := range []string{"HS256", "RS256"} {
		b.Run(algorithm, func(b *testing.B) {
			m := newMechanisms(b, func(m *mechanisms) { m.keys = testKeys(b, algorithm) }).unrecorded(b)
			benchmarkAuthenticate(b, m.bearer, &auth.Credentials{Scheme: "bearer", Value: m.signIn(b, "alice").access})
		})
	}
}

// A token that is seen for the first time.
func BenchmarkAccessTokenCold(b *testing.B) {
	for _, algorithm := range []string{"HS256", "RS256"} {
		b.Run(algorithm, func(b *testing.B) {
			m := newMechanisms(b, func(m *mechanisms) { m.keys = testKeys(b, algorithm) }).unrecorded(b)
			creds := &auth.Credentials{Scheme: "bearer", Value: m.signIn(b, "alice").access}
			b.ReportAllocs()
			for b.Loop() {
				m.bearer.verified.Purge()
				if _, err := m.bearer.Authenticate(b.Context(), creds); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
