package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/audit"
	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/streams"
	"authgate/gateway/proxy/tracing"
	"authgate/gateway/proxy/upstream"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/conn"
	"authgate/gateway/wire/peer"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
	"authgate/policy"
)

// routes are those of the tests. A client that asks for /session/ is alice.
const routes = `
public_url: https://gw.example
data_dir: .
store: {driver: memory}
upstreams:
  app: {timeout: 1m, UPSTREAM}
accounts: {users: [{username: alice, password_hash: "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"}]}
routes:
  - match: /session/
    upstream: app
    auth: [session]
    headers: {remove: [X-Gone], set: {X-Set: set}}
    strip_prefix: /session
  - {match: /any/, upstream: app, auth: [session]}
  - {match: /public/, upstream: app, auth: [none]}
`

var alice = policy.Identity{
	Subject: "local:alice", Username: "alice", Name: "Alice Example", Email: "alice@example.org",
	Roles: []string{"user", "admin"}, Provider: policy.LocalProvider, Mechanism: policy.Session,
}

// Header lines that prove who a user is.
const (
	aliceSession = "Cookie: session_id=alice"
	aliceToken   = "Authorization: Bearer agt_alice"
	bobToken     = "Authorization: Bearer agt_bob"
)

var serviceBasic = ownrig.Basic("service", "s3rvice")

// rig is an http.Handler that forwards, with what a gateway has around a Forwarder. It
// believes whatever a request says of its user, and is alice for a request that says nothing.
type rig struct {
	*ownrig.Client // nil without a stub
	forwarder      *Forwarder
	site           *web.Site
	config         *config.Config
	table          *policy.Table
	routes         []*Route // by the table's index; nil: without an upstream
	trusted        peer.Proxies
	upstream       *upstream.Upstream // app
	app            *ownrig.Upstream   // in its place; nil: no stub
	log            *logtest.Buffer
	registry       *prometheus.Registry
	sent           func(*Request)                // is told each request before it is sent; may be nil
	ended          atomic.Pointer[streams.Ended] // why the logins of all users have ended; nil: they go on
	tracer         *tracing.Tracer               // nil: there are no traces
	inFlight       atomic.Int64
}

// newRig returns a rig for an upstream, whose keys are in YAML.
func newRig(t testing.TB, keys string) *rig {
	t.Helper()
	return newRigOf(t, strings.Replace(routes, "UPSTREAM", keys, 1))
}

// newRigOf returns a rig that runs a configuration.
func newRigOf(t testing.TB, yaml string) *rig {
	t.Helper()
	cfg := ownrig.Parse(t, t.TempDir(), yaml)
	r := &rig{
		log: &logtest.Buffer{}, config: cfg, table: cfg.Table(), registry: prometheus.NewRegistry(),
		trusted: cfg.Listen.TrustedProxies,
	}
	logger := slog.New(slog.NewJSONHandler(r.log, nil))
	metrics := must.Get(web.NewMetrics(r.registry, logger, "test", func() float64 { return 0 }))(t)
	r.site = must.Get(web.NewSite(cfg, &web.Service{Logger: logger, Events: audit.NewRecorder(logger), Metrics: metrics, Now: time.Now}))(t)
	upstreams := map[string]*upstream.Upstream{}
	for name, c := range cfg.Upstreams {
		headers := upstream.NewIdentityHeaders(upstream.HeaderOptions{Names: *c.IdentityHeaders,
			Others: cfg.IdentityHeaders})
		upstreams[name] = upstream.New(upstream.Options{
			Name: name, Config: c, Headers: headers, Took: metrics.Upstream(name),
			Metrics: metrics.UpstreamMetrics(name),
			Logger:  logger, Now: time.Now, FreeDescriptors: func() {},
		})
	}
	r.upstream = upstreams["app"]
	r.forwarder = New(logger)
	for i, rule := range r.table.Routes() {
		var route *Route
		if c := &cfg.Routes[i]; c.Upstream != "" {
			route = r.forwarder.NewRoute(&RouteOptions{
				Route: c, Upstream: upstreams[c.Upstream], Config: cfg.Upstreams[c.Upstream], Site: r.site,
				Tokens: tokens{},
				Public: rule.Public(), Nobody: rule.AdmitsNobody(), ByClient: rule.LooksAtClient(),
			})
		}
		r.routes = append(r.routes, route)
	}
	return r
}

// newStub returns a rig that runs a configuration and whose upstream is a stub.
func newStub(t testing.TB, yaml string) *rig {
	t.Helper()
	r := newRigOf(t, yaml)
	r.app = &ownrig.Upstream{}
	r.Client = &ownrig.Client{T: t, Handler: r, App: r.app}
	r.through(r.app)
	return r
}

// newApplication returns a rig whose upstream app is an application over real connections. It is
// in the place of http://app.invalid in the configuration.
func newApplication(t testing.TB, yaml string, serve http.HandlerFunc) *rig {
	t.Helper()
	app := httptest.NewServer(serve)
	t.Cleanup(app.Close)
	return newAt(t, ownrig.Edit(t, yaml, "http://app.invalid", app.URL))
}

// newAt returns a rig that runs a configuration, and has a client.
func newAt(t testing.TB, yaml string) *rig {
	t.Helper()
	r := newRigOf(t, yaml)
	r.app = &ownrig.Upstream{} // which gets nothing
	r.Client = &ownrig.Client{T: t, Handler: r, App: r.app}
	return r
}

