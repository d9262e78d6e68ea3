package login

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/store/record"
	"authgate/internal/test/must"
	"authgate/internal/test/scripttest"
	"authgate/policy"
)

func TestSessionRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	must.Get(r.bySession(t, s))(t)
	raw := []byte(decoded(t, s.session))
	for _, id := range []string{
		base64url(randomBytes(32)), base64url(raw[:31]), base64url(append(raw, 0)),
		base64.URLEncoding.EncodeToString(raw), loosen(t, s.session),
		record.Hash(raw), SessionPrefix + record.Hash(raw), s.login.ID, s.refresh, `"` + s.session + `"`,
		s.session[:20] + "\n" + s.session[20:], s.session[:20] + "\n" + s.session[21:], strings.Repeat("A", 1<<20),
	} {
		r.wantOut(t, &signedIn{session: id})
		if sid, err := r.session.LoginOf(t.Context(), &auth.Credentials{Session: id}); sid != "" ||
			!errors.Is(err, auth.ErrRejected) {
			t.Errorf("LoginOf %.50q: got %q, %v, want it rejected", id, sid, err)
		}
	}
	for _, creds := range []*auth.Credentials{
		{}, {Delegated: s.session}, {Scheme: "bearer", Value: s.session}, {Access: s.session},
	} {
		id, err := r.session.Authenticate(t.Context(), creds)
		wantNothing(t, id, err)
	}
}

// A warm session is looked up again when the store holds another record.
func TestWarmSessionSeesWhatOthersWrote(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, other := r.signIn(t, "alice"), r.signIn(t, "bob")
	want := func(username, sid string) {
		t.Helper()
		if id, err := r.bySession(t, s); err != nil || id.Username != username || id.Login != sid {
			t.Errorf("got %+v, %v, want %s by the login %s", id, err, username, sid)
		}
	}
	want("alice", s.login.ID)
	gives := func(s, other *signedIn) { // s's session to the other login
		t.Helper()
		restore(t, r.store, s.login.Handles[0], func(r *sessionRecord) { r.Login = other.login.ID })
		r.wantOut(t, &signedIn{session: s.session, delegated: s.delegated}) // which does not name it
		restore(t, r.store, loginPrefix+other.login.ID, func(l *Login) { l.Handles = append(l.Handles, s.login.Handles[0]) })
	}
	gives(s, other)
	want("bob", other.login.ID)
	restore(t, r.store, loginPrefix+other.login.ID, func(l *Login) { l.Username, l.Version = "alice", s.login.Version })
	want("alice", other.login.ID)
	for _, mechanism := range []policy.Mechanism{policy.OIDC, policy.Bearer, policy.None, ""} {
		restore(t, r.store, s.login.Handles[0], func(r *sessionRecord) { r.Mechanism = mechanism })
		r.wantOut(t, &signedIn{session: s.session})
	}

	s, other = r.signInAt(t, r.grant("user")), r.signInAt(t, r.grant("user"))
	r.wantIn(t, s, "user")
	restore(t, r.store, userPrefix+"keycloak:"+testPerson, func(u *user) { u.Profile.Roles = []string{"auditor"} })
	r.wantIn(t, s, "auditor")
	for _, change := range []func(*user){
		func(u *user) { u.Issuer = "https://id.example.net" }, func(u *user) { u.Profile.Subject = "1" },
	} {
		before := *stored[user](t, r.store, userPrefix+"keycloak:"+testPerson)
		restore(t, r.store, userPrefix+"keycloak:"+testPerson, change)
		r.wantOut(t, s)
		r.instance(t).wantOut(t, s)
		restore(t, r.store, userPrefix+"keycloak:"+testPerson, func(u *user) { *u = before })
	}
	gives(s, other)
	r.wantIn(t, &signedIn{login: other.login, delegated: s.delegated}, "auditor")
	restore(t, r.store, loginPrefix+other.login.ID, func(l *Login) { l.Delegated.User = "somebody else" })
	r.wantOut(t, s)
	must.Do(t, r.store.Delete(t.Context(), userPrefix+"keycloak:"+testPerson))
	restore(t, r.store, loginPrefix+other.login.ID, func(l *Login) { l.Delegated.User = testPerson })
	r.wantOut(t, s)
	restore(t, r.store, loginPrefix+other.login.ID, func(l *Login) { l.Delegated = nil })
	r.wantOut(t, s)
}

// requests plays scripts with one session; see steps.
type requests struct {
	*rig
	s     *signedIn
	notes int // how often the time of a request was written, or that was tried
}

// calls returns the calls of the store since it was last called.
func (r *requests) calls() []string {
	synctest.Wait() // for the write
	calls := r.store.TakeCalls()
	for _, call := range calls {
		if strings.HasPrefix(call, "swap "+SessionPrefix) {
			r.notes++
		}
	}
	return calls
}

func (r *requests) alive(t *testing.T) (*policy.Identity, error) {
	r.calls()
	id, err := r.session.Alive(t.Context(), &auth.Credentials{Session: r.s.session})
	synctest.Wait()
	r.store.WantReads(t)
	return id, err
}

