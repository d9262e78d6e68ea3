package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/clocktest"
	"authgate/gateway/config"
	"authgate/gateway/logtest"
	"authgate/gateway/store"
)

// baseConfig has every kind of route. The password of service is s3rvice, that
// of alice wonderland, that of bob builder, at the lowest cost of bcrypt.
const baseConfig = `
public_url: https://gw.example
data_dir: .
store: {driver: memory}
basic:
  users:
    - {username: service, password_hash: "$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu"}
accounts:
  users:
    - {username: alice, name: Alice Example, email: alice@example.org, roles: [user, admin], password_hash: "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"}
    - {username: bob, roles: [user], password_hash: "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"}
upstreams:
  app: {url: "http://app.invalid"}
policies:
  admin: {roles: [admin]}
routes:
  - {match: /basic/, name: basic, upstream: app, auth: [basic]}
  - {match: /session/, name: session, upstream: app, auth: [session]}
  - {match: /bearer/, name: bearer, upstream: app, auth: [bearer]}
  - {match: /any/, name: any, upstream: app, auth: [session, bearer, basic]}
  - {match: /admin/, name: admin, upstream: app, auth: [session, bearer], policy: admin}
  - {match: /public/, name: public, upstream: app, auth: [none]}
`

// parseConfig reads a configuration as if its file were in dir.
func parseConfig(t testing.TB, dir, yaml string) *config.Config {
	t.Helper()
	cfg, err := config.Parse(filepath.Join(dir, "config.yaml"), []byte(yaml))
	if err != nil {
		t.Fatalf("parsing a configuration: %v", err)
	}
	cfg.DataDir = dir // it exists
	return cfg
}

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
	upstream *stubUpstream
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
	brittle := &brittleStore{Store: memory}
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
	r := &rig{t: t, dir: dir, log: &logtest.Buffer{}, registry: prometheus.NewRegistry(), upstream: &stubUpstream{}}
	var err error
	r.Gateway, err = New(Options{
		Config: parseConfig(t, dir, yaml), Store: s, Registerer: r.registry, Version: "test", Now: now,
		Logger: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err == nil {
		t.Cleanup(r.Close)
		r.stub()
	}
	return r, err
}

// stub puts the remembering upstream behind all routes.
func (r *rig) stub() {
	st := r.state.Load()
	for i := range st.routing.routes {
		st.routing.routes[i].transport, st.routing.routes[i].start = r.upstream, nil
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

// edit replaces a part of the configuration, which must be there.
func edit(t testing.TB, yaml, old, new string) string {
	t.Helper()
	if !strings.Contains(yaml, old) {
		t.Fatalf("the configuration has no %q", old)
	}
	return strings.ReplaceAll(yaml, old, new)
}

// stubUpstream answers every request without a network.
type stubUpstream struct {
	newest atomic.Pointer[http.Request] // nil: none has reached the upstream
	asked  atomic.Int64
	answer func(*http.Request) (*http.Response, error) // nil: 200 "hello"
}

func (u *stubUpstream) RoundTrip(r *http.Request) (*http.Response, error) {
	u.newest.Store(r)
	u.asked.Add(1)
	if u.answer != nil {
		return u.answer(r)
	}
	return response(r, http.StatusOK, http.Header{"Content-Type": {"text/plain"}}, "hello"), nil
}

// last returns the newest request that reached the upstream.
func (u *stubUpstream) last() *http.Request { return u.newest.Load() }

// count returns how many requests did.
func (u *stubUpstream) count() int { return int(u.asked.Load()) }

func response(r *http.Request, status int, header http.Header, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: header, ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// request makes a request as a server passes it on, with header lines like
// "Accept: text/html". Empty lines are left out.
func request(method, target, body string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.Host = "gw.example"
	r.RequestURI = target
	r.RemoteAddr = "192.0.2.7:4711"
	for _, line := range header {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Add(name, value)
		}
	}
	return r
}

// serve sends a request to the gateway.
func (r *rig) serve(q *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	return w
}

// do makes a request and sends it to the gateway.
func (r *rig) do(method, target, body string, header ...string) *httptest.ResponseRecorder {
	return r.serve(request(method, target, body, header...))
}

// want sends a request. The answer must have the status. A request that is refused
// must not reach the upstream.
func (r *rig) want(status int, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r.t.Helper()
	return r.wantOf(status, request(method, target, body, header...))
}

func (r *rig) wantOf(status int, q *http.Request) *httptest.ResponseRecorder {
	r.t.Helper()
	before := r.upstream.count()
	w := r.serve(q)
	if reached := r.upstream.count() - before; w.Code != status || status >= 300 && reached > 0 {
		r.t.Errorf("%s %s%s with %.300q: %d %.300s, want %d; %d requests reached the upstream", q.Method, q.Host, q.RequestURI, q.Header, w.Code, w.Body, status, reached)
	}
	return w
}

// good checks that the credentials of s open everything, or nothing.
func (r *rig) good(s signedIn, want bool) {
	r.t.Helper()
	status := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[want]
	r.want(status, "GET", "/session/", "", s.cookie)
	r.want(status, "GET", "/bearer/", "", s.bearer)
	r.want(status, "POST", "/refresh", refreshBody(s.refresh), jsonType)
}

const (
	jsonType = "Content-Type: application/json"
	formType = "Content-Type: application/x-www-form-urlencoded"
	aliceIn  = `{"username":"alice","password":"wonderland"}`
	bobIn    = `{"username":"bob","password":"builder"}`
	browser  = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
)

func basicHeader(username, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}

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
	var tokens struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &tokens); err != nil {
		t.Fatalf("the answer to a login is not JSON: %v: %s", err, w.Body)
	}
	jar := jarOf(w)
	in := signedIn{jar.line("session_id"), "Authorization: Bearer " + tokens.AccessToken, tokens.AccessToken, tokens.RefreshToken}
	if in.access == "" { // cookies carry the tokens, if there are any
		in.bearer, in.refresh = jar.line("access_token"), jar["refresh_token"]
	}
	return in
}

// browserJar is the cookies of a browser, by their names.
type browserJar map[string]string

// jarOf returns the cookies that an answer sets.
func jarOf(w *httptest.ResponseRecorder) browserJar {
	j := browserJar{}
	j.take(w)
	return j
}

// take does what an answer says about cookies.
func (j browserJar) take(w *httptest.ResponseRecorder) {
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(j, c.Name)
		} else {
			j[c.Name] = c.Value
		}
	}
}

