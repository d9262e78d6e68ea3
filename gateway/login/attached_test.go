package login

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
	"authgate/internal/test/must"
	"authgate/policy"
)

// otherHost is a host of the gateway besides that of public_url.
const otherHost = "wiki.example"

// attach attaches a session at scope to a login.
func (r *rig) attach(tb testing.TB, s *signedIn, sessions *Sessions, scope string) (id string, err error) {
	tb.Helper()
	id, handle := sessions.New(scope)
	_, err = r.logins.Attach(tb.Context(), s.login.ID, scope, handle)
	return id, err
}

// at returns the credentials of a session at a host, of either kind.
func at(scope, session, delegated string) *auth.Credentials {
	return &auth.Credentials{Scope: scope, Session: session, Delegated: delegated}
}

// A login has sessions at many hosts. Each is valid at its own host alone, all
// end when one of them would, and all end with the login.
func TestSessionsAtOtherHosts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, begin := range map[string]func() (*signedIn, *Sessions){
		"local":     func() (*signedIn, *Sessions) { return r.signIn(t, "alice"), r.session },
		"delegated": func() (*signedIn, *Sessions) { return r.signInAt(t, r.grant("user")), r.delegated },
	} {
		s, sessions := begin()
		values := map[string]string{"": s.session + s.delegated}
		r.clock.Advance(10 * time.Minute)
		for _, host := range []string{"a.example", "b.example", "c.example"} {
			values[host] = must.Get(r.attach(t, s, sessions, host))(t)
		}
		for _, instance := range []*rig{r, r.instance(t)} {
			sessions := map[string]*Sessions{"local": instance.session, "delegated": instance.delegated}[name]
			for made, value := range values {
				for here := range values {
					creds := at(here, value, value)
					for _, prove := range []func() (*policy.Identity, error){
						func() (*policy.Identity, error) { return sessions.Authenticate(t.Context(), creds) },
						func() (*policy.Identity, error) { return sessions.Alive(t.Context(), creds) },
					} {
						id, err := prove()
						if here == made && (err != nil || id.Login != s.login.ID || !id.Expires.Equal(s.login.Created.Add(time.Hour))) {
							t.Errorf("%s at %q: %+v, %v", name, here, id, err)
						}
						if here != made && !errors.Is(err, auth.ErrRejected) {
							t.Errorf("%s of %q at %q: %+v, %v", name, made, here, id, err)
						}
					}
					sid, err := sessions.LoginOf(t.Context(), creds)
					if (here == made) != (sid == s.login.ID) || here != made && !errors.Is(err, auth.ErrRejected) {
						t.Errorf("%s of %q at %q: LoginOf %q, %v", name, made, here, sid, err)
					}
				}
			}
		}
		r.end(t, s)
		r.wantRecords(t, SessionPrefix, 0)
		for host, value := range values {
			if id, err := sessions.Authenticate(t.Context(), at(host, value, value)); !errors.Is(err, auth.ErrRejected) {
				t.Errorf("%s at %q after the end: %+v, %v", name, host, id, err)
			}
		}
		if _, err := r.attach(t, s, sessions, "d.example"); !errors.Is(err, journey.ErrNoTicket) {
			t.Errorf("%s: a session was attached to a login that has ended: %v", name, err)
		}
		r.wantRecords(t, SessionPrefix, 0)
	}
}

// A session cannot be attached when those of the login are over, though the login
// goes on by its refresh token.
func TestAttachToOldLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	r.clock.Advance(time.Hour)
	if _, err := r.attach(t, s, r.session, otherHost); !errors.Is(err, journey.ErrNoTicket) {
		t.Errorf("got %v", err)
	}
	must.Get(r.rotate(t, s.refresh))(t)
}

// A login that ends while a session is attached gives none.
func TestAttachWhileEnding(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, elsewhere := r.signIn(t, "alice"), r.elsewhere(t)
	r.store.Once("swap "+loginPrefix, func() { elsewhere.end(t, s) })
	if _, err := r.attach(t, s, r.session, otherHost); !errors.Is(err, journey.ErrNoTicket) {
		t.Errorf("got %v", err)
	}
	r.wantRecords(t, SessionPrefix, 0)
}

// Sessions that are attached at the same time are all kept.
func TestAttachConcurrently(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, elsewhere := r.signIn(t, "alice"), r.elsewhere(t)
	var other string
	r.store.Once("swap "+loginPrefix, func() {
		other = must.Get(elsewhere.attach(t, s, elsewhere.session, "a.example"))(t)
	})
	own := must.Get(r.attach(t, s, r.session, "b.example"))(t)
	must.Get(r.session.Authenticate(t.Context(), at("a.example", other, "")))(t)
	must.Get(r.session.Authenticate(t.Context(), at("b.example", own, "")))(t)
	r.end(t, s)
	r.wantRecords(t, SessionPrefix, 0)
}

// The tokens of a provider are kept though a session was attached while they were
// renewed: without them the login would be lost.
func TestAttachWhileRenewing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, elsewhere := r.signInAt(t, r.grant("user")), r.elsewhere(t)
	raw := must.Get(r.store.Get(t.Context(), loginPrefix+s.login.ID))(t)
	login := must.Get(decodeLogin(s.login.ID, raw))(t)
	session := must.Get(elsewhere.attach(t, s, elsewhere.delegated, otherHost))(t)
	fresh := r.grant("user").Tokens
	must.Do(t, r.users.replace(t.Context(), login, fresh, false))
	now := must.Get(decodeLogin(s.login.ID, must.Get(r.store.Get(t.Context(), loginPrefix+s.login.ID))(t)))(t)
	if got := must.Get(r.users.Tokens(now))(t); got.Refresh != fresh.Refresh || len(now.Attached) != 1 {
		t.Errorf("the login has %+v and %+v", got, now.Attached)
	}
	must.Get(r.delegated.Authenticate(t.Context(), at(otherHost, "", session)))(t)
	// Tokens that another instance has stored meanwhile are newer.
	must.Do(t, r.users.replace(t.Context(), must.Get(decodeLogin(s.login.ID, raw))(t), r.grant("user").Tokens, false))
	now = must.Get(decodeLogin(s.login.ID, must.Get(r.store.Get(t.Context(), loginPrefix+s.login.ID))(t)))(t)
	if got := must.Get(r.users.Tokens(now))(t); got.Refresh != fresh.Refresh {
		t.Errorf("newer tokens are lost: %+v", got)
	}
}

// A browser that forgets its cookies cannot fill the store: the oldest sessions of
// a host make room, and the oldest of all hosts.
func TestAttachIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	var ids []string
	for range maxAttachedAtHost + 2 {
		ids = append(ids, must.Get(r.attach(t, s, r.session, otherHost))(t))
	}
	var alive []bool
	for _, id := range ids {
		_, err := r.session.Authenticate(t.Context(), at(otherHost, id, ""))
		alive = append(alive, err == nil)
	}
	if diff := cmp.Diff([]bool{false, false, true, true, true, true, true, true, true, true}, alive); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.wantRecords(t, SessionPrefix, 1+maxAttachedAtHost)
	login := &Login{}
	for i := range maxAttached + 3 {
		dropped := login.attach(attached{Scope: strings.Repeat("a", i+1), Key: "k"})
		if (len(dropped) > 0) != (i >= maxAttached) || len(login.Attached) > maxAttached {
			t.Fatalf("%d: %d attached, %d dropped", i, len(login.Attached), len(dropped))
		}
	}
}
