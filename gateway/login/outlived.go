package login

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/gateway/identity/auth"
	"authgate/gateway/store/record"
)

// errEnded: the session has ended by time. A client that has its cookie may know that.
var errEnded = fmt.Errorf("%w: the session has ended by time", auth.ErrRejected)

// outlived is the trace of a session that has ended by time. It opens nothing.
type outlived struct {
	Scope   string `json:"scope,omitempty"`
	Expires int64  `json:"expires"` // of the session, in Unix seconds
}

// EndedByTime reports whether a trace is that of a session that has ended by time, and was valid in scope.
// A store that cannot tell leaves it at false.
func (l *Logins) EndedByTime(ctx context.Context, trace, scope string) bool {
	if len(trace) != auth.TraceLength {
		return false
	}
	ended, err := l.outlived(ctx, outlivedPrefix+trace, scope)
	return ended && err == nil
}

// outlivedKey returns the store key of the trace that outlives the record under key; false if none
// does.
func outlivedKey(key string) (string, bool) {
	hash, ok := strings.CutPrefix(key, SessionPrefix)
	return outlivedPrefix + hash, ok
}

// putHandle records a handle, and in parallel the trace that outlives it.
func (l *Logins) putHandle(ctx context.Context, key string, value []byte, expires time.Time) error {
	var puts errgroup.Group
	if outlives, ok := outlivedKey(key); ok {
		session, err := record.Decode[sessionRecord](value)
		if err != nil {
			return err
		}
		kept, err := json.Marshal(outlived{session.Scope, expires.Unix()})
		if err != nil {
			return err
		}
		puts.Go(func() error { return l.store.Put(ctx, outlives, kept, expires.Add(auth.TraceLifetime)) })
	}
	puts.Go(func() error { return l.store.Put(ctx, key, value, expires) })
	return puts.Wait()
}

// gone returns why there is no session under key any more: an ErrRejected, which is errEnded if it
// has ended by time. A store that cannot tell why, as when another node of a cluster has that record,
// leaves it at the ErrRejected: that there is no session is known.
func (s *Sessions) gone(ctx context.Context, key, scope string) error {
	outlives, _ := outlivedKey(key)
	switch ended, err := s.logins.outlived(ctx, outlives, scope); {
	case err != nil:
		return err
	case ended:
		return errEnded
	}
	return auth.ErrRejected
}

// outlived reports whether the record under key is of a session that has ended by time, and was
// valid in scope. The error is that of a record which cannot be read.
func (l *Logins) outlived(ctx context.Context, key, scope string) (bool, error) {
	raw, err := record.Find(ctx, l.store, key)
	if raw == nil || err != nil {
		return false, nil
	}
	old, err := record.Decode[outlived](raw)
	if err != nil {
		return false, err
	}
	return old.Scope == scope && l.now().Unix() >= old.Expires, nil
}
