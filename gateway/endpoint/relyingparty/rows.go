// Package relyingparty has the endpoints of the gateway as a relying party of identity
// providers (OpenID Connect Core 1.0): it leads users there, takes them back, and is told
// there of users who have signed out.
//
// # Limits and threats
//
// A response counts only in the browser that began, at the redirect URI of the provider that
// was asked, and once; the state is checked before a provider is called. The text of a
// provider is quoted on pages alone, one line of bounded length. A user who is signed in, and
// whom another site sends to a provider, is asked first. A new login ends the logins that the
// request presents, and a sign-in that proves too little changes nothing.
package relyingparty

import (
	"net/http"

	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/signin"
	"authgate/gateway/endpoint/signout"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/people/accounts"
	"authgate/policy"
)

// Options are the parts of the sign-in at providers.
type Options struct {
	*endpoint.Options
	Federation *mechanism.Federation
	Presented  *signout.Presented // finds the logins that a new one replaces
	Hosts      *signin.OtherHosts // lead users on
	Accounts   *accounts.Set
	Routes     *policy.Table
}

// Rows returns the endpoints of a configuration.
func Rows(o *Options) []endpoint.Row {
	federation := o.Federation
	begun := &delegatedLogin{
		site: o.Site, federation: federation, routes: o.Routes, signedIn: o.SignedIn(), presented: o.Presented,
		hosts: o.Hosts, accounts: o.Accounts,
	}
	returned := &callback{
		site: o.Site, federation: federation, presented: o.Presented, sessions: o.Sessions(""), hosts: o.Hosts,
	}
	rows := []endpoint.Row{{Name: "login", Method: http.MethodGet, LeadsHome: true, Do: begun.serve}}
	names := []string{"callback", "auth/callback"}
	for _, p := range federation.Providers {
		names = append(names, "callback/"+p.Name())
		out := &providerLogout{provider: p, users: federation.Users}
		rows = append(rows,
			endpoint.Row{
				Name: "backchannel-logout/" + p.Name(), Label: "backchannel-logout",
				Method: http.MethodPost, Do: out.backChannel,
			},
			endpoint.Row{
				Name: "frontchannel-logout/" + p.Name(), Label: "frontchannel-logout",
				Method: http.MethodGet, Do: out.frontChannel,
			})
	}
	for _, name := range names {
		rows = append(rows, endpoint.Row{
			Name: name, Label: "callback", Method: http.MethodGet, Anew: true, Enabled: returned.enabled,
			Do: returned.serve,
		})
	}
	return rows
}
