package login

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/auth"
	"authgate/policy"
)

func TestSessionIdentifiers(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	seen := make(map[string]bool)
	for range 100 {
		s := m.signIn(t, "alice")
		raw, err := base64.RawURLEncoding.DecodeString(s.session)
		if err != nil || len(raw) != 32 {
			t.Fatalf("%q holds %d bytes, %v; want 256 bits", s.session, len(raw), err)
		}
		if seen[s.session] {
			t.Fatal("an identifier was issued twice")
		}
		seen[s.session] = true
		must(m.bySession(t, s.session))(t)
	}
}

func TestSessionRefuses(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	if _, err := m.bySession(t, s.session); err != nil {
		t.Fatalf("the control: %v", err)
	}
	raw, _ := base64.RawURLEncoding.DecodeString(s.session)
	for name, id := range map[string]string{
		"unknown":      base64.RawURLEncoding.EncodeToString(randomBytes(32)),
		"short":        base64.RawURLEncoding.EncodeToString(raw[:31]),
		"long":         base64.RawURLEncoding.EncodeToString(append(raw, 0)),
		"padded":       base64.URLEncoding.EncodeToString(raw),
		"its hash":     hashed(raw),
		"its key":      SessionPrefix + hashed(raw),
		"the sid":      s.login.ID,
		"quoted":       `"` + s.session + `"`,
		"line break":   s.session[:20] + "\n" + s.session[20:],
		"break, short": s.session[:20] + "\n" + s.session[21:],
		"loose bits":   s.session[:42] + string(rune(s.session[42]+1)),
		"refresh":      s.refresh,
		"huge":         strings.Repeat("A", 1<<20),
	} {
		id, err := m.bySession(t, id)
		wantRejected(t, auth.DetailNotSignedIn, "unknown, expired or ended session")(id, err)
		var r *auth.Rejection
		if errors.As(err, &r) && r.Cookie != auth.SessionCookie {
			t.Errorf("%s: the rejection names the cookie role %d", name, r.Cookie)
		}
	}
	for name, id := range map[string]string{"unknown": base64.RawURLEncoding.EncodeToString(randomBytes(32)), "garbage": "?"} {
		if sid, err := m.session.LoginOf(t.Context(), id); sid != "" || !errors.Is(err, auth.ErrRejected) {
			t.Errorf("LoginOf, %s: got %q, %v", name, sid, err)
		}
	}
	for name, creds := range map[string]*auth.Credentials{
		"nothing":           {},
		"delegated session": {Delegated: s.session},
		"bearer":            {Scheme: "bearer", Value: s.session},
		"access cookie":     {Access: s.session},
	} {
		if id, err := m.session.Authenticate(t.Context(), creds); id != nil || !errors.Is(err, auth.ErrNoCredentials) {
			t.Errorf("%s: got %+v, %v, want no credentials", name, id, err)
		}
	}
}

// A session ends at the time in its record, also if the store keeps it longer.
func TestSessionLifetime(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		m := newMechanisms(t, nil)
		s := m.signIn(t, "alice")
		if kept {
			restore(t, m.store, s.login.Handles[0], func(*sessionRecord) {})
		}
		for _, step := range []time.Duration{0, 30 * time.Minute, 30*time.Minute - 1} {
			m.clock.advance(step)
			if _, err := m.bySession(t, s.session); err != nil {
				t.Fatalf("before its end: %v", err)
			}
		}
		m.clock.advance(1)
		wantRejected(t, auth.DetailNotSignedIn, "expired")(m.bySession(t, s.session))
		if _, err := m.rotate(t, s.refresh); err != nil {
			t.Errorf("the refresh token ended with the session: %v", err)
		}
	}
}

// A warm session is looked up again when the store holds another record.
func TestWarmSessionSeesWhatOthersWrote(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s, other := m.signIn(t, "alice"), m.signIn(t, "bob")
	want := func(username, sid string) {
		t.Helper()
		if id, err := m.bySession(t, s.session); err != nil || id.Username != username || id.Login != sid {
			t.Errorf("got %+v, %v, want %s by the login %s", id, err, username, sid)
		}
	}
	want("alice", s.login.ID)
	restore(t, m.store, s.login.Handles[0], func(r *sessionRecord) { r.Login = other.login.ID })
	want("bob", other.login.ID)
	restore(t, m.store, loginPrefix+other.login.ID, func(l *Login) { l.Username, l.Version = "alice", s.login.Version })
	want("alice", other.login.ID)
	for _, mechanism := range []policy.Mechanism{policy.OIDC, policy.Bearer, policy.None, ""} {
		restore(t, m.store, s.login.Handles[0], func(r *sessionRecord) { r.Mechanism = mechanism })
		wantRejected(t, auth.DetailNotSignedIn, "unknown")(m.bySession(t, s.session))
	}
}

