package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"authgate/gateway/explain"
	"authgate/gateway/strictyaml"
	"authgate/gateway/wire/strictjson"
	"authgate/policy"
)

// callerFlags describe who makes the request.
type callerFlags struct {
	user                                 string
	username, mechanism, provider, email string
	roles, scopes, claims                []string
	client, resource, actor              string
	issuer, token                        string
	apiToken                             bool
	factors                              int
	age                                  string
}

func (c *callerFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.user, "as", "",
		"a local account, Basic user or, as client:ID, OAuth client that makes the request; none: no credentials")
	flags.StringVar(&c.mechanism, "mechanism", "",
		"basic, session, bearer, oidc or certificate (default: any that the route accepts)")
	flags.StringSliceVar(&c.roles, "roles", nil,
		"roles of an identity in words, instead of --as; with --api-token: of the token")
	flags.BoolVar(&c.apiToken, "api-token", false,
		"the request has an API token of the account --as, with all of its roles or with --roles")
	flags.StringVar(&c.username, "username", "", "its user name")
	flags.StringVar(&c.provider, "provider", "", "its provider (default: one that fits the mechanism)")
	flags.StringVar(&c.email, "email", "", "its address")
	flags.StringSliceVar(&c.scopes, "scopes", nil,
		"the OAuth scopes of the token: of a trusted issuer as --provider, or of an OAuth client of the gateway's")
	flags.StringVar(&c.client, "client", "", "the id of the OAuth client that has the token (default: any)")
	flags.StringVar(&c.resource, "resource", "",
		"the address of what the token is for (default: the route of the request)")
	flags.StringVar(&c.actor, "actor", "",
		"the OAuth client that acts for the user with a token that it exchanged, as client:ID (default: none)")
	flags.StringArrayVar(&c.claims, "claim", nil,
		"a claim of its provider or trusted issuer, as NAME=VALUE; can be repeated")
	flags.StringVar(&c.issuer, "issuer", "", "the trusted issuer of the token of the request; with --claims")
	flags.StringVar(&c.token, "claims", "", "a file with the claims of that token, as a JSON object")
	flags.IntVar(&c.factors, "factors", 0, "how many factors the user has proved in the login: 1 or 2")
	flags.StringVar(&c.age, "age", "", "how long ago that was, like 10m (default: not known)")
}

// readLogin returns the caller with the login, nil without credentials. given reports whether the command
// line has a flag.
func (c *callerFlags) readLogin(given func(flag string) bool) (*explain.Caller, error) {
	age, err := c.readProof(given)
	if err != nil {
		return nil, err
	}
	caller, err := c.readCaller(given)
	if err != nil || c.factors == 0 && age == 0 {
		return caller, err
	}
	if caller == nil {
		return nil, &usageError{errors.New("--factors and --age are about a login, and there is none")}
	}
	caller.Factors, caller.Age = c.factors, age
	return caller, nil
}

// readProof checks the flags about a login, and returns its age.
func (c *callerFlags) readProof(given func(flag string) bool) (age time.Duration, err error) {
	if given("factors") {
		if err := policy.CheckFactors(c.factors); err != nil {
			return 0, &usageError{fmt.Errorf("--factors: %w", err)}
		}
	}
	if !given("age") {
		return 0, nil
	}
	if age, err = strictyaml.ParseDuration(c.age); err != nil {
		return 0, &usageError{fmt.Errorf("--age %q is not a duration like 90s, 15m, 1h30m or 7d", c.age)}
	}
	if err := policy.CheckMaxAge(age); err != nil {
		return 0, &usageError{fmt.Errorf("--age: %w", err)}
	}
	return age, nil
}

