package grants

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/store"
	"authgate/internal/test/must"
)

// A client learns what its own tokens are, and nothing of others.
func TestInspect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	issued := r.granted(t, s)
	now := r.clock.Now()
	_, claims := claimsOf(t, issued.Access)
	for _, c := range []struct {
		token, id string
		expires   time.Time
	}{
		{issued.Access, claims["jti"].(string), now.Add(15 * time.Minute)}, {issued.Refresh, "", now.Add(month)},
	} {
		found, err := r.grants.Inspect(t.Context(), "grafana", c.token)
		if err != nil || !found.Active || found.ID != c.id || found.Refresh != (c.id == "") ||
			found.Terms.Client != "grafana" ||
			found.Terms.Resource != wiki || found.Identity.Subject != s.Subject || !found.Issued.Equal(now) ||
			!found.Expires.Equal(c.expires) {
			t.Errorf("got %+v, %v", found, err)
		}
		for _, client := range []string{"", "cli"} {
			if found, err := r.grants.Inspect(t.Context(), client, c.token); err != nil || cmp.Diff(Inspected{},
				*found) != "" {
				t.Errorf("the client %q: got %+v, %v", client, found, err)
			}
		}
	}
	must.Get(r.rotate(t, issued.Refresh))(t)
	for _, token := range []string{issued.Refresh, s.refresh, r.code(t, s, terms()), "", "x"} {
		if found, err := r.grants.Inspect(t.Context(), "grafana", token); err != nil || found.Active {
			t.Errorf("%.10q: got %+v, %v", token, found, err)
		}
	}
	backup := must.Get(r.grants.Credentials("backup", terms()))(t)
	if found := must.Get(r.grants.Inspect(t.Context(), "backup", backup.Access))(t); !found.Active ||
		found.Identity.Subject != "client:backup" {
		t.Errorf("got %+v", found)
	}
}

// An access token ends alone, a refresh token with its grant. Of what is not theirs, clients
// end nothing, and they end tokens while the store has no room.
func TestRevoke(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	issued, other := r.granted(t, s), r.granted(t, s)
	for _, token := range []string{issued.Access, issued.Refresh, "", "x", s.refresh} {
		must.Do(t, r.revoke(t.Context(), "cli", token))
	}
	must.Do(t, r.revoke(t.Context(), "grafana", s.refresh))
	r.wantIn(t, issued)
	must.Do(t, r.revoke(t.Context(), "grafana", issued.Access))
	if _, err := r.at(t, issued.Access); err == nil {
		t.Error("a revoked access token is let in")
	}
	next := must.Get(r.rotate(t, issued.Refresh))(t)
	r.wantIn(t, next)
	must.Do(t, r.revoke(t.Context(), "grafana", issued.Refresh)) // one that was used
	r.wantOut(t, next)
	r.wantIn(t, other)
	r.wantSession(t, s, true)
	must.Do(t, r.revoke(t.Context(), "grafana", issued.Refresh))

	r.clock.Advance(time.Hour)
	r.store.TakeCalls()
	must.Do(t, r.revoke(t.Context(), "grafana", other.Access)) // it has expired
	r.store.WantReads(t)
}

// fullStore has room only for what ends something.
type fullStore struct{ store.Store }

func (s fullStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	if !store.IsEnding(ctx) {
		return errors.New("no room")
	}
	return s.Store.Put(ctx, key, value, expires)
}

func (s fullStore) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	if !store.IsEnding(ctx) {
		return errors.New("no room")
	}
	return s.Store.Swap(ctx, key, old, value, expires)
}

// While the store has no room, clients and users can still end what they have.
func TestRevokeInAFullStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	issued, replayed := r.granted(t, s), r.code(t, s, terms())
	other := must.Get(r.grants.Redeem(t.Context(), replayed, right))(t)
	r.store.Store = fullStore{r.store.Store}
	if _, err := r.rotate(t, issued.Refresh); err == nil || errors.Is(err, ErrInvalid) {
		t.Errorf("the store is not full: %v", err)
	}
	must.Do(t, r.revoke(t.Context(), "grafana", issued.Access))
	must.Do(t, r.revoke(t.Context(), "grafana", issued.Refresh))
	got, err := r.grants.Redeem(t.Context(), replayed, right)
	wantInvalid(t, got, err, "used again")
	r.wantOut(t, issued)
	r.wantOut(t, other)
	if found := must.Get(r.consents.Withdraw(t.Context(), s.Subject, "grafana"))(t); !found {
		t.Error("nothing was withdrawn")
	}
}
