package login

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
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
	ends := m.clock.Now().Add(7 * 24 * time.Hour)
	if got := m.refresh.Expires(m.clock.Now()); !got.Equal(ends) {
		t.Errorf("Expires is %v", got)
	}
	seen := map[string]bool{s.refresh: true}
	token := s.refresh
	for range 50 {
		m.clock.Advance(time.Minute)
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
	must(m.bySession(t, s.session))(t)
}

// rotations runs steps with the refresh tokens of one login, separated by semicolons. The
// tokens are numbered from 0. a and b are instances; steps are at a until "at b".
//
//	rotate [N TIME]     the newest token is rotated, N times with TIME after each
//	good, used, ended, expired N   the rotation of a token: succeeds, is a second use within
//	                    the leeway, or is rejected because the login has ended or expired
//	stolen N            the login is alive, the token counts as stolen, and the login has ended
//	unknown N           there is no answer
//	alive               all handles of the login are valid; the newest token is rotated
//	wait, leeway TIME   time passes; another leeway is configured
//	keep                the store keeps the records for ever
//	stale [always]      b reads the present family until it writes, or always
//	fails CALLS         calls of b or a fail
type rotations struct {
	t        *testing.T
	a, b, m  *mechanisms
	s, other *signedIn
	tokens   []string
}

func newRotations(t *testing.T) *rotations {
	r := &rotations{t: t, a: newMechanisms(t, func(m *mechanisms) {
		m.sessionOptions.Lifetime, m.bearerOptions.Lifetime = 30*24*time.Hour, 30*24*time.Hour
	})}
	r.b = newMechanisms(t, func(m *mechanisms) {
		m.clock, m.keys, m.store, m.sessionOptions, m.bearerOptions = r.a.clock, r.a.keys, &recordingStore{Store: r.a.store}, r.a.sessionOptions, r.a.bearerOptions
	})
	r.m, r.s, r.other = r.a, r.a.signIn(t, "alice"), r.a.signIn(t, "alice")
	r.tokens = []string{r.s.refresh}
	return r
}

func (r *rotations) add(token string) {
	r.tokens, r.s.refresh = append(r.tokens, token), token
}

func (r *rotations) duration(arg string) time.Duration { return must(time.ParseDuration(arg))(r.t) }

func (r *rotations) step(verb, arg string) {
	r.t.Helper()
	token, args := r.s.refresh, strings.Fields(arg)
	if len(args) == 1 {
		if n, err := strconv.Atoi(args[0]); err == nil {
			token = r.tokens[n]
		}
	}
	switch verb {
	case "rotate":
		n, apart := 1, time.Duration(0)
		if len(args) > 0 {
			n, apart = must(strconv.Atoi(args[0]))(r.t), r.duration(args[1])
		}
		for range n {
			r.add(r.m.wantRotated(r.t, r.s.refresh))
			r.a.clock.Advance(apart)
		}
	case "good":
		r.add(r.m.wantRotated(r.t, token))
	case "used":
		r.m.wantBadRefresh(r.t, token, "used again within the leeway")
	case "ended":
		r.m.wantBadRefresh(r.t, token, "its login has ended")
	case "expired":
		r.m.wantBadRefresh(r.t, token, "expired")
	case "stolen":
		r.stolen(token)
	case "unknown":
		r.m.store.takeCalls()
		_, err := r.m.rotate(r.t, token)
		wantNoAnswer(r.t)(nil, err)
		if calls := len(r.m.store.takeCalls()); calls > 3*maxStaleReads {
			r.t.Errorf("the store was asked %d times", calls)
		}
	case "alive":
		r.m.wantAlive(r.t, r.s)
		r.add(r.s.refresh)
	case "wait":
		r.a.clock.Advance(r.duration(arg))
	case "leeway":
		r.a.refreshOptions.Leeway = r.duration(arg)
		r.m = r.a.reloaded(r.t, alice(), bob())
	case "keep":
		restore(r.t, r.a.store, r.s.login.Handles[1], func(*family) {})
		restore(r.t, r.a.store, loginPrefix+r.s.login.ID, func(*Login) {})
	case "stale":
		r.b.store.always = len(args) > 0
		r.b.store.freeze(r.t, r.s.login.Handles[1])
	case "fails":
		r.m.store.fails(arg)
	case "at":
		r.m = map[string]*mechanisms{"a": r.a, "b": r.b}[arg]
	default:
		r.t.Fatal("no such step")
	}
}

