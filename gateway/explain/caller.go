package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login/mechanism"
	"authgate/gateway/people/accounts"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Caller is who makes a described request: a user of the configuration, or an
// identity in words.
type Caller struct {
	// User is the name of a local account or a Basic user, or "client:ID" for an OAuth client that acts
	// for itself. It goes without the properties of an identity.
	User string
	// APIToken says that an API token of the local account User proves the
	// identity. With Roles the token has only these of the account's roles.
	APIToken bool
	// Mechanism proves the identity. Empty means any that the route accepts and
	// the user has.
	Mechanism policy.Mechanism
	// Provider is the source of the account. Empty means one that fits the
	// mechanism.
	Provider        string
	Username, Email string
	Roles           []string
	// Scopes are the OAuth scopes of a token: of a trusted issuer, or else of one that an OAuth client
	// of the gateway's has. Nil means those that such a client gets if it asks for none.
	Scopes []string
	// Client is the identifier of the OAuth client that has the token, and Resource the address of the
	// protected resource. Empty means any client, and the route of the request.
	Client, Resource string
	// Actor is the OAuth client that acts for the user with the token, as client:ID, by an exchange.
	Actor string
	// Claims are claims of a provider or a trusted issuer, under the names that
	// policies have for them, each with its values.
	Claims map[string][]string
	// Issuer is the name of a trusted issuer, and Token the claims of its token that makes the request.
	// Numbers are json.Number. Both go without the rest.
	Issuer string
	Token  map[string]any
	// Factors and Age are the number of factors proved in the login, and the time since. 0: one
	// factor, and a time that is not known.
	Factors int
	Age     time.Duration
}

// only reports whether c has no property of its own that a user of the configuration has there.
func (c *Caller) only() bool {
	return c.Provider == "" && c.Username == "" && c.Email == "" && c.Claims == nil
}

// unknownUserError reports that no account has a name.
type unknownUserError struct{ problem string }

// Error implements error.
func (e *unknownUserError) Error() string { return e.problem }

// unknownUser is the error of a name that no account has. Users of providers have no place in the
// configuration.
func (k *Known) unknownUser(name string) error {
	problem := fmt.Sprintf("no local account and no Basic user has the name %q, or it is disabled or has ended", name)
	if provider, username, found := strings.Cut(name, ":"); found && k.Federation.Provider(provider) != nil {
		return &unknownUserError{fmt.Sprintf("%s; describe a user of a provider in words: provider %q, username %q",
			problem, provider, username)}
	}
	var known []string
	for _, account := range k.Config.Accounts.Users {
		known = append(known, account.Username)
	}
	for _, user := range k.Config.Basic.Users {
		known = append(known, user.Username)
	}
	if near, ok := strictyaml.Nearest(name, known); ok && near != name {
		problem += fmt.Sprintf("; did you mean %q?", near)
	}
	return &unknownUserError{problem}
}

// Mistake reports that a description has no meaning.
type Mistake struct{ problem string }

// Error implements error.
func (e *Mistake) Error() string { return e.problem }

func mistake(format string, args ...any) error {
	return &Mistake{fmt.Sprintf(format, args...)}
}

// Known has the users and clients of a configuration.
type Known struct {
	Config     *config.Config
	Accounts   *accounts.Set
	Basic      *auth.Basic
	Federation *mechanism.Federation
	OAuth      *mechanism.OAuth // nil: the gateway is no authorization server
}

