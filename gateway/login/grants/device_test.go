package grants

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
	"authgate/policy"
)

// newDevice returns the codes of a device.
func (r *rig) newDevice(tb testing.TB) (device, user string) {
	tb.Helper()
	device, user, err := r.devices.New(tb.Context(), terms())
	must.Do(tb, err)
	return device, user
}

// wantPoll fails the test unless a device is told want.
func (r *rig) wantPoll(tb testing.TB, device string, want error) {
	tb.Helper()
	if issued, err := r.devices.Poll(tb.Context(), device, rightTerms); issued != nil || !errors.Is(err, want) {
		tb.Errorf("the device got %+v, %v; want %v", issued, err, want)
	}
}

// A device gets tokens once its user has allowed it, and once only.
func TestDevice(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"alice", "carol"} {
		r := newRig(t)
		s := r.signIn(t, user)
		device, code := r.newDevice(t)
		if !regexp.MustCompile(`^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$`).MatchString(code) {
			t.Errorf("the user code is %q", code)
		}
		r.wantPoll(t, device, ErrPending)
		typed := " " + strings.ToLower(strings.ReplaceAll(code, "-", " "))
		asked := must.Get(r.devices.Find(t.Context(), typed))(t)
		if diff := cmp.Diff(terms(), *asked); diff != "" {
			t.Errorf("it asks for (-want +got):\n%s", diff)
		}
		r.consentTo(t, s, *asked)
		must.Do(t, r.devices.Decide(t.Context(), typed, s.Identity))
		for _, decided := range []error{
			r.devices.Decide(t.Context(), code, nil), r.devices.Decide(t.Context(), code, s.Identity),
			func() error { _, err := r.devices.Find(t.Context(), code); return err }(),
		} {
			if !errors.Is(decided, ErrNoDevice) {
				t.Errorf("decided twice: %v", decided)
			}
		}
		refusal := errors.New("another client")
		if got, err := r.devices.Poll(t.Context(), device, func(*Terms) error { return refusal }); got != nil ||
			!errors.Is(err, refusal) {
			t.Errorf("got %+v, %v", got, err)
		}
		issued := must.Get(r.devices.Poll(t.Context(), device, rightTerms))(t) // although it is early
		if issued.Identity.Subject != s.Subject || issued.Login.ID != s.Login {
			t.Errorf("got %+v", issued)
		}
		r.wantIn(t, issued)
		r.wantIn(t, must.Get(r.rotate(t, issued.Refresh))(t))
		r.wantPoll(t, device, ErrInvalid)
	}
}

// A device that asks too often must wait longer each time, and learns what was decided.
func TestPoll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	device, code := r.newDevice(t)
	for _, c := range []struct {
		after time.Duration
		want  error
	}{
		{0, ErrPending}, {5 * time.Second, ErrPending}, {4600 * time.Millisecond, ErrPending},
		{4 * time.Second, ErrSlowDown},
		{9 * time.Second, ErrSlowDown}, {15 * time.Second, ErrPending}, {0, ErrSlowDown}, {20 * time.Second, ErrPending},
	} {
		r.clock.Advance(c.after)
		r.wantPoll(t, device, c.want)
	}
	must.Do(t, r.devices.Decide(t.Context(), code, nil))
	r.wantPoll(t, device, ErrDenied)
	r.wantPoll(t, device, ErrDenied)

	late, lateCode := r.newDevice(t)
	allowed, allowedCode := r.newDevice(t)
	r.consentTo(t, s, terms())
	must.Do(t, r.devices.Decide(t.Context(), allowedCode, s.Identity))
	r.clock.Advance(10 * time.Minute)
	for _, device := range []string{late, allowed} {
		r.wantPoll(t, device, ErrExpired)
	}
	if _, err := r.devices.Find(t.Context(), lateCode); !errors.Is(err, ErrNoDevice) {
		t.Errorf("a code that has expired: %v", err)
	}
	if err := r.devices.Decide(t.Context(), lateCode, s.Identity); !errors.Is(err, ErrNoDevice) {
		t.Errorf("a code that has expired: %v", err)
	}
	r.clock.Advance(expiredKept - 1)
	r.wantPoll(t, late, ErrExpired)
	r.clock.Advance(1)
	r.wantPoll(t, late, ErrInvalid)
	for _, kind := range []string{devicePrefix, userCodePrefix} {
		if keys := storetest.Keys(t, r.store.Store, kind); len(keys) > 0 {
			t.Errorf("the store keeps %q", keys)
		}
	}
}

