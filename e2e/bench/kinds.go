package main

import (
	"context"
	"fmt"
	"net/http"
	"text/template"
)

// kind is a kind of traffic that some applications need.
type kind struct {
	name     string
	section  string // of the configuration
	upstream string // keys of the upstream
	route    string // keys of the route
	header   func(s signedIn, address string) string
	user     string // that the application sees
}

// kinds are measured with the same GET over HTTP/1.1, so that their costs can be compared.
var kinds = []kind{
	{name: "no credentials", route: "auth: [session, none]",
		header: func(signedIn, string) string { return "Accept: */*" }},
	{name: "token.header", section: "token: {header: X-Authgate-Token}", route: "auth: [bearer]", user: "alice",
		header: func(s signedIn, _ string) string { return "X-Authgate-Token: " + s.token }},
	{name: "encoded_slashes: opaque", route: "auth: [session], encoded_slashes: opaque", user: "alice",
		header: func(s signedIn, _ string) string { return "Cookie: " + s.cookie }},
	{name: "cookies: per_user", route: "auth: [session], cookies: per_user", user: "alice",
		header: func(s signedIn, _ string) string { return "Cookie: " + s.cookie + "; theme=dark" }},
	{name: "signed identity", upstream: ", assertion: {header: X-Auth-Assertion}", route: "auth: [session]",
		user:   "alice",
		header: func(s signedIn, _ string) string { return "Cookie: " + s.cookie }},
	{name: "WebDAV Destination", route: "auth: [session]", user: "alice",
		header: func(s signedIn, address string) string {
			return "Cookie: " + s.cookie + "\nDestination: https://" + address + "/kind/other"
		}},
}

var kindConfiguration = template.Must(template.New("").Parse(`public_url: https://{{.Address}}
listen: {https: "{{.Address}}", http: "", admin: "{{.Admin}}"}
tls: {mode: files, certificate: "{{.Certificate}}", key: "{{.Key}}"}
log: {level: warn}
accounts:
  users: [{username: alice, password_hash: "{{.Hash}}", roles: [user]}]
{{.Section}}
upstreams:
  resources: {url: "http://{{.Upstream}}"{{.UpstreamKeys}}}
routes:
  - {match: 127.0.0.1/kind/, upstream: resources, {{.RouteKeys}}}
  - {match: /, upstream: resources, auth: [session, bearer]}
`))

// kindRows returns the rows of kinds, which are measured only if -only names them.
func (l *lab) kindRows() []comparison {
	var all []comparison
	for _, k := range kinds {
		all = append(all, comparison{
			task: task{name: "kinds, GET HTTP/1.1", load: http1{l, l.script, 4 * l.connections},
				resource: "resource"},
			subject: k.name, other: "floor", start: [2]starter{l.startKind(k), l.startBare},
		})
	}
	return all
}

// startKind starts authgate for a kind of traffic.
func (l *lab) startKind(k kind) starter {
	return func(ctx context.Context, n int) (*server, error) {
		gateway, err := l.startConfigured(ctx, kindConfiguration, map[string]string{
			"Certificate": l.certificate, "Key": l.key, "Upstream": l.upstreams[n],
			"Section": k.section, "UpstreamKeys": k.upstream, "RouteKeys": k.route,
		}, n)
		if err != nil {
			return nil, err
		}
		login, err := l.signIn(ctx, "https://"+gateway.address+"/login")
		if err != nil {
			gateway.stop()
			return nil, err
		}
		gateway.folder, gateway.header = "kind", k.header(login, gateway.address)
		gateway.check = func(ctx context.Context) error {
			status, seen, err := l.get(ctx, "https://"+gateway.address+"/kind"+whoamiSuffix, gateway.headers()...)
			if err == nil && (status != http.StatusOK || seen != k.user) {
				err = fmt.Errorf("%s: answers %d, and the upstream sees %q, want %q", k.name, status, seen, k.user)
			}
			return err
		}
		return gateway, nil
	}
}
