package trusted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/internal/test/must"
	"authgate/internal/test/providertest"
	"authgate/internal/test/scripttest"
	"authgate/policy"
)

// script plays scripts with one token of an issuer; see steps.
type script struct {
	*rig
	issuer *providertest.Trusted
	token  string
	err    error // of the issuer
}

func (s *script) steps(t *testing.T) scripttest.Steps {
	in := func(prove func(context.Context, string) (*policy.Identity, error), role string) {
		if id, err := prove(t.Context(), s.token); err != nil || !slices.Equal(id.Roles, []string{role}) {
			t.Errorf("got %+v, %v, want the role %s", id, err, role)
		}
	}
	return scripttest.Steps{
		// What the issuer says from now on: a role, "slow" for the role user after a second, "short" for
		// a token that lives 5 seconds, or one of failures.
		"says": func(args []string) { s.says(args[0]) },
		// Authenticate, or Alive, accepts the token with that role.
		"in":    func(args []string) { in(s.tokens.Authenticate, args[0]) },
		"alive": func(args []string) { in(s.tokens.Alive, args[0]) },
		// Authenticate, or Alive, rejects it for that reason.
		"bad": func(args []string) {
			wantRejected(t, strings.Join(args, " "))(s.tokens.Authenticate(t.Context(), s.token))
		},
		"dead": func(args []string) {
			wantRejected(t, strings.Join(args, " "))(s.tokens.Alive(t.Context(), s.token))
		},
		// There is no answer. Authenticate returns the issuer's error.
		"unknown":   func([]string) { wantNoAnswer(t, s.err)(s.tokens.Authenticate(t.Context(), s.token)) },
		"verifying": func([]string) { wantNoAnswer(t)(s.tokens.Alive(t.Context(), s.token)) },
		// Revoke returns the issuer's error, or none.
		"revoke": func([]string) {
			if _, err := s.tokens.Revoke(t.Context(), s.token); !errors.Is(err, s.err) || errors.Is(err, auth.ErrRejected) {
				t.Errorf("got %v, want %v", err, s.err)
			}
		},
		"asked": func(args []string) {
			if got := len(s.issuer.Questions()); got != scripttest.Number(t, args) {
				t.Errorf("the issuer was asked %d times", got)
			}
		},
		"wait": func(args []string) {
			s.clock.Advance(scripttest.Duration(t, args))
			time.Sleep(scripttest.Duration(t, args))
		},
		"reload": func([]string) { s.rig = s.instance() },
	}
}

