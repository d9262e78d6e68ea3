package login

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/auth"
	"authgate/policy"
)

func TestSessionIdentity(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	id, err := m.bySession(t, s.session)
	if err != nil {
		t.Fatal(err)
	}
	expires := m.clock.now().Add(time.Hour)
	if id.Username != "alice" || id.Subject != "local:alice" || id.Name != "Alice Example" || id.Email != "alice@example.org" ||
		!slices.Equal(id.Roles, []string{"user", "admin"}) || id.Mechanism != policy.Session || id.Provider != "local" ||
		id.Login != s.login.ID || !id.Expires.Equal(expires) {
		t.Errorf("got %+v, want alice until %v", id, expires)
	}
	if sid, err := m.session.LoginOf(t.Context(), s.session); err != nil || sid != s.login.ID {
		t.Errorf("LoginOf: got %q, %v", sid, err)
	}
	if got := m.session.Challenge(&auth.Credentials{Session: s.session}); got != "" {
		t.Errorf("the challenge is %q, want none for cookies", got)
	}
	if got := m.session.Lifetime(); got != time.Hour {
		t.Errorf("the lifetime is %v", got)
	}
}

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
		if _, err := m.bySession(t, s.session); err != nil {
			t.Fatal(err)
		}
	}
	for id := range seen {
		raw, _ := base64.RawURLEncoding.DecodeString(id)
		m.store.wantNoTrace(t, id, raw)
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
		if id != nil {
			t.Errorf("%s: got %+v", name, id)
		}
		wantRejected(t, id, err, auth.DetailNotSignedIn, "unknown, expired or ended session")
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

func TestSessionLifetime(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	for _, step := range []time.Duration{0, 30 * time.Minute, 30*time.Minute - 1} {
		m.clock.advance(step)
		if _, err := m.bySession(t, s.session); err != nil {
			t.Fatalf("before its end: %v", err)
		}
	}
	m.clock.advance(1)
	id, err := m.bySession(t, s.session)
	wantRejected(t, id, err, auth.DetailNotSignedIn, "expired")
	// The login goes on by its refresh token.
	if _, err := m.rotate(t, s.refresh); err != nil {
		t.Errorf("the refresh token ended with the session: %v", err)
	}
}

// The record's own expiry counts, even if the store should keep it longer.
func TestSessionLifetimeIsNotLeftToTheStore(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	key := s.login.Handles[0]
	raw, err := m.store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.store.Put(t.Context(), key, raw, time.Time{}); err != nil {
		t.Fatal(err)
	}
	m.clock.advance(time.Hour - 1)
	if _, err := m.bySession(t, s.session); err != nil {
		t.Fatalf("before its end: %v", err)
	}
	m.clock.advance(1)
	id, err := m.bySession(t, s.session)
	wantRejected(t, id, err, auth.DetailNotSignedIn, "expired")
}

func TestSessionOfAnotherMechanism(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []policy.Mechanism{policy.OIDC, policy.Bearer, policy.None, ""} {
		m := newMechanisms(t, nil)
		s := m.signIn(t, "alice")
		if _, err := m.bySession(t, s.session); err != nil {
			t.Fatalf("the control: %v", err)
		}
		key := s.login.Handles[0]
		raw, err := m.store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		record, err := decode[sessionRecord](raw)
		if err != nil {
			t.Fatal(err)
		}
		record.Mechanism = mechanism
		if raw, err = json.Marshal(record); err != nil {
			t.Fatal(err)
		}
		if err := m.store.Put(t.Context(), key, raw, record.Expires); err != nil {
			t.Fatal(err)
		}
		id, err := m.bySession(t, s.session)
		wantRejected(t, id, err, auth.DetailNotSignedIn, "unknown")
	}
}

// A session ends when no request came for the idle time, to the instant, while
// the store hears of requests now and then only.
func TestSessionIdleTimeout(t *testing.T) {
	t.Parallel()
	const idle = 8 * time.Minute // noted after one
	for _, test := range []struct {
		name  string
		steps []time.Duration // between requests; all but the last find the session alive
		alive bool            // at the last
		notes int
	}{
		{"never used", []time.Duration{idle}, false, 0},
		{"just in time", []time.Duration{idle - 1}, true, 1},
		{"used a little, then too late", []time.Duration{time.Second, idle}, false, 0},
		{"used a little, then in time", []time.Duration{time.Second, idle - 1}, true, 1},
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
					synctest.Wait() // for the note
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

// What was noted counts after a restart, when nothing else is known.
func TestSessionIdleTimeoutAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMechanisms(t, func(m *mechanisms) { m.sessionOptions.Idle = 8 * time.Minute })
		s := m.signIn(t, "alice")
		m.clock.advance(5 * time.Minute)
		if _, err := m.bySession(t, s.session); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		m.clock.advance(5 * time.Minute)
		m = m.reloaded(t, alice())
		if _, err := m.bySession(t, s.session); err != nil {
			t.Errorf("idle for 5 of 8 minutes: %v", err)
		}
		synctest.Wait()
		m.clock.advance(8 * time.Minute)
		m = m.reloaded(t, alice())
		id, err := m.bySession(t, s.session)
		wantRejected(t, id, err, auth.DetailNotSignedIn, "expired")
	})
}

