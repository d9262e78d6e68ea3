package accounts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// lockPoll is the pause before the next attempt to lock the file.
const lockPoll = 10 * time.Millisecond

// ErrNotWritable: the file cannot be replaced.
var ErrNotWritable = errors.New("the file cannot be replaced, or would lose its owner")

// Writable reports whether Edit can replace the file. Its path may be a link.
func (f *File) Writable() bool {
	target, err := filepath.EvalSymlinks(f.Path)
	return f.Path != "" && err == nil && replaceable(target)
}

// changeFile replaces the content of the file at path by what edit makes of it, and then
// calls after. If after fails, the file gets its old content again. Other changes
// wait until after has returned; ctx bounds how long this one waits.
func changeFile(ctx context.Context, path string, edit func(content []byte) ([]byte, error), after func() error) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if !replaceable(target) {
		return fmt.Errorf("%s: %w", path, ErrNotWritable)
	}
	file, err := lockFile(ctx, target)
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
	replacement, err := replace(target, file, changed)
	if err != nil {
		return err
	}
	defer replacement.Close()
	if err := after(); err != nil {
		restored, failed := replace(target, replacement, old)
		if failed != nil {
			return errors.Join(err, fmt.Errorf("restoring %s: %w", path, failed))
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
		locked, err := tryLock(file)
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
// path. It returns that file, locked.
func replace(path string, like *os.File, content []byte) (_ *os.File, err error) {
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
	if _, err := tryLock(temp); err != nil {
		return nil, err
	}
	if _, err := temp.Write(content); err != nil {
		return nil, err
	}
	// The owner first: a change of it can remove bits of the mode.
	if err := errors.Join(keepOwner(temp, info), temp.Chmod(info.Mode().Perm()), temp.Sync()); err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return nil, fmt.Errorf("%w (a file that is mounted by itself cannot be replaced: mount its folder)", err)
	}
	return temp, syncFolder(filepath.Dir(path))
}

// syncFolder makes a rename durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
