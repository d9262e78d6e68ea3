package login

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/providertest"
	"authgate/internal/test/scripttest"
	"authgate/internal/test/storetest"
	"authgate/policy"
)

// renewing runs a test in a synctest bubble with its clock. Logins live for 8 hours,
// tokens for 20 minutes.
func renewing(t *testing.T, test func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newRig(t, func(r *rig) { r.now, r.usersOptions.Lifetime = time.Now, 8*time.Hour }))
	})
}

// answersAfter makes the provider answer after some time.
func (r *rig) answersAfter(wait time.Duration, roles ...string) {
	r.op.Answers(func(context.Context, string) (*provider.Grant, error) {
		time.Sleep(wait)
		return r.grant(roles...), nil
	})
}

// wantAsked fails the test unless the provider got that many different refresh tokens.
func (r *rig) wantAsked(tb testing.TB, want int) {
	tb.Helper()
	asked := r.op.Questions()
	if slices.Sort(asked); len(asked) != want || len(slices.Compact(asked)) != want {
		tb.Errorf("the provider was given %d refresh tokens, want %d different ones", len(asked), want)
	}
}

// wantReported fails the test unless exactly these errors were reported.
func (r *rig) wantReported(tb testing.TB, s *signedIn, ended bool, errs ...error) {
	tb.Helper()
	var got []report
	for range len(r.reports) {
		got = append(got, <-r.reports)
	}
	same := func(got report, want error) bool {
		return got.login == s.login.ID && got.ended == ended && errors.Is(got.err, want)
	}
	if !slices.EqualFunc(got, errs, same) {
		tb.Errorf("reported %+v, want of %s, ended %v: %v", got, s.login.ID, ended, errs)
	}
}

func TestRenewAt(t *testing.T) {
	t.Parallel()
	now := clocktest.New().Now()
	for expires, want := range map[time.Time]time.Duration{
		now.Add(time.Hour):             45 * time.Minute,
		now.Add(time.Minute):           45 * time.Second,
		now.Add(2 * time.Second):       2 * time.Second,
		{}:                             5 * time.Minute, // unknown
		now.Add(80 * 8766 * time.Hour): 60 * 8766 * time.Hour,
	} {
		if got := renewAt(now, expires).Sub(now); got != want {
			t.Errorf("tokens that end at %v: due after %v, want %v", expires, got, want)
		}
	}
}

// However many requests on two instances find the tokens due, the provider gets the
// refresh token once. A second use would look like theft.
func TestRenewalHappensOnce(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"due": 15 * time.Minute, "expired": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renewing(t, func(t *testing.T, r *rig) {
				instances, s := []*rig{r, r.instance(t)}, r.signInAt(t, r.grant("user"))
				for _, each := range instances {
					each.wantIn(t, s, "user") // warm
				}
				r.answersAfter(time.Second, "auditor")
				time.Sleep(wait)
				var wg sync.WaitGroup
				var renewed [20]bool // the even ones at one instance, the odd ones at the other
				for i := range renewed {
					wg.Go(func() { renewed[i] = must.Get(instances[i%2].bySession(t, s))(t).Roles[0] == "auditor" })
				}
				wg.Wait()
				for i := range renewed[2:] {
					if renewed[i] != renewed[i+2] || name == "expired" && renewed[i] == renewed[i+1] {
						t.Fatalf("%v of the requests got the new roles, want all that wait at the instance that renews", renewed)
					}
				}
				for range 3 { // also requests after the renewal
					time.Sleep(time.Second)
					synctest.Wait()
					for _, each := range instances {
						each.wantIn(t, s, "auditor")
					}
				}
				instances[1].users.renewOnce(s.login) // with a login that was read before the renewal
				r.wantAsked(t, 1)
				r.wantReported(t, s, false)
			})
		})
	}
}

