package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/config"
)

// change is a configuration that differs from the one that runs.
func (r *rig) change(f func(*config.Config)) func() (*config.Config, error) {
	return func() (*config.Config, error) {
		cfg := parseConfig(r.t, r.dir, baseConfig)
		f(cfg)
		return cfg, nil
	}
}

// Each step of a reload that can fail leaves everything as it was: the state, the
// logins and the limits.
func TestReloadAllOrNothing(t *testing.T) {
	t.Parallel()
	sesame := errors.New("sesame")
	invalid := func(change func(*config.Config)) func(*rig) error {
		return func(r *rig) error {
			return r.Reload(r.change(func(cfg *config.Config) {
				cfg.Limits.LoginFailures = 1
				cfg.Accounts.Users = cfg.Accounts.Users[:1:1] // without bob
				change(cfg)
			}))
		}
	}
	withoutStore := func(operation int64) func(*rig) error {
		return func(r *rig) error {
			r.store.breakIf(func(_ string, call int64, _ string) bool { return call == operation })
			defer r.store.heal()
			return r.Reload(r.change(func(c *config.Config) { c.Accounts.Users = c.Accounts.Users[:1] }))
		}
	}
	for name, c := range map[string]struct {
		reload func(*rig) error
		want   string
	}{
		"algorithm": {invalid(func(c *config.Config) { c.Token.Algorithm = "none" }), "token"},
		"secret":    {invalid(func(c *config.Config) { c.Token.Secret = "short" }), "token"},
		"key":       {invalid(func(c *config.Config) { c.Token.Algorithm, c.Token.PrivateKey = "RS256", c.DataDir+"/nowhere.pem" }), "token"},
		"encryption key": {func(r *rig) error { // the last step before the store changes
			if err := os.Mkdir(filepath.Join(r.dir, storeKeyFile), 0o700); err != nil {
				return err
			}
			return invalid(func(c *config.Config) { c.Session.CSRFToken = true })(r)
		}, "store.encryption_key"},
		"needs a restart":      {invalid(func(c *config.Config) { c.DataDir = "/elsewhere" }), "data_dir"},
		"cannot be loaded":     {func(r *rig) error { return r.Reload(func() (*config.Config, error) { return nil, sesame }) }, "sesame"},
		"the first operation":  {withoutStore(0), errBroken.Error()},
		"the second operation": {withoutStore(1), errBroken.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, baseConfig)
			alice, bob, before := r.login(aliceIn), r.login(bobIn), r.state.Load()
			r.clock.Advance(time.Second)
			if err := c.reload(r); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error about %s", err, c.want)
			}
			r.unchanged(t, before, alice, bob)
		})
	}
}

// unchanged checks that a failed reload has left no trace, except in the metrics.
func (r *rig) unchanged(t *testing.T, before *state, alice, bob signedIn) {
	t.Helper()
	if r.state.Load() != before {
		t.Fatal("the state has changed")
	}
	if all, failed := r.sample("authgate_config_reloads_total"), r.sample("authgate_config_reloads_total", "result=failure"); all != 1 || failed != 1 {
		t.Errorf("%v of %v reloads were counted as failures", failed, all)
	}
	for range 3 { // more than the limit that was not applied
		r.want(401, "POST", "/login", `{"username":"bob","password":"x"}`, jsonType)
	}
	again := r.login(bobIn)
	if err := r.reload(baseConfig); err != nil { // bob was never removed
		t.Fatal(err)
	}
	r.stub()
	for _, s := range []signedIn{alice, bob, again} {
		r.good(s, true)
	}
}

