package proofs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
)

// SignedIn is a user who has proved who they are with a passkey.
type SignedIn struct {
	Account *accounts.Account
	*factors.Assertion
}

// kept is the record of a ceremony.
type kept struct {
	Record json.RawMessage `json:"record"`
	// Account is the one whose password the user gave before, nil if there was no password. It
	// must not have changed since.
	Account *version `json:"account,omitempty"`
}

// SignsIn reports whether passkeys can sign in: there is a site for them, and a file of
// accounts that can have passkeys.
func (p *Proofs) SignsIn() bool { return p.Site != nil && p.File.Path != "" }

// BeginSignIn returns options for a sign-in with a passkey alone:
// PublicKeyCredentialRequestOptionsJSON. The errors are ErrOff and those of the store.
func (p *Proofs) BeginSignIn(ctx context.Context) (options json.RawMessage, err error) {
	if p.Site == nil {
		return nil, ErrOff
	}
	c, err := p.Site.BeginSignIn()
	return p.beginCeremony(ctx, c, err, nil)
}

// BeginSecondFactor returns options for one of an account's passkeys, after its password.
// The errors are ErrOff, ErrNoFactor and those of the store.
func (p *Proofs) BeginSecondFactor(
	ctx context.Context, account *accounts.Account,
) (options json.RawMessage, err error) {
	switch {
	case p.Site == nil:
		return nil, ErrOff
	case len(account.Factors.Passkeys) == 0:
		return nil, ErrNoFactor
	}
	c, err := p.Site.BeginSecondFactor(account.Username, account.Factors.Passkeys)
	given := versionOf(account)
	return p.beginCeremony(ctx, c, err, &given)
}

// BeginPasskey returns options for a new passkey of an account:
// PublicKeyCredentialCreationOptionsJSON. The errors are ErrOff, factors.ErrRefused if the
// account has as many as it can have, and those of the store.
func (p *Proofs) BeginPasskey(ctx context.Context, account *accounts.Account) (options json.RawMessage, err error) {
	if p.Site == nil {
		return nil, ErrOff
	}
	c, err := p.Site.BeginPasskey(factors.NewUser{
		Account: account.Username, Name: account.Name, Passkeys: account.Factors.Passkeys,
	})
	return p.beginCeremony(ctx, c, err, nil)
}

// beginCeremony stores a ceremony, unless it has failed, and returns its options.
func (p *Proofs) beginCeremony(
	ctx context.Context, c *factors.Ceremony, failed error, given *version,
) (options json.RawMessage, err error) {
	if failed != nil {
		return nil, failed
	}
	value, err := json.Marshal(kept{Record: c.Record, Account: given})
	if err != nil {
		return nil, err
	}
	if err := p.Store.Put(ctx, ceremonyKey(c.Key), value, p.Now().Add(factors.ChallengeLife)); err != nil {
		return nil, err
	}
	return c.Options, nil
}

func ceremonyKey(challenge string) string { return ceremonyPrefix + record.Hash([]byte(challenge)) }

// takeCeremony takes the ceremony of an answer out of the store, before anything else is checked.
func (p *Proofs) takeCeremony(ctx context.Context, answer []byte) (*kept, error) {
	challenge, err := factors.CeremonyKey(answer)
	if err != nil {
		return nil, err
	}
	raw, err := p.Store.Take(ctx, ceremonyKey(challenge))
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%w: its challenge is unknown, used, or older than %s",
			factors.ErrRefused, factors.ChallengeLife)
	}
	if err != nil {
		return nil, err
	}
	return record.Decode[kept](raw)
}

