package login

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/gateway/store/record"
	"authgate/policy"
)

// sessionRecord is the record of a session. Its key is the hash of the session
// identifier.
type sessionRecord struct {
	Login     string           `json:"sid"`
	Mechanism policy.Mechanism `json:"mechanism"`
	Scope     string           `json:"scope"` // where the session is valid; see auth.Credentials
	Created   time.Time        `json:"created"`
	Expires   time.Time        `json:"expires"`
	Seen      time.Time        `json:"seen"` // a request; see touch
}

const (
	// sessionUse is how old the stored time of the last request may become while a
	// session without an idle timeout is used.
	sessionUse = 5 * time.Minute
	// notesAtOnce is how many times of requests are being stored at most.
	notesAtOnce = 64
)

// SessionOptions are the time limits of sessions.
type SessionOptions struct {
	Lifetime time.Duration // from creation
	Remember time.Duration // from creation, of logins that are remembered; 0: as the others
	Idle     time.Duration // without a request; 0: no limit
}

// lifetime returns how long sessions live.
func (o SessionOptions) lifetime(remembered bool) time.Duration {
	if remembered && o.Remember > 0 {
		return o.Remember
	}
	return o.Lifetime
}

// Sessions is the mechanism for server-side sessions. A cookie holds an opaque
// identifier of 256 random bits, and the identifier's hash is the key of the
// session's record. Sessions of local accounts and sessions of logins at a provider
// have different cookies, records and owners, and one cannot replace the other.
type Sessions struct {
	mechanism policy.Mechanism
	options   SessionOptions
	owner     owner
	logins    *Logins
	cache     record.Cache[cachedSession] // by session identifier
	notes     chan struct{}               // one for each time of a request that is being stored
}

// owner finds the person or account that a login of one mechanism belongs to.
type owner interface {
	// identify returns the identity of the login's owner, and the additional
	// records that it depends on. The error is ErrRejected if the owner is gone
	// or has changed.
	identify(ctx context.Context, login *Login, expires time.Time) (*policy.Identity, []record.Stored, error)
	// renew updates the profile of the owner if that is due. It reports whether the identity may
	// have changed. It waits only if patient.
	renew(ctx context.Context, login *Login, patient bool) bool
}

// cachedSession is a session that an earlier request looked up.
type cachedSession struct {
	basis    record.Basis // session, login, and the records of the owner
	session  *sessionRecord
	login    *Login
	identity *policy.Identity

	touching atomic.Bool
	seen     atomic.Int64 // last request in this process, in Unix nanoseconds; only with an idle timeout
}

// NewSessions returns the mechanism for sessions of local accounts.
func NewSessions(options SessionOptions, accounts *accounts.Set, logins *Logins) *Sessions {
	return newSessions(policy.Session, options, localOwner{accounts}, logins)
}

func newSessions(mechanism policy.Mechanism, options SessionOptions, o owner, logins *Logins) *Sessions {
	return &Sessions{
		mechanism: mechanism, options: options, owner: o, logins: logins,
		cache: record.NewCache[cachedSession](), notes: make(chan struct{}, notesAtOnce),
	}
}

// localOwner is the owner of logins of local accounts. A mechanism keeps its
// accounts for its whole life.
type localOwner struct{ accounts *accounts.Set }

func (o localOwner) identify(
	_ context.Context, login *Login, expires time.Time,
) (*policy.Identity, []record.Stored, error) {
	account, ok := login.current(o.accounts)
	if !ok {
		return nil, nil, auth.ErrRejected
	}
	id := account.Identity(policy.Session, login.ID, expires)
	id.SignedIn, id.Proof = login.Created, login.Proof
	return id, nil, nil
}

func (localOwner) renew(context.Context, *Login, bool) bool { return false }

// New returns the identifier of a new session, for a cookie of scope, and the
// handle with which Logins.Begin or Logins.Attach records it. The session ends
// when one would that began with the login.
func (s *Sessions) New(scope string) (id string, handle Handle) {
	secret := newSecret()
	return base64.RawURLEncoding.EncodeToString(secret), func(login *Login) (string, []byte, time.Time, error) {
		expires, seen := s.Expires(login), login.Created
		if now := s.logins.now(); now.After(seen) {
			seen = now
		}
		value, err := json.Marshal(sessionRecord{
			Login: login.ID, Mechanism: s.mechanism, Scope: scope,
			Created: login.Created, Expires: expires, Seen: seen,
		})
		return SessionPrefix + record.Hash(secret), value, expires, err
	}
}

