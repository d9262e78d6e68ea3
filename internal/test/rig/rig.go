// Package rig serves own endpoints to tests, as the gateway does, with a store, a clock
// and a log in the hands of the test. There is no gateway around them: instead of routes
// and upstreams, an application answers who is signed in; see application.
package rig

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/audit"
	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/endpoint/own"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login/chain"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/people/accounts"
	"authgate/gateway/proxy/places"
	"authgate/gateway/proxy/upstream"
	"authgate/gateway/proxy/web"
	"authgate/gateway/store"
	"authgate/gateway/store/guard"
	"authgate/gateway/store/keyfile"
	"authgate/gateway/wire/peer"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
	"authgate/policy"
)

// AliceHash and BobHash are the hashes of the passwords of alice and bob.
const (
	AliceHash = "$argon2id$v=19$m=8,t=1,p=1$b2YtYWxpY2U$UHdGR9eBrByiY/k8MqmfnpJH5XZ/z50hBEnlR1mv6P0"
	BobHash   = "$argon2id$v=19$m=8,t=1,p=1$b2YtYm9iLi4$sujW9jFnva35u+pWt/dKRw8BiETq4aJMQHk4pcYm1Ro"
)

// Base has a place for each kind of user. The password of service is s3rvice, that
// of alice wonderland, that of bob builder. The first has a hash of bcrypt, the others have one
// of argon2id, both at their lowest cost: with the race detector, bcrypt takes a hundred times
// as long.
const Base = `
public_url: https://gw.example
data_dir: .
store: {driver: memory}
basic:
  users:
    - {username: service, password_hash: "$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu"}
accounts:
  users:
    - {username: alice, name: Alice Example, email: alice@example.org, roles: [user, admin], password_hash: "` +
	AliceHash + `"}
    - {username: bob, roles: [user], password_hash: "` + BobHash + `"}
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

// CookieDelivery is Base whose tokens come in cookies.
const CookieDelivery = Base + "token: {delivery: cookie}\n"

// WithToken is Base, and demands a token from clients that do not tell their site.
var WithToken = strings.Replace(Base, "store:", "session: {csrf_token: true}\nstore:", 1)

// FiveHosts are the gateway's: one for sign-in, and four with applications.
var FiveHosts = []string{"gw.example", "wiki.example.org", "files.example.org", "mail.example.net", "x.apps.example"}

// FiveHostsConfig has a page for people at each of FiveHosts.
const FiveHostsConfig = Base + `
  - {match: wiki.example.org/, name: wiki, upstream: app, auth: [session]}
  - {match: wiki.example.org/open/, name: open, upstream: app, auth: [none]}
  - {match: files.example.org/, name: files, upstream: app, auth: [session]}
  - {match: mail.example.net/, name: mail, upstream: app, auth: [session, bearer]}
  - {match: x.apps.example/, name: x, upstream: app, auth: [session]}
`

// HostsConfig has every way to name a host.
var HostsConfig = Base + `
  - {match: Wiki.Example.org./, name: wiki, upstream: app, auth: [none]}
  - {match: "GET [2001:db8::1]/", name: six, upstream: app, auth: [none]}
  - {match: "*.wild.example/", name: wild, upstream: app, auth: [session]}
tls: {domains: [files.example, "*.apps.example", 192.0.2.50]}
`

// APITokenConfig has a route for each way in which API tokens come.
const APITokenConfig = Base + `
  - {match: /git/, name: git, upstream: app, auth: [bearer], basic_challenge: true}
  - {match: /wiki/, name: wiki, upstream: app, auth: [session, bearer], basic_challenge: true}
  - {match: /both/, name: both, upstream: app, auth: [basic, bearer], basic_challenge: true}
  - {match: /shared/, name: shared, upstream: app, auth: [session, bearer], authorization: application}
`

// TokenHeaderConfig lets tokens come in a header of their own.
var TokenHeaderConfig = strings.Replace(Base, "upstreams:", "token: {header: X-Authgate-Token}\n"+
	"upstreams:", 1) + `
  - {match: /open/, name: open, upstream: app, auth: [session, bearer, none]}
  - {match: /shared/, name: shared, upstream: app, auth: [session, bearer], authorization: application}
  - {match: /kept/, name: kept, upstream: app, auth: [bearer], forward_credentials: true}
listen: {trusted_proxies: [10.0.0.0/8]}
`

// ProxiedConfig has routes whose application has Authorization for itself, so that the gateway's
// credential comes in Proxy-Authorization.
const ProxiedConfig = Base + `
  - {match: /shared/, name: shared, upstream: app, auth: [session, bearer, basic], authorization: application}
  - {match: /tokens/, name: tokens, upstream: app, auth: [bearer], authorization: application}
  - {match: /people/, name: people, upstream: app, auth: [session], authorization: application}
  - {match: /open/, name: open, upstream: app, auth: [session, bearer, none], authorization: application}
