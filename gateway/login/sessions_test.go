package login

import (
	"encoding/base64"
	"errors"
	"strconv"
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
	must(m.bySession(t, s.session))(t)
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

// requests runs steps with one session, separated by semicolons.
//
//	in [N TIME]         a request finds the session valid, N times with TIME before each
//	alive [N TIME]      so does Alive, which writes nothing
//	out, dead           a request, or Alive, is rejected
//	refresh             the refresh token is valid
//	wait TIME           time passes
//	notes N             until now, N times of requests were written, or it was tried
//	idle, lifetime TIME the configuration changes; restart: another instance is used
//	keep                the store keeps the record for ever; old: and holds an older time
//	fails CALLS         calls of the store fail
type requests struct {
	t     *testing.T
	m     *mechanisms
	s     *signedIn
	notes int
}

// calls returns the calls of the last step.
func (r *requests) calls() []string {
	synctest.Wait() // for the write
	calls := r.m.store.takeCalls()
	for _, call := range calls {
		if strings.HasPrefix(call, "swap "+SessionPrefix) {
			r.notes++
		}
	}
	return calls
}

func (r *requests) prove(verb string) (*policy.Identity, error) {
	creds := &auth.Credentials{Session: r.s.session}
	if verb == "in" || verb == "out" {
		return r.m.session.Authenticate(r.t.Context(), creds)
	}
	id, err := r.m.session.Alive(r.t.Context(), creds)
	for _, call := range r.calls() {
		if !strings.HasPrefix(call, "get ") {
			r.t.Errorf("Alive does %q", call)
		}
	}
	return id, err
}

func (r *requests) step(verb, arg string) {
	r.t.Helper()
	arg, each, _ := strings.Cut(arg, " ")
	duration := func() time.Duration { return must(time.ParseDuration(arg))(r.t) }
	switch verb {
	case "in", "alive":
		n, d := 1, time.Duration(0)
		if each != "" {
			n, d = must(strconv.Atoi(arg))(r.t), must(time.ParseDuration(each))(r.t)
		}
		for range n {
			r.m.clock.Advance(d)
			if id, err := r.prove(verb); err != nil || id.Login != r.s.login.ID {
				r.t.Fatalf("got %+v, %v", id, err)
			}
			r.calls()
		}
	case "out", "dead":
		wantRejected(r.t, auth.DetailNotSignedIn, "unknown, expired or ended session")(r.prove(verb))
	case "refresh":
		must(r.m.rotate(r.t, r.s.refresh))(r.t)
	case "wait":
		r.m.clock.Advance(duration())
	case "notes":
		if got := strconv.Itoa(r.notes); got != arg {
			r.t.Errorf("%s notes", got)
		}
	case "idle":
		r.m.sessionOptions.Idle = duration()
		r.m = r.m.reloaded(r.t, alice())
	case "lifetime":
		r.m.sessionOptions.Lifetime = duration()
		r.m = r.m.reloaded(r.t, alice())
	case "restart":
		r.m = r.m.reloaded(r.t, alice())
	case "keep":
		restore(r.t, r.m.store, r.s.login.Handles[0], func(*sessionRecord) {})
	case "old":
		restore(r.t, r.m.store, r.s.login.Handles[0], func(s *sessionRecord) { s.Seen = s.Created })
	case "fails":
		r.m.store.fails(arg)
	default:
		r.t.Fatal("no such step")
	}
	r.calls()
}

func TestSessionTimes(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a session ends at the time in its record": `in; wait 30m; in; wait 29m59.999999999s; in; wait 1ns; out; dead; refresh; notes 0`,
		"the store keeps it longer":                `keep; in; wait 30m; in; wait 29m59.999999999s; in; wait 1ns; out; refresh`,
		"a shorter lifetime counts":                `lifetime 10m; wait 9m59.999999999s; in; wait 1ns; out`,
		"a longer lifetime does not count":         `keep; lifetime 2h; wait 59m59.999999999s; in; wait 1ns; out`,

		// Without a request for 8 minutes a session ends. A time is stored after one minute.
		"never used":                            `idle 8m; wait 8m; out; notes 0`,
		"just in time":                          `idle 8m; wait 7m59.999999999s; in; notes 1`,
		"used a little, then too late":          `idle 8m; wait 1s; in; wait 8m; out; notes 0`,
		"used a little, then in time":           `idle 8m; wait 1s; in; wait 7m59.999999999s; in; notes 1`,
		"used just before the time of a note":   `idle 8m; wait 59.999999999s; in; wait 8m; out; notes 0`,
		"used at the time of a note":            `idle 8m; wait 1m; in; wait 8m; out; notes 1`,
		"used between notes, then in time":      `idle 8m; wait 1m; in; wait 1s; in; wait 7m59.999999999s; in; notes 2`,
		"used often":                            `idle 8m; in 60 20s; notes 20`,
		"used until the absolute end":           `idle 8m; in 8 7m; wait 4m; out; notes 8`,
		"Alive is no activity":                  `idle 8m; in; alive 7 1m; wait 1m; dead; notes 0`,
		"a stored time counts after a restart":  `idle 8m; wait 5m; in; wait 5m; restart; in; notes 2`,
		"an older time in the store is no harm": `idle 8m; wait 5m; in; wait 5m; in; old; wait 7m59.999999999s; in; wait 8m; restart; out`,
		"a note that fails is tried again":      `idle 8m; fails swap; in 4 5m; notes 4`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMechanisms(t, nil)
				r := &requests{t: t, m: m, s: m.signIn(t, "alice")}
				eachStep(t, text, r.step)
			})
		})
	}
}

// A write does not restore a session that has ended.
func TestNoteOfAnEndedSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMechanisms(t, func(m *mechanisms) { m.sessionOptions.Idle = 8 * time.Minute })
		s := m.signIn(t, "alice")
		ready := must(m.session.find(t.Context(), s.session))(t)
		synctest.Wait()
		must(m.logins.End(t.Context(), s.login.ID))(t)
		m.session.touch(ready, m.clock.Now().Add(5*time.Minute))
		synctest.Wait()
		if raw, err := m.store.Get(t.Context(), s.login.Handles[0]); err == nil {
			t.Errorf("a late note brought the session back: %s", raw)
		}
		m.wantDead(t, s)
	})
}