func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want   string
		change func(*config.Config)
	}{
		{"listen", func(c *config.Config) { c.Listen.HTTPS = ":1" }},
		{"listen", func(c *config.Config) { c.Listen.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }},
		{"tls", func(c *config.Config) { c.TLS.Domains = []string{"x.example"} }},
		{"data_dir", func(c *config.Config) { c.DataDir = "x" }},
		{"store", func(c *config.Config) { c.Store.Driver = "sqlite" }},
		{"limits.max_header_bytes", func(c *config.Config) { c.Limits.MaxHeaderBytes++ }},
		{"log", func(c *config.Config) { c.Log.Level = "debug" }},
		{"listen, tls, log", func(c *config.Config) { c.Log.Format, c.TLS.Mode, c.Listen.Admin = "text", "off", "" }},
		{"", func(c *config.Config) {}},
		{"", func(c *config.Config) {
			c.Limits.LoginFailures, c.Limits.LoginWindow = 1, time.Minute
			c.ShutdownDelay, c.ShutdownTimeout = time.Minute, time.Minute
			c.PublicURL = &url.URL{Scheme: "https", Host: "other.example"}
			c.Session.Lifetime, c.Endpoints.Prefix = time.Minute, "/auth/"
			c.Routes, c.Policies, c.Upstreams, c.Accounts.Users = nil, nil, nil, nil
		}},
	} {
		dir := t.TempDir()
		old, cfg := parseConfig(t, dir, baseConfig), parseConfig(t, dir, baseConfig)
		c.change(cfg)
		err := needsRestart(old, cfg)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v, want nothing", err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "changes of "+c.want+" need a restart")):
			t.Errorf("%v, want it to name %s", err, c.want)
		}
	}
}

// Unchanged upstreams keep their connections. Changed ones are new.
func TestReloadUpstreams(t *testing.T) {
	t.Parallel()
	yaml := edit(t, baseConfig, `app: {url: "http://app.invalid"}`, `app: {url: "http://app.invalid"}
  one: {urls: ["http://one.invalid", "http://two.invalid"], timeout: 3s}
  two: {url: "http://two.invalid", identity_headers: {user: X-Remote}}`)
	r := newRig(t, yaml)
	for _, c := range []struct {
		name string
		yaml string
		same map[string]bool
	}{
		{"nothing", yaml, map[string]bool{"app": true, "one": true, "two": true}},
		{"routes and accounts", edit(t, edit(t, yaml, "roles: [user]", "roles: [staff]"), "name: public,", "name: open, timeout: 7s,"),
			map[string]bool{"app": true, "one": true, "two": true}},
		{"an address", edit(t, yaml, "http://app.invalid", "http://app2.invalid"), map[string]bool{"app": false, "one": true, "two": true}},
		{"a timeout", edit(t, yaml, "timeout: 3s", "timeout: 4s"), map[string]bool{"app": true, "one": false, "two": true}},
		{"the identity headers of one", edit(t, yaml, "X-Remote", "X-Other"), map[string]bool{"app": true, "one": true, "two": false}},
		{"the identity headers of all", yaml + "identity_headers: {name: X-Display-Name}\n", map[string]bool{"app": false, "one": false, "two": false}},
	} {
		if err := r.reload(yaml); err != nil {
			t.Fatal(err)
		}
		before := r.state.Load().routing.upstreams
		if err := r.reload(c.yaml); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		after := r.state.Load().routing.upstreams
		for name, same := range c.same {
			if (after[name] == before[name]) != same {
				t.Errorf("%s changes: upstream %s is the same: %t", c.name, name, !same)
			}
		}
	}
	if err := r.reload(baseConfig); err != nil {
		t.Fatal(err)
	}
	if after := r.state.Load().routing.upstreams; len(after) != 1 {
		t.Errorf("removed upstreams are still there: %v", after)
	}
}

func ok(http.ResponseWriter, *http.Request) {}

