package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"authgate/gateway/auth"
	"authgate/gateway/web"
	"authgate/gateway/webdav"
	"authgate/policy"
)

// proves returns the identity that the request proves to a route, nil if it proves none.
type proves func(*route) (*policy.Identity, error)

// checkNamed decides on the resources that the request names besides its own (WebDAV): an
// application writes to a Destination without asking anybody else. Each is parsed as the
// target of the request is, and decided on with the same method and user. Those at the upstream
// of the request alone are let through.
func (ex *exchange) checkNamed(identify proves) error {
	h := ex.Request.Header
	if len(h["Destination"]) == 0 && len(h["If"]) == 0 {
		return nil
	}
	named, err := webdav.Read(h)
	if err != nil {
		return malformedName(err)
	}
	if named == nil {
		return nil
	}
	for _, reference := range named.URLs {
		request, err := ex.resolve(reference)
		if err != nil {
			return err
		}
		route, err := ex.findNamed(request)
		if err != nil {
			return err
		}
		if err := ex.decideNamed(route, request, identify); err != nil {
			return err
		}
		if route.forward != nil {
			named.Paths = append(named.Paths, route.forward.Target(&request.Path))
		}
	}
	ex.sent.Named = named
	return nil
}

// resolve returns the request for a resource that the request names: by its path, or by a URL
// of the same host and port.
func (ex *exchange) resolve(reference string) (*policy.Request, error) {
	target := reference
	switch {
	case strings.HasPrefix(reference, "//"):
		return nil, malformedName(errors.New("the resource is of no scheme"))
	case !strings.HasPrefix(reference, "/"):
		scheme, authority, rest, ok := cutURL(reference)
		if !ok || !strings.EqualFold(scheme, "https") || !ex.isHere(authority) {
			return nil, malformedName(errors.New("the resource is not at the https address of the request"))
		}
		target = rest
	}
	path, err := ex.state.site.ParseTarget(ex.Canonical.Host, target)
	if err != nil {
		return nil, malformedName(err)
	}
	request := ex.Canonical
	request.Path = path
	return &request, nil
}

// cutURL cuts a URL into its parts without a change of their bytes. The target is what a request
// line has.
func cutURL(raw string) (scheme, authority, target string, ok bool) {
	scheme, rest, ok := strings.Cut(raw, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, target = rest[:end], rest[end:]
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	return scheme, authority, target, ok
}

// isHere reports whether a host with its port is that of the request. A proxy may leave out
// the port of public_url.
func (ex *exchange) isHere(authority string) bool {
	host, err := policy.CanonicalHost(authority)
	if err != nil || host != ex.Canonical.Host {
		return false
	}
	there, here := portOf(authority), portOf(ex.Peer.Host)
	if here == "" && ex.Peer.Trusted && there == ex.state.config.PublicURL.Port() {
		return true
	}
	const usual = "443"
	return there == here || there == usual && here == "" || there == "" && here == usual
}

// portOf returns the port of a valid host, "" if it has none.
func portOf(host string) string { return (&url.URL{Host: host}).Port() }

// findNamed returns the route of a resource that the request names.
func (ex *exchange) findNamed(request *policy.Request) (*route, error) {
	own, err := ex.state.findOwn(request)
	switch {
	case own != nil || err == nil && request.Path.Decoded == ex.state.verify:
		return nil, ex.refuseNamed("authgate", "it is an endpoint of the gateway")
	case err != nil:
		return nil, malformedName(err)
	}
	route, err := ex.state.routing.match(request)
	switch {
	case err != nil:
		return nil, malformedName(err)
	case route.config.Upstream != ex.route.config.Upstream:
		return nil, ex.refuseNamed(route.rule.Name, "its route has another upstream")
	}
	return route, nil
}

// decideNamed decides whether the user of the request may do to a resource what they may do to
// that of the request.
func (ex *exchange) decideNamed(route *route, request *policy.Request, identify proves) error {
	if route == ex.route || route.rule.Public() {
		return nil // it lets in who makes the request
	}
	id := ex.Identity
	if id != nil {
		proved, err := identify(route)
		rejection, rejected := errors.AsType[*auth.Rejection](err)
		switch {
		case rejected: // not the same as a request without credentials
			return ex.refuseNamed(route.rule.Name, rejection.Reason)
		case err != nil && !errors.Is(err, auth.ErrNoCredentials):
			return err
		case proved != nil && proved.Subject != id.Subject:
			return ex.refuseNamed(route.rule.Name, "its route has another user for the credentials")
		}
		id = proved
	}
	if decision := route.rule.Decide(id, request); decision.Outcome != policy.Allow {
		return ex.refuseNamed(decision.Rule, decision.Reason)
	}
	return ex.checkSite(route, id)
}

// provesAgain is proves for the credentials of the request: a token may hold for one route
// alone.
func (ex *exchange) provesAgain(route *route) (*policy.Identity, error) {
	return route.asked(&ex.Credentials).Authenticate(&ex.Store, &ex.Credentials)
}

// refuseNamed is the error of a resource that the request may not name.
func (ex *exchange) refuseNamed(rule, reason string) error {
	ex.Decision, ex.Reason = policy.Forbid.String(), "a resource that Destination or If names: "+reason
	ex.Audit("denied", slog.String("rule", rule), slog.String("reason", ex.Reason))
	return web.Forbidden()
}

// malformedName is the error of a resource that is refused as that of a request would be.
func malformedName(err error) error {
	detail := "The header Destination or If is malformed, or leads to another host."
	if e, ok := errors.AsType[*web.Error](err); ok {
		return e // there is no such route
	}
	if e, ok := errors.AsType[*policy.TargetError](err); ok {
		detail = "A resource that Destination or If names is malformed: " + e.Reason + "."
	}
	return &web.Error{Status: http.StatusBadRequest, Detail: detail, Cause: err}
}
