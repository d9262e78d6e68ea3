package policy

import (
	"fmt"
	"slices"
)

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

// oncePlanned follows "the policy refers to itself".
const oncePlanned = " once every next is in place"

// plan compiles the policy that is to come in the place of a named one.
func (c *compiler) plan(at place, s *Spec) Policy {
	if s == nil || s.Next == nil {
		return c.spec(at, s)
	}
	at = at.key("next")
	// A policy of its own, because the one that next names may not be compiled yet.
	return Policy{name: at.where, rules: []*rule{{policy: c.together(at, s.Next)}}}
}

// newErrors removes the errors of c, and returns those that another compiler of the same specs, without
// their Next, does not have.
func (c *compiler) newErrors(other *compiler) (errs Errors) {
	for _, err := range c.errs {
		if !slices.ContainsFunc(other.errs, func(e Error) bool { return e.Path == err.Path }) {
			errs = append(errs, err)
		}
	}
	c.errs = nil
	return errs
}

// eachNext calls f for every reference by name in Spec.Next of a named policy, at any depth.
func eachNext(name string, s *Spec, f func(path, name string)) {
	for i, ref := range s.Next {
		path := "policies." + name + ".next"
		if len(s.Next) > 1 {
			path = fmt.Sprintf("%s[%d]", path, i)
		}
		if ref.Spec != nil {
			eachReference(path, ref.Spec, f)
		} else if ref.Name != "" {
			f(path, ref.Name)
		}
	}
}

// findNext returns to which policies with Spec.Next each policy leads, now or once every one is in place.
func findNext(specs map[string]*Spec) map[string][]string {
	leads := map[string][]string{}
	for target, spec := range specs {
		if spec == nil || spec.Next == nil {
			continue
		}
		for name := range leadingTo(specs, target) {
			leads[name] = append(leads[name], target)
		}
	}
	for _, names := range leads {
		slices.Sort(names)
	}
	return leads
}

// leadingTo returns the names of the policies that lead to a target, itself included.
func leadingTo(specs map[string]*Spec, target string) map[string]bool {
	leading := map[string]bool{target: true}
	for grown := true; grown; {
		grown = false
		for name, spec := range specs {
			if leading[name] || spec == nil {
				continue
			}
			follow := func(_, to string) {
				if leading[to] {
					leading[name] = true
				}
			}
			eachReference("", spec, follow)
			eachNext(name, spec, follow)
			grown = grown || leading[name]
		}
	}
	return leading
}

// nextOf returns the policies with Spec.Next to which refs lead, sorted.
func (s *Set) nextOf(refs []Ref) (names []string) {
	for _, ref := range refs {
		names = append(names, s.leads[ref.Name]...)
		eachReference("", ref.Spec, func(_, name string) { names = append(names, s.leads[name]...) })
	}
	slices.Sort(names)
	return slices.Compact(names)
}
