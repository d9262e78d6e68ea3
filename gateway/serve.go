package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login/chain"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/tracing"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/cors"
	"authgate/policy"
)

// serve takes a request along its way: read makes the canonical request, an own endpoint serves it,
// or admit finds its route and decides, and fills ex.sent, which Send then forwards. A proxy that only asks
// gets an answer from allowProxy instead. A rehearsal goes the same way with an identity that is given.
func (ex *exchange) serve() error {
	if err := checkFraming(&ex.Exchange); err != nil {
		return err
	}
	if err := checkExpect(&ex.Exchange); err != nil {
		return err
	}
	if err := checkHostField(&ex.Exchange); err != nil {
		return err
	}
	if err := ex.read(); err != nil {
		return err
	}
	own, err := ex.findOwn()
	if err != nil {
		return err
	}
	if own != nil {
		if err := ex.checkInFlight(); err != nil && !cors.IsPreflight(ex.Request) {
			return err
		}
		if err := ex.state.routing.chains.TakeToken(&ex.Credentials, ex.Request.Header); err != nil {
			return err
		}
		return own.Serve(&ex.Exchange)
	}
	if err := ex.preflight(); err != nil {
		return err
	}
	if err := ex.admit(); err != nil {
		return err
	}
	if ex.Verify {
		ex.allowProxy()
		return nil
	}
	ex.fillSent()
	return nil
}

// findOwn returns the own endpoint that the request is for, nil if it is for a
// route. A proxy must not ask about these endpoints, but send such requests here.
func (ex *exchange) findOwn() (*endpoint.Endpoint, error) {
	own, err := ex.state.own.Find(&ex.Canonical)
	if err == nil && ex.Verify && (own != nil || ex.state.own.IsVerify(ex.Canonical.Path.Decoded)) {
		return nil, endpoint.NothingHere("the path is one of the gateway's own endpoints; " +
			"the proxy must send requests for it to the gateway")
	}
	return own, err
}

// admit finds the route of the request, and returns an error unless authorize lets the request in
// there. The route of a preflight for the application is known.
func (ex *exchange) admit() (err error) {
	if !ex.sent.Preflight {
		err = ex.findRoute()
	}
	if busy := ex.checkInFlight(); busy != nil { // not before scripts of other origins may read it
		return busy
	}
	if ex.sent.Preflight {
		return ex.authorizePreflight()
	}
	if err != nil {
		if ex.wantsHome() {
			return web.Answered(ex.state.own.Home.Serve(&ex.Exchange))
		}
		return err
	}
	if err := ex.addSlash(); err != nil {
		return err
	}
	return ex.authorize()
}

// findRoute finds the route of the request.
func (ex *exchange) findRoute() error {
	if !httpguts.ValidHeaderFieldName(ex.Request.Method) { // HTTP/2 and HTTP/3 frame any text
		return &web.Error{
			Status: http.StatusBadRequest, Detail: "The method of the request is malformed.",
			Cause: errors.New("the method is not a token (RFC 9110, section 9.1)"),
		}
	}
	if ex.Request.Method != strings.ToUpper(ex.Request.Method) {
		return &web.Error{
			Status: http.StatusBadRequest, Detail: "The method is not in upper case.",
			Cause: errors.New("methods are case-sensitive (RFC 9110, section 9.1), but not to every application"),
		}
	}
	route, err := ex.state.routing.findRoute(&ex.Canonical)
	if err != nil {
		return err
	}
	if route.forward == nil && !ex.Verify {
		return endpoint.NothingHere("the route has no upstream, so it is for " + config.EndpointVerify + " only")
	}
	ex.route, ex.Label = route, route.rule.Name
	ex.SignIn, ex.TellsSignIn, ex.CORS, ex.MCP = &route.signIn, route.tells, route.cors, route.config.MCP
	if ex.MCP && ex.Verify {
		return noMessage()
	}
	if ex.WorkerScript() && !route.config.AllowsWorkers() {
		return web.NoServiceWorker("routes[].service_workers is not allow")
	}
	return nil
}

