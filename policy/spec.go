package policy

import (
	"fmt"
	"strings"
)

// Spec is a policy as it is written in YAML. Every key given must hold; a
// list means any of its values, but for AllRoles. Values are compared exactly
// where nothing else is said. A Spec without any key is an error where it is
// compiled, as is an empty list: neither says what was meant.
type Spec struct {
	Roles        []string            `yaml:"roles"`         // has any of these roles
	AllRoles     []string            `yaml:"all_roles"`     // has all of these roles
	Users        []string            `yaml:"users"`         // "alice" or "local:alice": a local account; "PROVIDER:username", cut at the first colon: a delegated user; "basic:service": a Basic user
	EmailDomains []string            `yaml:"email_domains"` // the part after the one @ of the address, without the case of ASCII letters
	Scopes       []string            `yaml:"scopes"`        // the credential carries any of these scopes
	Mechanisms   []string            `yaml:"mechanisms"`    // proved by any of these
	Providers    []string            `yaml:"providers"`     // the account lives at any of these
	Networks     []string            `yaml:"networks"`      // the client's address is in any of these CIDRs or is any of these addresses; IPv4-mapped IPv6 counts as IPv4
	Methods      []string            `yaml:"methods"`       // the request's method, in upper case; GET does not mean HEAD
	Claims       map[string][]string `yaml:"claims"`        // each named claim is, or is an array with, any of its values; a name is that of a claim, or a dotted path through objects; numbers are written in decimal
	Any          []Ref               `yaml:"any"`           // at least one holds
	All          []Ref               `yaml:"all"`           // every one holds
	None         []Ref               `yaml:"none"`          // not one holds
}

// Ref stands for a policy: the name of one, or one written in place. Exactly
// one of the two is set.
type Ref struct {
	Name string
	Spec *Spec
}

// Error is one thing wrong with policies or routes as configured.
type Error struct {
	Path string // where, as a dotted path: policies.admin.any[1].networks[0]
	Msg  string // what is wrong and what was expected
}

func (e Error) Error() string { return e.Path + ": " + e.Msg }

// Errors is everything wrong at once, in the order of the configuration.
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

// err returns e as an error, nil when there is nothing in it.
func (e Errors) err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}
