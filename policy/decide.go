package policy

import (
	"strings"
	"sync"
)

// Outcome is the result of a decision. The zero value is Forbid.
type Outcome int

// The outcomes, from the one that lets in least. Forbid means that the identity of the
// request is not enough. Challenge means that the request needs an identity.
const (
	Forbid Outcome = iota
	Challenge
	// StepUp means that the identity would be enough if its login had proved more. The user
	// may prove that by another sign-in.
	StepUp
	Allow
)

// String returns "forbid", "challenge" or "allow", as in the metric label
// decision. A step-up is a challenge.
func (o Outcome) String() string {
	switch o {
	case Challenge, StepUp:
		return "challenge"
	case Allow:
		return "allow"
	}
	return "forbid"
}

// Word returns the outcome for people: "forbid", "sign-in" (Challenge), "step-up" or "allow".
func (o Outcome) Word() string {
	switch o {
	case Challenge:
		return "sign-in"
	case StepUp:
		return "step-up"
	}
	return o.String()
}

// Outcomes is how many outcomes there are.
const Outcomes = int(Allow) + 1

// Decision is the answer to one request. Its texts come from the configuration
// and contain nothing that a client sent.
type Decision struct {
	Outcome Outcome
	// Rule names the rule that decided: "public" for a public route, "auth"
	// for the list of mechanisms, else a policy or one of its rules, such as
	// "policy admin: any[0].networks". A rule has the name of the policy in
	// which it is written, also if another policy refers to that policy.
	Rule string
	// Reason is a line for operators that also names the route:
	// "route admin: policy admin: roles: needs one of admin".
	Reason string
	// Demand is all that the next sign-in must prove, if Outcome is StepUp, also if
	// this login has proved a part of it.
	Demand Demand
	// NoSignIn tells of a Challenge that no sign-in of a browser can make the policy hold.
	NoSignIn bool
}

// Rules that are not part of a policy.
const (
	rulePublic = "public"
	ruleAuth   = "auth"
)

// reasons are the texts of Decision.Reason for a route, made in advance. Those
// that cannot be needed are empty.
type reasons struct {
	public, closed, challenge, mechanism, authenticated, met string

	nobody string // lets in a request without credentials

	rules map[*rule]string // by the rule that fails; nil for a policy without rules

	demands []Demand  // all that the policy can demand of a login
	probes  sync.Pool // of *probe
}

func newReasons(r *Route) *reasons {
	prefix := "route " + r.Label() + ": "
	switch {
	case len(r.Mechanisms) == 0:
		return &reasons{closed: prefix + ruleAuth + ": accepts no mechanism"}
	case r.Public():
		return &reasons{public: prefix + rulePublic + ": open to all"}
	}
	accepted := r.accepted()
	rs := &reasons{
		challenge: prefix + ruleAuth + ": no identity is proved; accepts " + accepted,
		mechanism: prefix + ruleAuth + ": the mechanism is not accepted; accepts " + accepted,
	}
	if r.Policy == nil {
		rs.authenticated = prefix + ruleAuth + ": open to every identity proved by " + accepted
		rs.nobody = prefix + ruleAuth + ": open to requests without credentials"
		return rs
	}
	rs.met = prefix + r.Policy.name + ": met"
	rs.nobody = rs.met + byNobody
	rs.demands = r.Policy.possibleDemands()
	rs.rules = map[*rule]string{nil: prefix + "policy: has no rules, so it allows nothing"}
	r.Policy.eachRule(make(map[*Policy]bool), func(failed *rule) {
		rs.rules[failed] = prefix + failed.where + ": " + failed.need
	})
	return rs
}

// accepted lists the mechanisms.
func (r *Route) accepted() string {
	var list strings.Builder
	for i, m := range r.Mechanisms {
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString(string(m))
	}
	return list.String()
}

// Decide decides whether id may make req on this route. A nil id means that the
// request has no credentials.
//
// A public route allows every request. Any other route challenges a nil id, unless it
// admits requests without credentials and its policy holds without an identity. It
// forbids an identity that was proved by a mechanism that it does not accept, or for which its policy
// does not hold. If the policy would hold for the same user
// after a sign-in that proves more, the outcome is StepUp. The zero Route forbids
// every request.
//
// For an identity with an owner, the policy must hold for the owner too.
//
// On a Route of a Table, Decide allocates only for the reason of a refusal without an
// identity or by the roles of an owner.
func (r *Route) Decide(id *Identity, req *Request) Decision {
	why := r.reasons
	if why == nil {
		why = newReasons(r)
	}
	switch {
	case len(r.Mechanisms) == 0:
		return Decision{Outcome: Forbid, Rule: ruleAuth, Reason: why.closed}
	case r.Public():
		return Decision{Outcome: Allow, Rule: rulePublic, Reason: why.public}
	case id == nil && r.AdmitsNobody():
		return r.decideNobody(why, req)
	case id == nil:
		return Decision{Outcome: Challenge, Rule: ruleAuth, Reason: why.challenge}
	case !r.Accepts(id.Mechanism):
		return Decision{Outcome: Forbid, Rule: ruleAuth, Reason: why.mechanism}
	case r.Policy == nil:
		return Decision{Outcome: Allow, Rule: ruleAuth, Reason: why.authenticated}
	}
	if r.Policy.allowsWithOwner(id, req) {
		return Decision{Outcome: Allow, Rule: r.Policy.name, Reason: why.met}
	}
	return r.refuse(why, id, req)
}

// refuse decides on an identity for which the policy does not hold. The rule that it names is the
// first that does not hold, or, if no sign-in helps, the first that none makes hold.
func (r *Route) refuse(why *reasons, id *Identity, req *Request) Decision {
	d := Decision{Outcome: Forbid, Rule: "policy"}
	failed, by := r.Policy.failing(id, id, req)
	if len(why.demands) > 0 {
		var helps bool
		probe := why.probe()
		if d.Demand, helps = r.Policy.stepUp(why.demands, probe, id, req); helps {
			d.Outcome = StepUp
		} else if final, byFinal := r.Policy.failing(id, probe.after(id, 2, req.Now), req); final != nil {
			failed, by = final, byFinal
		}
		why.put(probe)
	}
	if failed != nil {
		d.Rule = failed.where
	}
	d.Reason = why.rules[failed] + by
	return d
}

// byOwner ends a reason that the roles of Identity.Owner decide.
const byOwner = ", judged by all roles of the owner of the token"
