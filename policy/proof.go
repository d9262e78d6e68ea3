package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// TwoFactors is the value of Proof.AMR that tells that the user has proved two factors
// (RFC 8176, section 2).
const TwoFactors = "mfa"

// Proof is what a user has proved in a login. The zero Proof is one factor, at a time that
// is not known.
type Proof struct {
	// AMR are the methods by which the user proved it (RFC 8176): "pwd", "otp", "mfa".
	AMR []string `json:"amr,omitempty"`
	// AuthTime is when the user proved it; zero means that it is not known.
	AuthTime time.Time `json:"auth_time,omitzero"`
}

// Factors returns how many factors the user has proved: 2, or 1 for everything else.
func (p *Proof) Factors() int {
	if slices.Contains(p.AMR, TwoFactors) {
		return 2
	}
	return 1
}

// timeLeeway is how far AuthTime may be ahead of the time of a request. Another instance
// may have recorded it.
const timeLeeway = 5 * time.Second

// Demand is what a policy demands of a login. The zero Demand is nothing.
type Demand struct {
	Factors int           `json:"factors,omitzero"` // 1 or 2; 0: any
	MaxAge  time.Duration `json:"max_age,omitzero"` // since the user proved who they are; 0: any
}

// Seconds returns MaxAge as protocols have it. Less than a second is 0, which asks for a
// sign-in now.
func (d Demand) Seconds() int64 { return int64(d.MaxAge / time.Second) }

// String returns a demand in words: "2 factors, at most 15m ago". It is empty for nothing.
func (d Demand) String() string {
	var parts []string
	if d.Factors > 0 {
		parts = append(parts, factorsText(d.Factors))
	}
	if d.MaxAge > 0 {
		parts = append(parts, "at most "+ageText(d.MaxAge)+" ago")
	}
	return strings.Join(parts, ", ")
}

// Met reports whether a proof is enough at a time. A time that is not known, or that is
// yet to come, is not recent.
func (d Demand) Met(p *Proof, now time.Time) bool {
	if p.Factors() < d.Factors {
		return false
	}
	if d.MaxAge == 0 {
		return true
	}
	age := now.Sub(p.AuthTime)
	return !p.AuthTime.IsZero() && !now.IsZero() && age <= d.MaxAge && age >= -timeLeeway
}

// And returns what is enough for both demands.
func (d Demand) And(other Demand) Demand {
	d.Factors = max(d.Factors, other.Factors)
	if d.MaxAge == 0 || other.MaxAge != 0 && other.MaxAge < d.MaxAge {
		d.MaxAge = other.MaxAge
	}
	return d
}

// less reports whether d is easier to meet than other: it asks for fewer factors, or for
// as many and an older sign-in.
func (d Demand) less(other Demand) bool {
	if d.Factors != other.Factors {
		return d.Factors < other.Factors
	}
	return other.MaxAge != 0 && (d.MaxAge == 0 || d.MaxAge > other.MaxAge)
}

// Demand returns what the policy of the route demands of each login of each user. What only
// one of several alternatives asks for is left out.
func (r *Route) Demand() Demand {
	if r.Policy == nil {
		return Demand{}
	}
	return r.Policy.demands()
}

func (p *Policy) demands() (d Demand) {
	for _, r := range p.rules {
		if r.policy != nil {
			d = d.And(r.policy.demands())
		} else {
			d = d.And(r.demand)
		}
	}
	return d
}

// CheckFactors returns an error unless a policy may demand so many factors.
func CheckFactors(factors int) error {
	if factors != 1 && factors != 2 {
		return fmt.Errorf("%d is not a number of factors that a sign-in can have; expected 1 or 2", factors)
	}
	return nil
}

// CheckMaxAge returns an error unless a policy may demand a sign-in of that age.
func CheckMaxAge(age time.Duration) error {
	if age <= 0 {
		return errors.New("expected a duration above zero, like 15m: no sign-in is younger than that")
	}
	return nil
}

func factorsText(n int) string {
	if n == 1 {
		return "1 factor"
	}
	return fmt.Sprintf("%d factors", n)
}

// ageText writes a duration without units that are zero: 15m, not 15m0s.
func ageText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// lack is why a policy does not hold for an identity.
type lack struct {
	failed *rule // nil: nothing, or the policy has no rules; see refused
	// refused tells that no sign-in of the user can make the policy hold. Else demand is
	// all that the login must prove, which may be nothing more than it has.
	refused bool
	demand  Demand
}

// lacking returns why a policy does not hold. failed is the first rule that no sign-in can
// make hold, or else the first that another one can.
//
// A rule of none that does not hold is refused: a sign-in that proves more meets more, so
// it cannot make the rule hold, unless none is in none. That is not looked for.
func (p *Policy) lacking(id *Identity, req *Request) lack {
	all := lack{refused: len(p.rules) == 0}
	for _, r := range p.rules {
		one := r.lacking(id, req)
		if one.refused {
			return one
		}
		if all.failed == nil {
			all.failed = one.failed
		}
		all.demand = all.demand.And(one.demand)
	}
	return all
}

func (r *rule) lacking(id *Identity, req *Request) lack {
	if r.policy != nil {
		return r.policy.lacking(id, req)
	}
	found := lack{demand: r.demand}
	if !r.holds(id, req) {
		found.failed = r
		found.refused = r.demand == Demand{}
	}
	if r.any {
		found.demand, found.refused = r.leastDemand(id, req)
	}
	return found
}

// leastDemand returns what the alternative demands that is the easiest to meet. refused
// tells that none can be met.
func (r *rule) leastDemand(id *Identity, req *Request) (least Demand, refused bool) {
	refused = true
	for _, part := range r.parts {
		one := part.lacking(id, req)
		if !one.refused && (refused || one.demand.less(least)) {
			least, refused = one.demand, false
		}
	}
	return least, refused
}
