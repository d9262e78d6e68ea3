// Package rewrite replaces files that people edit too. Others see the old content or the new
// one, and never a part of it. A change keeps the mode, the owner and links to the file, waits
// for other changes, and never undoes a change that an editor has saved meanwhile.
package rewrite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// lockPoll is the pause before the next attempt to lock the file.
const lockPoll = 10 * time.Millisecond

// ErrNotWritable: the file cannot be replaced.
var ErrNotWritable = errors.New("the file cannot be replaced, or would lose its owner")

// Possible reports whether File can replace the file at path, which may be a link.
func Possible(path string) bool {
	target, err := filepath.EvalSymlinks(path)
	return path != "" && err == nil && replaceable(target)
}

// ErrOvertaken: again and again, another program saves the file at the same time.
var ErrOvertaken = errors.New("the file changes all the time; try again")

// errChanged: the file at a path has another content than it had.
var errChanged = errors.New("the file has changed meanwhile")

// attempts is how often a change begins again because an editor has saved the file.
const attempts = 5

// File replaces the content of the file at path by the result of edit, and then calls after. It
// calls ready once before that. If after fails, the file gets its old content again. Nil does
// nothing. Other changes wait until after has returned; ctx bounds how long this one waits. If an
// editor has saved the file meanwhile, edit is called again with its content. The errors are
// those of edit, ready, after and files, ErrNotWritable and ErrOvertaken.
func File(
	ctx context.Context, path string, edit func(content []byte) ([]byte, error), ready, after func() error,
) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if !replaceable(target) {
		return fmt.Errorf("%s: %w", path, ErrNotWritable)
	}
	once := sync.OnceValue(func() error {
		if ready == nil {
			return nil
		}
		return ready()
	})
	for range attempts {
		err := changeOnce(ctx, target, edit, once, after)
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return fmt.Errorf("%s: %w", path, ErrOvertaken)
}

// changeOnce is File without links. The error is errChanged if an editor, which does
// not know the lock, has saved the file since edit has read it.
func changeOnce(
	ctx context.Context, path string, edit func(content []byte) ([]byte, error), ready, after func() error,
) error {
	file, err := lockFile(ctx, path)
	if err != nil {
		return err
	}
	defer file.Close()
	old, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	changed, err := edit(old)
	if err != nil {
		return err
	}
	replacement, err := replace(path, file, old, changed, ready)
	if err != nil {
		return err
	}
	defer replacement.Close()
	if after == nil {
		return nil
	}
	if err := after(); err != nil {
		restored, failed := replace(path, replacement, changed, old, func() error { return nil })
		if failed != nil {
			return fmt.Errorf("%w; and restoring %s: %v", err, path, failed) // not errChanged
		}
		return errors.Join(err, restored.Close())
	}
	return nil
}

// lockFile opens and locks the file at path. The lock ends when the file is closed.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		locked, err := TryLock(file)
		if err == nil && locked {
			if locked, err = current(file, path); err == nil && locked {
				return file, nil
			}
		}
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("locking %s: %w", path, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}

// current reports whether path still leads to the open file. Another process may
// have replaced it before it was locked.
func current(file *os.File, path string) (bool, error) {
	opened, err := file.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, there), err
}

// replace writes a file with the mode, owner and group of like, and renames it to
// path. It returns that file, locked. Before the rename it calls ready, and compares: the
// error is errChanged if the file at path does not have the content old any more.
func replace(path string, like *os.File, old, content []byte, ready func() error) (_ *os.File, err error) {
	info, err := like.Stat()
	if err != nil {
		return nil, err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			temp.Close()
			os.Remove(temp.Name())
		}
	}()
	if _, err := TryLock(temp); err != nil {
		return nil, err
	}
	if _, err := temp.Write(content); err != nil {
		return nil, err
	}
	// The owner first: a change of it can remove bits of the mode.
	if err := errors.Join(KeepOwner(temp, info), temp.Chmod(info.Mode().Perm()), temp.Sync()); err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	if err := ready(); err != nil {
		return nil, err
	}
	if err := stillHas(path, old); err != nil {
		return nil, err
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return nil, fmt.Errorf("%w (a file that is mounted by itself cannot be replaced: mount its folder)", err)
	}
	return temp, syncFolder(filepath.Dir(path))
}

// stillHas returns errChanged if a file has another content.
func stillHas(path string, content []byte) error {
	now, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(now, content) {
		err = errChanged
	}
	return err
}

// syncFolder makes a rename durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
