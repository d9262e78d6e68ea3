package guard

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// answering is a store whose methods return the error of a function.
type answering func(context.Context) error

func (s answering) Get(ctx context.Context, _ string) ([]byte, error)                  { return nil, s(ctx) }
func (s answering) Put(ctx context.Context, _ string, _ []byte, _ time.Time) error     { return s(ctx) }
func (s answering) Swap(ctx context.Context, _ string, _, _ []byte, _ time.Time) error { return s(ctx) }
func (s answering) Take(ctx context.Context, _ string) ([]byte, error)                 { return nil, s(ctx) }
func (s answering) Delete(ctx context.Context, _ string) error                         { return s(ctx) }
func (s answering) Walk(ctx context.Context, _ string, _ func([]string) error) error   { return s(ctx) }

// callAll calls each method and returns the errors by operation.
func callAll(ctx context.Context, s store.Store) map[string]error {
	errs := map[string]error{}
	for name, call := range storetest.Calls(s, "key") {
		errs[strings.ToLower(name)] = call(ctx)
	}
	return errs
}

// A store behind a guard and an open gate does what every store does.
func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(_ *testing.T, now func() time.Time) storetest.Store {
		memory := store.NewMemory(now)
		gate := NewGate(New(memory, func(string, time.Duration) {}))
		gate.Open()
		return struct {
			store.Store
			io.Closer
		}{gate, memory}
	})
}

// The answers of a store pass unchanged. Its failures become *Error. Both are
// measured, except for a walk, which has no other answer than its end.
func TestStore(t *testing.T) {
	t.Parallel()
	errBroken := errors.New("the disk is on fire")
	var answer error
	observed := map[string]int{}
	s := New(answering(func(context.Context) error { return answer }),
		func(operation string, _ time.Duration) { observed[operation]++ })
	for _, answer = range []error{store.ErrNotFound, store.ErrConflict, nil} {
		for operation, err := range callAll(t.Context(), s) {
			if err != answer && operation != "walk" {
				t.Errorf("%s: %v, want %v", operation, err, answer)
			}
		}
	}
	answer = errBroken
	for operation, err := range callAll(t.Context(), s) {
		var marked *Error
		if !errors.As(err, &marked) || marked.Operation != operation || !errors.Is(err, errBroken) {
			t.Errorf("%s: %v, want an *Error", operation, err)
		}
		if want := map[bool]int{false: 4}[operation == "walk"]; observed[operation] != want {
			t.Errorf("%s: observed %d times, want %d", operation, observed[operation], want)
		}
	}
}

// remembering is a store that has answers in memory.
type remembering struct {
	answering
	values map[string][]byte
}

func (s remembering) Recall(key string) ([]byte, bool) {
	value, known := s.values[key]
	return value, known
}

// What a store has in memory, a value or that there is none, is neither asked for nor
// measured, unless the caller's context has ended: then the store says so.
func TestRecall(t *testing.T) {
	t.Parallel()
	errAsked := errors.New("the store is asked")
	measured := 0
	s := New(remembering{
		answering(func(ctx context.Context) error { return cmp.Or(ctx.Err(), errAsked) }),
		map[string][]byte{"present": []byte("x"), "absent": nil},
	}, func(string, time.Duration) { measured++ })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx   context.Context
		key   string
		value string
		err   error
		asks  int
	}{
		{t.Context(), "present", "x", nil, 0},
		{t.Context(), "absent", "", store.ErrNotFound, 0},
		{t.Context(), "unknown", "", errAsked, 1},
		{ended, "present", "", context.Canceled, 1},
		{ended, "absent", "", context.Canceled, 1},
	} {
		measured = 0
		value, err := s.Get(c.ctx, c.key)
		if string(value) != c.value || !errors.Is(err, c.err) || measured != c.asks {
			t.Errorf("%s: %q, %v, measured %d times; want %q, %v, %d",
				c.key, value, err, measured, c.value, c.err, c.asks)
		}
	}
}

