package login

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/auth"
)

// wantRotated rotates the token and returns the next.
func (m *mechanisms) wantRotated(tb testing.TB, token string) string {
	tb.Helper()
	rotation, err := m.rotate(tb, token)
	if err != nil {
		tb.Fatalf("rotating a good token: %v", err)
	}
	return rotation.Token
}

// wantBadRefresh fails the test unless the token is rejected and not treated as stolen.
func (m *mechanisms) wantBadRefresh(tb testing.TB, token, reason string) {
	tb.Helper()
	rotation, err := m.rotate(tb, token)
	if rotation != nil {
		tb.Errorf("got %+v", rotation)
	}
	var reuse *ReuseError
	if errors.As(err, &reuse) {
		tb.Errorf("taken for stolen: %v", err)
		return
	}
	wantRejected(tb, auth.DetailBadRefresh, reason)(nil, err)
}

// wantReuse fails the test unless the token is treated as stolen.
func (m *mechanisms) wantReuse(tb testing.TB, token string) *ReuseError {
	tb.Helper()
	rotation, err := m.rotate(tb, token)
	var reuse *ReuseError
	if rotation != nil || !errors.As(err, &reuse) || !errors.Is(err, auth.ErrRejected) {
		tb.Fatalf("got %+v, %v, want a ReuseError", rotation, err)
	}
	return reuse
}

func TestRotate(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	ends := m.clock.now().Add(7 * 24 * time.Hour)
	seen := map[string]bool{s.refresh: true}
	token := s.refresh
	for range 50 {
		m.clock.advance(time.Minute)
		rotation := must(m.rotate(t, token))(t)
		if rotation.Login.ID != s.login.ID || rotation.Account.Username != "alice" || !rotation.Expires.Equal(ends) {
			t.Fatalf("got %+v, want alice's login until %v", rotation, ends)
		}
		if token = rotation.Token; seen[token] {
			t.Fatal("a token was given twice")
		}
		seen[token] = true
		if sid, err := m.refresh.LoginOf(t.Context(), token); err != nil || sid != s.login.ID {
			t.Fatalf("LoginOf: got %q, %v", sid, err)
		}
	}
	if raw, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(raw) != 80 {
		t.Errorf("%q holds %d bytes, %v", token, len(raw), err)
	}
	// Rotations before the leeway are forgotten.
	_, f, _, err := m.refresh.find(t.Context(), token)
	if err != nil || len(f.Rotated) != 1 {
		t.Errorf("got %+v, %v, want the last rotation alone", f, err)
	}
	// The session of the login is still valid.
	if _, err := m.bySession(t, s.session); err != nil {
		t.Errorf("the session: %v", err)
	}
}

// A token that is used again within the leeway is a race within the client: the call
// fails and the login stays.
func TestUsedTokenWithinTheLeeway(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	first := s.refresh
	second := m.wantRotated(t, first)
	m.wantBadRefresh(t, first, "used again within the leeway")
	m.clock.advance(testLeeway / 2)
	s.refresh = m.wantRotated(t, second)
	m.wantBadRefresh(t, first, "used again within the leeway")
	m.wantBadRefresh(t, second, "used again within the leeway")
	m.clock.advance(testLeeway / 2)
	m.wantBadRefresh(t, first, "used again within the leeway")
	m.wantAlive(t, s)
	m.clock.advance(1) // from the rotation, not from the last use
	m.wantReuse(t, first)
	m.wantDead(t, s)
}

func TestUsedTokenAfterTheLeeway(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		leeway    time.Duration
		rotations int // after the stolen token
		apart     time.Duration
		after     time.Duration
	}{
		"one nanosecond later":    {testLeeway, 1, 0, testLeeway + 1},
		"no leeway":               {0, 1, 0, 1},
		"an older token":          {testLeeway, 2, time.Second, testLeeway},
		"an ancient token":        {testLeeway, 40, time.Hour, 0},
		"a token days old":        {testLeeway, 3, 24 * time.Hour, 0},
		"after many rotations":    {time.Hour, maxRotations + 1, time.Second, 0},
		"the client was far away": {testLeeway, 1, 0, 6 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMechanisms(t, func(m *mechanisms) {
				m.refreshOptions.Leeway = test.leeway
				m.sessionOptions.Lifetime = 30 * 24 * time.Hour
				m.bearerOptions.Lifetime = 30 * 24 * time.Hour
			})
			s, other := m.signIn(t, "alice"), m.signIn(t, "alice")
			stolen := s.refresh
			for range test.rotations {
				s.refresh = m.wantRotated(t, s.refresh)
				m.clock.advance(test.apart)
			}
			m.clock.advance(test.after)
			if _, err := m.bySession(t, s.session); err != nil {
				t.Fatalf("before the reuse: %v", err)
			}
			if _, err := m.byToken(t, s.access); err != nil {
				t.Fatalf("before the reuse: %v", err)
			}
			reuse := m.wantReuse(t, stolen)
			if reuse.Login == nil || reuse.Login.ID != s.login.ID || reuse.Login.Subject() != "local:alice" {
				t.Errorf("got %+v, want the login that ended", reuse.Login)
			}
			m.wantDead(t, s)
			m.wantBadRefresh(t, stolen, "its login has ended")
			m.wantAlive(t, other)
		})
	}
}

