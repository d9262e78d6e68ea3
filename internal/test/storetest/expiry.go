package storetest

import (
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
)

// testExpiry tests each method one nanosecond before the expiry of an entry and
// at that instant.
func testExpiry(t *testing.T, s Store, clock *clocktest.Clock) {
	const life = time.Second
	expires := clock.Now().Add(life)
	for _, key := range []string{"get", "take before", "take", "swap before", "swap", "create", "delete"} {
		Put(t, s, key, "value", expires)
	}
	Put(t, s, "stays", "value", never)
	WantValue(t, s, "get", "value")

	clock.Advance(life - 1)
	WantValue(t, s, "get", "value")
	take(t, s, "take before", "value")
	wantError(t, "Swap of a live value as if there were none",
		s.Swap(t.Context(), "create", nil, []byte("new"), never), store.ErrConflict)
	swap(t, s, "swap before", []byte("value"), "new", expires.Add(1))

	clock.Advance(1)
	WantNone(t, s, "get")
	_, err := s.Take(t.Context(), "take")
	wantError(t, "Take at expiry", err, store.ErrNotFound)
	wantError(t, "Swap at expiry",
		s.Swap(t.Context(), "swap", []byte("value"), []byte("new"), never), store.ErrConflict)
	WantNone(t, s, "swap")
	swap(t, s, "create", nil, "new", never)
	WantValue(t, s, "create", "new")
	remove(t, s, "delete")
	WantNone(t, s, "delete")
	WantValue(t, s, "swap before", "new")

	clock.Advance(1)
	WantNone(t, s, "swap before")
	clock.Advance(100 * 365 * 24 * time.Hour)
	WantNone(t, s, "get") // the dead stay dead
	WantValue(t, s, "stays", "value")
	WantValue(t, s, "create", "new")
}

// testExpiryRenewed moves the expiry of a live entry in both directions.
func testExpiryRenewed(t *testing.T, s Store, clock *clocktest.Clock) {
	start := clock.Now()
	Put(t, s, "longer", "1", start.Add(1*time.Second))
	Put(t, s, "longer", "2", start.Add(3*time.Second))
	Put(t, s, "shorter", "1", start.Add(3*time.Second))
	swap(t, s, "shorter", []byte("1"), "2", start.Add(1*time.Second))
	Put(t, s, "for ever", "1", start.Add(1*time.Second))
	swap(t, s, "for ever", []byte("1"), "2", never)
	Put(t, s, "no more", "1", never)
	Put(t, s, "no more", "2", start.Add(1*time.Second))

	clock.Advance(1 * time.Second)
	WantValue(t, s, "longer", "2")
	WantNone(t, s, "shorter")
	WantValue(t, s, "for ever", "2")
	WantNone(t, s, "no more")

	clock.Advance(2 * time.Second)
	WantNone(t, s, "longer")
	WantValue(t, s, "for ever", "2")

	Put(t, s, "shorter", "born again", clock.Now().Add(time.Second))
	WantValue(t, s, "shorter", "born again")
}

// testExpiryExtremes uses expiries that a store's own encoding of time may not
// be able to represent.
func testExpiryExtremes(t *testing.T, s Store, clock *clocktest.Clock) {
	const century = 100 * 365 * 24 * time.Hour
	for name, expires := range map[string]time.Time{
		"year 1":         time.Time{}.Add(1),
		"year 1600":      time.Date(1600, time.January, 1, 0, 0, 0, 0, time.UTC),
		"before 1970":    time.Unix(0, -1),
		"the Unix epoch": time.Unix(0, 0),
		"after 1970":     time.Unix(0, 1),
	} {
		Put(t, s, name, "value", expires)
		WantNone(t, s, name)
	}

	farAway := map[string]time.Time{
		"year 2270":   time.Date(2270, time.January, 1, 0, 0, 0, 0, time.UTC),
		"year 9999":   time.Date(9999, time.December, 31, 23, 59, 59, 999999999, time.UTC),
		"year 200000": time.Date(200000, time.January, 1, 0, 0, 0, 0, time.UTC),
		"zero in a far place": time.Time{}.In(
			time.FixedZone("far", -12*60*60)), // zero wherever it is told
	}
	for name, expires := range farAway {
		Put(t, s, name, "value", expires)
	}
	elsewhere := clock.Now().Add(century).In(time.FixedZone("east", 9*60*60))
	Put(t, s, "elsewhere", "value", elsewhere)

	clock.Advance(century - 1)
	WantValue(t, s, "elsewhere", "value")
	clock.Advance(1)
	WantNone(t, s, "elsewhere")
	for name := range farAway {
		WantValue(t, s, name, "value")
	}
}

// testAlreadyExpired writes values that have already expired.
func testAlreadyExpired(t *testing.T, s Store, clock *clocktest.Clock) {
	for name, age := range map[string]time.Duration{"this instant": 0, "long ago": time.Hour} {
		expired := clock.Now().Add(-age)

		Put(t, s, name, "dead", expired)
		WantNone(t, s, name)

		Put(t, s, name, "live", never)
		Put(t, s, name, "dead", expired)
		WantNone(t, s, name)
		swap(t, s, name, nil, "live", never) // it is gone, not merely hidden

		swap(t, s, name, []byte("live"), "dead", expired)
		WantNone(t, s, name)
		swap(t, s, name, nil, "dead", expired)
		WantNone(t, s, name)

		Put(t, s, name, "live", never)
		wantError(t, "Swap with the wrong old value",
			s.Swap(t.Context(), name, []byte("other"), []byte("dead"), expired), store.ErrConflict)
		WantValue(t, s, name, "live")
	}
}
