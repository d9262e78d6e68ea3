package conn

import "encoding/binary"

// Values in frames (RFC 6455, sections 5.2 and 7.4.1).
const (
	opcodeClose    = 8
	closeGoingAway = 1001
	closePolicy    = 1008
)

// closeFrame returns a Close frame as a server sends it (RFC 6455, section
// 5.5.1). reason has at most 123 bytes.
func closeFrame(status uint16, reason string) []byte {
	frame := []byte{0x80 | opcodeClose, byte(2 + len(reason)), byte(status >> 8), byte(status)}
	return append(frame, reason...)
}

// frames finds the boundaries of frames in one direction of a WebSocket (RFC
// 6455, section 5.2).
type frames struct {
	header [14]byte
	have   int    // bytes of the header; 0 between two frames
	left   uint64 // bytes of the payload that have not come yet
	closed bool   // a whole Close frame has come

	dropping bool // onlyClose drops the present frame
}

// between reports whether the last frame is complete.
func (f *frames) between() bool { return f.have == 0 }

// follow reads b.
func (f *frames) follow(b []byte) {
	for len(b) > 0 {
		b = b[f.next(b):]
	}
}

// onlyClose reads b and removes all frames but Close frames from it, in place. A
// frame that began before b stays in or out as it began.
func (f *frames) onlyClose(b []byte) []byte {
	left := b[:0]
	for len(b) > 0 {
		if f.between() {
			f.dropping = b[0]&0xf != opcodeClose
		}
		n := f.next(b)
		if !f.dropping {
			left = append(left, b[:n]...)
		}
		b = b[n:]
	}
	return left
}

// next reads b up to the end of the present frame, or of the next one if the
// last one is complete. It returns how many bytes it has read.
func (f *frames) next(b []byte) int {
	n := 0
	for ; f.have < f.size(); n++ {
		if n == len(b) {
			return n
		}
		f.header[f.have] = b[n]
		f.have++
		if f.have == f.size() {
			f.left = f.length()
		}
	}
	payload := min(f.left, uint64(len(b)-n))
	f.left -= payload
	if f.left == 0 {
		f.closed = f.closed || f.header[0]&0xf == opcodeClose
		f.have = 0
	}
	return n + int(payload)
}

// size returns the size of the header as far as its first bytes tell.
func (f *frames) size() int {
	size := 2
	if f.have < size {
		return size
	}
	switch f.header[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if f.header[1]&0x80 != 0 {
		size += 4 // the masking key
	}
	return size
}

// length returns the length of the payload from a complete header.
func (f *frames) length() uint64 {
	switch length := f.header[1] & 0x7f; length {
	case 126:
		return uint64(binary.BigEndian.Uint16(f.header[2:]))
	case 127:
		return binary.BigEndian.Uint64(f.header[2:])
	default:
		return uint64(length)
	}
}
