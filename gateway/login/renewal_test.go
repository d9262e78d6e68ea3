package login

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/clocktest"
	"authgate/gateway/provider"
	"authgate/policy"
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
	now := clocktest.New().Now()
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

// renewals runs steps with a login at a provider, separated by semicolons. No
// request may wait.
//
//	says ROLE [TIME]     the provider grants tokens and that role, after a time
//	says tokens          it grants tokens, and then fails to tell a profile
//	says KIND [TIME]     it fails; see answers. again: its refresh tokens work more than once
//	login WITHOUT        a new login, whose tokens lack: refresh token, or end
//	in, lagging ROLE [N TIME]   a request has that role, N times with TIME before each;
//	                     at an instance that can lag behind
//	alive ROLE [N TIME], other ROLE   so has Alive; of another login of the person
//	out                  requests are rejected at both instances
//	request, renew       a request that is not rejected; a renewal without a request
//	asked N [again]      the provider got N refresh tokens, all different unless again
//	reported [KIND]      exactly this was reported, as not ended; ended KIND: as ended
//	wait TIME            time passes
//	fails, breaks CALLS  calls of the store fail, or will as soon as the provider has answered
//	late                 they fail after they had their effect
//	end, claim, lag      the other instance ends the login, claims its renewal and dies, or
//	                     does not see changes of the login any more
//	only-reads           since the login the store was only read
type renewals struct {
	*delegation
	t         *testing.T
	elsewhere *delegation
	s, others *signedIn
	breaks    string
	without   string // what granted tokens lack
}

func (r *renewals) granted(roles ...string) *provider.Grant {
	grant := r.grant(roles...)
	switch r.without {
	case "refresh":
		grant.Tokens.Refresh = ""
	case "end":
		grant.Tokens.Expires = time.Time{}
	}
	return grant
}

func (r *renewals) says(words []string) {
	wait := time.Duration(0)
	if len(words) > 1 {
		wait = must(time.ParseDuration(words[1]))(r.t)
	}
	r.op.answers(func(context.Context) (*provider.Grant, error) {
		time.Sleep(wait)
		if r.breaks != "" {
			r.store.fails(r.breaks)
		}
		switch kind := answers[words[0]]; {
		case kind != nil:
			return nil, providerFails(kind)
		case words[0] == "tokens":
			return &provider.Grant{Tokens: r.granted().Tokens}, providerFails(provider.ErrFault)
		}
		return r.granted(words[0]), nil
	})
}

// in makes requests as words say: ROLE [N TIME].
func (r *renewals) in(words []string, id func() (*policy.Identity, error)) {
	r.t.Helper()
	n, apart := 1, time.Duration(0)
	if len(words) > 1 {
		n, apart = must(strconv.Atoi(words[1]))(r.t), must(time.ParseDuration(words[2]))(r.t)
	}
	for range n {
		time.Sleep(apart)
		start := time.Now()
		if got, err := id(); err != nil || !slices.Equal(got.Roles, words[:1]) {
			r.t.Fatalf("got %+v, %v", got, err)
		}
		if waited := time.Since(start); waited != 0 {
			r.t.Errorf("waited %v", waited)
		}
		synctest.Wait()
	}
}

func (r *renewals) step(verb, arg string) {
	r.t.Helper()
	words := strings.Fields(arg)
	creds := &auth.Credentials{Delegated: r.s.session}
	switch verb {
	case "says":
		r.says(words)
	case "again":
		r.op.again = true
	case "login":
		r.without = arg
		r.s = r.signIn(r.t, r.granted("user"))
		r.store.takeCalls()
	case "in":
		r.in(words, func() (*policy.Identity, error) { return r.by(r.t, r.s) })
	case "lagging":
		r.in(words, func() (*policy.Identity, error) { return r.elsewhere.by(r.t, r.s) })
	case "alive":
		r.in(words, func() (*policy.Identity, error) { return r.session.Alive(r.t.Context(), creds) })
	case "other":
		creds.Delegated = r.others.session
		r.in(words, func() (*policy.Identity, error) { return r.elsewhere.session.Alive(r.t.Context(), creds) })
	case "out":
		r.wantOut(r.t, r.s)
		r.elsewhere.wantOut(r.t, r.s)
		wantRejected(r.t, auth.DetailNotSignedIn, "ended")(r.session.Alive(r.t.Context(), creds))
		if n := r.records(r.t, loginPrefix+r.s.login.ID) + r.records(r.t, r.s.login.Handles[0]); n != 0 {
			r.t.Errorf("%d records of the login stay", n)
		}
	case "request":
		must(r.by(r.t, r.s))(r.t)
	case "renew":
		r.users.renewOnce(r.s.login)
	case "asked":
		if n := must(strconv.Atoi(words[0]))(r.t); len(words) == 1 {
			r.wantAsked(r.t, n)
		} else if got := len(r.op.refreshes()); got != n {
			r.t.Errorf("the provider was asked %d times", got)
		}
	case "reported", "ended":
		var errs []error
		for _, kind := range words {
			errs = append(errs, answers[kind])
		}
		r.wantReported(r.t, r.s, verb == "ended", errs...)
	case "wait":
		time.Sleep(must(time.ParseDuration(arg))(r.t))
	case "fails":
		r.breaks = ""
		r.store.fails(arg)
	case "breaks":
		r.breaks = arg
	case "late":
		r.store.late = true
	case "end":
		must(r.elsewhere.logins.End(r.t.Context(), r.s.login.ID))(r.t)
	case "claim":
		noError(r.t, r.store.Swap(r.t.Context(), renewPrefix+r.s.login.ID, nil, []byte("of the dead"), time.Now().Add(renewTime)))
	case "lag":
		r.elsewhere.store.freeze(r.t, loginPrefix+r.s.login.ID)
	case "only-reads":
		for _, call := range r.store.takeCalls() {
			if !strings.HasPrefix(call, "get ") {
				r.t.Errorf("the store was asked to %s", call)
			}
		}
	default:
		r.t.Fatal("no such step")
	}
	synctest.Wait()
}

