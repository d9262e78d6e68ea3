package lab

import (
	"context"

	"authgate/e2e/bench/role"
)

// kind is a kind of traffic that some applications need.
type kind struct {
	Name     string
	section  string // of the configuration
	upstream string // keys of the upstream
	route    string // keys of the route
	header   func(s signedIn, address string) string
	user     string // that the application sees
}

// Kinds are measured with the same GET over HTTP/1.1, so that their costs can be compared.
func Kinds() []kind {
	return []kind{
		{Name: "no credentials", route: "auth: [session, none]",
			header: func(signedIn, string) string { return "Accept: */*" }},
		{Name: "token.header", section: "token: {header: X-Authgate-Token}", route: "auth: [bearer]", user: "alice",
			header: func(s signedIn, _ string) string { return "X-Authgate-Token: " + s.token }},
		{Name: "encoded_slashes: opaque", route: "auth: [session], encoded_slashes: opaque", user: "alice",
			header: func(s signedIn, _ string) string { return "Cookie: " + s.Cookie }},
		{Name: "cookies: per_user", route: "auth: [session], cookies: per_user", user: "alice",
			header: func(s signedIn, _ string) string { return "Cookie: " + s.Cookie + "; theme=dark" }},
		{Name: "signed identity", upstream: ", assertion: {header: X-Auth-Assertion}", route: "auth: [session]",
			user:   "alice",
			header: func(s signedIn, _ string) string { return "Cookie: " + s.Cookie }},
		{Name: "WebDAV Destination", route: "auth: [session]", user: "alice",
			header: func(s signedIn, address string) string {
				return "Cookie: " + s.Cookie + "\nDestination: https://" + address + "/kind/other"
			}},
	}
}

// Calls is a kind of calls of tools, on a route that decides by tool or, to compare it with, on one that does not.
func Calls(byTool bool) kind {
	tools, route := "", ""
	if byTool {
		tools, route = `, mcp: {tools: ["search_*"]}`, ", mcp: true"
	}
	return kind{Name: "mcp: true", section: "policies: {searching: {roles: [user]" + tools + "}}",
		route: "auth: [bearer], policy: searching" + route, user: "alice",
		header: func(s signedIn, _ string) string { return bearerHeader(s) }}
}

var kindConfiguration = Configuration("", `log: {level: warn}
accounts:
  users: [{username: alice, password_hash: "{{.Hash}}", roles: [user]}]
{{.Section}}
upstreams:
  resources: {url: "http://{{.Upstream}}"{{.UpstreamKeys}}}
routes:
  - {match: 127.0.0.1/kind/, upstream: resources, {{.RouteKeys}}}
  - {match: /, upstream: resources, auth: [session, bearer]}
`)

// ForKind starts authgate for a kind of traffic.
func (l *Lab) ForKind(k kind) Starter {
	return func(ctx context.Context, n int) (*Server, error) {
		gateway, err := l.Configured(ctx, kindConfiguration, map[string]string{
			"Section": k.section, "UpstreamKeys": k.upstream, "RouteKeys": k.route,
		}, n)
		if err != nil {
			return nil, err
		}
		login, err := l.Client.SignIn(ctx, gateway.Base()+"/login", "alice", Password)
		if err != nil {
			gateway.Stop()
			return nil, err
		}
		gateway.folder, gateway.header = "kind", k.header(login, gateway.Address)
		gateway.check = func(ctx context.Context) error {
			return l.Client.sees(ctx, gateway.Base()+"/kind"+role.WhoamiSuffix, k.user, gateway.headers()...)
		}
		return gateway, nil
	}
}
