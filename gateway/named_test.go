package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/explain"
	ownrig "authgate/internal/test/rig"
	"authgate/policy"
)

// namedConfig has routes to one application and to another.
var namedConfig = strings.Replace(baseConfig, `  app: {url: "http://app.invalid"}`,
	`  app: {url: "http://app.invalid/base"}
  other: {url: "http://127.0.0.1:1"}`, 1) + `
  - {match: /dav/, name: dav, upstream: app, auth: [session, bearer], strip_prefix: /dav}
  - {match: /dav/admin/, name: dav-admin, upstream: app, auth: [session, bearer], policy: admin}
  - {match: "COPY /dav/copies/", name: copies, upstream: app, auth: [session, bearer]}
  - {match: "/dav/copies/", name: closed, upstream: app, auth: [session, bearer], policy: admin}
  - {match: /dav/scripts/, name: scripts, upstream: app, auth: [bearer]}
  - {match: /dav/basic/, name: others, upstream: app, auth: [basic]}
  - {match: /dav/open/, name: open, upstream: app, auth: [none]}
  - {match: /whole/, name: whole, upstream: app, auth: [session, bearer]}
  - {match: /elsewhere/, name: elsewhere, upstream: other, auth: [session, bearer]}
  - {match: /asked/, name: asked, auth: [session, bearer]}
  - {match: other.example.org/dav/, name: host, upstream: app, auth: [session, bearer]}
`

// A resource that Destination or a tagged If names is decided on as that of the request, and
// reaches the application as the application knows it. What is refused does not reach it.
func TestNamedResources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ keys, base string }{
		{``, "http://gw.example"}, {`, fast_path: false`, "http://gw.example"},
		{`, host: target`, "http://ADDRESS"}, {`, host: files.internal`, "http://files.internal"},
	} {
		t.Run(c.keys, func(t *testing.T) {
			t.Parallel()
			testNamedResources(t, c.keys, c.base)
		})
	}
}

// sentNames are the headers that name resources, as the application got them.
type sentNames struct{ path, destination, conditions string }

