package gateway

import (
	"cmp"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/config"
	"authgate/gateway/explain"
	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/web"
	"authgate/gateway/store"
	"authgate/gateway/wire/mcp"
	"authgate/policy"
)

// Explainer explains how a gateway with a configuration treats a request. A described request goes
// the way of [Gateway.ServeHTTP] up to the header that the upstream gets. Only the credentials and
// the count of a rate are left out. An Explainer opens no connection and touches no file.
type Explainer struct {
	gateway *Gateway
	memory  *store.Memory
}

// NewExplainer returns an Explainer for a configuration.
func NewExplainer(cfg *config.Config) (*Explainer, error) { return NewExplainerAt(cfg, time.Now) }

// NewExplainerAt returns an Explainer for the time of a clock.
func NewExplainerAt(cfg *config.Config, now func() time.Time) (*Explainer, error) {
	local := *cfg
	// Nothing is signed, and nothing is kept: keys of its own save those in
	// data_dir.
	local.Token.Algorithm, local.Token.Secret = config.AlgorithmHS256, config.Secret(rand.Text()+rand.Text())
	local.TLS.ClientCA = "" // no certificate is verified
	local.Store = config.Store{Driver: config.StoreMemory, EncryptionKey: config.Secret(rand.Text() + rand.Text())}
	memory := store.NewMemory(now)
	g, err := assemble(Options{
		Config: &local, Store: memory, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Version: "explain", Now: now, explains: true,
	})
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	return &Explainer{gateway: g, memory: memory}, nil
}

// Close frees the resources of the Explainer.
func (e *Explainer) Close() error {
	e.gateway.Close()
	return e.memory.Close()
}

// Explain returns how the gateway treats a request. The error tells that the configuration has no
// such user, or is an *explain.Mistake.
func (e *Explainer) Explain(d *explain.Request) (*explain.Result, error) {
	st := e.gateway.state.Load()
	request, err := d.HTTP(st.config)
	if err != nil {
		return nil, err
	}
	known := st.known()
	identities, err := known.Identities(d.Caller)
	refused, _ := errors.AsType[*auth.Rejection](err)
	if err != nil && refused == nil {
		return nil, err
	}
	r := &rehearsal{
		exchange: exchange{gateway: e.gateway, state: st}, described: d, identities: identities, refused: refused,
	}
	if d.Caller != nil {
		r.caller, r.lent = *d.Caller, known.Lent(d.Caller)
	}
	r.Init(st.site, &unsent{http.Header{}}, request)
	r.beginTrace() // and never ends it, so that nothing is sent to the collector
	return r.conclude(r.run(d.Verify))
}

// known returns the users and clients of a configuration.
func (st *state) known() *explain.Known {
	return &explain.Known{
		Config: st.config, Accounts: st.mechanisms.Accounts, Basic: st.mechanisms.Basic, Federation: st.federation,
		OAuth: st.oauth,
	}
}

// Access returns who may open which route.
func (e *Explainer) Access() *explain.Access {
	st := e.gateway.state.Load()
	return &explain.Access{Known: st.known(), Routes: st.routing.table.Routes()}
}

// rehearsal is a described request on the way of a real one. It gets as far as the header that
// the upstream would get. The identity is given, and nothing is counted.
type rehearsal struct {
	exchange
	described  *explain.Request
	caller     explain.Caller     // the zero Caller: a request without credentials
	lent       bool               // an access token of an OAuth client proves its identity
	identities []*policy.Identity // that the caller can prove
	refused    *auth.Rejection    // of the token of a trusted issuer; nil: it is valid
	explained  explain.Result     // what is known until now
}

// run is serve for a described request. With an error, the explained reason is that of the decision
// if the error follows from it.
func (r *rehearsal) run(verify bool) error {
	if err := r.read(); err != nil {
		return err
	}
	if r.caller.Age != 0 {
		for _, id := range r.identities {
			id.AuthTime = r.Canonical.Now.Add(-r.caller.Age)
		}
	}
	r.Verify = verify
	own, err := r.findOwn()
	if err != nil {
		return err
	}
	if own != nil {
		r.explained.Allow(http.StatusOK, "the path is one of the gateway's own endpoints, which need no route")
		return nil
	}
	if err := r.preflight(); err != nil {
		r.tellRoute()
		if r.Verify {
			return err
		}
		r.explained.Allow(r.Status, "the gateway answers the preflight by the CORS policy of the route")
		return err
	}
	if r.sent.Preflight {
		r.tellRoute()
		r.explained.Mechanisms = r.route.rule.Mechanisms
		return r.letThrough()
	}
	if err := r.findRoute(); err != nil {
		if r.wantsHome() {
			r.explained.Allow(http.StatusOK, "no route matches, so browsers get the gateway's start page")
			return nil
		}
		return err
	}
	r.tellRoute()
	if err := r.addSlash(); err != nil {
		r.explained.Allow(r.Status, r.Reason)
		return err
	}
	return r.tryRoute()
}

// tellRoute tells the route and its upstream.
func (r *rehearsal) tellRoute() {
	r.explained.Route, r.explained.Upstream = r.route.rule.Name, r.route.config.Upstream
}

