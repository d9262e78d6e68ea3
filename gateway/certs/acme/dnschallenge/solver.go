package dnschallenge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
	"github.com/miekg/dns"
)

const (
	// callTime bounds one call of a provider.
	callTime = 2 * time.Minute
	// visibleTime is how long Wait waits for a record, and visibleEvery how often it looks.
	visibleTime  = 2 * time.Minute
	visibleEvery = 2 * time.Second
	// removeEvery is the pause between two attempts to remove records that are left.
	removeEvery = time.Minute
)

// Options configure a Solver. All are required.
type Options struct {
	Provider  Provider
	Resolvers *resolvers
	Storage   certmagic.Storage // in which the records are noted
	Shared    bool              // other instances use the storage too
	Logger    *slog.Logger
}

// Solver answers challenges. It is safe for concurrent use.
type Solver struct {
	Options
	notes notes

	mu   sync.Mutex
	open map[string]note     // by the token of the challenge
	left map[string]leftover // by the name of the note: to be removed
	idle chan struct{}       // closed when open becomes empty
}

var (
	_ acmez.Solver = (*Solver)(nil)
	_ acmez.Waiter = (*Solver)(nil)
)

// New returns a Solver. Run removes the records that an earlier one has left.
func New(o Options) *Solver {
	return &Solver{Options: o, notes: notes{o.Storage}, open: map[string]note{}, left: map[string]leftover{}}
}

// Present implements acmez.Solver: it adds the record.
func (s *Solver) Present(ctx context.Context, c acme.Challenge) error {
	name, err := s.Resolvers.Follow(ctx, dns.Fqdn(c.DNS01TXTRecordName()))
	if err != nil {
		return err
	}
	n := note{Since: time.Now(), Record: Record{
		Name: name, Value: c.DNS01KeyAuthorization(), Domain: c.Identifier.Value,
		Token: c.Token, KeyAuth: c.KeyAuthorization,
	}}
	s.beginChallenge(c.Token, n) // before its note can be found
	if err := s.notes.write(ctx, n); err != nil {
		s.endChallenge(c.Token)
		return fmt.Errorf("the record cannot be noted: %w", err)
	}
	if err = s.call(ctx, n.Record, s.Provider.Add); errors.Is(err, errNotAdded) {
		s.endChallenge(c.Token)
		s.forget(context.WithoutCancel(ctx), n)
	}
	if err != nil {
		return fmt.Errorf("adding a TXT record %s: %w", name, err)
	}
	return nil
}

// Wait implements acmez.Waiter: it returns when resolvers see the record.
func (s *Solver) Wait(ctx context.Context, c acme.Challenge) error {
	s.mu.Lock()
	n, ok := s.open[c.Token]
	s.mu.Unlock()
	if !ok {
		return errors.New("the record was not added")
	}
	ctx, cancel := context.WithTimeout(ctx, visibleTime)
	defer cancel()
	look := time.NewTicker(visibleEvery) // not at once: resolvers remember for long that there is no record
	defer look.Stop()
	err := errNotVisible
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the TXT record %s, after %s: %w; if the servers of its zone cannot be "+
				"reached from here, list others in tls.dns.resolvers", n.Record.Name, visibleTime, err)
		case <-look.C:
		}
		if seen := s.Resolvers.Visible(ctx, n.Record); seen == nil {
			return nil
		} else if ctx.Err() == nil {
			err = seen
		}
	}
}

// CleanUp implements acmez.Solver: it removes the record. If that fails, Run tries again.
func (s *Solver) CleanUp(ctx context.Context, c acme.Challenge) error {
	s.mu.Lock()
	n, ok := s.open[c.Token]
	s.mu.Unlock()
	if !ok {
		return nil
	}
	defer s.endChallenge(c.Token)
	if err := s.remove(ctx, n); err != nil {
		s.mu.Lock()
		s.left[n.key()] = leftover{note: n, next: time.Now().Add(removeEvery)}
		s.mu.Unlock()
		return fmt.Errorf("removing the TXT record %s, which is tried again: %w", n.Record.Name, err)
	}
	return nil
}

// remove removes a record and its note.
func (s *Solver) remove(ctx context.Context, n note) error {
	if err := s.call(ctx, n.Record, s.Provider.Remove); err != nil {
		return err
	}
	s.forget(ctx, n)
	return nil
}

// forget removes a note. If that fails, it is removed with the next start.
func (s *Solver) forget(ctx context.Context, n note) {
	if err := s.notes.remove(ctx, n); err != nil {
		s.Logger.Warn("the note about a TXT record cannot be removed", "record", n.Record.Name, "error", err.Error())
	}
}

// call calls the provider while no other instance does for this name: some providers read all
// records of a name and write them back.
func (s *Solver) call(ctx context.Context, record Record, do func(context.Context, Record) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	lock := "dns_" + record.Name
	if err := s.Storage.Lock(ctx, lock); err != nil {
		return err
	}
	defer func() {
		if err := s.Storage.Unlock(context.WithoutCancel(ctx), lock); err != nil {
			s.Logger.Warn("a lock of the storage cannot be released", "lock", lock, "error", err.Error())
		}
	}()
	return do(ctx, record)
}

// beginChallenge notes that a record may be there.
func (s *Solver) beginChallenge(token string, n note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		s.idle = make(chan struct{})
	}
	s.open[token] = n
}

// endChallenge notes that a challenge is over.
func (s *Solver) endChallenge(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, token)
	if len(s.open) == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// Settle returns when no challenge is in progress, or ctx ends.
func (s *Solver) Settle(ctx context.Context) {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
