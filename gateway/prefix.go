package gateway

import (
	"net/http"

	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// withSlash reports whether a request is for the prefix that its route removes, without the
// slash behind it, and the prefix with the slash leads to the same application. Relative links
// of the page would lead out of the prefix, and the application does not know of it.
func (r *routing) withSlash(found *route, request *policy.Request) bool {
	prefix := found.config.StripPrefix
	if prefix == "" || request.Path.Decoded != prefix || request.Path.Slashed != "" {
		return false
	}
	below := *request
	below.Path.Raw += "/"
	below.Path.Decoded += "/"
	there := r.lookup(&below)
	return there != nil && there.forward != nil && there.config.StripPrefix == prefix
}

// addSlash leads a request for the prefix of its route to the prefix with a slash, also one
// without credentials.
func (ex *exchange) addSlash() error {
	if !ex.state.routing.withSlash(ex.route, &ex.Canonical) {
		return nil
	}
	place := ex.Canonical.Path.Raw + "/"
	if ex.Canonical.Path.HasQuery {
		place += "?" + ex.Canonical.Path.Query
	}
	ex.Decision = web.DecisionAllow
	ex.Reason = "the prefix that the route removes is led to itself with a slash"
	return ex.leadTo(http.StatusPermanentRedirect, place)
}
