package policy

import "slices"

// A request without credentials has no identity. In names, such a request is "nobody". A
// route that admits it decides about the request alone: a rule about the identity neither
// holds nor fails. So no such rule, also under none, opens a route that signing in would
// close.

// verdict tells whether a rule or a policy holds as far as that is known without an
// identity. The zero verdict is that the identity decides.
type verdict int

const (
	open  verdict = iota // some identities meet it, and some may not
	met                  // whatever the identity
	unmet                // whatever the identity
)

// not returns the verdict of a policy that must not be met.
func (v verdict) not() verdict {
	switch v {
	case met:
		return unmet
	case unmet:
		return met
	}
	return open
}

// AdmitsNobody reports whether the route also lets in requests without credentials, as far
// as its policy holds without an identity.
func (r *Route) AdmitsNobody() bool {
	last := len(r.Mechanisms) - 1
	return last > 0 && slices.Index(r.Mechanisms, None) == last
}

// byNobody ends a reason that was found without an identity.
const byNobody = ", judged without an identity"

// decideNobody decides about a request without credentials on a route that admits them.
func (r *Route) decideNobody(why *reasons, req *Request) Decision {
	if r.Policy == nil {
		return Decision{Outcome: Allow, Rule: ruleAuth, Reason: why.nobody}
	}
	failed, v := r.Policy.judge(withoutIdentity(nil, req))
	if v == met {
		return Decision{Outcome: Allow, Rule: r.Policy.name, Reason: why.nobody}
	}
	rule := "policy"
	if failed != nil {
		rule = failed.where
	}
	return Decision{
		Outcome: Challenge, Rule: rule, Reason: why.rules[failed] + byNobody, NoSignIn: !r.opensBySignIn(req),
	}
}

// opensBySignIn reports whether the policy can hold for a user who signs in in a browser.
func (r *Route) opensBySignIn(req *Request) bool {
	for _, kind := range [...]Kind{
		{Mechanism: Session, Provider: LocalProvider, Login: true, TwoFactors: true},
		{Mechanism: OIDC, Login: true, TwoFactors: true},
	} {
		if !r.Accepts(kind.Mechanism) {
			continue
		}
		if _, v := r.Policy.judge(withoutIdentity(&kind, req)); v != unmet {
			return true
		}
	}
	return false
}

// withoutIdentity returns the verdict of a rule for all identities of a kind, or, without a kind,
// for no identity.
func withoutIdentity(kind *Kind, req *Request) func(*rule) verdict {
	return func(r *rule) verdict {
		switch {
		case !r.request:
			if kind == nil || r.kind == nil {
				return open
			}
			return r.kind(kind)
		case r.holds(nil, req):
			return met
		}
		return unmet
	}
}

// judge returns the verdict on the policy by the verdicts on its rules. It also returns the first
// rule that is not met, and prefers an unmet one to an open one.
func (p *Policy) judge(known func(*rule) verdict) (failed *rule, all verdict) {
	if len(p.rules) == 0 {
		return nil, unmet
	}
	all = met
	for _, r := range p.rules {
		var part *rule
		var v verdict
		if r.policy != nil {
			part, v = r.policy.judge(known)
		} else {
			part, v = r, r.judge(known)
		}
		switch {
		case v == unmet:
			return part, unmet
		case v == open && all == met:
			failed, all = part, open
		}
	}
	return failed, all
}

// judge is Policy.judge for a rule that is no reference.
func (r *rule) judge(known func(*rule) verdict) verdict {
	switch {
	case r.any:
		return bestOf(r.parts, known)
	case len(r.parts) > 0: // none has one part
		_, v := r.parts[0].judge(known)
		return v.not()
	}
	return known(r)
}

// bestOf returns the verdict of alternatives.
func bestOf(parts []*Policy, known func(*rule) verdict) verdict {
	best := unmet
	for _, part := range parts {
		switch _, v := part.judge(known); v {
		case met:
			return met
		case open:
			best = open
		}
	}
	return best
}

// LooksAtClient reports whether the policy looks at the client's address, so that the answer
// to a request without credentials can differ between clients that send the same.
func (r *Route) LooksAtClient() bool { return r.Policy != nil && r.Policy.looksAtClient() }

func (p *Policy) looksAtClient() bool {
	return slices.ContainsFunc(p.rules, func(r *rule) bool {
		return r.key == networksKey || r.policy != nil && r.policy.looksAtClient() ||
			slices.ContainsFunc(r.parts, (*Policy).looksAtClient)
	})
}
