package endpoint

import (
	"errors"
	"log/slog"
	"net/http"

	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// NothingHere is the answer where nothing is, and where a user must not know that something
// is. reason is for operators.
func NothingHere(reason string) error {
	return &web.Error{Status: http.StatusNotFound, Detail: "There is nothing here.", Cause: errors.New(reason)}
}

// conceal hides the endpoint from all but the users who look after accounts. It leads those
// of them to a sign-in whose login proves too little, and page loads without a login.
func (e *Endpoint) conceal(ex *web.Exchange) error {
	o := e.options
	if o.Admins == nil {
		return NothingHere("accounts.admins is not set")
	}
	if ex.Credentials.Scheme == "bearer" {
		return web.Refused(web.CredentialAccessToken,
			NothingHere("accounts are looked after with sessions, and with no token"))
	}
	id, err := ex.Authenticate(o.Sessions(""))
	if errors.Is(err, auth.ErrNoCredentials) || errors.Is(err, auth.ErrRejected) {
		if needsSignIn(ex, err) {
			return toSignIn(ex)
		}
		return NothingHere("no session proves a user who looks after accounts")
	}
	if err != nil {
		return err
	}
	ex.Identify(id)
	switch decision := o.Admins.Decide(id, &ex.Canonical); decision.Outcome {
	case policy.Allow:
		return nil
	case policy.StepUp:
		return e.stepUp(ex, id, &decision)
	default:
		ex.Audit("denied", slog.String("rule", decision.Rule), slog.String("reason", decision.Reason))
		return NothingHere(decision.Reason)
	}
}

// stepUp leads a user to a sign-in that proves more, and from there to the page of the
// endpoint. Other clients are told the demand.
func (e *Endpoint) stepUp(ex *web.Exchange, id *policy.Identity, decision *policy.Decision) error {
	o := e.options
	ex.Reason = decision.Reason
	ex.Audit("step_up", slog.String("rule", decision.Rule), slog.String("reason", decision.Reason))
	refusal := web.StepUp(o.Realm, id, decision.Demand, decision.Reason)
	if !ex.StepsUp(id) {
		ex.SignIn = nil
		return refusal
	}
	page := o.Site.StepUpPage(id, o.Site.Own("signin"))
	back := places.Return{Path: o.Site.Own(e.back), Demand: decision.Demand}
	if ex.PageLoad() || ByPage(ex) && !ex.ByScript() {
		ex.Decision = web.DecisionChallenge
		ex.Redirect(http.StatusSeeOther, ex.SignInPlace(page, back))
		return web.ErrAnswered
	}
	ex.SignIn = &web.SignInLink{Page: o.Site.WithReturn(page, places.Return{Demand: decision.Demand})}
	return refusal
}

// toSignIn leads the page load of a user who is not signed in to the sign-in page, and from
// there back.
func toSignIn(ex *web.Exchange) error {
	place := ex.TellEnd(ex.SignInPlace(ex.SignIn.Page, places.Return{Path: ex.Target()}))
	ex.Stale.Clear(ex)
	ex.Decision = web.DecisionChallenge
	ex.Redirect(http.StatusFound, place)
	return web.ErrAnswered
}