`

// Parse reads a configuration as if its file were in dir.
func Parse(t testing.TB, dir, yaml string) *config.Config {
	t.Helper()
	cfg := must.Get(config.Parse(filepath.Join(dir, "config.yaml"), []byte(yaml)))(t)
	cfg.DataDir = dir // it exists
	return cfg
}

// signingKey is a key as the gateway generates it. The tests of a package share it: each takes
// many times as long as most tests.
var signingKey = sync.OnceValues(func() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 3072)
	if err != nil {
		return nil, err
	}
	return keyfile.Encode(key)
})

// KeepKey makes signingKey the one that the gateway finds in the data directory, unless it needs
// none there or has one.
func KeepKey(t testing.TB, cfg *config.Config) {
	t.Helper()
	if cfg.Token.PrivateKey != "" || !cfg.PublishesKeys() && cfg.Token.Algorithm != config.AlgorithmRS256 {
		return
	}
	must.Get(keyfile.Keep(filepath.Join(cfg.DataDir, "token.pem"), signingKey))(t)
}

// Edit replaces a part of a configuration, which must be there.
func Edit(t testing.TB, yaml, old, new string) string {
	t.Helper()
	if !strings.Contains(yaml, old) {
		t.Fatalf("the configuration has no %q", old)
	}
	return strings.ReplaceAll(yaml, old, new)
}

// Rig is the own endpoints of a configuration, and what they work on.
type Rig struct {
	*Client
	Dir      string
	Config   *config.Config
	Options  *own.Options
	Store    *Store
	Clock    *clocktest.Clock
	Log      *logtest.Buffer
	Registry *prometheus.Registry
	// MayAddFactor is that of own.Options, from the next Reload on.
	MayAddFactor func(*accounts.Account) bool

	// EditTakes is how long a change of accounts.file takes, a millisecond by default.
	EditTakes time.Duration

	// BeforeEdit is called once before the next change of accounts.file; nil: nothing is.
	BeforeEdit func()

	yaml     string // that is served
	service  *web.Service
	guarded  store.Store
	verifier *auth.Verifier
	trusted  peer.Proxies
	own      *own.Endpoints
	chains   *chain.Chains
	reached  atomic.Int64                    // requests that have reached the application
	seen     atomic.Pointer[policy.Identity] // of the last one; nil: without an identity
	headers  *upstream.IdentityHeaders
}

// New returns a rig that serves the own endpoints of a configuration.
func New(t testing.TB, yaml string) *Rig {
	t.Helper()
	clock := clocktest.At(time.Now())
	memory := store.NewMemory(clock.Now)
	t.Cleanup(func() { memory.Close() })
	return Start(t, t.TempDir(), yaml, memory, clock)
}

// WithUsers is New for a configuration whose accounts.file is users.yaml, with that content.
func WithUsers(t testing.TB, yaml, users string) *Rig {
	t.Helper()
	return WithFile(t, yaml, "users.yaml", users)
}

// WithFile is New for a configuration that has a file beside it.
func WithFile(t testing.TB, yaml, name, content string) *Rig {
	t.Helper()
	clock := clocktest.At(time.Now())
	memory := store.NewMemory(clock.Now)
	t.Cleanup(func() { memory.Close() })
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640))
	return Start(t, dir, yaml, memory, clock)
}

// FileAccounts are alice and bob with their passwords, as an operator writes them.
const FileAccounts = `# staff
- username: alice # admin
  name: Alice Example
  roles: [user, admin]
  password_hash: "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"
- {username: bob, roles: [user], ` +
	`password_hash: "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"} # builder
