package auth

import (
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// benchmarkAuthenticate measures a mechanism once it is warm.
func benchmarkAuthenticate(b *testing.B, mechanism Authenticator, creds *Credentials) {
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

// unrecorded is m without what its store records, which would be measured too.
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
			benchmarkAuthenticate(b, m.session, &Credentials{Session: m.signIn(b, "alice").session})
		})
	}
}

func BenchmarkBearerWarm(b *testing.B) {
	for _, algorithm := range []string{"HS256", "RS256"} {
		b.Run(algorithm, func(b *testing.B) {
			m := newMechanisms(b, func(m *mechanisms) { m.keys = testKeys(b, algorithm) }).unrecorded(b)
			benchmarkAuthenticate(b, m.bearer, &Credentials{Scheme: "bearer", Value: m.signIn(b, "alice").access})
		})
	}
}

// What a token costs when it is seen for the first time.
func BenchmarkBearerCold(b *testing.B) {
	for _, algorithm := range []string{"HS256", "RS256"} {
		b.Run(algorithm, func(b *testing.B) {
			m := newMechanisms(b, func(m *mechanisms) { m.keys = testKeys(b, algorithm) }).unrecorded(b)
			creds := &Credentials{Scheme: "bearer", Value: m.signIn(b, "alice").access}
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

func BenchmarkBasicWarm(b *testing.B) {
	f := newBasicFixture(b)
	benchmarkAuthenticate(b, f, &Credentials{Scheme: "basic", Value: encoded("service:s3rvice"), Client: netip.MustParseAddr("192.0.2.7")})
	if got := f.hasher.Computed(); got != 1 {
		b.Errorf("%d password hashes computed, want one", got)
	}
}

func BenchmarkReadCredentials(b *testing.B) {
	header := http.Header{
		"Authorization": {"Bearer aaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbb.cccccccccccc"},
		"Cookie":        {"theme=dark; session_id=0123456789abcdefghijklmnopqrstuvwxyzABCDEFG; lang=en"},
		"User-Agent":    {"test/1"},
	}
	client := netip.MustParseAddr("192.0.2.7")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadCredentials(header, testCookies, client); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkToApplication(b *testing.B) {
	lines := []string{"theme=dark; session_id=0123456789abcdefghijklmnopqrstuvwxyzABCDEFG; lang=en"}
	b.ReportAllocs()
	for b.Loop() {
		if kept := testCookies.ToApplication(lines, false); len(kept) != 1 {
			b.Fatal(kept)
		}
	}
}