// readCaller returns the caller without the factors and the age of the login.
func (c *callerFlags) readCaller(one func(flag string) bool) (*explain.Caller, error) {
	given := func(names ...string) bool { return slices.ContainsFunc(names, one) }
	switch {
	case given("issuer", "claims"):
		return c.readIssued(given)
	case given("as") && c.user == "":
		return nil, &usageError{errors.New("--as is empty; give the name of a user")}
	case c.apiToken && c.user == "":
		return nil, &usageError{errors.New("--api-token needs --as: it is a token of an account")}
	case given("client") && c.client == "" || given("resource") && c.resource == "" || given("actor") && c.actor == "":
		return nil, &usageError{errors.New("--client, --resource and --actor must not be empty; leave out the flag")}
	case c.apiToken && given("username", "provider", "email", "scopes", "claim", "client", "resource", "actor"):
		return nil, &usageError{errors.New("--api-token goes with --as and --roles alone: " +
			"it has nothing that its account has not")}
	case c.apiToken:
		return &explain.Caller{
			User: c.user, Mechanism: policy.Mechanism(c.mechanism), APIToken: true, Roles: c.roles,
		}, nil
	case given("as") && given("roles", "username", "provider", "email", "claim"):
		return nil, &usageError{errors.New("--as names a user, " +
			"who has the roles and the provider of the configuration; give --as, or the flags of an identity")}
	case given("as") && c.user == noUser && given("scopes", "client", "resource", "actor"):
		return nil, &usageError{errors.New("--scopes, --client, --resource and --actor are about a token, " +
			"and --as none has none")}
	case given("as"):
		return c.withToken(callerAs(c.user, c.mechanism)), nil
	case !given("roles", "username", "provider", "email", "scopes", "claim", "mechanism", "factors", "age", "client",
		"resource", "actor"):
		return nil, nil
	}
	claims, err := readClaims(c.claims)
	return c.withToken(&explain.Caller{
		Username: c.username, Roles: c.roles, Mechanism: policy.Mechanism(c.mechanism),
		Provider: c.provider, Email: c.email, Claims: claims,
	}), err
}

// readIssued returns the caller with a token of a trusted issuer.
func (c *callerFlags) readIssued(given func(names ...string) bool) (*explain.Caller, error) {
	switch {
	case c.issuer == "" || c.token == "":
		return nil, &usageError{errors.New("--issuer and --claims go together: " +
			"the name of a trusted issuer, and a file with the claims of its token")}
	case given("as", "api-token", "username", "mechanism", "provider", "email", "roles", "scopes", "claim", "client",
		"resource", "actor", "factors", "age"):
		return nil, &usageError{errors.New("--issuer and --claims describe all of a token, " +
			"so they go without --as and the other flags of an identity or a token")}
	}
	content, _, err := strictyaml.ReadFile(c.token, maxClaims)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--claims: %w", err)}
	}
	claims, err := strictjson.Object(content)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--claims: %s is not a JSON object with the claims of a token: %w", c.token,
			err)}
	}
	return &explain.Caller{Issuer: c.issuer, Token: claims}, nil
}

// maxClaims is the largest size of a file of claims, in bytes.
const maxClaims = 64 << 10

// withToken adds the values of the flags about an access token. A nil caller stays nil.
func (c *callerFlags) withToken(caller *explain.Caller) *explain.Caller {
	if caller != nil {
		caller.Scopes, caller.Client, caller.Resource, caller.Actor = c.scopes, c.client, c.resource, c.actor
	}
	return caller
}

// readClaims returns the claims that --claim gives, nil if it gives none.
func readClaims(given []string) (map[string][]string, error) {
	var claims map[string][]string
	for _, claim := range given {
		name, value, ok := strings.Cut(claim, "=")
		if !ok || name == "" {
			return nil, &usageError{fmt.Errorf("--claim %q is not a claim; expected NAME=VALUE", claim)}
		}
		if claims == nil {
			claims = map[string][]string{}
		}
		claims[name] = append(claims[name], value)
	}
	return claims, nil
}

// noUser is the user of a request without credentials.
const noUser = "none"

// callerAs returns a user of the configuration.
func callerAs(user, mechanism string) *explain.Caller {
	if user == noUser {
		return nil
	}
	return &explain.Caller{User: user, Mechanism: policy.Mechanism(mechanism)}
}
