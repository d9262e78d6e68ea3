package headername

import "strings"

// documented is a header, or a family of headers whose names begin alike and which ends
// in "*", that products trust. docs/identity-headers.md shows the same rows; a test
// compares the two. A name without a product of its own is one letter or word from a
// documented one, so that applications often choose it.
type documented struct{ name, product, source string }

const precaution = "a precaution: applications choose such names themselves"

// identities are the headers that name the user.
//
// A secret by which a client proves itself, such as X-Auth-Token or the admin secret of
// Hasura, is not here: the application verifies it.
var identities = []documented{
	{"Auth-Groups", "LemonLDAP::NG", "https://lemonldap-ng.org/documentation/latest/writingrulesand_headers.html"},
	{"Auth-Mail", "LemonLDAP::NG", "https://lemonldap-ng.org/documentation/latest/writingrulesand_headers.html"},
	{"Auth-Type", "CGI (`AUTH_TYPE`)", "https://www.rfc-editor.org/rfc/rfc3875"},
	{"Auth-User", "LemonLDAP::NG", "https://lemonldap-ng.org/documentation/latest/writingrulesand_headers.html"},
	{"Authenticated-User", "applications", precaution},
	{"CAS-*", "mod_auth_cas (`CASAuthNHeader`, `CASAttributePrefix`)", "https://github.com/apereo/mod_auth_cas"},
	{"Cf-Access-Authenticated-*", "Cloudflare Access", "https://developers.cloudflare.com/cloudflare-one/"},
	{"Client-Cert", "proxies that verify certificates of clients", "https://www.rfc-editor.org/rfc/rfc9440"},
	{"Client-Cert-Chain", "proxies that verify certificates of clients", "https://www.rfc-editor.org/rfc/rfc9440"},
	{"es-security-runas-user", "Elasticsearch",
		"https://www.elastic.co/guide/en/elasticsearch/reference/current/run-as-privilege.html"},
	{"Http-Remote-User", "applications", precaution},
	{"Impersonate-*", "Kubernetes, its Dashboard",
		"https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/"},
	{"iv-*", "IBM WebSEAL", "https://www.ibm.com/docs/en/sva"},
	{"kubeflow-*", "Kubeflow (`kubeflow-userid`, `kubeflow-groups`)",
		"https://github.com/kubeflow/kubeflow/issues/7032"},
	{"Logon-User", "IIS (`LOGON_USER`)", "https://learn.microsoft.com/iis/"},
	{"OAM-Remote-User", "Oracle Access Manager (`OAM_REMOTE_USER`)", "https://docs.oracle.com/en/middleware/"},
	{"OIDC-*", "mod_auth_openidc", "https://github.com/OpenIDC/mod_auth_openidc"},
	{"Osso-User-*", "Oracle mod_osso", "https://docs.oracle.com/en/middleware/"},
	{"PHP-Auth-User", "Cacti (`HTTP_PHP_AUTH_USER`)", "https://github.com/Cacti/cacti/blob/develop/lib/auth.php"},
	{"Proxy-Auth-Cert", "Jetty",
		"https://eclipse.dev/jetty/javadoc/jetty-12/org/eclipse/jetty/server/ForwardedRequestCustomizer.html"},
	{"Proxy-Ssl-Id", "Jetty",
		"https://eclipse.dev/jetty/javadoc/jetty-12/org/eclipse/jetty/server/ForwardedRequestCustomizer.html"},
	{"Redirect-Remote-User", "Cacti (`HTTP_REDIRECT_REMOTE_USER`)",
		"https://github.com/Cacti/cacti/blob/develop/lib/auth.php"},
	{"Remote-Email", "Authelia", "https://www.authelia.com/integration/trusted-header-sso/introduction/"},
	{"Remote-Group", "applications", precaution},
	{"Remote-Groups", "Authelia", "https://www.authelia.com/integration/trusted-header-sso/introduction/"},
	{"Remote-Ident", "CGI (`REMOTE_IDENT`)", "https://www.rfc-editor.org/rfc/rfc3875"},
	{"Remote-Name", "Authelia", "https://www.authelia.com/integration/trusted-header-sso/introduction/"},
	{"Remote-User", "Authelia, and applications that read `REMOTE_USER`",
		"https://www.authelia.com/integration/trusted-header-sso/introduction/"},
	{"Shib-*", "Shibboleth", "https://shibboleth.atlassian.net/wiki/spaces/SP3/"},
	{"SM-*", "SiteMinder (`SM_USER`), Spring Security",
		"https://docs.spring.io/spring-security/reference/servlet/authentication/preauth.html"},
	{"SSL-Client-*", "Tomcat, ingress-nginx", "https://tomcat.apache.org/tomcat-10.1-doc/config/valve.html"},
	{"Tailscale-*", "Tailscale Serve", "https://tailscale.com/kb/1312/serve"},
	{"Thanos-Tenant", "Thanos", "https://thanos.io/tip/components/receive.md/"},
	{"WL-Proxy-Client-Cert*", "WebLogic", "https://docs.oracle.com/en/middleware/"},
	{"X-AKHQ-*", "AKHQ", "https://akhq.io/docs/configuration/authentifications/header.html"},
	{"X-Alfresco-Remote-User", "Alfresco", "https://support.hyland.com/r/Alfresco/Alfresco-Content-Services/23.4/"},
	{"X-Amzn-Lambda-Context", "AWS Lambda Web Adapter",
		"https://awslabs.github.io/aws-lambda-web-adapter/features/request-context.html"},
	{"X-Amzn-Mtls-*", "AWS Application Load Balancer",
		"https://docs.aws.amazon.com/elasticloadbalancing/latest/application/mutual-authentication.html"},
	{"X-Amzn-Oidc-*", "AWS Application Load Balancer",
		"https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html"},
	{"X-Amzn-Request-Context", "AWS Lambda Web Adapter",
		"https://awslabs.github.io/aws-lambda-web-adapter/features/request-context.html"},
	{"X-Anonymous-Consumer", "Kong", "https://developer.konghq.com/plugins/key-auth/"},
	{"X-Apigateway-Api-Userinfo", "Google Cloud API Gateway", "https://cloud.google.com/api-gateway/docs/passing-data"},
	{"X-Appengine-*", "Google App Engine",
		"https://cloud.google.com/appengine/docs/standard/reference/request-headers"},
	{"X-ARR-ClientCert", "IIS, Azure App Service",
		"https://learn.microsoft.com/azure/app-service/app-service-web-configure-tls-mutual-auth"},
	{"X-Auth-CouchDB-*", "CouchDB", "https://docs.couchdb.org/en/stable/api/server/authn.html"},
	{"X-Auth-First-Name", "Posit Connect", "https://docs.posit.co/connect/admin/authentication/proxied/"},
	{"X-Auth-Groups", "louketo-proxy, Posit Connect", "https://docs.posit.co/connect/admin/authentication/proxied/"},
	{"X-Auth-Last-Name", "Posit Connect", "https://docs.posit.co/connect/admin/authentication/proxied/"},
	{"X-Auth-Request-*", "oauth2-proxy", "https://oauth2-proxy.github.io/oauth2-proxy/configuration/overview"},
	{"X-Auth-Role", "applications", precaution},
	{"X-Auth-RSC-Role", "Posit Connect", "https://docs.posit.co/connect/admin/authentication/proxied/"},
	{"X-Auth-User-Id", "applications", precaution},
	{"X-Auth-Userid", "louketo-proxy", "https://github.com/louketo/louketo-proxy/blob/master/docs/user-guide.md"},
	{"X-Auth-Username", "louketo-proxy, Posit Connect", "https://docs.posit.co/connect/admin/authentication/proxied/"},
	{"X-Authenticated-*", "Etherpad (ep_headerauth), Kong", "https://www.npmjs.com/package/ep_headerauth"},
	{"X-authentik-*", "authentik", "https://docs.goauthentik.io/docs/add-secure-apps/providers/proxy/"},
	{"X-Client-Cert*", "proxies that verify certificates of clients", precaution},
	{"X-Client-Dn", "proxies that verify certificates of clients", precaution},
	{"X-Client-Verify", "proxies that verify certificates of clients", precaution},
	{"X-ClientCert-*", "proxies that verify certificates of clients", precaution},
	{"X-Consumer-*", "Kong", "https://developer.konghq.com/plugins/key-auth/"},
	{"X-Credential-Identifier", "Kong", "https://developer.konghq.com/plugins/key-auth/"},
	{"X-Credential-Username", "Kong", "https://developer.konghq.com/plugins/key-auth/"},
	{"X-Email", "applications", precaution},
	{"X-Endpoint-API-UserInfo", "Google Cloud Endpoints",
		"https://cloud.google.com/endpoints/docs/openapi/authenticating-users"},
	{"X-First-name", "CloudBeaver", "https://dbeaver.com/docs/cloudbeaver/Reverse-proxy-header-authentication/"},
	{"X-Forwarded-*", "what is not about the request: oauth2-proxy, SonarQube, Redash, Traefik, Envoy and others",
		"https://oauth2-proxy.github.io/oauth2-proxy/configuration/overview"},
	{"X-Goog-Authenticated-*", "Google Cloud IAP", "https://cloud.google.com/iap/docs/identity-howto"},
	{"X-Grafana-User", "data sources of Grafana",
		"https://grafana.com/docs/grafana/latest/setup-grafana/configure-grafana/"},
	{"X-Groups", "applications", precaution},
	{"X-Hasura-*", "Hasura, except its secrets",
		"https://hasura.io/docs/latest/auth/authentication/admin-secret-access"},
	{"X-Last-name", "CloudBeaver", "https://dbeaver.com/docs/cloudbeaver/Reverse-proxy-header-authentication/"},
	{"X-Logged-In-User", "applications", precaution},
	{"X-MS-Client-Principal*", "Azure App Service",
		"https://learn.microsoft.com/azure/app-service/configure-authentication-user-identities"},
	{"X-MS-Token-*", "Azure App Service",
		"https://learn.microsoft.com/azure/app-service/configure-authentication-oauth-tokens"},
	{"X-OpenWebUI-User-*", "LiteLLM and others behind Open WebUI",
		"https://github.com/BerriAI/litellm/discussions/9060"},
	{"X-Pomerium-*", "Pomerium", "https://www.pomerium.com/docs"},
	{"X-Presto-User", "Presto", "https://prestodb.io/docs/current/develop/client-protocol.html"},
	{"X-ProxiedEntitiesChain", "Apache NiFi", "https://nifi.apache.org/docs/nifi-docs/html/administration-guide.html"},
	{"X-ProxiedEntityGroups", "Apache NiFi", "https://nifi.apache.org/docs/nifi-docs/html/administration-guide.html"},
	{"X-Proxy-Ext-*", "OpenSearch", "https://docs.opensearch.org/latest/security/authentication-backends/proxy/"},
	{"X-Proxy-Role", "applications", precaution},
	{"X-Proxy-Roles", "OpenSearch", "https://docs.opensearch.org/latest/security/authentication-backends/proxy/"},
	{"X-Proxy-User", "OpenSearch", "https://docs.opensearch.org/latest/security/authentication-backends/proxy/"},
	{"X-Remote-*", "Kubernetes", "https://kubernetes.io/docs/reference/access-authn-authz/authentication/"},
	{"X-RH-Identity", "Red Hat Hybrid Cloud Console",
		"https://lightspeed-core.github.io/lightspeed-stack/auth/rh-identity.html"},
	{"X-Role", "CloudBeaver", "https://dbeaver.com/docs/cloudbeaver/Reverse-proxy-header-authentication/"},
	{"X-Roles", "applications", precaution},
	{"X-RStudio-Username", "Posit Workbench", "https://docs.posit.co/ide/server-pro/"},
	{"X-Scope-OrgID", "Grafana Loki, Mimir, Tempo and Pyroscope, Cortex",
		"https://grafana.com/docs/loki/latest/operations/authentication/"},
	{"X-SSL-*", "HAProxy, Keycloak", "https://www.keycloak.org/server/reverseproxy"},
	{"X-SSO-User", "applications", precaution},
	{"X-TLS-Client-*", "proxies that verify certificates of clients", precaution},
	{"X-Token-Subject", "caddy-security", "https://docs.authcrunch.com/"},
	{"X-Token-User-*", "caddy-security", "https://docs.authcrunch.com/"},
	{"X-Trino-User", "Trino", "https://trino.io/docs/current/develop/client-protocol.html"},
	{"X-User", "Ory Oathkeeper, CloudBeaver",
		"https://dbeaver.com/docs/cloudbeaver/Reverse-proxy-header-authentication/"},
	{"X-User-Email", "Atlas UI, and applications", "https://github.com/sandialabs/atlas-ui-3"},
	{"X-User-Group", "applications", precaution},
	{"X-User-Groups", "applications", precaution},
	{"X-User-Name", "applications", precaution},
	{"X-User-Role", "applications", precaution},
	{"X-User-Roles", "applications", precaution},
	{"X-Userinfo", "Apache APISIX, Kong", "https://apisix.apache.org/docs/apisix/plugins/openid-connect/"},
	{"X-Username", "applications", precaution},
	{"X-Vouch-*", "Vouch Proxy", "https://github.com/vouch/vouch-proxy"},
	{"X-WebAuth-*", "Grafana, Gitea, Forgejo",
		"https://grafana.com/docs/grafana/latest/setup-grafana/configure-access/configure-authentication/auth-proxy/"},
	{"X-WebObjects-*", "SOGo", "https://www.sogo.nu/files/docs/SOGoInstallationGuide.html"},
	{"$WS*", "IBM WebSphere (`$WSRU`, `$WSAT`, `$WSCC` and others)",
		"https://www.ibm.com/support/pages/setting-private-headers-websphere-proxy-server-level"},
}

