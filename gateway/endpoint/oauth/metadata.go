package oauth

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/endpoint"
	"authgate/gateway/proxy/web"
)

// documents are the metadata for clients.
type documents struct {
	*core
	wellKnown *config.WellKnown
}

// serverMetadata describes the server (RFC 8414, section 2; OpenID Connect Discovery 1.0,
// section 3).
func (s *documents) serverMetadata() map[string]any {
	methods := []string{"none", "client_secret_basic", "client_secret_post", "private_key_jwt"}
	algorithms := config.AssertionAlgorithms()
	grantTypes := []string{grantCode, grantRefresh, grantCredentials, grantDevice}
	byAssertion := func(c config.OAuthClient) bool { return slices.Contains(c.Grants, config.GrantJWTBearer) }
	if slices.ContainsFunc(s.section.Clients, byAssertion) || len(s.section.CrossApp) > 0 {
		grantTypes = append(grantTypes, grantAssertion)
	}
	byExchange := func(c config.OAuthClient) bool { return slices.Contains(c.Grants, config.GrantTokenExchange) }
	if slices.ContainsFunc(s.section.Clients, byExchange) {
		grantTypes = append(grantTypes, grantExchange)
	}
	m := map[string]any{
		"issuer":                                           s.issuer,
		"authorization_endpoint":                           s.address(authorizePath),
		"token_endpoint":                                   s.address(tokenPath),
		"device_authorization_endpoint":                    s.address(devicePath),
		"revocation_endpoint":                              s.address(revokePath),
		"introspection_endpoint":                           s.address(introspectPath),
		"userinfo_endpoint":                                s.address(userinfoPath),
		"end_session_endpoint":                             s.address(logoutPath),
		"jwks_uri":                                         s.address(".well-known/jwks.json"),
		"scopes_supported":                                 s.section.AllScopes(),
		"response_types_supported":                         []string{"code"},
		"response_modes_supported":                         []string{modeQuery, modePost},
		"grant_types_supported":                            grantTypes,
		"code_challenge_methods_supported":                 []string{"S256"},
		"token_endpoint_auth_methods_supported":            methods,
		"token_endpoint_auth_signing_alg_values_supported": algorithms,
		"revocation_endpoint_auth_methods_supported":       methods,
		"introspection_endpoint_auth_methods_supported":    methods[1:],
		"authorization_response_iss_parameter_supported":   true, // RFC 9207, section 3
		"client_id_metadata_document_supported":            s.section.MetadataClients.Enabled,
		"subject_types_supported":                          []string{"public"},
		"acr_values_supported":                             []string{acr(1), acr(2)},
		"id_token_signing_alg_values_supported":            []string{s.ids.Algorithm()},
		"prompt_values_supported":                          []string{"none", "login", "consent", "select_account"},
		"request_parameter_supported":                      false,
		"request_uri_parameter_supported":                  false,
		"claims_parameter_supported":                       false,
		"backchannel_logout_supported":                     true,
		"backchannel_logout_session_supported":             true,
		"claims_supported": []string{"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "at_hash", "sid",
			"amr", "acr", "name", "preferred_username", "email", "email_verified", "groups"},
	}
	if len(s.section.CrossApp) > 0 {
		m["authorization_grant_profiles_supported"] = []string{"urn:ietf:params:oauth:grant-profile:id-jag"}
	}
	for _, name := range []string{"revocation", "introspection"} {
		m[name+"_endpoint_auth_signing_alg_values_supported"] = algorithms
	}
	if s.section.Registration == config.RegistrationOpen {
		m["registration_endpoint"] = s.address(registerPath)
	}
	return m
}

// endpoints returns the endpoints of the documents by their paths.
func (s *documents) endpoints() map[string]*endpoint.Endpoint {
	found := map[string]*endpoint.Endpoint{}
	server := s.serverMetadata()
	for _, path := range s.wellKnown.Paths() {
		media, document := web.TypeJSON, func(*web.Exchange) (any, error) { return server, nil }
		switch {
		case path == config.WellKnownFinger:
			media, document = "application/jrd+json", s.webFinger // RFC 7033, section 10.2
		case strings.HasPrefix(path, config.WellKnownResource):
			document = s.resourceMetadata
		}
		found[path] = endpoint.Single(s.options, s.document(media, document)...)
	}
	return found
}

// document returns the rows of a document that any origin may read.
func (s *documents) document(media string, of func(*web.Exchange) (any, error)) []endpoint.Row {
	const name = "oauth/metadata" // for logs and metrics
	return endpoint.Shared(endpoint.Row{Name: name, Method: http.MethodGet, Do: func(ex *web.Exchange) error {
		body, err := of(ex)
		if err != nil {
			return err
		}
		ex.Header().Set("Cache-Control", "public, max-age=300")
		ex.JSON(media, http.StatusOK, body)
		return nil
	}})
}

// resourceMetadata describes a resource that tokens can be for (RFC 9728, section 2).
func (s *documents) resourceMetadata(ex *web.Exchange) (any, error) {
	host := ex.Canonical.Host
	path := strings.TrimPrefix(ex.Canonical.Path.Decoded, config.WellKnownResource)
	address := s.site.Origin(host) + escaped(path)
	resource, ok := s.resourceAt(host, path)
	if !ok {
		resource, ok = s.resources.Shared(address)
	}
	if !ok {
		return nil, endpoint.NothingHere("no route of this host that accepts bearer tokens has this path")
	}
	document := map[string]any{
		"resource": address, "authorization_servers": []string{s.issuer},
		"bearer_methods_supported": []string{"header"},
	}
	if len(resource.Scopes) > 0 {
		document["scopes_supported"] = resource.Scopes
	}
	return document, nil
}

const issuerRelation = "http://openid.net/specs/connect/1.0/issuer"

// isHost reports whether a text is the host of a URL, with its port or without.
func isHost(text string, u *url.URL) bool {
	named, err := url.Parse("https://" + text)
	return err == nil && named.Host == text && strings.EqualFold(named.Hostname(), u.Hostname()) &&
		(named.Port() == "" || named.Port() == portOf(u))
}

// webFinger tells who the provider of an account is (OpenID Connect Discovery 1.0, section
// 2). It answers for any name, so that it tells no stranger which accounts exist.
func (s *documents) webFinger(ex *web.Exchange) (any, error) {
	values, err := ex.Query()
	if err != nil {
		return nil, err
	}
	if len(values["resource"]) != 1 {
		return nil, web.BadRequest("The parameter resource must be there once.", nil)
	}
	resource := values.Get("resource")
	account, ok := strings.CutPrefix(resource, "acct:")
	at := strings.LastIndexByte(account, '@')
	issuer, err := url.Parse(s.issuer)
	if !ok || at <= 0 || err != nil || !isHost(account[at+1:], issuer) {
		return nil, endpoint.NothingHere("the resource is no account at the host of token.issuer")
	}
	type link struct {
		Relation string `json:"rel"`
		Target   string `json:"href"`
	}
	links := []link{}
	if asked := values["rel"]; len(asked) == 0 || slices.Contains(asked, issuerRelation) {
		links = append(links, link{issuerRelation, s.issuer})
	}
	return map[string]any{"subject": resource, "links": links}, nil
}
