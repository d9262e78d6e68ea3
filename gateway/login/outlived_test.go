package login

import (
	"errors"
	"strings"
	"testing"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/internal/test/must"
)

// A session that has ended by time is told so for a day, at its own host, on each instance. One
// that has ended otherwise, and a value that never was a session, are unknown: also after the time
// at which the session would have ended.
func TestOutlived(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	timed, left, changed := r.signIn(t, "alice"), r.signIn(t, "alice"), r.signIn(t, "bob")
	cold := r.signIn(t, "alice")
	r.wantIn(t, timed)
	r.wantIn(t, left)
	must.Get(r.logins.End(t.Context(), left.login.ID))(t)
	must.Get(r.logins.End(t.Context(), changed.login.ID))(t)
	r.wantOut(t, &signedIn{session: left.session})
	elsewhere := func() {
		t.Helper()
		_, err := r.session.Authenticate(t.Context(),
			&auth.Credentials{Session: timed.session, Scope: "elsewhere.example"})
		wantRejected(t, auth.DetailNotSignedIn, "unknown, expired or ended session")(nil, err)
	}
	elsewhere()
	r.clock.Advance(time.Hour)
	for range 2 { // as the session ends, and just before the day is over
		for _, at := range []*rig{r, r.instance(t)} {
			at.wantExpired(t, &signedIn{session: timed.session})
			at.wantExpired(t, &signedIn{session: cold.session})
			for _, unknown := range []string{left.session, changed.session, strings.Repeat("A", 43), "A"} {
				at.wantOut(t, &signedIn{session: unknown})
				if at.logins.EndedByTime(t.Context(), auth.Trace(unknown), "") {
					t.Errorf("the trace of %s tells of an end by time", unknown)
				}
			}
			for scope, want := range map[string]bool{"": true, "elsewhere.example": false} {
				if got := at.logins.EndedByTime(t.Context(), auth.Trace(timed.session), scope); got != want {
					t.Errorf("the trace tells of an end by time at %q: %v", scope, got)
				}
			}
		}
		elsewhere()
		r.clock.Advance(auth.TraceLifetime - 1)
	}
	r.wantOut(t, &signedIn{session: timed.session})
}

// A session that is not there is none, although the store cannot tell why: another node of a cluster
// may have that record.
func TestGoneWithoutReason(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	must.Get(r.logins.End(t.Context(), s.login.ID))(t)
	r.store.Fails("get outlived")
	r.wantOut(t, &signedIn{session: s.session})
}

// A store that does not tell whether there is a session does not make it unknown.
func TestOutlivedIsNotGuessed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	r.clock.Advance(time.Hour)
	r.store.Fails("get")
	if _, err := r.bySession(t, s); err == nil || errors.Is(err, auth.ErrRejected) {
		t.Errorf("got %v, want the error of the store", err)
	}
}
