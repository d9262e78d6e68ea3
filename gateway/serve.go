package gateway

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"

	"authgate/gateway/apitokens"
	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/conn"
	"authgate/gateway/endpoint"
	"authgate/gateway/tracing"
	"authgate/gateway/web"
	"authgate/policy"
)

// serve takes a request along its way: what it asks for, who makes it, whether
// they may, and on to the upstream. A proxy that only asks gets the answer
// instead. Explain goes the same way with an identity that is given.
func (ex *exchange) serve() error {
	if err := ex.refusal(); err != nil {
		return err
	}
	if err := checkFraming(&ex.Exchange); err != nil {
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
		if err := ex.takeToken(true); err != nil {
			return err
		}
		return own.Serve(&ex.Exchange)
	}
	if answered, err := ex.preflight(); answered || err != nil {
		return err
	}
	if answered, err := ex.admit(); answered || err != nil {
		return err
	}
	if ex.Verify {
		ex.confirm()
		return nil
	}
	ex.toUpstream()
	return ex.sent.Send()
}

// admit finds the route, and whether the request may take it. It may have answered instead.
func (ex *exchange) admit() (answered bool, err error) {
	if ex.sent.Preflight {
		return false, ex.authorizePreflight()
	}
	if err := ex.find(); err != nil {
		if ex.wantsHome() {
			return true, ex.state.own.Home.Serve(&ex.Exchange)
		}
		return false, err
	}
	if answered, err := ex.addSlash(); answered {
		return true, err
	}
	return ex.authorize()
}

// toUpstream makes what is sent to the upstream of the route.
func (ex *exchange) toUpstream() {
	ex.sent.Exchange, ex.sent.Route, ex.sent.Trace, ex.sent.Login = &ex.Exchange, ex.route.forward, ex.trace, ex
}

// checkFraming refuses a request that ends elsewhere for other programs. They could take
// a part of it for a request of its own, which the gateway would never see.
func checkFraming(ex *web.Exchange) error {
	if !conn.TwoFramings(ex.Request) {
		return nil
	}
	ex.Header().Set("Connection", "close")
	return &web.Error{
		Status: http.StatusBadRequest, Detail: "The request has a Content-Length beside a Transfer-Encoding, " +
			"or the latter in HTTP/1.0.",
		Cause: errors.New("a body with two framings (RFC 9112, section 6.1)"),
	}
}

// authorize finds out who makes the request, and whether the route lets them in. It may
// have answered a user who is not signed in.
func (ex *exchange) authorize() (answered bool, err error) {
	if err := ex.limit(config.RateByClient); err != nil { // before the work of authentication
		return false, err
	}
	if ex.Verify {
		if err := ex.route.checkIdentityNames(ex.Request.Header); err != nil {
			return false, err
		}
	}
	if err := ex.takeApart(); err != nil {
		return false, err
	}
	id, err := ex.identify()
	if err != nil {
		return false, err
	}
	step := ex.trace.Step(tracing.StepDecide)
	answered, err = ex.decide(id)
	step.End(ex.Decision, ex.Reason)
	if answered || err != nil {
		return answered, err
	}
	if err := ex.checkNamed(ex.provesAgain); err != nil {
		return false, err
	}
	return false, ex.limit(config.RateByUser)
}

// find finds the route of the request.
func (ex *exchange) find() error {
	if ex.Request.Method != strings.ToUpper(ex.Request.Method) {
		return &web.Error{
			Status: http.StatusBadRequest, Detail: "The method is not in upper case.",
			Cause: errors.New("methods are case-sensitive (RFC 9110, section 9.1), but not to every application"),
		}
	}
	route, err := ex.state.routing.match(&ex.Canonical)
	if err != nil {
		return err
	}
	if route.forward == nil && !ex.Verify {
		return endpoint.NothingHere("the route has no upstream, so it is for " + config.EndpointVerify + " only")
	}
	ex.route, ex.Label = route, route.rule.Name
	ex.SignIn, ex.CORS = &route.signIn, route.cors
	if ex.WorkerScript() && !route.config.AllowsWorkers() {
		return web.NoServiceWorker("routes[].service_workers is not allow")
	}
	return nil
}

// wantsHome reports whether the answer to a request without a route is the start
// page: a browser asks for / of the host where users sign in.
func (ex *exchange) wantsHome() bool {
	return ex.Canonical.Path.Decoded == "/" && ex.state.site.AtHome(&ex.Received) && !ex.Verify && ex.Reads() &&
		web.Negotiate(ex.Request) == web.TypeHTML && ex.state.routing.find(&ex.Canonical) == nil
}

