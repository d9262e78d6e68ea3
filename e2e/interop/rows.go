package main

import "slices"

// row is a counterpart and what proves that the gateway works with it.
type row struct {
	kind    string // heading of its table
	name    string
	version version
	needs   []string // programs, or files below e2e with a slash; without one of them the row is not tried
	path    string   // a folder below e2e that comes first in PATH, likewise
	tries   []try
	never   string // why no machine of a developer can try it; there is nothing else then
}

// version is how a counterpart tells its version: a command, run in e2e, and a regular
// expression whose group is the version in its output. The group is empty: the first
// word like 1.2 or v1.2.
type version struct {
	command string // for sh
	match   string
}

// try is what was tried, in a few words, and its test: NAME or NAME/SUBTEST.
type try struct{ what, test string }

// tag is the build tag of the tests that only make interop runs.
const tag = "interop"

// packages are the packages of the tests, seen from e2e.
func packages() []string {
	return []string{"./acme", "./apps", "./browser", "./oauth", "./oidc", "./redis", "./wire"}
}

// redisTries is what every Redis and every server that speaks its protocol must pass. The
// tests start the program redis-server.
func redisTries() []try {
	return []try{
		{"two instances share logins", "TestRedisSharesLogins"},
		{"revocation reaches the other", "TestRedisRevocationReachesOthers"},
		{"delegated logins", "TestRedisDelegated"},
		{"rates", "TestRedisRate"},
		{"killed and back", "TestRedisKilled"},
		{"full", "TestRedisFull"},
		{"Sentinel fails over", "TestRedisFailover"},
		{"Cluster moves slots and fails over", "TestRedisCluster"},
	}
}

// goModule is a version command for a Go program that a tool directive names.
func goModule(dir, module string) version {
	return version{"go list -C " + dir + " -m " + module, ""}
}

// nodeModule is a version command for a package from npm.
func nodeModule(dir, name string) version {
	return version{"node -p \"JSON.parse(fs.readFileSync('" + dir + "/node_modules/" + name + "/package.json')).version\"", ""}
}

