package policy

import (
	"slices"
	"strings"
)

// Mechanism is a way to prove an identity.
type Mechanism string

// The mechanisms, with their names in the key auth of routes and in the header
// X-Auth-Mechanism. None is for routes only: it makes a route public.
const (
	None    Mechanism = "none"
	Basic   Mechanism = "basic"
	Session Mechanism = "session"
	Bearer  Mechanism = "bearer"
	OIDC    Mechanism = "oidc"

	// Certificate is a certificate of the client, with its TLS connection.
	Certificate Mechanism = "certificate"
)

// Traits are the properties of a mechanism, apart from how it verifies credentials.
type Traits struct {
	Mechanism Mechanism
	Carrier   Carrier // of its credentials
	Users     Users   // whom it identifies
	// Login tells that its credentials can belong to a login. Then a sign-in gives a user one, and
	// another sign-in can prove more.
	Login bool
}

// Carrier is the part of a request that carries a credential. The zero Carrier is unknown.
type Carrier int

// The carriers, in the order in which the gateway looks for credentials.
const (
	InHeader         Carrier = iota + 1 // which no browser sends by itself
	InHeaderOrCookie                    // the one or the other
	InCookie
	InConnection // its TLS handshake
)

// Users are the users whom a mechanism identifies.
type Users int

// The users of mechanisms.
const (
	LocalUsers    Users = iota + 1 // of accounts
	ProviderUsers                  // of identity providers
	BasicUsers                     // of basic.users and basic.htpasswd
)

// mechanisms has all but None, in the order in which messages name them.
var mechanisms = [...]Traits{
	{Basic, InHeader, BasicUsers, false},
	{Session, InCookie, LocalUsers, true},
	{Bearer, InHeaderOrCookie, LocalUsers, true}, // and, with tokens of others, their users
	{OIDC, InCookie, ProviderUsers, true},
	{Certificate, InConnection, LocalUsers, false},
}

// Mechanisms returns the traits of all mechanisms but None. The slice is new with each call.
func Mechanisms() []Traits { return slices.Clone(mechanisms[:]) }

// Traits returns the traits of a mechanism, zero if it proves no identity.
func (m Mechanism) Traits() *Traits {
	for i := range mechanisms {
		if mechanisms[i].Mechanism == m {
			return &mechanisms[i]
		}
	}
	return &Traits{}
}

// proves reports whether m is a way to prove an identity.
func (m Mechanism) proves() bool { return m.Traits().Carrier != 0 }

// MechanismWords names the mechanisms in a message: "basic, … or certificate".
func MechanismWords() string {
	var names []string
	for _, one := range mechanisms {
		names = append(names, string(one.Mechanism))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