// A note that comes late does not take back what this process knows.
func TestSessionIdleTimeoutWithALateNote(t *testing.T) {
	t.Parallel()
	const idle = 8 * time.Minute
	m := newMechanisms(t, func(m *mechanisms) { m.sessionOptions.Idle = idle })
	s := m.signIn(t, "alice")
	created := m.clock.now()
	m.clock.advance(30 * time.Second)
	ready, err := m.session.find(t.Context(), s.session)
	if err != nil {
		t.Fatal(err)
	}
	note := *ready.session
	note.Seen = created.Add(10 * time.Second)
	value, err := json.Marshal(note)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.store.Swap(t.Context(), ready.basis[0].key, ready.basis[0].raw, value, note.Expires); err != nil {
		t.Fatal(err)
	}
	m.clock.advance(idle - 1)
	if _, err := m.bySession(t, s.session); err != nil {
		t.Errorf("used %v ago: %v", idle-1, err)
	}
}

// A note that the store refuses costs nothing but its being made again, and
// none wakes up a session that has ended.
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
		ready, err := m.session.find(t.Context(), s.session)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := m.logins.End(t.Context(), s.login.ID); err != nil {
			t.Fatal(err)
		}
		m.session.touch(ready, m.clock.now().Add(5*time.Minute))
		synctest.Wait()
		if raw, err := m.store.Get(t.Context(), s.login.Handles[0]); err == nil {
			t.Errorf("a late note brought the session back: %s", raw)
		}
		m.wantDead(t, s)
	})
}

func TestSessionWithoutIdleTimeoutWritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMechanisms(t, nil)
		s := m.signIn(t, "alice")
		m.clock.advance(59 * time.Minute)
		m.store.takeCalls()
		if _, err := m.bySession(t, s.session); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, call := range m.store.takeCalls() {
			if !strings.HasPrefix(call, "get ") {
				t.Errorf("the store was asked to %s", call)
			}
		}
	})
}

func TestSessionWithAFailingStore(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	for _, warm := range []bool{false, true} {
		for _, failing := range []string{"get session:", "get login:", "get "} {
			m.store.fails(failing)
			id, err := m.bySession(t, s.session)
			wantNoAnswer(t, id, err)
			if !errors.Is(err, errStore) {
				t.Errorf("warm %v, %s: got %v, want the error of the store", warm, failing, err)
			}
		}
		m.store.fails("get session:")
		_, err := m.session.LoginOf(t.Context(), s.session)
		wantNoAnswer(t, nil, err)
		m.store.fails("")
		m.wantAlive(t, s)
	}
}

// Once warm a request asks the store for session and login, and decodes
// neither again: it answers with the very same identity.
func TestWarmSessionDecodesNothing(t *testing.T) {
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	first, err := m.bySession(t, s.session)
	if err != nil {
		t.Fatal(err)
	}
	m.store.takeCalls()
	again, err := m.bySession(t, s.session)
	if err != nil || again != first {
		t.Errorf("got %p, %v, want %p again", again, err, first)
	}
	want := []string{"get " + s.login.Handles[0], "get " + loginPrefix + s.login.ID}
	if calls := m.store.takeCalls(); !slices.Equal(calls, want) {
		t.Errorf("the store was asked %q, want %q", calls, want)
	}
	creds := &auth.Credentials{Session: s.session}
	session := NewSessions(m.sessionOptions, m.accounts, NewLogins(m.store.Store, m.clock.now))
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := session.Authenticate(t.Context(), creds); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations, want none", allocations)
	}
}

// What is kept ready is not believed when the store says otherwise.
func TestWarmSessionSeesWhatOthersWrote(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s, other := m.signIn(t, "alice"), m.signIn(t, "bob")
	if id, err := m.bySession(t, s.session); err != nil || id.Username != "alice" {
		t.Fatalf("got %+v, %v", id, err)
	}
	raw, err := m.store.Get(t.Context(), other.login.Handles[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := m.store.Put(t.Context(), s.login.Handles[0], raw, m.clock.now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if id, err := m.bySession(t, s.session); err != nil || id.Username != "bob" || id.Login != other.login.ID {
		t.Errorf("got %+v, %v, want the session that the store holds now", id, err)
	}
	if raw, err = m.store.Get(t.Context(), loginPrefix+s.login.ID); err != nil {
		t.Fatal(err)
	}
	if err := m.store.Put(t.Context(), loginPrefix+other.login.ID, raw, m.clock.now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if id, err := m.bySession(t, s.session); err != nil || id.Username != "alice" || id.Login != other.login.ID {
		t.Errorf("got %+v, %v, want the login that the store holds now", id, err)
	}
	if err := m.store.Store.Delete(t.Context(), loginPrefix+other.login.ID); err != nil {
		t.Fatal(err)
	}
	id, err := m.bySession(t, s.session)
	wantRejected(t, id, err, auth.DetailNotSignedIn, "ended")
}
