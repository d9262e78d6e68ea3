package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// compiler turns specs into policies and collects errors.
type compiler struct {
	named  map[string]*Policy
	cyclic map[string]string // faults by the path of the reference that closes a cycle
	specs  map[string]*Spec  // of named
	errs   Errors
}

// place is the place of a spec, in the terms of the configuration and of
// decisions.
type place struct {
	path  string // "policies.admin.any[1]"
	where string // "policy admin: any[1]"
	sep   string // separates where from a key
}

func (p place) key(name string) place {
	return place{path: p.path + "." + name, where: p.where + p.sep + name, sep: "."}
}

func (p place) index(i int) place {
	n := fmt.Sprintf("[%d]", i)
	return place{path: p.path + n, where: p.where + n, sep: "."}
}

const (
	emptyList = "the list is empty; give at least one entry or remove the key"
	emptySpec = "the policy has no rules; give at least one of roles, all_roles, users, actors, email_domains, " +
		"scopes, mechanisms, providers, networks, methods, mcp, claims, factors, max_age, any, all, none"
	badRef = "expected the name of a policy, or a policy written in place"
)

// spec compiles one spec. After an error the result must not be used.
func (c *compiler) spec(at place, s *Spec) Policy {
	p := Policy{name: at.where}
	if s == nil {
		c.errs.add(at.path, "%s", emptySpec)
		return p
	}
	before := len(c.errs)
	for _, leaf := range leaves(s) {
		at := at.key(leaf.key)
		if c.values(at, leaf.values, leaf.check) {
			values := slices.Clone(leaf.values)
			r := &rule{
				where: at.where,
				need:  leaf.need + " " + strings.Join(values, ", "),
				holds: leaf.rule(values),

				key: leaf.key, values: values, request: leaf.request, user: leaf.user,
			}
			if leaf.kind != nil {
				r.kind = leaf.kind(values)
			}
			p.rules = append(p.rules, r)
		}
	}
	if s.MCP.isEmpty() {
		c.errs.add(at.key("mcp").path, "%s", emptyMCP)
	}
	p.rules = append(p.rules, c.claims(at.key("claims"), s.Claims)...)
	p.rules = append(p.rules, c.proof(at, s)...)
	p.rules = append(p.rules, c.any(at.key("any"), s.Any)...)
	p.rules = append(p.rules, c.all(at.key("all"), s.All)...)
	p.rules = append(p.rules, c.none(at.key("none"), s.None)...)
	if len(p.rules) == 0 && len(c.errs) == before {
		c.errs.add(at.path, "%s", emptySpec)
	}
	return p
}

// values checks a list and reports whether it is given and valid.
func (c *compiler) values(at place, list []string, check func(string) error) bool {
	if list == nil {
		return false
	}
	before := len(c.errs)
	if len(list) == 0 {
		c.errs.add(at.path, "%s", emptyList)
	}
	for i, v := range list {
		if err := check(v); err != nil {
			c.errs.add(at.index(i).path, "%q %v", v, err)
		}
	}
	return len(c.errs) == before
}

func (c *compiler) claims(at place, claims map[string][]string) []*rule {
	if claims != nil && len(claims) == 0 {
		c.errs.add(at.path, "no claim is named; name at least one or remove the key")
	}
	var rules []*rule
	for _, name := range sortedKeys(claims) {
		at, values := at.key(name), claims[name]
		err := CheckClaim(name)
		switch {
		case err != nil:
			c.errs.add(at.path, "%q %v", name, err)
		case values == nil:
			c.errs.add(at.path, "%s", emptyList)
		case c.values(at, values, checkClaimValue):
			rules = append(rules, &rule{
				where: at.where,
				need:  "needs one of " + strings.Join(values, ", "),
				holds: anyClaim(name, slices.Clone(values)),
				claim: name, values: values,
				user: true,
				kind: func(k *Kind) verdict { return ifPossible(k.provider()) },
			})
		}
	}
	return rules
}

// proof compiles the keys about the login.
func (c *compiler) proof(at place, s *Spec) (rules []*rule) {
	add := func(at place, err error, need string, d Demand) {
		if err != nil {
			c.errs.add(at.path, "%v", err)
			return
		}
		if d.Factors == 1 { // as every login has
			d.Factors = 0
		}
		rules = append(rules, &rule{
			where: at.where, need: need, demand: d, kind: d.kindWithProof,
			holds: func(id *Identity, req *Request) bool { return d.Met(&id.Proof, req.Now) },
		})
	}
	if s.Factors != 0 {
		add(at.key("factors"), CheckFactors(s.Factors), fmt.Sprintf("needs a sign-in with %s", factorsText(s.Factors)),
			Demand{Factors: s.Factors})
	}
	if s.MaxAge != 0 {
		add(at.key("max_age"), CheckMaxAge(s.MaxAge), fmt.Sprintf("needs a sign-in at most %s ago", ageText(s.MaxAge)),
			Demand{MaxAge: s.MaxAge})
	}
	return rules
}

func (c *compiler) any(at place, refs []Ref) []*rule {
	policies, texts := c.refs(at, refs)
	switch len(policies) {
	case 0:
		return nil
	case 1: // decisions then name the rule of that policy
		return []*rule{{where: at.index(0).where, need: "needs " + texts[0], policy: policies[0]}}
	}
	return []*rule{{
		where: at.where,
		need:  "needs at least one of " + strings.Join(texts, ", "),
		parts: policies,
		any:   true,
		holds: func(id *Identity, req *Request) bool {
			for _, p := range policies {
				if p.allows(id, req) {
					return true
				}
			}
			return false
		},
	}}
}

