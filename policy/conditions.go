package policy

// Condition is one rule of a route, and whether it holds for a request.
type Condition struct {
	Rule  string // as in Decision.Rule
	Needs string // the need of the rule: "needs one of admin"
	Holds bool
	// Depth is 0 for a condition that must hold, and one more for the parts of a
	// condition that combines them: the alternatives of any, the exclusions of none.
	Depth int
}

// Conditions returns every condition of the route for id and req: first whether the
// mechanism is accepted, then each rule of the policy in the order of the
// configuration. It lists a policy once, however many references lead to it. A nil
// id has no property. On a route that admits requests without credentials, a rule holds
// for it only if it would for every identity. For an identity with an owner, it adds the rules of which the
// owner decides otherwise.
//
// Decide allows the request if all conditions of depth 0 hold. Otherwise, unless it challenges,
// its decision names the first condition that fails, and prefers one that no sign-in can change.
func (r *Route) Conditions(id *Identity, req *Request) []Condition {
	switch {
	case len(r.Mechanisms) == 0:
		return []Condition{{Rule: ruleAuth, Needs: "accepts no mechanism"}}
	case r.Public():
		return []Condition{{Rule: rulePublic, Needs: "open to all", Holds: true}}
	}
	nobody := id == nil && r.AdmitsNobody()
	conditions := []Condition{{
		Rule: ruleAuth, Needs: "needs authentication by one of " + r.accepted(),
		Holds: nobody || id != nil && r.Accepts(id.Mechanism),
	}}
	switch {
	case r.Policy == nil:
		return conditions
	case nobody:
		holds := func(rule *rule) bool { return rule.judge(withoutIdentity(nil, req)) == met }
		return append(conditions, list(r.Policy, holds)...)
	case id == nil:
		id = &Identity{}
	}
	own := list(r.Policy, holdsFor(id, req))
	conditions = append(conditions, own...)
	if id.Owner != nil {
		conditions = append(conditions, others(own, list(r.Policy, holdsFor(id.Owner, req)))...)
	}
	return conditions
}

// others returns the conditions of an owner that differ from those of the identity,
// with their parts. Both lists have the same rules.
func others(own, owner []Condition) []Condition {
	var differ []Condition
	differs := false
	for i, c := range owner {
		if c.Depth == 0 {
			differs = c.Holds != own[i].Holds
		}
		if differs {
			c.Needs += byOwner
			differ = append(differ, c)
		}
	}
	return differ
}

// holdsFor returns whether a rule holds for an identity.
func holdsFor(id *Identity, req *Request) func(*rule) bool {
	return func(r *rule) bool { return r.holds(id, req) }
}

// list returns the conditions of a policy.
func list(p *Policy, holds func(*rule) bool) []Condition {
	l := &lister{holds: holds, listed: map[listed]bool{}}
	l.list(p, 0)
	return l.conditions
}

// lister makes a list of conditions.
type lister struct {
	conditions []Condition
	holds      func(*rule) bool
	listed     map[listed]bool
}

// listed is a policy that is in the list already. Many references may lead to it.
type listed struct {
	policy *Policy
	part   bool // only as a part of a condition
}

func (l *lister) list(p *Policy, depth int) {
	at := listed{p, depth > 0}
	if l.listed[at] {
		return
	}
	l.listed[at] = true
	if len(p.rules) == 0 {
		l.conditions = append(l.conditions, Condition{Rule: "policy", Needs: "has no rules, so it allows nothing",
			Depth: depth})
	}
	for _, rule := range p.rules {
		if rule.policy != nil {
			l.list(rule.policy, depth)
			continue
		}
		l.conditions = append(l.conditions, Condition{Rule: rule.where, Needs: rule.need, Holds: l.holds(rule),
			Depth: depth})
		for _, part := range rule.parts {
			l.list(part, depth+1)
		}
	}
}
