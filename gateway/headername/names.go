package headername

// The names below are folded. A name is listed if the documentation of a proxy, a
// platform or an application says that the header is trusted. Names of credentials
// that clients send themselves, such as X-Auth-Token and X-User-Id, are not listed,
// because applications verify those.

// family is a set of headers whose names begin with prefix.
type family struct {
	prefix string
	class  Class
}

// DefaultIdentity are the default names of the headers with which the gateway
// sends the identity to upstreams.
var DefaultIdentity = []string{
	"X-Auth-User", "X-Auth-Subject", "X-Auth-Name", "X-Auth-Email",
	"X-Auth-Roles", "X-Auth-Mechanism", "X-Auth-Provider",
}

// exact are the headers that are listed by their full names.
var exact = classify(map[Class][]string{
	Own: append([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Request-Id"}, DefaultIdentity...),

	Framed: {
		"Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Keep-Alive",
		"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	},

	Forwarded: {
		// The headers that RFC 7239 replaces.
		"Forwarded-For", "X-Forwarded", "X-Forward-For",
		"X-Forwarded-By", "X-Forwarded-Client-Ip", "X-Forwarded-Method", "X-Forwarded-Path", "X-Forwarded-Port",
		"X-Forwarded-Prefix", "X-Forwarded-Protocol", "X-Forwarded-Scheme", "X-Forwarded-Server", "X-Forwarded-Ssl",
		"X-Forwarded-Uri", "X-Forwarded-Url",
		// The address of the client: nginx, Apache httpd, Rackspace, Akamai,
		// Cloudflare, Fastly, Fly, Azure, Netlify, Imperva, WebLogic, Squid.
		"X-Real-Ip", "X-Real-Port", "X-Client-Ip", "Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip",
		"Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Pseudo-Ipv4", "Do-Connecting-Ip", "Fastly-Client-Ip", "Fly-Client-Ip",
		"X-Azure-Clientip", "X-Azure-Socketip", "X-Nf-Client-Connection-Ip", "X-Vercel-Forwarded-For",
		"Incap-Client-Ip", "X-Sucuri-Clientip", "Ali-Cdn-Real-Ip", "Cdn-Src-Ip", "Cloudfront-Viewer-Address",
		"Proxy-Client-Ip", "X-Proxyuser-Ip", "X-Originating-Ip", "X-Custom-Ip-Authorization",
		"Remote-Addr", "Remote-Host", "X-Remote-Addr", "X-Remote-Host", "X-Remote-Ip",
		// The scheme, the host and the path of the original request.
		"X-Host", "X-Http-Host-Override", "X-Http-Scheme", "X-Scheme", "X-Url-Scheme", "X-Https", "Front-End-Https",
		"Cf-Visitor", "Fastly-Ssl", "Fastly-Ff", "X-Rewrite-Url", "X-Script-Name", "X-Proxy-Url", "X-Http-Destinationurl",
		"Base-Url", "Http-Url", "Request-Uri",
	},

	Identity: {
		// REMOTE_USER and similar names: CGI, Apache httpd, IIS, Authelia.
		"Remote-User", "Remote-Name", "Remote-Email", "Remote-Group", "Remote-Groups", "Remote-Ident",
		"Auth-User", "Auth-Type", "Logon-User", "Authenticated-User",
		// Names beside the gateway's own: louketo-proxy, nginx.
		"X-Auth-Username", "X-Auth-Userid", "X-Auth-User-Id", "X-Auth-Groups", "X-Auth-Role",
		// Headers by which proxies sign users in to applications.
		"X-User", "X-Username", "X-Email", "X-Groups", "X-Role", "X-Roles", "X-Userinfo", "X-Sso-User",
		"X-Proxy-User", "X-Proxy-Role", "X-Proxy-Roles", "X-Token-Subject",
		"X-Endpoint-Api-Userinfo", "X-Apigateway-Api-Userinfo",
		// Kong.
		"X-Anonymous-Consumer", "X-Credential-Identifier", "X-Credential-Username",
		// Certificates of clients: RFC 9440, IIS.
		"Client-Cert", "Client-Cert-Chain", "X-Arr-Clientcert", "X-Client-Dn", "X-Client-Verify",
		// Oracle Access Manager.
		"Oam-Remote-User",
	},

	// Some applications take a request for one of another method; under CGI,
	// Proxy chooses the proxy of an application's own requests (httpoxy).
	Misleading: {"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "Proxy"},
})

// families are the headers that are listed by a prefix of their names. The first
// match counts.
var families = []family{
	// X-Forwarded- headers that are not listed above describe users and their
	// certificates: X-Forwarded-User, -Email, -Groups, -Client-Cert.
	{"X-Forwarded-", Identity},
	{"X-Original-", Forwarded}, // -URL, -URI, -Host, -Method, -Forwarded-For, -Remote-Addr
	{"X-Envoy-", Forwarded},    // -External-Address, -Internal, -Original-Path
	{"Wl-Proxy-Client-Cert", Identity},
	{"Wl-Proxy-", Forwarded}, // -Client-IP, -SSL

	{"X-Remote-", Identity},       // -User, -Group, -Extra-: Kubernetes
	{"X-Webauth-", Identity},      // Grafana, Gitea
	{"X-Auth-Request-", Identity}, // oauth2-proxy
	{"X-Authenticated-", Identity},
	{"X-Authentik-", Identity},
	{"X-Token-User-", Identity}, // caddy-security
	{"X-Consumer-", Identity},   // Kong
	{"X-Vouch-", Identity},
	{"X-Pomerium-", Identity},
	{"Cf-Access-Authenticated-", Identity},
	{"Tailscale-", Identity},
	{"X-Appengine-", Identity}, // users, and requests from the platform itself
	{"X-Goog-Authenticated-", Identity},
	{"X-Ms-Client-Principal", Identity},
	{"X-Ms-Token-", Identity},
	{"X-Amzn-Oidc-", Identity},
	{"X-Amzn-Mtls-", Identity},
	{"Oidc-", Identity}, // mod_auth_openidc
	{"Shib-", Identity}, // Shibboleth
	{"Osso-User-", Identity},
	{"Sm-", Identity}, // SiteMinder
	{"Iv-", Identity}, // WebSEAL
	// Certificates of clients.
	{"Ssl-Client-", Identity},
	{"X-Ssl-", Identity},
	{"X-Client-Cert", Identity},
	{"X-Clientcert-", Identity},
	{"X-Tls-Client-", Identity},
}

func classify(names map[Class][]string) map[string]Class {
	classes := map[string]Class{}
	for class, list := range names {
		for _, name := range list {
			classes[name] = class
		}
	}
	return classes
}