// A device is decided about once, also if the store fails in the middle, and gets nothing when
// it expires at the last moment.
func TestDeviceFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	r.consentTo(t, s, terms())
	_, code := r.newDevice(t)
	must.Do(t, r.devices.Decide(t.Context(), code, nil))
	if keys := storetest.Keys(t, r.store.Store, userCodePrefix); len(keys) != 0 {
		t.Errorf("the store keeps %q", keys)
	}
	for _, by := range []*policy.Identity{nil, s.Identity} {
		_, code := r.newDevice(t)
		r.store.Fails("delete usercode:")
		must.Do(t, r.devices.Decide(t.Context(), code, by))
		r.store.Fails("")
		if err := r.devices.Decide(t.Context(), code, s.Identity); !errors.Is(err, ErrNoDevice) {
			t.Errorf("got %v", err)
		}
	}
	device, code := r.newDevice(t)
	must.Do(t, r.devices.Decide(t.Context(), code, s.Identity))
	r.clock.Advance(10*time.Minute - 1)
	r.store.Once("take device:", func() { r.clock.Advance(1) })
	r.wantPoll(t, device, ErrExpired)
}

// What is no user code finds no device.
func TestWrongUserCodes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, code := r.newDevice(t)
	other := "BBBB-BBBB"
	if other == code {
		other = "BBBB-BBBC"
	}
	for _, wrong := range []string{"", "-", code[:8], code + "B", other, "AEIO-UAEI", strings.Repeat("B", 1000),
		code + "\x00"} {
		if terms, err := r.devices.Find(t.Context(), wrong); terms != nil || !errors.Is(err, ErrNoDevice) {
			t.Errorf("%q: got %+v, %v", wrong, terms, err)
		}
		if err := r.devices.Decide(t.Context(), wrong, nil); !errors.Is(err, ErrNoDevice) {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
}

// Of many questions at once one gets the tokens, and of two decisions one counts.
func TestDeviceAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	elsewhere := r.elsewhere(t)
	r.consentTo(t, s, terms())
	for range 20 {
		device, code := r.newDevice(t)
		decided := make(chan error, 2)
		go func() { decided <- r.devices.Decide(context.Background(), code, s.Identity) }()
		go func() { decided <- elsewhere.devices.Decide(context.Background(), code, s.Identity) }()
		one, two := <-decided, <-decided
		if (one == nil) == (two == nil) {
			t.Fatalf("two decisions: %v, %v", one, two)
		}
		all := atOnce(16, func(r *rig) (*Issued, error) {
			return r.devices.Poll(context.Background(), device, rightTerms)
		}, r, elsewhere)
		if len(all) != 1 {
			t.Fatalf("%d of 16 questions got tokens", len(all))
		}
		r.wantIn(t, all[0])
	}
}

// People type a user code as they see it, with the punctuation that their keyboard makes of a
// hyphen; RFC 8628, section 6.1, has it stripped.
func TestUserCodeSpellings(t *testing.T) {
	t.Parallel()
	want, ok := userCodeKey("WDJBMJHT")
	if !ok {
		t.Fatal("not a code")
	}
	for _, typed := range []string{
		"WDJB-MJHT", "wdjb mjht", " Wdjb\u00a0-\u00a0Mjht\r\n", "WDJB–MJHT", "WDJB—MJHT", "WDJB‑MJHT",
		"WDJB_MJHT.", "W-D-J-B-M-J-H-T", "WDJB−MJHT", "WDJB\u200b-MJHT", "WDJB\u00ad\tMJHT",
	} {
		if key, ok := userCodeKey(typed); !ok || key != want {
			t.Errorf("%q is another code", typed)
		}
	}
	for _, typed := range []string{"", "WDJBMJH", "WDJBMJHTT", "WDJBMJHA", "WDJBMJH1", "ＷDJBMJHT", "WDJB\x00MJHT"} {
		if _, ok := userCodeKey(typed); ok {
			t.Errorf("%q is a code", typed)
		}
	}
}
