package streams

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/proxy/web"
	"authgate/policy"
)

// within is how soon after its login a stream ends.
const within = time.Second

// told is a stream that notes what its Set does with it.
type told struct {
	Entry
	login  string
	ground atomic.Pointer[Ground]
	shares bool // its credential with all others
	mu     sync.Mutex
	check  func(context.Context) error
	gone   bool // its client has gone
	notes  []string
	reason string    // of the end
	at     time.Time // of the last note
}

// now makes check what checks of the stream return from now on.
func (s *told) now(check func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check = check
}

// leave makes the client of the stream go.
func (s *told) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
}

func (s *told) note(what, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Ended() != nil {
		what += ", ended"
	}
	s.notes, s.reason, s.at = append(s.notes, what), s.reason+reason, time.Now()
}

func (s *told) LoginID() string   { return s.login }
func (s *told) Ground() Ground    { return *s.ground.Load() }
func (s *told) Shares(Login) bool { return s.shares }

func (s *told) Check(ctx context.Context) error {
	s.mu.Lock()
	check := s.check
	s.mu.Unlock()
	return check(ctx)
}

func (s *told) Ending(why *Ended) { s.note("ending", why.Reason) }
func (s *told) Cancel()           { s.note("cancel", "") }

func (s *told) CancelIfGone() {
	s.mu.Lock()
	gone := s.gone
	s.mu.Unlock()
	if gone {
		s.note("gone", "")
	}
}

// add adds a stream to the Set.
func (s *Set) add(check func(context.Context) error) *told {
	added := &told{check: check}
	added.ground.Store(&Ground{})
	s.Add(&added.Entry, added, added)
	return added
}

func goesOn(context.Context) error { return nil }
func ends(context.Context) error   { return &Ended{Err: web.Forbidden(), Reason: "revoked"} }
func fails(context.Context) error  { return errors.New("no answer") }
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// waits lets time pass in a bubble.
func waits(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// remove removes streams, and waits for the checks that still run.
func remove(all ...*told) {
	for _, each := range all {
		each.Remove()
	}
	waits(2 * checkTime)
}

// want fails the test unless the Set has done that with the stream.
func (s *told) want(t *testing.T, notes ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.notes, notes) {
		t.Errorf("the stream notes %q, want %q", s.notes, notes)
	}
}

// last returns why the stream has ended, and when it took its last note.
func (s *told) last() (reason string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason, s.at
}

// The timer runs while there are streams, and only then.
func TestRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSet()
		if s.armed.Load() {
			t.Error("the timer runs before there are streams")
		}
		first, second := s.add(goesOn), s.add(goesOn)
		first.Remove()
		waits(2 * checkEvery)
		if !s.armed.Load() || len(s.all(each)) != 1 {
			t.Error("a stream is not checked")
		}
		second.Remove()
		waits(2 * checkEvery)
		if s.armed.Load() || len(s.all(each)) > 0 {
			t.Error("the timer runs on")
		}
	})
}

// TestAlone: a check may still use an Entry that it has met, after it is removed.
func TestAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSet()
		short, long := s.add(goesOn), s.add(hangs)
		short.Remove()
		waits(2 * checkEvery)
		long.Remove()
		if !short.Alone() || long.Alone() || !new(Entry).Alone() {
			t.Errorf("alone: a short stream %t, one that a check has met %t, none %t; want true, false, true",
				short.Alone(), long.Alone(), new(Entry).Alone())
		}
		waits(2 * checkTime) // the check ends
	})
}

// A stream goes on until a check tells that it must end, and ends once. It learns of the
// end before others see it, and is canceled after that.
func TestEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSet()
		stream, other := s.add(goesOn), s.add(goesOn)
		waits(time.Minute)
		stream.want(t)
		stream.now(ends)
		ended := time.Now()
		waits(time.Minute)
		stream.want(t, "ending", "cancel, ended")
		other.want(t)
		if reason, at := stream.last(); at.Sub(ended) > within || reason != "revoked" {
			t.Errorf("ended after %v for the reason %q", at.Sub(ended), reason)
		}
		if other.Remove() != nil || stream.Remove() != stream.Ended() || stream.Ended() == nil {
			t.Errorf("Remove returns another reason than %v", stream.Ended())
		}
	})
}

// A stream that is removed while it is checked is left alone.
func TestRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSet()
		stream := s.add(func(ctx context.Context) error {
			<-ctx.Done()
			return ends(ctx)
		})
		waits(checkEvery)
		if why := stream.Remove(); why != nil {
			t.Errorf("it has ended: %v", why)
		}
		waits(time.Minute)
		stream.want(t)
	})
}

// A stream that has ended before it turns into something else is canceled as that, too.
func TestTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSet()
		before, after := s.add(goesOn), s.add(ends)
		before.Turn(func() { before.note("turn", "") })
		before.want(t, "turn")
		waits(within)
		after.Turn(func() { after.note("turn", "") })
		after.want(t, "ending", "cancel, ended", "turn, ended", "cancel, ended")
		remove(before, after)
	})
}

// A stream is asked once a minute whether its client has gone.
func TestAsksForTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream := NewSet().add(goesOn)
		waits(goneEvery + within)
		stream.leave()
		waits(goneEvery / 2)
		stream.want(t)
		waits(goneEvery / 2)
		stream.want(t, "gone")
		stream.Remove()
		waits(2 * goneEvery)
		stream.want(t, "gone")
	})
}

