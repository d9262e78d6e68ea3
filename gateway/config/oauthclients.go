package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"authgate/gateway/config/section"
	"authgate/gateway/people/password"
	"authgate/policy"
)

// clients checks the configured clients, and compiles their policies.
func (k *checker) clients() {
	c, r := k.cfg, k.report
	c.clientPolicies = map[string]*policy.Route{}
	first := map[string]int{} // the first client of an ID
	for i := range c.OAuth.Clients {
		client, path := &c.OAuth.Clients[i], fmt.Sprintf("oauth.clients[%d]", i)
		if before, twice := first[client.ID]; twice && client.ID != "" {
			r.Fault(path+".id", "%q is already the client identifier of oauth.clients[%d]", client.ID, before)
		} else {
			first[client.ID] = i
		}
		client.checkClient(r, path)
		k.federation(path, client)
		k.exchange(path, client)
		c.OAuth.checkClientURIs(r, path, client)
		k.clientLifetimes(path, client)
		if client.Policy != "" {
			k.clientPolicy(path+".policy", client)
		}
	}
}

// checkClient checks the keys of a client that stand for themselves.
func (c *OAuthClient) checkClient(r *section.Report, path string) {
	checkClientID(r, path+".id", c.ID)
	if err := policy.CheckName(c.Name); err != nil && r.Given(path+".name") {
		r.Fault(path+".name", "%q %v", c.Name, err)
	}
	c.checkSecrets(r, path)
	c.checkKeys(r, path)
	c.checkGrants(r, path)
}

// checkClientID checks a client identifier (RFC 6749, appendix A.1).
func checkClientID(r *section.Report, path, id string) {
	invisible := func(c rune) bool { return c <= ' ' || c >= 0x7f }
	switch {
	case id == "":
		r.Fault(path, "the client identifier is needed, with which the application is configured")
	case strings.ContainsFunc(id, invisible):
		r.Fault(path, "%q has a character that is not visible ASCII; use letters, digits, - and _", id)
	case strings.HasPrefix(strings.ToLower(id), "https://"):
		r.Fault(path, "%q is the URL of a document about a client, which needs no configuration; "+
			"give a name, or see oauth.metadata_clients", id)
	}
}

// minClientSecret is how many characters a secret of a client has at least. Applications
// make longer ones.
const minClientSecret = 16

// checkSecrets checks the secrets of a client. The messages do not show them.
func (c *OAuthClient) checkSecrets(r *section.Report, path string) {
	if at := path + ".secrets"; r.Given(at) && !r.Unreadable(at) {
		switch {
		case r.Given(path + ".secret"):
			r.Fault(at, "secret is given too; keep one of the two")
		case len(c.Secrets) == 0:
			r.Fault(at, "must not be empty; remove the key for a public client, which has no secret")
		}
	}
	if c.ExcusedPKCE() && !c.Confidential() {
		r.Fault(path+".pkce", "must be required for a public client: PKCE alone keeps others from using its codes; "+
			"remove this key, or set secret")
	}
	checkClientSecret(r, path+".secret", c.Secret)
	for i, secret := range c.Secrets {
		at := fmt.Sprintf("%s.secrets[%d]", path, i)
		if secret == "" {
			r.Fault(at, "is empty; remove it")
		}
		checkClientSecret(r, at, secret)
	}
}

// checkKeys checks the keys of a client, by which it proves who it is (private_key_jwt).
func (c *OAuthClient) checkKeys(r *section.Report, path string) {
	at, uri := path+".jwks", path+".jwks_uri"
	for key, given := range map[string]bool{at: r.Given(at), uri: c.JWKSURI != ""} {
		if given && len(c.AllSecrets()) > 0 {
			r.Fault(key, "secret is given too; keep one of the two")
		}
	}
	if r.Given(at) && c.JWKSURI != "" {
		r.Fault(uri, "jwks is given too; keep one of the two")
	}
	if c.JWKS == nil || r.Broken(at) {
		return
	}
	keys, err := c.PublicKeys()
	if err == nil {
		err = keys.Serve(AssertionAlgorithms()...)
	}
	if err != nil {
		r.Fault(at,
			"has no public key with which an assertion of the client can be verified: %v; expected a JWK Set with "+
				"an RSA key of 2048 bits or more (RS256), or one of the curve P-256 (ES256)", err)
	}
}

// checkClientSecret checks one secret, if it is given, or its hash.
func checkClientSecret(r *section.Report, path string, secret Secret) {
	text := secret.Reveal()
	switch {
	case text == "":
	case password.IsHash(text):
		hash, err := password.Parse(text)
		if err != nil {
			r.Fault(path, "%v", err)
		} else if why := hash.Weakness(); why != "" {
			r.Warn(path, "%s; make another one with `authgate hash-password`", why)
		}
	case len(text) < minClientSecret:
		r.Warn(path, "has only %d characters, so it can be guessed; make one with `openssl rand -base64 32`", len(text))
	default:
		r.WarnOfGuessableKey(path, secret)
	}
}

