package acme

import (
	"context"
	"crypto/x509"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
)

const day = 24 * time.Hour

// The tests of this file do not run in parallel: certmagic has one queue of
// jobs for the process, and bubbles must not work for each other. A bubble
// ends when all goroutines in it have, so that each test finds one that is
// left behind.

// run lets the Manager run until the returned function is called, or the
// test ends.
func (r *rig) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		r.Run(ctx)
		close(ended)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// inBubble runs a test on a Manager of one name.
func inBubble(t *testing.T, prepare func(t *testing.T, r *rig, name string), test func(t *testing.T, r *rig, name string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		name := newName()
		r := newRig(t, []string{name}, func(r *rig) { prepare(t, r, name) })
		test(t, r, name)
	})
}

func TestInterval(t *testing.T) {
	for _, c := range []struct {
		lives []time.Duration // zero: none
		want  time.Duration
	}{
		{[]time.Duration{90 * day}, longestPause},
		{[]time.Duration{time.Hour - time.Second}, time.Minute},
		{[]time.Duration{29 * time.Second}, shortestPause},
		{[]time.Duration{90 * day, time.Hour - time.Second, 7 * day}, time.Minute},
		{[]time.Duration{0}, retryAfter},
		{[]time.Duration{90 * day, 0}, retryAfter},
	} {
		var names []string
		for range c.lives {
			names = append(names, newName())
		}
		r := newRig(t, names, func(r *rig) {
			for i, lives := range c.lives {
				if lives > 0 {
					keep(t, r.storage, names[i], issue(t, names[i], 0, lives))
				}
			}
		})
		if got := r.interval(); got != c.want {
			t.Errorf("with certificates that live %v: %v, want %v", c.lives, got, c.want)
		}
	}
}

// A problem is one of the certificate at hand, and gone with it.
func TestProblems(t *testing.T) {
	name, other := newName(), newName()
	a, b := issue(t, name, 0, time.Hour), issue(t, name, 0, 2*time.Hour)
	r := newRig(t, []string{name, other}, func(*rig) {})
	fail := func(event string) {
		if err := r.notice(t.Context(), event, map[string]any{"identifier": name, "error": errors.New("no such host")}); err != nil {
			t.Error(err)
		}
	}
	for _, event := range []string{"cert_obtaining", "cert_obtained", "tls_get_certificate", "cached_managed_cert"} {
		fail(event)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := r.notice(stopped, "cert_failed", map[string]any{"identifier": name, "error": stopped.Err()}); err != nil {
		t.Error(err)
	}
	r.want(t, pair{}, "")
	fail("cert_failed")
	r.want(t, pair{}, "no such host")
	for _, p := range []pair{a, b} {
		keep(t, r.storage, name, p)
		if err := r.load(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		r.want(t, p, "")
		fail("cert_failed")
		r.want(t, p, "no such host")
	}
	if got := r.Certificates()[1]; got != (Certificate{Domain: other}) {
		t.Errorf("the other name has %+v", got)
	}
	for _, want := range []string{`"domain":"` + name + `"`, "there is no certificate yet", "the current one is kept", `"error":"no such host"`} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, r.log)
		}
	}
}

// A certificate that was not renewed in time is a problem, whatever the cause.
func TestOverdue(t *testing.T) {
	for _, c := range []struct {
		left    time.Duration // of an hour
		problem string
	}{{11 * time.Minute, ""}, {9 * time.Minute, problemOverdue}, {-time.Minute, problemOverdue}} {
		name := newName()
		p := issue(t, name, time.Hour-c.left, time.Hour)
		r := newRig(t, []string{name}, func(r *rig) { keep(t, r.storage, name, p) })
		r.want(t, p, c.problem)
	}
}

