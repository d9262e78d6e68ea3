package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/config"
	"authgate/gateway/proxy/upstream"
	"authgate/gateway/proxy/web"
	"authgate/internal/test/logtest"
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
	Subject: "local:alice", Username: "alice", Name: "Alice Example", Roles: []string{"user"},
	Provider: policy.LocalProvider, Mechanism: policy.Session,
}

// rig is an http.Handler that forwards, with what a gateway has around a Forwarder. It
// asks for no credentials.
type rig struct {
	forwarder *Forwarder
	site      *web.Site
	table     *policy.Table
	routes    []*Route // by the table's index
	upstream  *upstream.Upstream
	log       *logtest.Buffer
	sent      func(*Request) // is told each request before it is sent; may be nil
}

// newRig returns a rig for an upstream, whose keys are in YAML.
func newRig(t testing.TB, keys string) *rig {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	cfg, err := config.Parse(file, []byte(strings.Replace(routes, "UPSTREAM", keys, 1)))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{log: &logtest.Buffer{}, table: cfg.Table()}
	logger := slog.New(slog.NewJSONHandler(r.log, nil))
	metrics, err := web.NewMetrics(prometheus.NewRegistry(), logger, "test", func() float64 { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	if r.site, err = web.NewSite(cfg, &web.Service{Logger: logger, Metrics: metrics, Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	headers := upstream.NewIdentityHeaders(upstream.HeaderOptions{Names: cfg.IdentityHeaders})
	app := cfg.Upstreams["app"]
	r.upstream = upstream.New(upstream.Options{
		Name: "app", Config: app, Headers: headers, Took: metrics.Upstream("app"), Metrics: metrics.UpstreamMetrics("app"),
		Logger: logger, Now: time.Now, FreeDescriptors: func() {},
	})
	r.forwarder = New(logger)
	for i, rule := range r.table.Routes() {
		r.routes = append(r.routes, r.forwarder.NewRoute(&RouteOptions{
			Route: &cfg.Routes[i], Upstream: r.upstream, Config: app, Site: r.site, Tokens: tokens{}, Public: rule.Public(),
		}))
	}
	return r
}

// ownToken is the only token of the gateway.
const ownToken = "agt_own"

type tokens struct{}

// ContainsOwn implements ownTokens.
func (tokens) ContainsOwn(authorization string) bool {
	return strings.Contains(authorization, ownToken)
}

// Check implements login: each login goes on.
func (r *rig) Check(context.Context) error { return nil }

// ServeHTTP implements http.Handler.
func (r *rig) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	ex := &web.Exchange{}
	ex.Init(r.site, w, q)
	ex.Peer.Address, ex.Peer.Chain, ex.Peer.Host, ex.Peer.Proto = "192.0.2.7", "192.0.2.7", q.Host, "https"
	sent := &Request{Exchange: ex, Login: r}
	aborted := false
	defer func() {
		panicked := recover()
		aborted = aborted || panicked == http.ErrAbortHandler || sent.Done() != nil
		if panicked != nil && panicked != http.ErrAbortHandler {
			panic(panicked)
		}
		ex.Finish(aborted)
		sent.Close()
		if aborted {
			panic(http.ErrAbortHandler)
		}
	}()
	if err := r.send(ex, sent); err != nil {
		aborted = ex.Fail(err)
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
	if err := r.site.Hosts.CheckHost(&ex.Received, host); err != nil {
		return err
	}
	ex.Canonical = policy.Request{Method: ex.Request.Method, Host: host, Path: path}
	if err := ex.Credentials.Read(ex.Request.Header, &r.site.Cookies.Names, ex.Canonical.Client); err != nil {
		return err
	}
	match, ok := r.table.Match(&ex.Canonical)
	if !ok {
		return errors.New("no route")
	}
	if !r.table.Routes()[match.Index].Public() {
		ex.Identify(&alice)
	}
	sent.Route = r.routes[match.Index]
	if r.sent != nil {
		r.sent(sent)
	}
	return sent.Send()
}

// request makes a request as a server passes it on.
func request(method, target string) *http.Request {
	q := httptest.NewRequest(method, "/", nil)
	q.Host, q.RequestURI, q.RemoteAddr = "gw.example", target, "192.0.2.7:4711"
	return q
}

// urlKey returns the key of an upstream at a URL.
func urlKey(url string) string { return fmt.Sprintf("url: %q", url) }
