package store

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// KindOf returns the kind of a key: its beginning, up to and including the first
// colon. A key without a colon has the kind "".
func KindOf(key string) string { return key[:strings.IndexByte(key, ':')+1] }

// CheckKind returns an error unless kind is one that a Counter can count.
func CheckKind(kind string) error {
	if kind != KindOf(kind) {
		return fmt.Errorf("store: cannot count the keys that begin with %q: want a kind, which ends with its first colon, or nothing for all keys", kind)
	}
	return nil
}

// Tally counts entries by their kinds as they come and go, so that a count does
// not depend on how many there are. A store that removes expired entries late
// tells the Tally when it does; until then, Count leaves them out.
//
// The zero Tally is ready. All methods may be called concurrently.
type Tally struct {
	mu    sync.Mutex
	kinds map[string]*kindTally
}

// kindTally counts the entries of a kind, and those of them that expire, by the
// second in which they do. Its size depends on how far the expiries are apart.
type kindTally struct {
	total int
	pages map[int64]*tallyPage
}

// secondsOfPage is the length of a page. At a lifetime of a week, the pages of a
// kind take 2.4 MB.
const secondsOfPage = 256

type tallyPage struct {
	total    int
	expiring [secondsOfPage]int32 // by the second
}

// Add counts an entry that has come. A zero expires means that the entry stays.
func (t *Tally) Add(key string, expires time.Time) { t.change(key, expires, 1) }

// Remove counts an entry that has gone, with the expiry that it had.
func (t *Tally) Remove(key string, expires time.Time) { t.change(key, expires, -1) }

// Count returns the number of entries of a kind that are live at now, or of all
// kinds if kind is "". An entry counts until the second in which it expires has
// ended.
func (t *Tally) Count(kind string, now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if kind != "" {
		return t.kinds[kind].live(now)
	}
	count := 0
	for _, k := range t.kinds {
		count += k.live(now)
	}
	return count
}

// Reset forgets all entries.
func (t *Tally) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kinds = nil
}

func (t *Tally) change(key string, expires time.Time, by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kind := KindOf(key)
	k := t.kinds[kind]
	if k == nil {
		if t.kinds == nil {
			t.kinds = make(map[string]*kindTally)
		}
		k = &kindTally{pages: make(map[int64]*tallyPage)}
		t.kinds[strings.Clone(kind)] = k
	}
	k.total += by
	if !expires.IsZero() {
		k.expiring(second(expires), by)
	}
}

// expiring counts entries that expire in a second.
func (k *kindTally) expiring(second int64, by int) {
	number, at := page(second)
	p := k.pages[number]
	if p == nil {
		p = &tallyPage{}
		k.pages[number] = p
	}
	p.total += by
	p.expiring[at] += int32(by)
	if p.total == 0 {
		delete(k.pages, number)
	}
}

func (k *kindTally) live(now time.Time) int {
	if k == nil {
		return 0
	}
	live := k.total
	current, last := page(now.Unix())
	for number, p := range k.pages {
		switch {
		case number < current:
			live -= p.total
		case number == current:
			for _, n := range p.expiring[:last+1] {
				live -= int(n)
			}
		}
	}
	return live
}

// second returns the first full second at which an entry has expired.
func second(expires time.Time) int64 {
	if expires.Nanosecond() > 0 {
		return expires.Unix() + 1
	}
	return expires.Unix()
}

// page returns the page of a second, and the place on it.
func page(second int64) (number, at int64) {
	number = second / secondsOfPage
	if second%secondsOfPage < 0 {
		number--
	}
	return number, second - number*secondsOfPage
}
