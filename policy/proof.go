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

// Proof tells by which factors a user has proved a login, and when. The zero Proof is one
// factor, at a time that is not known.
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

// Demand lists the factors and the age that a policy demands of a login. The zero Demand demands nothing.
type Demand struct {
	Factors int           `json:"factors,omitzero"` // 2; 0: any, because every login has one
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

// And returns the demand whose proof is enough for both.
func (d Demand) And(other Demand) Demand {
	d.Factors = max(d.Factors, other.Factors)
	if d.MaxAge == 0 || other.MaxAge != 0 && other.MaxAge < d.MaxAge {
		d.MaxAge = other.MaxAge
	}
	return d
}

// easier reports whether d is easier to meet than other for a user whose login has so many
// factors. Who has two is asked for two again rather than for a sign-in that is younger.
func (d Demand) easier(other Demand, factors int) bool {
	if d.MaxAge == other.MaxAge || d.Factors != other.Factors && factors < 2 {
		return d.Factors < other.Factors
	}
	return other.MaxAge != 0 && (d.MaxAge == 0 || d.MaxAge > other.MaxAge)
}

// Demand returns the demand of the policy that holds for each login of each user. It leaves
// out the demand of only one of several alternatives.
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

// possibleDemands returns all that a policy can demand of a login.
func (p *Policy) possibleDemands() (all []Demand) {
	var demanded []Demand // by single rules
	p.walk(map[*Policy]bool{}, func(r *rule) {
		if r.demand != (Demand{}) && !slices.Contains(demanded, r.demand) {
			demanded = append(demanded, r.demand)
		}
	})
	for _, one := range demanded {
		for _, other := range demanded {
			if both := one.And(other); !slices.Contains(all, both) {
				all = append(all, both)
			}
		}
	}
	return all
}

// probe is the memory for an identity after a sign-in, and for its request.
type probe struct {
	id, owner Identity
	request   Request
	amr       [1]string
}

// probe lends a probe, which put takes back.
func (rs *reasons) probe() *probe {
	if p, ok := rs.probes.Get().(*probe); ok {
		return p
	}
	return new(probe)
}

func (rs *reasons) put(p *probe) {
	*p = probe{} // it keeps no identity alive
	rs.probes.Put(p)
}

// after returns the identity as it is after a sign-in with so many factors, until the next call.
func (p *probe) after(id *Identity, factors int, at time.Time) *Identity {
	proof := Proof{AuthTime: at}
	if factors == 2 {
		p.amr[0] = TwoFactors
		proof.AMR = p.amr[:]
	}
	p.id = *id
	p.id.Proof = proof
	if id.Owner != nil {
		p.owner = *id.Owner
		p.owner.Proof, p.id.Owner = proof, &p.owner
	}
	return &p.id
}

// stepUp returns the easiest demand with which the policy holds after a sign-in that meets it. ok
// tells that there is one.
func (p *Policy) stepUp(possible []Demand, probe *probe, id *Identity, req *Request) (easiest Demand, ok bool) {
	for _, d := range possible {
		if (!ok || d.easier(easiest, id.Factors())) && !d.Met(&id.Proof, req.Now) && p.satisfied(d, probe, id, req) {
			easiest, ok = d, true
		}
	}
	return easiest, ok
}

// satisfied reports whether a sign-in that meets d is enough: one that just meets it and one that
// is made now, with as many factors as d demands and as the login has. A policy under none
// can refuse some of them.
func (p *Policy) satisfied(d Demand, probe *probe, id *Identity, req *Request) bool {
	at := &probe.request
	*at = *req
	at.Now = time.Unix(0, 0) // a sign-in is recent, also where req has no time
	oldest := time.Time{}
	if d.MaxAge != 0 {
		oldest = at.Now.Add(-d.MaxAge)
	}
	for _, signedIn := range []time.Time{oldest, at.Now} {
		most := max(d.Factors, id.Factors())
		if !p.allowsWithOwner(probe.after(id, d.Factors, signedIn), at) ||
			most != d.Factors && !p.allowsWithOwner(probe.after(id, most, signedIn), at) {
			return false
		}
	}
	return true
}
