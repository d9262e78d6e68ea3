package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"authgate/gateway/accounts"
	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

// Changes returns how c differs from old, one line for each key, like
// "routes[2].policy: admin -> staff". It shows no secret, and no value that can
// contain one.
func (c *Config) Changes(old *Config) []string {
	d := &differ{old: old, new: c}
	d.changes = strictyaml.Changes{
		Element: elementOf, Derived: d.derived, Compare: d.compareRefs,
		// The values of headers for upstreams can be credentials.
		Hidden: func(path string) bool { return strings.Contains(path, ".headers.set.") },
	}
	d.changes.Find("", *old, *c)
	d.files()
	d.factors()
	return d.changes.Lines()
}

// differ finds how two configurations differ.
type differ struct {
	old, new *Config
	changes  strictyaml.Changes
}

// RestartKeys returns the keys in which t and other differ and that only a restart
// applies. A reload can replace the names, the files of tls.mode files, and the header.
func (t TLS) RestartKeys(other TLS) (keys []string) {
	old, new := reflect.ValueOf(t), reflect.ValueOf(other)
	for i := range old.NumField() {
		field := old.Type().Field(i)
		if of, ok := old.Type().FieldByName(strings.TrimSuffix(field.Name, "Content")); ok {
			field = of // the content of a file counts as its key
		}
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch key {
		case "domains", "certificate", "key", "hsts":
			continue
		}
		same := reflect.DeepEqual(old.Field(i).Interface(), new.Field(i).Interface())
		if key = "tls." + key; !same && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// files adds the changes of contents that are no values of keys.
func (d *differ) files() {
	for _, file := range d.new.sideFiles {
		was := slices.IndexFunc(d.old.sideFiles, func(f File) bool { return f.Key == file.Key && f.Path == file.Path })
		isList := file.Key == accounts.FileKey || file.Key == accounts.HtpasswdKey
		if file.Key != "" && !isList && was >= 0 && !d.old.sideFiles[was].SameContent(file) {
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
	if was, ok := old.(TLS); ok {
		return field == "Domains" && sameDomains(was.Domains, new.(TLS).Domains)
	}
	was, ok := old.(Upstream)
	if !ok {
		return false
	}
	is := new.(Upstream)
	switch field {
	case "URLs":
		return was.URL != nil && is.URL != nil
	case "IdentityHeaders":
		return *was.IdentityHeaders == d.old.IdentityHeaders && *is.IdentityHeaders == d.new.IdentityHeaders
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
	case Provider:
		return strictyaml.Element{Name: e.Name, Named: true}
	case TrustedIssuer:
		return strictyaml.Element{Name: e.Name, Named: true}
	case Route:
		return strictyaml.Element{Name: e.Match}
	}
	return strictyaml.Element{}
}

// compareRefs compares lists of policies, and no other values.
func (d *differ) compareRefs(path string, before, after any) bool {
	old, ok := before.([]policy.Ref)
	if !ok {
		return false
	}
	new := after.([]policy.Ref)
	if was, is := showRefs(old), showRefs(new); was != is {
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

// PolicyText returns the policies of a route as people read them: a name, or several
// in brackets.
func (r *Route) PolicyText() string { return showRefs(r.Policy) }

func showRefs(refs []policy.Ref) string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		if names[i] = ref.Name; ref.Spec != nil {
			names[i] = "a policy in place"
		}
	}
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	return "[" + strings.Join(names, ", ") + "]"
}
