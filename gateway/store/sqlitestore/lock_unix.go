//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package sqlitestore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// lockFile takes the lock that keeps a second process, or a second Open in
// this one, away from the database: the cache is right only while nobody
// else writes. The kernel drops the lock when the process ends, however it
// ends. The file stays, because removing it would race with the next owner.
func lockFile(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("is in use by another authgate (process %s, which holds %s): stop it, or give each its own store.path",
			lockOwner(f), path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	noteLockOwner(f)
	return fileLock{f}, nil
}

type fileLock struct{ *os.File }

// Close drops the lock. Closing the file alone would leave it to a child
// process that was forked a moment ago and has not yet closed its copy.
func (l fileLock) Close() error {
	return errors.Join(syscall.Flock(int(l.Fd()), syscall.LOCK_UN), l.File.Close())
}

// lockOwner returns the process number in the lock file, for people to read.
func lockOwner(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 20))
	if owner := strings.TrimSpace(string(text)); err == nil && owner != "" {
		return owner
	}
	return "unknown"
}

// noteLockOwner writes what lockOwner reads. The lock holds without it, so a
// full disk does no harm here.
func noteLockOwner(f *os.File) {
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
}
