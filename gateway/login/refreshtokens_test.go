package login

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/rotation"
	"authgate/internal/test/must"
	"authgate/internal/test/scripttest"
	"authgate/internal/test/storetest"
)

// wantRotated rotates the token and returns the next.
func (r *rig) wantRotated(tb testing.TB, token string) string {
	tb.Helper()
	return must.Get(r.rotate(tb, token))(tb).Token
}

// wantBadRefresh fails the test unless the token is rejected and not treated as stolen.
func (r *rig) wantBadRefresh(tb testing.TB, token, reason string) {
	tb.Helper()
	rotation, err := r.rotate(tb, token)
	var reuse *ReuseError
	if rotation != nil || errors.As(err, &reuse) {
		tb.Errorf("got %+v, %v, want it rejected and not taken for stolen", rotation, err)
		return
	}
	wantRejected(tb, auth.DetailBadRefresh, reason)(nil, err)
}

// wantReuse fails the test unless the token of that device is treated as stolen, and the
// login has ended.
func (r *rig) wantReuse(tb testing.TB, s *signedIn, token string, device *auth.Credentials) {
	tb.Helper()
	rotation, err := r.refresh.Rotate(tb.Context(), token, device)
	var reuse *ReuseError
	if rotation != nil || !errors.As(err, &reuse) || !errors.Is(err, auth.ErrRejected) {
		tb.Fatalf("got %+v, %v, want a ReuseError", rotation, err)
	}
	if reuse.Login == nil || reuse.Login.ID != s.login.ID || reuse.Login.Subject() != "local:alice" {
		tb.Errorf("got %+v, want the login that ended", reuse.Login)
	}
	r.wantOut(tb, s)
}

func TestRotate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	ends := r.now().Add(7 * 24 * time.Hour)
	if got := r.refresh.Expires(s.login); !got.Equal(ends) {
		t.Errorf("Expires is %v, want %v", got, ends)
	}
	token := s.refresh
	for range 3 {
		r.clock.Advance(time.Minute)
		rotation := must.Get(r.rotate(t, token))(t)
		if rotation.Login.ID != s.login.ID || rotation.Account.Username != "alice" ||
			!rotation.Expires.Equal(ends) || rotation.Token == token {
			t.Fatalf("got %+v, want another token of alice's login until %v", rotation, ends)
		}
		token = rotation.Token
		if sid, err := r.refresh.LoginOf(t.Context(), token); err != nil || sid != s.login.ID {
			t.Fatalf("LoginOf: got %q, %v, want %q", sid, err, s.login.ID)
		}
	}
	if f := stored[family](t, r.store, s.login.Handles[1]); len(f.Rotated) != 1 {
		t.Errorf("got %+v, want the last rotation alone, because the others were before the leeway", f)
	}
	must.Get(r.bySession(t, s))(t)
}

// rotations plays scripts with the refresh tokens of one login; see steps. The tokens are
// numbered from 0.
type rotations struct {
	a, b     *rig // instances
	*rig          // the one that is used
	s, other *signedIn
	tokens   []string
}

func newRotations(t *testing.T) *rotations {
	r := &rotations{a: newRig(t, func(r *rig) {
		r.sessionOptions.Lifetime, r.bearerOptions.Lifetime = 30*24*time.Hour, 30*24*time.Hour
	})}
	r.rig, r.b = r.a, r.a.instance(t, func(r *rig) { r.store = &storetest.Recorder{Store: r.store} })
	r.s, r.other = r.a.signIn(t, "alice"), r.a.signIn(t, "alice")
	r.tokens = []string{r.s.refresh}
	return r
}

func (r *rotations) add(token string) { r.tokens, r.s.refresh = append(r.tokens, token), token }

