package acme

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
)

func TestInterval(t *testing.T) {
	for want, lives := range map[time.Duration][]time.Duration{ // zero: there is no certificate
		longestPause: {90 * day}, shortestPause: {29 * time.Second},
		time.Minute: {90 * day, time.Hour - time.Second, 7 * day}, retryAfter: {90 * day, 0},
	} {
		r := newRig(t, newName(), newName())
		r.names = r.names[:len(lives)]
		for i, life := range lives {
			if life > 0 {
				keep(t, r.storage, r.names[i], issue(r.names[i], 0, life))
			}
		}
		if got := r.open(t).interval(); got != want {
			t.Errorf("with certificates that live %v: %v, want %v", lives, got, want)
		}
	}
}

// A problem is one of the certificate at hand, and gone with it.
func TestProblems(t *testing.T) {
	r := newRig(t, newName()).open(t)
	notice := func(ctx context.Context, event string) {
		wantOK(t, event, r.notice(ctx, event, map[string]any{"identifier": r.name, "error": errors.New("no such host")}))
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	notice(stopped, "cert_failed")
	for _, lives := range []time.Duration{0, time.Hour, 2 * time.Hour} {
		var p pair
		if lives > 0 {
			p = r.keep(t, 0, lives)
			wantOK(t, "load", r.load(t.Context(), r.name))
		}
		notice(t.Context(), "cert_obtained")
		r.want(t, p, "")
		notice(t.Context(), "cert_failed")
		r.want(t, p, "no such host")
	}
	if got := r.Certificates()[1]; got != (Certificate{Domain: r.names[1]}) {
		t.Errorf("the other name has %+v", got)
	}
	for _, want := range []string{
		`"domain":"` + r.name + `"`, "there is no certificate yet", "the current one is kept", `"error":"no such host"`,
	} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &r.log)
		}
	}
}

const (
	refused  = "connection refused" // by the unreachable authority
	mismatch = "private key does not match"
)

// A certificate is ordered for a name without one, and the failure is reported.
func TestRunAsks(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		stop := r.open(t).run(t)
		r.wantAfter(t, retryAfter, pair{}, refused, true)
		stop()
		wantTry(t, r.storage, "issue_cert_"+r.name, true) // no other instance waits for the lock
	})
}

// A certificate that is near its end is asked for again and again, served
// meanwhile, and even afterwards; what another instance has got is taken over.
func TestRunTakesWhatAnotherRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.keep(t, 0, time.Hour)
		r.open(t).run(t)
		r.wantAfter(t, 39*time.Minute, a, "", false) // in the first two thirds
		r.wantAfter(t, 3*time.Minute, a, refused, true)
		r.wantAfter(t, time.Hour, a, refused, true)
		r.wantServed(t, a, r.name) // it has expired
		b := r.keep(t, 0, time.Hour)
		r.wantAfter(t, 2*time.Minute, b, "", true)
		r.wantServed(t, b, r.name)
	})
}

// Another instance may have reason to renew before this one would, as when the
// authority is about to revoke what it has issued.
func TestRunTakesWhatIsNewer(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.keep(t, 0, 90*day)
		r.open(t).run(t)
		time.Sleep(time.Hour)
		b := r.keep(t, 0, 6*day) // shorter, as the authority pleases
		r.wantAfter(t, longestPause+time.Second, b, "", false)
		keep(t, r.storage, r.name, a) // an older state of the store has come back
		r.wantAfter(t, time.Hour, b, "", false)
		r.wantServed(t, b, r.name)
	})
}

