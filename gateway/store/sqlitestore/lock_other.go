//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package sqlitestore

import "io"

// lockFile does nothing on systems without flock: there, keeping a second
// process away from the database is up to the operator.
func lockFile(string) (io.Closer, error) { return noLock{}, nil }

type noLock struct{}

func (noLock) Close() error { return nil }