func TestRenewals(t *testing.T) {
	t.Parallel()
	scripts := map[string]string{
		"beside the request": `
			login; says auditor 9s; wait 14m59.999999999s; in user; asked 0; only-reads; wait 1ns; in user; in user; in user; asked 1; wait 9s; in auditor; other auditor;
			wait 14m59.999999999s; in auditor; asked 1; wait 1ns; says user; in auditor; asked 2; in user; reported`,
		"no instance asks twice": `says auditor; lag; wait 15m; request; asked 1; lagging auditor; asked 1; reported; in auditor; lagging auditor`,
		"no refresh token":       `login refresh; in user 47 10m; asked 0; reported; only-reads`,
		"Alive renews nothing":   `says auditor; alive user 59 1m; asked 0; end; out`,
		"the login is no longer than it was": `
			says user; in user 47 10m; wait 9m59.999999999s; in user; asked 24; wait 1ns; out`,
		"tokens that do not say when they expire": `
			login end; says auditor 1s; wait 4m59.999999999s; in user; asked 0; wait 1ns; in user; asked 1; wait 1s; in auditor;
			wait 4m59.999999999s; in auditor; asked 1; wait 1ns; in auditor; asked 2; wait 1s; in auditor`,
		// The claim of an instance that dies during a renewal expires.
		"an instance died": `says auditor; wait 20m; claim; in user; in user 79 500ms; asked 0; wait 1.5s; in auditor; asked 1; reported`,
		// The new refresh token is stored, and the roles are updated soon after.
		"no profile": `says tokens; wait 15m; in user; reported fault; says admin; wait 30s; in user; asked 2; in admin; reported`,
		// A claim that cannot be deleted is no failure, and it expires soon.
		"the claim stays": `
			says auditor; breaks delete renewing:; wait 15m; request; asked 1; fails; in auditor; breaks swap renewing:; wait 15m; request; asked 2;
			fails; in auditor; breaks take renewing:; wait 15m; request; asked 3; fails; in auditor; reported`,
		"refused": `says refused; wait 20m; out; ended refused; says user; wait 1s; other user`,
		"refused, and the login cannot be ended": `
			says refused; fails take login:; wait 15m; in user; reported store; fails; wait 10s; in user; out; ended refused`,
		// The provider has seen the refresh token, and the new one is lost.
		"lost": `says auditor; wait 15m; breaks swap login:; renew; reported store; fails; request; wait 50s; request; out; ended refused`,
	}
	// A provider that fails ends nothing. It is asked again after 10 seconds.
	for _, kind := range []string{"fault", "timeout", "bad", "mix-up", "store"} {
		for _, wait := range []string{"15m", "20m"} {
			again := `in user; in user 1 1ns; in user 1 9.999999998s; reported KIND; asked %d again; wait 1ns;`
			scripts[kind+" after "+wait] = strings.ReplaceAll("again; says KIND; wait "+wait+"; "+fmt.Sprintf(again, 1)+fmt.Sprintf(again, 2)+
				"says auditor; request; in auditor; reported", "KIND", kind)
		}
	}
	// If the store fails, that is reported and the renewal is tried again.
	for _, calls := range []string{"swap renewing:", "swap renewing:; late", "get login:", "swap login:", "swap login:; late", "swap user:", "swap user:; late"} {
		scripts["failing "+calls] = `says auditor; wait 15m; fails ` + calls + `; renew; fails; reported store; request; wait 50s; request; reported; in auditor`
	}
	// A login that ends during a renewal stays ended, and is not reported as refused.
	for kind, report := range map[string]string{"auditor": "", "refused": "", "fault": "fault"} {
		scripts["the login ends: "+kind] = "says " + kind + " 5s; wait 15m; in user; asked 1; end; out; wait 5s; out; reported " + report
	}
	for name, text := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renewing(t, func(t *testing.T, d *delegation) {
				r := &renewals{delegation: d, t: t}
				elsewhere := *d
				elsewhere.store = &recordingStore{Store: d.store}
				r.elsewhere, r.s, r.others = elsewhere.instance(nil), d.signIn(t, d.grant("user")), d.signIn(t, d.grant("user"))
				eachStep(t, text, r.step)
			})
		})
	}
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
