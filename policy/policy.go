package policy

import (
	"fmt"
	"strings"
)

// Policy says yes or no to an identity that makes a request. It comes from a
// Set and does not change. The zero value says no to everybody.
type Policy struct {
	// name is how decisions call it: "policy admin", or "policy" for one
	// that is written in a route.
	name  string
	rules []*rule // every one must hold
}

// rule is one key of a policy.
type rule struct {
	where string // "policy admin: any[0].networks"
	need  string // "needs an address in 192.0.2.0/24"

	// Exactly one of these is set. A rule that is a whole policy leaves it to
	// that policy to say which of its rules failed.
	holds  func(*Identity, *Request) bool
	policy *Policy
}

// refusal returns the first rule that does not hold, and false; or nil and
// true when all of them hold. The zero policy refuses without a rule.
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

// eachRule calls f for every rule that refusal can return, once.
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

// Set is a set of named policies. The zero Set has none.
type Set struct {
	policies map[string]*Policy
	broken   bool
}

// Compile checks policies and makes them ready to decide. The error is an
// Errors with everything that is wrong, under paths like
// "policies.admin.any[1].networks[0]", by name and then in the order of
// Spec's fields.
//
// There is a Set even with an error: it knows every name, so that routes can
// be checked in the same go, and all its policies refuse everybody.
func Compile(specs map[string]*Spec) (*Set, error) {
	set := &Set{policies: make(map[string]*Policy, len(specs))}
	for name := range specs {
		set.policies[name] = &Policy{}
	}
	c := compiler{named: set.policies, cyclic: findCycles(specs)}
	for _, name := range sortedKeys(specs) {
		if name == "" {
			c.errs.add("policies", "a policy has the empty name; give it one")
		}
		at := place{path: "policies." + name, where: "policy " + name, sep: ": "}
		*set.policies[name] = c.spec(at, specs[name])
	}
	if err := c.errs.err(); err != nil {
		for name := range specs {
			*set.policies[name] = Policy{}
		}
		set.broken = true
		return set, err
	}
	return set, nil
}

// Policy returns the policy that holds when all of refs hold, and nil when
// refs is nil. The error is an Errors whose paths begin with path: path itself
// where there is one policy, "path[1]" where there are several.
func (s *Set) Policy(path string, refs []Ref) (*Policy, error) {
	if refs == nil {
		return nil, nil
	}
	c := compiler{named: s.policies}
	if len(refs) == 0 {
		c.errs.add(path, "%s", emptyList)
		return nil, c.errs.err()
	}
	policies := make([]*Policy, len(refs))
	for i, ref := range refs {
		at := place{path: path, where: "policy", sep: ": "}
		if len(refs) > 1 {
			at.path = fmt.Sprintf("%s[%d]", path, i)
			at.where = fmt.Sprintf("policy[%d]", i)
		}
		policies[i], _ = c.ref(at, ref)
	}
	if err := c.errs.err(); err != nil {
		return nil, err
	}
	if s.broken {
		return &Policy{}, nil
	}
	if len(policies) == 1 {
		return policies[0], nil
	}
	whole := &Policy{}
	names := make([]string, len(policies))
	for i, p := range policies {
		names[i] = p.name
		whole.rules = append(whole.rules, &rule{policy: p})
	}
	whole.name = strings.Join(names, ", ")
	return whole, nil
}
