package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/config/issuers"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// clientMark begins the name of a user that is an OAuth client.
const clientMark = policy.ClientProvider + ":"

// Lent reports whether an access token of an OAuth client of the gateway's proves the identity of a
// caller, and not one of a trusted issuer.
func (k *Known) Lent(c *Caller) bool {
	return c.Client != "" || c.Resource != "" || c.Actor != "" || strings.HasPrefix(c.User, clientMark) ||
		c.Scopes != nil && !k.Federation.Trusts(c.Provider)
}

// issued is identities for a token of a trusted issuer.
func (k *Known) issued(c *Caller) ([]*policy.Identity, error) {
	names := issuers.TrustedNames(k.Config.Token.TrustedIssuers)
	if !slices.Contains(names, c.Issuer) {
		return nil, mistake("there is no trusted issuer %q; %s", c.Issuer,
			strictyaml.Hint(c.Issuer, "token.trusted_issuers", names))
	}
	id, err := k.Federation.Described(c.Issuer, c.Token)
	if err != nil {
		return nil, err
	}
	return []*policy.Identity{id}, nil
}

// lender is identities for an access token: that of its user, or of its client, before the scopes
// reduce it.
func (k *Known) lender(c *Caller) ([]*policy.Identity, error) {
	c, err := c.withClient()
	if err != nil {
		return nil, err
	}
	if err := k.checkToken(c); err != nil {
		return nil, err
	}
	id, err := k.lenderOf(c)
	if err != nil {
		return nil, err
	}
	if c.Client != "" && !k.OAuth.Clients.Admits(c.Client, id) {
		return nil, mistake("the user has no token of the OAuth client %q, because its policy does not let them in",
			c.Client)
	}
	if c.Actor != "" {
		acted := *id
		acted.Actor = c.Actor
		id = &acted
	}
	return []*policy.Identity{id}, nil
}

// withClient returns c with the client that the actor is, which has the token.
func (c *Caller) withClient() (*Caller, error) {
	if c.Actor == "" {
		return c, nil
	}
	client, found := strings.CutPrefix(c.Actor, clientMark)
	if !found || client == "" {
		return nil, mistake("%q is not an OAuth client that acts for users; expected client:ID", c.Actor)
	}
	if c.Client != "" && c.Client != client {
		return nil, mistake("the actor %s has the token, and not the OAuth client %q", c.Actor, c.Client)
	}
	withClient := *c
	withClient.Client = client
	return &withClient, nil
}

// checkToken checks the description of an access token.
func (k *Known) checkToken(c *Caller) error {
	switch {
	case c.APIToken:
		return mistake("an API token has no scopes, client, resource and actor: " +
			"those are of the access tokens of OAuth clients")
	case k.OAuth == nil:
		return mistake("tokens of OAuth clients, with scopes, a client, a resource and an actor, need oauth.enabled; " +
			"for a token of another issuer, give its name as the provider")
	case c.Mechanism != "" && c.Mechanism != policy.Bearer:
		return mistake("no request has such an identity: the mechanism %s does not prove it with %s", c.Mechanism,
			"what only tokens have: scopes, a client, a resource or an actor")
	case k.Federation.Trusts(c.Provider):
		return mistake("%q is another issuer, whose tokens belong to no OAuth client of the gateway's; "+
			"leave out the client, the resource and the actor", c.Provider)
	case c.Client != "" && !k.OAuth.Clients.Counts(c.Client):
		return mistake("there is no OAuth client %q; %s", c.Client,
			strictyaml.Hint(c.Client, "oauth.clients", clientIDs(k.Config.OAuth.Clients)))
	}
	known := k.Config.OAuth.AllScopes()
	for _, scope := range c.Scopes {
		if !slices.Contains(known, scope) {
			return mistake("no token has the scope %q, because oauth.scopes has not; %s", scope,
				strictyaml.Hint(scope, "scopes", known))
		}
	}
	return nil
}

// lenderOf returns the user whose token a client has, or the client that acts for itself.
func (k *Known) lenderOf(c *Caller) (*policy.Identity, error) {
	if c.User == "" {
		return k.lenderInWords(c)
	}
	if err := c.checkUser(); err != nil {
		return nil, err
	}
	if id, own := strings.CutPrefix(c.User, clientMark); own {
		return k.ownClient(c, id)
	}
	account, ok := k.Accounts.Lookup(c.User)
	if !ok && k.Basic.Identity(c.User) != nil {
		return nil, mistake("%q is a user of basic, who cannot sign in, so no OAuth client has a token of theirs",
			c.User)
	}
	if !ok {
		return nil, k.unknownUser(c.User)
	}
	return account.Identity(policy.Bearer, "", time.Time{}), nil
}

// ownClient is lenderOf for a client that acts for itself.
func (k *Known) ownClient(c *Caller, id string) (*policy.Identity, error) {
	if c.Client != "" && c.Client != id && c.Actor == "" {
		return nil, mistake("the OAuth client %q acts for itself, so no other client has its token", id)
	}
	identity, err := k.OAuth.Grants.Client(id, time.Time{})
	if err == nil {
		return identity, nil
	}
	if slices.Contains(clientIDs(k.Config.OAuth.Clients), id) {
		return nil, mistake("the OAuth client %q does not act for itself: its grants have neither %s nor %s", id,
			config.GrantClientCredentials, config.GrantJWTBearer)
	}
	return nil, &unknownUserError{fmt.Sprintf("there is no OAuth client %q; %s", id,
		strictyaml.Hint(id, "oauth.clients", clientIDs(k.Config.OAuth.Clients)))}
}

// lenderInWords is lenderOf for an identity in words, which can sign in: an account, or a user of a
// provider.
func (k *Known) lenderInWords(c *Caller) (*policy.Identity, error) {
	described := *c
	described.Scopes = nil
	if c.Provider == "" && c.Claims != nil && k.Federation.Default != nil {
		described.Provider = k.Federation.Default.Name()
	}
	described.Provider = cmp.Or(described.Provider, policy.LocalProvider)
	switch provider := k.Federation.Provider(described.Provider); {
	case provider == nil && described.Provider != policy.LocalProvider:
		return nil, mistake("the provider %q is not in the configuration, or its users cannot sign in; "+
			"expected one of providers, or local", c.Provider)
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
