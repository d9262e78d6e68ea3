package endpoint

import (
	"errors"
	"io"
	"net/http"

	"authgate/gateway/auth"
	"authgate/gateway/pages"
	"authgate/gateway/web"
	"authgate/policy"
)

// home is the page at / of the host where users sign in, if no route is there. It
// says who is signed in.
type home struct {
	site    *web.Site
	chain   auth.Chain // of users in a browser
	account string     // the page of the user's own account
	signIn  string     // empty: no route accepts what a sign-in gives
}

// NewHome returns the start page.
func NewHome(o Options) *Endpoint {
	h := &home{site: o.Site, chain: o.sessions(), account: o.Site.Own("account")}
	if o.Used[policy.Session] || o.Used[policy.OIDC] {
		h.signIn = o.Site.Own("signin")
	}
	return o.endpoint("home", row{actions: actions{"GET": {do: h.serve}}}, nil)
}

func (h *home) serve(ex *web.Exchange) error {
	id, err := signedIn(ex, h.chain)
	if err != nil {
		return err
	}
	page := pages.Home{SignInURL: h.signIn}
	if id != nil {
		page = pages.Home{User: ex.User(id), AccountURL: h.account}
	}
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.Home(w, page) })
	return nil
}

// signedIn returns the user who is signed in, nil if there is none. It clears cookies that are
// no longer valid.
func signedIn(ex *web.Exchange, chain auth.Chain) (*policy.Identity, error) {
	id, err := ex.Authenticate(chain)
	switch {
	case err == nil:
		ex.Identify(id)
		return id, nil
	case errors.Is(err, auth.ErrNoCredentials), errors.Is(err, auth.ErrRejected):
		ex.ClearStale()
		return nil, nil
	}
	return nil, err
}
