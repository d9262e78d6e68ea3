package storetest

import (
	"testing"
	"time"

	"authgate/gateway/clocktest"
	"authgate/gateway/store"
)

// testExpiry tests each method one nanosecond before the expiry of an entry and
// at that instant.
func testExpiry(t *testing.T, s Store, clock *clocktest.Clock) {
	const life = time.Second
	expires := clock.Now().Add(life)
	for _, key := range []string{"get", "take before", "take", "swap before", "swap", "create", "delete"} {
		put(t, s, key, "value", expires)
	}
	put(t, s, "stays", "value", never)
	wantValue(t, s, "get", "value")

	clock.Advance(life - 1)
	wantValue(t, s, "get", "value")
	take(t, s, "take before", "value")
	wantError(t, "Swap of a live value as if there were none",
		s.Swap(t.Context(), "create", nil, []byte("new"), never), store.ErrConflict)
	swap(t, s, "swap before", []byte("value"), "new", expires.Add(1))

	clock.Advance(1)
	wantNone(t, s, "get")
	_, err := s.Take(t.Context(), "take")
	wantError(t, "Take at expiry", err, store.ErrNotFound)
	wantError(t, "Swap at expiry",
		s.Swap(t.Context(), "swap", []byte("value"), []byte("new"), never), store.ErrConflict)
	wantNone(t, s, "swap")
	swap(t, s, "create", nil, "new", never)
	wantValue(t, s, "create", "new")
	remove(t, s, "delete")
	wantNone(t, s, "delete")
	wantValue(t, s, "swap before", "new")

	clock.Advance(1)
	wantNone(t, s, "swap before")
	clock.Advance(100 * 365 * 24 * time.Hour)
	wantNone(t, s, "get") // the dead stay dead
	wantValue(t, s, "stays", "value")
	wantValue(t, s, "create", "new")
}

// testExpiryRenewed moves the expiry of a live entry in both directions.
func testExpiryRenewed(t *testing.T, s Store, clock *clocktest.Clock) {
	start := clock.Now()
	put(t, s, "longer", "1", start.Add(1*time.Second))
	put(t, s, "longer", "2", start.Add(3*time.Second))
	put(t, s, "shorter", "1", start.Add(3*time.Second))
	swap(t, s, "shorter", []byte("1"), "2", start.Add(1*time.Second))
	put(t, s, "for ever", "1", start.Add(1*time.Second))
	swap(t, s, "for ever", []byte("1"), "2", never)
	put(t, s, "no more", "1", never)
	put(t, s, "no more", "2", start.Add(1*time.Second))

	clock.Advance(1 * time.Second)
	wantValue(t, s, "longer", "2")
	wantNone(t, s, "shorter")
	wantValue(t, s, "for ever", "2")
	wantNone(t, s, "no more")

	clock.Advance(2 * time.Second)
	wantNone(t, s, "longer")
	wantValue(t, s, "for ever", "2")

	put(t, s, "shorter", "born again", clock.Now().Add(time.Second))
	wantValue(t, s, "shorter", "born again")
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
		put(t, s, name, "value", expires)
		wantNone(t, s, name)
	}

	farAway := map[string]time.Time{
		"year 2270":   time.Date(2270, time.January, 1, 0, 0, 0, 0, time.UTC),
		"year 9999":   time.Date(9999, time.December, 31, 23, 59, 59, 999999999, time.UTC),
		"year 200000": time.Date(200000, time.January, 1, 0, 0, 0, 0, time.UTC),
		"zero in a far place": time.Time{}.In(
			time.FixedZone("far", -12*60*60)), // zero wherever it is told
	}
	for name, expires := range farAway {
		put(t, s, name, "value", expires)
	}
	elsewhere := clock.Now().Add(century).In(time.FixedZone("east", 9*60*60))
	put(t, s, "elsewhere", "value", elsewhere)

	clock.Advance(century - 1)
	wantValue(t, s, "elsewhere", "value")
	clock.Advance(1)
	wantNone(t, s, "elsewhere")
	for name := range farAway {
		wantValue(t, s, name, "value")
	}
}

// testAlreadyExpired writes values that have already expired.
func testAlreadyExpired(t *testing.T, s Store, clock *clocktest.Clock) {
	for name, age := range map[string]time.Duration{"this instant": 0, "long ago": time.Hour} {
		expired := clock.Now().Add(-age)

		put(t, s, name, "dead", expired)
		wantNone(t, s, name)

		put(t, s, name, "live", never)
		put(t, s, name, "dead", expired)
		wantNone(t, s, name)
		swap(t, s, name, nil, "live", never) // it is gone, not merely hidden

		swap(t, s, name, []byte("live"), "dead", expired)
		wantNone(t, s, name)
		swap(t, s, name, nil, "dead", expired)
		wantNone(t, s, name)

		put(t, s, name, "live", never)
		wantError(t, "Swap with the wrong old value",
			s.Swap(t.Context(), name, []byte("other"), []byte("dead"), expired), store.ErrConflict)
		wantValue(t, s, name, "live")
	}
}
