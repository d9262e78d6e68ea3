//go:build unix

package conn

import "syscall"

// maxFiles bounds what is believed of a limit: "unlimited" is a large number.
const maxFiles = 1 << 20

// Files returns how many file descriptors the process may have (RLIMIT_NOFILE,
// the soft limit, which Go raises to the hard one at the start).
func Files() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // what systems give at least
	}
	return int(min(uint64(limit.Cur), maxFiles))
}
