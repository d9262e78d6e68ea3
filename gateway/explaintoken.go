package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/proxy/web"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// clientMark begins the name of a user that is an OAuth client.
const clientMark = policy.ClientProvider + ":"

// lent reports whether what proves the identity of a caller is an access token of an OAuth client of
// the gateway's, and not one of a trusted issuer.
func (st *state) lent(c *Caller) bool {
	return c.Client != "" || c.Resource != "" || strings.HasPrefix(c.User, clientMark) ||
		c.Scopes != nil && !st.federation.Trusts(c.Provider)
}

// lender is identities for an access token: that of its user, or of its client, before the scopes
// reduce it.
func (st *state) lender(c *Caller) ([]*policy.Identity, error) {
	if err := st.checkToken(c); err != nil {
		return nil, err
	}
	id, err := st.lenderOf(c)
	if err != nil {
		return nil, err
	}
	if c.Client != "" && !st.oauth.Clients.Admits(c.Client, id) {
		return nil, mistake("the user has no token of the OAuth client %q, because its policy does not let them in", c.Client)
	}
	return []*policy.Identity{id}, nil
}

// checkToken checks what a description says about an access token.
func (st *state) checkToken(c *Caller) error {
	switch {
	case c.APIToken:
		return mistake("an API token has no scopes, client and resource: those are of the access tokens of OAuth clients")
	case st.oauth == nil:
		return mistake("tokens of OAuth clients, with scopes, a client and a resource, need oauth.enabled; " +
			"for a token of another issuer, give its name as the provider")
	case c.Mechanism != "" && c.Mechanism != policy.Bearer:
		return mistake("no request has such an identity: the mechanism %s does not prove it with %s", c.Mechanism,
			"what only tokens have: scopes, a client or a resource")
	case st.federation.Trusts(c.Provider):
		return mistake("%q is another issuer, whose tokens belong to no OAuth client of the gateway's; "+
			"leave out the client and the resource", c.Provider)
	case c.Client != "" && !st.oauth.Clients.Counts(c.Client):
		return mistake("there is no OAuth client %q; %s", c.Client,
			strictyaml.Hint(c.Client, "oauth.clients", clientIDs(st.config.OAuth.Clients)))
	}
	known := st.config.OAuth.AllScopes()
	for _, scope := range c.Scopes {
		if !slices.Contains(known, scope) {
			return mistake("no token has the scope %q, because oauth.scopes has not; %s", scope,
				strictyaml.Hint(scope, "scopes", known))
		}
	}
	return nil
}

// lenderOf returns the user whose token a client has, or the client that acts for itself.
func (st *state) lenderOf(c *Caller) (*policy.Identity, error) {
	if c.User == "" {
		return st.lenderInWords(c)
	}
	if err := c.checkUser(); err != nil {
		return nil, err
	}
	if id, own := strings.CutPrefix(c.User, clientMark); own {
		return st.ownClient(c, id)
	}
	account, ok := st.mechanisms.Accounts.Lookup(c.User)
	if !ok && st.mechanisms.Basic.Identity(c.User) != nil {
		return nil, mistake("%q is a user of basic, who cannot sign in, so no OAuth client has a token of theirs", c.User)
	}
	if !ok {
		return nil, st.unknownUser(c.User)
	}
	return account.Identity(policy.Bearer, "", time.Time{}), nil
}

// ownClient is lenderOf for a client that acts for itself.
func (st *state) ownClient(c *Caller, id string) (*policy.Identity, error) {
	if c.Client != "" && c.Client != id {
		return nil, mistake("the OAuth client %q acts for itself, so no other client has its token", id)
	}
	identity, err := st.oauth.Grants.Client(id, time.Time{})
	if err == nil {
		return identity, nil
	}
	if slices.Contains(clientIDs(st.config.OAuth.Clients), id) {
		return nil, mistake("the OAuth client %q does not act for itself: its grants have no %s", id,
			config.GrantClientCredentials)
	}
	return nil, &unknownUserError{fmt.Sprintf("there is no OAuth client %q; %s", id,
		strictyaml.Hint(id, "oauth.clients", clientIDs(st.config.OAuth.Clients)))}
}

// lenderInWords is lenderOf for an identity in words, which can sign in: an account, or a user of a
// provider.
func (st *state) lenderInWords(c *Caller) (*policy.Identity, error) {
	described := *c
	described.Scopes = nil
	if c.Provider == "" && c.Claims != nil && st.federation.Default != nil {
		described.Provider = st.federation.Default.Name()
	}
	described.Provider = cmp.Or(described.Provider, policy.LocalProvider)
	switch provider := st.federation.Provider(described.Provider); {
	case provider == nil && described.Provider != policy.LocalProvider:
		return nil, mistake("the provider %q is not in the configuration, or its users cannot sign in; expected one of "+
			"providers, or local", c.Provider)
	case provider == nil && c.Claims != nil:
		return nil, mistake("no request has such an identity: local accounts have no claims")
	}
	return described.inWords(policy.Bearer)
}

func clientIDs(clients []config.OAuthClient) []string {
	ids := make([]string, len(clients))
	for i := range clients {
		ids[i] = clients[i].ID
	}
	return ids
}

// lend gives the identity of an access token its scopes, and leaves it the roles that these lend.
// A client that asks for no scopes gets those that the policy of the route names, or else all of
// oauth.scopes.
func (r *rehearsal) lend() {
	if !r.state.lent(&r.caller) {
		return
	}
	scopes := r.caller.Scopes
	if scopes == nil {
		scopes = r.defaultScopes()
	}
	for i, id := range r.identities {
		r.identities[i] = r.state.oauth.Grants.Lend(scopes, id)
	}
}

// defaultScopes returns the scopes of a client that asks for none.
func (r *rehearsal) defaultScopes() []string {
	if resource := r.state.config.Resources().Of(r.route.config); resource != nil {
		return resource.Scopes
	}
	return r.state.config.OAuth.DefaultScopes(nil) // it accepts no bearer tokens
}

// checkResource refuses an access token for another resource than that of the route, as identify
// does.
func (r *rehearsal) checkResource(id *policy.Identity) error {
	if r.caller.Resource == "" || id == nil {
		return nil
	}
	err := r.route.chain.CheckResource(strings.TrimSuffix(r.caller.Resource, "/"), r.Credentials.Host)
	if err == nil {
		return nil
	}
	r.rejected(err)
	return web.Challenge(err, r.route.chain.Challenges(&r.Credentials)...)
}
