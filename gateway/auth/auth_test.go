package auth

import (
	"errors"
	"strings"
	"testing"

	"authgate/policy"
)

// The details that clients see are fixed.
func TestDetails(t *testing.T) {
	t.Parallel()
	if DetailWrongPassword != "Invalid username or password." || DetailNotSignedIn != "Not signed in." {
		t.Errorf("the contract's details are %q and %q", DetailWrongPassword, DetailNotSignedIn)
	}
	err := error(&Rejection{Detail: "for the client", Reason: "for the operator"})
	if !errors.Is(err, ErrRejected) || errors.Is(err, ErrNoCredentials) || err.Error() != "auth: credential rejected: for the operator" {
		t.Errorf("a Rejection reads %q", err)
	}
}

// wantRejected returns a function that fails the test unless a wrong password is rejected, with
// a reason that contains reason: wantRejected(t, reason)(f()).
func wantRejected(tb testing.TB, reason string) func(*policy.Identity, error) {
	tb.Helper()
	return func(id *policy.Identity, err error) {
		tb.Helper()
		var r *Rejection
		if id != nil || !errors.As(err, &r) || !errors.Is(err, ErrRejected) || r.Detail != DetailWrongPassword || !strings.Contains(r.Reason, reason) {
			tb.Errorf("got %+v, %v, want a wrong password because of: %s", id, err, reason)
		}
	}
}

// wantError fails the test unless the result is that error alone.
func wantError[T any](tb testing.TB, want error) func(*T, error) {
	tb.Helper()
	return func(got *T, err error) {
		tb.Helper()
		if got != nil || !errors.Is(err, want) {
			tb.Errorf("got %+v, %v, want %v", got, err, want)
		}
	}
}
