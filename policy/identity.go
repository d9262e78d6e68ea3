package policy

import (
	"maps"
	"slices"
	"time"
)

// LocalProvider is Identity.Provider of local accounts. No configured provider
// can have this name.
const LocalProvider = "local"

// BasicProvider is Identity.Provider of shared Basic credentials. No configured
// provider can have this name.
const BasicProvider = "basic"

// ClientProvider is Identity.Provider of OAuth clients that act for themselves. No
// configured provider can have this name.
const ClientProvider = "client"

// Identity is the authenticated user of a request. An Identity must not be
// changed: one value may serve many requests at once.
type Identity struct {
	// Username is the login name. It is unique within Provider only.
	Username string
	// Subject is unique over all providers and stable: "local:alice",
	// "basic:service" or "PROVIDER:sub".
	Subject string
	// Name is the display name, empty if unknown.
	Name string
	// Email is the address, empty if unknown or if the provider calls it
	// unverified.
	Email string
	// Unverified is the address in that case. No rule and no application sees it: only
	// clients of the authorization server get it, with the provider's word about it.
	Unverified string
	// Roles are the roles. No entry is empty.
	Roles []string
	// Owner is the identity with all roles of its owner, if the credential has
	// fewer, as an API token can. The policy must hold for both, so that a
	// credential without a role opens nothing more. It is nil if Roles are all there are.
	Owner *Identity
	// Actor is who makes the request for the user: "client:ID", an OAuth client whose tokens are for
	// its acts in the user's name. It is empty if users, or programs, act for themselves.
	Actor string
	// EarlierActors are those from whom Actor got the user's access, the latest first.
	EarlierActors []string
	// Scopes are the OAuth scopes of the credential, if it has any.
	Scopes []string
	// Claims are further claims of the provider by name, as decoded from JSON.
	Claims map[string]any
	// Mechanism is the mechanism that proved the identity.
	Mechanism Mechanism
	// Provider is the source of the account: LocalProvider, BasicProvider or
	// the name of a configured provider.
	Provider string
	// Login is the public identifier (sid) of the login to which the
	// credential belongs, empty if there is none.
	Login string
	// Proof has the factors of the login and their time. It is the zero Proof for a
	// credential that belongs to no login.
	Proof
	// SignedIn is when the user signed in; zero means that it is not known.
	SignedIn time.Time
	// Expires is the time when the credential expires; zero means never.
	Expires time.Time
	// Ends tells when the account and roles of it end by themselves.
	Ends Ends
}

// Ends are the times at which an account and its roles end by themselves.
type Ends struct {
	Account time.Time            `json:"until,omitzero"`        // zero: never
	Roles   map[string]time.Time `json:"roles_until,omitempty"` // by role; a role that is missing does not end
}

// OwnEnds returns the ends of the account and of the roles of the identity.
func (id *Identity) OwnEnds() Ends {
	own := Ends{Account: id.Ends.Account, Roles: maps.Clone(id.Ends.Roles)}
	maps.DeleteFunc(own.Roles, func(role string, _ time.Time) bool { return !slices.Contains(id.Roles, role) })
	return own
}

// Until returns when the account, or the first role of the identity, ends; zero means never.
func (id *Identity) Until() (until time.Time) {
	until = id.Ends.Account
	for _, role := range id.Roles {
		if end, ends := id.Ends.Roles[role]; ends && (until.IsZero() || end.Before(until)) {
			until = end
		}
	}
	return until
}

// Holds reports whether the account and all roles, those of Owner too, still have not ended at a
// time. Otherwise the identity must be made anew.
func (id *Identity) Holds(now time.Time) bool {
	until := id.Until()
	return (until.IsZero() || now.Before(until)) && (id.Owner == nil || id.Owner.Holds(now))
}

// Bound returns a time, or when the identity does not hold any more, if that is earlier: a token that
// names the account and its roles ends then.
func (id *Identity) Bound(expires time.Time) time.Time {
	if until := id.Until(); !until.IsZero() && until.Before(expires) {
		return until
	}
	return expires
}

// Reduced returns the identity of a credential that has only those roles of id that
// are among roles. It is id itself if these are all.
func (id *Identity) Reduced(roles []string) *Identity {
	kept := []string{}
	for _, role := range id.Roles {
		if slices.Contains(roles, role) {
			kept = append(kept, role)
		}
	}
	if len(kept) == len(id.Roles) {
		return id
	}
	reduced := *id
	reduced.Roles = kept
	if reduced.Owner == nil {
		reduced.Owner = id
	}
	return &reduced
}

// Act is the claim act of a token (RFC 8693, section 4.1): who acts, and who acted before.
type Act struct {
	Subject string `json:"sub"`
	Earlier *Act   `json:"act,omitempty"`
}

// Act returns the actors of an identity as a claim, nil without one.
func (id *Identity) Act() *Act {
	if id.Actor == "" {
		return nil
	}
	outermost := &Act{Subject: id.Actor}
	act := outermost
	for _, earlier := range id.EarlierActors {
		act.Earlier = &Act{Subject: earlier}
		act = act.Earlier
	}
	return outermost
}
