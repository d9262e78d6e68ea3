package gateway

import (
	"errors"
	"fmt"
	"io"
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
	"authgate/internal/test/must"
)

// Each step of a reload that can fail leaves everything as it was: the state, the
// logins and the limits.
func TestReloadAllOrNothing(t *testing.T) {
	t.Parallel()
	with := func(change func(*config.Config)) func(*rig) error {
		return func(r *rig) error {
			return r.Reload(func() (*config.Config, error) {
				cfg := parseConfig(r.t, r.dir, baseConfig)
				cfg.Limits.LoginFailures = 1
				cfg.Accounts.Users[1].Disabled = true // bob
				change(cfg)
				return cfg, nil
			})
		}
	}
	for want, reload := range map[string]func(*rig) error{
		"token: token algorithm": with(func(c *config.Config) { c.Token.Algorithm = "none" }),
		"token: ":                with(func(c *config.Config) { c.Token.Secret = "short" }),
		"nowhere.pem": with(func(c *config.Config) {
			c.Token.Algorithm, c.Token.PrivateKey = "RS256", c.DataDir+"/nowhere.pem"
		}),
		"data_dir": with(func(c *config.Config) { c.DataDir = "/elsewhere" }),
		"store.encryption_key": func(r *rig) error { // the last step before the store changes
			if err := os.Mkdir(filepath.Join(r.dir, "store.key"), 0o700); err != nil {
				return err
			}
			return with(func(c *config.Config) { c.Session.CSRFToken = true })(r)
		},
		"ca.pem is missing": func(r *rig) error { // its content could not be trusted, and that of the system would be
			return r.reload(edit(r.t, baseConfig, "http://app.invalid\"", "https://app.invalid\", tls: {ca: ca.pem}"))
		},
		"sesame": func(r *rig) error {
			return r.Reload(func() (*config.Config, error) { return nil, errors.New("sesame") })
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, baseConfig)
			alice, bob, before := r.login(aliceIn), r.login(bobIn), r.state.Load()
			r.clock.Advance(time.Second)
			if err := reload(r); err == nil || !strings.Contains(err.Error(), want) || r.state.Load() != before {
				t.Fatalf("got %v, want an error about %s, and the same state", err, want)
			}
			all := r.sample("authgate_config_reloads_total")
			if failed := r.sample("authgate_config_reloads_total", "result=failure"); all != 1 || failed != 1 {
				t.Errorf("%v of %v reloads were counted as failures", failed, all)
			}
			for range 3 { // more than the limit that was not applied
				r.want(401, "POST", "/login", `{"username":"bob","password":"x"}`, jsonType)
			}
			again := r.login(bobIn)
			r.mustReload(baseConfig) // bob was never disabled
			for _, s := range []signedIn{alice, bob, again} {
				r.good(s, true)
			}
		})
	}
}

func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want   string
		change func(*config.Config)
	}{
		{"listen", func(c *config.Config) { c.Listen.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }},
		{"tls.mode, tls.email, tls.trusted_roots, tls.on_demand", func(c *config.Config) {
			c.TLS.Mode, c.TLS.Email, c.TLS.TrustedRoots = "acme", "x@y.example", "x"
			c.TLS.TrustedRootsContent, c.TLS.OnDemand.Names = []byte("x"), 7
		}},
		{"tls.trusted_roots", func(c *config.Config) { c.TLS.TrustedRootsContent = []byte("x") }},
		{"data_dir", func(c *config.Config) { c.DataDir = "x" }},
		{"store", func(c *config.Config) { c.Store.Driver = "sqlite" }},
		{"limits.max_header_bytes", func(c *config.Config) { c.Limits.MaxHeaderBytes++ }},
		{"listen, tls.mode, log", func(c *config.Config) {
			c.Log.Format, c.TLS.Mode, c.Listen.Admin = "text", "off",
				""
		}},
		{"", func(c *config.Config) {
			c.Limits.LoginFailures, c.Limits.LoginWindow = 1, time.Minute
			c.TLS.Domains, c.TLS.HSTS = []string{"x.example"}, time.Hour
			c.TLS.Certificate, c.TLS.Key = "other.pem", "other-key.pem"
			c.ShutdownDelay, c.ShutdownTimeout = time.Minute, time.Minute
			c.PublicURL = &url.URL{Scheme: "https", Host: "other.example"}
			c.Session.Lifetime, c.Endpoints.Prefix = time.Minute, "/auth/"
			c.Routes, c.Policies, c.Upstreams, c.Accounts.Users = nil, nil, nil, nil
		}},
	} {
		dir := t.TempDir()
		old, cfg := parseConfig(t, dir, baseConfig), parseConfig(t, dir, baseConfig)
		c.change(cfg)
		if err := needsRestart(old, cfg); (err == nil) != (c.want == "") ||
			err != nil && !strings.HasPrefix(err.Error(), "changes of "+c.want+" need a restart") {
			t.Errorf("%v, want it to name %q", err, c.want)
		}
	}
}

