package dnschallenge

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/miekg/dns"

	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
)

const challengeName = "_acme-challenge.example.org."

// newSolver returns a solver that keeps its notes in a folder.
func newSolver(t testing.TB, s *server, p Provider, folder string) (*Solver, *logtest.Buffer) {
	t.Helper()
	log := new(logtest.Buffer)
	return New(Options{
		Provider: Redacted(p, []string{rightKey, wrongKey}), Resolvers: NewResolvers([]string{s.address}),
		Storage: &certmagic.FileStorage{Path: folder}, Logger: slog.New(slog.NewJSONHandler(log, nil)),
	}), log
}

// wantNotes fails the test unless there are so many notes.
func wantNotes(t testing.TB, when string, s *Solver, want int) {
	t.Helper()
	if got := must.Get(s.notes.all(t.Context()))(t); len(got) != want {
		t.Errorf("%s: %d notes, want %d", when, len(got), want)
	}
}

// Two challenges of one name, as for example.org and *.example.org, stand beside each other and
// beside what others have there. Each removes its own record alone.
func TestSolver(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	solver, _ := newSolver(t, s, s.provider(rightKey), t.TempDir())
	first, one := challengeOf("example.org", "first")
	second, two := challengeOf("example.org", "second")
	s.put(challengeName, "of another")
	must.Do(t, solver.Present(t.Context(), first))
	must.Do(t, solver.Present(t.Context(), second))
	s.wantTexts(t, "after both", challengeName, "of another", one, two)
	must.Do(t, solver.Wait(t.Context(), first))
	wantNotes(t, "meanwhile", solver, 2)
	must.Do(t, solver.CleanUp(t.Context(), first))
	s.wantTexts(t, "after one", challengeName, "of another", two)
	must.Do(t, solver.CleanUp(t.Context(), second))
	s.wantTexts(t, "at the end", challengeName, "of another")
	must.Do(t, solver.CleanUp(t.Context(), second)) // as certmagic may do
	wantNotes(t, "at the end", solver, 0)
	solver.Settle(t.Context())
}

// A record is added where the CNAME records of its name lead. It is removed there too, also while
// the resolver does not answer any more.
func TestSolverFollows(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const end = "challenges.acme.example.org."
	s.alias(challengeName, "between.example.org.")
	s.alias("between.example.org.", end)
	solver, _ := newSolver(t, s, s.provider(rightKey), t.TempDir())
	c, value := challengeOf("example.org", "token")
	must.Do(t, solver.Present(t.Context(), c))
	s.wantTexts(t, "with an alias", end, value)
	must.Do(t, solver.Wait(t.Context(), c))
	s.alias(challengeName, "")
	must.Do(t, solver.CleanUp(t.Context(), c))
	s.wantTexts(t, "at the end", end)

	s.alias(challengeName, challengeName)
	wantError(t, "aliases in a circle", solver.Present(t.Context(), c), "more than 10 CNAME records")
	s.fail(func(string) (int, bool) { return dns.RcodeServerFailure, false })
	wantError(t, "a resolver that fails", solver.Present(t.Context(), c), challengeName, s.address, "SERVFAIL")
}

// What a server refuses is not removed later. The error says what is wrong, without the key.
func TestSolverRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, _ := challengeOf("example.org", "token")
	solver, _ := newSolver(t, s, s.provider(wrongKey), t.TempDir())
	err := solver.Present(t.Context(), c)
	wantError(t, "a wrong key", err, challengeName, s.address, "NOTAUTH", "BADSIG", "tls.dns.key is wrong")
	if !errors.Is(err, errNotAdded) {
		t.Errorf("not refused: %v", err)
	}
	s.fail(func(what string) (int, bool) {
		if what == "add" {
			return dns.RcodeRefused, false
		}
		return dns.RcodeSuccess, false
	})
	solver.Provider = s.provider(rightKey)
	wantError(t, "a refusal", solver.Present(t.Context(), c), "REFUSED")
	before := s.updated()
	must.Do(t, solver.CleanUp(t.Context(), c))
	if s.wantTexts(t, "at the end", challengeName); s.updated() != before {
		t.Error("what was not added is removed")
	}
	wantNotes(t, "at the end", solver, 0)
	wantError(t, "nothing to wait for", solver.Wait(t.Context(), c), "not added")
}

// A server that fails may have changed the zone all the same, such as one that passes updates on
// and waits in vain: the record is removed.
func TestSolverUnsure(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	solver, _ := newSolver(t, s, s.provider(rightKey), t.TempDir())
	c, value := challengeOf("example.org", "token")
	for _, rcode := range []int{dns.RcodeServerFailure, dns.RcodeNotImplemented} {
		s.put(challengeName)
		s.fail(func(what string) (int, bool) {
			if what == "add" {
				return rcode, false
			}
			return dns.RcodeSuccess, false
		})
		name, unsure := dns.RcodeToString[rcode], rcode == dns.RcodeServerFailure
		err := solver.Present(t.Context(), c)
		if wantError(t, name, err, name); errors.Is(err, errNotAdded) == unsure {
			t.Errorf("%s: %v", name, err)
		}
		s.put(challengeName, "of another", value)
		must.Do(t, solver.CleanUp(t.Context(), c))
		if unsure {
			s.wantTexts(t, name, challengeName, "of another")
		} else {
			s.wantTexts(t, name, challengeName, "of another", value)
		}
		wantNotes(t, name, solver, 0)
	}
}

