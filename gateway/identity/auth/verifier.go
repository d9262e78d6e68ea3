package auth

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/password"
	"authgate/gateway/store/lru"
)

// maxThrottleQueue is how many checks may wait for other checks of the same
// account or from the same address, and how many more of known pairs.
const maxThrottleQueue = 1024

// Verifier checks user names and passwords for all mechanisms. An unknown name, a
// disabled account, and an empty or too long password all cost the work of a real
// check and count as failures.
//
// A Verifier remembers correct credentials for some time. The cache key is a keyed
// hash that also covers the stored password hash, so an entry is useless without
// the secret key and after a change of the account. Wrong credentials are never
// remembered. A Verifier is safe for concurrent use. It outlives reloads of the
// configuration.
type Verifier struct {
	hasher   *hasher
	throttle *Throttle
	ttl      time.Duration
	now      func() time.Time

	// good holds until when a credential is remembered. It is not an expirable
	// LRU, because that starts a goroutine and reads its own clock.
	good    *lru.Cache[credentialKey, time.Time]
	flights singleflight.Group // checks that are running, by credentialKey and place
	waiting waitingChecks      // for the throttle

	macs credentialMACs
}

// NewVerifier returns a Verifier that counts failures in t. It remembers up to
// cacheSize correct credentials (at least 1) for ttl. Useful values are 10,000 and 5
// minutes. now returns the time. One processor is left to requests that need no check.
func NewVerifier(t *Throttle, cacheSize int, ttl time.Duration, now func() time.Time) *Verifier {
	v := &Verifier{
		hasher: newHasher(0), throttle: t, ttl: ttl, now: now, macs: newCredentialMACs(),
		good: lru.New[credentialKey, time.Time](max(cacheSize, 1)),
	}
	return v
}

// FreeMemory makes the Verifier call f, unless it is nil, when no password has been checked for ten seconds, since each
// check needs much memory. The caller calls it before it uses the Verifier.
func (v *Verifier) FreeMemory(f func()) { v.hasher.giveBack = f }

// Checking makes the Verifier call f, unless it is nil, with true as the first of several password checks begins, and
// with false as the last of them ends. The caller calls it before it uses the Verifier.
func (v *Verifier) Checking(f func(goes bool)) { v.hasher.checking = f }

// Check returns the account of username if the password is correct. It does not
// hash a credential again that was correct a short time ago, and hashes equal
// credentials of concurrent calls once. kind separates sets of accounts that have
// the same user names; the throttle counts a name once for all kinds. client is
// the client's address. All clients without a valid address count as one client.
//
// The error is ErrRejected, a *ThrottledError whether or not the password is
// correct, or ErrBusy. If ctx ended, ErrBusy wraps its cause.
func (v *Verifier) Check(
	ctx context.Context, kind string, accounts *accounts.Set, username, password string, client netip.Addr,
) (*accounts.Account, error) {
	var c passwordCheck
	c.setTarget(accounts, username, password, client)
	c.key = v.macs.key(kind, username, password, c.stored.Encoded())
	c.cached = true
	good := v.remembers(&c)
	// The throttle comes first, so that the cache tells a throttled client nothing.
	if err := v.throttle.look(c.subject, good); err != nil {
		return nil, err
	}
	if good {
		return c.account, nil
	}
	return v.runCheck(ctx, &c)
}

// CheckFresh is Check for a login. It always hashes the password and remembers
// nothing, so it needs no kind. It does not make the pair of account and address known, as a
// password may prove less than a login: who knows it could otherwise guess codes from many
// addresses. SignedIn does that when the login has begun.
func (v *Verifier) CheckFresh(
	ctx context.Context, accounts *accounts.Set, username, password string, client netip.Addr,
) (*accounts.Account, error) {
	var c passwordCheck
	c.setTarget(accounts, username, password, client)
	return v.runCheck(ctx, &c)
}

// CheckCode checks a code that can be guessed: the second step of a CheckFresh, or that of a
// device. An ErrRejected of check counts as a failed login of the account, and any other error
// does not count. As CheckFresh, it makes no pair known. The error is that of check, or one of
// Check.
func (v *Verifier) CheckCode(
	ctx context.Context, account *accounts.Account, client netip.Addr, check func() error,
) error {
	c := passwordCheck{subject: newSubject(account.Username, client), account: account}
	c.subject.version = account.Version()
	r, err := v.admit(ctx, &c)
	if err != nil {
		return err
	}
	err = check()
	r.settle(errors.Is(err, ErrRejected))
	return err
}

// CheckProof checks a proof of a program that cannot be guessed, such as a token of its platform. An
// ErrRejected of check counts for the address, and for the pair of program and address if it is known; a
// success makes it known. version is another text if the proof that is expected has changed. The error is
// that of check, or one of Check.
func (v *Verifier) CheckProof(
	ctx context.Context, program, version string, client netip.Addr, check func() error,
) error {
	c := passwordCheck{subject: newSubject("proof\x00"+program, client)}
	c.subject.version, c.subject.unguessable = version, true
	r, err := v.admit(ctx, &c)
	if err != nil {
		return err
	}
	err = check()
	r.settle(errors.Is(err, ErrRejected))
	if err == nil {
		v.throttle.succeeded(c.subject)
	}
	return err
}

