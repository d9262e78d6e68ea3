package trusted

import (
	"context"
	"errors"
	"testing"
	"time"

	"authgate/gateway/identity/provider"
	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/providertest"
	"authgate/internal/test/storetest"
)

// A revoked token is revoked on all instances until it expires. Tokens of other issuers, and
// the gateway's own, may have the same jti. A JWT stays revoked with another signature:
// without any key, a client can change an ECDSA signature (r, s) into (r, -s).
func TestTrustedRevocation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, jti       string
		opaque, endless bool
		kept            time.Duration
	}{
		{"JWT", "one", false, false, time.Hour},
		{"JWT without jti", "", false, false, time.Hour},
		{"opaque", "one", true, false, time.Hour},
		{"opaque without jti", "", true, false, time.Hour},
		{"opaque without end", "", true, true, 30 * 24 * time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			elsewhere := r.instance()
			issuer, subject := r.plain, "plain:7"
			token, another := providertest.JWT(issuer.Identifier), providertest.JWT(issuer.Identifier)
			anew, others := token[:len(token)-1]+"A", "opaque"
			r.asked.Knows(others, r.access("one"))
			if test.opaque {
				issuer, subject, token, another, anew, others = r.asked, "asked:7", "of.one", "of.another", "of.one", r.jwt()
			}
			issuer.Answers(func(_ context.Context, raw string) (*provider.AccessToken, error) {
				access := r.access(test.jti)
				if raw == another && test.jti != "" {
					access.ID = "another"
				}
				if test.endless {
					access.Expires = time.Time{}
				}
				return &access, nil
			})
			for _, each := range []*rig{r, elsewhere} {
				must.Get(each.tokens.Authenticate(t.Context(), anew))(t)
			}
			if id, err := r.tokens.Revoke(t.Context(), token); err != nil || id.Subject != subject {
				t.Fatalf("got %+v, %v, want who signed out", id, err)
			}
			for _, each := range []*rig{r, elsewhere, r.instance()} {
				wantRejected(t, "revoked")(each.tokens.Authenticate(t.Context(), token))
				wantRejected(t, "revoked")(each.tokens.Revoke(t.Context(), anew))
				for _, good := range []string{another, others} {
					must.Get(each.tokens.Authenticate(t.Context(), good))(t)
				}
			}
			r.clock.Advance(test.kept - 1)
			if kept := storetest.Keys(t, r.store.Store, revokedPrefix); len(kept) != 1 || kept[0] == revokedPrefix+"one" {
				t.Errorf("the store has the revocations %q, want one, with the issuer in its key", kept)
			}
			r.clock.Advance(1)
			if kept := storetest.Keys(t, r.store.Store, revokedPrefix); len(kept) != 0 {
				t.Errorf("the store has the revocations %q of tokens that have expired", kept)
			}
		})
	}
}

// The store's clock differs from the local one. A revocation expires by the store's
// clock, and the token must not be valid longer.
func TestRevocationOutlivesToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.local = clocktest.At(r.clock.Now().Add(-time.Minute)) // the store is a minute ahead
	r = r.instance()
	r.asked.Knows("opaque", r.access("one"))
	must.Get(r.tokens.Authenticate(t.Context(), "opaque"))(t)
	must.Get(r.tokens.Revoke(t.Context(), "opaque"))(t)
	for range 4 * 61 { // until the token ends by either clock
		wantRejected(t, "")(r.tokens.Authenticate(t.Context(), "opaque"))
		r.clock.Advance(15 * time.Second)
		r.local.Advance(15 * time.Second)
	}
}

// fullStore has room for the ends of logins and credentials alone.
type fullStore struct{ store.Store }

func (f fullStore) Put(ctx context.Context, key string, value []byte, until time.Time) error {
	if !store.IsEnding(ctx) {
		return errors.New("the disk is full")
	}
	return f.Store.Put(ctx, key, value, until)
}

// A token without an end stays revoked for 30 days of the store's clock, also if the disk is full.
func TestRevocationOfEndlessToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.local = clocktest.At(r.clock.Now().Add(-time.Hour)) // the store is an hour ahead
	r.store.Store = fullStore{r.store.Store}
	r = r.instance()
	access := r.access("one")
	access.Expires = time.Time{}
	r.asked.Knows("opaque", access)
	must.Get(r.tokens.Revoke(t.Context(), "opaque"))(t)
	for _, c := range []struct {
		after time.Duration
		kept  int
	}{{30*24*time.Hour - 1, 1}, {1, 0}} {
		r.clock.Advance(c.after)
		if kept := storetest.Keys(t, r.store.Store, revokedPrefix); len(kept) != c.kept {
			t.Errorf("the store has the revocations %q, want %d", kept, c.kept)
		}
	}
}

// A store that fails decides nothing, cold and warm. A revocation that fails can be repeated,
// also if the store has it.
func TestFailingStore(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		r := newRig(t)
		token := r.jwt()
		for range 2 {
			r.store.Late = late
			r.store.Fails("get " + revokedPrefix)
			wantNoAnswer(t, storetest.ErrNoAnswer)(r.tokens.Authenticate(t.Context(), token))
			wantNoAnswer(t, storetest.ErrNoAnswer)(r.tokens.Revoke(t.Context(), token))
			r.store.Fails("")
			must.Get(r.tokens.Authenticate(t.Context(), token))(t)
		}
		r.store.Fails("put " + revokedPrefix)
		wantNoAnswer(t, storetest.ErrNoAnswer)(r.tokens.Revoke(t.Context(), token))
		r.store.Fails("")
		if !late {
			must.Get(r.tokens.Revoke(t.Context(), token))(t)
		}
		wantRejected(t, "revoked")(r.tokens.Authenticate(t.Context(), token))
	}
}
