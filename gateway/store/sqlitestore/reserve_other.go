//go:build !linux

package sqlitestore

import "os"

// allocate sets the size of f and reserves disk blocks for all of it.
func allocate(f *os.File, size int64) error { return fillFile(f, size) }
