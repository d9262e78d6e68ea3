package login

import (
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authgate/gateway/auth"
)

// testClock is a clock that tests set by hand.
type testClock struct {
	mu sync.Mutex
	at time.Time
}

func newTestClock() *testClock {
	return &testClock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// newTestAccounts returns the set of users.
func newTestAccounts(tb testing.TB, users ...auth.Account) *auth.Accounts {
	tb.Helper()
	accounts := must(auth.NewAccounts(users))(tb)
	return accounts
}

// testHash returns a cheap hash of plain.
func testHash(plain string) string {
	hash, err := bcrypt.GenerateFromPassword([]byte(plain), bcrypt.MinCost)
	if err != nil {
		panic(err)
	}
	return string(hash)
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand
	return b
}

// noError ends the test if err is not nil.
func noError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// must returns v, or ends the test if err is not nil: must(f())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		noError(tb, err)
		return v
	}
}
