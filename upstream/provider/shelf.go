package provider

import (
	"container/list"
	"time"
)

// shelf keeps values by their keys until they expire, at most size of them:
// one more pushes out the one that has been there longest. It is not safe for
// concurrent use.
type shelf[V any] struct {
	size  int
	now   func() time.Time
	slots map[string]*list.Element // of slot[V]
	order *list.List               // the oldest first
}

type slot[V any] struct {
	key     string
	value   V
	expires time.Time
}

func newShelf[V any](size int, now func() time.Time) *shelf[V] {
	return &shelf[V]{size: size, now: now, slots: map[string]*list.Element{}, order: list.New()}
}

// put keeps a value under a key that is not on the shelf.
func (s *shelf[V]) put(key string, value V, expires time.Time) {
	if s.order.Len() >= s.size {
		s.delete(s.order.Front().Value.(slot[V]).key)
	}
	s.slots[key] = s.order.PushBack(slot[V]{key, value, expires})
}

// get returns the value under a key, or false where there is none.
func (s *shelf[V]) get(key string) (V, bool) {
	element, ok := s.slots[key]
	if !ok {
		var none V
		return none, false
	}
	found := element.Value.(slot[V])
	if !s.now().Before(found.expires) {
		s.delete(key)
		var none V
		return none, false
	}
	return found.value, true
}

// delete removes what is under a key and reports whether something was.
func (s *shelf[V]) delete(key string) bool {
	element, ok := s.slots[key]
	if ok {
		s.order.Remove(element)
		delete(s.slots, key)
	}
	return ok
}
