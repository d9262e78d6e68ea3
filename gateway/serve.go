package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/login"
	"authgate/policy"
)

// serve leads a request along its way: what it asks for, who asks, whether
// it may, and on to the upstream. An error is answered by fail.
func (ex *exchange) serve() error {
	if err := ex.read(); err != nil {
		return err
	}
	if endpoint, ok := ex.st.endpoints[ex.req.Path.Decoded]; ok {
		return ex.serveOwn(endpoint)
	}
	if ex.r.Method != strings.ToUpper(ex.r.Method) {
		return &httpError{
			status: http.StatusBadRequest, detail: "The method is not in upper case.",
			cause: errors.New("methods are case-sensitive (RFC 9110, section 9.1), but not to every application"),
		}
	}
	match, ok := ex.st.table.Match(&ex.req)
	if !ok {
		return errNoRoute()
	}
	if err := ex.st.table.CheckParameters(&ex.req, match); err != nil {
		return err
	}
	route := &ex.st.routes[match.Index]
	ex.rule, ex.label = match.Route, match.Route.Name
	if err := ex.authenticate(route); err != nil || ex.status != 0 {
		return err
	}
	return ex.forward(route)
}

// read makes the canonical request and reads the credentials, once. What is
// ambiguous is refused here, before any route is looked at.
func (ex *exchange) read() error {
	ex.peer = ex.st.trusted.Read(ex.r)
	if ex.st.config.TLS.Mode == config.TLSOff && (!ex.peer.Trusted || ex.peer.Proto != "https") {
		return &httpError{
			status: http.StatusForbidden, detail: "This service is reached over https only.",
			cause: errors.New("tls.mode is off, and the request does not come over https from a trusted proxy"),
		}
	}
	path, err := policy.ParseTarget(ex.r.RequestURI)
	if err != nil {
		return err
	}
	host, err := policy.CanonicalHost(ex.peer.Host)
	if err != nil {
		return &httpError{status: http.StatusBadRequest, detail: "The host of the request is malformed.", cause: err}
	}
	if err := ex.checkHost(host); err != nil {
		return err
	}
	ex.req = policy.Request{Method: ex.r.Method, Host: host, Path: path, Client: ex.peer.Client}
	ex.creds, err = auth.ReadCredentials(ex.r.Header, &ex.st.cookies, ex.peer.Client)
	return err
}

// authenticate finds out who asks and whether the route lets them. A person
// who is not signed in may have been answered with a redirect.
func (ex *exchange) authenticate(route *route) error {
	id, err := ex.prove(route.chain)
	if err != nil && !errors.Is(err, auth.ErrNoCredentials) {
		ex.rejected(err, route.chain)
		return err
	}
	ex.identify(id)
	decision := ex.rule.Decide(id, &ex.req)
	ex.decision, ex.reason = decision.Outcome.String(), decision.Reason
	switch decision.Outcome {
	case policy.Allow:
		if id != nil {
			return ex.crossSite(route)
		}
		return nil
	case policy.Challenge:
		if ex.wantsSignIn(route) {
			ex.clearDead()
			ex.redirect(http.StatusFound, ex.atOwnHost(leadingBack(route.signIn, ex.req.Path.Raw+query(ex.req.Path))))
			return nil
		}
		ex.challenges = route.chain.Challenges(&ex.creds)
		return &httpError{status: http.StatusUnauthorized, detail: auth.DetailNotSignedIn}
	}
	ex.audit("denied", slog.String("rule", decision.Rule), slog.String("reason", decision.Reason))
	return errForbidden()
}

// prove asks the mechanisms of chain. On a page load, a cookie that is no longer
// valid counts as if it had not come (design E.6); every other credential that
// is rejected ends the request.
func (ex *exchange) prove(chain auth.Chain) (*policy.Identity, error) {
	for {
		id, err := chain.Authenticate(&ex.storage, &ex.creds)
		if err == nil || errors.Is(err, auth.ErrNoCredentials) {
			return id, err
		}
		var rejection *auth.Rejection
		if !errors.As(err, &rejection) || rejection.Cookie == auth.NoCookie {
			return nil, err
		}
		ex.dead = append(ex.dead, ex.st.cookies.Name(rejection.Cookie))
		if !ex.pageLoad() {
			return nil, err
		}
		ex.creds.Forget(rejection.Cookie)
	}
}

