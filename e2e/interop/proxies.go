package main

// proxies are those in front of the gateway, or that ask it.
var proxies = []row{
	{name: "nginx", needs: []string{"nginx"}, version: version{"nginx -v", `nginx/(\S+)`},
		tries: []try{
			{"auth_request", "TestForwardAuth/nginx"},
			{"as ingress-nginx configures it", "TestForwardAuth/ingress-nginx"},
			{"many hosts with one cookie", "TestMigrateFromOAuth2Proxy"},
		}},
	{name: "HAProxy", needs: []string{"haproxy"}, version: version{"haproxy -v", `version (\S+)`},
		tries: []try{{"forward authentication in Lua", "TestForwardAuth/haproxy"},
			{"balancer with PROXY protocol v1 and v2", "TestBalancer"}}},
	{name: "Caddy", needs: []string{"caddy"}, version: version{"caddy version", ""},
		tries: []try{{"forward_auth", "TestForwardAuth/caddy"}, {"in front, without a question", "TestComposeBehindCaddy"}}},
	{name: "Traefik", needs: []string{"./interop/proxies/traefik"},
		version: version{"interop/proxies/traefik version", `Version:\s+(\S+)`},
		tries: []try{
			{"forwardAuth", "TestForwardAuthPackaged/traefik"},
			{"as its objects of Kubernetes configure it", "TestForwardAuthPackaged/traefik-kubernetes"},
			{"in front, without a question", "TestHowToTraefik"},
		}},
	{name: "Envoy", needs: []string{"./interop/proxies/envoy"},
		version: version{"interop/proxies/envoy --version", `/(\d+\.\d+\.\d+)/`},
		tries: []try{
			{"ext_authz", "TestForwardAuthPackaged/envoy"},
			{"as Envoy Gateway configures it", "TestForwardAuthPackaged/envoy-gateway"},
			{"as `ExternalAuth` of the Gateway API asks", "TestForwardAuthPackaged/gateway-api"},
		}},
}
