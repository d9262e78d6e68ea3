package gateway

import (
	"maps"

	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/cors"
)

// newCORS returns the CORS policy of a route, nil if the application has its own.
func newCORS(c *config.CORS) *cors.Policy {
	if len(c.Origins) == 0 {
		return nil
	}
	return cors.New(cors.Options{
		Origins: c.Origins, Headers: c.Headers, Methods: c.Methods, Expose: c.Expose, Credentials: c.Credentials,
		MaxAge: c.MaxAge,
	})
}

// preflight treats a CORS preflight before a route is looked up by its own method: if the route of
// the request that it asks about has a CORS policy, the gateway answers, or admits it to the
// application. A preflight carries no credentials, so nothing is decided on but its origin. Any
// other OPTIONS request goes its usual way.
func (ex *exchange) preflight() error {
	if !cors.IsPreflight(ex.Request) {
		return nil
	}
	asked := ex.Canonical
	asked.Method = cors.RequestedMethod(ex.Request.Header)
	route, err := ex.state.routing.findRoute(&asked)
	if err != nil || route.forward == nil && !ex.Verify {
		return nil // the route of OPTIONS itself decides
	}
	if route.config.MCP && ex.Verify {
		ex.route, ex.Label = route, route.rule.Name
		return noMessage()
	}
	if route.config.CORS.Preflight == config.PreflightApplication {
		// Without a body, and from a proxy, which forwards the header itself, without a credential.
		bare := ex.Request.ContentLength == 0
		if ex.Verify {
			bare = cors.ProvesNothing(ex.Request.Header, ex.state.site.TokenHeader)
		}
		if bare {
			ex.admitPreflight(route)
		}
		return nil
	}
	if route.cors == nil || ex.Verify { // a 204 would let the proxy forward it
		return nil
	}
	ex.route, ex.Label = route, route.rule.Name
	return web.Answered(ex.Preflight(route.cors))
}

// admitPreflight lets a preflight through to the application of a route. It proves nothing, so it
// goes with the fields that browsers send in a preflight, and with nothing else.
func (ex *exchange) admitPreflight(route *route) {
	ex.route, ex.Label = route, route.rule.Name
	ex.sent.Preflight = true
	ex.Decision, ex.Reason = web.DecisionAllow, "the application answers the preflights of the route"
	if ex.Verify {
		return // the header describes the request
	}
	r := *ex.Request
	r.Header = maps.Clone(r.Header)
	maps.DeleteFunc(r.Header, func(name string, _ []string) bool { return !cors.InPreflight(name) })
	ex.Request = &r
	ex.Credentials = auth.Credentials{Scope: ex.Credentials.Scope, Host: ex.Credentials.Host}
}

// authorizePreflight is authorize for a preflight that is admitted.
func (ex *exchange) authorizePreflight() error {
	if ex.Verify {
		if err := ex.route.checkIdentityNames(ex.Request.Header); err != nil {
			return err
		}
	}
	return ex.route.limit(&ex.Exchange, config.RateByClient)
}
