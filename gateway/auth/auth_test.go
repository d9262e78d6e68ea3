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

// wantRejected returns a function that fails the test unless the error is a Rejection with
// this detail and a reason that contains reason: wantRejected(t, detail, reason)(f()).
func wantRejected(tb testing.TB, detail, reason string) func(*policy.Identity, error) {
	tb.Helper()
	return func(id *policy.Identity, err error) {
		tb.Helper()
		var r *Rejection
		if id != nil || !errors.As(err, &r) || !errors.Is(err, ErrRejected) {
			tb.Errorf("got %+v, %v, want it rejected because of: %s", id, err, reason)
		} else if r.Detail != detail || !strings.Contains(r.Reason, reason) {
			tb.Errorf("rejected with %q because of %q, want %q because of %q", r.Detail, r.Reason, detail, reason)
		}
	}
}

// wantNoAnswer returns a function that fails the test unless the error means that the
// answer is unknown, and is cause if one is given.
func wantNoAnswer(tb testing.TB, cause ...error) func(*policy.Identity, error) {
	tb.Helper()
	return func(id *policy.Identity, err error) {
		tb.Helper()
		if id != nil || err == nil || errors.Is(err, ErrRejected) || errors.Is(err, ErrNoCredentials) {
			tb.Errorf("got %+v, %v, want an error that decides nothing", id, err)
		}
		for _, want := range cause {
			if !errors.Is(err, want) {
				tb.Errorf("got %v, want %v", err, want)
			}
		}
	}
}

// noError ends the test if err is not nil.
func noError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// must returns v, or ends the test if err is not nil: must(f())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		noError(tb, err)
		return v
	}
}
