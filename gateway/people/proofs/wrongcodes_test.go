package proofs

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/internal/test/must"
)

// guess checks wrong codes of alice at several instances in turn.
func (r *rig) guess(n int, instances ...*Proofs) {
	r.Helper()
	for i := range n {
		p := instances[i%len(instances)]
		if _, err := p.Code(r.Context(), r.account("alice"), fmt.Sprint("wrong", i)); !errors.Is(err,
			factors.ErrWrongCode) {
			r.Fatalf("a wrong code: %v", err)
		}
	}
}

// wantStopped fails the test unless codes of alice's app have stopped to count, and she is warned.
func (r *rig) wantStopped(what string, stopped, warns bool) {
	r.Helper()
	for _, p := range []*Proofs{r.Proofs, r.instance()} {
		gotStopped := must.Get(p.Stopped(r.Context(), r.account("alice")))(r)
		if got := must.Get(p.Warns(r.Context(), r.account("alice")))(r); gotStopped != stopped || got != warns {
			r.Errorf("%s: stopped: %t, warns: %t", what, gotStopped, got)
		}
	}
}

// After 50 wrong codes in a row, on all instances, codes of the app count no more, and the right ones are
// not used up. A passkey, a recovery code and another secret make them count again.
func TestWrongCodesStopCodes(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(r *rig, recovery []string) (secret string){
		"a recovery code": func(r *rig, recovery []string) string {
			must.Get(r.instance().Code(r.Context(), r.account("alice"), recovery[0]))(r)
			return ""
		},
		"a passkey alone": func(r *rig, _ []string) string {
			key := verified()
			r.addPasskey(key, "alice")
			r.wantStopped("with a passkey more", true, true)
			must.Get(r.SignIn(r.Context(), must.Get(key.Get(r.begun(r.BeginSignIn(r.Context()))))(r)))(r)
			return ""
		},
		"a passkey after the password": func(r *rig, _ []string) string {
			key := verified()
			key.Verified = false
			r.addPasskey(key, "alice")
			options := r.begun(r.BeginSecondFactor(r.Context(), r.account("alice")))
			must.Get(r.SignIn(r.Context(), must.Get(key.Get(options))(r)))(r)
			return ""
		},
		"an administrator": func(r *rig, _ []string) string {
			must.Do(r, r.edit("alice")(r.Context(), func(a *accounts.Account) error {
				a.Factors = factors.Set{}
				return nil
			}))
			r.reload()
			secret, _ := r.addTOTP("alice")
			return secret
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			secret, recovery := r.addTOTP("alice")
			other := r.instance()
			r.guess(maxWrongCodes-1, r.Proofs, other)
			r.wantStopped("one fewer", false, false)
			must.Get(other.Code(t.Context(), r.account("alice"), r.nextCode(secret)))(t)
			r.wantStopped("after a right code", false, false)
			r.guess(maxWrongCodes-1, r.Proofs, other)
			if _, err := r.Code(t.Context(), r.account("alice"), "wrong"); !errors.Is(err, ErrStopped) {
				t.Errorf("the last wrong code: %v", err)
			}
			r.wantStopped("after the last", true, true)
			for range 3 {
				if amr, err := other.Code(t.Context(), r.account("alice"), r.nextCode(secret)); !errors.Is(err,
					ErrStopped) {
					t.Errorf("a right code: %v, %v", amr, err)
				}
			}
			r.clock.Advance(500 * 24 * time.Hour)
			r.wantStopped("a long time later", true, true)
			if made := again(r, recovery); made != "" {
				r.wantStopped("with another secret", false, false)
				secret = made
			} else {
				r.wantStopped("afterwards", false, true)
			}
			must.Get(r.Code(t.Context(), r.account("alice"), r.nextCode(secret)))(t)
			r.clock.Advance(31 * 24 * time.Hour)
			r.wantStopped("a month later", false, false)
		})
	}
}

// Many guesses at once are no more, and wrong codes of another account do not count.
func TestWrongCodesAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret, _ := r.addTOTP("alice")
	r.addTOTP("bob")
	var guesses sync.WaitGroup
	for i := range 2 * maxWrongCodes {
		guesses.Go(func() { _, _ = r.Code(t.Context(), r.account("bob"), fmt.Sprint(i)) })
	}
	guesses.Wait()
	if !must.Get(r.Stopped(t.Context(), r.account("bob")))(t) {
		t.Error("bob's codes count")
	}
	if n := must.Get(r.wrong(t.Context(), r.account("bob")))(t); n != maxWrongCodes {
		t.Errorf("%d are counted", n)
	}
	must.Get(r.Code(t.Context(), r.account("alice"), r.nextCode(secret)))(t)
}

// What says nothing about a code does not count: a secret that cannot be decrypted, a file that cannot be
// changed. A passkey does not end what it has not to do with: an account without an app has no count.
func TestWrongCodesAreCodes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret, _ := r.addTOTP("alice")
	r.guess(3, r.Proofs)
	lost := r.instance()
	lost.Key = must.Get(NewKey("another key, which is long enough to be one", r.path+"x"))(t)
	for range maxWrongCodes {
		if _, err := lost.Code(t.Context(), r.account("alice"), r.nextCode(secret)); !errors.Is(err,
			factors.ErrSealed) {
			t.Fatalf("with another key: %v", err)
		}
	}
	if n := must.Get(r.wrong(t.Context(), r.account("alice")))(t); n != 3 {
		t.Errorf("%d are counted", n)
	}
	key := verified()
	r.addPasskey(key, "bob")
	for range 2 * maxWrongCodes {
		if _, err := r.Code(t.Context(), r.account("bob"), "123456"); !errors.Is(err, factors.ErrWrongCode) ||
			errors.Is(err, ErrStopped) {
			t.Fatalf("of an account without an app: %v", err)
		}
	}
}

// What a secret has in the store goes with it.
func TestForgetWrongCodes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addTOTP("alice")
	r.guess(2, r.Proofs)
	before, account := r.Proofs, r.account("alice")
	must.Do(t, r.instance().Forget(t.Context(), before))
	if n := must.Get(r.wrong(t.Context(), account))(t); n != 2 {
		t.Errorf("after a reload %d are counted", n)
	}
	r.write("- username: bob\n")
	r.reload()
	must.Do(t, r.Forget(t.Context(), before))
	if n := must.Get(r.wrong(t.Context(), account))(t); n != 0 {
		t.Errorf("of an account that is gone %d are counted", n)
	}
}