// checkGrants checks that each grant can be used, and that nothing is given for grants that
// the client does not have.
func (c *OAuthClient) checkGrants(r *section.Report, path string) {
	at := path + ".grants"
	has := func(grant string) bool { return slices.Contains(c.Grants, grant) }
	grant := func(word string) string { return fmt.Sprintf("%s[%d]", at, slices.Index(c.Grants, word)) }
	if len(c.Grants) == 0 {
		r.Fault(at, "must not be empty; a client without grants can do nothing")
	}
	if has(GrantRefreshToken) && !has(GrantAuthorizationCode) && !has(GrantDeviceCode) {
		r.Fault(grant(GrantRefreshToken), "has no effect without %s or %s, with which a refresh token is given",
			GrantAuthorizationCode, GrantDeviceCode)
	}
	proofs := []string{".secret", ".secrets", ".jwks", ".jwks_uri", ".federation"}
	broken := slices.ContainsFunc(proofs, func(key string) bool { return r.Broken(path + key) })
	if has(GrantClientCredentials) && !c.Confidential() && !broken {
		r.Fault(grant(GrantClientCredentials), "needs secret, secrets, jwks, jwks_uri or federation, because "+
			"everybody can name a public client; give one, or remove this grant")
	}
	if has(GrantTokenExchange) && !c.Confidential() && !broken {
		r.Fault(grant(GrantTokenExchange), "needs secret, secrets, jwks, jwks_uri or federation, because everybody "+
			"can name a public client; give one, or remove this grant")
	}
	c.checkFederationGrant(r, path)
	if len(c.Roles) > 0 && !c.ActsForItself() && !r.Broken(at) {
		r.Fault(path+".roles", "has no effect without %s in grants: users have their own roles; "+
			"add the grant, or remove this key", ownGrants)
	}
	if has(GrantAuthorizationCode) && len(c.RedirectURIs) == 0 && !r.Broken(path+".redirect_uris") {
		r.Fault(path+".redirect_uris", "is needed for the grant %s: where the application gets the code",
			GrantAuthorizationCode)
	}
}

// checkClientURIs checks the URIs of a client.
func (o *OAuth) checkClientURIs(r *section.Report, path string, client *OAuthClient) {
	for key, uris := range map[string][]string{
		".redirect_uris": client.RedirectURIs, ".post_logout_redirect_uris": client.PostLogoutRedirectURIs,
	} {
		for i, uri := range uris {
			if err := o.CheckRedirectURI(uri); err != nil {
				r.Fault(fmt.Sprintf("%s%s[%d]", path, key, i), "%q %v", uri, err)
			}
		}
	}
	for key, uri := range map[string]string{
		".backchannel_logout_uri": client.BackchannelLogoutURI, ".jwks_uri": client.JWKSURI,
	} {
		if uri == "" {
			continue
		}
		err := new(OAuth).CheckRedirectURI(uri)
		if _, scheme := errors.AsType[*SchemeError](err); scheme {
			err = errors.New("is not https; http is for applications on this machine only")
		}
		if err != nil {
			r.Fault(path+key, "%q %v", uri, err)
		}
	}
	if client.TrustedRoots != "" && client.BackchannelLogoutURI == "" && client.JWKSURI == "" {
		r.Fault(path+".trusted_roots",
			"has no effect without backchannel_logout_uri or jwks_uri, which the gateway calls; "+
				"give one, or remove this key")
	}
}

// clientLifetimes checks the lifetimes of a client, of which token has the defaults.
func (k *checker) clientLifetimes(path string, client *OAuthClient) {
	c, r := k.cfg, k.report
	access, refresh := path+".access_lifetime", path+".refresh_lifetime"
	if r.Broken(path) || r.Broken("token") || !r.Given(access) && !r.Given(refresh) {
		return
	}
	short := cmp.Or(client.AccessLifetime, c.Token.AccessLifetime)
	long := cmp.Or(client.RefreshLifetime, c.Token.RefreshLifetime)
	if short < long {
		return
	}
	at, other := access, "the refresh lifetime"
	if !r.Given(access) {
		at, other = refresh, "the access lifetime"
	}
	r.Fault(at, "the access lifetime (%v) must be shorter than the refresh lifetime (%v); change %s too",
		short, long, other)
}

// clientPolicy compiles the policy of a client.
func (k *checker) clientPolicy(path string, client *OAuthClient) {
	if compiled := k.refs.compile(path, []policy.Ref{{Name: client.Policy}}, false); compiled != nil {
		k.cfg.clientPolicies[client.ID] = &policy.Route{
			Name: path, Mechanisms: []policy.Mechanism{policy.Session, policy.OIDC}, Policy: compiled,
		}
	}
}