// A session ends when there was no request for exactly the idle time. The store gets only
// some of the times.
func TestSessionIdleTimeout(t *testing.T) {
	t.Parallel()
	const idle = 8 * time.Minute // a time is stored after one minute
	for _, test := range []struct {
		name  string
		steps []time.Duration // between requests; all but the last must find the session valid
		alive bool            // at the last request
		notes int
	}{
		{"never used", []time.Duration{idle}, false, 0},
		{"just in time", []time.Duration{idle - 1}, true, 1},
		{"used a little, then too late", []time.Duration{time.Second, idle}, false, 0},
		{"used a little, then in time", []time.Duration{time.Second, idle - 1}, true, 1},
		{"used just before the time of a note", []time.Duration{time.Minute - 1, idle}, false, 0},
		{"used at the time of a note", []time.Duration{time.Minute, idle}, false, 1},
		{"used between notes, then in time", []time.Duration{time.Minute, time.Second, idle - 1}, true, 2},
		{"used often", slices.Repeat([]time.Duration{20 * time.Second}, 60), true, 20},
		{"used until the absolute end", append(slices.Repeat([]time.Duration{7 * time.Minute}, 8), 4*time.Minute), false, 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMechanisms(t, func(m *mechanisms) { m.sessionOptions.Idle = idle })
				s := m.signIn(t, "alice")
				for i, step := range test.steps {
					m.clock.advance(step)
					_, err := m.bySession(t, s.session)
					synctest.Wait() // for the write
					if want := i < len(test.steps)-1 || test.alive; want != (err == nil) {
						t.Fatalf("request %d, after %v: %v", i, step, err)
					}
				}
				notes := 0
				for _, call := range m.store.takeCalls() {
					if strings.HasPrefix(call, "swap "+SessionPrefix) {
						notes++
					}
				}
				if notes != test.notes {
					t.Errorf("%d notes in the store, want %d", notes, test.notes)
				}
			})
		})
	}
}

// The stored time counts after a restart. If it is older than what this process
// knows, it does not.
func TestSessionIdleTimeoutAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMechanisms(t, func(m *mechanisms) { m.sessionOptions.Idle = 8 * time.Minute })
		s := m.signIn(t, "alice")
		m.clock.advance(5 * time.Minute)
		must(m.bySession(t, s.session))(t)
		synctest.Wait()
		m.clock.advance(5 * time.Minute)
		m = m.reloaded(t, alice())
		if _, err := m.bySession(t, s.session); err != nil {
			t.Errorf("idle for 5 of 8 minutes: %v", err)
		}
		synctest.Wait()
		restore(t, m.store, s.login.Handles[0], func(r *sessionRecord) { r.Seen = r.Created })
		m.clock.advance(8*time.Minute - 1)
		if _, err := m.bySession(t, s.session); err != nil {
			t.Errorf("idle for less than 8 minutes, with an older time in the store: %v", err)
		}
		synctest.Wait()
		m.clock.advance(8 * time.Minute)
		m = m.reloaded(t, alice())
		wantRejected(t, auth.DetailNotSignedIn, "expired")(m.bySession(t, s.session))
	})
}

// A write that fails is tried again, and no write restores a session that has ended.
func TestSessionIdleNotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMechanisms(t, func(m *mechanisms) { m.sessionOptions.Idle = 8 * time.Minute })
		s := m.signIn(t, "alice")
		m.store.fails("swap ")
		for range 4 {
			m.clock.advance(5 * time.Minute)
			m.store.takeCalls()
			if _, err := m.bySession(t, s.session); err != nil {
				t.Fatalf("with notes failing: %v", err)
			}
			synctest.Wait()
			if calls := m.store.takeCalls(); !strings.HasPrefix(calls[len(calls)-1], "swap ") {
				t.Fatalf("no note was tried: %q", calls)
			}
		}
		m.store.fails("")
		ready := must(m.session.find(t.Context(), s.session))(t)
		synctest.Wait()
		must(m.logins.End(t.Context(), s.login.ID))(t)
		m.session.touch(ready, m.clock.now().Add(5*time.Minute))
		synctest.Wait()
		if raw, err := m.store.Get(t.Context(), s.login.Handles[0]); err == nil {
			t.Errorf("a late note brought the session back: %s", raw)
		}
		m.wantDead(t, s)
	})
}
