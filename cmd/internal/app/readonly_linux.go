package app

import "golang.org/x/sys/unix"

// readOnly reports whether nobody can write at path, whatever its mode, because it is in
// a file system that is mounted read-only, as Kubernetes mounts a ConfigMap.
func readOnly(path string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(path, &stat) == nil && stat.Flags&unix.ST_RDONLY != 0
}
