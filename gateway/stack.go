package gateway

// stackRoom is about what a request with a warm credential needs of the stack, in bytes.
const stackRoom = 3 << 10

// growStack makes the stack of the goroutine large enough for a request. Servers of
// HTTP/2 and HTTP/3 start a goroutine with a small stack for each request. It would
// grow where the calls are deepest, and copy the frames of all of them: a tenth of the
// processor time of a request. At the beginning there are few.
//
//go:noinline
func growStack() byte {
	var room [stackRoom]byte
	return last(room[:])
}

// last stops the compiler from removing room.
//
//go:noinline
func last(b []byte) byte { return b[len(b)-1] }
