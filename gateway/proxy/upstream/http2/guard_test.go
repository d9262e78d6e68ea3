package http2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A write fails if the upstream reads nothing for the time limit. It does not if
// the upstream reads slowly.
func TestGuard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		g := &guard{Conn: here, limit: 30 * time.Second}
		chunk := make([]byte, socketBuffer+1)
		go func() { // what it fails to do, the other side sees
			buf := make([]byte, len(chunk))
			for range 10 {
				time.Sleep(20 * time.Second) // moves the clock of the bubble
				_, _ = io.ReadFull(there, buf)
			}
			// The upstream answers, waits for longer than the limit, and reads on.
			_, _ = there.Write([]byte("y"))
			time.Sleep(time.Minute)
			_, _ = io.ReadFull(there, buf[:1])
		}()
		for range 5 {
			if _, err := g.Write(chunk); err != nil {
				t.Fatalf("a slow reader: %v", err)
			}
		}
		if _, err := g.Write(bytes.Repeat(chunk, 5)); err != nil {
			t.Fatalf("a slow reader of a long write: %v", err)
		}
		if _, err := g.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Write([]byte("x")); err != nil {
			t.Fatalf("a small request after an answer: %v", err)
		}
		start := time.Now()
		_, err := g.Write(chunk)
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != g.limit {
			t.Errorf("without a reader: %v after %v, want a timeout", err, took)
		}
		here.Close()
		if _, err := g.Write([]byte("x")); err == nil {
			t.Error("a write to a closed connection succeeds")
		}
	})
}

// Over HTTP/2, writes are kept for a moment. If the upstream reads nothing for the time
// limit, reads end.
func TestGuardKeeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		guarded := New(Options{Timeout: 30 * time.Second}).guarded(here, new(connection))
		defer guarded.Close()
		start := time.Now()
		for range 2 {
			const size = socketBuffer/2 + 1
			if n, err := guarded.Write(make([]byte, size)); n != size || err != nil || time.Since(start) > 0 {
				t.Errorf("the write of %d bytes took %v: %v", n, time.Since(start), err)
			}
		}
		go func() { _, _ = io.CopyN(io.Discard, there, socketBuffer) }() // as the system's buffers
		_, err := guarded.Read(make([]byte, 1))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 30*time.Second {
			t.Errorf("the read took %v: %v", time.Since(start), err)
		}
	})
}
