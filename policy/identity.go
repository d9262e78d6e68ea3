package policy

import "time"

// Mechanism is one of the ways of proving who one is.
type Mechanism string

// The mechanisms, as routes name them under auth and as the upstream sees
// them in X-Auth-Mechanism. None stands in a route's list only: it makes the
// route public.
const (
	None    Mechanism = "none"
	Basic   Mechanism = "basic"
	Session Mechanism = "session"
	Bearer  Mechanism = "bearer"
	OIDC    Mechanism = "oidc"
)

// LocalProvider is Identity.Provider of accounts that the gateway keeps
// itself; no configured provider may bear the name.
const LocalProvider = "local"

// BasicProvider is Identity.Provider of shared Basic credentials; no
// configured provider may bear the name.
const BasicProvider = "basic"

// Identity is who is asking, proved by one mechanism. It is the only identity
// type of the gateway and is never changed once made, so that one value may
// serve many requests at once.
type Identity struct {
	// Username is the login name, unique within Provider only.
	Username string
	// Subject is unique among all sources and stable: "local:alice",
	// "basic:service" or "PROVIDER:sub".
	Subject string
	// Name is the display name, empty when unknown.
	Name string
	// Email is the address, empty when unknown or when the provider calls it
	// unverified.
	Email string
	// Roles are the identity's roles; no entry is empty.
	Roles []string
	// Scopes are the OAuth scopes of the credential, where it has any.
	Scopes []string
	// Claims are further claims of the provider, by name, as decoded from
	// JSON.
	Claims map[string]any
	// Mechanism is the one that proved the identity.
	Mechanism Mechanism
	// Provider is where the account lives: LocalProvider, BasicProvider or
	// the name of a configured provider.
	Provider string
	// Login is the public identifier (sid) of the login that the credential
	// belongs to, empty where there is none.
	Login string
	// Expires is when the credential ends by itself; zero means never.
	Expires time.Time
}