// If the store fails, a reuse is no answer, and it is found by the next call.
func TestReuseWithAFailingStore(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	stolen := s.refresh
	s.refresh = m.wantRotated(t, s.refresh)
	m.clock.advance(testLeeway + 1)
	for _, failing := range []string{"swap refresh:", "take login:"} {
		m.store.fails(failing)
		_, err := m.rotate(t, stolen)
		wantNoAnswer(t)(nil, err)
		m.store.fails("")
		m.wantAlive(t, s)
	}
	m.wantReuse(t, stolen)
	m.wantDead(t, s)
}

// A token that was never issued ends no login, however similar it is.
func TestForgedRefreshTokensEndNothing(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	used := s.refresh
	s.refresh = m.wantRotated(t, s.refresh)
	m.clock.advance(testLeeway + 1)
	raw := must(base64.RawURLEncoding.DecodeString(s.refresh))(t)
	forged := []string{
		"", "x", ".", s.session, s.access, s.login.ID, s.refresh[:106], s.refresh + "A", s.refresh + "=", " " + s.refresh,
		s.refresh[:50] + "\n" + s.refresh[50:], s.refresh[:50] + "\n" + s.refresh[51:], "\r\n" + s.refresh, loosen(t, s.refresh),
		base64.RawURLEncoding.EncodeToString(randomBytes(80)),
		base64.RawURLEncoding.EncodeToString(append(raw[:32:32], randomBytes(48)...)),
		base64.RawURLEncoding.EncodeToString(append(raw[:64:64], randomBytes(16)...)),
		base64.RawURLEncoding.EncodeToString(make([]byte, 80)),
		strings.Repeat("A", 1<<20),
	}
	for _, token := range []string{s.refresh, used} {
		raw := must(base64.RawURLEncoding.DecodeString(token))(t)
		for bit := range 8 * len(raw) {
			flipped := append([]byte{}, raw...)
			flipped[bit/8] ^= 1 << (bit % 8)
			forged = append(forged, base64.RawURLEncoding.EncodeToString(flipped))
		}
	}
	for _, token := range forged {
		m.wantBadRefresh(t, token, "never issued")
		if sid, err := m.refresh.LoginOf(t.Context(), token); sid != "" || !errors.Is(err, auth.ErrRejected) {
			t.Errorf("LoginOf: got %q, %v", sid, err)
		}
	}
	// A well-formed token of a family that never existed.
	m.wantBadRefresh(t, refreshToken{family: randomBytes(32), generation: randomBytes(32)}.String(), "its login has ended")
	m.wantAlive(t, s)
	m.wantReuse(t, used)
}

func TestFamilyExpires(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	if got := m.refresh.Expires(m.clock.now()); !got.Equal(m.clock.now().Add(7 * 24 * time.Hour)) {
		t.Errorf("Expires is %v", got)
	}
	// Rotation does not extend the life of the family.
	for range 7*24 - 1 {
		m.clock.advance(time.Hour)
		s.refresh = m.wantRotated(t, s.refresh)
	}
	m.clock.advance(time.Hour - 1)
	s.refresh = m.wantRotated(t, s.refresh)
	m.clock.advance(1)
	m.wantBadRefresh(t, s.refresh, "its login has ended")

	// The same if the store keeps the records longer.
	s = m.signIn(t, "alice")
	restore(t, m.store, s.login.Handles[1], func(*family) {})
	restore(t, m.store, loginPrefix+s.login.ID, func(*Login) {})
	m.clock.advance(7 * 24 * time.Hour)
	m.wantBadRefresh(t, s.refresh, "expired")
}

