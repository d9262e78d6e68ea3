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

	"authgate/gateway/must"
	"authgate/gateway/password"
)

// The costs of cheapArgon2id and cheapBcrypt.
const argonCost, bcryptCost = "argon2id,m=8,t=1,p=1", "bcrypt,cost=4"

// cheapArgon2id returns a cheap argon2id hash.
func cheapArgon2id(plain string) password.Hash {
	salt := []byte(rand.Text())[:16]
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
	return must.Get(password.Parse(string(must.Get(bcrypt.GenerateFromPassword([]byte(plain), bcrypt.MinCost))(tb))))(tb)
}

// blocking makes each computation of h wait until release is closed. most returns the
// largest number of computations at the same time.
func blocking(h *Hasher) (release chan struct{}, most func() int) {
	release = make(chan struct{})
	var mu sync.Mutex
	var running, peak int
	count := func(change int) int {
		mu.Lock()
		defer mu.Unlock()
		running += change
		peak = max(peak, running)
		return peak
	}
	h.compute = func(hash password.Hash, plain string) bool {
		count(1)
		defer count(-1)
		<-release
		return hash.Verify(plain)
	}
	return release, func() int { return count(0) }
}

func TestHasherBoundsWhatRunsAndWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slots = 3
		hasher := NewHasher(slots)
		release, most := blocking(hasher)
		hash := cheapArgon2id("secret")
		wantTrue := func() {
			if ok, err := hasher.Verify(t.Context(), hash, "secret"); !ok || err != nil {
				t.Errorf("got %v, %v, want true", ok, err)
			}
		}
		var wg sync.WaitGroup
		for range slots + maxHashQueue {
			wg.Go(wantTrue)
		}
		synctest.Wait()
		if ok, err := hasher.Verify(t.Context(), hash, "secret"); ok || !errors.Is(err, ErrBusy) {
			t.Errorf("one too many: got %v, %v, want ErrBusy", ok, err)
		}
		close(release)
		wg.Wait()
		if n, at := hasher.Computed(), most(); n != slots+maxHashQueue || at != slots {
			t.Errorf("%d computations, %d at once, want %d and %d", n, at, slots+maxHashQueue, slots)
		}
		wantTrue()
	})
}

func TestHasherWaitsUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hasher := NewHasher(1)
		release, _ := blocking(hasher)
		hash := cheapArgon2id("secret")
		ctx, cancel := context.WithCancel(t.Context())
		wantBusy := func() {
			if ok, err := hasher.Verify(ctx, hash, "secret"); ok || !errors.Is(err, ErrBusy) || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, %v, want ErrBusy because of the context", ok, err)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = hasher.Verify(t.Context(), hash, "secret") })
		synctest.Wait()
		wg.Go(wantBusy)
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		wg.Wait()
		wantBusy() // ended before
		if got := hasher.Computed(); got != 1 {
			t.Errorf("computed %d, want 1", got)
		}
	})
}
