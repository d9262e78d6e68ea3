package grants

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
)

// Each refresh token works once, to the end of the grant. A refusal consumes nothing, and fewer
// scopes are for one access token alone.
func TestRefresh(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	issued := r.granted(t, s)
	refusal := errors.New("not this client")
	if got, err := r.grants.Refresh(t.Context(), issued.Refresh, func(*Terms) error { return refusal }); got != nil ||
		!errors.Is(err, refusal) {
		t.Errorf("got %+v, %v", got, err)
	}
	narrow := func(scopes ...string) func(*Terms) error {
		return func(t *Terms) error {
			t.Scopes, t.OpenID = scopes, slices.Contains(scopes, "openid")
			return nil
		}
	}
	if got, err := r.grants.Refresh(t.Context(), issued.Refresh, narrow("read", "more")); got != nil || err == nil {
		t.Errorf("a scope that was not granted: got %+v, %v", got, err)
	}
	narrowed := must.Get(r.grants.Refresh(t.Context(), issued.Refresh, narrow("read")))(t)
	if id, err := r.at(t, narrowed.Access); err != nil || !slices.Equal(id.Scopes, []string{"read"}) ||
		narrowed.Terms.OpenID || narrowed.Terms.Nonce != "" {
		t.Errorf("got %+v, %v, with %+v", id, err, narrowed.Terms)
	}
	if found := must.Get(r.grants.Inspect(t.Context(), "grafana",
		narrowed.Access))(t); !slices.Equal(found.Terms.Scopes, []string{"read"}) {
		t.Errorf("got %+v", found)
	}
	again := must.Get(r.rotate(t, narrowed.Refresh))(t)
	if id, err := r.at(t, again.Access); err != nil || !slices.Equal(id.Scopes, terms().Scopes) || !again.Terms.OpenID ||
		again.Terms.Nonce != "" {
		t.Errorf("got %+v, %v, with %+v", id, err, again.Terms)
	}
	r.wantIn(t, issued) // the first access token lives as long as it says
	r.clock.Advance(month - 5*time.Minute)
	last := must.Get(r.rotate(t, again.Refresh))(t)
	if last.ExpiresIn != 5*time.Minute {
		t.Errorf("the last access token lives for %v, longer than its grant", last.ExpiresIn)
	}
	r.clock.Advance(5 * time.Minute)
	r.wantOut(t, last)
}

// Attack: a stolen refresh token is used. When the second of its two holders uses it, the grant
// ends, and the login does not. Within the leeway it is an accident, and from another client
// nothing.
func TestRefreshTokenReuse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	stolen, other := r.granted(t, s), r.granted(t, s)
	next := must.Get(r.rotate(t, stolen.Refresh))(t)
	r.clock.Advance(leeway)
	issued, err := r.rotate(t, stolen.Refresh)
	wantInvalid(t, issued, err, "within the leeway")
	r.wantIn(t, next)
	next = must.Get(r.rotate(t, next.Refresh))(t)
	r.clock.Advance(1)
	refusal := errors.New("another client")
	_, err = r.grants.Refresh(t.Context(), stolen.Refresh, func(*Terms) error { return refusal })
	if !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
	r.wantIn(t, next)
	issued, err = r.rotate(t, stolen.Refresh)
	wantInvalid(t, issued, err, "refresh token was used again")
	if reuse, ok := errors.AsType[*ReuseError](err); !ok || *reuse != (ReuseError{"refresh token", "grafana",
		s.Subject, s.Login}) {
		t.Errorf("got %+v", reuse)
	}
	r.wantOut(t, next)
	r.wantOut(t, stolen)
	r.wantIn(t, other)
	r.wantSession(t, s, true)
}