func (s *script) says(answer string) {
	access, after := s.access("one"), time.Duration(0)
	access.Profile.Roles = []string{answer}
	switch s.err = failures()[answer]; answer {
	case "slow":
		access.Profile.Roles, after = []string{"user"}, time.Second
	case "short":
		access.Profile.Roles, access.Expires = []string{"user"}, s.clock.Now().Add(5*time.Second)
	}
	failure := s.err
	s.issuer.Answers(func(context.Context, string) (*provider.AccessToken, error) {
		time.Sleep(after)
		if failure != nil {
			return nil, providertest.Fails(failure)
		}
		return &access, nil
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	type story struct{ tokens, text string }
	scripts := map[string]story{
		"a bad token": {"JWT opaque", `says bad; bad access token: ; asked 1`},
		"a cached token expires": {"JWT opaque", `
			says short; in user; wait 4.999999999s; in user; wait 1ns; bad expired; dead expired; asked 1`},
		"verified after 5 minutes": {"JWT", `
			says user; in user; says bad; wait 4m59.999999999s; in user; asked 1; wait 1ns; bad not valid; asked 2`},
		"an old result does not count": {"JWT", `
			says user; in user; wait 5m; says fault; unknown; asked 2; says auditor; in auditor; in auditor; asked 3`},
		"a good introspection counts for 10 seconds": {"opaque", `
			says user; in user; in user; asked 1; wait 9.999999999s; in user; asked 1; wait 1ns; in user; in user; asked 2;
			says bad; wait 10s; bad not active; bad not active; asked 3; says fault; wait 10s; unknown`},
		"a bad introspection counts for 10 seconds": {"opaque", `
			says bad; bad not active; bad not active; asked 1; wait 9.999999999s; bad not active; asked 1;
			wait 1ns; bad not active; bad not active; asked 2; says user; wait 10s; in user; in user; asked 3;
			says fault; wait 10s; unknown`},

		// Alive never waits for the issuer. It asks in the background, with pauses, and
		// uses the answer afterwards.
		"Alive asks in the background": {"opaque", `
			says user; in user; alive user; asked 1; wait 10s; says slow; verifying; asked 2; verifying; asked 2;
			wait 1s; alive user; asked 2`},
		"Alive asks again after a pause": {"opaque", `
			says user; in user; wait 10s; says fault; verifying; asked 2; verifying; asked 2; wait 2s; verifying; asked 3;
			wait 2s; says bad; verifying; asked 4; dead not active; asked 4`},
		"Alive after a reload": {"JWT opaque", `
			says user; in user; reload; verifying; alive user; asked 2; revoke; wait 10s; dead revoked`},
		// The clock that is set back shows that the token has left the cache.
		"a token that is rejected in the background is refused for 10 seconds": {"JWT", `
			says user; in user; wait 5m; says bad; verifying; asked 2; dead not active; bad not active; wait -1m;
			dead not active; wait 1m; wait 9.999999999s; dead not active; asked 2; wait 1ns; verifying; asked 3`},
	}
	for name := range failures() { // an issuer that fails decides nothing, and its failures are not cached
		if name != "bad" {
			scripts[name] = story{"JWT opaque", "says " + name + "; unknown; asked 1; unknown; asked 2; revoke; asked 3"}
		}
	}
	for name, test := range scripts {
		for kind := range strings.FieldsSeq(test.tokens) {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := &script{rig: newRig(t), token: "opaque"}
					if s.issuer = s.asked; kind == "JWT" {
						s.issuer, s.token = s.plain, providertest.JWT(s.plain.Identifier)
					}
					scripttest.Play(t, test.text, s.steps(t), synctest.Wait)
				})
			})
		}
	}
}

// Concurrent calls for one token ask once, and the question does not end with the first caller.
func TestOneTokenIsIntrospectedOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []error{nil, provider.ErrInvalid, provider.ErrFault} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			release := make(chan struct{})
			r.asked.Answers(func(ctx context.Context, _ string) (*provider.AccessToken, error) {
				select {
				case <-ctx.Done():
					return nil, providertest.Fails(provider.ErrTimeout)
				case <-release:
				}
				if kind != nil {
					return nil, providertest.Fails(kind)
				}
				access := r.access("one")
				return &access, nil
			})
			var wg sync.WaitGroup
			ctx, leave := context.WithCancel(t.Context())
			wg.Go(func() {
				wantNoAnswer(t, context.Canceled)(r.tokens.Authenticate(ctx, "opaque"))
			})
			synctest.Wait()
			for range 10 {
				wg.Go(func() {
					id, err := r.tokens.Authenticate(t.Context(), "opaque")
					switch kind {
					case nil:
						must.Do(t, err)
					case provider.ErrInvalid:
						wantRejected(t, "not active")(id, err)
					default:
						wantNoAnswer(t, kind)(id, err)
					}
				})
			}
			synctest.Wait()
			leave()
			synctest.Wait()
			close(release)
			wg.Wait()
			r.wantAsked(t, 0, 1)
		})
	}
}

// At most 32 introspections run at the same time. Further tokens are not rejected, but
// the client must try again.
func TestIntrospectionsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		release := make(chan struct{})
		var running, most atomic.Int64
		r.asked.Answers(func(context.Context, string) (*provider.AccessToken, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-release
			access := r.access("")
			return &access, nil
		})
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				if _, err := r.tokens.Authenticate(t.Context(), fmt.Sprint("token-", i%32)); err != nil {
					t.Errorf("token %d: %v", i, err)
				}
			})
		}
		synctest.Wait()
		wantNoAnswer(t, auth.ErrBusy)(r.tokens.Authenticate(t.Context(), "one-too-many"))
		must.Get(r.tokens.Authenticate(t.Context(), r.jwt()))(t)
		close(release)
		wg.Wait()
		if got := most.Load(); got != 32 || slices.Contains(r.asked.Questions(), "one-too-many") {
			t.Errorf("%d questions at once, want 32", got)
		}
		must.Get(r.tokens.Authenticate(t.Context(), "one-too-many"))(t)
	})
}
