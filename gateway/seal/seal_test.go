package seal

import (
	"bytes"
	"errors"
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

func TestOpenReturnsWhatWasSealed(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"", "x", "a refresh token"} {
		sealed := box(t, 1).Seal([]byte(message), "login:1")
		got, err := box(t, 1).Open(sealed, "login:1") // as after a restart
		if err != nil || string(got) != message {
			t.Errorf("%q: got %q, %v", message, got, err)
		}
	}
}

func TestNothingElseOpens(t *testing.T) {
	t.Parallel()
	sealed := box(t, 1).Seal([]byte("a refresh token"), "login:1")
	if bytes.Contains(sealed, []byte("refresh")) {
		t.Errorf("the message is readable in %q", sealed)
	}
	if _, err := box(t, 2).Open(sealed, "login:1"); !errors.Is(err, ErrOpen) {
		t.Errorf("another secret: got %v", err)
	}
	if _, err := box(t, 1).Open(sealed, "login:2"); !errors.Is(err, ErrOpen) {
		t.Errorf("another place: got %v", err)
	}
	if _, err := box(t, 1).Open(nil, "login:1"); !errors.Is(err, ErrOpen) {
		t.Errorf("nothing: got %v", err)
	}
}

func TestOneMessageNeverLooksTheSameTwice(t *testing.T) {
	t.Parallel()
	b := box(t, 1)
	if bytes.Equal(b.Seal([]byte("x"), "p"), b.Seal([]byte("x"), "p")) {
		t.Error("two nonces are the same")
	}
}

func TestMACIsOfSecretAndMessage(t *testing.T) {
	t.Parallel()
	mac := box(t, 1).MAC("csrf:1")
	if !bytes.Equal(mac, box(t, 1).MAC("csrf:1")) {
		t.Error("it is not the same after a restart")
	}
	if bytes.Equal(mac, box(t, 1).MAC("csrf:2")) || bytes.Equal(mac, box(t, 2).MAC("csrf:1")) {
		t.Error("another message or secret has the same")
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
