package people

import (
	"net/http"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/login"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// Options are the parts of the endpoints for those who look after accounts.
type Options struct {
	*endpoint.Options
	Logout   *signout.Logout // of logins that changes end
	Users    *login.Overview
	Editor   endpoint.Editor
	Policies []*policy.Route // all that the configuration has
}

// page is /account/people and below: the local accounts, for those who look after them.
type page struct {
	options  *Options
	accounts *accounts.Set
	overview *login.Overview
	logout   *signout.Logout
}

// Rows returns the endpoints of a configuration.
func Rows(o *Options) []endpoint.Row {
	p := &page{options: o, accounts: o.Users.Accounts, overview: o.Users, logout: o.Logout}
	const name = config.EndpointPeople
	rows := []endpoint.Row{{
		Name: name, Method: http.MethodGet, Home: true, Page: true, Admins: true, Back: name, Do: p.list,
	}}
	for _, c := range changes() {
		rows = append(rows, endpoint.Row{
			Name: name + "/" + c.name, Method: http.MethodPost, Home: true, Admins: true, Back: name,
			Sessions: true, Fresh: endpoint.FreshSignIn,
			Do: func(ex *web.Exchange) error { return p.serveChange(ex, c) },
		})
	}
	return rows
}
