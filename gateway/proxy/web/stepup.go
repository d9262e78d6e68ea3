package web

import (
	"errors"
	"fmt"
	"net/http"

	"authgate/gateway/identity/auth"
	"authgate/gateway/pages"
	"authgate/policy"
)

// StepUp is the error of a user whose login has proved less than a policy demands. It tells clients
// the demand (RFC 9470, section 3). reason is for operators.
func StepUp(realm string, id *policy.Identity, d policy.Demand, reason string) error {
	detail := "This needs a sign-in that proves more: " + d.String() + ". Sign in again."
	if id.Login == "" {
		detail = "This needs a sign-in: " + d.String() + ". This credential belongs to none, so it will never do."
	}
	e := &Error{
		Status: http.StatusUnauthorized, Detail: detail, Cause: errors.New(reason),
		MaxAge: d.MaxAge, Problem: pages.ProblemProof,
	}
	return Challenge(e, auth.StepUpChallenge(realm, d))
}

// StepsUp reports whether a sign-in in the browser can prove more for the user of a request:
// their credential is a cookie, which the new session replaces. A token in Authorization would
// come before that again. A session comes before a certificate, too.
func (ex *Exchange) StepsUp(id *policy.Identity) bool {
	switch id.Mechanism.Traits().Carrier {
	case policy.InCookie, policy.InConnection:
		return true
	case policy.InHeaderOrCookie:
		return id.Login != "" && ex.Credentials.Scheme == "" // a token in a cookie
	}
	return false
}

// errUnproved is the cause of an Unproved.
var errUnproved = errors.New("the sign-in does not prove what it was begun for")

// Unproved is the error of a sign-in that was begun to prove more and does not. reason is for
// operators.
func Unproved(d policy.Demand, problem pages.Problem, reason string) error {
	return &Error{
		Status: http.StatusForbidden, Cause: fmt.Errorf("%w (%s): %s", errUnproved, d, reason), Problem: problem,
		Detail: "This sign-in does not prove what is needed: " + d.String() + ".",
	}
}