func testNamedResources(t *testing.T, keys, base string) {
	var got []sentNames
	yaml := edit(t, namedConfig, "store:", "listen: {trusted_proxies: [10.0.0.0/8]}\nstore:")
	r := newNetworkRig(t, edit(t, yaml, `app.invalid/base"`, `app.invalid/base"`+keys),
		func(_ http.ResponseWriter, q *http.Request) {
			got = append(got, sentNames{q.URL.Path, strings.Join(q.Header["Destination"], "|"),
				strings.Join(q.Header["If"], "|")})
		})
	address := r.state.Load().config.Upstreams["app"].URLs[0].Host
	base = strings.Replace(base, "ADDRESS", address, 1) + "/base"
	e := newExplainer(t, r.state.Load().config)
	bob := r.login(bobIn).bearer
	ask := func(want int, method, destination, sent string) {
		t.Helper()
		got = nil
		sent = strings.ReplaceAll(sent, "BASE", base)
		header := http.Header{"Destination": {destination}, "Overwrite": {"F"}}
		expected := sentNames{"/base/from", sent, ""}
		if name, value, ok := strings.Cut(destination, ": "); ok {
			header = http.Header{name: {value}}
			expected = sentNames{"/base/from", "", sent}
		}
		var lines []string
		for name, values := range header {
			lines = append(lines, name+": "+values[0])
		}
		if w := r.do(method, "/dav/from", "", append(lines, bob)...); w.Code != want ||
			want == 200 && !slices.Equal(got, []sentNames{expected}) || want != 200 && len(got) > 0 {
			t.Errorf("%s to %s: %d %s; the application got %+v, want %d %+v", method, destination, w.Code, w.Body, got,
				want, expected)
		}
		x, err := e.Explain(&explain.Request{Method: method, URL: "/dav/from", Header: header,
			Caller: &explain.Caller{User: "bob", Mechanism: policy.Bearer}})
		if err != nil || x.Status != want || want == 200 && x.Header.Get("Destination")+x.Header.Get("If") != sent {
			t.Errorf("explain %s to %s: %+v, %v", method, destination, x, err)
		}
		w := r.serve(question("192.0.2.7", slices.Concat(asTraefik(method, "gw.example", "/dav/from"), lines,
			[]string{bob})...))
		if w.Code != want {
			t.Errorf("verify: %s to %s: %d, want %d", method, destination, w.Code, want)
		}
	}
	for destination, sent := range map[string]string{
		"https://gw.example/dav/to%20%C3%A9?a=b":     "BASE/to%20%C3%A9?a=b",
		"HTTPS://GW.example.:443/dav/to/":            "BASE/to/",
		"/dav/to":                                    "BASE/to",
		"https://gw.example/dav":                     "BASE/",
		"https://gw.example/whole/a;b":               "BASE/whole/a;b",
		"https://gw.example/dav/scripts/x":           "BASE/dav/scripts/x",
		"https://gw.example/dav/open/x":              "BASE/dav/open/x",
		"https://gw.example/dav/copies/x":            "BASE/dav/copies/x",
		"If: <https://gw.example/dav/x> (<a:b>)":     "<BASE/x> (<a:b>)",
		"If: (<a:b> [\"<https://evil/>\"])":          "(<a:b> [\"<https://evil/>\"])",
		"If: </dav/x>(Not <a:b>) </dav/y> ([\"e\"])": "<BASE/x>(Not <a:b>) <BASE/y> ([\"e\"])",
	} {
		ask(200, "COPY", destination, sent)
	}
	for want, destinations := range map[int][]string{
		400: {
			"http://gw.example/dav/to", "https://other.example.org/dav/to", "https://evil.example/dav/to",
			"https://gw.example:8443/dav/to", "//gw.example/dav/to", "dav/to", "", "https://alice@gw.example/dav/to",
			"ftp://gw.example/dav/to", "https:/dav/to", "*",
			"https://gw.example/dav/../dav/admin/x", "https://gw.example/dav/%2e%2e/x", "https://gw.example/dav//x",
			"https://gw.example/dav/a%2Fb", "https://gw.example/dav/%2561dmin/x",
			"https://gw.example/dav/x#y", `https://gw.example\dav`,
			"https://gw.example/dav/admin;x/y", "https://gw.example/m%2565", "https://gw.example/dav/x y",
			"https://gw.example/dav/%00", "If: <https://gw.example/dav/x>", "If: <http://gw.example/dav/x> (<a:b>)",
			"If: <https://gw.example/dav/x (<a:b>)",
			"If: (<a:b>) <https://evil.example/dav/x> (<a:b>)", "If: a",
		},
		403: {
			"https://gw.example/dav/admin/x", "/dav/%61dmin/x",
			"https://gw.example/dav/basic/x", "https://gw.example/elsewhere/x",
			"https://gw.example/asked/x", "https://gw.example/login", "https://gw.example/me", "/account/tokens",
			"/verify", "If: </dav/x> (<a:b>) </dav/admin/x> (<a:b>)", "If: </me> (<a:b>)",
		},
		404: {"https://gw.example/nowhere/x", "/nowhere", "https://gw.example", "If: </nowhere> (<a:b>)"},
	} {
		for _, destination := range destinations {
			ask(want, "COPY", destination, "")
		}
	}
	ask(403, "MOVE", "/dav/copies/x", "") // the route is for COPY
	ask(200, "PUT", "If: </dav/x> (<a:b>)", "<BASE/x> (<a:b>)")
	got = nil
	r.do("COPY", "/dav/from", "", bob, "Destination: /dav/a", "Destination: /dav/b")
	r.do("COPY", "/dav/from", "", bob, "If: (<a:b>)", "If: </dav/b> (<a:b>)")
	r.do("COPY", "/dav/from", "", bob, "Connection: Destination", "Destination: /dav/admin/x")
	r.do("COPY", "/dav/from", "", "Destination: /dav/a")
	r.do("COPY", "/dav/open/from", "", bob, "Destination: /dav/admin/x")
	r.do("COPY", "/dav/open/from", "", bob, "Destination: /dav/a") // a request without an identity may not write there
	if len(got) > 0 {
		t.Errorf("the application got %+v", got)
	}
}

// The port is that of the request. A proxy in front may leave out that of public_url.
func TestNamedPorts(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, edit(t, namedConfig, "store:", "listen: {trusted_proxies: [10.0.0.1]}\nstore:"),
		"public_url: https://gw.example", "public_url: https://gw.example:8443"))
	for _, c := range []struct {
		want            int
		from, host, dav string
	}{
		{200, "192.0.2.7", "gw.example:8443", "gw.example:8443"},
		{400, "192.0.2.7", "gw.example:8443", "gw.example"},
		{400, "192.0.2.7", "gw.example:8443", "gw.example:443"},
		{400, "192.0.2.7", "gw.example", "gw.example:8443"},
		{200, "10.0.0.1", "gw.example", "gw.example:8443"},
		{400, "10.0.0.1", "gw.example", "gw.example:9443"},
	} {
		q := request("COPY", "/dav/open/a", "", fmt.Sprintf("Destination: https://%s/dav/open/b", c.dav))
		q.Host, q.RemoteAddr = c.host, c.from+":4711"
		r.wantOf(c.want, q)
	}
}

