package login

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"authgate/gateway/auth"
	"authgate/policy"
)

// identityCacheSize bounds the identities that a mechanism keeps ready. An
// entry only saves work: it is used while the store's records are unchanged.
const identityCacheSize = 16384

// sessionRecord is what the store holds under the hash of a session's
// identifier.
type sessionRecord struct {
	Login     string           `json:"sid"`
	Mechanism policy.Mechanism `json:"mechanism"`
	Created   time.Time        `json:"created"`
	Expires   time.Time        `json:"expires"`
	Seen      time.Time        `json:"seen"` // kept up only where idle sessions end
}

// SessionOptions says how sessions live.
type SessionOptions struct {
	Lifetime time.Duration // absolute, from creation
	Idle     time.Duration // without a request; 0: off
}

// Session is the mechanism of server-side sessions: an opaque identifier of
// 256 random bits in a cookie, whose hash leads to the session's record. Local
// sessions and those that a provider vouches for are told apart by cookie,
// record and owner, and neither opens what the other does.
type Sessions struct {
	mechanism policy.Mechanism
	options   SessionOptions
	owner     owner
	logins    *Logins
	ready     *lru.Cache[string, *readySession] // by session identifier
}

// owner knows whose the logins of one mechanism are.
type owner interface {
	// identify returns whose login it is, and the records beside the login
	// that say so; ErrRejected when it is nobody's any more.
	identify(ctx context.Context, login *Login, expires time.Time) (*policy.Identity, []record, error)
	// renew brings what is known of the owner up to date where that is due,
	// and reports whether it may have changed.
	renew(ctx context.Context, login *Login) bool
}

// record is what the store held under a key; raw is nil where that was
// nothing.
type record struct {
	key string
	raw []byte
}

// readySession is a session that was found before, by its identifier, so that
// a warm request hashes and decodes nothing. It counts only while the store
// still holds the very same bytes under all the keys that it was made of.
type readySession struct {
	basis    []record // session, login, and what the owner adds
	session  *sessionRecord
	login    *Login
	identity *policy.Identity

	touching atomic.Bool
	seen     atomic.Int64 // last request here, Unix nanoseconds; where idle sessions end
}

// NewSession returns the mechanism of sessions of local accounts.
func NewSessions(options SessionOptions, accounts *auth.Accounts, logins *Logins) *Sessions {
	return newSessions(policy.Session, options, localOwner{accounts}, logins)
}

func newSessions(mechanism policy.Mechanism, options SessionOptions, o owner, logins *Logins) *Sessions {
	ready, err := lru.New[string, *readySession](identityCacheSize)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Sessions{mechanism: mechanism, options: options, owner: o, logins: logins, ready: ready}
}

// localOwner is the owner of logins of local accounts, which never change
// under a mechanism.
type localOwner struct{ accounts *auth.Accounts }

func (o localOwner) identify(_ context.Context, login *Login, expires time.Time) (*policy.Identity, []record, error) {
	account, ok := login.current(o.accounts)
	if !ok {
		return nil, nil, auth.ErrRejected
	}
	return account.Identity(policy.Session, login.ID, expires), nil, nil
}

func (localOwner) renew(context.Context, *Login) bool { return false }

// New returns the identifier of a new session, for the cookie, and the handle
// with which Logins.Begin records it.
func (s *Sessions) New() (id string, handle Handle) {
	secret := newSecret()
	return base64.RawURLEncoding.EncodeToString(secret), func(login *Login) (string, []byte, time.Time, error) {
		expires := login.Created.Add(s.options.Lifetime)
		value, err := json.Marshal(sessionRecord{
			Login: login.ID, Mechanism: s.mechanism,
			Created: login.Created, Expires: expires, Seen: login.Created,
		})
		return SessionPrefix + hashed(secret), value, expires, err
	}
}

// Lifetime is how long a new session lives.
func (s *Sessions) Lifetime() time.Duration { return s.options.Lifetime }

// Challenge implements Authenticator: there is none for cookies.
func (s *Sessions) Challenge(*auth.Credentials) auth.Challenge { return "" }

// Authenticate implements Authenticator.
func (s *Sessions) Authenticate(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	id := s.presented(creds)
	if id == "" {
		return nil, auth.ErrNoCredentials
	}
	ready, err := s.find(ctx, id)
	if err == nil && s.owner.renew(ctx, ready.login) {
		ready, err = s.find(ctx, id)
	}
	return s.proves(ready, err)
}

// Alive implements Authenticator.
func (s *Sessions) Alive(ctx context.Context, creds *auth.Credentials) (*policy.Identity, error) {
	id := s.presented(creds)
	if id == "" {
		return nil, auth.ErrNoCredentials
	}
	ready, err := s.look(ctx, id)
	return s.proves(ready, err)
}

// presented returns the session identifier among credentials, empty if there
// is none.
func (s *Sessions) presented(creds *auth.Credentials) string {
	if s.mechanism == policy.OIDC {
		return creds.Delegated
	}
	return creds.Session
}

// cookie is the cookie that holds the session identifier.
func (s *Sessions) cookie() auth.CookieRole {
	if s.mechanism == policy.OIDC {
		return auth.DelegatedCookie
	}
	return auth.SessionCookie
}

