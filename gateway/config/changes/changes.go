// Package changes tells how two configurations differ, for people and logs.
package changes

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/config/forwarding"
	"authgate/gateway/config/issuers"
	"authgate/gateway/config/listening"
	"authgate/gateway/people/accounts"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Between returns how new differs from old, one line for each key, like
// "routes[2].policy: admin -> staff". It shows no secret, and no value that can
// contain one.
func Between(old, new *config.Config) []string {
	d := &differ{old: old, new: new}
	d.changes = strictyaml.Changes{
		Element: elementOf, Derived: d.derived, Compare: d.compareRefs,
		// The values of headers for upstreams can be credentials.
		Hidden: func(path string) bool { return strings.Contains(path, ".headers.set.") },
	}
	d.changes.Find("", *old, *new)
	d.files()
	d.factors()
	return d.changes.Lines()
}

// differ finds how two configurations differ.
type differ struct {
	old, new *config.Config
	changes  strictyaml.Changes
}

// files adds the changes of contents that are no values of keys.
func (d *differ) files() {
	before := d.old.Files()
	for _, file := range d.new.Files() {
		was := slices.IndexFunc(before, func(f config.File) bool { return f.Key == file.Key && f.Path == file.Path })
		isList := file.Key == accounts.FileKey || file.Key == accounts.HtpasswdKey
		if file.Key != "" && !isList && was >= 0 && !before[was].SameContent(file) {
			d.changes.Add(file.Key, "the content of the file changed")
		}
	}
}

// factors adds the accounts that have other factors than before. Recovery codes count too.
func (d *differ) factors() {
	before := make(map[string]*accounts.Account, len(d.old.Accounts.Users))
	for i := range d.old.Accounts.Users {
		before[d.old.Accounts.Users[i].Username] = &d.old.Accounts.Users[i]
	}
	for i := range d.new.Accounts.Users {
		now := &d.new.Accounts.Users[i]
		if was := before[now.Username]; was != nil && !reflect.DeepEqual(was.Factors, now.Factors) {
			d.changes.Add("accounts.users["+now.Username+"].factors", "changed")
		}
	}
}

// derived reports whether a field has no value of its own: the change is one of
// another key.
func (d *differ) derived(field string, old, new any) bool {
	if was, ok := old.(listening.TLS); ok {
		return field == "Domains" && sameDomains(was.Domains, new.(listening.TLS).Domains)
	}
	was, ok := old.(forwarding.Upstream)
	if !ok {
		return false
	}
	is := new.(forwarding.Upstream)
	switch field {
	case "URLs":
		return was.URL != nil && is.URL != nil
	case "IdentityHeaders":
		return reflect.DeepEqual(*was.IdentityHeaders, d.old.IdentityHeaders) &&
			reflect.DeepEqual(*is.IdentityHeaders, d.new.IdentityHeaders)
	}
	return false
}

// sameDomains reports whether two lists differ at most in their order, which routes give
// the default of tls.domains. Only the first has a meaning of its own.
func sameDomains(a, b []string) bool {
	sorted := func(list []string) []string { return slices.Sorted(slices.Values(list)) }
	return len(a) > 0 && len(b) > 0 && a[0] == b[0] && slices.Equal(sorted(a), sorted(b))
}

func elementOf(element any) strictyaml.Element {
	switch e := element.(type) {
	case accounts.Account:
		return strictyaml.Element{Name: e.Username, Named: true}
	case accounts.BasicUser:
		return strictyaml.Element{Name: e.Username, Named: true}
	case issuers.Provider:
		return strictyaml.Element{Name: e.Name, Named: true}
	case issuers.TrustedIssuer:
		return strictyaml.Element{Name: e.Name, Named: true}
	case config.OAuthClient:
		return strictyaml.Element{Name: e.ID, Named: true}
	case config.Webhook:
		return strictyaml.Element{Name: e.Name, Named: true}
	case config.Route:
		return strictyaml.Element{Name: e.Match}
	}
	return strictyaml.Element{}
}

// compareRefs compares lists of policies, and the roles of accounts, and no other values.
func (d *differ) compareRefs(path string, before, after any) bool {
	if account, ok := before.(accounts.Account); ok {
		if was, is := account.RolesText(), after.(accounts.Account).RolesText(); was != is {
			d.changes.Add(path+".roles", "%s -> %s", was, is)
		}
		return false // the other keys
	}
	old, ok := before.([]policy.Ref)
	if !ok {
		return false
	}
	new := after.([]policy.Ref)
	if was, is := config.PolicyText(old), config.PolicyText(new); was != is {
		d.changes.Add(path, "%s -> %s", was, is)
		return true
	}
	for i := range new {
		if old[i].Spec == nil {
			continue
		}
		at := path
		if len(new) > 1 {
			at += "[" + strconv.Itoa(i) + "]"
		}
		d.changes.Find(at, *old[i].Spec, *new[i].Spec)
	}
	return true
}
