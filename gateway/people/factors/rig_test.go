package factors

import (
	"testing"

	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
)

const (
	testRPID   = "example.org"
	testOrigin = "https://auth.example.org"
)

// rig is a site with the passkeys of its users, as a gateway keeps them.
type rig struct {
	testing.TB
	*RelyingParty
	owners map[string]*Owner
}

func site(tb testing.TB) *rig {
	tb.Helper()
	return &rig{tb, must.Get(NewRelyingParty(testRPID, "Example", testOrigin))(tb), map[string]*Owner{}}
}

// verified returns an authenticator that verifies its user.
func verified() *authenticator.Authenticator {
	return &authenticator.Authenticator{Origin: testOrigin, Verified: true}
}

func (s *rig) lookup(id string) *Owner { return s.owners[id] }

// passkeys returns those of an account.
func (s *rig) passkeys(account string) (all []Passkey) {
	for _, owner := range s.owners {
		if owner.Account == account {
			all = append(all, owner.Passkey)
		}
	}
	return all
}

// add adds a passkey to an account.
func (s *rig) add(a *authenticator.Authenticator, account, name string) *Passkey {
	s.Helper()
	p, err := s.tryAdd(a, account, name)
	must.Do(s, err)
	return p
}

func (s *rig) tryAdd(a *authenticator.Authenticator, account, name string) (*Passkey, error) {
	s.Helper()
	begun := must.Get(s.BeginPasskey(NewUser{Account: account, Passkeys: s.passkeys(account)}))(s)
	answer := must.Get(a.Create(begun.Options))(s)
	p, err := s.FinishPasskey(begun.Record, account, name, answer, s.lookup)
	if err == nil {
		s.owners[p.ID] = &Owner{Account: account, Passkey: *p}
	}
	return p, err
}

// signIn signs in with a passkey alone, as a gateway does.
func (s *rig) signIn(a *authenticator.Authenticator) (*Assertion, error) {
	s.Helper()
	return s.answer(must.Get(s.BeginSignIn())(s), a)
}

// follow uses a passkey after the password of an account.
func (s *rig) follow(a *authenticator.Authenticator, account string) (*Assertion, error) {
	s.Helper()
	return s.answer(must.Get(s.BeginSecondFactor(account, s.passkeys(account)))(s), a)
}

// answer lets an authenticator answer.
func (s *rig) answer(begun *Ceremony, a *authenticator.Authenticator) (*Assertion, error) {
	s.Helper()
	return s.FinishSignIn(begun.Record, must.Get(a.Get(begun.Options))(s), s.lookup)
}
