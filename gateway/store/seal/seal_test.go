package seal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func box(tb testing.TB, fill byte) *Box {
	tb.Helper()
	b, err := New(bytes.Repeat([]byte{fill}, MinSecret))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// A message opens with its secret at its place alone, after a restart too.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"", "a refresh token"} {
		sealed := box(t, 1).Seal([]byte(message), "login:1")
		if got, err := box(t, 1).Open(sealed, "login:1"); err != nil || string(got) != message {
			t.Errorf("got %q, %v, want %q", got, err, message)
		}
		if bytes.Contains(sealed, []byte("refresh")) || bytes.Equal(sealed, box(t, 1).Seal([]byte(message), "login:1")) {
			t.Errorf("%q shows the message, or always looks the same", sealed)
		}
		_, otherSecret := box(t, 2).Open(sealed, "login:1")
		_, otherPlace := box(t, 1).Open(sealed, "login:2")
		_, nothing := box(t, 1).Open(nil, "login:1")
		for _, err := range []error{otherSecret, otherPlace, nothing} {
			if !errors.Is(err, ErrOpen) {
				t.Errorf("got %v, want %v", err, ErrOpen)
			}
		}
	}
}

// A MAC is one of secret and message, and the same after a restart.
func TestMAC(t *testing.T) {
	t.Parallel()
	mac := box(t, 1).MAC("csrf:1")
	if !bytes.Equal(mac, box(t, 1).MAC("csrf:1")) || bytes.Equal(mac, box(t, 1).MAC("csrf:2")) ||
		bytes.Equal(mac, box(t, 2).MAC("csrf:1")) {
		t.Errorf("%x is not one of secret and message", mac)
	}
}

func TestShortSecretIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := New(make([]byte, MinSecret-1)); err == nil {
		t.Error("31 bytes are taken")
	}
}

// One changed byte of a sealed message never opens.
func FuzzChangedByte(f *testing.F) {
	b := box(f, 1)
	f.Add([]byte("a refresh token"), uint16(3), byte(1))
	f.Fuzz(func(t *testing.T, message []byte, at uint16, by byte) {
		sealed := b.Seal(message, "p")
		if by == 0 {
			return
		}
		sealed[int(at)%len(sealed)] ^= by
		if got, err := b.Open(sealed, "p"); !errors.Is(err, ErrOpen) {
			t.Errorf("opens to %q, %v", got, err)
		}
	})
}

// The secret of a store is the configured one, or one that is made once.
func TestForStore(t *testing.T) {
	t.Parallel()
	configured, folder := strings.Repeat("s", MinSecret), t.TempDir()
	for _, secret := range []string{configured, ""} {
		first, err := ForStore(secret, folder)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ForStore(secret, folder)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.Open(first.Seal([]byte("a"), "place"), "place"); string(got) != "a" || err != nil {
			t.Errorf("with the secret %q: %q, %v", secret, got, err)
		}
	}
	if _, err := ForStore(configured[1:], folder); err == nil || !strings.Contains(err.Error(), "store.encryption_key") {
		t.Errorf("a secret that is too short: %v", err)
	}
}
