package dnschallenge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path"
	"time"

	"github.com/caddyserver/certmagic"
)

// notesFolder is where the notes are in the storage.
const notesFolder = "dns_records"

// othersTime is how long a record that another instance has added is left to it: longer than
// any challenge takes.
const othersTime = 15 * time.Minute

const (
	// patience is into how many parts the age of a record is divided for the pause before the
	// next attempt to remove it.
	patience = 10
	// giveUpAfter is the age at which a record that cannot be removed is given up, such as one
	// in a zone that has moved to another provider.
	giveUpAfter = 7 * 24 * time.Hour
)

// note says that a record may be in a zone since some time.
type note struct {
	Record Record
	Since  time.Time
}

// key returns the name of a note in the storage.
func (n note) key() string {
	sum := sha256.Sum256([]byte(n.Record.Name + " " + n.Record.Value))
	return path.Join(notesFolder, hex.EncodeToString(sum[:])+".json")
}

// notes are the notes of all instances.
type notes struct{ storage certmagic.Storage }

func (s notes) write(ctx context.Context, n note) error {
	content, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return s.storage.Store(ctx, n.key(), content)
}

func (s notes) remove(ctx context.Context, n note) error {
	if err := s.storage.Delete(ctx, n.key()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// all returns the notes by name.
func (s notes) all(ctx context.Context) (map[string]note, error) {
	names, err := s.storage.List(ctx, notesFolder, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	found := map[string]note{}
	for _, name := range names {
		content, errLoad := s.storage.Load(ctx, name)
		if errors.Is(errLoad, fs.ErrNotExist) {
			continue // another instance has removed it meanwhile
		}
		var n note
		if errLoad = errors.Join(errLoad, json.Unmarshal(content, &n)); errLoad == nil {
			found[n.key()] = n
		}
		err = errors.Join(err, errLoad)
	}
	return found, err
}

// Run removes records that were left behind, until ctx ends.
func (s *Solver) Run(ctx context.Context) {
	read := false
	for {
		if !read {
			found, err := s.notes.all(ctx)
			if read = err == nil; !read && ctx.Err() == nil {
				s.Logger.Warn("the notes about TXT records cannot be read", "error", err.Error())
			}
			s.adopt(found)
		}
		s.removeLeft(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(removeEvery):
		}
	}
}

// leftover is a record that was not removed in time.
type leftover struct {
	note
	next time.Time // when to try again
}

// adopt makes records of earlier processes to be removed, except those of challenges that have
// begun meanwhile.
func (s *Solver) adopt(found map[string]note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, own := range s.open {
		delete(found, own.key())
	}
	for key, n := range found {
		one := leftover{note: n}
		if s.Shared {
			one.next = n.Since.Add(othersTime)
		}
		s.left[key] = one
	}
}

// removeLeft tries to remove records that are left.
func (s *Solver) removeLeft(ctx context.Context) {
	s.mu.Lock()
	left := maps.Clone(s.left)
	s.mu.Unlock()
	for key, one := range left {
		if time.Now().Before(one.next) || ctx.Err() != nil {
			continue
		}
		done := s.removeOne(ctx, one.note)
		s.mu.Lock()
		if done {
			delete(s.left, key)
		} else {
			one.next = time.Now().Add(max(removeEvery, time.Since(one.Since)/patience))
			s.left[key] = one
		}
		s.mu.Unlock()
	}
}

// removeOne tries to remove a record that is left, and reports whether it needs no other attempt.
func (s *Solver) removeOne(ctx context.Context, n note) bool {
	log := s.Logger.With("domain", n.Record.Domain, "record", n.Record.Name)
	err := s.remove(ctx, n)
	switch {
	case err == nil:
		log.Info("a TXT record that was left behind is removed")
		return true
	case ctx.Err() != nil:
		return false
	case time.Since(n.Since) > giveUpAfter:
		log.Error("a TXT record that was left behind cannot be removed, and is not tried any more; remove it by hand",
			"error", err.Error())
		s.forget(ctx, n)
		return true
	}
	log.Warn("a TXT record was left behind and cannot be removed; it is tried again", "error", err.Error())
	return false
}
