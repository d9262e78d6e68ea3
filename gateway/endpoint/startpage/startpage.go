package startpage

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/pages"
	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// StartPage is the applications of a configuration, in its order.
type StartPage struct {
	options *endpoint.Options
	apps    []app
	signsIn func(provider string) bool
}

// app is one application.
type app struct {
	rule               *policy.Route // decides who sees it
	title, description string
	url                string
	icon               pages.Logo
	iconID             string // empty: it has none
}

// iconField is the parameter of an icon's address that names the icon by its content. Another
// icon has another address, so that browsers need not ask whether one has changed.
const iconField = "id"

// New returns the start page of a configuration. signsIn reports whether users sign in at a provider of
// that name.
func New(o *endpoint.Options, cfg *config.Config, signsIn func(provider string) bool) *StartPage {
	s := &StartPage{options: o, signsIn: signsIn}
	for i, rule := range cfg.Table().Routes() {
		shown := cfg.Routes[i].App
		if shown == nil {
			continue
		}
		one := app{
			rule: rule, title: shown.Title, description: shown.Description, url: shown.URL, icon: shown.Image,
		}
		if one.url == "" {
			one.url = o.Site.PublicURL + shown.Place.Path
			if shown.Place.Host != "" {
				one.url = o.Site.Origin(shown.Place.Host) + shown.Place.Path
			}
		}
		if len(one.icon.Content) > 0 {
			sum := sha256.Sum256(one.icon.Content)
			one.iconID = base64.RawURLEncoding.EncodeToString(sum[:18])
		}
		s.apps = append(s.apps, one)
	}
	return s
}

// iconPath returns where the icon of an application is, "" if it has none.
func (s *StartPage) iconPath(a *app) string {
	if a.iconID == "" {
		return ""
	}
	return s.options.Site.Own(config.EndpointIcon) + "?" + iconField + "=" + a.iconID
}

// Rows returns the endpoints. config.Config.OwnEndpoints has their names if there are
// applications.
func (s *StartPage) Rows() []endpoint.Row {
	return []endpoint.Row{
		{Name: config.EndpointApps, Method: http.MethodGet, Home: true, Page: true, Do: s.servePage},
		{Name: config.EndpointIcon, Method: http.MethodGet, Home: true, Do: s.serveIcon},
	}
}

// Home returns the page at / of the host where users sign in, for when no route is there.
func (s *StartPage) Home() *endpoint.Endpoint {
	return endpoint.Single(s.options, endpoint.Row{Name: "home", Method: http.MethodGet, Do: s.serveHome})
}

// open returns the applications that a user may open, also those that first need a sign-in
// which proves more.
func (s *StartPage) open(ex *web.Exchange, id *policy.Identity) []app {
	user, request := s.inBrowser(id), ex.Canonical
	request.Method = http.MethodGet // as the link does
	return slices.DeleteFunc(slices.Clone(s.apps), func(a app) bool { return !a.opensTo(user, &request) })
}

// opensTo reports whether the route of an application lets a user in, if need be after a sign-in
// that proves more.
func (a *app) opensTo(user *policy.Identity, request *policy.Request) bool {
	if a.rule.AdmitsNobody() && !a.rule.Accepts(user.Mechanism) {
		user = nil // the session is no credential there
	}
	outcome := a.rule.Decide(user, request).Outcome
	return outcome == policy.Allow || outcome == policy.StepUp
}

// inBrowser returns who a user is to a route whom a token proves, when they open it in a browser:
// there, a sign-in proves it. Of the roles, the token lends those that it has.
func (s *StartPage) inBrowser(id *policy.Identity) *policy.Identity {
	if id.Mechanism != policy.Bearer {
		return id
	}
	user := *id
	switch {
	case id.Provider == policy.LocalProvider:
		user.Mechanism = policy.Session
	case s.signsIn(id.Provider):
		user.Mechanism = policy.OIDC
	default: // an issuer without a sign-in here
		return id
	}
	user.Scopes, user.Actor, user.EarlierActors = nil, "", nil
	if id.Owner != nil {
		owner := *id.Owner
		owner.Mechanism, owner.Scopes, owner.Actor, owner.EarlierActors = user.Mechanism, nil, "", nil
		user.Owner = &owner
	}
	return &user
}
