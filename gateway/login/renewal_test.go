package login

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
)

// renewing runs a test in a synctest bubble with its clock. Logins live for 8 hours,
// tokens for 20 minutes.
func renewing(t *testing.T, test func(*testing.T, *delegation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newDelegation(t, func(d *delegation) { d.now, d.options.Lifetime = time.Now, 8*time.Hour }))
	})
}

// answersAfter makes the provider answer after some time.
func (d *delegation) answersAfter(wait time.Duration, roles ...string) {
	d.op.answers(func(context.Context) (*provider.Grant, error) {
		time.Sleep(wait)
		return d.grant(roles...), nil
	})
}

// failsWith makes the provider fail.
func (d *delegation) failsWith(kind error) {
	d.op.answers(func(context.Context) (*provider.Grant, error) { return nil, providerFails(kind) })
}

// wantAsked fails the test unless the provider got that many different refresh tokens.
func (d *delegation) wantAsked(tb testing.TB, want int) {
	tb.Helper()
	synctest.Wait()
	asked := d.op.refreshes()
	if slices.Sort(asked); len(asked) != want || len(slices.Compact(asked)) != want {
		tb.Errorf("the provider was given %d refresh tokens, want %d different ones", len(asked), want)
	}
}

// wantReported fails the test unless exactly these errors were reported.
func (d *delegation) wantReported(tb testing.TB, s *signedIn, ended bool, errs ...error) {
	tb.Helper()
	synctest.Wait()
	got := d.reports.take()
	if len(got) != len(errs) {
		tb.Errorf("reported %+v, want %v", got, errs)
		return
	}
	for i, want := range errs {
		if got[i].login != s.login.ID || got[i].ended != ended || !errors.Is(got[i].err, want) {
			tb.Errorf("reported %+v, want of %s, ended %v: %v", got[i], s.login.ID, ended, want)
		}
	}
}

func TestRenewAt(t *testing.T) {
	t.Parallel()
	now := newTestClock().now()
	for name, test := range map[string]struct{ expires, want time.Time }{
		"an hour":     {now.Add(time.Hour), now.Add(45 * time.Minute)},
		"20 minutes":  {now.Add(20 * time.Minute), now.Add(15 * time.Minute)},
		"a minute":    {now.Add(time.Minute), now.Add(45 * time.Second)},
		"unknown":     {time.Time{}, now.Add(5 * time.Minute)},
		"a long time": {now.AddDate(80, 0, 0), now.Add(now.AddDate(80, 0, 0).Sub(now) / 4 * 3)},
	} {
		if got := renewAt(now, test.expires); !got.Equal(test.want) {
			t.Errorf("%s: due at %v, want %v", name, got, test.want)
		}
	}
}

func TestRenewalBesideTheRequest(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		s := d.signIn(t, d.grant("user"))
		elsewhere, other := d.instance(nil), d.signIn(t, d.grant("user"))
		d.answersAfter(9*time.Second, "auditor")
		time.Sleep(15*time.Minute - 1)
		d.wantIn(t, s, "user")
		d.wantAsked(t, 0)
		time.Sleep(time.Nanosecond)
		start := time.Now()
		for range 3 {
			d.wantIn(t, s, "user")
			d.wantAsked(t, 1)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("requests waited %v although the tokens are good", waited)
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		d.wantIn(t, s, "auditor")
		id, err := elsewhere.session.Alive(t.Context(), &auth.Credentials{Delegated: other.session}) // all logins of the person
		if err != nil || !slices.Equal(id.Roles, []string{"auditor"}) {
			t.Errorf("another login: got %+v, %v", id, err)
		}
		// The new tokens are due in their turn, and are the ones that are used.
		time.Sleep(15*time.Minute - 1)
		d.wantIn(t, s, "auditor")
		d.wantAsked(t, 1)
		time.Sleep(time.Nanosecond)
		d.answersAfter(0, "user")
		d.wantIn(t, s, "auditor")
		d.wantAsked(t, 2)
		d.wantIn(t, s, "user")
		d.wantReported(t, s, false)
	})
}

func TestRequestWaitsForExpiredTokens(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ takes, leaves, wait time.Duration }{
		"quick provider":      {takes: time.Second, leaves: time.Hour, wait: time.Second},
		"at the last moment":  {takes: 3*time.Second - 1, leaves: time.Hour, wait: 3*time.Second - 1},
		"slow provider":       {takes: 9 * time.Second, leaves: time.Hour, wait: 3 * time.Second},
		"the client leaves":   {takes: 9 * time.Second, leaves: time.Second, wait: time.Second},
		"the client has left": {takes: 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renewing(t, func(t *testing.T, d *delegation) {
				s := d.signIn(t, d.grant("user"))
				d.wantIn(t, s, "user")
				d.answersAfter(test.takes, "auditor")
				time.Sleep(20 * time.Minute)
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), test.leaves)
				defer cancel()
				id, err := d.session.Authenticate(ctx, &auth.Credentials{Delegated: s.session})
				if waited := time.Since(start); waited != test.wait {
					t.Errorf("waited %v, want %v", waited, test.wait)
				}
				switch want := map[bool]string{true: "auditor", false: "user"}[test.takes == test.wait]; {
				case test.leaves == 0:
					wantNoAnswer(t)(id, err)
				case err != nil || !slices.Equal(id.Roles, []string{want}):
					t.Errorf("got %+v, %v, want the role %s", id, err, want)
				}
				time.Sleep(test.takes)
				synctest.Wait()
				if test.leaves > 0 {
					d.wantAsked(t, 1)
					d.wantIn(t, s, "auditor") // the renewal continues without the request
				}
			})
		})
	}
}

