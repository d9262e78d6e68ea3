package policy

import "strings"

// Outcome is the result of a decision. The zero value is Forbid.
type Outcome int

// The outcomes. Challenge means that the request needs an identity. Forbid means
// that its identity is not enough.
const (
	Forbid Outcome = iota
	Challenge
	Allow
)

// String returns "forbid", "challenge" or "allow", as in the metric label
// decision.
func (o Outcome) String() string {
	switch o {
	case Challenge:
		return "challenge"
	case Allow:
		return "allow"
	}
	return "forbid"
}

// Decision is the answer to one request. Its texts come from the configuration
// and contain nothing that a client sent.
type Decision struct {
	Outcome Outcome
	// Rule is what decided: "public" for a public route, "auth" for the list
	// of mechanisms, else a policy or one of its rules, such as
	// "policy admin: any[0].networks". A rule has the name of the policy in
	// which it is written, also if another policy refers to that one.
	Rule string
	// Reason is a line for operators that also names the route:
	// "route admin: policy admin: roles: needs one of admin".
	Reason string
}

// Rules that are not part of a policy.
const (
	rulePublic = "public"
	ruleAuth   = "auth"
)

// reasons are the texts of Decision.Reason for a route, made in advance.
type reasons struct {
	public, closed, challenge, mechanism, authenticated, met string

	rules map[*rule]string // by the rule that fails; nil for a policy without rules
}

func newReasons(r *Route) *reasons {
	mechanisms := make([]string, len(r.Mechanisms))
	for i, m := range r.Mechanisms {
		mechanisms[i] = string(m)
	}
	accepted := strings.Join(mechanisms, ", ")
	prefix := "route " + r.label() + ": "
	rs := &reasons{
		public:        prefix + rulePublic + ": open to all",
		closed:        prefix + ruleAuth + ": accepts no mechanism",
		challenge:     prefix + ruleAuth + ": no identity is proved; accepts " + accepted,
		mechanism:     prefix + ruleAuth + ": the mechanism is not accepted; accepts " + accepted,
		authenticated: prefix + ruleAuth + ": open to every identity proved by " + accepted,
		rules:         map[*rule]string{nil: prefix + "policy: has no rules, so it allows nothing"},
	}
	if r.Policy != nil {
		rs.met = prefix + r.Policy.name + ": met"
		r.Policy.eachRule(make(map[*Policy]bool), func(failed *rule) {
			rs.rules[failed] = prefix + failed.where + ": " + failed.need
		})
	}
	return rs
}

// Decide decides whether id may make req on this route. A nil id means that the
// request has no credentials.
//
// A public route allows every request. Any other route challenges a nil id. It
// forbids an identity that was proved by a mechanism that it does not accept, or
// for which its policy does not hold. The zero Route forbids every request.
//
// On a Route of a Table, Decide allocates nothing.
func (r *Route) Decide(id *Identity, req *Request) Decision {
	why := r.reasons
	if why == nil {
		why = newReasons(r)
	}
	switch {
	case len(r.Mechanisms) == 0:
		return Decision{Forbid, ruleAuth, why.closed}
	case r.Public():
		return Decision{Allow, rulePublic, why.public}
	case id == nil:
		return Decision{Challenge, ruleAuth, why.challenge}
	case !r.Accepts(id.Mechanism):
		return Decision{Forbid, ruleAuth, why.mechanism}
	case r.Policy == nil:
		return Decision{Allow, ruleAuth, why.authenticated}
	}
	failed, ok := r.Policy.refusal(id, req)
	switch {
	case ok:
		return Decision{Allow, r.Policy.name, why.met}
	case failed == nil:
		return Decision{Forbid, "policy", why.rules[nil]}
	}
	return Decision{Forbid, failed.where, why.rules[failed]}
}
