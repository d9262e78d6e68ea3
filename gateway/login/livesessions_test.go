package login

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/password"
	"authgate/gateway/store"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// mostBytes is the limit for the memory of a live session in store.Memory, together
// with its login and its part of the account's group, if the account has four logins.
const mostBytes = 1400

// chrome is the User-Agent of a browser that many use.
const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 " +
	"(KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"

// TestLiveSessionBytes is not parallel, because it measures the heap.
func TestLiveSessionBytes(t *testing.T) {
	if each := sessionBytes(t, 12500, 4); each > mostBytes {
		t.Errorf("a live session takes %.0f bytes, want at most %d", each, mostBytes)
	}
}

// BenchmarkLiveSessions measures a million live sessions of 250,000 accounts, and of a
// million accounts.
func BenchmarkLiveSessions(b *testing.B) {
	for _, logins := range []int{4, 1} {
		b.Run(fmt.Sprintf("logins=%d", logins), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(sessionBytes(b, 1000000, logins), "bytes/session")
			}
		})
	}
}

// sessionBytes returns the bytes of the heap that each of so many sessions takes, where
// each account has so many logins.
func sessionBytes(tb testing.TB, sessions, logins int) float64 {
	tb.Helper()
	hash := must.Get(password.Parse("$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"))(tb)
	account := accounts.New([]accounts.Account{{Username: "template", Hash: hash}}, nil, time.Now)
	template, _ := account.Lookup("template")
	memory := store.NewMemory(nil)
	defer memory.Close()
	all := NewLogins(memory, store.ClockOf(memory, time.Now))
	s := NewSessions(SessionOptions{Lifetime: time.Hour}, nil, all)
	device := Device{Client: netip.MustParseAddr("192.0.2.7"), UserAgent: chrome}
	before := heapBytes()
	for i := range sessions {
		person := *template
		person.Username = fmt.Sprintf("person-%07d", i/logins)
		_, handle := s.New("gw.example")
		must.Get(all.Begin(tb.Context(), &person, device, Term{Lifetime: time.Hour}, nil, handle))(tb)
	}
	after := heapBytes()
	if n := len(storetest.Keys(tb, memory, SessionPrefix)); n != sessions {
		tb.Errorf("%d sessions are live, want %d", n, sessions)
	}
	runtime.KeepAlive(all)
	return (float64(after) - float64(before)) / float64(sessions)
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