// wantsHome reports whether the answer to a request without a route is the start
// page: a browser asks for / of the host where users sign in.
func (ex *exchange) wantsHome() bool {
	return ex.Canonical.Path.Decoded == "/" && ex.state.site.AtHome(&ex.Received) && !ex.Verify && ex.Reads() &&
		web.Negotiate(ex.Request) == web.TypeHTML && ex.state.routing.lookup(&ex.Canonical) == nil
}

// authorize returns an error unless the route of the request lets it in: by its rate, by who makes
// it (identify), by its policy (decide), and by the other resources that it names.
func (ex *exchange) authorize() error {
	if err := ex.route.limit(&ex.Exchange, config.RateByClient); err != nil { // before the work of authentication
		return err
	}
	if ex.Verify {
		if err := ex.route.checkIdentityNames(ex.Request.Header); err != nil {
			return err
		}
	}
	if err := ex.route.chain.Take(&ex.Credentials, ex.Request.Header); err != nil {
		return err
	}
	id, err := ex.identify()
	if err != nil {
		return err
	}
	if ex.MCP {
		if err := ex.takeMessage(id, ex.readMessage); err != nil {
			return err
		}
	}
	step := ex.trace.Step(tracing.StepDecide)
	err = ex.decide(id)
	step.End(ex.Decision, ex.Reason)
	if err == nil && ex.MCP {
		err = ex.checkLate()
	}
	if err != nil {
		return err
	}
	if err := ex.checkNamed(ex.provesAgain); err != nil {
		return err
	}
	return ex.route.limit(&ex.Exchange, config.RateByUser)
}

// identify returns the identity that the request proves, nil if it has no
// credentials.
func (ex *exchange) identify() (*policy.Identity, error) {
	step := ex.trace.Step(tracing.StepAuthenticate)
	id, err := ex.Authenticate(ex.route.chain.For(&ex.Credentials))
	failed := err != nil && !errors.Is(err, auth.ErrNoCredentials)
	if failed {
		ex.rejected(err)
	}
	if ex.trace != nil {
		step.End(outcomeOf(id, err), ex.Reason)
	}
	if failed {
		return nil, web.Challenge(err, ex.route.chain.Challenges(&ex.Credentials)...)
	}
	return id, nil
}

// rejected counts and logs a credential that is not valid.
func (ex *exchange) rejected(err error) {
	if ex.route.chain.TriesPassword(&ex.Credentials) {
		ex.gateway.service.Metrics.Login(policy.Basic, err)
	}
	var throttled *auth.ThrottledError
	if errors.As(err, &throttled) {
		ex.AuditRefused("denied", false, slog.String("reason", "too many failed logins"))
	}
	var rejection *auth.Rejection
	if errors.As(err, &rejection) {
		if rejection.Connection && !ex.Peer.Trusted {
			ex.Header().Set("Connection", "close") // the next one can present another certificate
		}
		ex.Reason = rejection.Reason
		if rejection.Cookie == auth.NoCookie {
			ex.AuditRefused("denied", rejection.Past, slog.String("reason", ex.Reason))
		}
	}
}

