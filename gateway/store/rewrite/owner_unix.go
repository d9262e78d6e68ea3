//go:build unix

package rewrite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// replaceable reports whether this process may write the file and its folder, and can
// give its owner and its group to another file.
func replaceable(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || unix.Access(path, unix.W_OK) != nil ||
		unix.Access(filepath.Dir(path), unix.W_OK|unix.X_OK) != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	if os.Geteuid() == 0 {
		return true
	}
	groups, err := os.Getgroups()
	return int(owner.Uid) == os.Geteuid() && (int(owner.Gid) == os.Getegid() || err == nil &&
		slices.Contains(groups, int(owner.Gid)))
}

// KeepOwner gives a file the owner and the group of another one.
func KeepOwner(file *os.File, of fs.FileInfo) error {
	owner, ok := of.Sys().(*syscall.Stat_t)
	if !ok {
		return ErrNotWritable
	}
	return file.Chown(int(owner.Uid), int(owner.Gid))
}

// TryLock locks a file unless another process, or another open file, has locked it.
func TryLock(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}
