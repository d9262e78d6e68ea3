package policy

// AllowsUser reports whether the policy can hold for the user of id, by who they are: roles,
// names, addresses, providers and claims. Its demands on the request, the credential and the
// sign-in are left open. Of an identity with an owner, the owner counts.
func (r *Route) AllowsUser(id *Identity) bool {
	if r.Policy == nil {
		return true
	}
	if id.Owner != nil {
		id = id.Owner
	}
	_, v := r.Policy.judge(func(r *rule) verdict {
		switch {
		case !r.user:
			return open
		case r.holds(id, nil):
			return met
		}
		return unmet
	})
	return v != unmet
}