func (r *rotations) stolen(token string) {
	r.t.Helper()
	if _, err := r.m.bySession(r.t, r.s.session); err != nil {
		r.t.Errorf("before the reuse: %v", err)
	}
	if _, err := r.m.byToken(r.t, r.s.access); err != nil {
		r.t.Errorf("before the reuse: %v", err)
	}
	reuse := r.m.wantReuse(r.t, token)
	if reuse.Login == nil || reuse.Login.ID != r.s.login.ID || reuse.Login.Subject() != "local:alice" {
		r.t.Errorf("got %+v, want the login that ended", reuse.Login)
	}
	r.m.wantDead(r.t, r.s)
	r.m.wantBadRefresh(r.t, token, "its login has ended")
	r.m.wantAlive(r.t, r.other)
}

func TestUsedRefreshTokens(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		// A second use within the leeway is a race within the client: the login stays. The
		// leeway counts from the rotation, not from the last use.
		"within the leeway": `rotate; used 0; wait 5s; rotate; used 0; used 1; wait 5s; used 0; alive; wait 1ns; stolen 0`,

		"one nanosecond later":    `rotate; wait 10.000000001s; stolen 0`,
		"no leeway":               `leeway 0s; rotate; wait 1ns; stolen 0`,
		"an older token":          `rotate 2 1s; wait 10s; stolen 0`,
		"an ancient token":        `rotate 40 1h; stolen 0`,
		"a token days old":        `rotate 3 24h; stolen 0`,
		"after many rotations":    fmt.Sprintf(`leeway 1h; rotate %d 1s; stolen 0`, maxRotations+1),
		"the client was far away": `rotate; wait 144h; stolen 0`,

		// If the store fails, a reuse is no answer, and it is found by the next call.
		"the store fails": `rotate; wait 10.000000001s; fails swap refresh:; unknown 0; fails; alive; fails take login:; unknown 0; fails; alive; stolen 0`,

		// Rotation does not extend the life of the family, and the store need not end it.
		"the family expires":         `rotate 167 1h; wait 59m59.999999999s; rotate; wait 1ns; ended 168`,
		"the store keeps the family": `keep; wait 167h59m59.999999999s; rotate; keep; wait 1ns; expired 1`,

		// b has not seen the rotations of a. It accepts a valid token and finds a stolen one.
		"elsewhere, the newest":           `stale; rotate; at b; good 1; good 2`,
		"elsewhere, the newest of many":   `stale; rotate 5 0s; wait 1h; at b; good 5; good 6`,
		"elsewhere, used just now":        `stale; rotate 2 0s; wait 10s; at b; used 1; good 2`,
		"elsewhere, stolen":               `stale; rotate 2 0s; wait 10.000000001s; at b; stolen 1; ended 2`,
		"elsewhere, stolen, before a lot": fmt.Sprintf(`stale; rotate %d 0s; at b; stolen 1; ended %[1]d`, maxRotations+2),
		// If reads stay stale, there is no answer and nothing ends.
		"elsewhere, for ever": `
			stale; rotate; at b; fails swap refresh:; unknown 1; fails; stale always; at a; rotate; at b; unknown 2; at a; alive; rotate`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRotations(t)
			eachStep(t, text, r.step)
		})
	}
}

// A token that was never issued ends no login, however similar it is.
func TestForgedRefreshTokensEndNothing(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s := m.signIn(t, "alice")
	used := s.refresh
	s.refresh = m.wantRotated(t, s.refresh)
	m.clock.Advance(testLeeway + 1)
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
			m.clock.Advance(testLeeway + 1)
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