func (r *rotations) steps(t *testing.T) scripttest.Steps {
	token := func(args []string) string { return r.tokens[scripttest.Number(t, args)] }
	return scripttest.Steps{
		// The newest token is rotated: once, or N times with TIME before each.
		"rotate": func(args []string) {
			scripttest.Repeat(t, args, func(before time.Duration) {
				r.clock.Advance(before)
				r.add(r.wantRotated(t, r.s.refresh))
			})
		},
		// The rotation of token N succeeds, is a second use within the leeway, or is rejected
		// because the login has ended or expired.
		"good":    func(args []string) { r.add(r.wantRotated(t, token(args))) },
		"used":    func(args []string) { r.wantBadRefresh(t, token(args), "used again within the leeway") },
		"ended":   func(args []string) { r.wantBadRefresh(t, token(args), "its login has ended") },
		"expired": func(args []string) { r.wantBadRefresh(t, token(args), "expired") },
		// The login is alive, token N counts as stolen, and the login has ended.
		"stolen": func(args []string) {
			r.wantIn(t, &signedIn{login: r.s.login, session: r.s.session, access: r.s.access})
			r.wantReuse(t, r.s, token(args), testDevice)
			r.wantBadRefresh(t, token(args), "its login has ended")
			r.wantIn(t, r.other)
		},
		// There is no answer about token N, after a few calls of the store.
		"unknown": func(args []string) {
			r.store.TakeCalls()
			_, err := r.rotate(t, token(args))
			wantNoAnswer(t)(nil, err)
			if calls := len(r.store.TakeCalls()); calls > 3*rotation.MaxReads {
				t.Errorf("the store was asked %d times", calls)
			}
		},
		// All handles of the login are valid; the newest token is rotated.
		"alive": func([]string) {
			r.wantIn(t, r.s)
			r.add(r.s.refresh)
		},
		"wait": func(args []string) { r.clock.Advance(scripttest.Duration(t, args)) },
		"leeway": func(args []string) {
			r.rig = r.a.instance(t, func(r *rig) { r.refreshOptions.Leeway = scripttest.Duration(t, args) })
		},
		// The store keeps the records for ever.
		"keep": func([]string) {
			restore(t, r.a.store, r.s.login.Handles[1], func(*family) {})
			restore(t, r.a.store, loginPrefix+r.s.login.ID, func(*Login) {})
		},
		// b reads the present family until it writes, or always. Calls of the instance fail. Another one is used.
		"stale": func(args []string) {
			r.b.store.Always = len(args) > 0
			r.b.store.Freeze(t, r.s.login.Handles[1])
		},
		"fails": func(args []string) { r.store.Fails(strings.Join(args, " ")) },
		"at":    func(args []string) { r.rig = map[string]*rig{"a": r.a, "b": r.b}[args[0]] },
	}
}

func TestUsedRefreshTokens(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		// A second use within the leeway is a race within the client: the login stays. The
		// leeway counts from the rotation, not from the last use.
		"within the leeway": `rotate; used 0; wait 5s; rotate; used 0; used 1; wait 5s; used 0; alive; wait 1ns; stolen 0`,

		"one nanosecond later":    `rotate; wait 10.000000001s; stolen 0`,
		"no leeway":               `leeway 0s; rotate; wait 1ns; stolen 0`,
		"an older token":          `rotate 2 1s; wait 11s; stolen 0`,
		"an ancient token":        `rotate 40 1h; stolen 0`,
		"after many rotations":    fmt.Sprintf(`leeway 1h; rotate %d 1s; stolen 0`, rotation.MaxReplaced+1),
		"the client was far away": `rotate; wait 144h; stolen 0`,

		// If the store fails, a reuse is no answer, and it is found by the next call.
		"the store fails": `rotate; wait 10.000000001s; fails swap refresh:; unknown 0; fails; alive;
			fails remove login:; unknown 0; fails; alive; stolen 0`,

		// Rotation does not extend the life of the family, and the store need not end it.
		"the family expires":         `rotate 167 1h; wait 59m59.999999999s; rotate; wait 1ns; ended 168`,
		"the store keeps the family": `keep; wait 167h59m59.999999999s; rotate; keep; wait 1ns; expired 1`,

		// b has not seen the rotations of a. It accepts a valid token and finds a stolen one.
		"elsewhere, the newest":         `stale; rotate; at b; good 1; good 2`,
		"elsewhere, the newest of many": `stale; rotate 5 0s; wait 1h; at b; good 5; good 6`,
		"elsewhere, used just now":      `stale; rotate 2 0s; wait 10s; at b; used 1; good 2`,
		"elsewhere, stolen":             `stale; rotate 2 0s; wait 10.000000001s; at b; stolen 1; ended 2`,
		"elsewhere, stolen, before a lot": fmt.Sprintf(`stale; rotate %d 0s; at b; stolen 1; ended %[1]d`,
			rotation.MaxReplaced+2),
		// If reads stay stale, there is no answer and nothing ends.
		"elsewhere, for ever": `
			stale; rotate; at b; fails swap refresh:; unknown 1; fails; stale always; at a; rotate; at b;
			unknown 2; at a; alive; rotate`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scripttest.Play(t, text, newRotations(t).steps(t), func() {})
		})
	}
}