// SignedIn makes the pair of account and address known: a login of the account has begun there.
func (v *Verifier) SignedIn(account *accounts.Account, client netip.Addr) {
	s := newSubject(account.Username, client)
	s.version = account.Version()
	v.throttle.succeeded(s)
}

// NewHash returns a hash to store for a new password. The error is ErrBusy, or that of
// password.New.
func (v *Verifier) NewHash(ctx context.Context, password string) (string, error) {
	return v.hasher.New(ctx, password)
}

// passwordCheck is one check of a user name and a password.
type passwordCheck struct {
	subject  subject
	account  *accounts.Account // nil if the check must fail
	stored   password.Hash     // the password is checked against it in any case
	password string
	cached   bool          // whether to use the cache of correct credentials
	key      credentialKey // in that cache

	secrets   *Secrets // of a program, instead of stored
	spellings []string // instead of password
}

// setTarget fills c with the password to check and the account it is for.
func (c *passwordCheck) setTarget(accounts *accounts.Set, username, password string, client netip.Addr) {
	c.subject = newSubject(username, client)
	c.account, c.stored = accounts.Target(username)
	c.password = password
	if c.account != nil {
		c.subject.version = c.account.Version()
	}
	if password == "" {
		c.account = nil // even if the stored hash is that of an empty password
	}
}

// remembers reports whether the cache holds the credential.
func (v *Verifier) remembers(c *passwordCheck) bool {
	if !c.cached || c.account == nil {
		return false
	}
	until, ok := v.good.Get(c.key)
	return ok && v.now().Before(until)
}

// runCheck waits for the throttle and checks the password. It copies given to the heap, so a caller
// that finds the credential in the cache allocates nothing. The argument is a pointer because a
// value would widen the caller's frame. HTTP/2 starts a goroutine for each request, and Go copies
// the stack of each that becomes too deep.
func (v *Verifier) runCheck(ctx context.Context, given *passwordCheck) (*accounts.Account, error) {
	c := *given
	r, err := v.admit(ctx, &c)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return c.account, nil
	}
	if c.cached {
		err = v.verifyShared(ctx, &c, r)
	} else {
		matches, failed := c.verify(ctx, v.hasher, r.known)
		err = c.conclude(r, matches, failed)
	}
	if err != nil {
		return nil, err
	}
	return c.account, nil
}

// admit waits until the throttle admits the check. It returns nil without an
// error if the cache meanwhile holds the credential.
func (v *Verifier) admit(ctx context.Context, c *passwordCheck) (*reservation, error) {
	for {
		r, full, err := v.throttle.reserve(c.subject)
		if full == nil {
			return r, err
		}
		if err := v.waiting.wait(ctx, v.throttle.knows(c.subject), full); err != nil {
			return nil, err
		}
		if v.remembers(c) {
			return nil, v.throttle.look(c.subject, true)
		}
	}
}

// waitingChecks counts the checks that wait.
type waitingChecks struct{ known, others atomic.Int64 }

// wait waits until full is closed.
func (w *waitingChecks) wait(ctx context.Context, known bool, full <-chan struct{}) error {
	count := &w.others
	if known {
		count = &w.known
	}
	defer count.Add(-1)
	if count.Add(1) > maxThrottleQueue {
		return ErrBusy
	}
	select {
	case <-full:
		return nil
	case <-ctx.Done():
		return gaveUp(ctx)
	}
}

// verifyShared checks the password once for all concurrent calls with the same
// credential and place, and concludes the check. A caller that leaves early changes nothing
// for the others or for the throttle.
func (v *Verifier) verifyShared(ctx context.Context, c *passwordCheck, r *reservation) error {
	detached := context.WithoutCancel(ctx)
	flight := string(c.key[:])
	if r.known {
		flight += "known" // it must not wait with others
	}
	result := v.flights.DoChan(flight, func() (any, error) {
		if v.remembers(c) {
			return true, nil
		}
		matches, err := c.verify(detached, v.hasher, r.known)
		if matches {
			v.good.Add(c.key, v.now().Add(v.ttl))
		}
		return matches, err
	})
	conclude := func(res singleflight.Result) error {
		return c.conclude(r, res.Val == true, res.Err)
	}
	select {
	case res := <-result:
		return conclude(res)
	case <-ctx.Done():
		go func() { _ = conclude(<-result) }()
		return gaveUp(ctx)
	}
}

// conclude settles the reservation and returns the result of the check. If err is
// not nil there is no result, and the check does not count.
func (c *passwordCheck) conclude(r *reservation, matches bool, err error) error {
	if err != nil {
		r.settle(false)
		return err
	}
	if !matches || c.account == nil {
		r.settle(true)
		return ErrRejected
	}
	if c.cached { // else see SignedIn
		r.throttle.succeeded(c.subject) // before settle lets others continue
	}
	r.settle(false)
	return nil
}
