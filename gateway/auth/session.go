package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

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
// 256 random bits in a cookie, whose hash leads to the session's record.
type Session struct {
	options  SessionOptions
	accounts *Accounts
	logins   *Logins
	ready    *lru.Cache[string, *readySession] // by session identifier
}

// readySession is a session that was found before, by its identifier, so that
// a warm request hashes and decodes nothing. It counts only while the store
// still holds the very same bytes.
type readySession struct {
	key, loginKey string // of the store
	session       *sessionRecord
	rawSession    []byte
	rawLogin      []byte
	identity      *policy.Identity

	touching atomic.Bool
	seen     atomic.Int64 // last request here, Unix nanoseconds; where idle sessions end
}

// NewSession returns the mechanism over logins for accounts.
func NewSession(options SessionOptions, accounts *Accounts, logins *Logins) *Session {
	ready, err := lru.New[string, *readySession](identityCacheSize)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Session{options: options, accounts: accounts, logins: logins, ready: ready}
}

// Issue makes a session for Logins.Begin. The identifier for the cookie is
// put into *id.
func (s *Session) Issue(id *string) Issue {
	return func(login *Login) (string, []byte, time.Time, error) {
		secret := newSecret()
		expires := login.Created.Add(s.options.Lifetime)
		value, err := json.Marshal(sessionRecord{
			Login: login.ID, Mechanism: policy.Session,
			Created: login.Created, Expires: expires, Seen: login.Created,
		})
		*id = base64.RawURLEncoding.EncodeToString(secret)
		return SessionPrefix + hashed(secret), value, expires, err
	}
}

// Lifetime is how long a new session lives.
func (s *Session) Lifetime() time.Duration { return s.options.Lifetime }

// Challenge implements Authenticator: there is none for cookies.
func (s *Session) Challenge(*Credentials) Challenge { return "" }

// Authenticate implements Authenticator.
func (s *Session) Authenticate(ctx context.Context, creds *Credentials) (*policy.Identity, error) {
	if creds.Session == "" {
		return nil, ErrNoCredentials
	}
	ready, err := s.find(ctx, creds.Session)
	if errors.Is(err, ErrRejected) {
		return nil, &Rejection{Detail: DetailNotSignedIn, Reason: "unknown, expired or ended session"}
	}
	if err != nil {
		return nil, err
	}
	return ready.identity, nil
}

// LoginOf returns the sid that the session identifier belongs to, or
// ErrRejected when there is no such session.
func (s *Session) LoginOf(ctx context.Context, id string) (string, error) {
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
		return "", ErrRejected
	}
	secret, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil {
		return "", ErrRejected
	}
	return SessionPrefix + hashed(secret), nil
}

// find leads from an identifier to a session that is good now.
func (s *Session) find(ctx context.Context, id string) (*readySession, error) {
	ready, ok := s.ready.Get(id)
	if !ok {
		key, err := sessionKey(id)
		if err != nil {
			return nil, err
		}
		ready = &readySession{key: key}
	}
	current, err := s.resolve(ctx, ready)
	if err != nil {
		return nil, err
	}
	now := s.logins.now()
	if current.session.Mechanism != policy.Session || !now.Before(current.session.Expires) || s.idle(current, now) {
		return nil, ErrRejected
	}
	if current != ready {
		s.ready.Add(strings.Clone(id), current) // id alone, not the header it is a part of
	}
	s.touch(current, now)
	return current, nil
}

// resolve leads from the session over its login to the account of today, and
// returns ready itself where the store still holds the same bytes.
func (s *Session) resolve(ctx context.Context, ready *readySession) (*readySession, error) {
	raw, err := s.logins.read(ctx, ready.key)
	if err != nil {
		return nil, err
	}
	same := ready.identity != nil && bytes.Equal(raw, ready.rawSession)
	session, loginKey := ready.session, ready.loginKey
	if !same {
		if session, err = decode[sessionRecord](raw); err != nil {
			return nil, err
		}
		loginKey = loginPrefix + session.Login
	}
	rawLogin, err := s.logins.read(ctx, loginKey)
	if err != nil {
		return nil, err
	}
	if same && bytes.Equal(rawLogin, ready.rawLogin) {
		return ready, nil // accounts never change under a mechanism
	}
	login, err := decodeLogin(session.Login, rawLogin)
	if err != nil {
		return nil, err
	}
	account, ok := login.current(s.accounts)
	if !ok {
		return nil, ErrRejected
	}
	next := &readySession{
		key: ready.key, loginKey: loginKey, session: session, rawSession: raw, rawLogin: rawLogin,
		identity: account.identity(policy.Session, login.ID, session.Expires),
	}
	next.seen.Store(ready.seen.Load())
	return next, nil
}

// idle reports whether the last request of the session, as the store or this
// process knows it, was too long ago.
func (s *Session) idle(ready *readySession, now time.Time) bool {
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
func (s *Session) touch(ready *readySession, now time.Time) {
	if s.options.Idle == 0 {
		return
	}
	ready.seen.Store(now.UnixNano())
	if now.Sub(ready.session.Seen) < s.options.Idle/8 || !ready.touching.CompareAndSwap(false, true) {
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
		_ = s.logins.store.Swap(ctx, ready.key, ready.rawSession, value, seen.Expires)
	}()
}
