package policy

import "slices"

// scopesKey is the key of a Spec that names scopes.
const scopesKey = "scopes"

// Scopes returns the scopes that the policy of the route names and a credential may need,
// sorted.
func (r *Route) Scopes() []string {
	if r.Policy == nil {
		return nil
	}
	all := r.Policy.scopes(nil)
	slices.Sort(all)
	return slices.Compact(all)
}

// scopes appends the scopes that p names. A policy that must not hold needs none.
func (p *Policy) scopes(all []string) []string {
	for _, r := range p.rules {
		if r.key == scopesKey {
			all = append(all, r.values...)
		}
		if r.policy != nil {
			all = r.policy.scopes(all)
		}
		if r.any {
			for _, part := range r.parts {
				all = part.scopes(all)
			}
		}
	}
	return all
}

// LackedScopes returns the scopes of the route, if the credential of an identity that the route
// does not let in lacks these and nothing else.
func (r *Route) LackedScopes(id *Identity, req *Request) []string {
	if id == nil || id.Mechanism != Bearer {
		return nil
	}
	scopes := r.Scopes()
	if len(scopes) == 0 {
		return nil
	}
	other := *id
	other.Scopes = scopes
	if id.Owner != nil {
		owner := *id.Owner
		owner.Scopes, other.Owner = scopes, &owner
	}
	if r.Decide(&other, req).Outcome == Forbid {
		return nil
	}
	if req.Message != nil {
		return r.neededScopes(scopes, id, &other, req)
	}
	return scopes
}

// neededScopes returns those of the scopes that an identity has or that help it with its message. So a client
// that asks for them loses none, and gets none of other tools. with is the identity with all of them.
func (r *Route) neededScopes(scopes []string, id, with *Identity, req *Request) (needed []string) {
	helps := false
	for _, scope := range scopes {
		has := slices.Contains(id.Scopes, scope)
		with.Scopes = append(slices.Clone(id.Scopes), scope)
		if with.Owner != nil {
			with.Owner.Scopes = with.Scopes
		}
		helpful := !has && r.Decide(with, req).Outcome != Forbid
		if helps = helps || helpful; has || helpful {
			needed = append(needed, scope)
		}
	}
	if !helps {
		return scopes
	}
	return needed
}
