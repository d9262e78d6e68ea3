package sqlitestore

import (
	"errors"
	"os"
	"syscall"
)

// allocate sets the size of f and reserves disk blocks for all of it.
func allocate(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return fillFile(f, size)
	}
	return err
}