// A record that was added, although the answer was lost, is removed. An attempt to remove it
// that fails is repeated, also by the next process.
func TestSolverLeavesNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	folder := t.TempDir()
	solver, _ := newSolver(t, s, s.provider(rightKey), folder)
	c, value := challengeOf("example.org", "token")
	ctx, cancel := context.WithCancel(t.Context())
	s.fail(func(what string) (int, bool) {
		if what == "add" {
			cancel() // there is no second attempt
		}
		return dns.RcodeSuccess, what == "add"
	})
	wantError(t, "a lost answer", solver.Present(ctx, c), challengeName, s.address)
	s.wantTexts(t, "a lost answer", challengeName, value)
	s.fail(func(what string) (int, bool) {
		if what == "remove" {
			return dns.RcodeServerFailure, false
		}
		return dns.RcodeSuccess, false
	})
	wantError(t, "a removal that fails", solver.CleanUp(t.Context(), c), challengeName, "SERVFAIL", "tried again")
	solver.Settle(t.Context())
	wantNotes(t, "after it failed", solver, 1)

	next, log := newSolver(t, s, s.provider(rightKey), folder)
	next.adopt(must.Get(next.notes.all(t.Context()))(t))
	next.removeLeft(t.Context())
	s.wantTexts(t, "a removal that fails again", challengeName, value)
	s.fail(nil)
	next.removeLeft(t.Context()) // not yet
	s.wantTexts(t, "before the pause is over", challengeName, value)
	for key, one := range next.left {
		one.next = time.Now()
		next.left[key] = one
	}
	next.removeLeft(t.Context())
	s.wantTexts(t, "at the end", challengeName)
	wantNotes(t, "at the end", next, 0)
	if len(next.left) != 0 {
		t.Errorf("left: %v\n%s", next.left, log)
	}
}

// A process adopts neither its own records nor, at once, those of another instance.
func TestAdopt(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	solver, _ := newSolver(t, s, s.provider(rightKey), t.TempDir())
	c, value := challengeOf("example.org", "token")
	must.Do(t, solver.Present(t.Context(), c))
	all := must.Get(solver.notes.all(t.Context()))(t)
	solver.adopt(all)
	if len(solver.left) != 0 {
		t.Error("a record in use is taken for one that was left")
	}
	other, _ := newSolver(t, s, s.provider(rightKey), t.TempDir())
	other.Shared = true
	other.adopt(must.Get(solver.notes.all(t.Context()))(t))
	other.removeLeft(t.Context())
	s.wantTexts(t, "of another instance", challengeName, value)
	for key, one := range other.left {
		if until := time.Until(one.next); until < othersTime-time.Minute {
			t.Errorf("%s is left alone for %s", key, until)
		}
	}
}

// An old record that cannot be removed is given up.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	solver, log := newSolver(t, s, s.provider(wrongKey), t.TempDir())
	n := note{Record{Name: challengeName, Value: "value", Domain: "example.org"},
		time.Now().Add(-giveUpAfter - time.Hour)}
	must.Do(t, solver.notes.write(t.Context(), n))
	solver.adopt(must.Get(solver.notes.all(t.Context()))(t))
	solver.removeLeft(t.Context())
	wantNotes(t, "at the end", solver, 0)
	wantError(t, "the log", errors.New(log.String()), `"level":"ERROR"`, challengeName, "remove it by hand")
}

// A record that no resolver shows is waited for no longer than the context lasts. One resolver
// that does not answer is left out, and one that lacks the record is not.
func TestVisible(t *testing.T) {
	t.Parallel()
	s, other := startServer(t), startServer(t)
	record := Record{Name: challengeName, Value: "value"}
	s.put(challengeName, "another", "value")
	both := NewResolvers([]string{s.address, other.address})
	wantError(t, "one lacks it", both.Visible(t.Context(), record), other.address, errNotVisible.Error())
	other.fail(func(string) (int, bool) { return dns.RcodeServerFailure, false })
	must.Do(t, both.Visible(t.Context(), record))
	s.fail(func(string) (int, bool) { return dns.RcodeRefused, false })
	wantError(t, "none answers", both.Visible(t.Context(), record), "SERVFAIL", "REFUSED")
	if _, err := both.Zone(t.Context(), "x.example.com."); err == nil {
		t.Error("a zone that is not known is found")
	}
}
