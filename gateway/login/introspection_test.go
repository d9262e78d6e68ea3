package login

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
)

// The result of an introspection is valid for 10 seconds, positive or negative.
func TestIntrospectionIsRemembered(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]error{"good": nil, "bad": provider.ErrInvalid} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newIssuers(t, nil)
			o.asked.answers(func(context.Context, string) (*provider.AccessToken, error) {
				if kind != nil {
					return nil, providerFails(kind)
				}
				access := o.access("one")
				return &access, nil
			})
			check := func(questions int) {
				t.Helper()
				for range 3 {
					id, err := o.by(t, "opaque")
					if kind != nil {
						wantRejected(t, id, err, auth.DetailBadToken, "not active")
					} else if err != nil {
						t.Error(err)
					}
				}
				if got := o.asked.questions(); got != questions {
					t.Errorf("asked %d times, want %d", got, questions)
				}
			}
			check(1)
			o.clock.advance(10*time.Second - 1)
			check(1)
			o.clock.advance(1)
			check(2)
			kind = map[error]error{nil: provider.ErrInvalid, provider.ErrInvalid: nil}[kind] // the issuer's answer changes
			o.clock.advance(10 * time.Second)
			check(3)
			o.asked.fails(provider.ErrFault)
			o.clock.advance(10 * time.Second)
			id, err := o.by(t, "opaque") // the old answer does not count
			wantNoAnswer(t, id, err)
		})
	}
}

func TestOneTokenIsIntrospectedOnce(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]error{"good": nil, "bad": provider.ErrInvalid, "unknown": provider.ErrFault} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newIssuers(t, nil)
				release := make(chan struct{})
				o.asked.answers(func(ctx context.Context, _ string) (*provider.AccessToken, error) {
					select {
					case <-ctx.Done(): // must not end when the first caller leaves
						return nil, providerFails(provider.ErrFault)
					case <-release:
					}
					if kind != nil {
						return nil, providerFails(kind)
					}
					access := o.access("one")
					return &access, nil
				})
				var wg sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				wg.Go(func() {
					id, err := o.bearers.Authenticate(ctx, &auth.Credentials{Scheme: "bearer", Value: "opaque"})
					wantNoAnswer(t, id, err)
					if !errors.Is(err, context.Canceled) {
						t.Errorf("who left: got %v", err)
					}
				})
				synctest.Wait()
				for range 100 {
					wg.Go(func() {
						id, err := o.by(t, "opaque")
						switch {
						case kind == nil && err != nil:
							t.Error(err)
						case errors.Is(kind, provider.ErrInvalid):
							wantRejected(t, id, err, auth.DetailBadToken, "not active")
						case errors.Is(kind, provider.ErrFault):
							wantNoAnswer(t, id, err)
						}
					})
				}
				synctest.Wait()
				cancel()
				synctest.Wait()
				close(release)
				wg.Wait()
				if got := o.asked.questions(); got != 1 {
					t.Errorf("asked %d times, want once", got)
				}
			})
		})
	}
}

// At most 32 introspections run at the same time. Further tokens are not rejected, but
// the client must try again.
func TestIntrospectionsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newIssuers(t, nil)
		release := make(chan struct{})
		var running, most atomic.Int64
		o.asked.answers(func(context.Context, string) (*provider.AccessToken, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-release
			access := o.access("")
			return &access, nil
		})
		var wg sync.WaitGroup
		for i := range 32 {
			for range 2 {
				wg.Go(func() {
					if _, err := o.by(t, fmt.Sprint("token-", i)); err != nil {
						t.Errorf("token %d: %v", i, err)
					}
				})
			}
		}
		synctest.Wait()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			id, err := o.bearers.Authenticate(ctx, &auth.Credentials{Scheme: "bearer", Value: "one-too-many"})
			cancel()
			wantNoAnswer(t, id, err)
			if !errors.Is(err, auth.ErrBusy) {
				t.Errorf("got %v, want ErrBusy", err)
			}
		}
		s := o.signIn(t, "alice")
		if _, err := o.by(t, s.access); err != nil {
			t.Errorf("the gateway's own token: %v", err)
		}
		close(release)
		wg.Wait()
		if got := most.Load(); got != 32 || slices.Contains(o.asked.introspected, "one-too-many") {
			t.Errorf("%d questions at once, want 32", got)
		}
		if _, err := o.by(t, "one-too-many"); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}
