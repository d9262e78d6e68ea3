package policy

import (
	"fmt"
	"strings"
	"time"
)

// Spec is a policy as written in YAML. It holds if each key that is given
// holds. A list holds if any of its values does, except AllRoles. Values are
// compared exactly unless a field says otherwise. A Spec without any key is an
// error of Compile, and so is an empty list.
type Spec struct {
	Roles    []string `yaml:"roles"`     // the identity has any of these
	AllRoles []string `yaml:"all_roles"` // the identity has all of these
	// Users are names: "alice" or "local:alice" is a local account, "basic:service" a Basic
	// user, "PROVIDER:username" a delegated user, and "client:ID" an OAuth client that acts for
	// itself.
	Users []string `yaml:"users"`
	// Actors are OAuth clients that act for the user, as "client:ID". An identity without an
	// actor meets none.
	Actors []string `yaml:"actors"`
	// EmailDomains are parts after the @ of the address. The case of ASCII letters does not
	// count.
	EmailDomains []string `yaml:"email_domains"`
	Scopes       []string `yaml:"scopes"`     // the credential has any of these
	Mechanisms   []string `yaml:"mechanisms"` // any of these proved the identity
	Providers    []string `yaml:"providers"`  // the account is at any of these
	Networks     []string `yaml:"networks"`   // CIDRs and addresses: the client's address is in any of these
	Methods      []string `yaml:"methods"`    // of the request, in upper case; GET does not include HEAD
	// MCP is about the message of a POST for an MCP server. Other requests meet it.
	MCP *MCP `yaml:"mcp"`
	// Claims: each of them is any of its values, or an array that contains one. See
	// LookupClaim for the names. Numbers are in decimal.
	Claims map[string][]string `yaml:"claims"`
	// Factors is how many factors the user has proved in the login: 1 or 2; 0: the key is not
	// given. MaxAge is how long ago that was at most; 0: the key is not given.
	Factors int           `yaml:"factors"`
	MaxAge  time.Duration `yaml:"max_age"`

	Any  []Ref `yaml:"any"`  // at least one holds
	All  []Ref `yaml:"all"`  // all of them hold
	None []Ref `yaml:"none"` // none of them holds

	// Next is the policy that is to come in the place of this one. It decides nothing yet: see
	// Route.Next. Only a named policy can have it.
	Next []Ref `yaml:"next,single"`
}

// Words returns the only values of keys of a policy, by key.
func (Spec) Words() map[string][]string {
	return map[string][]string{
		"mechanisms": {string(Basic), string(Session), string(Bearer), string(OIDC), string(Certificate)},
	}
}

// Ref refers to a policy by its name, or contains one. Exactly one of the two
// fields is set.
type Ref struct {
	Name string
	Spec *Spec
}

// Error is one mistake in the configuration of policies or routes.
type Error struct {
	Path string // dotted path: policies.admin.any[1].networks[0]
	Msg  string // the mistake, and the expected value
}

func (e Error) Error() string { return e.Path + ": " + e.Msg }

// Errors are all mistakes, in the order of the configuration.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

func (e *Errors) add(path, format string, args ...any) {
	*e = append(*e, Error{Path: path, Msg: fmt.Sprintf(format, args...)})
}

// err returns e as an error, or nil if it is empty.
func (e Errors) err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}