// Unchanged upstreams are taken over. Changed ones are new.
func TestReloadUpstreams(t *testing.T) {
	t.Parallel()
	yaml := edit(t, baseConfig, `app: {url: "http://app.invalid"}`, `app: {url: "http://app.invalid"}
  one: {urls: ["http://one.invalid", "http://two.invalid"], timeout: 3s}
  two: {url: "http://two.invalid", identity_headers: {user: X-Remote}}`)
	r := newRig(t, yaml)
	for _, c := range []struct{ old, new, same string }{
		{"name: public,", "name: open, timeout: 7s,", "app one two"},
		{"http://app.invalid", "http://app2.invalid", "one two"},
		{"timeout: 3s", "timeout: 4s", "app two"},
		{"X-Remote", "X-Other", "app one"},
		{"policies:", "identity_headers: {name: X-Display-Name}\npolicies:", ""},
	} {
		r.mustReload(yaml)
		before := r.state.Load().routing.upstreams
		r.mustReload(edit(t, yaml, c.old, c.new))
		for name, u := range r.state.Load().routing.upstreams {
			if (u == before[name]) != strings.Contains(c.same, name) {
				t.Errorf("after %s, upstream %s is the same: %t", c.new, name, u == before[name])
			}
		}
	}
	r.mustReload(baseConfig)
	if after := r.state.Load().routing.upstreams; len(after) != 1 {
		t.Errorf("removed upstreams are still there: %v", after)
	}
}

// Idle connections of a removed upstream are closed. Others are kept.
func TestReloadConnections(t *testing.T) {
	t.Parallel()
	opened, closed := make(chan struct{}, 10), make(chan struct{}, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok") // after which the connection needs no rest
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			opened <- struct{}{}
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	yaml := edit(t, baseConfig, "http://app.invalid", server.URL)
	r := newRig(t, baseConfig)
	reload := func(yaml string) {
		t.Helper()
		if err := r.reload(yaml); err != nil { // without the stub
			t.Fatal(err)
		}
	}
	for range 3 {
		reload(yaml)
		r.want(200, "GET", "/public/", "")
	}
	if len(opened) != 1 {
		t.Errorf("%d connections over reloads that change no upstream", len(opened))
	}
	reload(baseConfig)
	must.Eventually(t, "the idle connection of an upstream that is gone closes", func() bool { return len(closed) > 0 })
}

// A request ends under the configuration that it began with.
func TestReloadInFlight(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	s := r.login(aliceIn)
	arrived, goOn, served := make(chan struct{}), make(chan struct{}), make(chan *httptest.ResponseRecorder)
	r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
		close(arrived)
		<-goOn
		return response(q, 200, http.Header{}, "old"), nil
	}
	go func() { served <- r.do("GET", "/session/x", "", s.cookie) }()
	<-arrived
	if err := r.reload(edit(t, baseConfig, "/session/", "/elsewhere/")); err != nil {
		t.Fatal(err)
	}
	r.want(404, "GET", "/session/x", "", s.cookie)
	close(goOn)
	if w := <-served; w.Code != 200 || w.Body.String() != "old" {
		t.Errorf("the request in flight: %d %s", w.Code, w.Body)
	}
	if line := r.log.Last(t, "request"); line["route"] != "session" || line["status"] != 200.0 {
		t.Errorf("logged as %v", line)
	}
}

// A request that is one too many is refused when its route is known: a script of another origin
// that the route allows can read why, also if it needs a preflight, which waits for nobody.
func TestBusyForScripts(t *testing.T) {
	t.Parallel()
	const config = baseConfig + "limits: {in_flight: 1}\noauth: {enabled: true}\n"
	r := newRig(t, edit(t, config, "match: /public/,", `match: /public/, cors: {origins: ["https://spa.example"]},`))
	arrived, goOn, served := make(chan struct{}), make(chan struct{}), make(chan *httptest.ResponseRecorder)
	r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
		arrived <- struct{}{}
		<-goOn
		return response(q, 200, http.Header{}, ""), nil
	}
	go func() { served <- r.do("GET", "/public/", "") }()
	<-arrived
	const origin = "Origin: https://spa.example"
	for _, target := range []string{"/public/", "/.well-known/openid-configuration"} {
		r.want(204, "OPTIONS", target, "", origin, "Access-Control-Request-Method: GET")
	}
	for target, want := range map[string]string{
		"/public/x": "https://spa.example", "/session/": "", "/me": "", "/.well-known/openid-configuration": "*",
	} {
		w := r.want(503, "GET", target, "", origin)
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != want || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: Access-Control-Allow-Origin %q in %v", target, got, w.Header())
		}
	}
	r.want(503, "OPTIONS", "/public/x", "", origin)
	r.want(503, "GET", "/", "", "Accept: text/html")
	close(goOn)
	<-served
}

