package gateway

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http/httpguts"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/store"
	"authgate/gateway/web"
	"authgate/policy"
)

// Explainer says what a gateway with a configuration does with a request, and
// why. A described request goes the way of [Gateway.ServeHTTP] up to the header
// that the upstream gets. Only what proves the identity is left out, and the
// count of a rate. An Explainer opens no connection and touches no file.
type Explainer struct {
	gateway *Gateway
	memory  *store.Memory
}

// Described is a request that is described instead of sent.
type Described struct {
	Method string
	// URL is an https URL, or a path at the host of public_url. The path and the
	// query are taken byte for byte.
	URL string
	// Header is what the client sends besides, in any case: not what proves who
	// it is, and nothing about the connection but Upgrade.
	Header http.Header
	// From is the address of the client. The zero Addr means 127.0.0.1.
	From netip.Addr
	// Verify makes a proxy ask about the request (forward authentication).
	Verify bool
	// Caller makes the request. Nil means a request without credentials.
	Caller *Caller
}

// Explanation is what the gateway does with a request.
type Explanation struct {
	Outcome    string // one of the outcomes below
	Status     int    // of the gateway's answer; 200 for a request that it lets through
	Route      string // its name, empty if there is none
	Upstream   string // of the route, also if the request does not get there
	Path       string // that the upstream gets, with the query; empty for a request that it does not get
	Reason     string // for operators
	Mechanisms []policy.Mechanism
	Mechanism  policy.Mechanism // that proved the identity, empty if none is proved
	Conditions []policy.Condition
	// StepUp is what a sign-in must prove for the request to be let in; zero if that would not
	// help, or is not needed.
	StepUp policy.Demand
	// Header is what the upstream gets: for a request that a proxy asks about,
	// the identity in the answer. It is nil for a request that is refused.
	Header http.Header
}

// Outcomes of an Explanation. The first three are those of policy.Decision, and
// OutcomeForbid is also a request that another rule refuses with 403.
const (
	OutcomeAllow      = "allow"
	OutcomeChallenge  = "challenge"
	OutcomeForbid     = "forbid"
	OutcomeNotFound   = "not_found"   // no route, or a host that is not the gateway's
	OutcomeBadRequest = "bad_request" // malformed or ambiguous
)

// NewExplainer returns an Explainer for a configuration.
func NewExplainer(cfg *config.Config) (*Explainer, error) {
	local := *cfg
	// Nothing is signed, and nothing is kept: keys of its own save those in
	// data_dir.
	local.Token.Algorithm, local.Token.Secret = config.AlgorithmHS256, config.Secret(rand.Text()+rand.Text())
	local.TLS.ClientCA = "" // no certificate is verified
	local.Store = config.Store{Driver: config.StoreMemory, EncryptionKey: config.Secret(rand.Text() + rand.Text())}
	memory := store.NewMemory(time.Now)
	g, err := assemble(Options{
		Config: &local, Store: memory, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Version: "explain", shown: true,
	})
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	return &Explainer{gateway: g, memory: memory}, nil
}

// Close frees what the Explainer holds.
func (e *Explainer) Close() error {
	e.gateway.Close()
	return e.memory.Close()
}

// Explain returns what the gateway does with a request. The error tells
// that the configuration has no such user, or is a *DescriptionError.
func (e *Explainer) Explain(d *Described) (*Explanation, error) {
	st := e.gateway.state.Load()
	r, err := st.describe(d)
	if err != nil {
		return nil, err
	}
	callers, err := st.identities(d.Caller)
	if err != nil {
		return nil, err
	}
	apiToken := d.Caller != nil && d.Caller.APIToken
	ex := &exchange{gateway: e.gateway, state: st}
	ex.Init(st.site, &unsent{http.Header{}}, r)
	ex.beginTrace() // and never ends it, so that nothing is sent to the collector
	age := time.Duration(0)
	if d.Caller != nil {
		age = d.Caller.Age
	}
	x, err := ex.explain(d.Verify, callers, apiToken, age)
	if err == nil {
		return x, nil
	}
	decided := x.Reason
	ex.fail(err)
	x.Status, x.Reason = ex.Status, cmp.Or(decided, causeOf(err))
	switch status := ex.Status; {
	case status == http.StatusUnauthorized:
		x.Outcome = OutcomeChallenge
	case status == http.StatusForbidden:
		x.Outcome = OutcomeForbid
	case status == http.StatusNotFound, status == http.StatusMisdirectedRequest:
		x.Outcome = OutcomeNotFound
	case status < http.StatusInternalServerError:
		x.Outcome = OutcomeBadRequest
	default:
		return nil, err
	}
	return x, nil
}

