package provider

import (
	"encoding/json"
	"net/http"
)

// metadata serves the discovery document (OpenID Connect Discovery 1.0, RFC 8414).
func (p *Provider) metadata(w http.ResponseWriter, _ *http.Request) {
	issuer := p.options.Issuer
	methods := []string{"client_secret_basic", "client_secret_post"}
	writeJSON(w, http.StatusOK, map[string]any{
		"issuer":                 issuer,
		"authorization_endpoint": issuer + pathAuthorization,
		"token_endpoint":         issuer + pathToken,
		"userinfo_endpoint":      issuer + pathUserinfo,
		"jwks_uri":               issuer + pathKeys,
		"revocation_endpoint":    issuer + pathRevocation,
		"introspection_endpoint": issuer + pathIntrospection,
		"end_session_endpoint":   issuer + pathLogout,

		"response_types_supported":              []string{"code"},
		"response_modes_supported":              []string{"query"},
		"grant_types_supported":                 []string{"authorization_code", "refresh_token"},
		"code_challenge_methods_supported":      []string{"S256"},
		"scopes_supported":                      []string{"openid", "profile", "email", "offline_access"},
		"prompt_values_supported":               []string{"none", "login", "select_account", "consent"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
		"claims_supported": []string{
			"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "at_hash", "sid",
			"name", "preferred_username", "email", "email_verified", "roles",
		},

		"token_endpoint_auth_methods_supported":         append(methods, "none"),
		"revocation_endpoint_auth_methods_supported":    append(methods, "none"),
		"introspection_endpoint_auth_methods_supported": methods,

		"authorization_response_iss_parameter_supported": true,
		"request_uri_parameter_supported":                false, // absent means true
		"backchannel_logout_supported":                   true,
		"backchannel_logout_session_supported":           true,
	})
}

// jwks serves the public keys (RFC 7517).
func (s *signer) jwks(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.keys)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error here means that the client is gone.
	_ = json.NewEncoder(w).Encode(body)
}