// line returns the header line with the cookies of those names, or else with all. It is
// empty if there are none.
func (j browserJar) line(names ...string) string {
	var pairs []string
	for name, value := range j {
		if len(names) == 0 || slices.Contains(names, name) {
			pairs = append(pairs, name+"="+value)
		}
	}
	if pairs == nil {
		return ""
	}
	return "Cookie: " + strings.Join(pairs, "; ")
}

func refreshBody(token string) string { return `{"refresh_token":"` + token + `"}` }

// detailOf returns what an error tells the client.
func detailOf(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var p struct{ Detail string }
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("the body is not a problem document: %v: %q", err, w.Body)
	}
	return p.Detail
}

// sample returns the value of a counter or gauge, or the number of
// observations of a histogram. Labels are like "route=basic". If there is no such
// sample, it returns 0.
func (r *rig) sample(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var pairs []string
			for _, pair := range metric.GetLabel() {
				pairs = append(pairs, pair.GetName()+"="+pair.GetValue())
			}
			if family.GetName() == name && !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(pairs, l) }) {
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

var errBroken = errors.New("the disk with the secret name is on fire")

// brittleStore is a store that fails on demand, before anything happens.
type brittleStore struct {
	store.Store
	calls  atomic.Int64
	before atomic.Pointer[func(ctx context.Context, operation string, call int64, key string) error]
}

// do calls f before each operation, which fails if f does. Calls are counted
// from 0 again.
func (b *brittleStore) do(f func(ctx context.Context, operation string, call int64, key string) error) {
	b.calls.Store(0)
	b.before.Store(&f)
}

// breakIf makes the operations fail for which f returns true.
func (b *brittleStore) breakIf(f func(operation string, call int64, key string) bool) {
	b.do(func(_ context.Context, operation string, call int64, key string) error {
		if f(operation, call, key) {
			return errBroken
		}
		return nil
	})
}

func (b *brittleStore) heal() { b.before.Store(nil) }

// brittle calls do unless the operation is to fail.
func brittle[T any](ctx context.Context, b *brittleStore, operation, key string, do func() (T, error)) (none T, _ error) {
	call := b.calls.Add(1) - 1
	if f := b.before.Load(); f != nil {
		if err := (*f)(ctx, operation, call, key); err != nil {
			return none, err
		}
	}
	return do()
}

func (b *brittleStore) Get(ctx context.Context, key string) ([]byte, error) {
	return brittle(ctx, b, "get", key, func() ([]byte, error) { return b.Store.Get(ctx, key) })
}

func (b *brittleStore) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	_, err := brittle(ctx, b, "put", key, func() (any, error) { return nil, b.Store.Put(ctx, key, value, expires) })
	return err
}

func (b *brittleStore) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	_, err := brittle(ctx, b, "swap", key, func() (any, error) { return nil, b.Store.Swap(ctx, key, old, value, expires) })
	return err
}

func (b *brittleStore) Take(ctx context.Context, key string) ([]byte, error) {
	return brittle(ctx, b, "take", key, func() ([]byte, error) { return b.Store.Take(ctx, key) })
}

func (b *brittleStore) Delete(ctx context.Context, key string) error {
	_, err := brittle(ctx, b, "delete", key, func() (any, error) { return nil, b.Store.Delete(ctx, key) })
	return err
}

func (b *brittleStore) Walk(ctx context.Context, prefix string, visit func(keys []string) error) error {
	_, err := brittle(ctx, b, "walk", prefix, func() (any, error) { return nil, b.Store.Walk(ctx, prefix, visit) })
	return err
}
