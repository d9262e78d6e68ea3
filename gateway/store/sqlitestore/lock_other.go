//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package sqlitestore

import "io"

// lockFile does nothing on systems without flock. There the operator must not
// start a second process on the database.
func lockFile(string) (io.Closer, error) { return noLock{}, nil }

type noLock struct{}

func (noLock) Close() error { return nil }
