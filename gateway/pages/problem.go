package pages

import (
	"io"
	"net/http"
	"time"
)

// Problem is the cause of an error, in more detail than a status. A page has its own text for each
// problem.
type Problem int

// The problems.
const (
	_                      Problem = iota // not known: the status tells enough
	ProblemForbidden                      // a policy does not let the user in
	ProblemOtherSite                      // another site made the browser send the request
	ProblemPassword                       // wrong user name or password
	ProblemAttempt                        // a sign-in that is unknown, used, or too old
	ProblemNoCookie                       // a sign-in came back without its cookie
	ProblemClock                          // the clocks of gateway and provider differ
	ProblemProvider                       // the identity provider cannot be reached, or makes no sense
	ProblemProviderSlow                   // it does not answer in time
	ProblemProviderRefused                // it refused the sign-in
	ProblemNotSecure                      // the request did not come over https, as far as the gateway can tell
	ProblemCleartext                      // a credential came over http
	ProblemLogins                         // too many failed logins
	ProblemBusy                           // too many requests at once
	ProblemCookies                        // two cookies have the name of one of the gateway's
	ProblemBroken                         // the application's answer makes no sense
	ProblemProof                          // the user must prove more, by another sign-in
	ProblemUnproved                       // the sign-in at a provider has not proved what was asked for
	ProblemOneFactor                      // the account has a password alone, and two factors are needed
	ProblemInvitation                     // an invitation that is unknown, used, or too old
)

// key returns the beginning of the keys of a problem's texts.
func (p Problem) key() string {
	switch p {
	case ProblemForbidden:
		return "problem.forbidden"
	case ProblemOtherSite:
		return "problem.othersite"
	case ProblemPassword:
		return "problem.password"
	case ProblemAttempt:
		return "problem.attempt"
	case ProblemNoCookie:
		return "problem.nocookie"
	case ProblemClock:
		return "problem.clock"
	case ProblemProvider:
		return "problem.provider"
	case ProblemProviderSlow:
		return "problem.providerslow"
	case ProblemProviderRefused:
		return "problem.providerrefused"
	case ProblemNotSecure:
		return "problem.notsecure"
	case ProblemCleartext:
		return "problem.cleartext"
	case ProblemLogins:
		return "problem.logins"
	case ProblemBusy:
		return "problem.busy"
	case ProblemCookies:
		return "problem.cookies"
	case ProblemBroken:
		return "problem.broken"
	case ProblemProof:
		return "problem.proof"
	case ProblemUnproved:
		return "problem.unproved"
	case ProblemOneFactor:
		return "problem.onefactor"
	case ProblemInvitation:
		return "problem.invitation"
	}
	return ""
}

// statusKey is key for a status alone. The texts of problem.other say nothing, so
// that the page shows the detail.
func statusKey(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "problem.malformed"
	case http.StatusUnauthorized:
		return "problem.unauthorized"
	case http.StatusNotFound:
		return "problem.notfound"
	case http.StatusMisdirectedRequest:
		return "problem.host"
	case http.StatusTooManyRequests:
		return "problem.rate"
	case http.StatusInternalServerError:
		return "problem.internal"
	case http.StatusBadGateway:
		return "problem.unreachable"
	case http.StatusServiceUnavailable:
		return "problem.unavailable"
	case http.StatusGatewayTimeout:
		return "problem.slow"
	}
	return "problem.other"
}

// described is a problem in the words of a language.
type described struct{ Title, Text string }

// problem describes the cause of an error.
func (l *texts) problem(page ErrorPage) (d described, err error) {
	key := page.Problem.key()
	if key == "" {
		key = statusKey(page.Status)
	}
	if d.Title, err = l.text(key + ".title"); err == nil {
		d.Text, err = l.text(key + ".text")
	}
	return d, err
}

// ErrorPage has the content of an error page; empty fields are left out.
type ErrorPage struct {
	Status    int // HTTP status code
	Problem   Problem
	Detail    string // what went wrong, in English, for a problem that has no text of its own
	Said      string // what an identity provider said
	RequestID string // finds the request in the log

	Wait      time.Duration // until another attempt can succeed
	Retry     bool          // offer to load the page again
	SignInURL string        // a link to sign in
	SwitchURL string        // a link to sign in with another account
	HomeURL   string        // a link to the start page
	User      User          // who is signed in
	Twin      *Twin         // cookies to remove; nil: none
}

// Twin is the form by which a user removes the cookies that other services have set with
// the name of one of the gateway's.
type Twin struct{ Action, Cookie, ReturnTo string }

// ShowsDetail reports whether Detail tells more than the text of the problem.
func (e ErrorPage) ShowsDetail() bool {
	if e.Detail == "" || e.Problem.key() != "" {
		return false
	}
	switch statusKey(e.Status) {
	case "problem.other", "problem.malformed":
		return true
	}
	return false
}

// Error writes an error page.
func (p *Pages) Error(w io.Writer, page ErrorPage) error { return p.render(w, "error", page) }
