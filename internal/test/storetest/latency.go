package storetest

import (
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/internal/test/must"
)

const (
	latencyClients = 16 // with a connection each
	// latencyWork is what a request costs beside the read, about as much as in the
	// gateway, and latencyPause is the time between two requests of a client. With
	// them, the requests take a large part of one processor.
	latencyWork     = 40 * time.Microsecond
	latencyPause    = 2 * time.Millisecond
	latencyRequests = 400 // of each read and client
)

// Latencies measures the 99th percentile of requests on one processor, each of which
// calls one of reads: first without other work, then while work runs. It reports both
// and their ratio, and calls stop, after which work must return.
//
// The requests come over connections, because a goroutine that computes delays those
// that wait for the network most.
func Latencies(b *testing.B, work, stop func(), reads map[string]func()) {
	b.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var names []string
	for name := range reads {
		names = append(names, name)
	}
	control := percentiles(b, names, reads)
	var ended atomic.Bool
	var working sync.WaitGroup
	working.Go(func() {
		work()
		ended.Store(true)
	})
	busy := percentiles(b, names, reads)
	if ended.Load() {
		b.Error("the work has ended before the requests: give it more")
	}
	stop()
	working.Wait()
	b.ReportMetric(0, "ns/op")
	for _, name := range names {
		b.ReportMetric(float64(control[name].Microseconds()), name+"-control-p99-µs")
		b.ReportMetric(float64(busy[name].Microseconds()), name+"-p99-µs")
		b.ReportMetric(float64(busy[name])/float64(control[name]), name+"-ratio")
	}
}

// percentiles returns the 99th percentile of each of the reads.
func percentiles(b *testing.B, names []string, reads map[string]func()) map[string]time.Duration {
	b.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(b)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveReads(conn, names, reads)
		}
	}()
	var mu sync.Mutex
	times := make(map[string][]time.Duration)
	var clients errgroup.Group
	for range latencyClients {
		clients.Go(func() error {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				return err
			}
			defer conn.Close()
			for i := range latencyRequests * len(names) {
				took, err := request(conn, byte(i%len(names)))
				if err != nil {
					return err
				}
				mu.Lock()
				times[names[i%len(names)]] = append(times[names[i%len(names)]], took)
				mu.Unlock()
				time.Sleep(latencyPause)
			}
			return nil
		})
	}
	must.Do(b, clients.Wait())
	result := make(map[string]time.Duration)
	for name, all := range times {
		slices.Sort(all)
		result[name] = all[len(all)*99/100]
	}
	return result
}

// serveReads answers the requests on a connection: each is the number of a read.
func serveReads(conn net.Conn, names []string, reads map[string]func()) {
	defer conn.Close()
	for n := [1]byte{}; ; {
		if _, err := io.ReadFull(conn, n[:]); err != nil {
			return
		}
		for start := time.Now(); time.Since(start) < latencyWork; {
		}
		reads[names[n[0]]]()
		if _, err := conn.Write(n[:]); err != nil {
			return
		}
	}
}

// request makes one request and returns how long it took.
func request(conn net.Conn, number byte) (time.Duration, error) {
	start, n := time.Now(), [1]byte{number}
	if _, err := conn.Write(n[:]); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(conn, n[:])
	return time.Since(start), err
}
