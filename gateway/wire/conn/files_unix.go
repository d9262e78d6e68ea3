//go:build unix

package conn

import "syscall"

// maxFiles is the highest limit that counts. "unlimited" is a large number.
const maxFiles = 1 << 20

// Files returns how many file descriptors the process may have: the soft limit
// of RLIMIT_NOFILE, which Go raises to the hard limit at the start.
func Files() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // the usual minimum
	}
	return int(min(uint64(limit.Cur), maxFiles))
}
