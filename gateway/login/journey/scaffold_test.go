package journey

import (
	"strings"
	"testing"

	"authgate/gateway/store"
	"authgate/gateway/store/seal"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

const testProvider = "https://id.example.org/realms/main" // the issuer of the provider keycloak

// rig is one instance of attempts and tickets.
type rig struct {
	clock    *clocktest.Clock
	store    *storetest.Recorder
	box      *seal.Box
	attempts *Attempts
	tickets  *Tickets
}

// newRig returns an instance with a store of its own.
func newRig(tb testing.TB) *rig {
	tb.Helper()
	clock := clocktest.New()
	memory := store.NewMemory(clock.Now)
	tb.Cleanup(func() { _ = memory.Close() })
	return (&rig{clock: clock, store: &storetest.Recorder{Store: memory}}).with(testBox(tb, "of the tests"))
}

// with returns another instance over the same store, which encrypts with box.
func (r *rig) with(box *seal.Box) *rig {
	next := *r
	next.box = box
	next.attempts, next.tickets = NewAttempts(r.store, box, r.clock.Now), NewTickets(r.store, r.clock.Now)
	return &next
}

// elsewhere returns an instance whose calls of the store are recorded apart.
func (r *rig) elsewhere() *rig {
	next := *r
	next.store = &storetest.Recorder{Store: r.store.Store}
	return next.with(r.box)
}

func testBox(tb testing.TB, secret string) *seal.Box {
	tb.Helper()
	return must.Get(seal.New([]byte(secret + strings.Repeat(".", seal.MinSecret))))(tb)
}

// wantRecords fails the test unless the store has that many records.
func (r *rig) wantRecords(tb testing.TB, want int) {
	tb.Helper()
	if got := len(storetest.Keys(tb, r.store.Store, "")); got != want {
		tb.Errorf("the store has %d records, want %d", got, want)
	}
}

// loosen returns a secret in another spelling: with other unused bits at its end.
func loosen(secret string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, secret[len(secret)-1])
	return secret[:len(secret)-1] + alphabet[last^1:last^1+1]
}
