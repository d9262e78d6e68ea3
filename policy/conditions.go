package policy

// Condition is one rule of a route, and whether it holds for a request.
type Condition struct {
	Rule  string // as in Decision.Rule
	Needs string // what the rule needs: "needs one of admin"
	Holds bool
	// Depth is 0 for a condition that must hold, and one more for the parts of a
	// condition that combines them: the alternatives of any, and what none excludes.
	Depth int
}

// Conditions returns every condition of the route for id and req: first whether the
// mechanism is accepted, then each rule of the policy in the order of the
// configuration. It lists a policy once, however many references lead to it. A nil
// id has no property.
//
// Decide allows the request if all conditions of depth 0 hold. Else, unless it
// challenges, its decision names the first of them that does not.
func (r *Route) Conditions(id *Identity, req *Request) []Condition {
	switch {
	case len(r.Mechanisms) == 0:
		return []Condition{{Rule: ruleAuth, Needs: "accepts no mechanism"}}
	case r.Public():
		return []Condition{{Rule: rulePublic, Needs: "open to all", Holds: true}}
	}
	conditions := []Condition{{
		Rule: ruleAuth, Needs: "needs authentication by one of " + r.accepted(), Holds: id != nil && r.Accepts(id.Mechanism),
	}}
	if id == nil {
		id = &Identity{}
	}
	l := &lister{conditions: conditions, id: id, req: req, listed: map[listed]bool{}}
	if r.Policy != nil {
		l.list(r.Policy, 0)
	}
	return l.conditions
}

// lister makes a list of conditions.
type lister struct {
	conditions []Condition
	id         *Identity
	req        *Request
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
		l.conditions = append(l.conditions, Condition{Rule: "policy", Needs: "has no rules, so it allows nothing", Depth: depth})
	}
	for _, rule := range p.rules {
		if rule.policy != nil {
			l.list(rule.policy, depth)
			continue
		}
		l.conditions = append(l.conditions, Condition{Rule: rule.where, Needs: rule.need, Holds: rule.holds(l.id, l.req), Depth: depth})
		for _, part := range rule.parts {
			l.list(part, depth+1)
		}
	}
}