// What a reload changes applies to users who are signed in.
func TestReloadApplies(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	const bobLine = `    - {username: bob, roles: [user],`
	for _, c := range []struct{ old, new, want string }{
		{"bob", "bob", "200 200 200 200 403 200"},
		{"bob, roles: [user]", "bob, roles: [user, admin]", "200 200 200 200 200 200"},
		{"[user, admin]", "[user]", "200 403 200 200 403 200"},
		{serviceHash, aliceHash, "200 200 200 200 403 401"},
		{"bob", "bob", "200 200 200 200 403 200"},
		{"auth: [session]}", "auth: [session], policy: admin}", "200 200 403 200 403 200"},
		{bobLine, bobLine + " disabled: true,", "200 200 401 401 401 200"},
		{"bob", "bob", "200 200 401 401 401 200"}, // enabled again, but to sign in anew
		{aliceHash, serviceHash, "401 401 401 401 401 200"},
	} {
		r.clock.Advance(time.Second)
		r.mustReload(edit(t, baseConfig, c.old, c.new))
		var got []string
		for _, ask := range [][2]string{
			{"/session/", alice.cookie}, {"/admin/", alice.bearer}, {"/session/", bob.cookie}, {"/bearer/", bob.bearer},
			{"/admin/", bob.cookie}, {"/basic/", basicHeader("service", "s3rvice")},
		} {
			got = append(got, fmt.Sprint(r.do("GET", ask[0], "", ask[1]).Code))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s becomes %s: %s, want %s", c.old, c.new, got, c.want)
		}
	}
	if got := r.sample("authgate_config_reloads_total", "result=success"); got != 9 {
		t.Errorf("%v reloads were counted", got)
	}
}

// Each start and each reload logs a warning about demonstration passwords.
func TestWarnOfDemonstration(t *testing.T) {
	t.Parallel()
	const (
		user   = "$argon2id$v=19$m=19456,t=2,p=1$dRIQGPuCKmRV65kL8M3GnA$pKp2zwgPl1GiLBwB3eKpj/uOUTdYHj17EDQfgZnEYjw"
		client = "$argon2id$v=19$m=19456,t=2,p=1$3mRkHe+br+nZiL//CEGe1A$Ith4wL8rmyYU6BSv0KgpFbTsheL0Mie+dUztwziNKhk"
	)
	yaml := edit(t, baseConfig, bobHash, user) + `
oauth: {clients: [{id: app, redirect_uris: ["https://app.example/"], secret: "` + client + `"}]}
`
	r := newRig(t, yaml)
	r.mustReload(yaml)
	r.mustReload(baseConfig)
	warnings := r.log.Records(t, "demonstration passwords are configured: they are public")
	if len(warnings) != 2 || fmt.Sprint(warnings[0]["users"]) != "[bob]" || warnings[0]["level"] != "WARN" {
		t.Errorf("warned %v", warnings)
	}
	warnings = r.log.Records(t, "the client secret of the demonstration is configured: it is public")
	if len(warnings) != 2 || fmt.Sprint(warnings[0]["clients"]) != "[app]" || warnings[0]["level"] != "WARN" {
		t.Errorf("warned %v", warnings)
	}
}

// A reload that replaces a provider does not interrupt requests that wait for it.
func TestReloadDuringDiscovery(t *testing.T) {
	t.Parallel()
	asked, answer, done := make(chan struct{}), make(chan struct{}), make(chan *httptest.ResponseRecorder)
	r, p := delegatedRig(t, "")
	p.Discovers = func() {
		close(asked)
		<-answer
	}
	go func() { done <- r.do("GET", "/login", "") }()
	<-asked
	r.mustReload(baseConfig)
	close(answer)
	if w := <-done; w.Code != http.StatusFound || !strings.HasPrefix(w.Header().Get("Location"), p.Issuer) {
		t.Errorf("the waiting request gets %d %s", w.Code, w.Body)
	}
}