`

// FileConfig is Base with its accounts in a file.
func FileConfig(name string) string {
	before, rest, _ := strings.Cut(Base, "accounts:\n")
	_, after, _ := strings.Cut(rest, "upstreams:\n")
	return before + "accounts: {file: " + name + "}\nupstreams:\n" + after
}

// Instance returns another instance on the store of the rig.
func (r *Rig) Instance(yaml string) *Rig {
	r.T.Helper()
	return Start(r.T, r.T.TempDir(), yaml, r.Store.Store, r.Clock)
}

// Restarted returns another instance on the store and the files of the rig.
func (r *Rig) Restarted() *Rig {
	r.T.Helper()
	return Start(r.T, r.Dir, r.yaml, r.Store.Store, r.Clock)
}

// Start returns a rig in a folder, on a store.
func Start(t testing.TB, dir, yaml string, s store.Store, clock *clocktest.Clock) *Rig {
	t.Helper()
	r := &Rig{
		Dir: dir, Store: &Store{Store: s}, Clock: clock, Log: &logtest.Buffer{}, Registry: prometheus.NewRegistry(),
		EditTakes: time.Millisecond,
	}
	logger := slog.New(slog.NewJSONHandler(r.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	metrics := must.Get(web.NewMetrics(r.Registry, logger, "test", nil))(t)
	r.service = &web.Service{Logger: logger, Events: audit.NewRecorder(logger), Metrics: metrics, Now: clock.Now}
	r.guarded = guard.New(r.Store, metrics.Store())
	r.Client = &Client{T: t, Handler: r, App: r}
	r.Reload(yaml)
	return r
}

// Reload makes the rig serve another configuration on the same store.
func (r *Rig) Reload(yaml string) {
	r.T.Helper()
	cfg := Parse(r.T, r.Dir, yaml)
	KeepKey(r.T, cfg)
	r.yaml = yaml
	if r.verifier == nil {
		throttle := auth.NewThrottle(cfg.Limits.LoginFailures, cfg.Limits.LoginWindow, r.Clock.Now)
		r.verifier = auth.NewVerifier(throttle, 100, time.Minute, r.Clock.Now)
	}
	made := &mechanism.Options{
		Config: cfg, Store: r.guarded, Now: r.Clock.Now, Verifier: r.verifier,
		LocalNow: r.service.Now, Logger: r.service.Logger, Events: r.service.Events, Observe: r.service.Metrics.Provider,
		Accounts: slices.Clone(cfg.Accounts.Users), BasicUsers: mechanism.BasicUsers(cfg),
	}
	var running own.Options
	if r.Options != nil {
		running = *r.Options
	}
	local := must.Get(mechanism.NewLocal(made, running.Local))(r.T)
	federation := must.Get(mechanism.NewFederation(made, local, running.Federation))(r.T)
	r.T.Cleanup(func() {
		for _, end := range federation.Unused(&mechanism.Federation{}) {
			end()
		}
	})
	site := must.Get(web.NewSite(cfg, r.service))(r.T)
	site.ProviderOrigins = federation.Origins
	crossSite := must.Get(web.NewCrossSite(site, cfg))(r.T)
	r.Config, r.trusted = cfg, cfg.Listen.TrustedProxies
	r.headers = upstream.NewIdentityHeaders(upstream.HeaderOptions{Names: cfg.IdentityHeaders,
		Logger: r.service.Logger})
	tokens := must.Get(mechanism.NewOAuth(made, local, federation))(r.T)
	r.Options = &own.Options{
		Config: cfg, Site: site, CrossSite: crossSite, Now: r.Clock.Now, Local: local, Federation: federation,
		OAuth: tokens, MayAddFactor: r.MayAddFactor, Editor: editor{r, cfg},
	}
	site.CSRFToken, site.EndedByTime = crossSite.Token, local.Logins.EndedByTime
	r.own = must.Get(own.New(r.Options))(r.T)
	accepted := chain.Options{
		Config: cfg, Site: site, Bearers: federation.Bearers, Tokens: local.API,
		Authenticators: mechanism.Authenticators(local, federation),
	}
	if tokens != nil {
		accepted.Grants = tokens.Grants
	}
	r.chains = chain.New(accepted)
}

// Mount makes the rig serve rows of a test, too.
func (r *Rig) Mount(rows []endpoint.Row) {
	r.T.Helper()
	var names []string
	for _, row := range rows {
		names = append(names, row.Name)
	}
	maps.Copy(r.own.ByPath, must.Get(endpoint.New(r.own.Shared, names, rows))(r.T))
}

// Reached implements application.
func (r *Rig) Reached() int { return int(r.reached.Load()) }

// LastUser implements application.
func (r *Rig) LastUser() string { return r.LastHeader().Get("X-Auth-User") }

// LastHeader returns what the last request that reached the application says of its user.
func (r *Rig) LastHeader() http.Header {
	h := http.Header{}
	if id := r.seen.Load(); id != nil {
		for _, f := range r.headers.Fields(id) {
			h.Add(f.Name, f.Value)
		}
	}
	return h
}

// ServeHTTP implements http.Handler.
func (r *Rig) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	ex := &web.Exchange{}
	ex.Init(r.Options.Site, w, q)
	ex.Peer = r.trusted.Read(q)
	err := r.read(ex)
	if err == nil {
		if own := r.own.ByPath[ex.Canonical.Path.Decoded]; own != nil {
			if err = r.chains.TakeToken(&ex.Credentials, ex.Request.Header); err == nil {
				err = own.Serve(ex)
			}
		} else {
			err = r.application(ex)
		}
	}
	aborted := err != nil && !errors.Is(err, web.ErrAnswered) && ex.Fail(err)
	ex.Finish(aborted)
	if aborted || !ex.DropBody() {
		panic(http.ErrAbortHandler)
	}
}

// read makes the canonical request, as the gateway does.
func (r *Rig) read(ex *web.Exchange) error {
	site := r.Options.Site
	host, err := policy.CanonicalHost(ex.Peer.Host)
	if err != nil {
		return err
	}
	path, err := site.ParseTarget(host, ex.Request.RequestURI)
	if err == nil {
		err = site.CheckHost(&ex.Received, host)
	}
	if err != nil {
		return err
	}
	ex.Canonical = policy.Request{Method: ex.Request.Method, Host: host, Path: path, Client: ex.Peer.Client,
		Now: r.Clock.Now()}
	err = ex.Credentials.Read(ex.Request.Header, &site.Cookies.Names, ex.Peer.Client)
	if name := site.TokenHeader; name != "" && err == nil {
		err = ex.Credentials.ReadToken(ex.Request.Header[name])
	}
	ex.Credentials.Scope, ex.Credentials.Host = site.CookieScope(host), host
	if err == nil {
		ex.Credentials.Certificate, err = r.Options.Local.Presented(ex.Request, ex.Peer.Trusted)
	}
	return err
}

// application answers in the place of a route with its upstream: it lets in whom the
// route lets in, and sends others to the sign-in page.
func (r *Rig) application(ex *web.Exchange) error {
	o := r.Options
	match, ok := r.Config.Table().Match(&ex.Canonical)
	if !ok {
		return &web.Error{Status: http.StatusNotFound, Detail: "There is nothing here."}
	}
	rule := r.Config.Table().Routes()[match.Index]
	accepted := r.chains.Of(&r.Config.Routes[match.Index], rule)
	page := r.signInPage(rule)
	ex.SignIn = &web.SignInLink{Page: page, Return: true}
	if err := accepted.Take(&ex.Credentials, ex.Request.Header); err != nil {
		return err
	}
	id, err := ex.Authenticate(accepted.For(&ex.Credentials))
	if err != nil && !errors.Is(err, auth.ErrNoCredentials) {
		return web.Challenge(err, accepted.Challenges(&ex.Credentials)...)
	}
	ex.Identify(id)
	switch decision := rule.Decide(id, &ex.Canonical); {
	case decision.Outcome == policy.Allow:
		if err := r.checkSite(ex, id); err != nil {
			return err
		}
		r.reached.Add(1)
		r.seen.Store(id)
		ex.Stale.Clear(ex)
		_, err := io.WriteString(ex, "hello")
		return err
	case decision.Outcome == policy.StepUp && ex.PageLoad() && ex.StepsUp(id):
		page = r.Options.Site.StepUpPage(id, page)
		ex.Redirect(http.StatusFound, ex.SignInPlace(page, places.Return{Path: ex.Target(), Demand: decision.Demand}))
		return nil
	case decision.Outcome == policy.StepUp:
		return web.StepUp(r.Config.Basic.Realm, id, decision.Demand, decision.Reason)
	case decision.Outcome != policy.Challenge:
		return web.Forbidden()
	case ex.PageLoad() && (rule.Accepts(policy.Session) || rule.Accepts(policy.OIDC)):
		place := ex.SignInPlace(page, places.Return{Path: ex.Target()})
		if page != o.Site.Own("login") {
			place = ex.TellEnd(place)
		}
		ex.Stale.Clear(ex)
		ex.Redirect(http.StatusFound, place)
		return nil
	}
	refusal := &web.Error{Status: http.StatusUnauthorized, Detail: auth.DetailNotSignedIn}
	return web.Challenge(refusal, accepted.Challenges(&ex.Credentials)...)
}

// signInPage returns where the gateway leads users who are not signed in.
func (r *Rig) signInPage(rule *policy.Route) string {
	site, federation := r.Options.Site, r.Options.Federation
	page := site.Own("signin")
	switch local := rule.Accepts(policy.Session); {
	case !local && federation.Default != nil:
		return site.Own("login")
	case !local:
		page += "?mechanism=oidc"
	case !rule.Accepts(policy.OIDC) && len(federation.Providers) > 0:
		page += "?mechanism=session"
	}
	return page
}

// checkSite refuses what another site may ask for with the cookies of a user.
func (r *Rig) checkSite(ex *web.Exchange, id *policy.Identity) error {
	crossSite := r.Options.CrossSite
	if id == nil || !chain.ByCookie(id, &ex.Credentials) {
		return nil
	}
	if err := crossSite.CheckOrigin(ex); err != nil || !crossSite.NeedsToken(ex) {
		return err
	}
	return crossSite.CheckToken(ex, id.Login)
}
