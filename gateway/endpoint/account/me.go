package account

import (
	"io"
	"net/http"
	"time"

	"authgate/gateway/endpoint"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// person describes a user at /me.
type person struct {
	Username    string           `json:"username"`
	Name        string           `json:"name"`
	Email       string           `json:"email"`
	Roles       []string         `json:"roles"`
	Mechanism   policy.Mechanism `json:"mechanism"`
	Provider    string           `json:"provider"`
	ExpiresAt   time.Time        `json:"expires_at,omitzero"`
	AMR         []string         `json:"amr"` // how the user has proved who they are in this login
	policy.Ends                  // of the account and of these roles
	AuthTime    int64            `json:"auth_time,omitempty"` // when that was, in seconds since 1970; 0: not known
}

func newPerson(id *policy.Identity) person {
	roles := id.Roles
	if roles == nil {
		roles = []string{}
	}
	p := person{
		Username: id.Username, Name: id.Name, Email: id.Email, Roles: roles, Mechanism: id.Mechanism,
		Provider:  id.Provider,
		ExpiresAt: id.Expires.UTC().Truncate(time.Second), AMR: id.AMR,
		Ends: id.OwnEnds(),
	}
	if p.AMR == nil {
		p.AMR = []string{}
	}
	if !id.AuthTime.IsZero() {
		p.AuthTime = id.AuthTime.Unix()
	}
	return p
}

// me is GET /me: who is signed in, by cookie or bearer. A browser gets a page.
func me(ex *web.Exchange, o *Options) error {
	id, err := o.Identity(ex)
	if err != nil {
		return err
	}
	if web.Negotiate(ex.Request) != web.TypeHTML {
		ex.JSON(web.TypeJSON, http.StatusOK, newPerson(id))
		return nil
	}
	page := pages.Account{
		Username: id.Username, Name: id.Name, Email: id.Email, Roles: id.Roles,
		Mechanism: string(id.Mechanism), Provider: o.ProviderTitle(id.Provider), Expires: id.Expires,
		Ends:         id.OwnEnds(),
		LogoutAction: o.Site.Own("logout"), LogoutToken: o.CrossSite.Token(ex, id.Login),
	}
	ex.Page(http.StatusOK, func(p *pages.Pages, w io.Writer) error { return p.Account(w, page) })
	return nil
}

// csrfToken is GET /csrf-token: the anti-CSRF token of the login.
func csrfToken(ex *web.Exchange, o *endpoint.Options) error {
	id, err := o.Identity(ex)
	if err != nil {
		return err
	}
	if id.Login == "" {
		return web.BadRequest("This credential belongs to no login, and needs no token.", nil)
	}
	ex.JSON(web.TypeJSON, http.StatusOK, map[string]string{web.CSRFField: o.CrossSite.Token(ex, id.Login)})
	return nil
}
