package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"authgate/gateway/password"
)

// maxThrottleQueue is how many attempts may wait until others on the same
// account or from the same address are settled.
const maxThrottleQueue = 1024

// Verifier checks a user name and password, for every mechanism that takes
// them. Names that do not exist, disabled accounts, empty and overlong
// passwords all cost the work of a real check and count as failures.
//
// Credentials that proved good are remembered for a while, by a keyed hash
// that covers the stored password hash too: what is remembered is worth
// nothing once the account has changed, and to nobody without the key. Wrong
// ones are never remembered. A Verifier is safe for concurrent use and made to
// outlive reloads of the configuration.
type Verifier struct {
	hasher   *Hasher
	throttle *Throttle
	ttl      time.Duration
	now      func() time.Time

	// good tells until when a credential is remembered. It is no expirable
	// LRU because that one leaves a goroutine behind and reads its own clock.
	good    *lru.Cache[credentialKey, time.Time]
	flights singleflight.Group // computations under way, by credentialKey
	waiting atomic.Int64       // attempts that wait for the throttle

	macs sync.Pool    // of *credentialMAC
	seed maphash.Seed // chooses the work for names that do not exist
}

// NewVerifier returns a Verifier that hashes by h, counts failures in t, and
// remembers up to cacheSize good credentials (at least 1) for ttl after their
// password was hashed; 10,000 and 5 minutes suit. now tells the time.
func NewVerifier(h *Hasher, t *Throttle, cacheSize int, ttl time.Duration, now func() time.Time) *Verifier {
	good, err := lru.New[credentialKey, time.Time](max(cacheSize, 1))
	if err != nil {
		panic(err) // the size is positive
	}
	v := &Verifier{hasher: h, throttle: t, ttl: ttl, now: now, good: good, seed: maphash.MakeSeed()}
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: crypto/rand
	v.macs.New = func() any { return &credentialMAC{mac: hmac.New(sha256.New, secret)} }
	return v
}

// Check returns the account that username and password sign in to. What was
// good a short while ago is not hashed again, and equal credentials at the
// same time are hashed once. Kind keeps apart sets of accounts that know the
// same user names; failures count for the name in all of them. Client is the
// address of who asks; those without a valid one count as one client.
//
// The error is ErrRejected; a *ThrottledError, be the password right or not;
// or ErrBusy, which wraps the cause of ctx where that has ended.
func (v *Verifier) Check(ctx context.Context, kind string, accounts *Accounts, username, password string, client netip.Addr) (*Account, error) {
	a := v.attempt(accounts, username, password, client)
	a.key = v.key(kind, username, password, a.stored.Encoded())
	a.cached = true
	good := v.remembers(&a)
	if err := v.throttle.look(a.subject, good); err != nil {
		return nil, err // what is remembered tells a throttled client nothing
	}
	if good {
		return a.account, nil
	}
	return v.check(ctx, a)
}

// CheckFresh is Check for a login: it hashes the password in any case, and
// remembers nothing, so that there are no kinds to keep apart.
func (v *Verifier) CheckFresh(ctx context.Context, accounts *Accounts, username, password string, client netip.Addr) (*Account, error) {
	return v.check(ctx, v.attempt(accounts, username, password, client))
}

// attempt is one check of a credential.
type attempt struct {
	subject  subject
	account  *Account      // nil when the attempt cannot succeed
	stored   password.Hash // what to check the password against in any case
	password string
	cached   bool          // whether good is asked and told, under key
	key      credentialKey // where cached
}

func (v *Verifier) attempt(accounts *Accounts, username, password string, client netip.Addr) attempt {
	account, stored := accounts.target(username, v.seed)
	a := attempt{subject: newSubject(username, client), account: account, stored: stored, password: password}
	if account != nil {
		a.subject.version = account.version
	}
	if password == "" {
		a.account = nil // whatever was hashed
	}
	return a
}

// remembers reports whether the credential is known to be good.
func (v *Verifier) remembers(a *attempt) bool {
	if !a.cached || a.account == nil {
		return false
	}
	until, ok := v.good.Get(a.key)
	return ok && v.now().Before(until)
}

// check makes the attempt.
func (v *Verifier) check(ctx context.Context, a attempt) (*Account, error) {
	r, err := v.admit(ctx, &a)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return a.account, nil
	}
	if a.cached {
		err = v.proveShared(ctx, &a, r)
	} else {
		matches, failed := v.hasher.Verify(ctx, a.stored, a.password)
		err = a.conclude(r, matches, failed)
	}
	if err != nil {
		return nil, err
	}
	return a.account, nil
}

// admit waits until the throttle lets the attempt begin. It returns nil
// without an error if the credential became known as good meanwhile.
func (v *Verifier) admit(ctx context.Context, a *attempt) (*reservation, error) {
	for {
		r, full, err := v.throttle.reserve(a.subject)
		if full == nil {
			return r, err
		}
		if err := v.wait(ctx, full); err != nil {
			return nil, err
		}
		if v.remembers(a) {
			return nil, v.throttle.look(a.subject, true)
		}
	}
}

func (v *Verifier) wait(ctx context.Context, full <-chan struct{}) error {
	defer v.waiting.Add(-1)
	if v.waiting.Add(1) > maxThrottleQueue {
		return ErrBusy
	}
	select {
	case <-full:
		return nil
	case <-ctx.Done():
		return gaveUp(ctx)
	}
}

// proveShared hashes the password, together with all who ask the same now,
// and concludes the attempt. Whoever leaves early changes nothing for the
// others, nor for the throttle.
func (v *Verifier) proveShared(ctx context.Context, a *attempt, r *reservation) error {
	detached := context.WithoutCancel(ctx)
	result := v.flights.DoChan(string(a.key[:]), func() (any, error) {
		if v.remembers(a) {
			return true, nil
		}
		matches, err := v.hasher.Verify(detached, a.stored, a.password)
		if matches {
			v.good.Add(a.key, v.now().Add(v.ttl))
		}
		return matches, err
	})
	conclude := func(res singleflight.Result) error {
		return a.conclude(r, res.Val == true, res.Err)
	}
	select {
	case res := <-result:
		return conclude(res)
	case <-ctx.Done():
		go func() { _ = conclude(<-result) }()
		return gaveUp(ctx)
	}
}

// conclude settles the attempt by whether the password matches the stored
// hash, and returns what to answer. Without a result, because of err, the
// attempt counts as if it had not been made.
func (a *attempt) conclude(r *reservation, matches bool, err error) error {
	if err != nil {
		r.settle(false)
		return err
	}
	if !matches || a.account == nil {
		r.settle(true)
		return ErrRejected
	}
	r.succeed()
	return nil
}

// credentialKey stands for a user name and password of a kind, and for the
// stored hash that they are checked against.
type credentialKey [sha256.Size]byte

// credentialMAC computes credentialKeys, with what that needs at hand.
type credentialMAC struct {
	mac hash.Hash
	buf [512]byte // more than that is allocated
}

func (v *Verifier) key(kind, username, password, stored string) (key credentialKey) {
	m := v.macs.Get().(*credentialMAC)
	defer v.macs.Put(m)
	message := m.buf[:0]
	for _, field := range [...]string{kind, username, password, stored} {
		message = binary.BigEndian.AppendUint64(message, uint64(len(field)))
		message = append(message, field...)
	}
	m.mac.Reset()
	m.mac.Write(message)
	m.mac.Sum(m.buf[:0])
	copy(key[:], m.buf[:])
	clear(m.buf[:]) // the password
	return key
}
