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

// lockFile takes the lock that keeps other processes, and a second Open in this
// one, away from the database: the cache is right only while there is one
// writer. The kernel drops the lock when the process ends. The file stays,
// because removing it would race with the next owner.
func lockFile(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("is in use by another authgate (process %s, which holds %s): "+
			"stop it, or give each its own store.path",
			lockOwner(f), path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	noteLockOwner(f)
	return fileLock{f}, nil
}

type fileLock struct{ *os.File }

// Close drops the lock. Closing the file alone would not, while a child process
// that was just forked still has a copy open.
func (l fileLock) Close() error {
	return errors.Join(syscall.Flock(int(l.Fd()), syscall.LOCK_UN), l.File.Close())
}

// lockOwner returns the process ID in the lock file, for the error message.
func lockOwner(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 20))
	if owner := strings.TrimSpace(string(text)); err == nil && owner != "" {
		return owner
	}
	return "unknown"
}

// noteLockOwner writes the process ID that lockOwner reads. It ignores errors,
// such as a full disk, because the lock works without it.
func noteLockOwner(f *os.File) {
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
}