// misleading are the headers by which applications process another request than the one
// that was decided on.
var misleading = []documented{
	{"Proxy", "CGI applications, whose own requests it leads through a proxy", "https://httpoxy.org"},
	{"X-Accel-Mapping", "Rack, Plack", "https://www.cve.org/CVERecord?id=CVE-2025-61780"},
	{"X-HTTP-Method", "ASP.NET Web API and others, for the method", "https://learn.microsoft.com/openspecs/"},
	{"X-HTTP-Method-Override", "Rack, Symfony and others, for the method",
		"https://symfony.com/doc/current/reference/configuration/framework.html"},
	{"X-Invoke-*", "Next.js", "https://github.com/vercel/next.js/security/advisories/GHSA-f82v-jwr5-mffw"},
	{"X-Matched-Path", "Next.js", "https://github.com/vercel/next.js/security/advisories/GHSA-f82v-jwr5-mffw"},
	{"X-Method-Override", "Express (method-override) and others, for the method",
		"https://www.npmjs.com/package/method-override"},
	{"X-Middleware-Next", "Next.js", "https://github.com/vercel/next.js/security/advisories/GHSA-f82v-jwr5-mffw"},
	{"X-Middleware-Override-Headers", "Next.js",
		"https://github.com/vercel/next.js/security/advisories/GHSA-f82v-jwr5-mffw"},
	{"X-Middleware-Redirect", "Next.js", "https://github.com/vercel/next.js/security/advisories/GHSA-f82v-jwr5-mffw"},
	{"X-Middleware-Request-*", "Next.js", "https://github.com/vercel/next.js/security/advisories/GHSA-f82v-jwr5-mffw"},
	{"X-Middleware-Rewrite", "Next.js", "https://github.com/vercel/next.js/security/advisories/GHSA-f82v-jwr5-mffw"},
	{"X-Middleware-Set-Cookie", "Next.js", "https://github.com/vercel/next.js/security/advisories/GHSA-f82v-jwr5-mffw"},
	{"X-Middleware-Subrequest*", "Next.js",
		"https://github.com/vercel/next.js/security/advisories/GHSA-f82v-jwr5-mffw"},
	{"X-Now-Route-Matches", "Next.js, Nitro",
		"https://github.com/vercel/next.js/security/advisories/GHSA-f82v-jwr5-mffw"},
	{"X-Sendfile-Type", "Rack, Plack", "https://www.cve.org/CVERecord?id=CVE-2025-61780"},
	{"X-WAWS-Unencoded-URL", "IIS, Azure App Service", "https://learn.microsoft.com/azure/app-service/"},
}

// free are the headers that are not removed although they belong to a family: secrets
// that the application verifies.
var free = []string{"X-Hasura-Admin-Secret", "X-Hasura-Access-Key"}

// add adds the headers of list to exact and families.
func add(list []documented, class Class, exact map[string]Class, families []family) []family {
	for _, each := range list {
		if prefix, ok := strings.CutSuffix(each.name, "*"); ok {
			families = append(families, family{Fold(prefix), class})
		} else {
			exact[Fold(each.name)] = class
		}
	}
	return families
}