// identify notes who asks.
func (ex *exchange) identify(id *policy.Identity) {
	if id != nil {
		ex.id = id
		ex.mechanism = string(id.Mechanism)
	}
}

// rejected notes a credential that was presented and is not good.
func (ex *exchange) rejected(err error, chain auth.Chain) {
	ex.challenges = chain.Challenges(&ex.creds)
	if ex.creds.Scheme == "basic" && ex.rule.Accepts(policy.Basic) {
		ex.countLogin(policy.Basic, err)
	}
	var rejection *auth.Rejection
	if errors.As(err, &rejection) {
		ex.reason = rejection.Reason
		ex.audit("denied", slog.String("reason", ex.reason))
	}
}

// wantsSignIn reports whether the answer to a request without credentials is
// the sign-in page: for a browser's page load where the route says auto.
func (ex *exchange) wantsSignIn(route *route) bool {
	if route.signIn == "" {
		return false
	}
	switch route.config.Unauthenticated {
	case config.UnauthenticatedRedirect:
		return ex.reads()
	case config.UnauthenticatedAuto:
		return ex.pageLoad()
	}
	return false
}

// reads reports whether the request is a GET or HEAD.
func (ex *exchange) reads() bool {
	return ex.req.Method == http.MethodGet || ex.req.Method == http.MethodHead
}

// pageLoad reports whether the request is that of a browser for a page.
func (ex *exchange) pageLoad() bool {
	if !ex.reads() {
		return false
	}
	mode := ex.r.Header.Get("Sec-Fetch-Mode")
	return (mode == "" || mode == "navigate") && negotiate(ex.r) == typeHTML
}

// redirect answers with Location. Callers see to it that location stays where
// it should.
func (ex *exchange) redirect(status int, location string) {
	ex.limitBody()
	ex.strictTransport()
	h := ex.Header()
	h.Set("Location", location)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Request-Id", ex.requestID)
	ex.WriteHeader(status)
}

// query is the query of a target with its question mark, byte for byte.
func query(p policy.Path) string {
	if !p.HasQuery {
		return ""
	}
	return "?" + p.Query
}

// signInURL is where the page of an error offers to go on: to sign in, and
// back to the page that was asked for.
func (ex *exchange) signInURL(status int) string {
	switch {
	case ex.label == labelCallback:
		return ex.st.own("signin")
	case status != http.StatusUnauthorized || !ex.st.used[policy.Session] && !ex.st.used[policy.OIDC]:
		return ""
	case ex.rule == nil:
		return ex.st.own("signin")
	}
	signIn := ex.st.signInFor(ex.rule)
	if signIn == "" || ex.req.Method != http.MethodGet {
		return signIn
	}
	return leadingBack(signIn, ex.req.Path.Raw+query(ex.req.Path))
}

// audit writes one event of the audit log: who did what from where. Secrets
// and whatever else a client may choose have no place in it.
func (ex *exchange) audit(event string, attrs ...slog.Attr) {
	attrs = append([]slog.Attr{
		slog.String("event", event),
		slog.String("request_id", ex.requestID),
		slog.String("client", ex.peer.Address),
		slog.String("route", ex.label),
	}, attrs...)
	if ex.id != nil && !slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == "subject" }) {
		attrs = append(attrs, slog.String("subject", ex.id.Subject), slog.String("login", ex.id.Login))
	}
	ex.gw.logger.LogAttrs(context.Background(), slog.LevelInfo, "audit", attrs...)
}

// countLogin counts a sign-in by its result.
func (ex *exchange) countLogin(mechanism policy.Mechanism, err error) {
	if result := loginResult(err); result != "" {
		ex.gw.metrics.logins.WithLabelValues(string(mechanism), result).Inc()
	}
}

// loginResult is what became of a sign-in; a failure of the gateway itself is
// no result, and empty.
func loginResult(err error) string {
	var throttled *auth.ThrottledError
	switch {
	case err == nil:
		return loginSuccess
	case errors.As(err, &throttled):
		return loginThrottled
	case errors.Is(err, auth.ErrRejected), errors.Is(err, login.ErrNoAttempt), isProviderError(err):
		return loginFailure
	}
	return ""
}

func stack() string { return string(debug.Stack()) }
