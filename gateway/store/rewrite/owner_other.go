//go:build !unix

package rewrite

import (
	"io/fs"
	"os"
)

// replaceable is false where files have no owners to keep and there is no flock.
func replaceable(string) bool { return false }

// KeepOwner fails where files have no owners to keep.
func KeepOwner(*os.File, fs.FileInfo) error { return ErrNotWritable }

// TryLock does nothing where there is no flock, so that another process is not found.
func TryLock(*os.File) (bool, error) { return true, nil }