// A stream goes on for at most ten seconds while nothing can tell whether it may.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(context.Context) error{"fails": fails, "hangs": hangs} {
		synctest.Test(t, func(t *testing.T) {
			s := NewSet()
			lasting, passing := s.add(goesOn), s.add(goesOn)
			waits(time.Minute)
			began := time.Now()
			lasting.now(check)
			passing.now(check)
			waits(7 * time.Second)
			lasting.want(t)
			passing.now(goesOn)
			waits(time.Minute)
			lasting.want(t, "ending", "cancel, ended")
			passing.want(t)
			if reason, at := lasting.last(); at.Sub(began) > unconfirmedTime ||
				!strings.HasPrefix(reason, "not confirmed in time") {
				t.Errorf("%s: ended after %v for the reason %q", name, at.Sub(began), reason)
			}
			remove(lasting, passing)
		})
	}
}

// Streams that wait for the store do not delay the checks of others.
func TestBesideThoseThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSet()
		var waiting []*told
		for range checksAtOnce / 2 {
			waiting = append(waiting, s.add(hangs))
		}
		stream := s.add(goesOn)
		waits(2 * time.Second)
		stream.now(ends)
		ended := time.Now()
		waits(within)
		stream.want(t, "ending", "cancel, ended")
		if _, at := stream.last(); at.Sub(ended) > within {
			t.Errorf("ended after %v", at.Sub(ended))
		}
		remove(append(waiting, stream)...)
	})
}

// A check that panics ends nothing at once, and does not keep others from being checked.
func TestPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSet()
		panics, stream := s.add(func(context.Context) error { panic("in a check") }), s.add(ends)
		waits(within)
		panics.want(t)
		stream.want(t, "ending", "cancel, ended")
		remove(panics, stream)
	})
}

// kin adds streams of a login, which share its credential if there is one, and a count of their checks.
func (s *Set) kin(n int, g *Ground, login string) (kin []*told, checks *atomic.Int64) {
	checks = &atomic.Int64{}
	for range n {
		one := &told{login: login, shares: login != "", check: func(context.Context) error {
			checks.Add(1)
			return nil
		}}
		one.ground.Store(g)
		s.Add(&one.Entry, one, one)
		kin = append(kin, one)
	}
	return kin, checks
}

// A login is asked once each time, whatever it has open. Streams of another identity, at another route or with another
// credential are asked for themselves.
func TestOneCheckForALogin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, alice := NewSet(), &policy.Identity{}
		all, checks := s.kin(500, &Ground{alice, 1}, "a")
		elsewhere, there := s.kin(500, &Ground{alice, 2}, "a")
		bobs, of := s.kin(500, &Ground{&policy.Identity{}, 1}, "b")
		strangers, each := s.kin(50, &Ground{}, "")
		apart, alone := s.kin(50, &Ground{&policy.Identity{}, 1}, "")
		const rounds = 40
		waits(rounds*checkEvery + checkEvery/2)
		for name, c := range map[string]struct {
			checks *atomic.Int64
			want   int64
		}{
			"a login": {checks, rounds}, "its other route": {there, rounds}, "another login": {of, rounds},
			"no login": {each, 50 * rounds}, "other credentials": {alone, 50 * rounds},
		} {
			if got := c.checks.Load(); got != c.want {
				t.Errorf("%s: %d checks in ten seconds, want %d", name, got, c.want)
			}
		}
		gone := all[len(all)-1]
		gone.leave()
		waits(goneEvery)
		gone.want(t, "gone")
		remove(slices.Concat(all, elsewhere, bobs, strangers, apart)...)
	})
}

// When something has changed for one of them, each stream of a login is asked.
func TestChangedForALogin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, before, after := NewSet(), &Ground{&policy.Identity{}, 1}, &Ground{&policy.Identity{}, 1}
		all, _ := s.kin(3, before, "a")
		for _, one := range all[:2] {
			one.now(func(context.Context) error { one.ground.Store(after); return nil })
		}
		all[2].now(func(ctx context.Context) error { one := all[2]; one.ground.Store(after); return ends(ctx) })
		waits(within)
		all[0].want(t)
		all[1].want(t)
		all[2].want(t, "ending", "cancel, ended")
		remove(all...)
	})
}

// The end of a login ends 500 streams within 100 ms if the Set learns of it, a few at a time, so that other requests
// are served between. It ends no other streams, and no later than a second after if the Set does not.
func TestEndOfManyStreams(t *testing.T) {
	t.Parallel()
	for _, learns := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := NewSet()
			all, _ := s.kin(500, &Ground{&policy.Identity{}, 1}, "a")
			others, checks := s.kin(9, &Ground{&policy.Identity{}, 1}, "b")
			waits(time.Minute + time.Millisecond)
			for _, one := range all {
				one.now(ends)
			}
			asked, ended, limit := checks.Load(), time.Now(), within/2
			if learns {
				limit = 100 * time.Millisecond
				_, _ = s.Take("a", 1, 1)
				s.CheckLogin("a")
			}
			waits(limit)
			atOnce := map[time.Time]int{}
			for _, one := range all {
				one.want(t, "ending", "cancel, ended")
				_, at := one.last()
				atOnce[at]++
			}
			for at, n := range atOnce {
				if n > 2*endAtOnce {
					t.Errorf("%d streams end at once, %v after the login", n, at.Sub(ended))
				}
			}
			if learns && checks.Load() != asked {
				t.Error("another login is asked")
			}
			remove(append(all, others...)...)
		})
	}
}

// BenchmarkTick is one check of 10,000 streams of 20 logins.
func BenchmarkTick(b *testing.B) {
	s := NewSet()
	for range 20 {
		s.kin(500, &Ground{&policy.Identity{}, 1}, "a")
	}
	open := s.all(each)
	b.ReportAllocs()
	for b.Loop() {
		s.checkAll(b.Context(), open)
	}
}
