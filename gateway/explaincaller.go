package gateway

import (
	"fmt"
	"slices"
	"time"

	"authgate/policy"
)

// Caller is who makes a described request: a user of the configuration, or an
// identity in words.
type Caller struct {
	// User is the name of a local account or a Basic user. It goes with Mechanism
	// and APIToken alone.
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
	// Scopes are the OAuth scopes of a token of a trusted issuer.
	Scopes []string
	// Claims are claims of a provider or a trusted issuer, under the names that
	// policies have for them, each with its values.
	Claims map[string][]string
	// Factors and Age are what the user has proved in the login, and how long ago. 0: one
	// factor, and a time that is not known.
	Factors int
	Age     time.Duration
}

// only reports whether c has nothing of its own but what goes with a user of the
// configuration.
func (c *Caller) only() bool {
	return c.Provider == "" && c.Username == "" && c.Email == "" && c.Scopes == nil && c.Claims == nil
}

// unknownUserError reports that no account has a name.
type unknownUserError struct{ User string }

// Error implements error.
func (e *unknownUserError) Error() string {
	return fmt.Sprintf("no local account and no Basic user has the name %q, or it is disabled", e.User)
}

// DescriptionError reports that a description has no meaning.
type DescriptionError struct{ problem string }

// Error implements error.
func (e *DescriptionError) Error() string { return e.problem }

func mistake(format string, args ...any) error {
	return &DescriptionError{fmt.Sprintf(format, args...)}
}

// identities returns the identities that a caller can prove, one for each
// mechanism. Those of a login have its proof.
func (st *state) identities(c *Caller) ([]*policy.Identity, error) {
	if c == nil {
		return nil, nil
	}
	all, err := st.withoutProof(c)
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
	logins := slices.DeleteFunc(slices.Clone(all), func(id *policy.Identity) bool { return c.APIToken || !st.isLogin(id) })
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
		return nil, mistake("what proves the identity belongs to no login: " +
			"Basic, API tokens, certificates and tokens of other issuers are one factor without a time")
	}
	return logins, nil
}

// describedLogin is the sid of logins that are described.
const describedLogin = "described"

// isLogin reports whether an identity is that of a login of the gateway's.
func (st *state) isLogin(id *policy.Identity) bool {
	return id.Mechanism != policy.Basic && id.Mechanism != policy.Certificate &&
		(id.Mechanism != policy.Bearer || id.Provider == policy.LocalProvider)
}

// withoutProof is identities without what the login has proved.
func (st *state) withoutProof(c *Caller) ([]*policy.Identity, error) {
	switch c.Mechanism {
	case "", policy.Basic, policy.Session, policy.Bearer, policy.OIDC, policy.Certificate:
	default:
		return nil, mistake("the mechanism %q is unknown; expected basic, session, bearer, oidc or certificate",
			c.Mechanism)
	}
	if c.User != "" {
		return st.identitiesOf(c)
	}
	if c.APIToken {
		return nil, mistake("an API token belongs to a local account; name its user")
	}
	if c.Provider != "" && !st.knows(c.Provider) {
		return nil, mistake("the provider %q is not in the configuration; expected one of its providers or trusted "+
			"issuers, local or basic", c.Provider)
	}
	var all []*policy.Identity
	for _, mechanism := range [...]policy.Mechanism{policy.Session, policy.Bearer, policy.OIDC, policy.Basic,
		policy.Certificate} {
		if c.Mechanism == mechanism || c.Mechanism == "" && st.fits(c, mechanism) {
			id, err := st.identity(c, mechanism)
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
func (st *state) identitiesOf(c *Caller) ([]*policy.Identity, error) {
	if c.APIToken {
		return st.apiTokenOf(c)
	}
	if !c.only() || c.Roles != nil {
		return nil, mistake("the user %q has the properties of the configuration; give a user, or the properties of one",
			c.User)
	}
	var all []*policy.Identity
	account, local := st.mechanisms.Accounts.Lookup(c.User)
	basic := st.mechanisms.Basic.Identity(c.User)
	if !local && basic == nil {
		return nil, &unknownUserError{c.User}
	}
	if local {
		for _, mechanism := range [...]policy.Mechanism{policy.Session, policy.Bearer, policy.Certificate} {
			all = append(all, account.Identity(mechanism, "", time.Time{}))
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

// apiTokenOf is identities for an API token.
func (st *state) apiTokenOf(c *Caller) ([]*policy.Identity, error) {
	account, ok := st.mechanisms.Accounts.Lookup(c.User)
	switch {
	case !ok:
		return nil, &unknownUserError{c.User}
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
func (st *state) knows(provider string) bool {
	return provider == policy.LocalProvider || provider == policy.BasicProvider ||
		st.federation.Provider(provider) != nil || st.federation.Trusts(provider)
}

// fits reports whether a mechanism can prove the provider and the properties of a caller.
func (st *state) fits(c *Caller, mechanism policy.Mechanism) bool {
	switch mechanism {
	case policy.Basic: // its users have nothing but a name
		return (c.Provider == "" || c.Provider == policy.BasicProvider) && c.Roles == nil && c.Email == "" &&
			c.Scopes == nil && c.Claims == nil
	case policy.Session, policy.Certificate:
		return (c.Provider == "" || c.Provider == policy.LocalProvider) && c.Scopes == nil && c.Claims == nil
	case policy.Bearer:
		local := c.Provider == "" || c.Provider == policy.LocalProvider
		return local && c.Scopes == nil && c.Claims == nil || st.federation.Trusts(c.Provider)
	}
	return (c.Provider == "" && st.federation.Default != nil || st.federation.Provider(c.Provider) != nil) &&
		c.Scopes == nil
}

// identity returns the identity that a mechanism proves for a caller in words.
func (st *state) identity(c *Caller, mechanism policy.Mechanism) (*policy.Identity, error) {
	id := &policy.Identity{Username: c.Username, Email: c.Email, Roles: c.Roles, Scopes: c.Scopes, Mechanism: mechanism,
		Provider: c.Provider}
	if id.Provider == "" {
		switch mechanism {
		case policy.Basic:
			id.Provider = policy.BasicProvider
		case policy.OIDC:
			if st.federation.Default == nil {
				return nil, mistake("the mechanism oidc needs a provider: " +
					"there is no single one, and no delegated.default_provider")
			}
			id.Provider = st.federation.Default.Name()
		default:
			id.Provider = policy.LocalProvider
		}
	}
	described := *c
	described.Provider = id.Provider
	if !st.fits(&described, mechanism) {
		return nil, mistake("no request has such an identity: the mechanism %s does not prove accounts of %s, "+
			"or not with %s", mechanism, id.Provider, c.properties())
	}
	if slices.Contains(c.Roles, "") {
		return nil, mistake("a role is empty")
	}
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

// properties names what c says of an identity beside its names, for a message.
func (c *Caller) properties() string {
	switch {
	case c.Scopes != nil:
		return "scopes, which only tokens of other issuers have"
	case c.Claims != nil:
		return "claims, which only users of providers and other issuers have"
	}
	return "roles and an email"
}