// A certificate is ordered for a name without one, and the failure is reported.
func TestRunAsks(t *testing.T) {
	inBubble(t, func(*testing.T, *rig, string) {}, func(t *testing.T, r *rig, name string) {
		stop := r.run(t)
		time.Sleep(retryAfter)
		if r.want(t, pair{}, "connection refused"); !r.asked() {
			t.Errorf("the authority was not asked:\n%s", r.log)
		}
		stop()
		if locked, err := r.storage.TryLock(t.Context(), "issue_cert_"+name); err != nil || !locked {
			t.Errorf("after a stop, another instance waits for the lock: %v", err)
		}
	})
}

// A certificate that is near its end is asked for again and again, served
// meanwhile, and even afterwards; what another instance has got is taken over.
func TestRunTakesWhatAnotherRenewed(t *testing.T) {
	var a pair
	inBubble(t, func(t *testing.T, r *rig, name string) {
		a = issue(t, name, 0, time.Hour)
		keep(t, r.storage, name, a)
	}, func(t *testing.T, r *rig, name string) {
		r.run(t)
		time.Sleep(39 * time.Minute)
		if r.want(t, a, ""); r.asked() {
			t.Fatalf("the authority was asked in the first two thirds:\n%s", r.log)
		}
		time.Sleep(3 * time.Minute)
		if r.want(t, a, "connection refused"); !r.asked() {
			t.Fatalf("the authority was not asked:\n%s", r.log)
		}
		time.Sleep(time.Hour)
		r.want(t, a, "connection refused")
		wantServed(t, r.Manager, name, a) // it has expired
		b := issue(t, name, 0, time.Hour)
		keep(t, r.storage, name, b)
		time.Sleep(2 * time.Minute)
		r.want(t, b, "")
		wantServed(t, r.Manager, name, b)
	})
}

// Another instance may have reason to renew before this one would, as when the
// authority is about to revoke what it has issued.
func TestRunTakesWhatIsNewer(t *testing.T) {
	var a pair
	inBubble(t, func(t *testing.T, r *rig, name string) {
		a = issue(t, name, 0, 90*day)
		keep(t, r.storage, name, a)
	}, func(t *testing.T, r *rig, name string) {
		r.run(t)
		time.Sleep(time.Hour)
		b := issue(t, name, 0, 6*day) // shorter, as the authority pleases
		keep(t, r.storage, name, b)
		time.Sleep(longestPause + time.Second)
		r.want(t, b, "")
		wantServed(t, r.Manager, name, b)
		keep(t, r.storage, name, a) // an older state of the store has come back
		time.Sleep(time.Hour)
		r.want(t, b, "")
		wantServed(t, r.Manager, name, b)
	})
}

// A storage that fails at first is read as soon as it works, and the
// authority is not bothered.
func TestRunWaitsForTheStorage(t *testing.T) {
	var a pair
	inBubble(t, func(t *testing.T, r *rig, name string) {
		a = issue(t, name, 0, 90*day)
		keep(t, r.storage, name, a)
		r.spy.fail(func(int, string, string) bool { return true })
	}, func(t *testing.T, r *rig, _ string) {
		r.run(t)
		time.Sleep(time.Hour)
		r.want(t, pair{}, errDown.Error())
		if calls := r.spy.count(); calls > 20*int(time.Hour/retryAfter) {
			t.Errorf("%d calls in an hour", calls)
		}
		r.spy.fail(nil)
		time.Sleep(retryAfter + time.Second)
		if r.want(t, a, ""); r.asked() {
			t.Errorf("the authority was asked:\n%s", r.log)
		}
	})
}

// A certificate that another store.encryption_key has sealed is not ordered
// anew.
func TestRunWithAnotherKey(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig, name string) {
		keep(t, NewStorage(r.spy.Store, newBox(t, "b"), time.Now), name, issue(t, name, 0, 90*day))
	}, func(t *testing.T, r *rig, _ string) {
		r.run(t)
		time.Sleep(time.Hour)
		if r.want(t, pair{}, "store.encryption_key"); r.asked() {
			t.Errorf("the authority was asked:\n%s", r.log)
		}
	})
}