func TestRefreshBinding(t *testing.T) {
	t.Parallel()
	at := func(client, userAgent string) auth.Credentials {
		c := auth.Credentials{UserAgent: userAgent}
		if client != "" {
			c.Client = netip.MustParseAddr(client)
		}
		return c
	}
	home := at("192.0.2.7", "test/1")
	for _, test := range []struct {
		name  string
		bind  []string
		other auth.Credentials
		good  bool
	}{
		{"not bound", nil, at("2001:db8::1", "other"), true},
		{"user agent: the same", []string{BindUserAgent}, at("2001:db8::1", "test/1"), true},
		{"user agent: another", []string{BindUserAgent}, at("192.0.2.7", "test/2"), false},
		{"user agent: none", []string{BindUserAgent}, at("192.0.2.7", ""), false},
		{"address: the same", []string{BindIP}, at("192.0.2.7", "other"), true},
		{"address: the same, mapped", []string{BindIP}, at("::ffff:192.0.2.7", "other"), true},
		{"address: another", []string{BindIP}, at("192.0.2.8", "test/1"), false},
		{"address: none", []string{BindIP}, at("", "test/1"), false},
		{"both: the same", []string{BindUserAgent, BindIP}, home, true},
		{"both: another user agent", []string{BindUserAgent, BindIP}, at("192.0.2.7", "test/2"), false},
		{"both: another address", []string{BindUserAgent, BindIP}, at("192.0.2.8", "test/1"), false},
		{"both: as if one were the other", []string{BindUserAgent, BindIP}, at("", "test/1192.0.2.7"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := newMechanisms(t, func(m *mechanisms) { m.refreshOptions.Bind = test.bind })
			s := m.signIn(t, "alice")
			used := s.refresh
			s.refresh = m.wantRotated(t, s.refresh) // from home; the binding does not change
			rotation, err := m.refresh.Rotate(t.Context(), s.refresh, &test.other)
			if test.good {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				s.refresh = rotation.Token
			} else {
				wantRejected(t, auth.DetailBadRefresh, "used by another device")(nil, err)
			}
			m.wantAlive(t, s)
			m.clock.advance(testLeeway + 1)
			_, err = m.refresh.Rotate(t.Context(), used, &test.other)
			if reuse := (*ReuseError)(nil); !errors.As(err, &reuse) {
				t.Errorf("a stolen token from there: got %v, want a ReuseError", err)
			}
			m.wantDead(t, s)
			unbound := newMechanisms(t, nil)
			older := unbound.signIn(t, "alice")
			unbound.refreshOptions.Bind = test.bind
			if len(test.bind) > 0 {
				unbound.reloaded(t, alice()).wantBadRefresh(t, older.refresh, "used by another device")
			}
		})
	}
}

// Of several concurrent calls with one token exactly one succeeds. The login stays.
func TestConcurrentRotations(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	for range 5 {
		s.refresh = m.race(t, s.refresh, 50)
	}
	m.wantAlive(t, s)
}

// race rotates one token n times at the same time, and returns the next token.
func (m *mechanisms) race(t *testing.T, token string, n int) string {
	t.Helper()
	var (
		start   = make(chan struct{})
		callers sync.WaitGroup
		mu      sync.Mutex
		next    []string
	)
	for range n {
		callers.Go(func() {
			<-start
			rotation, err := m.rotate(t, token)
			mu.Lock()
			defer mu.Unlock()
			var rejection *auth.Rejection
			switch {
			case err == nil:
				next = append(next, rotation.Token)
			case !errors.As(err, &rejection) || rejection.Detail != auth.DetailBadRefresh:
				t.Errorf("a call that lost got %v", err)
			}
		})
	}
	close(start)
	callers.Wait()
	if len(next) != 1 {
		t.Fatalf("%d of %d calls succeeded, want one", len(next), n)
	}
	return next[0]
}

// When a rotation and the end of its login are concurrent, the login is invalid afterwards.
func TestRotationsMeetTheEnd(t *testing.T) {
	t.Parallel()
	for range 100 {
		m := newMechanisms(t, nil)
		s := m.signIn(t, "alice")
		var both sync.WaitGroup
		both.Go(func() {
			rotation, err := m.rotate(t, s.refresh)
			if err == nil {
				s.refresh = rotation.Token
			} else if !errors.Is(err, auth.ErrRejected) {
				t.Errorf("rotating: %v", err)
			}
		})
		both.Go(func() {
			if _, err := m.logins.End(t.Context(), s.login.ID); err != nil {
				t.Errorf("ending: %v", err)
			}
		})
		both.Wait()
		m.wantDead(t, s)
	}
}