// explain is serve for a described request of one of callers. With an error, the
// explanation has what was known until then. Its Reason is that of the decision
// if the error follows from it.
func (ex *exchange) explain(
	verify bool, callers []*policy.Identity, apiToken bool, age time.Duration,
) (*Explanation, error) {
	x := &Explanation{}
	if err := ex.read(); err != nil {
		return x, err
	}
	if age != 0 {
		for _, id := range callers {
			id.AuthTime = ex.Canonical.Now.Add(-age)
		}
	}
	ex.Verify = verify
	own, err := ex.findOwn()
	if err != nil {
		return x, err
	}
	if own != nil {
		return x.allow(http.StatusOK, "the path is one of the gateway's own endpoints, which need no route"), nil
	}
	if answered, err := ex.preflight(); answered {
		x.Route, x.Upstream = ex.route.rule.Name, ex.route.config.Upstream
		return x.allow(ex.Status, "the gateway answers the preflight by the CORS policy of the route"), err
	}
	if ex.sent.Preflight {
		x.Route, x.Upstream, x.Mechanisms = ex.route.rule.Name, ex.route.config.Upstream, ex.route.rule.Mechanisms
		return x, ex.explainPassing(x)
	}
	if err := ex.find(); err != nil {
		if ex.wantsHome() {
			return x.allow(http.StatusOK, "no route matches, so browsers get the gateway's start page"), nil
		}
		return x, err
	}
	if answered, err := ex.addSlash(); answered {
		x.Route, x.Upstream = ex.route.rule.Name, ex.route.config.Upstream
		return x.allow(ex.Status, ex.Reason), err
	}
	return x, ex.explainRoute(x, callers, apiToken)
}

// explainRoute completes x with what the route does with a request of one of callers.
func (ex *exchange) explainRoute(x *Explanation, callers []*policy.Identity, apiToken bool) error {
	rule := ex.route.rule
	x.Route, x.Upstream, x.Mechanisms = rule.Name, ex.route.config.Upstream, rule.Mechanisms
	shown, id := choose(rule, &ex.Canonical, callers)
	x.Conditions = rule.Conditions(shown, &ex.Canonical)
	if id != nil {
		x.Mechanism = id.Mechanism
		ex.state.present(&ex.Credentials, id, apiToken)
	}
	answered, err := ex.decide(id)
	if answered || ex.Decision != OutcomeAllow {
		x.Outcome, x.Status, x.Reason, x.StepUp = ex.Decision, ex.Status, ex.Reason, ex.demand
		return err
	}
	if err != nil {
		return err // of another site: the decision is not the reason
	}
	if err := ex.checkNamed(ex.provesAs(callers)); err != nil {
		if ex.Decision == OutcomeForbid {
			x.Reason = ex.Reason
		}
		return err
	}
	return ex.explainPassing(x)
}

// provesAs is proves for the identity of the request, of those that one of callers has.
func (ex *exchange) provesAs(callers []*policy.Identity) proves {
	return func(other *route) (*policy.Identity, error) {
		same := slices.DeleteFunc(slices.Clone(callers), func(id *policy.Identity) bool {
			return id.Mechanism != ex.Identity.Mechanism || id.Provider != ex.Identity.Provider
		})
		_, id := choose(other.rule, &ex.Canonical, same)
		return id, nil
	}
}

// explainPassing completes x for a request that is let through.
func (ex *exchange) explainPassing(x *Explanation) error {
	x.allow(http.StatusOK, ex.Reason)
	if ex.Verify {
		if err := ex.route.checkIdentityNames(ex.Request.Header); err != nil {
			return err
		}
		x.Header = http.Header{}
		ex.route.identity.SetAll(x.Header, ex.Identity)
		return nil
	}
	ex.toUpstream()
	x.Path, x.Header = ex.sent.Described()
	return nil
}

// allow notes in x that the gateway answers the request or lets it through.
func (x *Explanation) allow(status int, reason string) *Explanation {
	x.Outcome, x.Status, x.Reason = OutcomeAllow, status, reason
	return x
}

// choose returns the identity that the request proves: of those that the route
// accepts the first that it lets in, else the first; nil on a public route, and
// if it accepts none. shown is the identity to show conditions for: that of a caller
// whom the route does not accept, unless it decides on them without an identity.
func choose(rule *policy.Route, request *policy.Request, callers []*policy.Identity) (shown, id *policy.Identity) {
	for _, mechanism := range rule.Mechanisms { // in the order of the operator
		for _, caller := range callers {
			if mechanism == policy.None || caller.Mechanism != mechanism {
				continue
			}
			allowed := rule.Decide(caller, request).Outcome == policy.Allow
			if id == nil || allowed {
				id = caller
			}
			if allowed {
				return id, id
			}
		}
	}
	if id != nil {
		return id, id
	}
	if len(callers) > 0 && !rule.AdmitsNobody() {
		shown = callers[0]
	}
	return shown, nil
}

// present notes how the identity was proved, which the way of the request
// depends on.
func (st *state) present(creds *auth.Credentials, id *policy.Identity, apiToken bool) {
	switch {
	case id.Mechanism == policy.Basic:
		creds.Scheme = "basic"
	case id.Mechanism == policy.Bearer &&
		(apiToken || id.Provider != policy.LocalProvider || st.config.Token.Delivery == config.DeliveryBody):
		creds.Scheme = "bearer"
	}
}

