package provider

import (
	"testing"
	"time"
)

// Over its size, a map loses its oldest entry; TestLifetimes shows what expires.
func TestExpiringMap(t *testing.T) {
	m := newExpiringMap[int](2, time.Now)
	for _, key := range []string{"a", "b", "c", "b", "d"} { // the second b is younger than c
		m.delete(key)
		m.put(key, 0, time.Now().Add(time.Hour))
	}
	_, b := m.get("b")
	_, d := m.get("d")
	if !b || !d || len(m.entries) != 2 || m.order.Len() != 2 || !m.delete("b") || m.delete("b") {
		t.Errorf("%d entries, b: %t, d: %t, want these; or delete does not tell whether it deleted", len(m.entries), b, d)
	}
}