// Of many calls with one refresh token, on two instances, one succeeds, and it is the one whose
// tokens work.
func TestRefreshAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	issued, elsewhere := r.granted(t, s), r.elsewhere(t)
	for range 20 {
		all := atOnce(16, func(r *rig) (*Issued, error) {
			return r.grants.Refresh(context.Background(), issued.Refresh, rightTerms)
		}, r, elsewhere)
		if len(all) != 1 {
			t.Fatalf("%d of 16 calls succeeded", len(all))
		}
		issued = all[0]
		r.wantIn(t, issued)
		elsewhere.wantIn(t, issued)
	}
}

// A read that is too old does not make the newest token a reused one.
func TestRefreshWithAnOldRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	issued := r.granted(t, r.signIn(t, "alice"))
	s, _ := parse(refreshMark, issued.Refresh)
	r.store.Freeze(t, grantPrefix+s.name())
	next := must.Get(r.elsewhere(t).rotate(t, issued.Refresh))(t)
	got := must.Get(r.rotate(t, next.Refresh))(t)
	r.wantIn(t, got)
}

// A refresh while the grant, the login or the consent ends, at whatever moment, leaves nothing
// that works.
func TestEndDuringARefresh(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *rig, s *signedIn, issued *Issued) error{
		"revoked": func(r *rig, _ *signedIn, issued *Issued) error {
			return r.revoke(context.Background(), "grafana", issued.Refresh)
		},
		"logout": func(r *rig, s *signedIn, _ *Issued) error {
			_, err := r.logins.End(context.Background(), s.Login)
			return err
		},
		"withdrawn": func(r *rig, s *signedIn, _ *Issued) error {
			_, err := r.consents.Withdraw(context.Background(), s.Subject, "grafana")
			return err
		},
	} {
		for step, more := 1, true; more; step++ {
			r := newRig(t)
			s := r.signIn(t, "alice")
			issued, elsewhere := r.granted(t, s), r.elsewhere(t)
			var calls int
			r.store.Interfere(func(context.Context, string) error {
				if calls++; calls == step {
					return end(elsewhere, s, issued)
				}
				return nil
			})
			next, err := r.rotate(t, issued.Refresh)
			r.store.Interfere(nil)
			if more = calls >= step; !more {
				break
			}
			if err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("%s at step %d: %v", name, step, err)
			}
			r.wantOut(t, issued)
			if next != nil {
				r.wantOut(t, next)
			}
		}
	}
}

// A refresh token of a grant is none of a login, and the other way round. A leak of one to the
// other's endpoint ends nothing.
func TestRefreshTokensDoNotMix(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	issued := r.granted(t, s)
	if rotation, err := r.refresh.Rotate(t.Context(), issued.Refresh, &auth.Credentials{}); rotation != nil ||
		!errors.Is(err, auth.ErrRejected) {
		t.Errorf("the login's refresh takes that of a client: %+v, %v", rotation, err)
	}
	if sid, err := r.refresh.LoginOf(t.Context(), issued.Refresh); sid != "" || !errors.Is(err, auth.ErrRejected) {
		t.Errorf("it signs out %q, %v", sid, err)
	}
	got, err := r.rotate(t, s.refresh)
	wantInvalid(t, got, err, "never issued")
	must.Get(r.refresh.Rotate(t.Context(), s.refresh, &auth.Credentials{}))(t)
	r.wantIn(t, issued)
	must.Get(r.rotate(t, issued.Refresh))(t)
}

// After a restart, and on another instance, all goes on, with what the user is now.
func TestAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	issued, code := r.granted(t, s), r.code(t, s, terms())
	r.wantIn(t, issued)
	other := r.instance(t, func(r *rig) {
		lower := alice
		lower.Roles = []string{"user"}
		r.people = []accounts.Account{lower, bob}
	})
	for _, issued := range []*Issued{issued, must.Get(other.rotate(t, issued.Refresh))(t),
		must.Get(other.grants.Redeem(t.Context(), code, right))(t)} {
		if id, err := other.at(t, issued.Access); err != nil || !slices.Equal(id.Roles, []string{"user"}) {
			t.Errorf("got %+v, %v", id, err)
		}
	}
}
