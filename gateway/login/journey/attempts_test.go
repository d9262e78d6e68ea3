package journey

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/store/record"
	"authgate/internal/test/must"
)

// beginAttempt begins an attempt of the browser to log in at keycloak.
func (r *rig) beginAttempt(tb testing.TB, browser string) *Attempt {
	tb.Helper()
	attempt := r.attempts.New(browser, "keycloak", testProvider, "/here?a=b")
	attempt.Binding, attempt.Elsewhere = Binding(browser), true
	must.Do(tb, r.attempts.Begin(tb.Context(), netip.Addr{}, attempt))
	return attempt
}

// wantAttempt fails the test unless the browser can finish the attempt as it began, once.
func (r *rig) wantAttempt(tb testing.TB, browser string, want *Attempt) {
	tb.Helper()
	got, err := r.attempts.Finish(tb.Context(), browser, want.State)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		tb.Errorf("the attempt: %v (-began +finished):\n%s", err, diff)
	}
	r.wantUsed(tb, browser, want)
}

// wantUsed fails the test unless the attempt is used up: the browser learns its place, and
// nothing else is left of it.
func (r *rig) wantUsed(tb testing.TB, browser string, attempt *Attempt) {
	tb.Helper()
	want := &Attempt{
		Browser: attempt.Browser, ReturnTo: attempt.ReturnTo, Binding: attempt.Binding,
		Elsewhere: attempt.Elsewhere, Started: attempt.Started, Used: true,
	}
	got, err := r.attempts.Finish(tb.Context(), browser, attempt.State)
	if diff := cmp.Diff(want, got); !errors.Is(err, ErrNoAttempt) || diff != "" {
		tb.Errorf("the used attempt: %v (-want +got):\n%s", err, diff)
	}
	r.wantNoAttempt(tb, NewBrowserSecret(), attempt.State)
}

// wantNoAttempt fails the test if the attempt can be finished.
func (r *rig) wantNoAttempt(tb testing.TB, browser, state string) {
	tb.Helper()
	if got, err := r.attempts.Finish(tb.Context(), browser, state); got != nil || !errors.Is(err, ErrNoAttempt) {
		tb.Errorf("got %+v, %v, want no such attempt", got, err)
	}
}

// An attempt can be finished once within ten minutes, also beside others of the browser.
func TestAttemptLifetime(t *testing.T) {
	t.Parallel()
	r, browser := newRig(t), NewBrowserSecret()
	first, second, third := r.beginAttempt(t, browser), r.beginAttempt(t, browser), r.beginAttempt(t, browser)
	if a := first; a.Provider != "keycloak" || a.Issuer != testProvider || a.ReturnTo != "/here?a=b" ||
		!a.Started.Equal(r.clock.Now()) {
		t.Errorf("the attempt is %+v", a)
	}
	r.clock.Advance(10*time.Minute - 1)
	r.wantAttempt(t, browser, third)
	r.wantAttempt(t, browser, first)
	r.clock.Advance(1)
	r.wantNoAttempt(t, browser, second.State)
	r.wantNoAttempt(t, browser, r.attempts.New(browser, "keycloak", testProvider, "").State) // it has not begun
	r.wantRecords(t, 0)
}

// Of two calls at the same time one finishes the attempt.
func TestAttemptIsFinishedOnce(t *testing.T) {
	t.Parallel()
	r, browser := newRig(t), NewBrowserSecret()
	attempt, elsewhere := r.beginAttempt(t, browser), r.elsewhere()
	r.store.Once("swap attempt:", func() { elsewhere.wantAttempt(t, browser, attempt) })
	r.wantUsed(t, browser, attempt)
}

// A state is useless in another browser, and so is what resembles a state. Trying it does
// no harm.
func TestAttemptOfAnotherBrowser(t *testing.T) {
	t.Parallel()
	r, own := newRig(t), NewBrowserSecret()
	a := r.beginAttempt(t, own)
	if strings.Contains(a.Browser, own) || a.Browser == "" {
		t.Errorf("the attempt remembers the browser as %q", a.Browser)
	}
	nobodys := r.beginAttempt(t, "") // no attempt is without a browser
	r.store.TakeCalls()
	r.wantNoAttempt(t, "", nobodys.State)
	for _, browser := range []string{NewBrowserSecret(), "", a.Browser, own + "=", own[:42], strings.ToUpper(own)} {
		r.wantNoAttempt(t, browser, a.State)
	}
	for _, state := range []string{
		"", a.State[:42], a.State + "A", a.State + "=", " " + a.State, a.State + "\n",
		string(must.Get(base64.RawURLEncoding.DecodeString(a.State))(t)), loosen(a.State),
		strings.ToUpper(a.State),
		record.Hash([]byte(a.State)), attemptKey(a.State), a.Nonce,
		a.Verifier, own, a.Browser, "\x00", strings.Repeat("A", 1<<20),
	} {
		r.wantNoAttempt(t, own, state)
	}
	r.store.WantReads(t)
	r.wantAttempt(t, own, a)
}

// An attempt that was encrypted with another key or for another state is not found.
func TestSealedAttempts(t *testing.T) {
	t.Parallel()
	r, browser := newRig(t), NewBrowserSecret()
	attempt := r.beginAttempt(t, browser)
	r.with(testBox(t, "another")).wantNoAttempt(t, browser, attempt.State)
	sealed := must.Get(r.store.Get(t.Context(), attemptKey(attempt.State)))(t)
	elsewhere := newSecret()
	must.Do(t, r.store.Put(t.Context(), attemptKey(elsewhere), sealed, time.Time{}))
	r.wantNoAttempt(t, browser, elsewhere)
	must.Do(t, r.store.Put(t.Context(), attemptKey("damaged"), r.box.Seal([]byte(`{"provider":7`), attemptKey("damaged")),
		time.Time{}))
	if got, err := r.attempts.Finish(t.Context(), browser, "damaged"); got != nil || err == nil ||
		errors.Is(err, ErrNoAttempt) {
		t.Errorf("damaged: got %+v, %v, want an error that decides nothing", got, err)
	}
}
