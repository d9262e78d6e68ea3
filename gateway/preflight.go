package gateway

import (
	"authgate/gateway/config"
	"authgate/gateway/cors"
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

// preflight answers a CORS preflight if the route of the request that it asks for
// has a CORS policy. A preflight carries no credentials, so nothing is decided on
// but its origin. Any other OPTIONS request goes its usual way.
func (ex *exchange) preflight() (answered bool, err error) {
	if ex.Verify || !cors.IsPreflight(ex.Request) { // a 204 would let the proxy forward it
		return false, nil
	}
	asked := ex.Canonical
	asked.Method = cors.RequestedMethod(ex.Request.Header)
	route, err := ex.state.routing.match(&asked)
	if err != nil || route.cors == nil || route.forward == nil {
		return false, nil // the route of OPTIONS itself decides
	}
	ex.route, ex.Label = route, route.rule.Name
	return true, ex.Preflight(route.cors)
}