func TestRefreshBinding(t *testing.T) {
	t.Parallel()
	at := func(client, userAgent string) *auth.Credentials {
		addr, _ := netip.ParseAddr(client)
		return &auth.Credentials{Client: addr, UserAgent: userAgent}
	}
	both := []Trait{BindUserAgent, BindIP}
	for _, test := range []struct {
		name  string
		bind  []Trait
		other *auth.Credentials
		good  bool
	}{
		{"not bound", nil, at("2001:db8::1", "other"), true},
		{"user agent: the same", []Trait{BindUserAgent}, at("2001:db8::1", "test/1"), true},
		{"user agent: another", []Trait{BindUserAgent}, at("192.0.2.7", "test/2"), false},
		{"user agent: none", []Trait{BindUserAgent}, at("192.0.2.7", ""), false},
		{"address: the same, mapped", []Trait{BindIP}, at("::ffff:192.0.2.7", "other"), true},
		{"address: another", []Trait{BindIP}, at("192.0.2.8", "test/1"), false},
		{"address: none", []Trait{BindIP}, at("", "test/1"), false},
		{"both: the same", both, testDevice, true},
		{"both: another user agent", both, at("192.0.2.7", "test/2"), false},
		{"both: another address", both, at("192.0.2.8", "test/1"), false},
		{"both: as if one were the other", both, at("", "test/1192.0.2.7"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			unbound := newRig(t)
			older := unbound.signIn(t, "alice")
			r := unbound.instance(t, func(r *rig) { r.refreshOptions.Bind = test.bind })
			if len(test.bind) > 0 {
				r.wantBadRefresh(t, older.refresh, "used by another device")
			}
			s := r.signIn(t, "alice")
			used := s.refresh
			s.refresh = r.wantRotated(t, s.refresh) // from home; the binding does not change
			rotation, err := r.refresh.Rotate(t.Context(), s.refresh, test.other)
			if test.good {
				s.refresh = must.Get(rotation, err)(t).Token
			} else {
				wantRejected(t, auth.DetailBadRefresh, "used by another device")(nil, err)
			}
			r.wantIn(t, s)
			r.clock.Advance(testLeeway + 1)
			r.wantReuse(t, s, used, test.other) // a stolen token from there
		})
	}
}

// Of concurrent calls with one token the first one to write succeeds. The login stays.
func TestConcurrentRotations(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, elsewhere := r.signIn(t, "alice"), r.elsewhere(t)
	token := s.refresh
	r.store.Once("swap refresh:", func() { s.refresh = elsewhere.wantRotated(t, token) })
	r.wantBadRefresh(t, token, "another call used it first")
	r.wantIn(t, s)
}

// If the login ends at any step of a rotation, it is invalid afterwards.
func TestRotationsMeetTheEnd(t *testing.T) {
	t.Parallel()
	atEachCall(t, func(t *testing.T, r *rig, before func(func()) func() bool) {
		s, elsewhere := r.signIn(t, "alice"), r.elsewhere(t)
		ended := before(func() { elsewhere.end(t, s) })
		rotation, err := r.rotate(t, s.refresh)
		if err == nil {
			s.refresh = rotation.Token
		} else if !errors.Is(err, auth.ErrRejected) {
			t.Errorf("got %v, want it done or rejected", err)
		}
		if ended() {
			r.wantOut(t, s)
		} else {
			r.wantIn(t, s)
		}
	})
}

// A refresh token has one spelling, and a token that was never issued ends no login, however
// similar it is.
func FuzzRefreshToken(f *testing.F) {
	r := newRig(f)
	s := r.signIn(f, "alice")
	used := s.refresh
	s.refresh = r.wantRotated(f, s.refresh)
	r.clock.Advance(testLeeway + 1)
	for _, token := range []string{
		"", "x", s.session, s.access, s.login.ID, s.refresh[:106], s.refresh + "A", s.refresh + "=",
		" " + s.refresh, loosen(f, s.refresh), s.refresh[:50] + "\n" + s.refresh[50:],
		s.refresh[:50] + "\n" + s.refresh[51:], "\r\n" + s.refresh, "\n" + s.refresh[1:],
		base64url(randomBytes(80)), base64url(make([]byte, 80)), strings.Repeat("A", 1<<20),
		refreshToken{family: make([]byte, 32), generation: make([]byte, 32)}.String(), // of a family that never existed
	} {
		f.Add(token)
	}
	for _, token := range []string{s.refresh, used} {
		raw := []byte(decoded(f, token))
		f.Add(base64url(append(raw[:32:32], randomBytes(48)...)))
		f.Add(base64url(append(raw[:64:64], randomBytes(16)...)))
		for bit := 0; bit < 8*len(raw); bit += 5 {
			flipped := append([]byte{}, raw...)
			flipped[bit/8] ^= 1 << (bit % 8)
			f.Add(base64url(flipped))
		}
	}
	f.Fuzz(func(t *testing.T, token string) {
		if token == s.refresh || token == used {
			return
		}
		reason := "never issued"
		if parsed, ok := parseRefresh(token); ok {
			reason = "its login has ended"
			if parsed.String() != token {
				t.Errorf("%q and %q are one token", token, parsed)
			}
		}
		r.wantBadRefresh(t, token, reason)
		if sid, err := r.refresh.LoginOf(t.Context(), token); sid != "" || !errors.Is(err, auth.ErrRejected) {
			t.Errorf("LoginOf: got %q, %v, want it rejected", sid, err)
		}
		must.Get(r.bySession(t, s))(t)
	})
}