// rows are all rows, in the order of docs/interop.md.
func rows() []row {
	const (
		providers    = "Identity providers"
		proxies      = "Proxies in front"
		stores       = "Stores"
		authorities  = "Certificate authorities"
		browsers     = "Browsers"
		clients      = "Clients"
		libraries    = "Applications and libraries that sign users in here"
		applications = "Applications"
	)
	return []row{
		{kind: providers, name: "Keycloak", needs: []string{"java", "./interop/keycloak/server/bin/kc.sh"},
			version: version{"interop/keycloak/server/bin/kc.sh --version", `Keycloak (\S+)`},
			tries: []try{
				{"code flow with PKCE, also as a public client", "TestKeycloak/code_flow_with_PKCE"},
				{"roles of realm and client, groups", "TestKeycloak/roles"},
				{"refresh", "TestKeycloak/refresh"},
				{"account disabled", "TestKeycloak/account_disabled"},
				{"logout by the refresh token", "TestKeycloak/logout"},
				{"logout by redirect", "TestKeycloak/logout_redirects"},
				{"back-channel logout by user and administrator", "TestKeycloak/back-channel_logout"},
				{"key rotation", "TestKeycloak/key_rotation"},
				{"its access tokens as bearer tokens", "TestKeycloak/bearer_tokens"},
				{"two factors by acr and by amr, a fresh sign-in", "TestKeycloak/step-up"},
				{"down and back", "TestKeycloak/down_and_back"},
			}},
		{kind: providers, name: "oidc-provider", needs: []string{"node", "./provider/node_modules/oidc-provider"},
			version: nodeModule("provider", "oidc-provider"),
			tries: []try{
				{"code flow with PKCE, six kinds of clients", "TestCertifiedProvider/kinds_of_clients"},
				{"its pages", "TestCertifiedProvider/pages"},
				{"refresh, restart, revoked grant", "TestCertifiedProvider/a_session_goes_on"},
				{"down at start", "TestCertifiedProvider/down_at_start"},
				{"logout with revocation", "TestCertifiedProvider/logout_here"},
				{"logout by redirect", "TestCertifiedProvider/logout_redirects"},
				{"back-channel logout", "TestCertifiedProvider/logout_at_provider"},
				{"its access tokens as bearer tokens, introspection", "TestCertifiedProvider/bearer_tokens"},
			}},
		{kind: providers, name: "Dex", needs: []string{"./../bin/interop/dex"},
			version: version{"go version -m ../bin/interop/dex", `github.com/dexidp/dex\s+(\S+)`},
			tries: []try{
				{"code flow with PKCE", "TestDex/code_flow_with_PKCE"},
				{"groups of a connector", "TestDex/groups"},
				{"refresh", "TestDex/refresh"},
				{"a revoked refresh token", "TestDex/refresh_token_revoked"},
				{"logout, here only", "TestDex/logout"},
			}},
		{kind: providers, name: "zitadel/oidc", needs: []string{"./../bin/interop/zitadel"},
			version: version{"go version -m ../bin/interop/zitadel", `github.com/zitadel/oidc/v3\s+(\S+)`},
			tries: []try{
				{"code flow with PKCE, also as a public client", "TestZitadel/code_flow_with_PKCE"},
				{"logout", "TestZitadel/logout"},
				{"logout by redirect", "TestZitadel/logout_redirects"},
			}},

		{kind: providers, name: "Microsoft Entra ID, Google, GitHub, Okta", never: "services on the internet"},

		{kind: proxies, name: "nginx", needs: []string{"nginx"}, version: version{"nginx -v", `nginx/(\S+)`},
			tries: []try{
				{"auth_request", "TestForwardAuth/nginx"},
				{"as ingress-nginx configures it", "TestForwardAuth/ingress-nginx"},
				{"many hosts with one cookie", "TestMigrateFromOAuth2Proxy"},
			}},
		{kind: proxies, name: "HAProxy", needs: []string{"haproxy"}, version: version{"haproxy -v", `version (\S+)`},
			tries: []try{{"forward authentication in Lua", "TestForwardAuth/haproxy"}, {"balancer with PROXY protocol v1 and v2", "TestBalancer"}}},
		{kind: proxies, name: "Caddy", needs: []string{"caddy"}, version: version{"caddy version", ""},
			tries: []try{{"forward_auth", "TestForwardAuth/caddy"}, {"in front, without a question", "TestComposeBehindCaddy"}}},
		{kind: proxies, name: "Traefik", needs: []string{"./interop/proxies/traefik"}, version: version{"interop/proxies/traefik version", `Version:\s+(\S+)`},
			tries: []try{
				{"forwardAuth", "TestForwardAuthPackaged/traefik"},
				{"as its objects of Kubernetes configure it", "TestForwardAuthPackaged/traefik-kubernetes"},
				{"in front, without a question", "TestHowToTraefik"},
			}},
		{kind: proxies, name: "Envoy", needs: []string{"./interop/proxies/envoy"}, version: version{"interop/proxies/envoy --version", `/(\d+\.\d+\.\d+)/`},
			tries: []try{
				{"ext_authz", "TestForwardAuthPackaged/envoy"},
				{"as Envoy Gateway configures it", "TestForwardAuthPackaged/envoy-gateway"},
			}},

		{kind: stores, name: "Redis 7", needs: []string{"redis-server"}, version: version{"redis-server --version", `v=(7\S+)`}, tries: redisTries()},
		{kind: stores, name: "Redis 6.2", needs: []string{"./interop/stores/redis-6.2/redis-server"}, path: "interop/stores/redis-6.2",
			version: version{"interop/stores/redis-6.2/redis-server --version", `v=(6.2\S+)`}, tries: slices.DeleteFunc(redisTries(), func(t try) bool {
				return t.test == "TestRedisCluster" // whose nodes need a setting of Redis 7
			})},
		{kind: stores, name: "Valkey", needs: []string{"./interop/stores/valkey/redis-server"}, path: "interop/stores/valkey",
			version: version{"interop/stores/valkey/redis-server --version", `Valkey server v=(\S+)`}, tries: redisTries()},

		{kind: authorities, name: "pebble", version: goModule(".", "github.com/letsencrypt/pebble/v2"),
			tries: []try{
				{"HTTP-01 and TLS-ALPN-01", "TestACMEChallenges"},
				{"on demand", "TestACMEOnDemand"},
				{"renewal", "TestACMERenewal"},
				{"failure", "TestACMEFailure"},
				{"two instances", "TestACMEShared"},
			}},

		{kind: browsers, name: "Chromium", needs: []string{"chromium"}, version: version{"chromium --version", ""},
			tries: []try{
				{"sign in and out, cookies, keyboard", "TestBrowser/local_accounts"},
				{"delegated logins", "TestBrowser/delegated"},
				{"other sites", "TestBrowser/other_sites,_SameSite=Lax"},
				{"many hosts", "TestBrowser/many_hosts"},
				{"account page", "TestBrowser/account"},
				{"scripts of other origins", "TestBrowser/api"},
				{"HTTP/3", "TestBrowserHTTP3"},
			}},
		{kind: browsers, name: "Firefox", needs: []string{"firefox-esr"}, version: version{"firefox-esr --version", ""},
			tries: []try{
				{"sign in and out over HTTP/2", "TestFirefox/local_accounts"},
				{"delegated logins", "TestFirefox/delegated"},
				{"other sites", "TestFirefox/other_sites"},
				{"passkeys", "TestFirefox/passkeys"},
			}},

		{kind: browsers, name: "Safari", never: "only on systems of Apple"},

		{kind: clients, name: "curl", needs: []string{"curl"}, version: version{"curl --version", ""}, tries: clientTries("curl")},
		{kind: clients, name: "Wget", needs: []string{"wget"}, version: version{"wget --version", ""}, tries: clientTries("wget")},
		{kind: clients, name: "Requests (Python)", needs: []string{"/usr/lib/python3/dist-packages/requests"},
			version: version{"/usr/bin/python3 -c 'import requests; print(requests.__version__)'", ""}, tries: clientTries("requests")},
		{kind: clients, name: "HTTPX (Python)", needs: []string{"/usr/lib/python3/dist-packages/httpx"},
			version: version{"/usr/bin/python3 -c 'import httpx; print(httpx.__version__)'", ""}, tries: clientTries("httpx")},
		{kind: clients, name: "net/http (Go)", version: version{"go env GOVERSION", `go(\S+)`}, tries: clientTries("net_http")},
		{kind: clients, name: "fetch (Node.js)", needs: []string{"node"}, version: version{"node --version", ""}, tries: clientTries("fetch")},
		{kind: clients, name: "Git", needs: []string{"git", "lighttpd"}, version: version{"git --version", ""},
			tries: []try{{"push and clone 200 MiB with an API token", "TestGit"}}},
		{kind: clients, name: "npm", needs: []string{"npm", "./registry/node_modules"}, version: version{"npm --version", ""},
			tries: []try{{"publish and install with an API token", "TestNpm"}}},

		{kind: libraries, name: "openid-client (Node.js)", needs: []string{"node", "./oauth/node_modules/openid-client"},
			version: nodeModule("oauth", "openid-client"),
			tries: []try{
				{"code flow with PKCE, userinfo, refresh, revocation, introspection", "TestOpenIDClient/confidential"},
				{"a public client", "TestOpenIDClient/public"},
				{"dynamic registration", "TestOpenIDClient/registered"},
				{"a client metadata document with private_key_jwt", "TestOpenIDClient/document"},
				{"client credentials", "TestOpenIDClient/credentials"},
				{"device flow", "TestOpenIDClient/device"},
				{"logout by redirect", "TestOpenIDClient/ending"},
			}},
		{kind: libraries, name: "oauth4webapi (Node.js)", needs: []string{"node", "./oauth/node_modules/oauth4webapi"},
			version: nodeModule("oauth", "oauth4webapi"),
			tries:   []try{{"strict checks of each answer, RFC 9068, 9207 and 9728", "TestOAuth4WebAPI"}}},
		{kind: libraries, name: "go-oidc (Go)", version: goModule(".", "github.com/coreos/go-oidc/v3"),
			tries: []try{
				{"code flow with PKCE, userinfo, with golang.org/x/oauth2: refresh, client credentials", "TestGoOIDC"},
				{"device flow by golang.org/x/oauth2", "TestGoOIDCDevice"},
				{"back-channel logout", "TestGoOIDCLogout"},
			}},
		{kind: libraries, name: "Authlib (Python)", needs: []string{"./oauth/venv/bin/python"},
			version: version{"oauth/venv/bin/python -W ignore -c 'import authlib; print(authlib.__version__)'", ""},
			tries: []try{
				{"code flow with PKCE, userinfo, refresh, revocation, introspection, client credentials, " +
					"logout by redirect",
					"TestAuthlib"},
			}},
		{kind: libraries, name: "Nimbus OpenID Connect SDK (Java)", needs: []string{"java", "keytool", "./oauth/nimbus/jars"},
			version: version{"ls oauth/nimbus/jars", `oauth2-oidc-sdk-([0-9.]+)\.jar`},
			tries: []try{
				{"code flow with PKCE, userinfo, refresh, revocation, introspection, client credentials, " +
					"logout by redirect",
					"TestNimbus"},
			}},
		{kind: libraries, name: "mod_auth_openidc in Apache",
			needs:   []string{"apache2", "/usr/lib/apache2/modules/mod_auth_openidc.so"},
			version: version{"dpkg-query -W -f '${Version}' libapache2-mod-auth-openidc", `([0-9.]+)`},
			tries:   []try{{"code flow with PKCE, claims, back-channel logout, logout by redirect", "TestApache"}}},
		{kind: libraries, name: "Gitea", needs: []string{"./../bin/interop/gitea"},
			version: version{"go version -m ../bin/interop/gitea", `mod\s+code.gitea.io/gitea\s+(\S+)`},
			tries:   []try{{"code flow without PKCE, an account by the name and the address", "TestGitea"}}},
		{kind: libraries, name: "MCP SDK for TypeScript",
			needs:   []string{"node", "./oauth/node_modules/@modelcontextprotocol/sdk"},
			version: nodeModule("oauth", "@modelcontextprotocol/sdk"),
			tries: []try{
				{"client and server, dynamic registration", "TestMCPNode/registered"},
				{"client and server, a client metadata document", "TestMCPNode/document"},
			}},
		{kind: libraries, name: "MCP SDK for Go", version: goModule(".", "github.com/modelcontextprotocol/go-sdk"),
			tries: []try{
				{"client and server, dynamic registration", "TestMCPGo/registered"},
				{"client and server, a client metadata document", "TestMCPGo/document"},
			}},

		{kind: applications, name: "Prometheus", needs: []string{"prometheus"}, version: version{"prometheus --version", `version (\S+)`},
			tries: []try{{"its pages and API below a prefix", "TestPrometheus"}}},
		{kind: applications, name: "Jupyter Notebook", needs: []string{"./jupyter/venv/bin/jupyter-notebook", "chromium"},
			version: version{"jupyter/venv/bin/jupyter-notebook --version", ""}, tries: []try{{"its terminal in Chromium, over WebSocket", "TestBrowser/terminal"}}},
		{kind: applications, name: "Flask", needs: []string{"python3"},
			version: version{"for python in python3 /usr/bin/python3; do $python -c 'import importlib.metadata as m; print(m.version(\"flask\"))' 2>/dev/null && exit; done; exit 1", ""},
			tries:   []try{{"the user from the header", "TestFlask"}}},
		{kind: applications, name: "Verdaccio", needs: []string{"./registry/node_modules/verdaccio"}, version: nodeModule("registry", "verdaccio"),
			tries: []try{{"npm registry", "TestNpm"}}},
		{kind: applications, name: "git http-backend behind lighttpd", needs: []string{"git", "lighttpd"}, version: version{"lighttpd -v", `lighttpd/(\S+)`},
			tries: []try{{"repositories over CGI", "TestGit"}, {"CGI variables", "TestCGIHeaders"}}},
		{kind: applications, name: "golang.org/x/net/webdav", needs: []string{"litmus"},
			version: goModule(".", "golang.org/x/net"),
			tries: []try{
				{"litmus, the compliance test for WebDAV, also with another host and prefix", "TestLitmus"}}},
		{kind: applications, name: "rclone", needs: []string{"rclone"},
			version: version{"rclone version", `rclone v(\S+)`},
			tries:   []try{{"WebDAV: a folder uploaded, renamed and copied by Destination", "TestRclone"}}},
		{kind: applications, name: "Radicale", needs: []string{"radicale", "curl"},
			version: version{"radicale --version", ""},
			tries:   []try{{"a calendar by CalDAV with an API token as the password, another user", "TestRadicale"}}},
		{kind: applications, name: "distribution", needs: []string{"docker-registry", "skopeo"},
			version: version{"docker-registry --version", `distribution (\S+)`},
			tries:   []try{{"skopeo pushes and pulls an image with an API token as the password", "TestRegistry"}}},
		{kind: applications, name: "devpi", needs: []string{"./pypi/venv/bin/devpi-server"},
			version: version{"pypi/venv/bin/devpi-server --version", ""},
			tries:   []try{{"devpi, twine and pip with an API token as the password", "TestPyPI"}}},
		{kind: applications, name: "Node-RED", needs: []string{"node", "./nodered/node_modules/node-red"},
			version: nodeModule("nodered", "node-red"),
			tries:   []try{{"its editor with its WebSocket, flows for users and for everybody", "TestNodeRED"}}},
		{kind: applications, name: "Syncthing", needs: []string{"syncthing", "curl"},
			version: version{"syncthing --version", `syncthing v(\S+)`},
			tries:   []try{{"its page, a change of its settings, its API", "TestSyncthing"}}},
		{kind: applications, name: "Transmission", needs: []string{"transmission-daemon", "transmission-remote"},
			version: version{"transmission-daemon --version", `transmission-daemon (\S+)`},
			tries:   []try{{"transmission-remote with an API token as the password, its page", "TestTransmission"}}},
		{kind: applications, name: "RabbitMQ",
			needs:   []string{"/usr/lib/rabbitmq/bin/rabbitmq-server", "epmd", "curl"},
			version: version{"rabbitmqadmin --version", `rabbitmqadmin (\S+)`},
			tries: []try{
				{"its page and API with its own account, a queue with any name by a program", "TestRabbitMQ"}}},
		{kind: applications, name: "n8n", needs: []string{"./n8n/node_modules/.installed", "curl"},
			version: nodeModule("n8n", "n8n"),
			tries: []try{
				{"its editor and WebSocket, a webhook that is tried and one that is open, its API", "TestN8N"}}},
		{kind: applications, name: "code-server", needs: []string{"./codeserver/node_modules/.installed"},
			version: nodeModule("codeserver", "code-server"),
			tries:   []try{{"its page and WebSocket, a program at a port of the machine", "TestCodeServer"}}},
		{kind: applications, name: "Uptime Kuma",
			needs:   []string{"./uptimekuma/node_modules/.installed", "curl"},
			version: nodeModule("uptimekuma", "uptime-kuma"),
			tries: []try{
				{"its WebSocket, a status page for everybody, reports of machines, its metrics", "TestUptimeKuma"}}},
		{kind: applications, name: "Home Assistant",
			needs:   []string{"./homeassistant/venv/.installed", "openssl"},
			version: version{"homeassistant/venv/bin/python -m homeassistant --version", ""},
			tries: []try{
				{"its page and first account, its API and WebSocket by a session and by a certificate, a webhook",
					"TestHomeAssistant"}}},
		{kind: applications, name: "MinIO", needs: []string{"./../bin/interop/minio", "rclone", "curl"},
			version: version{"go version -m ../bin/interop/minio", `mod\s+github.com/minio/minio\s+(\S+)`},
			tries: []try{
				{"rclone by S3 with MinIO's keys, a signed link, the console and its WebSocket", "TestMinIO"}}},
		{kind: applications, name: "Headscale",
			needs:   []string{"./../bin/interop/headscale", "./../bin/interop/tailscaled"},
			version: version{"go version -m ../bin/interop/headscale", `mod\s+github.com/juanfont/headscale\s+(\S+)`},
			tries: []try{
				{"a machine joins by a key and one by its user, its relay, its API", "TestHeadscale"}}},
		{kind: applications, name: "grpc-go", version: goModule(".", "google.golang.org/grpc"), tries: []try{{"unary calls and streams", "TestGRPC"}}},
	}
}

// clientTries is what each HTTP client must pass.
func clientTries(name string) []try {
	return []try{{"Basic, session, API token, the gateway's authority", "TestClients/" + name}}
}
