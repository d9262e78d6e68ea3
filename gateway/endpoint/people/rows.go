package people

import (
	"net/http"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/login"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// page is /account/people and below: the local accounts, for those who look after them.
type page struct {
	options  *endpoint.Options
	accounts *accounts.Set
	overview *login.Overview
	logout   *signout.Logout
	policies []*policy.Route // of the configuration
}

// Rows returns the endpoints of a configuration. logout counts and logs the logins that changes
// end, and tells their providers. policies are all that the configuration has.
func Rows(o *endpoint.Options, logout *signout.Logout, policies []*policy.Route) []endpoint.Row {
	p := &page{
		options: o, accounts: o.Local.Accounts, overview: mechanism.Overview(o.Local, o.Federation), logout: logout,
		policies: policies,
	}
	const name = config.EndpointPeople
	rows := []endpoint.Row{{
		Name: name, Method: http.MethodGet, Home: true, Page: true, Admins: true, Back: name, Do: p.list,
	}}
	for _, c := range changes() {
		rows = append(rows, endpoint.Row{
			Name: name + "/" + c.name, Method: http.MethodPost, Home: true, Admins: true, Back: name,
			Sessions: true, Fresh: endpoint.FreshSignIn, Do: func(ex *web.Exchange) error { return p.serve(ex, c) },
		})
	}
	return rows
}
