package policy

import "slices"

// Kind is a kind of credentials, with the properties that all identities by it share.
type Kind struct {
	Mechanism Mechanism
	// Provider is the source of the accounts. Empty means any at which users sign in themselves.
	Provider string
	// Scopes tells that the credential can have scopes, and Actor that a client can have it to act for
	// the user. Login tells that it can belong to a login whose time is known, and TwoFactors that its
	// users can prove two factors.
	Scopes, Actor, Login, TwoFactors bool
}

// provider reports whether the accounts are at a provider or another issuer, which says more about
// users than the gateway knows of its own.
func (k *Kind) provider() bool {
	switch k.Provider {
	case LocalProvider, BasicProvider, ClientProvider:
		return false
	}
	return true
}

// at reports whether the accounts can be those of a provider.
func (k *Kind) at(provider string) bool {
	return k.Provider == provider || k.Provider == "" && (&Kind{Provider: provider}).provider()
}

// The verdicts on values of a key for all identities of a kind.

func ifPossible(possible bool) verdict {
	if possible {
		return open
	}
	return unmet
}

func kindWithRoles([]string) func(*Kind) verdict {
	return func(k *Kind) verdict { return ifPossible(k.Provider != BasicProvider) }
}

func kindWithAddress([]string) func(*Kind) verdict {
	return func(k *Kind) verdict { return ifPossible(k.Provider != BasicProvider && k.Provider != ClientProvider) }
}

func kindWithScopes([]string) func(*Kind) verdict {
	return func(k *Kind) verdict { return ifPossible(k.Scopes) }
}

func kindWithActor([]string) func(*Kind) verdict {
	return func(k *Kind) verdict { return ifPossible(k.Actor) }
}

func kindByMechanism(mechanisms []string) func(*Kind) verdict {
	return func(k *Kind) verdict {
		if slices.Contains(mechanisms, string(k.Mechanism)) {
			return met
		}
		return unmet
	}
}

func kindAtProviders(providers []string) func(*Kind) verdict {
	return func(k *Kind) verdict {
		if k.Provider != "" && slices.Contains(providers, k.Provider) {
			return met
		}
		return ifPossible(slices.ContainsFunc(providers, k.at))
	}
}

func kindOfUsers(users []string) func(*Kind) verdict {
	providers := make([]string, len(users))
	for i, user := range users {
		providers[i], _ = splitUser(user)
	}
	return func(k *Kind) verdict { return ifPossible(slices.ContainsFunc(providers, k.at)) }
}

// kindWithProof is the verdict on a demand.
func (d Demand) kindWithProof(k *Kind) verdict {
	if d == (Demand{}) {
		return met
	}
	return ifPossible((d.MaxAge == 0 || k.Login) && (d.Factors < 2 || k.TwoFactors))
}