// An instance that was killed while it wrote leaves the new key beside the old
// certificate.
func TestRunMendsWhatIsTorn(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig, name string) {
		keep(t, r.storage, name, issue(t, name, 0, 90*day))
		put(t, r.storage, certmagic.StorageKeys.SitePrivateKey(issuerKey(), name), string(issue(t, name, 0, day).key))
	}, func(t *testing.T, r *rig, name string) {
		r.want(t, pair{}, "private key does not match")
		r.spy.fail(func(_ int, operation, key string) bool {
			return operation == "delete" && strings.HasSuffix(key, ".crt")
		})
		r.run(t)
		time.Sleep(5 * time.Minute)
		if r.want(t, pair{}, errDown.Error()); r.asked() {
			t.Errorf("the authority was asked:\n%s", r.log)
		}
		r.spy.fail(nil)
		time.Sleep(time.Minute - time.Second)
		if r.want(t, pair{}, "connection refused"); !r.asked() {
			t.Errorf("the authority was not asked:\n%s", r.log)
		}
		a := issue(t, name, 0, 90*day)
		keep(t, r.storage, name, a) // another instance has mended it
		time.Sleep(day)
		r.want(t, a, "")
	})
}

// Two that wrote at once leave the same, and there is nothing wrong yet with
// what is at hand.
func TestRunMendsWhatGetsTorn(t *testing.T) {
	var a pair
	inBubble(t, func(t *testing.T, r *rig, name string) {
		a = issue(t, name, 0, 12*time.Hour)
		keep(t, r.storage, name, a)
	}, func(t *testing.T, r *rig, name string) {
		r.run(t)
		time.Sleep(6*time.Hour + time.Second) // it looks at nothing right now
		keep(t, r.storage, name, issue(t, name, 0, 12*time.Hour))
		put(t, r.storage, certmagic.StorageKeys.SitePrivateKey(issuerKey(), name), string(issue(t, name, 0, day).key))
		time.Sleep(time.Hour)
		wantNone(t, r.storage, certmagic.StorageKeys.SiteCert(issuerKey(), name))
		if r.want(t, a, ""); r.asked() {
			t.Errorf("the authority was asked before its time:\n%s", r.log)
		}
		time.Sleep(2 * time.Hour)
		if r.want(t, a, "connection refused"); !r.asked() {
			t.Errorf("the authority was not asked:\n%s", r.log)
		}
		wantServed(t, r.Manager, name, a)
	})
}

// A renewal under way looks the same between its two writes. It is waited for,
// and nothing is taken away.
func TestRunWaitsForTheOtherHalf(t *testing.T) {
	var renewed pair
	inBubble(t, func(t *testing.T, r *rig, name string) {
		renewed = issue(t, name, 0, 90*day)
		keep(t, r.storage, name, issue(t, name, 0, day))
		put(t, r.storage, certmagic.StorageKeys.SitePrivateKey(issuerKey(), name), string(renewed.key))
	}, func(t *testing.T, r *rig, name string) {
		r.run(t)
		time.Sleep(retryAfter / 2)
		r.want(t, pair{}, "private key does not match")
		put(t, r.storage, certmagic.StorageKeys.SiteCert(issuerKey(), name), string(renewed.certificate))
		time.Sleep(retryAfter)
		if r.want(t, renewed, ""); r.asked() {
			t.Errorf("the authority was asked:\n%s", r.log)
		}
	})
}

// A certificate in the storage under a wrong name is not used: it is reported, as
// often as any other failure.
func TestRunWithTheCertificateOfAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig, name string) {
		keep(t, r.storage, name, issue(t, "other.example", 80*day, 90*day)) // it is time to renew it
	}, func(t *testing.T, r *rig, _ string) {
		r.want(t, pair{}, `is for ["other.example"]`)
		r.run(t)
		r.spy.fail(nil)
		time.Sleep(time.Hour)
		r.want(t, pair{}, `is for ["other.example"]`)
		if calls := r.spy.count(); calls > 20*int(time.Hour/retryAfter) {
			t.Errorf("%d calls in an hour", calls)
		}
		if r.asked() {
			t.Errorf("the authority was asked:\n%s", r.log)
		}
	})
}

