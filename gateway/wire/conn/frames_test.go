package conn

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
)

// frame returns a frame with a payload of so many bytes. extended is how many
// bytes the length has at least: 0, 2 or 8.
func frame(first byte, payload, extended int, masked bool) []byte {
	b := []byte{first, 0}
	switch {
	case payload > 0xffff || extended == 8:
		b[1] = 127
		b = binary.BigEndian.AppendUint64(b, uint64(payload))
	case payload > 125 || extended == 2:
		b[1] = 126
		b = binary.BigEndian.AppendUint16(b, uint16(payload))
	default:
		b[1] = byte(payload)
	}
	if masked {
		b[1] |= 0x80
		b = append(b, 0x88, 0x02, 0x88, 0x02) // looks like a frame to a reader that ignores the bit
	}
	return append(b, bytes.Repeat([]byte{0x88}, payload)...)
}

const (
	fin        = 0x80
	opcodeText = 1
)

var (
	text       = frame(fin|opcodeText, 5, 0, false)
	goodbye    = []byte{0x88, 2, 0x03, 0xe9} // 1001
	clientsBye = []byte{0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9}
)

// recorded is the connection of a client that records what is written.
type recorded struct {
	net.Conn
	bytes.Buffer
}

func (r *recorded) Write(b []byte) (int, error) { return r.Buffer.Write(b) }
func (r *recorded) Read(b []byte) (int, error)  { return r.Buffer.Read(b) }

// FuzzFrames makes a stream of frames and writes it in parts. However it is cut,
// between reports the ends of frames, and a client that is told to leave gets
// complete frames and one Close frame.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{fin | opcodeText, 5, 0, fin | 2, 200, 0, 0x89, 0, 4}, []byte{1}, 3)
	closing := []byte{fin | opcodeText, 5, 2, 0x88, 2, 0, fin | 2, 3, 0}
	f.Add(closing, []byte{14, 3}, 1) // before the Close frame
	f.Add(closing, []byte{14, 1}, 2) // in the middle of it
	f.Add(closing, []byte{14, 3}, 2) // after it
	f.Add(closing, []byte{12}, 1)    // in the middle of the frame before
	f.Add([]byte{opcodeText, 255, 7, 0, 100, 3, fin, 126, 6}, []byte{5, 255, 0}, 7)
	f.Add([]byte{fin | opcodeText, 0, 0, fin | opcodeText, 0, 5, 0x88, 0, 0}, []byte{}, 0)
	f.Fuzz(func(t *testing.T, script, cuts []byte, leaveAt int) {
		var stream []byte
		ends, closeEnds := map[int]bool{0: true}, len(stream)-1 // no Close frame yet
		for ; len(script) >= 3; script = script[3:] {
			payload := int(script[1])
			if payload == 255 {
				payload = 70_000
			}
			stream = append(stream, frame(script[0], payload, []int{0, 2, 8}[script[2]%3], script[2]&4 != 0)...)
			ends[len(stream)] = true
			if script[0]&0xf == opcodeClose && closeEnds < 0 {
				closeEnds = len(stream)
			}
		}
		client := &recorded{}
		s := &WebSocket{Conn: client, begun: make(chan struct{}), ended: make(chan struct{})}
		close(s.begun)
		left, written := -1, 0
		for i := 0; ; i++ {
			if s.toClient.between() != ends[written] && left < 0 {
				t.Fatalf("after %d bytes: between frames: %t", written, s.toClient.between())
			}
			if i == leaveAt {
				s.leave(closeGoingAway, "")
				left = written
			}
			if written == len(stream) {
				break
			}
			size := len(stream) - written
			if i < len(cuts) {
				size = min(size, int(cuts[i])+1)
			}
			if n, err := s.Write(stream[written : written+size]); n != size || err != nil {
				t.Fatalf("%d of %d bytes, %v", n, size, err)
			}
			written += size
		}
		want := stream
		if left >= 0 {
			end := left
			for !ends[end] {
				end++ // the whole stream is one
			}
			want = bytes.Clone(stream[:end])
			if closeEnds < 0 || closeEnds > end {
				want = append(want, goodbye...)
			}
		}
		if !bytes.Equal(client.Bytes(), want) {
			t.Fatalf("left at %d of %d bytes:\ngot  %x\nwant %x", left, len(stream), client.Bytes(), want)
		}
	})
}
