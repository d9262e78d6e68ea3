package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

// policyErrors reports the errors of package policy.
func (l *loader) policyErrors(err error) {
	if found, ok := errors.AsType[policy.Errors](err); ok {
		for _, one := range found {
			l.fault(one.Path, "%s", one.Msg)
		}
	}
}

// checkPolicies compiles the named policies and checks the names in them.
func (l *loader) checkPolicies() {
	set, err := policy.Compile(l.cfg.Policies)
	l.policyErrors(err)
	l.policies = set
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Policies)) {
		if err := policy.CheckName(name); err != nil && name != "" {
			l.fault(strictyaml.Join("policies", name), "the name of the policy %v", err)
		}
		l.checkReferences(strictyaml.Join("policies", name), l.cfg.Policies[name])
	}
}

// checkReferences checks the providers, users and roles in a policy, at any
// depth.
func (l *loader) checkReferences(path string, spec *policy.Spec) {
	if spec == nil {
		return
	}
	l.checkRoles(path+".roles", spec.Roles)
	l.checkRoles(path+".all_roles", spec.AllRoles)
	for i, provider := range spec.Providers {
		l.checkSource(fmt.Sprintf("%s.providers[%d]", path, i), provider)
	}
	for i, user := range spec.Users {
		at := fmt.Sprintf("%s.users[%d]", path, i)
		if provider, name, found := strings.Cut(user, ":"); found {
			if name != "" { // else package policy reports it
				l.checkSource(at, provider)
			}
		} else if l.isBasic(user) && !l.isAccount(user) {
			l.fault(at, "%q is a user of basic and not a local account; write %q", user, policy.BasicProvider+":"+user)
		}
	}
	for key, refs := range map[string][]policy.Ref{"any": spec.Any, "all": spec.All, "none": spec.None} {
		for i, ref := range refs {
			l.checkReferences(fmt.Sprintf("%s.%s[%d]", path, key, i), ref.Spec)
		}
	}
}

// checkRoles warns about roles that no account has. Providers and other issuers
// can give any role.
func (l *loader) checkRoles(path string, roles []string) {
	if len(l.cfg.Providers) > 0 || len(l.cfg.Token.TrustedIssuers) > 0 {
		return
	}
	var known []string
	for _, account := range l.accounts {
		known = append(known, account.value.Roles...)
	}
	for i, role := range roles {
		if slices.Contains(known, role) {
			continue
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		l.main.Warn(at, "no account has the role %q; %s", role, strictyaml.Hint(role, "roles of accounts", known))
	}
}

// checkSource checks the name of a provider or an issuer.
func (l *loader) checkSource(path, name string) {
	known := slices.Concat(l.providerNames(), l.trustedNames(), []string{policy.LocalProvider, policy.BasicProvider})
	if name != "" && !slices.Contains(known, name) && !l.main.Broken("providers") && !l.main.Broken("token.trusted_issuers") {
		l.fault(path, "there is no provider %q; %s", name, strictyaml.Hint(name, "providers", known))
	}
}

func (l *loader) isBasic(name string) bool {
	return slices.ContainsFunc(l.basic, func(u located[*BasicUser]) bool { return u.value.Username == name })
}

func (l *loader) isAccount(name string) bool {
	return slices.ContainsFunc(l.accounts, func(u located[*Account]) bool { return u.value.Username == name })
}