func (r *requests) steps(t *testing.T) scripttest.Steps {
	in := func(args []string, prove func() (*policy.Identity, error)) {
		t.Helper()
		scripttest.Repeat(t, args, func(before time.Duration) {
			r.clock.Advance(before)
			if id, err := prove(); err != nil || id.Login != r.s.login.ID {
				t.Fatalf("got %+v, %v", id, err)
			}
			r.calls()
		})
	}
	ended := wantRejected(t, auth.DetailSessionEnded, "expired session")
	reload := func(changes ...func(*rig)) {
		r.calls()
		r.rig = r.instance(t, changes...)
	}
	return scripttest.Steps{
		// A request, or Alive, finds the session valid: once, or N times with TIME before each. Alive only reads.
		"in":    func(args []string) { in(args, func() (*policy.Identity, error) { return r.bySession(t, r.s) }) },
		"alive": func(args []string) { in(args, func() (*policy.Identity, error) { return r.alive(t) }) },
		// A request, or Alive, is rejected. The refresh token is valid.
		"out":     func([]string) { ended(r.bySession(t, r.s)) },
		"dead":    func([]string) { ended(r.alive(t)) },
		"refresh": func([]string) { must.Get(r.rotate(t, r.s.refresh))(t) },
		"wait":    func(args []string) { r.clock.Advance(scripttest.Duration(t, args)) },
		"notes": func(args []string) {
			if r.calls(); r.notes != scripttest.Number(t, args) {
				t.Errorf("%d times of requests were written", r.notes)
			}
		},
		// The configuration changes, or another instance is used.
		"idle":     func(args []string) { reload(func(r *rig) { r.sessionOptions.Idle = scripttest.Duration(t, args) }) },
		"lifetime": func(args []string) { reload(func(r *rig) { r.sessionOptions.Lifetime = scripttest.Duration(t, args) }) },
		"restart":  func([]string) { reload() },
		// The store keeps the record for ever; it holds an older time; its calls fail.
		"keep": func([]string) { restore(t, r.store, r.s.login.Handles[0], func(*sessionRecord) {}) },
		"old": func([]string) {
			restore(t, r.store, r.s.login.Handles[0], func(s *sessionRecord) { s.Seen = s.Created })
		},
		"fails": func(args []string) { r.store.Fails(args[0]) },
	}
}

func TestSessionTimes(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a session ends at the time in its record": `
			in; wait 30m; in; wait 29m59.999999999s; in; wait 1ns; out; dead; refresh; notes 2`,
		"the store keeps it longer":        `keep; in; wait 30m; in; wait 29m59.999999999s; in; wait 1ns; out; refresh`,
		"a shorter lifetime counts":        `lifetime 10m; wait 9m59.999999999s; in; wait 1ns; out`,
		"a longer lifetime does not count": `keep; lifetime 2h; wait 59m59.999999999s; in; wait 1ns; out`,

		// Without an idle timeout a time is stored after five minutes, for the overview.
		"used within five minutes":        `wait 4m59.999999999s; in; in; notes 0`,
		"used after five minutes":         `wait 5m; in; in; wait 4m59.999999999s; in; notes 1; wait 1ns; in; notes 2`,
		"Alive is no use":                 `wait 10m; alive; notes 0`,
		"a use that fails is tried again": `fails swap; in 3 5m; notes 3`,

		// Without a request for 8 minutes a session ends. A time is stored after one minute.
		"never used":                           `idle 8m; wait 8m; out; notes 0`,
		"just in time":                         `idle 8m; wait 7m59.999999999s; in; notes 1`,
		"used a little, then too late":         `idle 8m; wait 1s; in; wait 8m; out; notes 0`,
		"used a little, then in time":          `idle 8m; wait 1s; in; wait 7m59.999999999s; in; notes 1`,
		"used just before the time of a note":  `idle 8m; wait 59.999999999s; in; wait 8m; out; notes 0`,
		"used at the time of a note":           `idle 8m; wait 1m; in; wait 8m; out; notes 1`,
		"used between notes, then in time":     `idle 8m; wait 1m; in; wait 1s; in; wait 7m59.999999999s; in; notes 2`,
		"used often":                           `idle 8m; in 60 20s; notes 20`,
		"used until the absolute end":          `idle 8m; in 8 7m; wait 4m; out; notes 8`,
		"Alive is no activity":                 `idle 8m; in; alive 7 1m; wait 1m; dead; notes 0`,
		"a stored time counts after a restart": `idle 8m; wait 5m; in; wait 5m; restart; in; notes 2`,
		"an older time in the store is no harm": `
			idle 8m; wait 5m; in; wait 5m; in; old; wait 7m59.999999999s; in; wait 8m; restart; out`,
		"a note that fails is tried again": `idle 8m; fails swap; in 4 5m; notes 4`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &requests{rig: newRig(t)}
				r.s = r.signIn(t, "alice")
				scripttest.Play(t, text, r.steps(t), synctest.Wait)
			})
		})
	}
}

// A write does not restore a session that has ended.
func TestNoteOfAnEndedSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.sessionOptions.Idle = 8 * time.Minute })
		s := r.signIn(t, "alice")
		ready := must.Get(r.session.useSession(t.Context(), s.session, ""))(t)
		r.end(t, s)
		r.session.touch(ready, r.now().Add(5*time.Minute))
		synctest.Wait()
		r.wantRecords(t, SessionPrefix, 0)
		r.wantOut(t, s)
	})
}
