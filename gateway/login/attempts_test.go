package login

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/clocktest"
	"authgate/gateway/store"
)

// waiting is a login attempt that has begun.
type waiting struct {
	clock    *clocktest.Clock
	store    *recordingStore
	attempts *Attempts
	browser  string
	attempt  *Attempt
}

func newWaiting(tb testing.TB) *waiting {
	tb.Helper()
	w := &waiting{clock: clocktest.New(), browser: NewBrowserSecret()}
	memory := store.NewMemory(w.clock.Now)
	tb.Cleanup(func() { _ = memory.Close() })
	w.store = &recordingStore{Store: memory}
	w.attempts = NewAttempts(w.store, testBox(tb, "of the tests"), w.clock.Now)
	w.attempt = w.begin(tb, w.browser)
	return w
}

func (w *waiting) begin(tb testing.TB, browser string) *Attempt {
	tb.Helper()
	attempt := w.attempts.New(browser, "keycloak", testOP, "/here?a=b")
	noError(tb, w.attempts.Begin(tb.Context(), netip.Addr{}, attempt))
	return attempt
}

// wantNoAttempt fails the test if the attempt can be finished.
func (w *waiting) wantNoAttempt(tb testing.TB, browser, state string) {
	tb.Helper()
	if got, err := w.attempts.Finish(tb.Context(), browser, state); got != nil || !errors.Is(err, ErrNoAttempt) {
		tb.Errorf("got %+v, %v, want no such attempt", got, err)
	}
}

func TestFinishedAttemptIsTheOneThatBegan(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	began := w.clock.Now()
	w.clock.Advance(time.Minute)
	got := must(w.attempts.Finish(t.Context(), w.browser, w.attempt.State))(t)
	if diff := cmp.Diff(w.attempt, got); diff != "" {
		t.Errorf("the attempt (-began +finished):\n%s", diff)
	}
	if got.Provider != "keycloak" || got.Issuer != testOP || got.ReturnTo != "/here?a=b" || !got.Started.Equal(began) {
		t.Errorf("got %+v", got)
	}
	w.wantNoAttempt(t, w.browser, w.attempt.State)
}

// State, nonce and verifier are independent and have 256 random bits each. The verifier
// has the form of RFC 7636, section 4.1.
func TestAttemptSecrets(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	seen := make(map[string]bool)
	for range 100 {
		a := w.attempts.New(w.browser, "keycloak", testOP, "")
		for _, secret := range []string{a.State, a.Nonce, a.Verifier, NewBrowserSecret()} {
			if raw, err := base64.RawURLEncoding.DecodeString(secret); err != nil || len(raw) != 32 || seen[secret] {
				t.Fatalf("%q holds %d bytes, %v, seen %v", secret, len(raw), err, seen[secret])
			}
			seen[secret] = true
		}
		if strings.Contains(a.Browser, w.browser) || a.Browser == "" {
			t.Errorf("the attempt remembers the browser as %q", a.Browser)
		}
	}
	w.wantNoAttempt(t, w.browser, w.attempts.New(w.browser, "keycloak", testOP, "").State) // it has not begun
}

func TestAttemptIsFinishedOnce(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	var finished atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			got, err := w.attempts.Finish(t.Context(), w.browser, w.attempt.State)
			switch {
			case err == nil && got != nil:
				finished.Add(1)
			case got != nil || !errors.Is(err, ErrNoAttempt):
				t.Errorf("got %+v, %v, want no such attempt", got, err)
			}
		})
	}
	wg.Wait()
	if n := finished.Load(); n != 1 {
		t.Errorf("finished %d times, want once", n)
	}
}

// A state is useless in another browser, and so is what resembles a state. Trying it does
// no harm.
func TestAttemptOfAnotherBrowser(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	raw, _ := base64.RawURLEncoding.DecodeString(w.attempt.State)
	for _, browser := range []string{NewBrowserSecret(), "", w.attempt.Browser, w.browser + "=", w.browser[:42], strings.ToUpper(w.browser)} {
		w.wantNoAttempt(t, browser, w.attempt.State)
	}
	w.wantNoAttempt(t, "", w.begin(t, "").State) // no attempt is without a browser
	for _, state := range []string{
		"", "x", w.attempt.State[:42], w.attempt.State + "A", w.attempt.State + "=", " " + w.attempt.State, w.attempt.State + "\n", string(raw),
		hashed([]byte(w.attempt.State)), attemptKey(w.attempt.State), w.attempt.Nonce, w.attempt.Verifier, w.browser, w.attempt.Browser,
		loosen(t, w.attempt.State), strings.ToUpper(w.attempt.State), "\x00", "\xff", strings.Repeat("A", 1<<20),
	} {
		w.wantNoAttempt(t, w.browser, state)
	}
	for _, call := range w.store.takeCalls() {
		if strings.HasPrefix(call, "take ") || strings.HasPrefix(call, "delete ") {
			t.Errorf("another browser could %s", call)
		}
	}
	must(w.attempts.Finish(t.Context(), w.browser, w.attempt.State))(t)
}

func TestAttemptLifetime(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	second := w.begin(t, w.browser)
	third := w.begin(t, w.browser) // one browser, several tabs
	w.clock.Advance(10*time.Minute - 1)
	for _, want := range []*Attempt{third, w.attempt} {
		if got, err := w.attempts.Finish(t.Context(), w.browser, want.State); err != nil || got.Nonce != want.Nonce {
			t.Errorf("before its end: got %+v, %v, want %+v", got, err, want)
		}
	}
	w.clock.Advance(1)
	w.wantNoAttempt(t, w.browser, second.State)
	if n, err := w.store.Store.(store.Counter).Count(t.Context(), ""); n != 0 || err != nil {
		t.Errorf("%d records stay, %v", n, err)
	}
}

// An attempt that was encrypted with another key or for another state is not found.
func TestSealedAttempts(t *testing.T) {
	t.Parallel()
	w := newWaiting(t)
	other := NewAttempts(w.store, testBox(t, "another"), w.clock.Now)
	if got, err := other.Finish(t.Context(), w.browser, w.attempt.State); got != nil || !errors.Is(err, ErrNoAttempt) {
		t.Errorf("with another key: got %+v, %v", got, err)
	}
	sealed := must(w.store.Get(t.Context(), attemptKey(w.attempt.State)))(t)
	elsewhere := newSecretText()
	noError(t, w.store.Put(t.Context(), attemptKey(elsewhere), sealed, time.Time{}))
	w.wantNoAttempt(t, w.browser, elsewhere)
	noError(t, w.store.Put(t.Context(), attemptKey("damaged"), w.attempts.box.Seal([]byte(`{"provider":7`), attemptKey("damaged")), time.Time{}))
	if got, err := w.attempts.Finish(t.Context(), w.browser, "damaged"); got != nil || err == nil || errors.Is(err, ErrNoAttempt) {
		t.Errorf("damaged: got %+v, %v, want an error that decides nothing", got, err)
	}
}

func TestValidBrowser(t *testing.T) {
	t.Parallel()
	good := NewBrowserSecret()
	if !ValidBrowserSecret(good) {
		t.Errorf("%q is refused", good)
	}
	for _, bad := range []string{
		"", "x", good[:42], good + "A", good + "=", good[:20] + "\n" + good[20:], good[:20] + "\n" + good[21:], loosen(t, good),
		base64.RawURLEncoding.EncodeToString(randomBytes(31)), base64.RawURLEncoding.EncodeToString(randomBytes(33)), strings.Repeat("A", 1<<20),
	} {
		if ValidBrowserSecret(bad) {
			t.Errorf("%q passes", bad)
		}
	}
}
