package headername

import "slices"

// The names below are folded. A name is listed if the documentation of a proxy, a
// platform or an application says that the header is trusted.

// family is a set of headers whose names begin with prefix.
type family struct {
	prefix string
	class  Class
}

// DefaultAssertion is the default name of the header with the signed identity.
const DefaultAssertion = "X-Auth-Assertion"

// DefaultIdentity are the default names of the headers with which the gateway
// sends the identity to upstreams.
var DefaultIdentity = []string{
	"X-Auth-User", "X-Auth-Subject", "X-Auth-Name", "X-Auth-Email",
	"X-Auth-Roles", "X-Auth-Mechanism", "X-Auth-Provider", "X-Auth-Actor", DefaultAssertion,
}

// names are headers that need no product of their own.
var names = map[Class][]string{
	Own: append([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Request-Id"},
		DefaultIdentity...),

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
		"Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Pseudo-Ipv4", "Do-Connecting-Ip", "Fastly-Client-Ip",
		"Fly-Client-Ip", "X-Azure-Clientip", "X-Azure-Socketip", "X-Nf-Client-Connection-Ip", "X-Vercel-Forwarded-For",
		"Incap-Client-Ip", "X-Sucuri-Clientip", "Ali-Cdn-Real-Ip", "Cdn-Src-Ip", "Cloudfront-Viewer-Address",
		"Proxy-Client-Ip", "X-Proxyuser-Ip", "X-Originating-Ip", "X-Custom-Ip-Authorization",
		"Remote-Addr", "Remote-Host", "X-Remote-Addr", "X-Remote-Host", "X-Remote-Ip",
		// The scheme, the host and the path of the original request.
		"X-Host", "X-Http-Host-Override", "X-Http-Scheme", "X-Scheme", "X-Url-Scheme", "X-Https", "Front-End-Https",
		"Cf-Visitor", "Fastly-Ssl", "Fastly-Ff", "X-Rewrite-Url", "X-Script-Name", "X-Proxy-Url",
		"X-Http-Destinationurl",
		"Script-Name", "Path-Info", // Gunicorn's forwarder_headers, believed from the addresses of its proxies
		"Base-Url", "Http-Url", "Request-Uri", "Disguised-Host", "X-Arr-Ssl", "X-Proxied-Https",
		"X-Proxyscheme", "X-Proxyhost", "X-Proxyport", "X-Proxycontextpath",
	},
}

// exact are the headers that are looked up by their full names, and families those by a
// prefix, the longest prefix first.
var exact, families = classify()

func classify() (map[string]Class, []family) {
	exact := map[string]Class{}
	for class, list := range names {
		for _, name := range list {
			exact[name] = class
		}
	}
	families := []family{
		{"X-Original-", Forwarded}, // -URL, -URI, -Host, -Method, -Forwarded-For, -Remote-Addr
		{"X-Envoy-", Forwarded},    // -External-Address, -Internal, -Original-Path
		{"Wl-Proxy-", Forwarded},   // -Client-IP, -SSL
		{"Fly-Forwarded-", Forwarded},
	}
	families = add(identities, Identity, exact, families)
	families = add(misleading, Misleading, exact, families)
	for _, name := range free {
		exact[name] = Free
	}
	slices.SortStableFunc(families, func(a, b family) int { return len(b.prefix) - len(a.prefix) })
	return exact, families
}
