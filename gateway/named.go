package gateway

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/webdav"
	"authgate/policy"
)

// proves returns the identity that the request proves to a route, nil if it proves none.
type proves func(*route) (*policy.Identity, error)

// checkNamed decides on the resources that the request names besides its own (WebDAV): an
// application writes to a Destination without asking anybody else. Each is parsed as the
// target of the request is, and decided on with the same method and user. Those at the upstream
// of the request alone are let through.
func (ex *exchange) checkNamed(identify proves) error {
	named, err := webdav.Read(ex.Request.Header)
	if err != nil {
		return malformedName(err)
	}
	if named == nil {
		return nil
	}
	here := addressOf(&ex.Exchange, ex.state.config.PublicURL.Port())
	for _, reference := range named.URLs {
		target, err := here.target(reference)
		if err != nil {
			return malformedName(err)
		}
		request := ex.Canonical
		if request.Path, err = ex.state.site.ParseTarget(here.host, target); err != nil {
			return malformedName(err)
		}
		route, err := ex.decideNamed(&request, identify)
		if refused, ok := errors.AsType[*refusedName](err); ok {
			ex.Decision, ex.Reason = policy.Forbid.String(), refused.Error()
			ex.Audit("denied", slog.String("rule", refused.rule), slog.String("reason", ex.Reason))
			return web.Forbidden()
		}
		if err != nil {
			return err
		}
		if route.forward != nil {
			named.Paths = append(named.Paths, route.forward.Target(&request.Path))
		}
	}
	ex.sent.Named = named
	return nil
}

// decideNamed decides whether the user of the request may use the method on a named resource too,
// and returns the route of the resource.
func (ex *exchange) decideNamed(request *policy.Request, identify proves) (*route, error) {
	route, err := ex.state.routeNamed(request, ex.route.config.Upstream)
	if err != nil || route == ex.route || route.rule.Public() {
		return route, err // it lets in who makes the request
	}
	id := ex.Identity
	if id != nil {
		proved, err := identify(route)
		rejection, rejected := errors.AsType[*auth.Rejection](err)
		switch {
		case rejected: // not the same as a request without credentials
			return nil, &refusedName{route.rule.Name, rejection.Reason}
		case err != nil && !errors.Is(err, auth.ErrNoCredentials):
			return nil, err
		case proved != nil && proved.Subject != id.Subject:
			return nil, &refusedName{route.rule.Name, "its route has another user for the credentials"}
		}
		id = proved
	}
	decision := route.rule.Decide(id, request)
	if route.next != nil {
		route.next.compare(ex, id, request, decision.Outcome)
	}
	if decision.Outcome != policy.Allow {
		return nil, &refusedName{decision.Rule, decision.Reason}
	}
	return route, ex.checkSite(route, id)
}

// provesAgain is proves for the credentials of the request: a token may hold for one route
// alone.
func (ex *exchange) provesAgain(route *route) (*policy.Identity, error) {
	return route.chain.For(&ex.Credentials).Authenticate(&ex.Store, &ex.Credentials)
}

// routeNamed returns the route of a resource that a request to an upstream names.
func (st *state) routeNamed(request *policy.Request, upstream string) (*route, error) {
	own, err := st.own.Find(request)
	switch {
	case own != nil || err == nil && request.Path.Decoded == st.own.Verify:
		return nil, &refusedName{"authgate", "it is an endpoint of the gateway"}
	case err != nil:
		return nil, malformedName(err)
	}
	route, err := st.routing.findRoute(request)
	switch {
	case err != nil:
		return nil, malformedName(err)
	case route.config.MCP:
		return nil, &refusedName{route.rule.Name, "its route has mcp"}
	case route.config.Upstream != upstream:
		return nil, &refusedName{route.rule.Name, "its route has another upstream"}
	}
	return route, nil
}

// address is where a request came to. The zero address is nowhere: no URL leads there.
type address struct {
	host string // canonical
	port string // empty: the client gave none
	// omitted is the port that a proxy may have left out; empty: it has left out none.
	omitted string
}

// addressOf returns where a request came to. A proxy may leave out the port, which is that of
// public_url.
func addressOf(ex *web.Exchange, port string) address {
	a := address{host: ex.Canonical.Host, port: portOf(ex.Peer.Host)}
	if a.port == "" && ex.Peer.Trusted {
		a.omitted = port
	}
	return a
}

// target returns the target of a reference to a resource: of a path, or of a URL that leads to
// the address.
func (a *address) target(reference string) (string, error) {
	switch {
	case strings.HasPrefix(reference, "//"):
		return "", errors.New("the resource is of no scheme")
	case strings.HasPrefix(reference, "/"):
		return reference, nil
	}
	scheme, authority, target, ok := policy.CutURL(reference)
	if !ok || !strings.EqualFold(scheme, "https") || !a.is(authority) {
		return "", errors.New("the resource is not at the https address of the request")
	}
	return target, nil
}

// is reports whether a host with its port, as a URL has them, is the address.
func (a *address) is(authority string) bool {
	host, err := policy.CanonicalHost(authority)
	if err != nil || host != a.host {
		return false
	}
	const usual = "443"
	port := cmp.Or(portOf(authority), usual)
	return port == cmp.Or(a.port, usual) || port == a.omitted
}

// portOf returns the port of a valid host, "" if it has none.
func portOf(host string) string { return (&url.URL{Host: host}).Port() }

// refusedName is the error of a resource that a request may not name.
type refusedName struct {
	rule   string // that refuses it
	reason string
}

// Error implements error.
func (e *refusedName) Error() string { return "a resource that Destination or If names: " + e.reason }

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
