package trusted

import (
	"errors"
	"strings"
	"testing"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/providertest"
	"authgate/internal/test/storetest"
	"authgate/policy"
)

// rig is one instance of Tokens.
type rig struct {
	clock, local *clocktest.Clock // of the store, and of the instance
	store        *storetest.Recorder
	plain, asked *providertest.Trusted // asked is asked about opaque tokens
	tokens       *Tokens
}

// newRig returns an instance with a store of its own. The issuers refuse all tokens.
func newRig(tb testing.TB) *rig {
	tb.Helper()
	clock := clocktest.New()
	memory := store.NewMemory(clock.Now)
	tb.Cleanup(func() { _ = memory.Close() })
	return (&rig{
		clock: clock, local: clock, store: &storetest.Recorder{Store: memory},
		plain: providertest.NewTrusted("https://plain.example", false),
		asked: providertest.NewTrusted("https://asked.example", true),
	}).instance()
}

// instance returns another instance with the same issuers over the same store, as after a
// reload.
func (r *rig) instance() *rig {
	next := *r
	next.tokens = New([]Issuer{{Name: "plain", Verifier: r.plain}, {Name: "asked", Opaque: true, Verifier: r.asked}},
		r.store, r.clock.Now, r.local.Now)
	return &next
}

// access is an issuer's answer for a token that is valid for an hour.
func (r *rig) access(jti string) provider.AccessToken {
	return providertest.Access(jti, r.clock.Now().Add(time.Hour))
}

// jwt returns a JWT that plain knows.
func (r *rig) jwt() string {
	token := providertest.JWT(r.plain.Identifier)
	r.plain.Knows(token, r.access("one"))
	return token
}

// wantAsked fails the test unless plain and asked were asked about that many tokens.
func (r *rig) wantAsked(tb testing.TB, plain, asked int) {
	tb.Helper()
	if p, a := len(r.plain.Questions()), len(r.asked.Questions()); p != plain || a != asked {
		tb.Errorf("the issuers were asked %d and %d times, want %d and %d", p, a, plain, asked)
	}
}

// failures are the ways in which an issuer fails, by name.
func failures() map[string]error { return providertest.Failures(storetest.ErrNoAnswer) }

// wantRejected returns a function that fails the test unless a token is rejected for a reason
// that contains reason.
func wantRejected(tb testing.TB, reason string) func(*policy.Identity, error) {
	return func(id *policy.Identity, err error) {
		tb.Helper()
		var r *auth.Rejection
		if !errors.As(err, &r) || id != nil || r.Detail != auth.DetailBadToken ||
			!strings.HasPrefix(r.Reason, "access token: ") || !strings.Contains(r.Reason, reason) {
			tb.Errorf("got %+v, %v, want a bad token: %s", id, err, reason)
		}
	}
}

// wantNoAnswer returns a function that fails the test unless the error decides nothing, and
// is cause if one is given.
func wantNoAnswer(tb testing.TB, cause ...error) func(*policy.Identity, error) {
	return func(id *policy.Identity, err error) {
		tb.Helper()
		if id != nil || err == nil || errors.Is(err, auth.ErrRejected) || len(cause) > 0 && !errors.Is(err, cause[0]) {
			tb.Errorf("got %+v, %v, want an error that decides nothing: %v", id, err, cause)
		}
	}
}
