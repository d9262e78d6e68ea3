package browser

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"authgate/e2e/world"
)

// wrongSetup: a proxy in front of the gateway that is not set up well makes pages that
// name the mistake, to users in harmless words, and to operators in the log.
func wrongSetup(t *testing.T, c *chromium) {
	g, up := c.prepared(t), world.Record(t)
	var proto, cookies atomic.Bool // does the proxy tell that it speaks https, and pass on cookies?
	gate := world.Must(url.Parse(g.HTTP))(t)
	_, public := c.otherSites(t, &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(gate)
			r.Out.Host = r.In.Host
			if proto.Load() {
				r.Out.Header.Set("X-Forwarded-Proto", "https")
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if !cookies.Load() {
				r.Header.Del("Set-Cookie")
			}
			return nil
		},
	})
	g.Public = public
	g.Listen = fmt.Sprintf("tls: {mode: \"off\"}\nlisten: {http: %q, admin: %q, trusted_proxies: [127.0.0.1, \"::1\"]}\n",
		world.Authority(g.HTTP), world.Authority(g.Admin))
	g.Configure(world.App(up.URL) + browserRoutes)
	g.Run()
	logged := func(hint string) {
		t.Helper()
		world.Until(t, "the log's line "+hint, func() bool { return strings.Contains(g.Log.String(), hint) })
	}
	b := c.tab(t)

	b.open(public + "/secure-resource")
	b.shows("/secure-resource", http.StatusForbidden, "Only over https", "the service is not set up completely")
	logged("let it set X-Forwarded-Proto")

	proto.Store(true)
	b.open(public + "/secure-resource")
	b.shows("/signin", http.StatusOK, "Sign in to localhost")
	b.signIn("alice")
	b.shows("/signin", http.StatusOK, "your browser did not keep the session")
	logged("a sign-in came back without its cookie")
	b.signIn("alice")
	b.shows("/signin", http.StatusOK, "your browser did not keep the session")
	up.None(t)

	cookies.Store(true)
	b.signIn("alice")
	b.is(public + "/secure-resource")
	wantAsked(t, up, "GET", "/secure-resource", "alice")
	noComplaints(t, b)
}