// What is in the storage and cannot be used, because the storage fails, another
// store.encryption_key has sealed it or it is for another name, is reported as often
// as any other failure, and not ordered anew. A storage is read as soon as it works.
func TestRunLeavesWhatItCannotUse(t *testing.T) {
	for problem, prepare := range map[string]func(*testing.T, *rig){
		errDown.Error(): func(*testing.T, *rig) {},
		"store.encryption_key": func(t *testing.T, r *rig) {
			keep(t, newStorage(t, r.spy.Store, "b"), r.name, issue(r.name, 0, 90*day))
		},
		`is for ["other.example"]`: func(t *testing.T, r *rig) {
			keep(t, r.storage, r.name, issue("other.example", 80*day, 90*day)) // it is time to renew it
		},
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			prepare(t, r)
			down := problem == errDown.Error()
			r.spy.fail(func(int, string, string) bool { return down })
			r.open(t).want(t, pair{}, problem)
			r.run(t)
			r.wantAfter(t, time.Hour, pair{}, problem, false)
			if calls := r.spy.count(); calls > 20*int(time.Hour/retryAfter) {
				t.Errorf("%s: %d calls in an hour", problem, calls)
			}
			if down {
				a := r.keep(t, 0, 90*day)
				r.spy.fail(nil)
				r.wantAfter(t, retryAfter+time.Second, a, "", false)
			}
		})
	}
}

// An instance that was killed while it wrote leaves the new key beside the old
// certificate.
func TestRunMendsWhatIsTorn(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.keep(t, 0, 90*day)
		r.tear(t, issue(r.name, 0, day))
		r.open(t).want(t, pair{}, mismatch)
		r.spy.fail(func(_ int, operation, key string) bool {
			return operation == "delete" && strings.HasSuffix(key, ".crt")
		})
		r.run(t)
		r.wantAfter(t, 5*time.Minute, pair{}, errDown.Error(), false)
		r.spy.fail(nil)
		r.wantAfter(t, time.Minute-time.Second, pair{}, refused, true)
		a := r.keep(t, 0, 90*day) // another instance has mended it
		r.wantAfter(t, day, a, "", true)
	})
}

// Two that wrote at once leave the same, and there is nothing wrong yet with
// what is at hand.
func TestRunMendsWhatGetsTorn(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.keep(t, 0, 12*time.Hour)
		r.open(t).run(t)
		time.Sleep(6*time.Hour + time.Second) // it looks at nothing right now
		r.keep(t, 0, 12*time.Hour)
		r.tear(t, issue(r.name, 0, day))
		r.wantAfter(t, time.Hour, a, "", false)
		if r.storage.Exists(t.Context(), certmagic.StorageKeys.SiteCert(issuerKey(), r.name)) {
			t.Error("the certificate of another key is still in the storage")
		}
		r.wantAfter(t, 2*time.Hour, a, refused, true)
		r.wantServed(t, a, r.name)
	})
}

// A renewal under way looks the same between its two writes. It is waited for,
// and nothing is taken away.
func TestRunWaitsForTheOtherHalf(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.keep(t, 0, day)
		renewed := issue(r.name, 0, 90*day)
		r.tear(t, renewed)
		r.open(t).run(t)
		r.wantAfter(t, retryAfter/2, pair{}, mismatch, false)
		put(t, r.storage, certmagic.StorageKeys.SiteCert(issuerKey(), r.name), string(renewed.certificate))
		r.wantAfter(t, retryAfter, renewed, "", false)
	})
}

// An authority that refuses in earnest what its testing environment grants is left
// alone for a while, and what another instance gets is taken over meanwhile.
func TestRunAfterRefusal(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		issuer := &fakeIssuer{ACMEIssuer: r.open(t).issuer, answer: func(ctx context.Context) error {
			err := errors.New("rejected identifier")
			if attempts, ok := ctx.Value(certmagic.AttemptsCtxKey).(*int); ok && *attempts > 0 {
				return certmagic.ErrNoRetry{Err: err} // certmagic asks it no more then
			}
			return err
		}}
		r.config.Issuers = []certmagic.Issuer{issuer}
		r.run(t)
		r.wantAfter(t, day, pair{}, "rejected identifier", true)
		if n := issuer.orders.Load(); n < 24 || n > 48 {
			t.Errorf("%d orders in a day", n)
		}
		a := r.keep(t, 0, 90*day)
		r.wantAfter(t, retryAfter+time.Second, a, "", true)
	})
}