// However many requests on two instances find the tokens due, the provider gets the
// refresh token once. A second use would look like theft.
func TestRenewalHappensOnce(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"due": 15 * time.Minute, "expired": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renewing(t, func(t *testing.T, d *delegation) {
				instances := []*delegation{d, d.instance(nil)}
				s := d.signIn(t, d.grant("user"))
				for _, each := range instances {
					each.wantIn(t, s, "user") // warm
				}
				d.answersAfter(time.Second, "auditor")
				time.Sleep(wait)
				var wg sync.WaitGroup
				var renewed [2]atomic.Int64 // by instance
				for i := range 100 {
					wg.Go(func() {
						id, err := instances[i%2].by(t, s)
						if err != nil {
							t.Errorf("request %d: %v", i, err)
						} else if slices.Equal(id.Roles, []string{"auditor"}) {
							renewed[i%2].Add(1)
						}
					})
				}
				wg.Wait()
				if got := max(renewed[0].Load(), renewed[1].Load()); name == "expired" && got != 50 {
					t.Errorf("%d of 50 requests that waited for one renewal got its roles", got)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				for range 3 { // also requests after the renewal
					for _, each := range instances {
						each.wantIn(t, s, "auditor")
					}
					time.Sleep(time.Second)
				}
				instances[1].users.renewOnce(s.login) // with a login that was read before the renewal
				d.wantAsked(t, 1)
				d.wantReported(t, s, false)
			})
		})
	}
}

func TestRefusedRenewalEndsTheLogin(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"due": 15 * time.Minute, "expired": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renewing(t, func(t *testing.T, d *delegation) {
				elsewhere := d.instance(nil)
				s, other := d.signIn(t, d.grant("user")), d.signIn(t, d.grant("user"))
				elsewhere.wantIn(t, s, "user")
				d.failsWith(provider.ErrRefused)
				if name == "due" { // a login that cannot be ended stays, and is not reported as ended
					d.store.fails("take login:")
					time.Sleep(wait)
					d.wantIn(t, s, "user")
					d.wantReported(t, s, false, errStore)
					d.store.fails("")
					wait = renewPause
				}
				time.Sleep(wait)
				if name == "expired" {
					d.wantOut(t, s)
				} else {
					d.wantIn(t, s, "user")
					synctest.Wait()
					d.wantOut(t, s)
				}
				elsewhere.wantOut(t, s)
				d.wantReported(t, s, true, provider.ErrRefused)
				if n := d.records(t, loginPrefix+s.login.ID) + d.records(t, s.login.Handles[0]); n != 0 {
					t.Errorf("%d records of the login stay", n)
				}
				d.answersAfter(0, "user")
				d.wantIn(t, other, "user")
			})
		})
	}
}

// A provider that fails ends nothing. It is asked again after 10 seconds.
func TestFailedRenewalIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]error{
		"fault": provider.ErrFault, "timeout": provider.ErrTimeout, "invalid": provider.ErrInvalid, "mix-up": provider.ErrMixUp, "other": errors.New("broken"),
	} {
		for _, wait := range []time.Duration{15 * time.Minute, 20 * time.Minute} {
			t.Run(name+" after "+wait.String(), func(t *testing.T) {
				t.Parallel()
				renewing(t, func(t *testing.T, d *delegation) {
					s := d.signIn(t, d.grant("user"))
					var tries atomic.Int64
					d.options.Providers["keycloak"] = refresher{d.op, func() (*provider.Grant, error) {
						if tries.Add(1) < 3 {
							return nil, providerFails(kind)
						}
						return d.grant("auditor"), nil
					}}
					d = d.instance(nil)
					time.Sleep(wait)
					for try := int64(1); try < 3; try++ {
						for _, pause := range []time.Duration{0, 1, 10*time.Second - 2} {
							time.Sleep(pause)
							d.wantIn(t, s, "user")
							synctest.Wait()
						}
						d.wantReported(t, s, false, kind)
						if got := tries.Load(); got != try {
							t.Fatalf("%d tries, want %d", got, try)
						}
						time.Sleep(time.Nanosecond)
					}
					if _, err := d.by(t, s); err != nil {
						t.Error(err)
					}
					synctest.Wait()
					d.wantIn(t, s, "auditor")
					d.wantReported(t, s, false)
				})
			})
		}
	}
}