// Idle connections of a removed upstream are closed. Others are kept.
func TestReloadConnections(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	opened, closed := 0, make(chan struct{}, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(ok))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch s {
		case http.StateNew:
			opened++
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	yaml := edit(t, baseConfig, "http://app.invalid", server.URL)
	r := newRig(t, edit(t, yaml, "name: public", "name: before"))
	get := func() {
		t.Helper()
		if err := r.reload(yaml); err != nil { // removes the stub
			t.Fatal(err)
		}
		r.want(200, "GET", "/public/", "")
	}
	for range 3 {
		get()
	}
	mu.Lock()
	if opened != 1 {
		t.Errorf("%d connections over reloads that change no upstream", opened)
	}
	mu.Unlock()
	if err := r.reload(edit(t, yaml, server.URL, "http://app.invalid")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(2 * time.Minute):
		t.Error("the idle connection of an upstream that is gone stays open")
	}
}

// A request ends under the configuration that it began with.
func TestReloadInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	s := r.login(aliceIn)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		close(arrived)
		<-goOn
		return response(q, 200, http.Header{}, "old"), nil
	}
	w := httptest.NewRecorder()
	var served sync.WaitGroup
	served.Go(func() { r.ServeHTTP(w, request("GET", "/session/x", "", s.cookie)) })
	<-arrived
	if err := r.reload(edit(t, baseConfig, "/session/", "/elsewhere/")); err != nil {
		t.Fatal(err)
	}
	r.want(404, "GET", "/session/x", "", s.cookie)
	close(goOn)
	served.Wait()
	if w.Code != 200 || w.Body.String() != "old" {
		t.Errorf("the request in flight: %d %s", w.Code, w.Body)
	}
	if line := r.log.Last(t, "request"); line["route"] != "session" || line["status"] != float64(200) {
		t.Errorf("logged as %v", line)
	}
}

// What a reload changes applies to users who are signed in.
func TestReloadApplies(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice, bob, service := r.login(aliceIn), r.login(bobIn), basicHeader("service", "s3rvice")
	statuses := func() string {
		t.Helper()
		r.stub()
		var all []string
		for _, c := range []struct{ target, header string }{
			{"/session/", alice.cookie}, {"/admin/", alice.bearer}, {"/session/", bob.cookie}, {"/bearer/", bob.bearer},
			{"/admin/", bob.cookie}, {"/basic/", service},
		} {
			all = append(all, fmt.Sprint(r.do("GET", c.target, "", c.header).Code))
		}
		return strings.Join(all, " ")
	}
	const bobLine = `    - {username: bob, roles: [user],`
	const serviceHash = "$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu"
	const aliceHash = "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"
	for _, c := range []struct{ name, yaml, want string }{
		{"nothing", baseConfig, "200 200 200 200 403 200"},
		{"a role more", edit(t, baseConfig, "bob, roles: [user]", "bob, roles: [user, admin]"), "200 200 200 200 200 200"},
		{"a role less", edit(t, baseConfig, "[user, admin]", "[user]"), "200 403 200 200 403 200"},
		{"the shared password", edit(t, baseConfig, serviceHash, aliceHash), "200 200 200 200 403 401"},
		{"nothing again", baseConfig, "200 200 200 200 403 200"},
		{"a route less open", edit(t, baseConfig, "auth: [session]}", "auth: [session], policy: admin}"), "200 200 403 200 403 200"},
		{"one disabled", edit(t, baseConfig, bobLine, bobLine+" disabled: true,"), "200 200 401 401 401 200"},
		{"enabled again, but to sign in anew", baseConfig, "200 200 401 401 401 200"},
		{"a password", edit(t, baseConfig, aliceHash, serviceHash), "401 401 401 401 401 200"},
	} {
		r.clock.Advance(time.Second)
		if err := r.reload(c.yaml); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := statuses(); got != c.want {
			t.Errorf("%s changes: %s, want %s", c.name, got, c.want)
		}
	}
	if got := r.sample("authgate_config_reloads_total", "result=success"); got != 9 {
		t.Errorf("%v reloads were counted", got)
	}
}

func TestReloadLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	if err := r.reload(baseConfig + "limits: {login_failures: 2, login_window: 10s}\n"); err != nil {
		t.Fatal(err)
	}
	var got []int
	for range 3 {
		got = append(got, r.do("POST", "/login", `{"username":"bob","password":"x"}`, jsonType).Code)
	}
	w := r.do("POST", "/login", bobIn, jsonType)
	if fmt.Sprint(got) != "[401 401 429]" || w.Code != 429 || w.Header().Get("Retry-After") != "10" {
		t.Errorf("statuses %v, then %d with Retry-After %q", got, w.Code, w.Header().Get("Retry-After"))
	}
	r.clock.Advance(10 * time.Second)
	r.want(200, "POST", "/login", bobIn, jsonType)
}

// During reloads, each request gets an answer that one of the configurations
// gives. The race detector observes this test.
func TestReloadConcurrently(t *testing.T) {
	t.Parallel()
	a := httptest.NewServer(http.HandlerFunc(ok))
	t.Cleanup(a.Close)
	yaml := edit(t, baseConfig, "http://app.invalid", a.URL)
	r := newRig(t, yaml)
	variants := []string{
		yaml,
		edit(t, yaml, "name: session,", "name: session, timeout: 7s,"),
		edit(t, yaml, a.URL, a.URL+`", timeout: "9s`),
		edit(t, yaml, "auth: [session]}", "auth: [session], policy: admin}"),
	}
	if err := r.reload(variants[1]); err != nil { // removes the stub
		t.Fatal(err)
	}
	alice := r.login(aliceIn)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, header := range []string{alice.cookie, alice.bearer, basicHeader("service", "s3rvice")} {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if w := r.do("GET", "/any/", "", header); w.Code != 200 {
					t.Errorf("during reloads: %d %s", w.Code, w.Body)
					return
				}
			}
		})
	}
	var reloads sync.WaitGroup
	for i := range 2 {
		reloads.Go(func() {
			for n := range 20 {
				if err := r.reload(variants[(n+i)%len(variants)]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	reloads.Wait()
	close(stop)
	all.Wait()
}

// Each start and each reload logs a warning about demonstration passwords.
func TestWarnOfDemonstration(t *testing.T) {
	t.Parallel()
	const hash = "$argon2id$v=19$m=19456,t=2,p=1$dRIQGPuCKmRV65kL8M3GnA$pKp2zwgPl1GiLBwB3eKpj/uOUTdYHj17EDQfgZnEYjw"
	yaml := edit(t, baseConfig, "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC", hash)
	r := newRig(t, yaml)
	if err := r.reload(yaml); err != nil {
		t.Fatal(err)
	}
	if err := r.reload(baseConfig); err != nil {
		t.Fatal(err)
	}
	warnings := r.log.Records(t, "demonstration passwords are configured: they are public")
	if len(warnings) != 2 || fmt.Sprint(warnings[0]["users"]) != "[bob]" || warnings[0]["level"] != "WARN" {
		t.Errorf("warned %v", warnings)
	}
}

// A reload that replaces a provider does not interrupt requests that wait for it.
func TestReloadDuringDiscovery(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	var issuer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{
			"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token", "jwks_uri": issuer + "/jwks",
		})
	}))
	defer server.Close()
	issuer = server.URL
	yaml := baseConfig + "  - {match: /delegated/, upstream: app, auth: [oidc]}\n" +
		"providers:\n  - {name: slow, issuer: \"" + issuer + "\", client_id: gateway, timeout: 8s}\n"
	r := newRig(t, yaml)
	t.Cleanup(r.Close)
	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- r.do("GET", "/login", "") }()
	<-asked
	err := r.Reload(func() (*config.Config, error) {
		return parseConfig(t, r.dir, strings.Replace(yaml, "8s", "9s", 1)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	close(answer)
	if w := <-done; w.Code != http.StatusFound || !strings.HasPrefix(w.Header().Get("Location"), issuer) {
		t.Errorf("the waiting request gets %d %s", w.Code, w.Body)
	}
}