// A token that holds for one resource alone writes to no other, although the route of that
// accepts tokens of its user.
func TestNamedTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.OAuthConfig)
	token := r.client.Credentials("read", "https://gw.example:8443/api")
	for destination, want := range map[string]int{"/api/b": 200, "/docker/b": 403, "/fresh/b": 403, "/open/b": 200} {
		r.client.WantAt("gw.example:8443", want, "COPY", "/api/a", "", token, "Destination: "+destination)
	}
	whole := r.client.Credentials("read", "https://gw.example:8443/docker")
	r.client.WantAt("gw.example:8443", 200, "COPY", "/docker/a", "", whole, "Destination: /docker/b")
}

// What the route of a named resource asks for is judged there as for a request of its own: its own
// header for the gateway counts, a credential that it rejects does not pass as none, and another
// site may not do there what it may do here.
func TestNamedAsOwnRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.ProxiedConfig+`
  - {match: /shared/archive/, name: archive, upstream: app, auth: [basic], authorization: application}
  - {match: /lenient/, name: lenient, upstream: app, auth: [session], cross_origin: allow}
  - {match: /lenient/too/, name: too, upstream: app, auth: [session], cross_origin: allow}
  - {match: /strict/, name: strict, upstream: app, auth: [session]}
`)
	service := "Proxy-" + (basicHeader("service", "s3rvice"))
	for _, destination := range []string{"/shared/b", "/shared/archive/b"} {
		r.want(200, "MOVE", "/shared/a", "", service, "Authorization: Bearer x", "Destination: "+destination)
	}
	r.want(403, "MOVE", "/shared/a", "", service, "Destination: /tokens/b")
	alice := r.login(aliceIn)
	site := []string{alice.cookie, "Sec-Fetch-Site: cross-site"}
	r.want(200, "MOVE", "/lenient/a", "", append(site, "Destination: /lenient/too/b")...)
	r.want(200, "MOVE", "/lenient/a", "", append(site, "Destination: /public/b")...)
	r.want(200, "MOVE", "/lenient/a", "", alice.cookie, "Destination: /strict/b")
	count := r.upstream.Reached()
	r.want(403, "MOVE", "/lenient/a", "", append(site, "Destination: /strict/b")...)
	r.want(403, "PUT", "/lenient/a", "", append(site, "If: </strict/b> (<a:b>)")...)
	x, err := newExplainer(t, r.state.Load().config).Explain(&explain.Request{Method: "MOVE", URL: "/lenient/a",
		Header: http.Header{"Destination": {"/strict/b"}, "Sec-Fetch-Site": {"cross-site"}},
		Caller: &explain.Caller{User: "alice", Mechanism: policy.Session}})
	if err != nil || x.Status != 403 {
		t.Errorf("explain: %+v, %v", x, err)
	}
	if got := r.upstream.Reached(); got != count {
		t.Errorf("%d requests reached the application", got-count)
	}

	r = newRig(t, edit(t, ownrig.OAuthConfig, "oauth:",
		"  - {match: /guests/, upstream: app, auth: [bearer, none]}\noauth:"))
	token := r.client.Credentials("read", "https://gw.example:8443/api")
	r.client.WantAt("gw.example:8443", 401, "COPY", "/guests/b", "", token)
	r.client.WantAt("gw.example:8443", 403, "COPY", "/api/a", "", token, "Destination: /guests/b")
}

// Another target gets what the request names in its own form.
func TestNamedAtOtherTarget(t *testing.T) {
	t.Parallel()
	var got string
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		got = q.Header.Get("Destination") + " " + q.Header.Get("If") + " " + q.RequestURI
	}))
	t.Cleanup(app.Close)
	yaml := strings.Replace(namedConfig, `url: "http://app.invalid/base"`,
		fmt.Sprintf(`urls: ["http://127.0.0.1:1/one", "%s/two"], balance: round_robin, host: target`, app.URL), 1)
	r := newRig(t, namedConfig)
	if err := r.reload(yaml); err != nil {
		t.Fatal(err)
	}
	want := app.URL + "/two/b <" + app.URL + "/two/c> (<a:b>) /two/a"
	for range 3 { // whichever is asked first
		r.want(200, "COPY", "/dav/a", "", r.login(bobIn).bearer, "Destination: /dav/b", "If: </dav/c> (<a:b>)")
		if got != want {
			t.Errorf("the application got %s, want %s", got, want)
		}
	}
}