// Identities returns the identities that a caller can prove, one for each mechanism. Those of a login
// have its proof. The error tells that there is no such user, or is a *Mistake, or an *auth.Rejection of
// the token of a trusted issuer.
func (k *Known) Identities(c *Caller) ([]*policy.Identity, error) {
	if c == nil {
		return nil, nil
	}
	all, err := k.withoutProof(c)
	if err != nil || c.APIToken && c.Factors == 0 && c.Age == 0 {
		return all, err
	}
	if c.Factors != 0 {
		if err := policy.CheckFactors(c.Factors); err != nil {
			return nil, mistake("the factors: %v", err)
		}
	}
	if c.Age != 0 {
		if err := policy.CheckMaxAge(c.Age); err != nil {
			return nil, mistake("the age: %v", err)
		}
	}
	logins := slices.DeleteFunc(slices.Clone(all), func(id *policy.Identity) bool {
		return c.APIToken || !isLogin(id) && !(k.Lent(c) && id.Provider != policy.ClientProvider)
	})
	for _, id := range logins {
		id.Login = describedLogin
		if c.Factors == 2 {
			id.AMR = []string{policy.TwoFactors}
		}
	}
	if c.Factors == 0 && c.Age == 0 {
		return all, nil
	}
	if len(logins) == 0 {
		return nil, mistake("what proves the identity belongs to no login: Basic, API tokens, certificates, " +
			"tokens of other issuers, and OAuth clients that act for themselves are one factor without a time")
	}
	return logins, nil
}

// describedLogin is the sid of logins that are described.
const describedLogin = "described"

// isLogin reports whether an identity is that of a login of the gateway's.
func isLogin(id *policy.Identity) bool {
	return id.Mechanism.Traits().Login && (id.Mechanism != policy.Bearer || id.Provider == policy.LocalProvider)
}

// withoutProof is Identities without the proof of the login.
func (k *Known) withoutProof(c *Caller) ([]*policy.Identity, error) {
	if c.Mechanism != "" && c.Mechanism.Traits().Mechanism == "" {
		return nil, mistake("the mechanism %q is unknown; expected %s", c.Mechanism, policy.MechanismWords())
	}
	if c.Issuer != "" {
		return k.issued(c)
	}
	if k.Lent(c) {
		return k.lender(c)
	}
	if c.User != "" {
		return k.identitiesOf(c)
	}
	if c.APIToken {
		return nil, mistake("an API token belongs to a local account; name its user")
	}
	if c.Provider == policy.ClientProvider {
		return nil, mistake("an OAuth client that acts for itself is the user client:ID, without other properties")
	}
	if c.Provider != "" && !k.knows(c.Provider) {
		return nil, mistake("the provider %q is not in the configuration; expected one of its providers or trusted "+
			"issuers, local or basic", c.Provider)
	}
	var all []*policy.Identity
	kinds := policy.Mechanisms()
	slices.SortStableFunc(kinds, func(a, b policy.Traits) int { return cmp.Compare(a.Users, b.Users) })
	for _, kind := range kinds {
		mechanism := kind.Mechanism
		if c.Mechanism == mechanism || c.Mechanism == "" && k.fits(c, mechanism) {
			id, err := k.identity(c, mechanism)
			if err != nil {
				return nil, err
			}
			all = append(all, id)
		}
	}
	if len(all) == 0 {
		return nil, mistake("no request has such an identity: no mechanism of its provider proves %s", c.properties())
	}
	return all, nil
}

// identitiesOf is identities for a user of the configuration.
func (k *Known) identitiesOf(c *Caller) ([]*policy.Identity, error) {
	if c.APIToken {
		return k.apiTokenOf(c)
	}
	if err := c.checkUser(); err != nil {
		return nil, err
	}
	var all []*policy.Identity
	account, local := k.Accounts.Lookup(c.User)
	basic := k.Basic.Identity(c.User)
	if !local && basic == nil {
		return nil, k.unknownUser(c.User)
	}
	if local {
		for _, kind := range policy.Mechanisms() {
			if kind.Users == policy.LocalUsers {
				all = append(all, account.Identity(kind.Mechanism, "", time.Time{}))
			}
		}
	}
	if basic != nil {
		all = append(all, basic)
	}
	if c.Mechanism != "" {
		all = slices.DeleteFunc(all, func(id *policy.Identity) bool { return id.Mechanism != c.Mechanism })
	}
	return all, nil
}

// checkUser refuses a user of the configuration with properties of an identity in words.
func (c *Caller) checkUser() error {
	if !c.only() || c.Roles != nil {
		return mistake("the user %q has the properties of the configuration; give a user, or the properties of one",
			c.User)
	}
	return nil
}

