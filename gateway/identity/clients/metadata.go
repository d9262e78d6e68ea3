package clients

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/wire/jose"
	"authgate/gateway/wire/strictjson"
	"authgate/policy"
)

// RegistrationError is why a registration is refused (RFC 7591, section 3.2.2).
type RegistrationError struct {
	Code        string // invalid_redirect_uri or invalid_client_metadata
	Description string
}

// Error implements error.
func (e *RegistrationError) Error() string { return e.Code + ": " + e.Description }

// wrongMetadata returns a RegistrationError about a member.
func wrongMetadata(format string, args ...any) error {
	return &RegistrationError{"invalid_client_metadata", fmt.Sprintf(format, args...)}
}

// metadata is a client's description of itself (RFC 7591, section 2), as far as it counts.
type metadata struct {
	ID           string
	Name         string
	Method       string // as given
	RedirectURIs []string
	Grants       []string // in the words of the configuration
	PostLogout   []string
	Scopes       []string // that are known here; nil: none is given
	KeysURI      string
	Keys         *jose.PublicKeys
	secret       bool // it has members of a secret
}

// maxName is how many bytes the name of a client may have.
const maxName = 200

// readMetadata reads a client's description of itself. Redirect URIs with a scheme that is not
// accepted, and grants and scopes that it cannot have, are left out; the error is a *RegistrationError.
func readMetadata(o *config.OAuth, raw []byte) (*metadata, error) {
	members, err := strictjson.Object(raw)
	if err != nil {
		return nil, wrongMetadata("The body must be one JSON object without double members.")
	}
	r := &reader{members: members}
	m := &metadata{
		ID: r.text("client_id"), Name: r.text("client_name"), Method: r.text("token_endpoint_auth_method"),
		KeysURI: r.text("jwks_uri"),
	}
	redirects, logout := r.list("redirect_uris"), r.list("post_logout_redirect_uris")
	grants, responses, scope := r.list("grant_types"), r.list("response_types"), r.text("scope")
	if r.wrong != "" {
		return nil, wrongMetadata("%s", r.wrong)
	}
	m.secret = members["client_secret"] != nil || members["client_secret_expires_at"] != nil
	if err := checkClientName(m.Name); err != nil {
		return nil, wrongMetadata("client_name %v.", err)
	}
	for one := range strings.FieldsSeq(scope) {
		if err := policy.CheckScope(one); err != nil {
			return nil, wrongMetadata("scope has a part that %v.", err)
		}
		if slices.Contains(o.AllScopes(), one) {
			m.Scopes = append(m.Scopes, one)
		}
	}
	if err := m.readGrants(grants, responses); err != nil {
		return nil, err
	}
	if m.RedirectURIs, err = acceptedURIs(o, redirects); err != nil {
		return nil, err
	}
	if m.PostLogout, err = acceptedURIs(o, logout); err != nil {
		return nil, err
	}
	if len(m.RedirectURIs) == 0 && slices.Contains(m.Grants, config.GrantAuthorizationCode) {
		return nil, &RegistrationError{"invalid_redirect_uri", "redirect_uris must have an https URI, " +
			"an http URI on the user's machine, or one with another scheme that is accepted here."}
	}
	return m, m.readKeys(members["jwks"])
}

// readGrants reads the grants and response types that the client wants to use.
func (m *metadata) readGrants(grants, responses []string) error {
	if grants == nil {
		grants = []string{config.GrantAuthorizationCode} // the default, by RFC 7591
	}
	for _, grant := range grants {
		if grant == deviceGrant {
			grant = config.GrantDeviceCode
		}
		known := []string{config.GrantAuthorizationCode, config.GrantRefreshToken, config.GrantDeviceCode}
		if slices.Contains(known, grant) && !slices.Contains(m.Grants, grant) {
			m.Grants = append(m.Grants, grant)
		}
	}
	code := slices.Contains(m.Grants, config.GrantAuthorizationCode)
	device := slices.Contains(m.Grants, config.GrantDeviceCode)
	switch {
	case !code && !device:
		return wrongMetadata("grant_types must have authorization_code or %s.", deviceGrant)
	case code && responses != nil && !slices.Contains(responses, responseCode):
		return wrongMetadata("response_types must have code.")
	}
	return nil
}

// readKeys reads the keys that come with the metadata.
func (m *metadata) readKeys(jwks any) error {
	if jwks == nil {
		return nil
	}
	raw, err := json.Marshal(jwks)
	if err == nil {
		m.Keys, err = jose.ParsePublicKeys(raw)
	}
	if err != nil {
		return wrongMetadata("jwks is no JSON Web Key Set.")
	}
	if m.KeysURI != "" {
		return wrongMetadata("jwks and jwks_uri cannot both be given.") // RFC 7591, section 2
	}
	return nil
}

// acceptedURIs returns the URIs whose scheme is accepted. A URI that is wrong otherwise is an
// error.
func acceptedURIs(o *config.OAuth, uris []string) ([]string, error) {
	var accepted []string
	for _, uri := range uris {
		err := o.CheckRedirectURI(uri)
		if _, scheme := errors.AsType[*config.SchemeError](err); scheme {
			continue
		}
		if err != nil {
			return nil, &RegistrationError{"invalid_redirect_uri", fmt.Sprintf("%q %v.", uri, err)}
		}
		accepted = append(accepted, uri)
	}
	return accepted, nil
}

// checkClientName returns why users are not shown a name: it could look like another text.
func checkClientName(name string) error {
	switch {
	case name == "":
		return nil
	case len(name) > maxName:
		return fmt.Errorf("is longer than %d bytes", maxName)
	}
	return cmp.Or(policy.CheckName(name), policy.CheckVisible(name))
}

// reader reads members of a JSON object, and keeps the first mistake.
type reader struct {
	members map[string]any
	wrong   string
}

func (r *reader) fail(format string, args ...any) {
	if r.wrong == "" {
		r.wrong = fmt.Sprintf(format, args...)
	}
}

// text returns a string, "" if it is not given.
func (r *reader) text(name string) string {
	value := r.members[name]
	text, ok := value.(string)
	if value != nil && !ok {
		r.fail("%s must be a string.", name)
	}
	return text
}

// list returns a list of strings, nil if it is not given.
func (r *reader) list(name string) []string {
	value := r.members[name]
	if value == nil {
		return nil
	}
	all, ok := value.([]any)
	texts := make([]string, len(all))
	for i, one := range all {
		text, isText := one.(string)
		texts[i], ok = text, ok && isText
	}
	if !ok {
		r.fail("%s must be a list of strings.", name)
	}
	return texts
}
