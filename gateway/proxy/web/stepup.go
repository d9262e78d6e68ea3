package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/pages"
	"authgate/policy"
)

// The parameters that say what a sign-in must prove, beside those of a Return. A user who
// takes them away comes to the same decision again.
const (
	factorsField = "factors"
	maxAgeField  = "max_age" // a Go duration
)

// readDemand reads what a sign-in must prove. What no policy demands counts as absent.
func readDemand(value func(name string) string) (d policy.Demand) {
	if value(factorsField) == "2" {
		d.Factors = 2
	}
	if age, err := time.ParseDuration(value(maxAgeField)); err == nil && policy.CheckMaxAge(age) == nil {
		d.MaxAge = age
	}
	return d
}

// DemandFields returns the values of the parameters of a demand, empty for what it does not
// ask for.
func DemandFields(d policy.Demand) (factors, maxAge string) {
	if d.Factors > 0 {
		factors = strconv.Itoa(d.Factors)
	}
	if d.MaxAge > 0 {
		maxAge = d.MaxAge.String()
	}
	return factors, maxAge
}

// withDemand returns a place with the parameters of a demand.
func withDemand(place string, d policy.Demand) string {
	factors, maxAge := DemandFields(d)
	for _, parameter := range []struct{ name, value string }{{factorsField, factors}, {maxAgeField, maxAge}} {
		if parameter.value != "" {
			place = WithParameter(place, parameter.name, parameter.value)
		}
	}
	return place
}

// StepUp is the error of a user whose login has proved less than a policy demands. It tells
// clients what is needed (RFC 9470, section 3). reason is for operators.
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

// StepUpPage returns the page where a user who is signed in proves more: users of a provider
// go there at once, others to page.
func (s *Site) StepUpPage(id *policy.Identity, page string) string {
	if id.Mechanism.Traits().Users == policy.ProviderUsers {
		return s.Own("login") + "?provider=" + url.QueryEscape(id.Provider)
	}
	return page
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