// What has long expired and is configured no more leaves the storage.
func TestRunCleans(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.keep(t, 0, 90*day)
		keep(t, r.storage, "gone.example", issue("gone.example", 60*day, 30*day))
		keep(t, r.storage, "late.example", issue("late.example", 40*day, 30*day))
		r.open(t).run(t)
		there := func(name string) bool {
			return r.storage.Exists(t.Context(), certmagic.StorageKeys.CertsPrefix(issuerKey())+"/"+name)
		}
		synctest.Wait()
		if there("gone.example") || !there("late.example") {
			t.Errorf("at first gone.example is there: %t, late.example: %t", there("gone.example"), there("late.example"))
		}
		time.Sleep(5*day + time.Minute)
		if there("late.example") || !there(r.name) {
			t.Errorf("later late.example is there: %t, the configured name: %t", there("late.example"), there(r.name))
		}
	})
}

// An order that does not end in time loses its lock, so that no instance waits for
// it.
func TestCloseGivesLocksBack(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		r.open(t).config.Issuers = []certmagic.Issuer{&fakeIssuer{ACMEIssuer: r.issuer, answer: hang}}
		go r.config.ObtainCertAsync(t.Context(), r.name) // as certmagic does beside Run
		synctest.Wait()
		wantTry(t, r.storage, "issue_cert_"+r.name, false)
		r.Close()
		wantTry(t, r.storage, "issue_cert_"+r.name, true)
	})
}

// Nor does Close wait for certmagic for ever.
func TestCloseIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.keep(t, 80*day, 90*day)
		r.open(t)
		answer := make(chan struct{})
		defer close(answer)
		r.spy.fail(func(int, string, string) bool { <-answer; return true })
		time.Sleep(longestPause + time.Second) // certmagic looks by itself now
		began := time.Now()
		if r.Close(); time.Since(began) != closeTime {
			t.Errorf("took %v, want %v", time.Since(began), closeTime)
		}
	})
}

// Only a refusal that may be about the replaced certificate is worth another
// order.
func TestRefusedOrder(t *testing.T) {
	problem := func(kind string, resource any) error {
		refusal := acme.Problem{Type: acme.ProblemTypeNamespace + kind, Resource: resource}
		return fmt.Errorf("[gate.test] creating new order: %w (ca=x)", refusal)
	}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no error":              {nil, false},
		"unknown certificate":   {problem("malformed", nil), true},
		"another account":       {problem("unauthorized", nil), true},
		"rate limit":            {problem("rateLimited", nil), false},
		"failed challenge":      {problem("unauthorized", acme.Authorization{}), false},
		"unreachable authority": {&url.Error{Op: "Post", URL: "https://x", Err: errors.New("refused")}, false},
		"new account":           {errors.New("no certificate chains"), true},
	} {
		if got := refusedOrder(c.err); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// An authority that was rebuilt refuses both orders. It gets two of them for each of
// certmagic's attempts, and no more.
func TestRefusedOrdersAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.keep(t, 89*day, 90*day)
		refuse := func(context.Context) error {
			return acme.Problem{Type: acme.ProblemTypeMalformed, Detail: "unknown certificate"}
		}
		r.open(t)
		named, unnamed := &fakeIssuer{ACMEIssuer: r.issuer, answer: refuse}, &fakeIssuer{ACMEIssuer: r.issuer, answer: refuse}
		r.config.Issuers, r.unrelated.config.Issuers = []certmagic.Issuer{named}, []certmagic.Issuer{unnamed}
		r.run(t)
		wantOrders := func(after time.Duration, least, most int32) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if with, without := named.orders.Load(), unnamed.orders.Load(); with != without || with < least || with > most {
				t.Errorf("%d orders that name the replaced certificate and %d that do not, want as many, from %d to %d\n%s",
					with, without, least, most, &r.log)
			}
		}
		wantOrders(10*time.Second, 1, 1) // the second order may wait for the lock of the first one
		r.want(t, a, "unknown certificate")
		wantOrders(12*time.Hour, 10, 30)
		r.wantServed(t, a, r.name)
	})
}