// A closed gate lets no call through.
func TestGate(t *testing.T) {
	t.Parallel()
	gate := NewGate(answering(func(context.Context) error { t.Error("a call comes through"); return nil }))
	for operation, err := range callAll(t.Context(), gate) {
		if !errors.Is(err, errClosed) || !errors.As(err, new(*Error)) || !strings.Contains(err.Error(), operation) {
			t.Errorf("%s: %v, want that the gate is closed", operation, err)
		}
	}
}

// Time between calls of the store does not count, calls side by side count once,
// and after the limit every call fails at once.
func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := limit / 4
		s := New(answering(func(ctx context.Context) error {
			select {
			case <-time.After(away):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}), func(string, time.Duration) {})
		c := &Context{Context: t.Context()}
		for range 3 {
			time.Sleep(time.Hour) // an identity provider, or the hash of a password
			side := make(chan error)
			derived, cancel := context.WithCancel(c.Detached())
			go func() { side <- s.Put(derived, "key", nil, time.Time{}) }()
			must.Get(s.Get(c, "key"))(t)
			must.Do(t, <-side)
			cancel()
		}
		away = limit
		for _, want := range []time.Duration{limit / 4, 0} {
			began := time.Now()
			err := s.Put(c, "key", nil, time.Time{})
			if took := time.Since(began); !errors.As(err, new(*Error)) || took != want {
				t.Errorf("%v after %v, want an *Error after %v", err, took, want)
			}
		}
	})
}

// What a call leaves behind sees the call as ended, and does not end the next
// call.
func TestCallEnds(t *testing.T) {
	t.Parallel()
	c := &Context{Context: t.Context()}
	before, end, err := limitCall(c, time.Now())
	must.Do(t, err)
	during := before.Done()
	end.at(time.Now())
	<-during
	<-before.Done()
	if before.Err() == nil {
		t.Error("a call that is over has not ended")
	}
	after, end, err := limitCall(c, time.Now())
	if err != nil || after.Err() != nil {
		t.Fatalf("the next call: %v, %v", err, after.Err())
	}
	derived, cancel := context.WithCancel(after)
	defer cancel()
	select {
	case <-derived.Done():
		t.Error("the next call has ended")
	default:
	}
	end.at(time.Now())
	<-derived.Done()
}

// applier is a store that makes several changes at once.
type applier struct {
	store.Store
	applied []store.Change
	err     error
}

func (a *applier) Applies() bool { return true }

func (a *applier) Apply(_ context.Context, changes []store.Change) error {
	a.applied = changes
	return a.err
}

// Several changes at once reach a store that can make them, through an open gate alone. A failure is that of the
// store. Another store cannot.
func TestApply(t *testing.T) {
	t.Parallel()
	changes := []store.Change{{Key: "key", Any: true}}
	able := &applier{err: store.ErrConflict}
	gate := NewGate(New(able, func(string, time.Duration) {}))
	var closed *Error
	if err := gate.Apply(t.Context(), changes); !errors.As(err, &closed) || able.applied != nil {
		t.Errorf("a closed gate: got %v, and %v was applied", err, able.applied)
	}
	gate.Open()
	if err := gate.Apply(t.Context(), changes); !gate.Applies() || err != store.ErrConflict || len(able.applied) != 1 {
		t.Errorf("got %v, %v was applied, want the conflict", err, able.applied)
	}
	able.err = errors.New("the disk is on fire")
	var failed *Error
	if err := gate.Apply(t.Context(), changes); !errors.As(err, &failed) || !errors.Is(err, able.err) {
		t.Errorf("a store that fails: got %v, want its error as that of the store", err)
	}
	unable := NewGate(New(struct{ store.Store }{}, func(string, time.Duration) {}))
	unable.Open()
	if err := unable.Apply(t.Context(), changes); unable.Applies() || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a store that cannot: got %v", err)
	}
}
