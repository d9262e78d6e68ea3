package store

import (
	"crypto/rand"
	"strings"
	"testing"
)

// packable are keys of each kind that is packed.
func packable() []string {
	hash := strings.Repeat("A-_z09aQ", 6)[:hashDigits-1] + "w"
	return []string{"login:" + rand.Text(), "session:" + hash, "refresh:" + hash, "group:" + hash}
}

// Frequent keys take a byte and their bits, and other keys a byte more than before.
func TestPack(t *testing.T) {
	t.Parallel()
	for _, key := range packable() {
		want := 1 + hashBytes
		if strings.HasPrefix(key, loginKind) {
			want = 1 + textBytes
		}
		k := pack(key)
		if len(k.bytes()) != want || unpack(k.bytes()) != key {
			t.Errorf("%q is packed into %x, want %d bytes that give it back", key, k.bytes(), want)
		}
		for _, other := range []string{
			key + "A", key[:len(key)-1], key[:len(key)-1] + "x", key[:len(key)-1] + "\n", key[:len(key)-1] + "=", "x" + key,
			key[:len(key)-8], strings.ToLower(key), strings.ToUpper(key), KindOf(key),
		} {
			if k := pack(other); unpack(k.bytes()) != other {
				t.Errorf("%q becomes %q", other, unpack(k.bytes()))
			}
		}
	}
}

// A key of any length comes back.
func TestPackLongKeys(t *testing.T) {
	t.Parallel()
	for n := range 2 * len(packedKey{}.short) {
		key := strings.Repeat("x", n)
		if k := pack(key); unpack(k.bytes()) != key {
			t.Errorf("a key of %d bytes becomes %q", n, unpack(k.bytes()))
		}
	}
}

// FuzzPack packs any two keys: each comes back, and they share no packed form.
func FuzzPack(f *testing.F) {
	for _, key := range packable() {
		f.Add(key, key[:len(key)-1]+"x")
		f.Add(key, "\x01"+key)
	}
	f.Add("", strings.Repeat("long", 20))
	f.Fuzz(func(t *testing.T, a, b string) {
		packed, other := pack(a), pack(b)
		if unpack(packed.bytes()) != a {
			t.Errorf("%q becomes %q", a, unpack(packed.bytes()))
		}
		if same := string(packed.bytes()) == string(other.bytes()); same != (a == b) {
			t.Errorf("%q and %q have the same packed form: %t", a, b, same)
		}
	})
}