// Expires returns when the sessions of a login end.
func (s *Sessions) Expires(login *Login) time.Time {
	return login.Created.Add(s.options.lifetime(login.Remember))
}

// Lifetime returns how long the session of a new login lives.
func (s *Sessions) Lifetime(remembered bool) time.Duration { return s.options.lifetime(remembered) }

// Remembers reports whether users can stay signed in for longer.
func (s *Sessions) Remembers() bool { return s.options.Remember > 0 }

// Challenge implements auth.Authenticator. Cookies have no challenge.
func (s *Sessions) Challenge(*auth.Credentials) auth.Challenge { return "" }

// Authenticate implements auth.Authenticator.
func (s *Sessions) Authenticate(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	id := s.presented(creds)
	if id == "" {
		return nil, auth.ErrNoCredentials
	}
	cached, err := s.useSession(ctx, id, creds.Scope)
	if err == nil && s.owner.renew(ctx, cached.login, true) {
		cached, err = s.useSession(ctx, id, creds.Scope)
	}
	return s.identityOf(cached, err)
}

// Alive implements auth.Authenticator.
func (s *Sessions) Alive(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	id := s.presented(creds)
	if id == "" {
		return nil, auth.ErrNoCredentials
	}
	cached, err := s.findSession(ctx, id, creds.Scope, s.logins.now())
	if err == nil {
		s.owner.renew(ctx, cached.login, false)
	}
	return s.identityOf(cached, err)
}

// presented returns the session identifier in creds, or an empty string.
func (s *Sessions) presented(creds *auth.Credentials) string {
	if s.mechanism == policy.OIDC {
		return creds.Delegated
	}
	return creds.Session
}

// cookie returns the role of the cookie that holds the session identifier.
func (s *Sessions) cookie() auth.CookieRole {
	if s.mechanism == policy.OIDC {
		return auth.DelegatedCookie
	}
	return auth.SessionCookie
}

// identityOf returns the identity of the session that a lookup found, or the error of
// the lookup.
func (s *Sessions) identityOf(cached *cachedSession, err error) (*policy.Identity, error) {
	if errors.Is(err, errEnded) {
		return nil, &auth.Rejection{Detail: auth.DetailSessionEnded, Reason: "expired session",
			Cookie: s.cookie(), Ended: true}
	}
	if errors.Is(err, auth.ErrRejected) {
		return nil, &auth.Rejection{Detail: auth.DetailNotSignedIn, Reason: "unknown, expired or ended session",
			Cookie: s.cookie()}
	}
	if err != nil {
		return nil, err
	}
	return cached.identity, nil
}

// LoginOf returns the sid of the login that the session in creds belongs to. The
// error is ErrRejected if there is no such session in the scope of creds.
func (s *Sessions) LoginOf(ctx context.Context, creds *auth.Credentials) (string, error) {
	key, err := sessionKey(s.presented(creds))
	if err != nil {
		return "", err
	}
	raw, err := s.logins.readRecord(ctx, key)
	if err != nil {
		return "", err
	}
	session, err := record.Decode[sessionRecord](raw)
	if err != nil {
		return "", err
	}
	if session.Scope != creds.Scope {
		return "", auth.ErrRejected
	}
	return session.Login, nil
}

// sessionKey returns the store key of a session. The error is ErrRejected if id
// cannot be a session identifier.
func sessionKey(id string) (string, error) {
	trace := auth.Trace(id)
	if trace == "" {
		return "", auth.ErrRejected
	}
	return SessionPrefix + trace, nil
}

// useSession is findSession for a request, which counts as activity.
func (s *Sessions) useSession(ctx context.Context, id, scope string) (*cachedSession, error) {
	now := s.logins.now()
	cached, err := s.findSession(ctx, id, scope, now)
	if err == nil {
		s.touch(cached, now)
	}
	return cached, err
}

// findSession returns the session with that identifier if it is valid in scope at a time.
func (s *Sessions) findSession(ctx context.Context, id, scope string, now time.Time) (*cachedSession, error) {
	cached := s.cache.Get(id)
	current, err := s.current(ctx, id, scope, cached, now)
	if err != nil {
		return nil, err
	}
	switch {
	case current.session.Scope != scope:
		return nil, auth.ErrRejected
	case !now.Before(s.expires(current.session, current.login)) || s.idle(current, now):
		return nil, errEnded
	}
	if current != cached {
		s.cache.Keep(id, current)
	}
	return current, nil
}

