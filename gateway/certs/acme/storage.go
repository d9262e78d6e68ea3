package acme

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"authgate/gateway/store"
	"authgate/gateway/store/seal"
)

// Keys in the store.
const (
	filePrefix = "acme:file:" // + name; sealed
	namesKey   = "acme:files" // the names of all files; sealed
	lockPrefix = "acme:lock:" // + name
)

// storage is a certmagic.Storage in the gateway's store. Instances that share a store
// share their certificates, the account at the authority, the answers to challenges,
// and the locks. All but locks is sealed: an attacker who can read the store learns
// the names of files, which contain domains and Options.Email, and one who can write
// to it cannot replace one file with another.
//
// Each file is one entry, and one more entry holds the names of all files. A name is
// added before its file is stored and removed after it is deleted. So a crash leaves
// at worst a name without a file, which List skips.
type storage struct {
	store store.Store
	box   *seal.Box
	now   func() time.Time

	mu       sync.Mutex
	held     map[string]ownLock // by name
	released chan struct{}      // closed, and replaced, when a lock is released
}

var (
	_ certmagic.Storage          = (*storage)(nil)
	_ certmagic.TryLocker        = (*storage)(nil)
	_ certmagic.LockLeaseRenewer = (*storage)(nil)
)

// NewStorage returns the storage in s, sealed with box. Leases expire by now, the
// clock of s; see store.ClockOf.
func NewStorage(s store.Store, box *seal.Box, now func() time.Time) certmagic.Storage {
	return &storage{store: s, box: box, now: now, held: map[string]ownLock{}, released: make(chan struct{})}
}

// String implements fmt.Stringer for the log of certmagic.
func (s *storage) String() string { return "store" }

// Store implements certmagic.Storage.
func (s *storage) Store(ctx context.Context, name string, content []byte) error {
	err := s.rename(ctx, func(names map[string]bool) { names[name] = true })
	if err != nil {
		return fmt.Errorf("storing %s: %w", name, err)
	}
	modified := binary.BigEndian.AppendUint64(nil, uint64(s.now().UnixNano()))
	sealed := s.box.Seal(append(modified, content...), filePrefix+name)
	if err := s.store.Put(ctx, filePrefix+name, sealed, time.Time{}); err != nil {
		return fmt.Errorf("storing %s: %w", name, err)
	}
	return nil
}

// Load implements certmagic.Storage. If there is no such file, the error is
// fs.ErrNotExist.
func (s *storage) Load(ctx context.Context, name string) ([]byte, error) {
	content, _, err := s.readFile(ctx, name)
	return content, err
}

// readFile returns the content of a file and when it was stored.
func (s *storage) readFile(ctx context.Context, name string) ([]byte, time.Time, error) {
	sealed, err := s.store.Get(ctx, filePrefix+name)
	if errors.Is(err, store.ErrNotFound) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("loading %s: %w", name, err)
	}
	content, err := s.open(sealed, filePrefix+name)
	if err == nil && len(content) < 8 {
		err = errors.New("the entry in the store is too short")
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("loading %s: %w", name, err)
	}
	return content[8:], time.Unix(0, int64(binary.BigEndian.Uint64(content))), nil
}

// open unseals the value of a key in the store.
func (s *storage) open(sealed []byte, place string) ([]byte, error) {
	content, err := s.box.Open(sealed, place)
	if err != nil {
		return nil, fmt.Errorf("%w: all instances need the same store.encryption_key; "+
			"if that has been changed, remove the keys that begin with acme: from the store", err)
	}
	return content, nil
}

// Delete implements certmagic.Storage: it removes a file, or a folder with all files
// in it. It returns nil if there is none.
func (s *storage) Delete(ctx context.Context, name string) error {
	names, err := s.names(ctx)
	if err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	maps.DeleteFunc(names, func(file string, _ bool) bool { return !within(name, file) })
	names[name] = true // even if it is not listed
	for file := range names {
		if err := s.store.Delete(ctx, filePrefix+file); err != nil {
			return fmt.Errorf("deleting %s: %w", file, err)
		}
	}
	gone := func(file string, _ bool) bool { return names[file] } // but not files that were added meanwhile
	if err := s.rename(ctx, func(names map[string]bool) { maps.DeleteFunc(names, gone) }); err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}

// Exists implements certmagic.Storage.
func (s *storage) Exists(ctx context.Context, name string) bool {
	_, err := s.Stat(ctx, name)
	return err == nil
}

// List implements certmagic.Storage: it returns the files and folders in a folder. If
// there is no such folder, the error is fs.ErrNotExist.
func (s *storage) List(ctx context.Context, folder string, recursive bool) ([]string, error) {
	names, err := s.names(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", folder, err)
	}
	found := map[string]bool{}
	for file := range names {
		if !within(folder, file) {
			continue
		}
		if _, err := s.store.Get(ctx, filePrefix+file); errors.Is(err, store.ErrNotFound) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("listing %s: %w", folder, err)
		}
		for path := file; within(folder, path); path = parent(path) {
			found[path] = true
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("listing %s: %w", folder, fs.ErrNotExist)
	}
	if !recursive {
		maps.DeleteFunc(found, func(path string, _ bool) bool { return parent(path) != strings.Trim(folder, "/") })
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// Stat implements certmagic.Storage. If name is neither a file nor a folder, the error
// is fs.ErrNotExist.
func (s *storage) Stat(ctx context.Context, name string) (certmagic.KeyInfo, error) {
	content, modified, err := s.readFile(ctx, name)
	if err == nil {
		return certmagic.KeyInfo{Key: name, Modified: modified, Size: int64(len(content)), IsTerminal: true}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return certmagic.KeyInfo{}, err
	}
	if _, err := s.List(ctx, name, false); err != nil {
		return certmagic.KeyInfo{}, err
	}
	return certmagic.KeyInfo{Key: name}, nil
}

// within reports whether a path is below a folder. All paths are below the empty
// folder.
func within(folder, path string) bool {
	folder = strings.Trim(folder, "/")
	return path != "" && (folder == "" || strings.HasPrefix(path, folder+"/"))
}

// parent returns the folder of a path, which may be empty.
func parent(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

// names returns the names of all files.
func (s *storage) names(ctx context.Context) (map[string]bool, error) {
	sealed, err := s.store.Get(ctx, namesKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return s.namesIn(sealed)
}

// namesIn returns the names in an entry of the store, which is nil if there is none.
func (s *storage) namesIn(sealed []byte) (map[string]bool, error) {
	names := map[string]bool{}
	if sealed == nil {
		return names, nil
	}
	content, err := s.open(sealed, namesKey)
	if err != nil {
		return nil, err
	}
	var list []string
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, fmt.Errorf("reading the names of the files: %w", err)
	}
	for _, name := range list {
		names[name] = true
	}
	return names, nil
}

// rename changes the names of all files.
func (s *storage) rename(ctx context.Context, change func(names map[string]bool)) error {
	return store.Update(ctx, s.store, namesKey, func(sealed []byte) (store.Edit, error) {
		names, err := s.namesIn(sealed)
		if err != nil {
			return store.Edit{}, err
		}
		unchanged := maps.Clone(names)
		if change(names); maps.Equal(names, unchanged) {
			return store.Edit{}, nil
		}
		list, err := json.Marshal(slices.Sorted(maps.Keys(names)))
		if err != nil {
			return store.Edit{}, err
		}
		return store.Edit{Value: s.box.Seal(list, namesKey)}, nil
	})
}
