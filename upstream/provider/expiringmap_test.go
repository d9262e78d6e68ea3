package provider

import (
	"strconv"
	"testing"
	"time"

	"authgate/gateway/clocktest"
)

func TestExpiringMap(t *testing.T) {
	clock := clocktest.New()
	later := clock.Now().Add(time.Minute)
	m := newExpiringMap[int](3, clock.Now)
	for i := range 5 {
		m.put(strconv.Itoa(i), i, later)
	}
	want := func(what string, keys ...string) {
		t.Helper()
		for _, key := range keys {
			if got, ok := m.get(key); !ok || strconv.Itoa(got) != key || len(m.entries) != len(keys) || m.order.Len() != len(keys) {
				t.Errorf("%s: %s is %d, %t of %d, want %q", what, key, got, ok, len(m.entries), keys)
			}
		}
	}
	want("over its size", "2", "3", "4")
	if !m.delete("3") || m.delete("3") {
		t.Error("delete does not tell whether it deleted")
	}
	m.put("3", 3, later) // now younger than 4
	m.put("5", 5, later)
	m.put("6", 6, later)
	want("put again", "3", "5", "6")
	clock.Advance(time.Minute)
	if _, ok := m.get("5"); ok || len(m.entries) != 2 || m.order.Len() != 2 {
		t.Error("a value outlives its time")
	}
}
