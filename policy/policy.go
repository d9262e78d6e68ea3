package policy

import (
	"maps"
	"strings"
)

// Policy decides whether an identity may make a request. It comes from a Set
// and does not change. The zero Policy allows nothing.
type Policy struct {
	// name is the name in decisions: "policy admin", or "policy" for a policy
	// that is written in a route.
	name  string
	rules []*rule // all of them must hold

	next *next // nil: it leads to no policy with Spec.Next
}

// rule is one key of a policy.
type rule struct {
	where string // "policy admin: any[0].networks"
	need  string // "needs an address in 192.0.2.0/24"

	// Exactly one of these is set. If policy is set, the rule that fails is a
	// rule of that policy.
	holds  func(*Identity, *Request) bool
	policy *Policy

	parts  []*Policy // that holds evaluates, if any
	demand Demand    // that the rule makes of a login
	any    bool      // one of parts must hold

	key    string   // of a list of values; empty for other rules
	values []string // of which the rule needs one or all
	claim  string   // of which the rule needs one of values

	// A rule that is not about the request alone cannot hold without an identity. kind gives its
	// verdict for all identities of a kind; nil: it can hold, and not hold.
	request bool
	user    bool // the rule is about who the user is, whatever the request and the credential
	kind    func(*Kind) verdict
}

// refusal returns the first rule that does not hold and false, or nil and true
// if all rules hold. The zero Policy returns nil and false.
func (p *Policy) refusal(id *Identity, req *Request) (*rule, bool) {
	for _, r := range p.rules {
		if r.policy != nil {
			if failed, ok := r.policy.refusal(id, req); !ok {
				return failed, false
			}
		} else if !r.holds(id, req) {
			return r, false
		}
	}
	return nil, len(p.rules) > 0
}

func (p *Policy) allows(id *Identity, req *Request) bool {
	_, ok := p.refusal(id, req)
	return ok
}

// allowsWithOwner reports whether the policy holds for an identity and for its owner.
func (p *Policy) allowsWithOwner(id *Identity, req *Request) bool {
	return p.allows(id, req) && (id.Owner == nil || p.allows(id.Owner, req))
}

// failing returns the first rule that holds neither for id nor for other, and nil if the
// policy has no such rule. by tells that only the owners do not meet it.
func (p *Policy) failing(id, other *Identity, req *Request) (failed *rule, by string) {
	if failed = p.failingFor(id, other, req); failed == nil && id.Owner != nil {
		return p.failingFor(id.Owner, other.Owner, req), byOwner
	}
	return failed, ""
}

func (p *Policy) failingFor(id, other *Identity, req *Request) *rule {
	for _, r := range p.rules {
		failed := r
		if r.policy != nil {
			failed = r.policy.failingFor(id, other, req)
		} else if r.holds(id, req) || r.holds(other, req) {
			failed = nil
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// eachRule calls f once for every rule that refusal can return.
func (p *Policy) eachRule(seen map[*Policy]bool, f func(*rule)) {
	if seen[p] {
		return
	}
	seen[p] = true
	for _, r := range p.rules {
		if r.policy != nil {
			r.policy.eachRule(seen, f)
		} else {
			f(r)
		}
	}
}

// walk calls f once for every rule, also for those of which others are made.
func (p *Policy) walk(seen map[*Policy]bool, f func(*rule)) {
	if seen[p] {
		return
	}
	seen[p] = true
	for _, r := range p.rules {
		f(r)
		if r.policy != nil {
			r.policy.walk(seen, f)
		}
		for _, part := range r.parts {
			part.walk(seen, f)
		}
	}
}

// Set is a set of named policies. The zero Set has none.
type Set struct {
	policies map[string]*Policy
	planned  map[string]*Policy // with every Spec.Next in place: the same unless they lead to one
	specs    map[string]*Spec
	broken   bool
}

// Compile checks and compiles policies. The error is an Errors with paths like
// "policies.admin.any[1].networks[0]", sorted by name and then in the order of
// the fields of Spec.
//
// Compile returns a Set even with an error, so that routes can be checked too.
// This Set knows all names, and its policies allow nothing.
func Compile(specs map[string]*Spec) (*Set, error) {
	set := &Set{
		policies: make(map[string]*Policy, len(specs)), planned: make(map[string]*Policy, len(specs)), specs: specs,
	}
	for name := range specs {
		set.policies[name] = &Policy{}
		if set.planned[name] = set.policies[name]; nextOf(specs, []Ref{{Name: name}}) != nil {
			set.planned[name] = &Policy{}
		}
	}
	c, planned := compiler{named: set.policies, specs: specs}, compiler{named: set.planned, specs: specs}
	c.cyclic = findCycles(specs, true)
	maps.Copy(c.cyclic, findCycles(specs, false))
	for _, name := range sortedKeys(specs) {
		if name == "" {
			c.errs.add("policies", "the name of a policy is empty; give it a name")
		}
		at := place{path: "policies." + name, where: "policy " + name, sep: ": "}
		*set.policies[name] = c.spec(at, specs[name])
		if set.planned[name] != set.policies[name] {
			*set.planned[name] = planned.plan(at, specs[name])
		}
		if s := specs[name]; s != nil && s.Next != nil {
			c.together(at.key("next"), s.Next) // for its faults
		}
	}
	if err := c.errs.err(); err != nil {
		set.broken = true
		return set, err
	}
	return set, nil
}

// Policy returns the policy that holds if all of refs hold, or nil if refs is
// nil. The error is an Errors. Its paths begin with path if there is one policy,
// and with path and an index if there are several.
func (s *Set) Policy(path string, refs []Ref) (*Policy, error) {
	if refs == nil {
		return nil, nil
	}
	at := place{path: path, where: "policy", sep: ": "}
	c := compiler{named: s.policies, specs: s.specs}
	whole := c.together(at, refs)
	if err := c.errs.err(); err != nil {
		return nil, err
	}
	if s.broken {
		return &Policy{}, nil
	}
	if names := nextOf(s.specs, refs); names != nil {
		planned := compiler{named: s.planned, specs: s.specs}
		with := *whole
		with.next = &next{policy: planned.together(at, refs), names: strings.Join(names, ",")}
		return &with, nil
	}
	return whole, nil
}