// During reloads, each request gets the answer of one of the configurations. The
// race detector observes this test.
func TestReloadConcurrently(t *testing.T) {
	t.Parallel()
	a := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(a.Close)
	yaml := edit(t, baseConfig, "http://app.invalid", a.URL)
	r := newRig(t, yaml)
	alice := r.login(aliceIn)
	variants := []string{
		edit(t, yaml, "name: session,", "name: session, timeout: 7s,"), edit(t, yaml, a.URL, a.URL+`", timeout: "9s`), yaml,
	}
	r.mustReload(variants[0]) // removes the stub
	var reloads, requests sync.WaitGroup
	for range 2 {
		reloads.Go(func() {
			for n := range 20 {
				if err := r.reload(variants[n%len(variants)]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	for _, header := range []string{alice.cookie, alice.bearer, basicHeader("service", "s3rvice")} {
		requests.Go(func() {
			for w := r.do("GET", "/any/", "", header); ; w = r.do("GET", "/any/", "", header) {
				if w.Code != http.StatusOK {
					t.Errorf("during reloads: %d %s", w.Code, w.Body)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	reloads.Wait()
	close(done)
	requests.Wait()
}

// The event of a reload tells the change of a key without the addresses of mail in its values. A user name may
// be one.
func TestReloadedHasNoMail(t *testing.T) {
	t.Parallel()
	named := edit(t, baseConfig, "username: bob", "username: bob@gw.example")
	r := newRig(t, named)
	changed := edit(t, named, "gw.example, roles: [user],", "gw.example, email: b@one.example, roles: [user],")
	r.mustReload(changed + "site: {help: \"mailto:help@one.example\"}\n")
	records := r.log.Records(t, "audit")
	got := fmt.Sprint(records[len(records)-1]["changes"])
	want := `[accounts.users[bob@gw.example].email: "" -> [masked] site.help: "" -> mailto:[masked]]`
	if got != want {
		t.Errorf("the changes are %s, want %s", got, want)
	}
}

// An empty list is the same as none: a reload that only adds one is applied.
func TestReloadWithAnEmptyList(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	r.mustReload(baseConfig + "listen: {trusted_proxies: [], proxy_protocol: []}\n")
	if err := r.reload(baseConfig + "listen: {trusted_proxies: [192.0.2.0/24]}\n"); !errors.Is(err, ErrNeedsRestart) {
		t.Errorf("another list: %v", err)
	}
}

// A reload leaves an event, and one for each account that it adds, removes, disables, enables or
// gives other roles, also by an end that has come, with who changed the files. What else changes leaves none.
func TestReloadAudited(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	const bobLine = `    - {username: bob, roles: [user],`
	byOperator := func(load func() (*config.Config, error)) error { return r.Gateway.ReloadBy(ByOperator, load) }
	for _, c := range []struct {
		by             string
		reload         func(load func() (*config.Config, error)) error
		old, new, want string
	}{
		{"operator", byOperator, "bob, roles: [user]", "bob, roles: [user, admin]", "roles local:bob [user admin]"},
		{"file", r.Gateway.Reload, bobLine, bobLine + " disabled: true,",
			"disable local:bob <nil>; roles local:bob [user]"},
		{"operator", byOperator, "bob", "bob", "enable local:bob <nil>"},
		{"file", r.Gateway.Reload, "bob", "carol", "add local:carol [user]; remove local:bob <nil>"},
		{"file", r.Gateway.Reload, "username: bob", "username: carol", ""},
		{"file", r.Gateway.Reload, "bob", "bob", "add local:bob [user]; remove local:carol <nil>"},
		{"file", r.Gateway.Reload, bobLine, bobLine + " until: 2020-01-01T00:00:00Z,", "disable local:bob <nil>"},
		{"operator", byOperator, bobLine, bobLine + " until: 2020-01-01T00:00:00Z, disabled: true,",
			"disable local:bob <nil>"},
		{"file", r.Gateway.Reload, bobLine, bobLine + " until: 9999-01-01T00:00:00Z,", "enable local:bob <nil>"},
		{"file", r.Gateway.Reload, "bob, roles: [user]", "bob, roles: [{name: user, until: 2020-01-01T00:00:00Z}]",
			"roles local:bob []"},
		{"operator", byOperator, "bob", "bob", "roles local:bob [user]"},
	} {
		before := len(r.log.Records(t, "audit"))
		cfg := parseConfig(t, r.dir, edit(t, baseConfig, c.old, c.new))
		must.Do(t, c.reload(func() (*config.Config, error) { return cfg, nil }))
		var got []string
		reloads := 0
		for _, line := range r.log.Records(t, "audit")[before:] {
			switch line["event"] {
			case "reloaded":
				reloads++
			case "account_changed":
				got = append(got, fmt.Sprint(line["change"], " ", line["subject"], " ", line["roles"]))
				if line["by"] != c.by || line["request_id"] != nil {
					t.Errorf("the event is %v", line)
				}
			}
		}
		if text := strings.Join(got, "; "); text != c.want || reloads != 1 {
			t.Errorf("%q to %q: %q, %d reloads; want %q", c.old, c.new, text, reloads, c.want)
		}
	}
}
