package endpoint

import (
	"errors"
	"net/http"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// SignedIn are the mechanisms that tell who a user is: all but Basic.
func (o *Options) SignedIn() auth.Chain {
	return append(auth.Chain{o.Bearers}, o.Sessions("")...)
}

// Sessions are the mechanisms of users in a browser: only those at providers or of local
// accounts, if only names one of the two kinds.
func (o *Options) Sessions(only policy.Mechanism) auth.Chain {
	var chain auth.Chain
	if only != policy.OIDC {
		chain = append(chain, o.Local)
	}
	if only != policy.Session && o.Delegated != nil {
		chain = append(chain, o.Delegated)
	}
	return chain
}

// Identity returns the user who asks, by a session or a token.
func (o *Options) Identity(ex *web.Exchange) (*policy.Identity, error) {
	return o.prove(ex, o.SignedIn())
}

// Reader returns the user who may see their own account. An API token without roles is for a
// program that only has to say who it is.
func (o *Options) Reader(ex *web.Exchange) (*policy.Identity, error) {
	id, err := o.Identity(ex)
	if err != nil {
		return nil, err
	}
	if len(id.Roles) == 0 && ex.Credentials.BearsAPIToken() {
		return nil, web.Refused(web.CredentialAccessToken, &web.Error{
			Status: http.StatusForbidden,
			Detail: "An API token without roles can read " + o.Site.Own("me") + ", and nothing else of the account.",
		})
	}
	return id, nil
}

// PageReader is Reader for a page. It leads a page load without a login to the sign-in page.
func (o *Options) PageReader(ex *web.Exchange) (*policy.Identity, error) {
	id, err := o.Reader(ex)
	if needsSignIn(ex, err) {
		return nil, toSignIn(ex)
	}
	return id, err
}

// needsSignIn reports whether err is that of a page load without a login, which toSignIn can
// lead on.
func needsSignIn(ex *web.Exchange, err error) bool {
	return errors.Is(err, auth.ErrNoCredentials) && ex.PageLoad() && ex.SignIn != nil
}

// prove returns the user that one of the mechanisms proves.
func (o *Options) prove(ex *web.Exchange, chain auth.Chain) (*policy.Identity, error) {
	id, err := ex.Authenticate(chain)
	if err != nil {
		if errors.Is(err, auth.ErrRejected) {
			err = web.Refused(web.CredentialAccessToken, err)
		}
		return nil, web.Challenge(err, o.SignedIn().Challenges(&ex.Credentials)...)
	}
	ex.Identify(id)
	return id, nil
}

// changer returns the user who may change something of their own. A session must prove
// it, and with it that no other site asks.
func (o *Options) changer(ex *web.Exchange) (*policy.Identity, error) {
	chain := o.Sessions("")
	if creds := &ex.Credentials; creds.Scheme == "bearer" || creds.Session == "" && creds.Delegated == "" {
		chain = o.SignedIn()
	}
	id, err := o.prove(ex, chain)
	if err != nil {
		return nil, err
	}
	if id.Mechanism == policy.Bearer {
		return nil, web.Refused(web.CredentialAccessToken, &web.Error{
			Status: http.StatusForbidden, Detail: "A token cannot do this. Sign in, and use the session.",
		})
	}
	if !o.CrossSite.NeedsToken(ex) {
		return id, nil
	}
	return id, o.CrossSite.CheckToken(ex, id.Login)
}

// Guest returns the user whom a chain of sessions proves, nil if there is none. It clears
// cookies that are no longer valid.
func Guest(ex *web.Exchange, chain auth.Chain) (*policy.Identity, error) {
	id, err := ex.Authenticate(chain)
	switch {
	case err == nil:
		ex.Identify(id)
		return id, nil
	case errors.Is(err, auth.ErrNoCredentials), errors.Is(err, auth.ErrRejected):
		ex.Stale.Clear(ex)
		return nil, nil
	}
	return nil, err
}

// SignInAgain returns the page where a user who is signed in signs in once more and meets the
// demand d. From there they come back to the page of that name, which leads on to where they came
// from, if they were led there.
func (o *Options) SignInAgain(back string, d policy.Demand, from places.Return) string {
	page := places.WithParameter(o.Site.Own("signin"), places.ReasonField, places.ReasonFresh)
	return o.Site.WithReturn(page, places.Return{Path: o.Site.WithReturn(o.Site.Own(back), from), Demand: d})
}

// FreshAgain returns the page where a user signs in again if a fresh sign-in is needed, and from
// where they come back to the page of that name. It is empty if theirs is fresh.
func (o *Options) FreshAgain(id *policy.Identity, back string) string {
	if o.fresh(id, FreshSignIn) {
		return ""
	}
	return o.SignInAgain(back, askFresh(id, FreshSignIn), places.Return{})
}

// fresh reports whether a user has proved who they are at most that long ago; 0: at any time. If a
// provider does not say when it was, the sign-in here counts: many providers never say.
func (o *Options) fresh(id *policy.Identity, age time.Duration) bool {
	proof := id.Proof
	if proof.AuthTime.IsZero() {
		proof.AuthTime = id.SignedIn
	}
	return policy.Demand{MaxAge: age}.Met(&proof, o.Now())
}

// askFresh returns the demand on the next sign-in of a user, so that it is fresh. A password that is
// given here is. A provider that says when it was must ask the user: its own session could answer.
func askFresh(id *policy.Identity, age time.Duration) policy.Demand {
	if id.Provider == policy.LocalProvider || id.AuthTime.IsZero() {
		return policy.Demand{}
	}
	return policy.Demand{MaxAge: age}
}

// DoneField is the parameter of a page for the outcome of its form.
const DoneField = "done"

// ByPage reports whether the form of a page, or one like it, sent the request.
func ByPage(ex *web.Exchange) bool {
	return ex.MediaType() == web.TypeForm && web.Negotiate(ex.Request) == web.TypeHTML
}