// proves returns the identity of a session that was looked up, with the error
// of that.
func (s *Sessions) proves(ready *readySession, err error) (*policy.Identity, error) {
	if errors.Is(err, auth.ErrRejected) {
		return nil, &auth.Rejection{Detail: auth.DetailNotSignedIn, Reason: "unknown, expired or ended session", Cookie: s.cookie()}
	}
	if err != nil {
		return nil, err
	}
	return ready.identity, nil
}

// LoginOf returns the sid that the session identifier belongs to, or
// ErrRejected when there is no such session.
func (s *Sessions) LoginOf(ctx context.Context, id string) (string, error) {
	key, err := sessionKey(id)
	if err != nil {
		return "", err
	}
	raw, err := s.logins.read(ctx, key)
	if err != nil {
		return "", err
	}
	record, err := decode[sessionRecord](raw)
	if err != nil {
		return "", err
	}
	return record.Login, nil
}

// sessionKey is where the store keeps the session of an identifier;
// ErrRejected for what never was one.
func sessionKey(id string) (string, error) {
	// The length first: base64 skips line breaks.
	if len(id) != base64.RawURLEncoding.EncodedLen(32) {
		return "", auth.ErrRejected
	}
	secret, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil {
		return "", auth.ErrRejected
	}
	return SessionPrefix + hashed(secret), nil
}

// find is look for a request, which is activity.
func (s *Sessions) find(ctx context.Context, id string) (*readySession, error) {
	ready, err := s.look(ctx, id)
	if err == nil {
		s.touch(ready, s.logins.now())
	}
	return ready, err
}

// look leads from an identifier to a session that is good now.
func (s *Sessions) look(ctx context.Context, id string) (*readySession, error) {
	ready, ok := s.ready.Get(id)
	if !ok {
		key, err := sessionKey(id)
		if err != nil {
			return nil, err
		}
		ready = &readySession{basis: []record{{key: key}}}
	}
	current, err := s.resolve(ctx, ready)
	if err != nil {
		return nil, err
	}
	now := s.logins.now()
	if !now.Before(s.expires(current.session)) || s.idle(current, now) {
		return nil, auth.ErrRejected
	}
	if current != ready {
		s.ready.Add(strings.Clone(id), current) // id alone, not the header it is a part of
	}
	return current, nil
}

// expires is when a session ends: as was said when it was made, or sooner
// where sessions live less long by now.
func (s *Sessions) expires(session *sessionRecord) time.Time {
	if limit := session.Created.Add(s.options.Lifetime); limit.Before(session.Expires) {
		return limit
	}
	return session.Expires
}

// resolve leads from the session over its login to its owner of today, and
// returns ready itself where the store still holds the same bytes.
func (s *Sessions) resolve(ctx context.Context, ready *readySession) (*readySession, error) {
	same, err := s.logins.same(ctx, ready.basis)
	if err != nil {
		return nil, err
	}
	if same && ready.identity != nil {
		return ready, nil
	}
	key := ready.basis[0].key
	raw, err := s.logins.read(ctx, key)
	if err != nil {
		return nil, err
	}
	session, err := decode[sessionRecord](raw)
	if err != nil {
		return nil, err
	}
	if session.Mechanism != s.mechanism {
		return nil, auth.ErrRejected
	}
	loginKey := loginPrefix + session.Login
	rawLogin, err := s.logins.read(ctx, loginKey)
	if err != nil {
		return nil, err
	}
	login, err := decodeLogin(session.Login, rawLogin)
	if err != nil {
		return nil, err
	}
	identity, more, err := s.owner.identify(ctx, login, s.expires(session))
	if err != nil {
		return nil, err
	}
	next := &readySession{
		basis:   append([]record{{key, raw}, {loginKey, rawLogin}}, more...),
		session: session, login: login, identity: identity,
	}
	next.seen.Store(ready.seen.Load())
	return next, nil
}

// idle reports whether the last request of the session, as the store or this
// process knows it, was too long ago.
func (s *Sessions) idle(ready *readySession, now time.Time) bool {
	if s.options.Idle == 0 {
		return false
	}
	seen := ready.session.Seen
	if here := time.Unix(0, ready.seen.Load()); here.After(seen) {
		seen = here
	}
	return now.Sub(seen) >= s.options.Idle
}

// touch remembers that the session is in use, and now and then notes it in the
// store, beside the request, which must not wait for a disk. After a restart,
// and to other instances, the last request may seem up to an eighth of the
// idle time earlier than it was.
func (s *Sessions) touch(ready *readySession, now time.Time) {
	if s.options.Idle == 0 {
		return
	}
	ready.seen.Store(now.UnixNano())
	// Abs: after the clock was set back, the store would keep a time to come.
	if now.Sub(ready.session.Seen).Abs() < s.options.Idle/8 || !ready.touching.CompareAndSwap(false, true) {
		return
	}
	seen := *ready.session
	seen.Seen = now
	value, err := json.Marshal(seen)
	if err != nil {
		return
	}
	go func() {
		defer ready.touching.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		// Swap, so that a session which ended meanwhile stays ended.
		_ = s.logins.store.Swap(ctx, ready.basis[0].key, ready.basis[0].raw, value, seen.Expires)
	}()
}
