package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"authgate/gateway/store"
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
	ready    *lru.Cache[string, *readySession] // by session identifier's hash
}

// readySession is a session whose records were decoded before. It counts only
// while the store still holds the very same bytes.
type readySession struct {
	session    *sessionRecord
	rawSession []byte
	rawLogin   []byte
	identity   *policy.Identity
	touching   atomic.Bool
	seen       atomic.Int64 // last request here, Unix nanoseconds; where idle sessions end
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
	_, record, _, err := s.record(ctx, id)
	if err != nil {
		return "", err
	}
	return record.Login, nil
}

// record reads the session of an identifier: its key, its decoded record
// (from ready where the bytes are the same) and the bytes.
func (s *Session) record(ctx context.Context, id string) (key string, record *sessionRecord, raw []byte, err error) {
	// The length first: base64 skips line breaks.
	if len(id) != base64.RawURLEncoding.EncodedLen(32) {
		return "", nil, nil, ErrRejected
	}
	secret, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(secret) != 32 {
		return "", nil, nil, ErrRejected
	}
	key = SessionPrefix + hashed(secret)
	raw, err = s.logins.store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil, nil, ErrRejected
	}
	if err != nil {
		return "", nil, nil, fmt.Errorf("reading a session: %w", err)
	}
	if ready, ok := s.ready.Get(key); ok && bytes.Equal(raw, ready.rawSession) {
		return key, ready.session, raw, nil
	}
	record, err = decode[sessionRecord](raw)
	return key, record, raw, err
}

func (s *Session) find(ctx context.Context, id string) (*readySession, error) {
	key, record, raw, err := s.record(ctx, id)
	if err != nil {
		return nil, err
	}
	now := s.logins.now()
	if record.Mechanism != policy.Session || !now.Before(record.Expires) || s.idle(key, record, now) {
		return nil, ErrRejected
	}
	ready, err := s.resolve(ctx, key, record, raw)
	if err != nil {
		return nil, err
	}
	s.touch(key, ready, now)
	return ready, nil
}

// resolve leads from the session over its login to the account of today.
func (s *Session) resolve(ctx context.Context, key string, record *sessionRecord, raw []byte) (*readySession, error) {
	rawLogin, err := s.logins.raw(ctx, record.Login)
	if err != nil {
		return nil, err
	}
	ready, ok := s.ready.Get(key)
	if ok && ready.session == record && bytes.Equal(ready.rawLogin, rawLogin) {
		return ready, nil // accounts never change under a mechanism
	}
	login, err := decodeLogin(record.Login, rawLogin)
	if err != nil {
		return nil, err
	}
	account, ok := login.current(s.accounts)
	if !ok {
		return nil, ErrRejected
	}
	ready = &readySession{
		session: record, rawSession: raw, rawLogin: rawLogin,
		identity: account.identity(policy.Session, record.Login, record.Expires),
	}
	s.ready.Add(key, ready)
	return ready, nil
}

// idle reports whether the last request of the session, as the store or this
// process knows it, was too long ago.
func (s *Session) idle(key string, record *sessionRecord, now time.Time) bool {
	if s.options.Idle == 0 {
		return false
	}
	seen := record.Seen
	if ready, ok := s.ready.Get(key); ok {
		if here := time.Unix(0, ready.seen.Load()); here.After(seen) {
			seen = here
		}
	}
	return now.Sub(seen) >= s.options.Idle
}

// touch remembers that the session is in use, and now and then notes it in the
// store, beside the request, which must not wait for a disk. After a restart,
// and to other instances, the last request may seem up to an eighth of the
// idle time earlier than it was.
func (s *Session) touch(key string, ready *readySession, now time.Time) {
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
		_ = s.logins.store.Swap(ctx, key, ready.rawSession, value, seen.Expires)
	}()
}
