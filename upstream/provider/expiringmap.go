package provider

import (
	"container/list"
	"time"
)

// expiringMap is a bounded map whose entries expire. Over its size, it removes the
// oldest entry. It is not safe for concurrent use.
type expiringMap[V any] struct {
	size    int
	now     func() time.Time
	entries map[string]*list.Element // of entry[V]
	order   *list.List               // the oldest first
}

type entry[V any] struct {
	key     string
	value   V
	expires time.Time
}

func newExpiringMap[V any](size int, now func() time.Time) *expiringMap[V] {
	return &expiringMap[V]{size: size, now: now, entries: map[string]*list.Element{}, order: list.New()}
}

// put adds a value under a new key.
func (m *expiringMap[V]) put(key string, value V, expires time.Time) {
	if m.order.Len() >= m.size {
		m.delete(m.order.Front().Value.(entry[V]).key)
	}
	m.entries[key] = m.order.PushBack(entry[V]{key, value, expires})
}

// get returns the live value of a key, or false.
func (m *expiringMap[V]) get(key string) (V, bool) {
	element, ok := m.entries[key]
	if !ok {
		var none V
		return none, false
	}
	found := element.Value.(entry[V])
	if !m.now().Before(found.expires) {
		m.delete(key)
		var none V
		return none, false
	}
	return found.value, true
}

// delete removes a key and reports whether it existed.
func (m *expiringMap[V]) delete(key string) bool {
	element, ok := m.entries[key]
	if ok {
		m.order.Remove(element)
		delete(m.entries, key)
	}
	return ok
}