// describe makes the request that a server would receive. With tls.mode off it
// comes through the first of the trusted proxies.
func (st *state) describe(d *Described) (*http.Request, error) {
	secure, host, target, err := st.split(d.URL)
	if err != nil {
		return nil, err
	}
	off := st.config.TLS.Mode == config.TLSOff
	switch {
	case d.Method == "":
		return nil, mistake("the method is empty")
	case !secure && !off:
		return nil, mistake("the URL is not https: the gateway serves routes over https alone, and redirects plain HTTP")
	}
	from := d.From
	if !from.IsValid() {
		from = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	from = from.Unmap().WithZone("")
	header, err := describedHeader(d.Header, off, st.site.TokenHeader)
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: d.Method, Host: host, RequestURI: target, URL: &url.URL{}, Header: header, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: netip.AddrPortFrom(from, 0).String(),
	}
	scheme := "https"
	if !secure {
		scheme = "http"
	}
	if trusted := st.config.Listen.TrustedProxies; off && len(trusted) > 0 {
		r.RemoteAddr = netip.AddrPortFrom(trusted[0].Addr(), 0).String()
		r.Header.Set("X-Forwarded-For", from.String())
		r.Header.Set("X-Forwarded-Proto", scheme)
		r.Header.Set("X-Forwarded-Host", host)
		return r, nil
	}
	r.TLS = &tls.ConnectionState{ServerName: opened(host)}
	return r, nil
}

// opened returns the host for which a client opens the connection of a request.
func opened(host string) string {
	if canonical, err := policy.CanonicalHost(host); err == nil {
		return canonical
	}
	return host
}

// describedHeader returns the header of a described request. off tells that
// tls.mode is off, so that the proxy sends what it knows of the client, and token is token.header.
func describedHeader(given http.Header, off bool, token string) (http.Header, error) {
	h := http.Header{}
	for name, values := range given {
		canonical := http.CanonicalHeaderKey(name)
		if token != "" && canonical == token {
			return nil, provesCaller(canonical)
		}
		switch canonical {
		case "Authorization", "Cookie", "Proxy-Authorization":
			return nil, provesCaller(canonical)
		case "Host":
			return nil, mistake("the header Host is in the URL; give an https URL with that host")
		case "Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding":
			return nil, mistake("the header %s is about the connection and the body, which a description does not have; "+
				"for a WebSocket, Upgrade is enough", canonical)
		case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto":
			if off {
				return nil, mistake("the header %s is the proxy's, because tls.mode is off; "+
					"describe the client by its address and the URL", canonical)
			}
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return nil, mistake("%q is not a header field", name+": "+value)
			}
			h.Add(name, strings.TrimSpace(value))
		}
	}
	describeUpgrade(h)
	return h, nil
}

// provesCaller is the mistake of a header that holds a credential.
func provesCaller(name string) error {
	return mistake("the header %s can prove who makes the request; "+
		"describe that by a user, or by the properties of one", name)
}

// describeUpgrade completes a described request for a switch of protocols. The key is
// that of RFC 6455, section 1.3.
func describeUpgrade(h http.Header) {
	protocol := h.Get("Upgrade")
	if protocol == "" {
		return
	}
	h.Set("Connection", "Upgrade")
	if strings.EqualFold(protocol, "websocket") && h.Get("Sec-Websocket-Key") == "" {
		h.Set("Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		h.Set("Sec-Websocket-Version", "13")
	}
}

// split cuts a URL into its parts without a change of their bytes.
func (st *state) split(raw string) (secure bool, host, target string, err error) {
	if strings.HasPrefix(raw, "/") {
		return true, st.config.PublicURL.Host, raw, nil
	}
	scheme, host, target, ok := cutURL(raw)
	secure = strings.EqualFold(scheme, "https")
	if !ok || !secure && !strings.EqualFold(scheme, "http") {
		return false, "", "", mistake("the URL %q is neither an https URL nor a path: expected https://HOST/PATH or /PATH",
			raw)
	}
	if host == "" || strings.Contains(host, "@") {
		return false, "", "", mistake("the URL %q has no host, or has a user before it", raw)
	}
	return secure, host, target, nil
}

// causeOf returns what an error tells operators.
func causeOf(err error) string {
	if e, ok := errors.AsType[*web.Error](err); ok {
		if e.Cause != nil {
			return e.Cause.Error()
		}
		return e.Detail
	}
	return err.Error()
}

// unsent is the answer to a described request. It keeps its header alone.
type unsent struct{ header http.Header }

// Header implements http.ResponseWriter.
func (u *unsent) Header() http.Header { return u.header }

// Write implements http.ResponseWriter.
func (u *unsent) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (u *unsent) WriteHeader(int) {}
