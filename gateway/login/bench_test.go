package login

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/store/sqlitestore"
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

// BenchmarkBegin records logins with session and tokens in the embedded store, 50 at the
// same time, for one account and for many. It does not check passwords.
func BenchmarkBegin(b *testing.B) {
	for _, accounts := range []int64{1, 1000} {
		b.Run(fmt.Sprintf("accounts=%d", accounts), func(b *testing.B) {
			s, err := sqlitestore.Open(b.Context(), sqlitestore.Options{Path: filepath.Join(b.TempDir(), "authgate.db")})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			m := newMechanisms(b, nil)
			logins := NewLogins(s, time.Now)
			var n atomic.Int64
			b.SetParallelism(25)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					account := &auth.Account{Username: fmt.Sprint(n.Add(1) % accounts)}
					_, session := m.session.New()
					_, refresh := m.refresh.New(testDevice())
					_, err := logins.Begin(b.Context(), account, time.Now().Add(time.Hour), session, refresh)
					if err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
