package provider

import (
	"strconv"
	"testing"
	"time"
)

func TestExpiringMap(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	s := newExpiringMap[int](3, func() time.Time { return now })
	later := now.Add(time.Minute)
	for i := range 5 {
		s.put(strconv.Itoa(i), i, later)
	}
	s.delete("3")
	s.put("3", 33, later) // now younger than 4
	for key, want := range map[string]int{"2": 2, "3": 33, "4": 4} {
		if got, ok := s.get(key); !ok || got != want {
			t.Errorf("%s: %d %v, want %d", key, got, ok, want)
		}
	}
	if _, ok := s.get("1"); ok || len(s.entries) != 3 || s.order.Len() != 3 {
		t.Errorf("%d values in a map for 3", len(s.entries))
	}
	s.put("5", 5, later)
	s.put("6", 6, later)
	if _, ok := s.get("3"); !ok {
		t.Error("a value that was put again is pushed out before older ones")
	}
	if !s.delete("3") || s.delete("3") {
		t.Error("delete does not tell whether it deleted")
	}
	now = later
	if _, ok := s.get("5"); ok || len(s.entries) != 1 || s.order.Len() != 1 {
		t.Error("a value outlives its time")
	}
}