// tryRoute is authorize for a described request. It returns the decision of the route.
func (r *rehearsal) tryRoute() error {
	rule, x := r.route.rule, &r.explained
	x.Mechanisms = rule.Mechanisms
	message, bad := r.describeMessage()
	if _, ok := errors.AsType[*explain.Mistake](bad); ok {
		return bad
	}
	r.lend()
	shown, id := explain.Choose(rule, &r.Canonical, r.identities)
	x.Conditions = rule.Conditions(shown, &r.Canonical)
	if id != nil {
		x.Mechanism = id.Mechanism
		r.present(id)
	}
	if err := r.checkToken(id); err != nil {
		x.Reason = r.Reason
		return err
	}
	if r.MCP {
		err := r.takeMessage(id, func() (*mcp.Message, error) { return message, bad })
		if err != nil {
			return err
		}
	}
	err := r.decide(id)
	if r.Decision != explain.OutcomeAllow {
		x.Outcome, x.Status, x.Reason, x.StepUp = r.Decision, r.Status, r.Reason, r.demand
		return err
	}
	if err != nil {
		return err // of another site: the decision is not the reason
	}
	if err := r.checkNamed(r.provesThere); err != nil {
		if r.Decision == explain.OutcomeForbid {
			x.Reason = r.Reason
		}
		return err
	}
	return r.letThrough()
}

// describeMessage returns the described message, nil if there is none.
func (r *rehearsal) describeMessage() (*mcp.Message, error) {
	posts := r.MCP && r.Request.Method == http.MethodPost
	message, err := r.described.Message(posts)
	if !posts {
		return message, err
	}
	if r.Canonical.Message = (&policy.Message{}); message != nil {
		r.Canonical.Message = &message.Message
	} else if err == nil {
		r.explained.Note = "the message is one that no list of mcp refuses; --mcp-method and --mcp-name give another"
	}
	return message, err
}

// lend gives the identity of an access token its scopes, and leaves it the roles that these lend.
// A client that asks for no scopes gets those that the policy of the route names, or else all of
// oauth.scopes.
func (r *rehearsal) lend() {
	if !r.lent {
		return
	}
	scopes := r.caller.Scopes
	if scopes == nil {
		scopes = r.defaultScopes()
	}
	for i, id := range r.identities {
		r.identities[i] = r.state.oauth.Grants.Lend(scopes, id)
	}
}

// defaultScopes returns the scopes of a client that asks for none.
func (r *rehearsal) defaultScopes() []string {
	if resource := r.state.config.Resources().Of(r.route.config); resource != nil {
		return resource.Scopes
	}
	return r.state.config.OAuth.DefaultScopes(nil) // it accepts no bearer tokens
}

// checkToken refuses a token as identify does: one of a trusted issuer that is not valid, or one of an
// OAuth client for another resource than that of the route.
func (r *rehearsal) checkToken(id *policy.Identity) (err error) {
	switch {
	case r.refused != nil && r.route.rule.Accepts(policy.Bearer):
		r.Credentials.Scheme, err = "bearer", r.refused
	case r.caller.Resource != "" && id != nil:
		resource := cmp.Or(r.state.config.Resources().InTokens(r.caller.Resource),
			strings.TrimSuffix(r.caller.Resource, "/"))
		err = r.route.chain.CheckResource(resource, r.Credentials.Host)
	}
	if err == nil {
		return nil
	}
	r.rejected(err)
	return web.Challenge(err, r.route.chain.Challenges(&r.Credentials)...)
}

// present notes how the identity was proved, which the way of the request depends on.
func (r *rehearsal) present(id *policy.Identity) {
	switch {
	case id.Mechanism == policy.Basic:
		r.Credentials.Scheme = "basic"
	case id.Mechanism == policy.Bearer && (r.caller.APIToken || r.lent ||
		id.Provider != policy.LocalProvider || r.state.config.Token.Delivery == config.DeliveryBody):
		r.Credentials.Scheme = "bearer"
	}
}

// provesThere is proves for the identity of the request, of those that the caller can prove.
func (r *rehearsal) provesThere(other *route) (*policy.Identity, error) {
	same := slices.DeleteFunc(slices.Clone(r.identities), func(id *policy.Identity) bool {
		return id.Mechanism != r.Identity.Mechanism || id.Provider != r.Identity.Provider
	})
	_, id := explain.Choose(other.rule, &r.Canonical, same)
	return id, nil
}

// letThrough explains the request for the upstream, or the answer to the proxy that asks.
func (r *rehearsal) letThrough() error {
	r.explained.Allow(http.StatusOK, r.Reason)
	if r.Verify {
		if err := r.route.checkIdentityNames(r.Request.Header); err != nil {
			return err
		}
		r.explained.Header = http.Header{}
		r.route.identity.SetAll(r.explained.Header, r.Identity)
		return nil
	}
	r.fillSent()
	r.explained.Path, r.explained.Header = r.sent.Described()
	return nil
}

// conclude returns the explanation, and how the gateway answers the error of run. A failure of the
// gateway is no explanation.
func (r *rehearsal) conclude(err error) (*explain.Result, error) {
	x := &r.explained
	if err == nil || errors.Is(err, web.ErrAnswered) {
		return x, nil
	}
	r.fail(err)
	x.Status, x.Reason = r.Status, cmp.Or(x.Reason, causeOf(err))
	switch {
	case r.Status == http.StatusUnauthorized:
		x.Outcome = explain.OutcomeChallenge
	case r.Status == http.StatusForbidden, r.Status == http.StatusOK: // 200 refuses a message
		x.Outcome = explain.OutcomeForbid
	case r.Status == http.StatusNotFound, r.Status == http.StatusMisdirectedRequest:
		x.Outcome = explain.OutcomeNotFound
	case r.Status < http.StatusInternalServerError:
		x.Outcome = explain.OutcomeBadRequest
	default:
		return nil, err
	}
	return x, nil
}

// causeOf returns the text of an error for operators.
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