// expires returns when a session of a login ends: at the time in its record, or earlier
// if the configured lifetime is shorter now.
func (s *Sessions) expires(session *sessionRecord, login *Login) time.Time {
	if limit := session.Created.Add(s.options.lifetime(login.Remember)); limit.Before(session.Expires) {
		return limit
	}
	return session.Expires
}

// current returns cached, which may be nil, if its records have not changed and its owner's account and roles
// have not ended. Otherwise it looks up the session with that identifier, its login and the owner.
func (s *Sessions) current(
	ctx context.Context, id, scope string, cached *cachedSession, now time.Time,
) (*cachedSession, error) {
	if cached == nil {
		key, err := sessionKey(id)
		if err != nil {
			return nil, err
		}
		return s.resolve(ctx, key, scope)
	}
	holds, err := cached.basis.Holds(ctx, s.logins.store)
	if holds && cached.identity.Holds(now) || err != nil {
		return cached, err
	}
	next, err := s.resolve(ctx, cached.basis[0].Key, scope)
	if err == nil {
		next.seen.Store(cached.seen.Load())
	}
	return next, err
}

// resolve looks up a session, its login and the owner. scope is where it is presented.
func (s *Sessions) resolve(ctx context.Context, key, scope string) (*cachedSession, error) {
	raw, err := s.logins.readRecord(ctx, key)
	if errors.Is(err, auth.ErrRejected) {
		err = s.gone(ctx, key, scope)
	}
	if err != nil {
		return nil, err
	}
	session, err := record.Decode[sessionRecord](raw)
	if err != nil {
		return nil, err
	}
	if session.Mechanism != s.mechanism {
		return nil, auth.ErrRejected
	}
	loginKey := loginPrefix + session.Login
	rawLogin, err := s.logins.readRecord(ctx, loginKey)
	if err != nil {
		return nil, err
	}
	login, err := decodeLogin(session.Login, rawLogin)
	if err != nil {
		return nil, err
	}
	if !login.Names(key) {
		return nil, auth.ErrRejected
	}
	identity, more, err := s.owner.identify(ctx, login, s.expires(session, login))
	if err != nil {
		return nil, err
	}
	return &cachedSession{
		basis:   append(record.Basis{{Key: key, Raw: raw}, {Key: loginKey, Raw: rawLogin}}, more...),
		session: session, login: login, identity: identity,
	}, nil
}

// idle reports whether the last request is longer ago than the idle timeout. The
// store or this process may know the last request.
func (s *Sessions) idle(cached *cachedSession, now time.Time) bool {
	if s.options.Idle == 0 {
		return false
	}
	seen := cached.session.Seen
	if here := time.Unix(0, cached.seen.Load()); here.After(seen) {
		seen = here
	}
	return now.Sub(seen) >= s.options.Idle
}

// touch remembers the time of the request. From time to time it stores the time in
// the background, so that no request waits for a disk: every eighth of the idle
// timeout, or every five minutes for the user's overview of their logins. Other
// instances, and this one after a restart, may see a time that is that much too early.
func (s *Sessions) touch(cached *cachedSession, now time.Time) {
	every := sessionUse
	if s.options.Idle > 0 {
		every = s.options.Idle / 8
		cached.seen.Store(now.UnixNano())
	}
	// Abs: if the clock was set back, the stored time is in the future.
	if now.Sub(cached.session.Seen).Abs() < every || !cached.touching.CompareAndSwap(false, true) {
		return
	}
	select {
	case s.notes <- struct{}{}:
	default: // a later request stores its time
		cached.touching.Store(false)
		return
	}
	go func() {
		defer func() { <-s.notes }()
		defer cached.touching.Store(false)
		seen := *cached.session
		seen.Seen = now
		value, err := json.Marshal(seen)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		// With Swap, a session that has ended meanwhile stays ended.
		_ = s.logins.store.Swap(ctx, cached.basis[0].Key, cached.basis[0].Raw, value, seen.Expires)
	}()
}

// longIdle reports whether a session has ended because it was not used, as far as the
// store tells: another instance may have seen a later request.
func (s *Sessions) longIdle(session *sessionRecord) bool {
	idle := s.options.Idle
	return idle > 0 && s.logins.now().Sub(session.Seen) >= idle+idle/8
}
