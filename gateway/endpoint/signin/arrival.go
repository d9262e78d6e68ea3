package signin

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"authgate/gateway/endpoint/signout"
	"authgate/gateway/identity/auth"
	"authgate/gateway/pages"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// arrival is a user who has proved who they are.
type arrival struct {
	account    *accounts.Account
	methods    []string // of the proof; see policy.Proof
	mechanisms []policy.Mechanism
	remember   bool          // the user wants to stay signed in
	then       places.Return // where the user wants to go on
	page       bool          // the answer leads a browser on, else it is JSON
}

// entrance is where users come in who have proved who they are: their login begins, and
// they are led on.
type entrance struct {
	presented *signout.Presented
	hosts     *OtherHosts
	issuer    *Issuer
	site      *web.Site
	verifier  *auth.Verifier
	metrics   *web.Metrics
	mayAdd    func(*accounts.Account) bool // a second factor; nil: no account may
}

// admit begins the login and answers. If there is an error, nothing has changed, or the
// store has failed.
func (e *entrance) admit(ex *web.Exchange, a *arrival) error {
	leads, err := e.stepUp(ex, a)
	e.metrics.Login(a.mechanisms[0], err)
	if err != nil {
		ex.Audit("login", slog.String("result", web.LoginResult(err)), slog.String("reason", web.ReasonOf(err)),
			subjectOf(a.account))
		return err
	}
	before, err := e.presented.BehindCookies(&ex.Store, &ex.Credentials)
	if err != nil {
		return err
	}
	given, err := e.issuer.issue(ex, a, before)
	if err != nil {
		return err
	}
	e.verifier.SignedIn(a.account, ex.Peer.Client)
	e.presented.NoteReplaced(ex, given.login)
	ex.Mechanism = string(a.mechanisms[0])
	ex.Audit("login", slog.String("subject", given.login.Subject()), slog.String("login", given.login.ID),
		slog.String("amr", strings.Join(a.methods, " ")))
	if !slices.Contains(a.mechanisms, policy.Session) {
		a.then.Binding = "" // there is no session to share
	}
	switch {
	case !a.page:
		ex.JSON(web.TypeJSON, http.StatusOK, e.issuer.tokens.response("Signed in.", given.tokens))
	case leads:
		ex.Redirect(http.StatusSeeOther, e.site.WithReturn(e.site.Own("account"), a.then))
	default:
		place, asks := e.hosts.AfterLogin(ex, given.login.ID, a.then)
		if asks {
			e.hosts.Ask(ex, place)
			return nil
		}
		ex.Redirect(http.StatusSeeOther, place)
	}
	return nil
}

func subjectOf(account *accounts.Account) slog.Attr {
	return slog.String("subject", policy.LocalProvider+":"+account.Username)
}

// stepUp compares the proof of a sign-in on the page with its demand. leads tells that the user
// goes to their account next, to add the second factor that is needed. An account that cannot have
// one keeps the session that was not enough: a new one would not be enough either.
func (e *entrance) stepUp(ex *web.Exchange, a *arrival) (leads bool, err error) {
	proof := policy.Proof{AMR: a.methods, AuthTime: ex.Canonical.Now}
	if a.then.Demand.Factors <= proof.Factors() {
		return false, nil
	}
	if e.mayAdd != nil && e.mayAdd(a.account) {
		return true, nil
	}
	return false, web.Unproved(a.then.Demand, pages.ProblemOneFactor,
		"the account has a password alone, and cannot have a second factor")
}