// refusing is an issuer that grants in its testing environment what it refuses
// in earnest: certmagic asks it no more then.
type refusing struct {
	*certmagic.ACMEIssuer
	orders atomic.Int32
}

func (i *refusing) Issue(ctx context.Context, _ *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	i.orders.Add(1)
	err := errors.New("rejected identifier")
	if attempts, ok := ctx.Value(certmagic.AttemptsCtxKey).(*int); ok && *attempts > 0 {
		err = certmagic.ErrNoRetry{Err: err}
	}
	return nil, err
}

// An authority that refuses is left alone for a while, and what another
// instance gets is taken over meanwhile.
func TestRunAfterRefusal(t *testing.T) {
	inBubble(t, func(*testing.T, *rig, string) {}, func(t *testing.T, r *rig, name string) {
		issuer := &refusing{ACMEIssuer: r.issuer}
		r.config.Issuers = []certmagic.Issuer{issuer}
		r.run(t)
		time.Sleep(day)
		r.want(t, pair{}, "rejected identifier")
		if n := issuer.orders.Load(); n < 24 || n > 48 {
			t.Errorf("%d orders in a day", n)
		}
		a := issue(t, name, 0, 90*day)
		keep(t, r.storage, name, a)
		time.Sleep(retryAfter + time.Second)
		r.want(t, a, "")
	})
}

// What has long expired and is configured no more leaves the storage.
func TestRunCleans(t *testing.T) {
	const gone = "gone.example"
	inBubble(t, func(t *testing.T, r *rig, name string) {
		keep(t, r.storage, name, issue(t, name, 0, 90*day))
		keep(t, r.storage, gone, issue(t, gone, 60*day, 30*day))
		keep(t, r.storage, "late.example", issue(t, "late.example", 40*day, 30*day))
	}, func(t *testing.T, r *rig, name string) {
		r.run(t)
		synctest.Wait()
		folder := certmagic.StorageKeys.CertsPrefix(issuerKey())
		wantNone(t, r.storage, folder+"/"+gone)
		for _, kept := range []string{name, "late.example"} {
			if !r.storage.Exists(t.Context(), folder+"/"+kept) {
				t.Errorf("%s is gone", kept)
			}
		}
		time.Sleep(5*day + time.Minute)
		wantNone(t, r.storage, folder+"/late.example")
	})
}

// hanging is an issuer that never answers.
type hanging struct{ *certmagic.ACMEIssuer }

func (hanging) Issue(ctx context.Context, _ *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// An order that does not end in time loses its lock, so that no instance waits for
// it.
func TestCloseGivesLocksBack(t *testing.T) {
	inBubble(t, func(*testing.T, *rig, string) {}, func(t *testing.T, r *rig, name string) {
		r.config.Issuers = []certmagic.Issuer{hanging{r.issuer}}
		go r.config.ObtainCertAsync(t.Context(), name) // as certmagic does beside Run
		synctest.Wait()
		wantTry(t, r.storage, "issue_cert_"+name, false)
		r.Close()
		wantTry(t, r.storage, "issue_cert_"+name, true)
	})
}

// Nor does Close wait for certmagic for ever.
func TestCloseIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig, name string) {
		keep(t, r.storage, name, issue(t, name, 80*day, 90*day))
	}, func(t *testing.T, r *rig, _ string) {
		answer := make(chan struct{})
		defer close(answer)
		r.spy.fail(func(int, string, string) bool {
			<-answer
			return true
		})
		time.Sleep(longestPause + time.Second) // certmagic looks by itself now
		began := time.Now()
		r.Close()
		if took := time.Since(began); took != closeTime {
			t.Errorf("took %v", took)
		}
	})
}

// After Close and the end of Run no goroutine is left, outside of a bubble
// too.
func TestNothingIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 5 {
		r := newRig(t, []string{newName(), newName()}, func(*rig) {})
		stop := r.run(t)
		stop()
		r.Close()
		_ = r.spy.memory.Close()
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
