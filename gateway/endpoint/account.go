package endpoint

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/login"
	"authgate/gateway/pages"
	"authgate/gateway/web"
	"authgate/policy"
)

// freshSignIn is how old the sign-in of a user may be who makes an API token. A token
// outlives the session, so a session that was left open, or stolen, must not make one.
const freshSignIn = 10 * time.Minute

// account tells a user about their own login.
type account struct {
	chain     auth.Chain // all mechanisms but Basic
	sessions  auth.Chain // these alone may change something
	logins    *login.Logins
	site      *web.Site
	crossSite *web.CrossSite
}

func (a *account) identity(ex *web.Exchange) (*policy.Identity, error) {
	id, err := ex.Authenticate(a.chain)
	if err != nil {
		return nil, web.Challenge(err, a.chain.Challenges(&ex.Credentials)...)
	}
	ex.Identify(id)
	return id, nil
}

// reader returns the user who may see what is theirs. An API token without roles is for
// a program that only has to say who it is.
func (a *account) reader(ex *web.Exchange) (*policy.Identity, error) {
	id, err := a.identity(ex)
	if err == nil && len(id.Roles) == 0 && ex.Credentials.Scheme == "bearer" && login.IsAPIToken(ex.Credentials.Value) {
		err = &web.Error{
			Status: http.StatusForbidden,
			Detail: "An API token without roles can read " + a.site.Own("me") + ", and nothing else of the account.",
		}
	}
	if err != nil {
		return nil, err
	}
	return id, nil
}

// signInAgain returns the page where a user who is signed in signs in once more, and
// from where they come back to the account.
func (a *account) signInAgain() string {
	page := web.WithParameter(a.site.Own("signin"), web.ReasonField, web.ReasonFresh)
	return a.site.WithReturn(page, web.Return{Path: a.site.Own("account")})
}

// changer returns the user who may change something of their own. A session must
// prove it.
func (a *account) changer(ex *web.Exchange) (*policy.Identity, error) {
	chain := a.sessions
	if ex.Credentials.Scheme == "bearer" || !presentsSession(&ex.Credentials) {
		chain = a.chain
	}
	id, err := ex.Authenticate(chain)
	if err != nil {
		return nil, web.Challenge(err, a.chain.Challenges(&ex.Credentials)...)
	}
	ex.Identify(id)
	if id.Mechanism == policy.Bearer {
		return nil, &web.Error{Status: http.StatusForbidden, Detail: "A token cannot do this. Sign in, and use the session."}
	}
	if a.crossSite.NeedsToken(ex) {
		if err := a.crossSite.CheckToken(ex, id.Login); err != nil {
			return nil, err
		}
	}
	return id, nil
}

func presentsSession(c *auth.Credentials) bool { return c.Session != "" || c.Delegated != "" }

// person is what /me tells of a user.
type person struct {
	Username  string           `json:"username"`
	Name      string           `json:"name"`
	Email     string           `json:"email"`
	Roles     []string         `json:"roles"`
	Mechanism policy.Mechanism `json:"mechanism"`
	Provider  string           `json:"provider"`
	ExpiresAt time.Time        `json:"expires_at,omitzero"`
}

func newPerson(id *policy.Identity) person {
	roles := id.Roles
	if roles == nil {
		roles = []string{}
	}
	return person{id.Username, id.Name, id.Email, roles, id.Mechanism, id.Provider, id.Expires.UTC().Truncate(time.Second)}
}

// serve is GET /me: who is signed in, by cookie or bearer. A browser gets a
// page.
func (a *account) serve(ex *web.Exchange) error {
	id, err := a.identity(ex)
	if err != nil {
		return err
	}
	if web.Negotiate(ex.Request) == web.TypeHTML {
		ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.Account(w, a.page(ex, id)) })
		return nil
	}
	ex.JSON(web.TypeJSON, http.StatusOK, newPerson(id))
	return nil
}

func (a *account) page(ex *web.Exchange, id *policy.Identity) pages.Account {
	return pages.Account{
		Username: id.Username, Name: id.Name, Email: id.Email, Roles: id.Roles,
		Mechanism: string(id.Mechanism), Provider: id.Provider, Expires: id.Expires,
		LogoutAction: a.site.Own("logout"), LogoutToken: a.crossSite.Token(ex, id.Login),
	}
}

// csrfToken is GET /csrf-token: the anti-CSRF token of the login.
func (a *account) csrfToken(ex *web.Exchange) error {
	id, err := a.identity(ex)
	if err != nil {
		return err
	}
	if id.Login == "" {
		return &web.Error{Status: http.StatusBadRequest, Detail: "This credential belongs to no login, and needs no token."}
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string]string{web.CSRFField: a.crossSite.Token(ex, id.Login)})
	return nil
}

// publicKeys is GET /.well-known/jwks.json: the public keys of access tokens
// (RFC 7517), encoded.
type publicKeys []byte

func (k publicKeys) serve(ex *web.Exchange) error {
	ex.Header().Set("Cache-Control", "public, max-age=300")
	ex.JSON(web.TypeJSON, http.StatusOK, json.RawMessage(k))
	return nil
}