// SignIn checks the answer to the options of a sign-in, an AuthenticationResponseJSON. The
// errors are ErrOff, those of factors.RelyingParty.FinishSignIn, and those of the store.
func (p *Proofs) SignIn(ctx context.Context, answer []byte) (*SignedIn, error) {
	if p.Site == nil {
		return nil, ErrOff
	}
	begun, err := p.takeCeremony(ctx, answer)
	if err != nil {
		return nil, err
	}
	assertion, err := p.Site.FinishSignIn(begun.Record, answer, p.owner)
	if err != nil {
		return nil, err
	}
	account := p.owners[assertion.Passkey.ID]
	if assertion.AfterPassword && (begun.Account == nil || !begun.Account.is(account)) {
		return nil, fmt.Errorf("%w: the account has changed since the password was checked", factors.ErrRefused)
	}
	if err := p.rise(ctx, assertion); err != nil {
		return nil, err
	}
	if err := p.byPasskey(ctx, account); err != nil {
		return nil, err
	}
	return &SignedIn{Account: account, Assertion: assertion}, nil
}

// owner returns who has a passkey. It implements factors.Lookup.
func (p *Proofs) owner(id string) *factors.Owner {
	account, ok := p.owners[id]
	if !ok {
		return nil
	}
	passkey, _ := account.Factors.Passkey(id)
	return &factors.Owner{Account: account.Username, Passkey: passkey}
}

func counterKey(id string) string { return counterPrefix + record.Hash([]byte(id)) }

// rise stores the counter of an assertion if it rises above the one that is stored by now. A
// passkey without a counter needs no record.
func (p *Proofs) rise(ctx context.Context, a *factors.Assertion) error {
	return store.Update(ctx, p.Store, counterKey(a.Passkey.ID), func(kept []byte) (store.Edit, error) {
		stored, err := number(kept)
		if err != nil {
			return store.Edit{}, err
		}
		if !factors.CounterRises(stored, a.Counter) {
			return store.Edit{}, factors.ErrCounter
		}
		if a.Counter == 0 {
			return store.Edit{}, nil
		}
		return store.Edit{Value: strconv.AppendInt(nil, a.Counter, 10), Expires: time.Time{}}, nil // never
	})
}

// Forget removes the counters of the passkeys and TOTP secrets that some account had before, and none
// has now. The error is that of the store.
func (p *Proofs) Forget(ctx context.Context, before *Proofs) error {
	for name, account := range before.Accounts.All() {
		now, ok := p.Accounts.Lookup(name)
		if had := account.Factors.TOTP; had == nil || ok && now.Factors.TOTP != nil && *now.Factors.TOTP == *had {
			continue
		}
		if err := p.Store.Delete(ctx, secretKey(wrongPrefix, account)); err != nil {
			return err
		}
	}
	for id := range before.owners {
		if p.owners[id] != nil {
			continue
		}
		if err := p.Store.Delete(ctx, counterKey(id)); err != nil {
			return err
		}
	}
	return nil
}

// AddPasskey checks the answer to BeginPasskey, a RegistrationResponseJSON, and gives the
// passkey to the account under a name. With its first factor, the account gets recovery
// codes, which are told once. The errors are ErrOff, those of
// factors.RelyingParty.FinishPasskey, and those of edit and the store.
func (p *Proofs) AddPasskey(
	ctx context.Context, account *accounts.Account, name string, answer []byte, edit Edit,
) (added *factors.Passkey, codes []string, err error) {
	if p.Site == nil {
		return nil, nil, ErrOff
	}
	begun, err := p.takeCeremony(ctx, answer)
	if err != nil {
		return nil, nil, err
	}
	added, err = p.Site.FinishPasskey(begun.Record, account.Username, name, answer, p.owner)
	if err != nil {
		return nil, nil, err
	}
	err = edit(ctx, func(a *accounts.Account) error {
		first := !a.Factors.Any()
		with, err := a.Factors.WithPasskey(*added)
		if err != nil {
			return err
		}
		codes = nil
		if first {
			with, codes = with.WithRecoveryCodes(a.Username)
		}
		a.Factors = with
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return added, codes, nil
}

// RemovePasskey takes a passkey from an account. The errors are ErrNoFactor and those of
// edit.
func (p *Proofs) RemovePasskey(ctx context.Context, id string, edit Edit) error {
	return edit(ctx, func(a *accounts.Account) error {
		rest, had := a.Factors.WithoutPasskey(id)
		if !had {
			return ErrNoFactor
		}
		a.Factors = rest
		return nil
	})
}