// refresher is a provider whose refresh tokens work more than once.
type refresher struct {
	Provider
	refresh func() (*provider.Grant, error)
}

func (r refresher) Refresh(context.Context, provider.Tokens, string) (*provider.Grant, error) {
	return r.refresh()
}

// The login expires at its time, renewed or not.
func TestRenewalDoesNotLengthenTheLogin(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		s := d.signIn(t, d.grant("user"))
		d.answersAfter(0, "user")
		for range 47 {
			time.Sleep(10 * time.Minute)
			d.wantIn(t, s, "user")
			synctest.Wait()
		}
		time.Sleep(10*time.Minute - 1)
		d.wantIn(t, s, "user")
		synctest.Wait()
		time.Sleep(time.Nanosecond)
		d.wantOut(t, s)
		if n := d.records(t, loginPrefix); n != 0 {
			t.Errorf("%d logins stay in the store", n)
		}
		if d.op.refreshes() == nil {
			t.Error("nothing was renewed, so that nothing is shown")
		}
	})
}

// A login that ends during a renewal stays ended. Its new tokens are not stored, and the
// report does not say that the provider ended it.
func TestLoginEndsInTheMiddleOfARenewal(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]error{"granted": nil, "refused": provider.ErrRefused, "failed": provider.ErrFault} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renewing(t, func(t *testing.T, d *delegation) {
				elsewhere := d.instance(nil)
				s := d.signIn(t, d.grant("user"))
				d.op.answers(func(context.Context) (*provider.Grant, error) {
					time.Sleep(5 * time.Second)
					if kind != nil {
						return nil, providerFails(kind)
					}
					return d.grant("auditor"), nil
				})
				time.Sleep(15 * time.Minute)
				d.wantIn(t, s, "user")
				d.wantAsked(t, 1)
				if login, err := elsewhere.logins.End(t.Context(), s.login.ID); err != nil || login == nil {
					t.Fatalf("ending: %+v, %v", login, err)
				}
				d.wantOut(t, s)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				d.wantOut(t, s)
				if n := d.records(t, loginPrefix); n != 0 {
					t.Errorf("%d logins are in the store", n)
				}
				for _, report := range d.reports.take() {
					if report.ended {
						t.Errorf("reported that the provider ended it: %v", report.err)
					}
				}
			})
		})
	}
}

func TestNoRenewalWithoutARefreshToken(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		grant := d.grant("user")
		grant.Tokens.Refresh = ""
		s := d.signIn(t, grant)
		d.store.takeCalls()
		for range 47 {
			time.Sleep(10 * time.Minute)
			d.wantIn(t, s, "user")
		}
		d.wantAsked(t, 0)
		d.wantReported(t, s, false)
		for _, call := range d.store.takeCalls() {
			if !strings.HasPrefix(call, "get ") {
				t.Errorf("the store was asked to %s", call)
			}
		}
	})
}

// Tokens without an expiry are renewed every 5 minutes, and no request waits for that.
func TestRenewalOfTokensThatDoNotSayWhenTheyExpire(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		unknown := func(role string) *provider.Grant {
			grant := d.grant(role)
			grant.Tokens.Expires = time.Time{}
			return grant
		}
		s := d.signIn(t, unknown("user"))
		d.op.answers(func(context.Context) (*provider.Grant, error) {
			time.Sleep(time.Second)
			return unknown("auditor"), nil
		})
		for renewals := range 5 {
			time.Sleep(5*time.Minute - 1)
			_, _ = d.by(t, s)
			d.wantAsked(t, renewals)
			time.Sleep(time.Nanosecond)
			start := time.Now()
			_, _ = d.by(t, s)
			d.wantAsked(t, renewals+1)
			if waited := time.Since(start); waited != 0 {
				t.Errorf("a request waited %v", waited)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			d.wantIn(t, s, "auditor")
		}
	})
}

// An instance that has not seen another instance's renewal does not use the old refresh
// token again.
func TestRenewalOnAnInstanceThatLagsBehind(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		lagging := *d
		lagging.store = &recordingStore{Store: d.store}
		other := lagging.instance(nil)
		s := d.signIn(t, d.grant("user"))
		d.answersAfter(0, "auditor")
		lagging.store.freeze(t, loginPrefix+s.login.ID)
		time.Sleep(15 * time.Minute)
		if _, err := d.by(t, s); err != nil {
			t.Error(err)
		}
		d.wantAsked(t, 1)
		if _, err := other.by(t, s); err != nil {
			t.Error(err)
		}
		d.wantAsked(t, 1)
		d.wantReported(t, s, false)
		d.wantIn(t, s, "auditor")
		other.wantIn(t, s, "auditor")
	})
}
