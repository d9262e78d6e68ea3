package policy

import "slices"

// next is a policy with every Spec.Next in place.
type next struct {
	policy *Policy
	names  string // of the policies with Spec.Next to which it leads, with commas
}

// Next returns the route as it will be once every Spec.Next is in place, and the names of the policies
// with one to which it leads, with commas. It is nil if there are none.
func (r *Route) Next() (planned *Route, names string) {
	if r.Policy == nil || r.Policy.next == nil {
		return nil, ""
	}
	there := *r
	there.Policy = r.Policy.next.policy
	there.reasons = newReasons(&there)
	return &there, r.Policy.next.names
}

// plan compiles the policy that is to come in the place of a named one.
func (c *compiler) plan(at place, s *Spec) Policy {
	if s == nil || s.Next == nil {
		return c.spec(at, s)
	}
	at = at.key("next")
	// A policy of its own, because the one that next names may not be compiled yet.
	return Policy{name: at.where, rules: []*rule{{policy: c.together(at, s.Next)}}}
}

// reach calls f for each policy to which refs lead, now or once every Spec.Next is in place. The name is empty for
// one that is written in place. seen has the named ones for which f was called.
func reach(specs map[string]*Spec, refs []Ref, seen map[string]bool, f func(name string, s *Spec)) {
	for _, ref := range refs {
		s := ref.Spec
		if s == nil && !seen[ref.Name] {
			s, seen[ref.Name] = specs[ref.Name], true
		}
		if s != nil {
			f(ref.Name, s)
			reach(specs, slices.Concat(s.Any, s.All, s.None, s.Next), seen, f)
		}
	}
}

// nextOf returns the policies with Spec.Next to which refs lead, sorted.
func nextOf(specs map[string]*Spec, refs []Ref) (names []string) {
	reach(specs, refs, map[string]bool{}, func(name string, s *Spec) {
		if s.Next != nil {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	return names
}