// apiTokenOf is identities for an API token.
func (k *Known) apiTokenOf(c *Caller) ([]*policy.Identity, error) {
	account, ok := k.Accounts.Lookup(c.User)
	switch {
	case !ok:
		return nil, k.unknownUser(c.User)
	case !c.only() || c.Mechanism != "" && c.Mechanism != policy.Bearer:
		return nil, mistake("an API token of %q proves the identity of the configuration by the mechanism bearer; "+
			"give roles alone, to reduce its own", c.User)
	}
	id := account.Identity(policy.Bearer, "", time.Time{})
	for _, role := range c.Roles {
		if !slices.Contains(id.Roles, role) {
			return nil, mistake("the user %q does not have the role %q, so no token of theirs has it", c.User, role)
		}
	}
	if c.Roles != nil {
		id = id.Reduced(c.Roles)
	}
	return []*policy.Identity{id}, nil
}

// knows reports whether accounts can come from a provider.
func (k *Known) knows(provider string) bool {
	return provider == policy.LocalProvider || provider == policy.BasicProvider ||
		k.Federation.Provider(provider) != nil || k.Federation.Trusts(provider)
}

// fits reports whether a mechanism can prove the provider and the properties of a caller.
func (k *Known) fits(c *Caller, mechanism policy.Mechanism) bool {
	switch mechanism.Traits().Users {
	case policy.BasicUsers: // who have nothing but a name
		return (c.Provider == "" || c.Provider == policy.BasicProvider) && c.Roles == nil && c.Email == "" &&
			c.Scopes == nil && c.Claims == nil
	case policy.LocalUsers:
		local := c.Provider == "" || c.Provider == policy.LocalProvider
		return local && c.Scopes == nil && c.Claims == nil ||
			mechanism == policy.Bearer && k.Federation.Trusts(c.Provider)
	}
	return (c.Provider == "" && k.Federation.Default != nil || k.Federation.Provider(c.Provider) != nil) &&
		c.Scopes == nil
}

// identity returns the identity that a mechanism proves for a caller in words.
func (k *Known) identity(c *Caller, mechanism policy.Mechanism) (*policy.Identity, error) {
	described := *c
	if c.Provider == "" {
		switch mechanism.Traits().Users {
		case policy.BasicUsers:
			described.Provider = policy.BasicProvider
		case policy.ProviderUsers:
			if k.Federation.Default == nil {
				return nil, mistake("the mechanism oidc needs a provider: " +
					"there is no single one, and no delegated.default_provider")
			}
			described.Provider = k.Federation.Default.Name()
		default:
			described.Provider = policy.LocalProvider
		}
	}
	if !k.fits(&described, mechanism) {
		return nil, mistake("no request has such an identity: the mechanism %s does not prove accounts of %s, "+
			"or not with %s", mechanism, described.Provider, c.properties())
	}
	return described.inWords(mechanism)
}

// inWords returns the identity that c describes.
func (c *Caller) inWords(mechanism policy.Mechanism) (*policy.Identity, error) {
	if slices.Contains(c.Roles, "") {
		return nil, mistake("a role is empty")
	}
	id := &policy.Identity{Username: c.Username, Email: c.Email, Roles: c.Roles, Scopes: c.Scopes, Mechanism: mechanism,
		Provider: c.Provider}
	if c.Username != "" {
		id.Subject = id.Provider + ":" + c.Username
	}
	if c.Claims != nil {
		id.Claims = map[string]any{}
		for name, values := range c.Claims {
			list := make([]any, len(values)) // what a list in JSON becomes
			for i, value := range values {
				list[i] = value
			}
			id.Claims[name] = list
		}
	}
	return id, nil
}

// properties names the properties that c has beside its names, for a message.
func (c *Caller) properties() string {
	switch {
	case c.Scopes != nil:
		return "scopes, which only tokens have"
	case c.Claims != nil:
		return "claims, which only users of providers and other issuers have"
	}
	return "roles and an email"
}
