//go:build !linux

package sqlitestore

import "os"

// allocate gives f the size, and blocks for all of it.
func allocate(f *os.File, size int64) error { return fillFile(f, size) }