// renewals plays scripts with a login at a provider; see steps. Only "waits" may wait.
type renewals struct {
	*rig
	other     *rig // an instance that can lag behind
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

func (r *renewals) says(answer string, wait time.Duration) {
	r.op.Answers(func(ctx context.Context, _ string) (*provider.Grant, error) {
		time.Sleep(wait)
		if r.breaks != "" {
			r.store.Fails(r.breaks)
		}
		switch kind := failures[answer]; {
		case kind != nil:
			return nil, providertest.Fails(kind)
		case answer == "nothing":
			<-ctx.Done()
			return nil, providertest.Fails(provider.ErrTimeout)
		case answer == "panic":
			panic("as the test says")
		case answer == "refused-tokens":
			return &provider.Grant{Tokens: r.granted().Tokens}, providertest.Fails(provider.ErrEnded)
		case answer == "tokens":
			return &provider.Grant{Tokens: r.granted().Tokens}, providertest.Fails(provider.ErrFault)
		}
		return r.granted(answer), nil
	})
}

func (r *renewals) steps(t *testing.T) scripttest.Steps {
	in := func(args []string, prove func() (*policy.Identity, error)) {
		t.Helper()
		scripttest.Repeat(t, args[1:], func(before time.Duration) {
			time.Sleep(before)
			start := time.Now()
			if got, err := prove(); err != nil || !slices.Equal(got.Roles, args[:1]) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if waited := time.Since(start); waited != 0 {
				t.Errorf("waited %v", waited)
			}
			synctest.Wait()
		})
	}
	alive := func(at *rig, s *signedIn) (*policy.Identity, error) {
		return at.delegated.Alive(t.Context(), &auth.Credentials{Delegated: s.delegated})
	}
	reported := func(ended bool, args []string) {
		var errs []error
		for _, kind := range args {
			errs = append(errs, failures[kind])
		}
		r.wantReported(t, r.s, ended, errs...)
	}
	return scripttest.Steps{
		// The provider grants tokens and that role, grants "tokens" and fails to tell a profile, refuses with
		// "refused-tokens", says "nothing",
		// fails, or makes the client "panic"; after a time.
		"says": func(args []string) {
			wait := time.Duration(0)
			if len(args) > 1 {
				wait = scripttest.Duration(t, args[1:])
			}
			r.says(args[0], wait)
		},
		"again": func([]string) { r.op.again = true }, // its refresh tokens work more than once
		// A new login, whose tokens lack: refresh token, or end.
		"login": func(args []string) {
			r.without = strings.Join(args, "")
			r.s = r.signInAt(t, r.granted("user"))
			r.store.TakeCalls()
		},
		// A request has that role: once, or N times with TIME before each; lagging: at the instance that can lag behind.
		"in":      func(args []string) { in(args, func() (*policy.Identity, error) { return r.bySession(t, r.s) }) },
		"lagging": func(args []string) { in(args, func() (*policy.Identity, error) { return r.other.bySession(t, r.s) }) },
		// A request waits for that time until it has that role, or, with "nothing", no answer. Its client
		// leaves after the second time.
		"waits": func(args []string) {
			leaves := time.Hour
			if len(args) > 2 {
				leaves = scripttest.Duration(t, args[2:])
			}
			ctx, cancel := context.WithTimeout(t.Context(), leaves)
			defer cancel()
			start := time.Now()
			id, err := r.delegated.Authenticate(ctx, &auth.Credentials{Delegated: r.s.delegated})
			if waited := time.Since(start); waited != scripttest.Duration(t, args) {
				t.Errorf("waited %v", waited)
			}
			if args[1] == "nothing" {
				wantNoAnswer(t)(id, err)
			} else if err != nil || !slices.Equal(id.Roles, args[1:2]) {
				t.Errorf("got %+v, %v", id, err)
			}
		},
		// So has Alive; other: of another login of the person.
		"alive": func(args []string) { in(args, func() (*policy.Identity, error) { return alive(r.rig, r.s) }) },
		"other": func(args []string) { in(args, func() (*policy.Identity, error) { return alive(r.other, r.others) }) },
		// Requests are rejected at both instances.
		"out": func([]string) {
			for _, prove := range []func() (*policy.Identity, error){
				func() (*policy.Identity, error) { return r.bySession(t, r.s) },
				func() (*policy.Identity, error) { return r.other.bySession(t, r.s) },
				func() (*policy.Identity, error) { return alive(r.rig, r.s) },
			} {
				if id, err := prove(); id != nil || !errors.Is(err, auth.ErrRejected) {
					t.Errorf("got %+v, %v", id, err)
				}
			}
			storetest.WantNone(t, r.store, loginPrefix+r.s.login.ID)
			storetest.WantNone(t, r.store, r.s.login.Handles[0])
		},
		"request": func([]string) { must.Get(r.bySession(t, r.s))(t) }, // that is not rejected
		"renew":   func([]string) { r.users.renewOnce(r.s.login) },     // without a request
		// The provider got N refresh tokens, all different unless again.
		"asked": func(args []string) {
			if got := len(r.op.Questions()); got != scripttest.Number(t, args) {
				t.Errorf("the provider was asked %d times", got)
			}
			if !r.op.again {
				r.wantAsked(t, scripttest.Number(t, args))
			}
		},
		// Exactly these failures were reported, as not ended or as ended.
		"reported": func(args []string) { reported(false, args) },
		"ended":    func(args []string) { reported(true, args) },
		"panicked": func([]string) {
			if got := <-r.reports; got.login != r.s.login.ID || got.ended || got.err == nil {
				t.Errorf("reported %+v, want a panic", got)
			}
		},
		"wait": func(args []string) { time.Sleep(scripttest.Duration(t, args)) },
		// Calls of the store fail, or will as soon as the provider has answered. They fail after they had their effect.
		"fails":  func(args []string) { r.breaks = ""; r.store.Fails(strings.Join(args, " ")) },
		"breaks": func(args []string) { r.breaks = strings.Join(args, " ") },
		"late":   func([]string) { r.store.Late = true },
		// The other instance ends the login, takes the claim of its renewal and dies, or does not see
		// changes of the login any more.
		"end": func([]string) { r.other.end(t, r.s) },
		"claim": func([]string) {
			must.Do(t, r.store.Put(t.Context(), renewPrefix+r.s.login.ID, []byte("of the dead"), time.Now().Add(renewTime)))
		},
		"claimed": func([]string) { r.wantRecords(t, renewPrefix, 1) },
		"lag":     func([]string) { r.other.store.Freeze(t, loginPrefix+r.s.login.ID) },
		// Since the login, but for the times of requests.
		"only-reads": func([]string) {
			r.store.Forget("swap " + SessionPrefix)
			r.store.WantReads(t)
		},
	}
}

func TestRenewals(t *testing.T) {
	t.Parallel()
	scripts := map[string]string{
		"beside the request": `
			login; says auditor 9s; wait 14m59.999999999s; in user; asked 0; only-reads; wait 1ns; in user; in user;
			in user; asked 1; wait 9s; in auditor; other auditor; asked 2;
			wait 14m59.999999999s; in auditor; asked 2; wait 1ns; says user; in auditor; asked 3; in user; reported`,
		// A request waits for expired tokens. The renewal continues without it.
		"a quick provider":    `says auditor 1s; wait 20m; waits 1s auditor; asked 1; in auditor`,
		"at the last moment":  `says auditor 2.999999999s; wait 20m; waits 2.999999999s auditor; asked 1; in auditor`,
		"a slow provider":     `says auditor 9s; wait 20m; waits 3s user; wait 6s; in auditor; asked 1`,
		"the client leaves":   `says auditor 9s; wait 20m; waits 1s user 1s; wait 8s; in auditor; asked 1`,
		"the client has left": `says auditor 9s; wait 20m; waits 0s nothing 0s`,

		"no instance asks twice": `
			says auditor; lag; wait 15m; request; asked 1; lagging auditor; asked 1; reported; in auditor; lagging auditor`,
		"no refresh token": `login refresh; in user 47 10m; asked 0; reported; only-reads`,
		// An open stream without requests renews too, and does not wait.
		"Alive renews": `
			says auditor 9s; alive user 14 1m; asked 0; alive user 4 15s; alive user 30 250ms; asked 1; wait 2s; alive auditor;
			alive auditor 14 1m; asked 1; says user 1s; alive auditor 1 2m; wait 1s; alive user; asked 2; reported`,
		"Alive, expired": `
			says auditor 9s; wait 20m; alive user; wait 8s; alive user; wait 1s; alive auditor; asked 1`,
		"Alive, refused":           `says refused; wait 15m; alive user; out; ended refused; asked 1`,
		"Alive ends with the user": `says auditor; alive user 14 1m; end; out; asked 0`,
		"the login is no longer than it was": `
			says user; in user 47 10m; wait 9m59.999999999s; in user; asked 24; wait 1ns; out`,
		"tokens that do not say when they expire": `
			login end; says auditor 1s; wait 4m59.999999999s; in user; asked 0; wait 1ns; in user; asked 1; wait 1s; in auditor;
			wait 4m59.999999999s; in auditor; asked 1; wait 1ns; in auditor; asked 2; wait 1s; in auditor`,
		// The claim of an instance that dies during a renewal expires.
		"an instance died": `
			says auditor; wait 20m; claim; in user; in user 79 500ms; asked 0; wait 1.5s; in auditor; asked 1; reported`,
		// A claim lasts for longer than the renewal, and an instance deletes no claim of another one.
		"no answer": `
			says nothing; wait 15m; in user; lagging user 39 1s; asked 1; reported; wait 1s; reported timeout`,
		"a claim after another": `says auditor 5s; wait 15m; in user; claim; wait 5s; in auditor; claimed`,
		// The new refresh token is stored, and the roles are updated soon after.
		"no profile": `
			says tokens; wait 15m; in user; reported fault; says admin; wait 30s; in user; asked 2; in admin; reported`,
		// What comes at the last moment of a renewal, or after it, is stored: the refresh token is used up.
		"a very slow provider": `
			says auditor 41s; wait 15m; in user; wait 41s; in auditor; asked 1; reported;
			wait 15m; says user; in auditor; in user; asked 2; reported`,
		"refused very late": `says refused 41s; wait 15m; in user; wait 41s; out; ended refused; asked 1`,
		// The login goes on if the provider does not accept the gateway.
		"the client is refused": `
			again; says client; wait 15m; in user; reported client; says auditor; wait 10s; request; in auditor; reported`,
		// A refusal that comes with new tokens, and cannot end the login, does not lose them.
		"refused with tokens, and the login cannot be ended": `
			says refused-tokens; fails remove login:; wait 15m; in user; reported store; fails;
			says auditor; wait 30s; request; in auditor; asked 2; reported`,
		// A claim that cannot be deleted is no failure, and it expires soon.
		"the claim stays": `
			says auditor; breaks delete renewing:; wait 15m; request; asked 1; fails; in auditor;
			breaks swap renewing:; wait 15m; request; asked 2; fails; in auditor;
			breaks take renewing:; wait 15m; request; asked 3; fails; in auditor; reported`,
		// A panic ends nothing, and the renewal is tried again.
		"a panic": `
			again; says panic; wait 15m; in user; asked 1; panicked;
			says auditor; wait 9.999999999s; in user; asked 1; wait 1ns; request; in auditor; reported`,
		"refused": `says refused; wait 20m; out; ended refused; says user; wait 1s; other user`,
		"refused, and the login cannot be ended": `
			says refused; fails remove login:; wait 15m; in user; reported store; fails;
			wait 10s; in user; out; ended refused`,
		// The provider has seen the refresh token, and the new one is lost.
		"lost": `
			says auditor; wait 15m; breaks swap login:; renew; reported store; fails;
			request; wait 50s; request; out; ended refused`,
	}
	// A provider that fails ends nothing. It is asked again after 10 seconds.
	for _, kind := range []string{"fault", "timeout", "bad", "mix-up", "store"} {
		for _, wait := range []string{"15m", "20m"} {
			again := `in user; in user 1 1ns; in user 1 9.999999998s; reported KIND; asked %d; wait 1ns;`
			scripts[kind+" after "+wait] = strings.ReplaceAll("again; says KIND; wait "+wait+"; "+
				fmt.Sprintf(again, 1)+fmt.Sprintf(again, 2)+"says auditor; request; in auditor; reported", "KIND", kind)
		}
	}
	// If the store fails, that is reported and the renewal is tried again.
	for _, calls := range []string{
		"swap renewing:", "swap renewing:; late", "get login:",
		"swap login:", "swap login:; late", "swap user:", "swap user:; late",
	} {
		scripts["failing "+calls] = `says auditor; wait 15m; fails ` + calls +
			`; renew; fails; reported store; request; wait 50s; request; reported; in auditor`
	}
	// A login that ends during a renewal stays ended, and is not reported as refused.
	for kind, report := range map[string]string{"auditor": "", "refused": "", "fault": "fault"} {
		scripts["the login ends: "+kind] = "says " + kind +
			" 5s; wait 15m; in user; asked 1; end; out; wait 5s; out; reported " + report
	}
	for name, text := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renewing(t, func(t *testing.T, here *rig) {
				other := here.instance(t, func(r *rig) { r.store = &storetest.Recorder{Store: r.store} })
				r := &renewals{rig: here, other: other,
					s: here.signInAt(t, here.grant("user")), others: here.signInAt(t, here.grant("user"))}
				scripttest.Play(t, text, r.steps(t), synctest.Wait)
			})
		})
	}
}
