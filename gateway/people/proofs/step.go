package proofs

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
)

// ErrNoStep: the step is unknown, used, expired, of another browser, or of an account that
// has changed since.
var ErrNoStep = errors.New("no such second step of a sign-in")

// step is the record of a sign-in whose password was right.
type step struct {
	Username string  `json:"user"`
	Account  version `json:"account"`
	Browser  string  `json:"browser"` // hash of the secret in the browser's cookie
}

// version is an account as it was when its user gave the password. An account that was
// disabled meanwhile is another one, as it is for logins.
type version struct {
	Proof string    `json:"proof"` // see accounts.Account.LoginVersion
	Since time.Time `json:"since"`
}

func versionOf(a *accounts.Account) version { return version{a.LoginVersion(), a.LoginChanged()} }

func (v version) is(a *accounts.Account) bool {
	return a.LoginVersion() == v.Proof && a.LoginChanged().Equal(v.Since)
}

// BeginStep records that the user of a browser has given the right password of an account,
// for factors.ChallengeLife. browser is the secret that binds sign-ins to the browser. It
// returns the secret that names the step, for the page.
func (p *Proofs) BeginStep(ctx context.Context, account *accounts.Account, browser string) (secret string, err error) {
	raw := make([]byte, 32)
	rand.Read(raw) // never fails
	secret = base64.RawURLEncoding.EncodeToString(raw)
	value, err := json.Marshal(step{
		Username: account.Username, Account: versionOf(account), Browser: record.Hash([]byte(browser)),
	})
	if err != nil {
		return "", err
	}
	if err := p.Store.Put(ctx, stepKey(secret), value, p.Now().Add(factors.ChallengeLife)); err != nil {
		return "", fmt.Errorf("recording the first step of a sign-in: %w", err)
	}
	return secret, nil
}

func stepKey(secret string) string { return signInPrefix + record.Hash([]byte(secret)) }

// Step returns the account whose password the user of a browser has given. The step goes on:
// a user may mistype a code. The errors are ErrNoStep and those of the store.
func (p *Proofs) Step(ctx context.Context, secret, browser string) (*accounts.Account, error) {
	raw, err := record.Find(ctx, p.Store, stepKey(secret))
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, fmt.Errorf("%w: unknown, used, or older than %s", ErrNoStep, factors.ChallengeLife)
	}
	s, err := record.Decode[step](raw)
	if err != nil {
		return nil, err
	}
	if browser == "" || subtle.ConstantTimeCompare([]byte(s.Browser), []byte(record.Hash([]byte(browser)))) != 1 {
		return nil, fmt.Errorf("%w: it is of another browser", ErrNoStep)
	}
	account, ok := p.Accounts.Lookup(s.Username)
	if !ok || !s.Account.is(account) {
		return nil, fmt.Errorf("%w: the account has changed since", ErrNoStep)
	}
	return account, nil
}

// EndStep uses up a step, once: of two requests at once, one gets ErrNoStep.
func (p *Proofs) EndStep(ctx context.Context, secret string) error {
	_, err := p.Store.Take(ctx, stepKey(secret))
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: it was used at this very moment", ErrNoStep)
	}
	return err
}
