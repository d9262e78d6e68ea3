// Package socket makes the system calls of connections at less cost than package net.
//
// Before each system call, package net tells the scheduler that the call may take long. The
// runtime then watches the call from a thread of its own, which wakes up every 20 microseconds, and
// gives the goroutines of a call that lasts to another thread. A call on a socket of Go never
// waits: it copies what there is. A small request makes five calls, and the watch over them is a
// tenth of the processor time that a gateway needs for it. See
// docs/decisions/0011-unwatched-calls.md.
//
// Wrap gives a connection a Read and a Write that are not watched. Read, Write and Quiet are the
// calls themselves, for the functions of a syscall.RawConn.
//
// # Limits
//
// No other goroutine runs on the thread of a call, and the garbage collector waits for its end. So
// one call of a wrapped connection moves 64 KiB at most.
//
// Systems other than Linux on amd64 and arm64 have the watched calls. So have builds with the race
// detector, which must see the calls.
package socket
