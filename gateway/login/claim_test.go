package login

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/provider"
)

// The claim of an instance that dies during a renewal expires.
func TestRenewalAfterAnInstanceDied(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		s := d.signIn(t, d.grant("user"))
		d.answersAfter(0, "auditor")
		time.Sleep(20 * time.Minute)
		noError(t, d.store.Swap(t.Context(), renewPrefix+s.login.ID, nil, []byte("of the dead"), time.Now().Add(renewTime)))
		start := time.Now()
		for time.Since(start) < renewTime {
			d.wantIn(t, s, "user")
			d.wantAsked(t, 0)
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(time.Second) // the pause after the last request
		d.wantIn(t, s, "auditor")
		d.wantAsked(t, 1)
		d.wantReported(t, s, false)
	})
}

// If the store fails during a renewal, that is reported and the renewal is tried again.
// Only if the new refresh token could not be stored, the provider sees the old one again
// and ends the login.
func TestRenewalWithAFailingStore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		failing    string
		late, lost bool // lost: fails after the provider was asked
	}{
		{failing: "swap renewing:"}, {failing: "swap renewing:", late: true},
		{failing: "get login:"},
		{failing: "swap login:"}, {failing: "swap login:", late: true}, {failing: "swap login:", lost: true},
		{failing: "swap user:"}, {failing: "swap user:", late: true},
	} {
		t.Run(fmt.Sprintf("%s late %v lost %v", test.failing, test.late, test.lost), func(t *testing.T) {
			t.Parallel()
			renewing(t, func(t *testing.T, d *delegation) {
				s := d.signIn(t, d.grant("user"))
				d.answersAfter(0, "auditor")
				time.Sleep(15 * time.Minute)
				d.store.late = test.late
				if test.lost {
					d.op.answers(func(context.Context) (*provider.Grant, error) {
						d.store.fails(test.failing)
						return d.grant("auditor"), nil
					})
				} else {
					d.store.fails(test.failing)
				}
				d.users.renewOnce(s.login)
				d.store.fails("")
				d.wantReported(t, s, false, errStore)
				if _, err := d.by(t, s); err != nil {
					t.Errorf("the login does not go on: %v", err)
				}
				time.Sleep(renewTime + 10*time.Second) // longer than any pause or claim
				_, _ = d.by(t, s)
				synctest.Wait()
				if test.lost {
					d.wantOut(t, s)
					d.wantReported(t, s, true, provider.ErrRefused)
					return
				}
				d.wantReported(t, s, false)
				d.wantIn(t, s, "auditor")
			})
		})
	}
}

// A provider that has rotated the refresh token and then fails to say who the
// person is ends no login: the new refresh token is stored, and the roles are
// updated soon after.
func TestRenewalWithoutAProfile(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		s := d.signIn(t, d.grant("user"))
		d.op.answers(func(context.Context) (*provider.Grant, error) {
			return &provider.Grant{Tokens: d.grant().Tokens}, providerFails(provider.ErrFault)
		})
		time.Sleep(15 * time.Minute)
		d.wantIn(t, s, "user")
		d.wantReported(t, s, false, provider.ErrFault)
		d.answersAfter(0, "admin")
		time.Sleep(renewSoon)
		d.wantIn(t, s, "user")
		d.wantAsked(t, 2)
		d.wantIn(t, s, "admin")
		d.wantReported(t, s, false)
	})
}

// A claim that cannot be deleted is no failure, and it expires soon.
func TestRenewalThatCannotGiveBackItsClaim(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		s := d.signIn(t, d.grant("user"))
		for renewals, release := range []string{"delete renewing:", "swap renewing:", "take renewing:"} {
			d.op.answers(func(context.Context) (*provider.Grant, error) {
				d.store.fails(release) // from here on
				return d.grant("auditor"), nil
			})
			time.Sleep(15 * time.Minute)
			_, _ = d.by(t, s)
			d.wantAsked(t, renewals+1)
			d.store.fails("")
			d.wantIn(t, s, "auditor")
		}
		d.wantReported(t, s, false)
	})
}

// A slow instance deletes its own claim and never that of another instance.
func TestClaimsOfRenewalsDoNotOverlap(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		var calls, running, most atomic.Int64
		d.options.Providers["keycloak"] = hanging{d.op, &running, &most}
		slow := *d
		slow.store = &recordingStore{Store: d.store.Store, before: func(_ context.Context, call string) error {
			if strings.Contains(call, " "+renewPrefix) && calls.Add(1) == 2 { // the deletion of the claim
				time.Sleep(900 * time.Millisecond)
			}
			return nil
		}}
		instances := []*delegation{slow.instance(nil), d.instance(nil), d.instance(nil), d.instance(nil)}
		s := d.signIn(t, d.grant("user"))
		time.Sleep(15 * time.Minute)
		start := time.Now()
		for time.Since(start) < 2*time.Minute {
			for _, each := range instances {
				each.wantIn(t, s, "user")
				synctest.Wait()
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(renewTime)
		synctest.Wait()
		if got := most.Load(); got != 1 || calls.Load() < 2 {
			t.Errorf("%d instances were renewing at once, want one", got)
		}
	})
}

// hanging is a provider that does not answer. It counts the calls that wait.
type hanging struct {
	Provider
	running, most *atomic.Int64
}

func (h hanging) Refresh(ctx context.Context, _ provider.Tokens, _ string) (*provider.Grant, error) {
	n := h.running.Add(1)
	defer h.running.Add(-1)
	if n > h.most.Load() {
		h.most.Store(n)
	}
	<-ctx.Done()
	return nil, providerFails(provider.ErrTimeout)
}
