package main

// framework is the try of an application of docs/how-to/frameworks.md.
const framework = "the application of the how-to: sign-in, name and role, logout by redirect"

// pythonPackage is a version command for a package of e2e/oauth/requirements.txt.
func pythonPackage(name string) version {
	return version{"oauth/venv/bin/python -c 'import importlib.metadata as m; print(m.version(\"" + name + "\"))'", ""}
}

// libraries, and applications, sign their users in at the gateway.
var libraries = []row{
	{name: "openid-client (Node.js)", needs: []string{"node", "./oauth/node_modules/openid-client"},
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
	{name: "oauth4webapi (Node.js)", needs: []string{"node", "./oauth/node_modules/oauth4webapi"},
		version: nodeModule("oauth", "oauth4webapi"),
		tries:   []try{{"strict checks of each answer, RFC 9068, 9207 and 9728", "TestOAuth4WebAPI"}}},
	{name: "go-oidc (Go)", version: goModule(".", "github.com/coreos/go-oidc/v3"),
		tries: []try{
			{"code flow with PKCE, userinfo, with golang.org/x/oauth2: refresh, client credentials", "TestGoOIDC"},
			{"device flow by golang.org/x/oauth2", "TestGoOIDCDevice"},
			{"back-channel logout", "TestGoOIDCLogout"},
		}},
	{name: "Authlib (Python)", needs: []string{"./oauth/venv/bin/python"},
		version: version{"oauth/venv/bin/python -W ignore -c 'import authlib; print(authlib.__version__)'", ""},
		tries: []try{
			{"code flow with PKCE, userinfo, refresh, revocation, introspection, client credentials, " +
				"logout by redirect",
				"TestAuthlib"},
		}},
	{name: "Authlib in Flask (Python)", needs: []string{"./oauth/venv/bin/flask"},
		version: pythonPackage("flask"),
		tries:   []try{{framework, "TestFrameworkFlask"}}},
	{name: "Authlib in Django (Python)", needs: []string{"./oauth/venv/bin/django-admin"},
		version: pythonPackage("django"),
		tries:   []try{{framework, "TestFrameworkDjango"}}},
	{name: "openid-client in Express (Node.js)", needs: []string{"node", "./oauth/node_modules/express"},
		version: nodeModule("oauth", "express"),
		tries:   []try{{framework, "TestFrameworkExpress"}}},
	{name: "Auth.js in Express (Node.js)", needs: []string{"node", "./oauth/node_modules/@auth/express"},
		version: nodeModule("oauth", "@auth/core"),
		tries:   []try{{framework, "TestFrameworkAuthJS"}}},
	{name: "Spring Security (Java)", needs: []string{"java", "javac", "keytool", "./oauth/spring/jars"},
		version: version{"ls oauth/spring/jars", `spring-security-oauth2-client-([0-9.]+)\.jar`},
		tries:   []try{{framework, "TestFrameworkSpring"}}},
	{name: "oauth2-proxy", needs: []string{"./../bin/interop/oauth2-proxy"},
		version: version{"go version -m ../bin/interop/oauth2-proxy", `mod\s+github.com/oauth2-proxy/\S+\s+(\S+)`},
		tries:   []try{{framework, "TestFrameworkOAuth2Proxy"}}},
	{name: "requests-oauthlib (Python)", needs: []string{"./oauth/venv/bin/python"},
		version: version{"oauth/venv/bin/python -c 'import requests_oauthlib; print(requests_oauthlib.__version__)'",
			""},
		tries: []try{{"code flow with PKCE and refresh, without a scope", "TestRequestsOAuthlib"}}},
	{name: "Nimbus OpenID Connect SDK (Java)", needs: []string{"java", "keytool", "./oauth/nimbus/jars"},
		version: version{"ls oauth/nimbus/jars", `oauth2-oidc-sdk-([0-9.]+)\.jar`},
		tries: []try{
			{"code flow with PKCE, userinfo, refresh, revocation, introspection, client credentials, " +
				"logout by redirect",
				"TestNimbus"},
		}},
	{name: "mod_auth_openidc in Apache",
		needs:   []string{"apache2", "/usr/lib/apache2/modules/mod_auth_openidc.so"},
		version: version{"dpkg-query -W -f '${Version}' libapache2-mod-auth-openidc", `([0-9.]+)`},
		tries:   []try{{"code flow with PKCE, claims, back-channel logout, logout by redirect", "TestApache"}}},
	{name: "Gitea", needs: []string{"./../bin/interop/gitea"},
		version: version{"go version -m ../bin/interop/gitea", `mod\s+code.gitea.io/gitea\s+(\S+)`},
		tries:   []try{{"code flow without PKCE, an account by the name and the address", "TestGitea"}}},
	{name: "MCP SDK for TypeScript",
		needs:   []string{"node", "./oauth/node_modules/@modelcontextprotocol/sdk"},
		version: nodeModule("oauth", "@modelcontextprotocol/sdk"),
		tries: []try{
			{"client and server, dynamic registration", "TestMCPNode/registered"},
			{"client and server, a client metadata document", "TestMCPNode/document"},
		}},
	{name: "MCP client of TypeScript, version 2",
		needs:   []string{"node", "./oauth/node_modules/@modelcontextprotocol/client"},
		version: nodeModule("oauth", "@modelcontextprotocol/client"),
		tries: []try{
			{"cross-app access with its CrossAppAccessProvider", "TestMCPCrossApp"},
			{"one more scope for a tool", "TestMCPScopes"},
			{"client and server, tools by policy, sessions, streams that resume, without sessions", "TestToolsNode"},
		}},
	{name: "MCP conformance tests", needs: []string{"./conformance/node_modules/.installed"},
		version: nodeModule("conformance", "@modelcontextprotocol/conformance"),
		tries: []try{
			{"their scenarios for authorization servers: metadata, code flow without a scope",
				"TestMCPConformance/any"},
			{"the same with a resource", "TestMCPConformance/resource"},
		}},
	{name: "MCP SDK for Go", version: goModule(".", "github.com/modelcontextprotocol/go-sdk"),
		tries: []try{
			{"client and server, dynamic registration", "TestMCPGo/registered"},
			{"client and server, a client metadata document", "TestMCPGo/document"},
			{"tools by policy, sessions, streams that resume, without sessions", "TestToolsGo"},
		}},
	{name: "MCP SDK for Python", needs: []string{"./mcp/venv/bin/python"},
		version: version{"mcp/venv/bin/pip list | grep '^mcp '", ""},
		tries: []try{
			{"client and server, tools by policy, sessions, streams that resume, without sessions", "TestToolsPython"},
		}},
}
