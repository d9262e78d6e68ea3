package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"

	"authgate/gateway/password"
)

// cheapArgon2id returns a cheap argon2id hash.
func cheapArgon2id(plain string) password.Hash {
	salt := random(32)[:16]
	encode := base64.RawStdEncoding.EncodeToString
	hash, err := password.Parse(fmt.Sprintf("$argon2id$v=19$m=8,t=1,p=1$%s$%s", encode(salt), encode(argon2.IDKey([]byte(plain), salt, 1, 8, 1, 32))))
	if err != nil {
		panic(err)
	}
	return hash
}

// cheapBcrypt returns a bcrypt hash with the lowest cost.
func cheapBcrypt(tb testing.TB, plain string) password.Hash {
	tb.Helper()
	h := must(bcrypt.GenerateFromPassword([]byte(plain), bcrypt.MinCost))(tb)
	return parsed(tb, string(h))
}

func parsed(tb testing.TB, s string) password.Hash {
	tb.Helper()
	return must(password.Parse(s))(tb)
}

// blocking makes each computation of h wait until release is closed. most returns the
// largest number of computations at the same time.
func blocking(h *Hasher) (release chan struct{}, most func() int) {
	release = make(chan struct{})
	var mu sync.Mutex
	var running, peak int
	h.compute = func(hash password.Hash, plain string) bool {
		mu.Lock()
		running++
		peak = max(peak, running)
		mu.Unlock()
		<-release
		mu.Lock()
		running--
		mu.Unlock()
		return hash.Verify(plain)
	}
	return release, func() int {
		mu.Lock()
		defer mu.Unlock()
		return peak
	}
}

func TestHasherBoundsWhatRunsAndWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slots = 3
		hasher := NewHasher(slots)
		release, most := blocking(hasher)
		hash := cheapArgon2id("secret")
		var wg sync.WaitGroup
		for range slots + maxHashQueue {
			wg.Go(func() {
				ok, err := hasher.Verify(t.Context(), hash, "secret")
				if !ok || err != nil {
					t.Errorf("got %v, %v, want true", ok, err)
				}
			})
		}
		synctest.Wait()
		if ok, err := hasher.Verify(t.Context(), hash, "secret"); ok || !errors.Is(err, ErrBusy) {
			t.Errorf("one too many: got %v, %v, want ErrBusy", ok, err)
		}
		if got := most(); got != slots {
			t.Errorf("%d computations at once, want %d", got, slots)
		}
		close(release)
		wg.Wait()
		if got := hasher.Computed(); got != slots+maxHashQueue {
			t.Errorf("computed %d, want %d", got, slots+maxHashQueue)
		}
		if got := most(); got != slots {
			t.Errorf("%d computations at once, want %d", got, slots)
		}
		if ok, err := hasher.Verify(t.Context(), hash, "secret"); !ok || err != nil {
			t.Errorf("afterwards: got %v, %v, want true", ok, err)
		}
	})
}

func TestHasherWaitsUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hasher := NewHasher(1)
		release, _ := blocking(hasher)
		hash := cheapArgon2id("secret")
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = hasher.Verify(t.Context(), hash, "secret") })
		synctest.Wait()

		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			ok, err := hasher.Verify(ctx, hash, "secret")
			if ok || !errors.Is(err, ErrBusy) || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, %v, want ErrBusy because of the context", ok, err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		wg.Wait()
		if ok, err := hasher.Verify(ctx, hash, "secret"); ok || !errors.Is(err, ErrBusy) {
			t.Errorf("ended before: got %v, %v, want ErrBusy", ok, err)
		}
		if got := hasher.Computed(); got != 1 {
			t.Errorf("computed %d, want 1", got)
		}
	})
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand
	return b
}