// decide asks the policy of the route about an identity. Its error refuses the request, or leads a
// browser to the sign-in that is missing.
func (ex *exchange) decide(id *policy.Identity) error {
	route := ex.route
	ex.Identify(id)
	decision := route.rule.Decide(id, &ex.Canonical)
	ex.Decision, ex.Reason = decision.Outcome.String(), decision.Reason
	if route.next != nil {
		route.next.compare(ex, id, &ex.Canonical, decision.Outcome)
	}
	switch decision.Outcome {
	case policy.Allow:
		ex.confirmed = confirmed{ex.state, route, id}
		return ex.checkSite(route, id)
	case policy.Challenge:
		if ex.Stale.Any() {
			ex.Reason += staleReason
		}
		if decision.NoSignIn {
			ex.SignIn = nil
		} else if route.leadsToSignIn(&ex.Exchange) {
			place := ex.SignInPlace(route.signIn.Page, places.Return{Path: ex.Target()})
			if route.signIn.Page != ex.state.site.Own("login") {
				place = ex.TellEnd(place)
			}
			return ex.leadTo(http.StatusFound, place)
		}
		refusal := &web.Error{Status: http.StatusUnauthorized, Detail: auth.DetailNotSignedIn}
		return web.Challenge(refusal, route.chain.Challenges(&ex.Credentials)...)
	case policy.StepUp:
		return ex.stepUp(id, &decision)
	}
	ex.Audit("denied", slog.String("rule", decision.Rule), slog.String("reason", decision.Reason))
	var lacks error
	if scopes := route.rule.LackedScopes(id, &ex.Canonical); scopes != nil {
		lacks = web.InsufficientScope(ex.state.config.Basic.Realm, scopes, decision.Reason)
		lacks = web.At(route.chain.Metadata(&ex.Credentials), lacks)
	}
	if ex.MCP {
		lacks = ex.aboutMessage(id, lacks)
	}
	if lacks != nil {
		return lacks
	}
	return web.Forbidden()
}

// staleReason follows the reason of a request that brought a cookie which counts
// as none, so that the log tells it from a browser that sent no cookie.
const staleReason = "; the session that the browser sent is unknown, expired or ended"

// leadsToSignIn reports whether the route leads a request without credentials to the sign-in page.
func (r *route) leadsToSignIn(ex *web.Exchange) bool {
	if r.signIn.Page == "" {
		return false
	}
	switch r.config.Unauthenticated {
	case config.UnauthenticatedRedirect:
		return ex.Reads() && !ex.ByXHR() // a script would follow, and read the sign-in page
	case config.UnauthenticatedAuto:
		return ex.PageLoad()
	}
	return false
}

// stepUp leads a user whose login has proved too little to a sign-in that proves more, or tells the
// client the demand.
func (ex *exchange) stepUp(id *policy.Identity, decision *policy.Decision) error {
	ex.demand = decision.Demand
	ex.Audit("step_up", slog.String("rule", decision.Rule), slog.String("reason", decision.Reason))
	st, signIn := ex.state, ex.route.signIn
	refusal := web.StepUp(st.config.Basic.Realm, id, decision.Demand, decision.Reason)
	refusal = web.At(ex.route.chain.Metadata(&ex.Credentials), refusal)
	if signIn.Page == "" || !ex.StepsUp(id) {
		ex.SignIn = nil
		return refusal
	}
	page := st.site.StepUpPage(id, signIn.Page)
	if ex.route.leadsToSignIn(&ex.Exchange) {
		return ex.leadTo(http.StatusFound,
			ex.SignInPlace(page, places.Return{Path: ex.Target(), Demand: decision.Demand}))
	}
	signIn.Page = st.site.WithReturn(page, places.Return{Demand: decision.Demand})
	ex.SignIn = &signIn
	return refusal
}

// checkSite refuses a request that another site may make to a route on behalf of the user, who
// has that identity there.
func (ex *exchange) checkSite(route *route, id *policy.Identity) error {
	if id == nil || route.config.CrossOrigin == config.CrossOriginAllow || !chain.ByCookie(id, &ex.Credentials) {
		return nil
	}
	if route.cors.AllowsCredentials(ex.Request.Header) {
		return nil // the operator trusts the origin like the gateway's own
	}
	crossSite := ex.state.crossSite
	if err := crossSite.CheckOrigin(&ex.Exchange); err != nil {
		return err
	}
	if !crossSite.NeedsToken(&ex.Exchange) {
		return nil
	}
	return crossSite.CheckToken(&ex.Exchange, id.Login)
}

// fillSent fills ex.sent, the request for the upstream of the route.
func (ex *exchange) fillSent() {
	ex.sent.Exchange, ex.sent.Route, ex.sent.Trace, ex.sent.Login = &ex.Exchange, ex.route.forward, ex.trace, ex
}
