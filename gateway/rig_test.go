package gateway

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/config"
	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/logtest"
	ownrig "authgate/internal/test/rig"
)

// rig is a Gateway with everything around it under the control of the test: a
// memory store that can fail, a clock, a log, and an upstream that remembers.
type rig struct {
	*Gateway
	t        testing.TB
	dir      string
	store    *brittleStore
	clock    *clocktest.Clock
	log      *logtest.Buffer
	registry *prometheus.Registry
	upstream *ownrig.Upstream
	client   *ownrig.Client
}

// newRig returns a rig that runs yaml.
func newRig(t testing.TB, yaml string) *rig {
	t.Helper()
	c := clocktest.At(time.Now())
	r := newRigBy(t, yaml, c.Now)
	r.clock = c
	return r
}

// newRigBy returns a rig with another clock.
func newRigBy(t testing.TB, yaml string, now func() time.Time) *rig {
	t.Helper()
	memory := store.NewMemory(now)
	t.Cleanup(func() { memory.Close() })
	brittle := newBrittleStore(memory)
	r, err := startRig(t, t.TempDir(), yaml, brittle, now)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	r.store = brittle
	return r
}

// newNetworkRig returns a rig whose upstream is an application over real
// connections.
func newNetworkRig(t testing.TB, yaml string, serve http.HandlerFunc) *rig {
	t.Helper()
	a := httptest.NewServer(serve)
	t.Cleanup(a.Close)
	r := newRig(t, yaml)
	if err := r.reload(edit(t, yaml, "http://app.invalid", a.URL)); err != nil {
		t.Fatal(err)
	}
	return r
}

// startRig starts a gateway on a store. The rig has no clock and no store that
// can fail.
func startRig(t testing.TB, dir, yaml string, s store.Store, now func() time.Time) (*rig, error) {
	t.Helper()
	r := &rig{t: t, dir: dir, log: &logtest.Buffer{}, registry: prometheus.NewRegistry(), upstream: &ownrig.Upstream{}}
	cfg := parseConfig(t, dir, yaml)
	ownrig.KeepKey(t, cfg)
	var err error
	r.Gateway, err = New(Options{
		Config: cfg, Store: s, Registerer: r.registry, Version: "test", Now: now,
		Logger: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err == nil {
		t.Cleanup(r.Close)
		r.client = &ownrig.Client{T: t, Handler: r.Gateway, App: r.upstream}
		r.stub()
	}
	return r, err
}

// stub puts the remembering upstream behind all routes.
func (r *rig) stub() {
	r.through(r.upstream)
}

// through makes all routes send their requests through a transport.
func (r *rig) through(transport http.RoundTripper) {
	routes := r.state.Load().routing.routes
	for i := range routes {
		if forward := routes[i].forward; forward != nil {
			forward.Transport = transport
		}
	}
}

// reload makes the rig run yaml.
func (r *rig) reload(yaml string) error {
	return r.Reload(func() (*config.Config, error) { return parseConfig(r.t, r.dir, yaml), nil })
}

// mustReload makes the rig run yaml with the remembering upstream.
func (r *rig) mustReload(yaml string) {
	r.t.Helper()
	if err := r.reload(yaml); err != nil {
		r.t.Fatal(err)
	}
	r.stub()
}

// serve sends a request to the gateway.
func (r *rig) serve(q *http.Request) *httptest.ResponseRecorder { return r.client.Serve(q) }

// do makes a request and sends it to the gateway.
func (r *rig) do(method, target, body string, header ...string) *httptest.ResponseRecorder {
	return r.client.Do(method, target, body, header...)
}

// want sends a request. The answer must have the status. A request that is refused
// must not reach the upstream.
func (r *rig) want(status int, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r.t.Helper()
	return r.client.Want(status, method, target, body, header...)
}

func (r *rig) wantOf(status int, q *http.Request) *httptest.ResponseRecorder {
	r.t.Helper()
	return r.client.WantOf(status, q)
}

// good checks that the credentials of s open everything, or nothing.
func (r *rig) good(s signedIn, want bool) {
	r.t.Helper()
	r.client.Good(ownrig.SignedIn{Cookie: s.cookie, Bearer: s.bearer, Access: s.access, Refresh: s.refresh}, want)
}

const (
	baseConfig = ownrig.Base
	jsonType   = ownrig.JSON
	formType   = ownrig.Form
	aliceIn    = ownrig.Alice
	bobIn      = ownrig.Bob
	browser    = ownrig.Browser

	fiveHostsConfig = ownrig.FiveHostsConfig
)

// What tests of own endpoints use, too.
var (
	edit        = ownrig.Edit
	request     = ownrig.Request
	basicHeader = ownrig.Basic
	refreshBody = ownrig.RefreshBody
	detailOf    = ownrig.DetailOf
	jarOf       = ownrig.JarOf
	parseConfig = ownrig.Parse
	errBroken   = ownrig.ErrBroken
	response    = ownrig.Response
)

// signedIn is what a login issued.
type signedIn struct {
	cookie  string // as a header line
	bearer  string // as a header line
	access  string
	refresh string
}

// login signs in with a JSON body.
func (r *rig) login(body string) signedIn {
	r.t.Helper()
	return readLogin(r.t, r.want(200, "POST", "/login", body, jsonType))
}

func readLogin(t testing.TB, w *httptest.ResponseRecorder) signedIn {
	t.Helper()
	in := ownrig.ReadLogin(t, w)
	return signedIn{in.Cookie, in.Bearer, in.Access, in.Refresh}
}

// sample returns the value of a metric; see ownrig.Sample.
func (r *rig) sample(name string, labels ...string) float64 {
	r.t.Helper()
	return ownrig.Sample(r.t, r.registry, name, labels...)
}

// delegatedRig returns a rig with a provider; see ownrig.Provider.Config.
func delegatedRig(t testing.TB, more string) (*rig, *ownrig.Provider) {
	t.Helper()
	p := ownrig.NewProvider(t)
	return delegatedRigOf(t, p, baseConfig, more), p
}

// delegatedRigOf returns a rig with that provider.
func delegatedRigOf(t testing.TB, p *ownrig.Provider, base, more string) *rig {
	t.Helper()
	r := newRig(t, p.Config(base, more))
	p.Now = r.clock.Now
	return r
}

// brittleStore is a store that fails on demand.
type brittleStore struct{ *ownrig.Store }

func newBrittleStore(s store.Store) *brittleStore { return &brittleStore{&ownrig.Store{Store: s}} }

func (b *brittleStore) breakIf(f func(operation string, call int64, key string) bool) { b.BreakIf(f) }

func (b *brittleStore) heal() { b.Heal() }

// logins returns the logins of the user.
func (r *rig) logins(header ...string) []ownrig.OwnLogin {
	r.t.Helper()
	return r.client.Logins(header...)
}

// another signs alice in from a phone.
func (r *rig) another() signedIn {
	r.t.Helper()
	return readLogin(r.t, r.want(200, "POST", "/login", aliceIn, jsonType, ownrig.Phone))
}

// refresh returns what a refresh gives.
func (r *rig) refresh(token string) signedIn {
	r.t.Helper()
	return readLogin(r.t, r.want(200, "POST", "/refresh", refreshBody(token), jsonType))
}