func (c *compiler) all(at place, refs []Ref) []*rule {
	policies, texts := c.refs(at, refs)
	rules := make([]*rule, len(policies))
	for i, p := range policies {
		rules[i] = &rule{where: at.index(i).where, need: "needs " + texts[i], policy: p}
	}
	return rules
}

func (c *compiler) none(at place, refs []Ref) []*rule {
	policies, texts := c.refs(at, refs)
	rules := make([]*rule, len(policies))
	for i, p := range policies {
		if looksAtMessages(c.specs, refs[i:i+1]) {
			c.errs.add(at.index(i).path, "%s", mcpUnderNone)
		}
		rules[i] = &rule{
			where: at.index(i).where,
			need:  "must not be met: " + texts[i],
			parts: policies[i : i+1],
			holds: func(id *Identity, req *Request) bool { return !p.allows(id, req) },
		}
	}
	return rules
}

// together compiles the policy that holds if all of refs hold. A single one has the place itself.
func (c *compiler) together(at place, refs []Ref) *Policy {
	if len(refs) == 0 {
		c.errs.add(at.path, "%s", emptyList)
		return &Policy{}
	}
	if len(refs) == 1 {
		p, _ := c.ref(at, refs[0])
		return p
	}
	whole := &Policy{}
	names := make([]string, len(refs))
	for i, ref := range refs {
		one := at.index(i)
		one.sep = at.sep
		p, _ := c.ref(one, ref)
		names[i] = p.name
		whole.rules = append(whole.rules, &rule{policy: p})
	}
	whole.name = strings.Join(names, ", ")
	return whole
}

// refs compiles a list of references and describes each.
func (c *compiler) refs(at place, refs []Ref) ([]*Policy, []string) {
	if refs != nil && len(refs) == 0 {
		c.errs.add(at.path, "%s", emptyList)
	}
	policies := make([]*Policy, len(refs))
	texts := make([]string, len(refs))
	for i, ref := range refs {
		policies[i], texts[i] = c.ref(at.index(i), ref)
	}
	return policies, texts
}

// ref compiles one reference and describes it. After an error the policy is the
// zero Policy.
func (c *compiler) ref(at place, ref Ref) (*Policy, string) {
	switch {
	case (ref.Name == "") == (ref.Spec == nil):
		c.errs.add(at.path, "%s", badRef)
		return &Policy{}, ""
	case ref.Spec != nil:
		if ref.Spec.Next != nil {
			c.errs.add(at.path+".next", "only a named policy can have next, at its top; "+
				"name the policy below policies, and refer to it here")
		}
		p := c.spec(at, ref.Spec)
		return &p, describe(at, p.rules)
	case c.named[ref.Name] == nil:
		c.errs.add(at.path, "there is no policy %q; %s", ref.Name, knownNames(c.named))
		return &Policy{}, ""
	}
	if cycle := c.cyclic[at.path]; cycle != "" {
		c.errs.add(at.path, "%s", cycle)
	}
	return c.named[ref.Name], "policy " + ref.Name
}

// describe describes the rules of a policy that has no name.
func describe(at place, rules []*rule) string {
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = strings.TrimPrefix(r.where, at.where+at.sep) + " " + r.need
	}
	return "(" + strings.Join(texts, " and ") + ")"
}

func knownNames(named map[string]*Policy) string {
	if len(named) == 0 {
		return "none is defined under policies"
	}
	return "expected one of " + strings.Join(sortedKeys(named), ", ")
}

// findCycles returns what is wrong with the cycles of references by name. The key is the path of
// the reference that closes the cycle. planned puts every Spec.Next in place.
func findCycles(specs map[string]*Spec, planned bool) map[string]string {
	cycles, fault := make(map[string]string), "the policy refers to itself: "
	if planned {
		fault = "the policy refers to itself once every next is in place: "
	}
	done := make(map[string]bool)
	var trail []string
	var visit func(name string)
	follow := func(path, target string) {
		if i := slices.Index(trail, target); i >= 0 {
			cycles[path] = fault + strings.Join(append(slices.Clone(trail[i:]), target), " -> ")
		} else if !done[target] {
			visit(target)
		}
	}
	visit = func(name string) {
		trail = append(trail, name)
		eachReference("policies."+name, specs[name], planned, follow)
		trail = trail[:len(trail)-1]
		done[name] = true
	}
	for _, name := range sortedKeys(specs) {
		if !done[name] {
			visit(name)
		}
	}
	return cycles
}

// eachReference calls f for every reference by name in s, at any depth. planned puts Spec.Next in place.
func eachReference(path string, s *Spec, planned bool, f func(path, name string)) {
	if s == nil {
		return
	}
	each := func(key string, refs []Ref) {
		for i, ref := range refs {
			path := fmt.Sprintf("%s.%s[%d]", path, key, i)
			if key == "next" && len(refs) == 1 {
				path = strings.TrimSuffix(path, "[0]") // as together has it
			}
			if ref.Spec != nil {
				eachReference(path, ref.Spec, planned, f)
			} else if ref.Name != "" {
				f(path, ref.Name)
			}
		}
	}
	if planned && s.Next != nil {
		each("next", s.Next)
		return
	}
	each("any", s.Any)
	each("all", s.All)
	each("none", s.None)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