// through makes all routes send their requests through a transport.
func (r *rig) through(transport http.RoundTripper) {
	for _, route := range r.routes {
		if route != nil {
			route.Transport = transport
		}
	}
}

// end ends the logins of all users.
func (r *rig) end() {
	r.ended.Store(&streams.Ended{Err: web.Forbidden(), Reason: "the test ends it"})
}

// listening runs f in a synctest bubble with a rig that runs yaml and serves HTTP/1.1 and HTTP/2
// over what dial opens. The upstream reads the whole body.
func listening(t *testing.T, yaml string, f func(t *testing.T, r *rig, dial func() net.Conn)) {
	t.Helper()
	ownrig.Listen(t, func(t *testing.T) *rig {
		r := newStub(t, yaml)
		r.app.Answer = func(q *http.Request) (*http.Response, error) {
			if q.Body != nil {
				if _, err := io.Copy(io.Discard, q.Body); err != nil {
					return nil, err
				}
			}
			return ownrig.Response(q, http.StatusOK, http.Header{}, ""), nil
		}
		return r
	}, f)
}

// ownToken is in each token of the gateway.
const ownToken = "agt_"

type tokens struct{}

// ContainsOwn implements ownTokens.
func (tokens) ContainsOwn(authorization string) bool {
	return strings.Contains(authorization, ownToken)
}

// Check implements login.
func (r *rig) Check(context.Context) error {
	if ended := r.ended.Load(); ended != nil {
		return ended
	}
	return nil
}

// LoginID implements login.
func (r *rig) LoginID() string { return "" }

// Ground implements login.
func (r *rig) Ground() (none streams.Ground) { return none }

// Shares implements login.
func (r *rig) Shares(streams.Login) bool { return false }

// BeginStream implements login.
func (r *rig) BeginStream() error { return nil }

// ServeHTTP implements http.Handler.
func (r *rig) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	ex := &web.Exchange{}
	ex.Init(r.site, w, q)
	ex.Peer = r.trusted.Read(q)
	sent := &Request{Exchange: ex, Login: r}
	if r.tracer != nil {
		sent.Trace = r.tracer.Begin(q.Header, ex.Peer.Trusted)
	}
	r.inFlight.Add(1)
	aborted, told := false, false // that the login has ended
	defer func() {
		panicked := recover()
		ended := sent.Done()
		if ended != nil {
			ex.End(ended)
		}
		aborted = aborted || panicked == http.ErrAbortHandler || ended != nil && !told
		if panicked != nil && panicked != http.ErrAbortHandler {
			panic(panicked)
		}
		ex.Finish(aborted)
		r.inFlight.Add(-1)
		sent.Close()
		if aborted && !q.ProtoAtLeast(1, 1) {
			conn.Reset(q)
		}
		if aborted || !ex.DropBody() {
			panic(http.ErrAbortHandler)
		}
	}()
	if err := r.send(ex, sent); err != nil {
		ended := sent.Ended()
		if ended != nil {
			err = ended
		}
		aborted = ex.Fail(err)
		told = ended != nil && !aborted
	}
}

// send finds the route of a request, and sends it.
func (r *rig) send(ex *web.Exchange, sent *Request) error {
	host, err := policy.CanonicalHost(ex.Peer.Host)
	if err != nil {
		return err
	}
	path, err := r.site.ParseTarget(host, ex.Request.RequestURI)
	if err != nil {
		return err
	}
	if err := r.site.CheckHost(&ex.Received, host); err != nil {
		return err
	}
	ex.Canonical = policy.Request{Method: ex.Request.Method, Host: host, Path: path, Client: ex.Peer.Client}
	if err := ex.Credentials.Read(ex.Request.Header, &r.site.Cookies.Names, ex.Canonical.Client); err != nil {
		return err
	}
	match, ok := r.table.Match(&ex.Canonical)
	if !ok {
		return errors.New("no route")
	}
	ex.Identify(identityFor(r.table.Routes()[match.Index], &ex.Credentials))
	sent.Route = r.routes[match.Index]
	if r.sent != nil {
		r.sent(sent)
	}
	return sent.Send()
}

// identityFor returns whom the credentials of a request say that they are, nil for no user.
func identityFor(rule *policy.Route, creds *auth.Credentials) *policy.Identity {
	user := alice
	switch {
	case rule.Accepts(policy.Basic) && creds.Scheme == "basic":
		return &policy.Identity{Subject: "basic:service", Username: "service", Provider: "basic",
			Mechanism: policy.Basic}
	case rule.Accepts(policy.Bearer) && strings.HasPrefix(creds.Value, "agt_"):
		user.Username, user.Mechanism = strings.TrimPrefix(creds.Value, "agt_"), policy.Bearer
	case rule.Accepts(policy.Bearer) && creds.Access != "":
		user.Username, user.Mechanism = creds.Access, policy.Bearer
	case rule.Public(), rule.AdmitsNobody() && creds.Session != "alice":
		return nil
	}
	user.Subject = "local:" + user.Username
	return &user
}

// request makes a request as a server passes it on.
func request(method, target string) *http.Request {
	q := httptest.NewRequest(method, "/", nil)
	q.Host, q.RequestURI, q.RemoteAddr = "gw.example", target, "192.0.2.7:4711"
	return q
}

// urlKey returns the key of an upstream at a URL.
func urlKey(url string) string { return fmt.Sprintf("url: %q", url) }
