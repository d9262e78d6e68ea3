package policy

// OpensMore reports whether the policy of the route may hold for an identity where it does not hold
// for another one. It compares who they are: roles, name, address, claims and provider. All else,
// such as the client's address, the method, or the factors of a login, may be anything, and is the
// same for both. If a policy asks for the same of that twice, OpensMore may report too much, and
// never too little.
func (r *Route) OpensMore(id, than *Identity) bool {
	return r.Policy != nil && r.Policy.compare(id, than)&onlyFirst != 0
}

// outcomes is a set of possible results of a rule for two identities. An outcome has bit 1
// if the rule holds for the first identity, and bit 0 if it does for the second.
type outcomes uint8

const (
	neither   outcomes = 1 << 0b00
	onlyFirst outcomes = 1 << 0b10
	both      outcomes = 1 << 0b11
)

// with returns the outcomes of two rules together.
func (o outcomes) with(other outcomes, together func(a, b int) int) (all outcomes) {
	for a := range 4 {
		for b := range 4 {
			if o&(1<<a) != 0 && other&(1<<b) != 0 {
				all |= 1 << together(a, b)
			}
		}
	}
	return all
}

func (o outcomes) and(other outcomes) outcomes {
	return o.with(other, func(a, b int) int { return a & b })
}

func (o outcomes) or(other outcomes) outcomes {
	return o.with(other, func(a, b int) int { return a | b })
}

// not returns the outcomes of an exclusion (none).
func (o outcomes) not() outcomes {
	return o.with(both, func(a, b int) int { return a ^ b })
}

// compare returns the outcomes of the policy for two identities.
func (p *Policy) compare(id, than *Identity) outcomes {
	if len(p.rules) == 0 {
		return neither
	}
	all := both
	for _, r := range p.rules {
		all = all.and(r.compare(id, than))
	}
	return all
}

func (r *rule) compare(id, than *Identity) outcomes {
	switch {
	case r.policy != nil:
		return r.policy.compare(id, than)
	case r.any:
		all := neither
		for _, part := range r.parts {
			all = all.or(part.compare(id, than))
		}
		return all
	case len(r.parts) > 0: // none has one part
		return r.parts[0].compare(id, than).not()
	case !r.user:
		return neither | both
	}
	outcome := 0
	if r.holds(id, nil) {
		outcome |= 0b10
	}
	if r.holds(than, nil) {
		outcome |= 0b01
	}
	return 1 << outcome
}
