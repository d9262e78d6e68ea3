package policy

import "strings"

// Outcome is what becomes of a request. The zero value is Forbid.
type Outcome int

// The outcomes. Challenge asks for a proof of identity, Forbid tells that
// none of what was proved is enough.
const (
	Forbid Outcome = iota
	Challenge
	Allow
)

// String returns the outcome as the metric label decision shows it: "forbid",
// "challenge" or "allow".
func (o Outcome) String() string {
	switch o {
	case Challenge:
		return "challenge"
	case Allow:
		return "allow"
	}
	return "forbid"
}

// Decision is the answer to one request. Both texts come from the
// configuration alone and hold nothing that a client sent.
type Decision struct {
	Outcome Outcome
	// Rule is what decided: "public" for a public route, "auth" where it was
	// the list of mechanisms, else a policy or one of its rules, like
	// "policy admin: any[0].networks". A rule of a policy that another one
	// refers to is named after the policy in which it is written.
	Rule string
	// Reason is a line for operators that names the route too:
	// "route admin: policy admin: roles: needs one of admin".
	Reason string
}

// Rules that are no policy's.
const (
	rulePublic = "public"
	ruleAuth   = "auth"
)

// reasons are the reasons of a route, put together once.
type reasons struct {
	public, closed, challenge, mechanism, authenticated, met string

	rules map[*rule]string // nil stands for a policy without rules
}

func newReasons(r *Route) *reasons {
	mechanisms := make([]string, len(r.Mechanisms))
	for i, m := range r.Mechanisms {
		mechanisms[i] = string(m)
	}
	accepted := strings.Join(mechanisms, ", ")
	prefix := "route " + r.label() + ": "
	rs := &reasons{
		public:        prefix + rulePublic + ": open to everybody",
		closed:        prefix + ruleAuth + ": accepts no mechanism",
		challenge:     prefix + ruleAuth + ": nobody proved who is asking; accepts " + accepted,
		mechanism:     prefix + ruleAuth + ": the mechanism of the proof is not accepted; accepts " + accepted,
		authenticated: prefix + ruleAuth + ": open to every identity proved by " + accepted,
		rules:         map[*rule]string{nil: prefix + "policy: has no rules and allows nobody"},
	}
	if r.Policy != nil {
		rs.met = prefix + r.Policy.name + ": met"
		r.Policy.eachRule(make(map[*Policy]bool), func(failed *rule) {
			rs.rules[failed] = prefix + failed.where + ": " + failed.need
		})
	}
	return rs
}

// Decide answers whether id may make req on this route. A nil id is nobody:
// no credential was presented. On a public route everybody is allowed; else
// nobody is challenged, an identity must be proved by a mechanism that the
// route accepts, and the policy, where there is one, must hold. The zero
// Route forbids.
//
// On a Route of a Table it allocates nothing.
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
