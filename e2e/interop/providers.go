package main

// providers are identity providers at which users sign in, and a platform whose programs get in.
var providers = []row{
	{name: "Keycloak", needs: []string{"java", "./interop/keycloak/server/bin/kc.sh"},
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
	{name: "oidc-provider", needs: []string{"node", "./provider/node_modules/oidc-provider"},
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
	{name: "Dex", needs: []string{"./../bin/interop/dex"},
		version: version{"go version -m ../bin/interop/dex", `github.com/dexidp/dex\s+(\S+)`},
		tries: []try{
			{"code flow with PKCE", "TestDex/code_flow_with_PKCE"},
			{"groups of a connector", "TestDex/groups"},
			{"refresh", "TestDex/refresh"},
			{"a revoked refresh token", "TestDex/refresh_token_revoked"},
			{"logout, here only", "TestDex/logout"},
		}},
	{name: "OpenLDAP behind Dex", needs: []string{"./../bin/interop/dex", "slapd", "ldapmodify"},
		version: version{"dpkg-query -W slapd", `slapd\s+(\S+)`},
		tries:   []try{{"password, groups, a changed group, a removed account's password", "TestDirectory"}}},
	{name: "zitadel/oidc", needs: []string{"./../bin/interop/zitadel"},
		version: version{"go version -m ../bin/interop/zitadel", `github.com/zitadel/oidc/v3\s+(\S+)`},
		tries: []try{
			{"code flow with PKCE, also as a public client", "TestZitadel/code_flow_with_PKCE"},
			{"logout", "TestZitadel/logout"},
			{"logout by redirect", "TestZitadel/logout_redirects"},
		}},
	{name: "Kubernetes", needs: []string{"curl", "./../bin/interop/kube-apiserver", "./../bin/interop/etcd"},
		version: version{"go version -m ../bin/interop/kube-apiserver", `k8s.io/kubernetes\s+(v\S+)`},
		tries: []try{
			{"tokens of pods, with keys behind its own authority and token", "TestKubernetes/by_the_URL_of_the_keys"},
			{"discovery", "TestKubernetes/by_discovery"},
		}},

	{name: "Microsoft Entra ID, Google, GitHub, Okta", never: "services on the internet"},
}