// findOwn returns the own endpoint that the request is for, nil if it is for a
// route. A proxy must not ask about these endpoints, but send such requests here.
func (ex *exchange) findOwn() (*endpoint.Endpoint, error) {
	own, err := ex.state.own.Find(&ex.Canonical)
	if err == nil && ex.Verify && (own != nil || ex.Canonical.Path.Decoded == ex.state.own.Verify) {
		return nil, endpoint.NothingHere("the path is one of the gateway's own endpoints; " +
			"the proxy must send requests for it to the gateway")
	}
	return own, err
}

// read makes the canonical request and reads the credentials, once. It refuses
// what is ambiguous, before a route is looked up.
func (ex *exchange) read() error {
	st := ex.state
	if ex.Request.Method == http.MethodConnect && ex.Request.ProtoMajor == 3 {
		return &web.Error{ // RFC 9220, section 3; quic-go announces extended CONNECT in any case
			Status: http.StatusNotImplemented, Detail: "There are no tunnels and no WebSockets over HTTP/3. Use HTTP/1.1.",
			Cause: errors.New("CONNECT over HTTP/3"),
		}
	}
	host, hostErr := policy.CanonicalHost(ex.Peer.Host)
	path, err := st.site.ParseTarget(host, ex.Request.RequestURI)
	if err == nil && path.Decoded == st.own.Verify {
		if err := ex.TakeOriginal(); err != nil {
			return err
		}
		host, hostErr = policy.CanonicalHost(ex.Peer.Host)
		path, err = st.site.ParseTarget(host, ex.Request.RequestURI)
	}
	if st.config.TLS.Off() {
		if err := ex.checkSecure(); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if hostErr != nil {
		return &web.Error{Status: http.StatusBadRequest, Detail: "The host of the request is malformed.",
			Cause: hostErr}
	}
	if err := st.site.Hosts.CheckHost(&ex.Received, host); err != nil {
		return err
	}
	if err := st.site.CheckHandshake(&ex.Received, host); err != nil {
		return err
	}
	ex.Canonical = policy.Request{Method: ex.Request.Method, Host: host, Path: path, Client: ex.Peer.Client,
		Now: ex.gateway.storage.now()}
	ex.Credentials, err = auth.ReadCredentials(ex.Request.Header, &st.site.Cookies.Names, ex.Peer.Client)
	if errors.Is(err, auth.ErrAmbiguous) {
		ex.Credentials, err = ex.withoutCookies(err)
	}
	if name := st.site.TokenHeader; name != "" && err == nil {
		err = ex.Credentials.ReadToken(ex.Request.Header[name])
	}
	ex.Credentials.Scope, ex.Credentials.Host = st.site.CookieScope(host), host
	if err == nil {
		ex.Credentials.Certificate, err = st.mechanisms.Presented(ex.Request, ex.Peer.Trusted)
	}
	return err
}

// withoutCookies returns the credentials of a request to an own endpoint that goes by no cookie,
// so that two of a name do no harm there. For any other request it returns err.
func (ex *exchange) withoutCookies(err error) (auth.Credentials, error) {
	st, path := ex.state, ex.Canonical.Path.Decoded
	switch path {
	case st.site.Own(web.TwinsPath), st.site.Own(web.LanguagePath):
		return auth.Credentials{}, nil // a form of the page that says so, which needs no credential
	}
	if own, _ := st.own.At(ex.Canonical.Host, path); own == nil || own.ReadsCookies() {
		return auth.Credentials{}, err
	}
	header := maps.Clone(ex.Request.Header)
	header.Del("Cookie")
	return auth.ReadCredentials(header, &st.site.Cookies.Names, ex.Peer.Client)
}

// checkSecure refuses a request that a proxy has not received over https. It tells
// operators what is missing.
func (ex *exchange) checkSecure() error {
	h := ex.Request.Header
	switch {
	case !ex.Peer.Trusted:
		return web.NotSecure("tls.mode is off, and the request does not come over https from a trusted proxy: " +
			"its address is not in listen.trusted_proxies")
	case ex.Peer.Proto == "https":
		return nil
	case len(h["X-Forwarded-Proto"]) == 0 && len(h["Forwarded"]) == 0:
		return web.NotSecure("tls.mode is off, and the trusted proxy does not say that the request came over https: " +
			"let it set X-Forwarded-Proto")
	}
	return web.NotSecure("tls.mode is off, and the trusted proxy says that the request came over http")
}

// identify returns the identity that the request proves, nil if it has no
// credentials.
func (ex *exchange) identify() (*policy.Identity, error) {
	step := ex.trace.Step(tracing.StepAuthenticate)
	id, err := ex.Authenticate(ex.route.asked(&ex.Credentials))
	failed := err != nil && !errors.Is(err, auth.ErrNoCredentials)
	if failed {
		ex.rejected(err)
	}
	if ex.trace != nil {
		step.End(outcomeOf(id, err), ex.Reason)
	}
	if failed {
		return nil, web.Challenge(err, ex.route.challenges(&ex.Credentials)...)
	}
	return id, nil
}

// decide decides whether the route lets an identity in. It may have answered a
// user who is not signed in with a redirect.
func (ex *exchange) decide(id *policy.Identity) (answered bool, err error) {
	route := ex.route
	ex.Identify(id)
	decision := route.rule.Decide(id, &ex.Canonical)
	ex.Decision, ex.Reason = decision.Outcome.String(), decision.Reason
	switch decision.Outcome {
	case policy.Allow:
		return false, ex.checkSite(route, id)
	case policy.Challenge:
		if ex.HasStale() {
			ex.Reason += staleReason
		}
		if decision.NoSignIn {
			ex.SignIn = nil
		} else if ex.wantsSignIn() {
			place := ex.SignInPlace(route.signIn.Page, web.Return{Path: ex.Target()})
			if route.signIn.Page != ex.state.site.Own("login") {
				place = ex.ToldEnded(place)
			}
			return true, ex.leadTo(http.StatusFound, place)
		}
		refusal := &web.Error{Status: http.StatusUnauthorized, Detail: auth.DetailNotSignedIn}
		return false, web.Challenge(refusal, route.challenges(&ex.Credentials)...)
	case policy.StepUp:
		return ex.stepUp(id, &decision)
	}
	ex.Audit("denied", slog.String("rule", decision.Rule), slog.String("reason", decision.Reason))
	if scopes := route.rule.LackedScopes(id, &ex.Canonical); scopes != nil {
		lacks := web.InsufficientScope(ex.state.config.Basic.Realm, scopes, decision.Reason)
		return false, web.At(route.metadata(&ex.Credentials), lacks)
	}
	return false, web.Forbidden()
}

// stepUp leads a user whose login has proved too little to a sign-in that proves more, or
// tells the client what is needed.
func (ex *exchange) stepUp(id *policy.Identity, decision *policy.Decision) (answered bool, err error) {
	ex.demand = decision.Demand
	ex.Audit("step_up", slog.String("rule", decision.Rule), slog.String("reason", decision.Reason))
	st, signIn := ex.state, ex.route.signIn
	refusal := web.StepUp(st.config.Basic.Realm, id, decision.Demand, decision.Reason)
	refusal = web.At(ex.route.metadata(&ex.Credentials), refusal)
	if signIn.Page == "" || !ex.StepsUp(id) {
		ex.SignIn = nil
		return false, refusal
	}
	page := st.site.StepUpPage(id, signIn.Page)
	if ex.wantsSignIn() {
		return true, ex.leadTo(http.StatusFound,
			ex.SignInPlace(page, web.Return{Path: ex.Target(), Demand: decision.Demand}))
	}
	signIn.Page = st.site.WithReturn(page, web.Return{Demand: decision.Demand})
	ex.SignIn = &signIn
	return false, refusal
}

// staleReason follows the reason of a request that brought a cookie which counts
// as none, so that the log tells it from a browser that sent no cookie.
const staleReason = "; the session that the browser sent is unknown, expired or ended"

// rejected counts and logs a credential that is not valid.
func (ex *exchange) rejected(err error) {
	if ex.Credentials.Scheme == "basic" && ex.route.rule.Accepts(policy.Basic) &&
		!apitokens.InPassword(&ex.Credentials) {
		ex.gateway.service.Metrics.Login(policy.Basic, err)
	}
	var rejection *auth.Rejection
	if errors.As(err, &rejection) {
		if rejection.Connection && !ex.Peer.Trusted {
			ex.Header().Set("Connection", "close") // the next one can present another certificate
		}
		ex.Reason = rejection.Reason
		ex.Audit("denied", slog.String("reason", ex.Reason))
	}
}

// wantsSignIn reports whether a request without credentials is redirected to
// the sign-in page.
func (ex *exchange) wantsSignIn() bool {
	if ex.route.signIn.Page == "" {
		return false
	}
	switch ex.route.config.Unauthenticated {
	case config.UnauthenticatedRedirect:
		return ex.Reads() && !ex.ByXHR() // a script would follow, and read the sign-in page
	case config.UnauthenticatedAuto:
		return ex.PageLoad()
	}
	return false
}

// checkSite refuses a request that another site may make to a route on behalf of the user, who
// has that identity there.
func (ex *exchange) checkSite(route *route, id *policy.Identity) error {
	if id == nil || route.config.CrossOrigin == config.CrossOriginAllow || !provedByCookie(id, &ex.Credentials) {
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

// provedByCookie reports whether a cookie proved an identity, or a certificate, which browsers
// send by themselves, too.
func provedByCookie(id *policy.Identity, creds *auth.Credentials) bool {
	switch id.Mechanism {
	case policy.Basic:
		return false
	case policy.Bearer:
		return !apitokens.PresentsToken(creds)
	}
	return true
}
