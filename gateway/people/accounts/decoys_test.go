package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"authgate/gateway/people/password"
	"authgate/gateway/store"
	"authgate/internal/test/must"
	"authgate/internal/test/passwordtest"
)

// costs returns the cost of a check for each name. None is an account.
func costs(t *testing.T, accounts *Set, names []string) []string {
	t.Helper()
	all := make([]string, len(names))
	for i, name := range names {
		account, hash := accounts.Target(name)
		_, again := accounts.Target(name)
		if account != nil || again.Encoded() != hash.Encoded() {
			t.Fatalf("%s is an account, or costs this and that", name)
		}
		all[i] = hash.Cost()
	}
	return all
}

func strangers(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("stranger-%d", i)
	}
	return names
}

// Unknown names cost what accounts cost, as often. More accounts of one cost move a few
// unknown names to that cost, and none to another one.
func TestUnknownNamesCostWhatAccountsCost(t *testing.T) {
	t.Parallel()
	dear := must.Get(password.Parse("$2a$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"))(t)
	bcrypt, argon := passwordtest.Bcrypt(t, "secret"), passwordtest.Argon2id("secret")
	with := func(dears, bcrypts, argons int) *Set {
		var users []Account
		for i := range dears + bcrypts + argons {
			user := Account{Username: fmt.Sprintf("user-%d", i), Hash: argon}
			if i < dears {
				user.Hash = dear
			} else if i < dears+bcrypts {
				user.Hash = bcrypt
			}
			users = append(users, user)
		}
		return newAccounts(users...)
	}
	names := strangers(4000)
	before := costs(t, with(4, 12, 24), names)
	// A tenth is expected of the first cost, 0.3 of the second; the standard deviations are 19 and 29.
	for cost, want := range map[string]int{dear.Cost(): 400, passwordtest.BcryptCost: 1200,
		passwordtest.Argon2idCost: 2400} {
		if n := count(before, cost); n < want-150 || n > want+150 {
			t.Errorf("%d names of %d cost %s, want about %d", n, len(names), cost, want)
		}
	}
	for name, test := range map[string]struct {
		after  *Set
		to     string
		atMost int
	}{
		"more of the first cost":  {with(5, 12, 24), dear.Cost(), 200},
		"more of the second cost": {with(4, 14, 24), passwordtest.BcryptCost, 200},
		"more of the last cost":   {with(4, 12, 26), passwordtest.Argon2idCost, 200},
		"a cost less":             {with(0, 12, 24), "", 600},
		"as many of other names":  {with(4, 12, 24), "", 0},
	} {
		moved := 0
		for i, cost := range costs(t, test.after, names) {
			switch {
			case cost == before[i]:
			case test.to != "" && cost != test.to, test.to == "" && before[i] != dear.Cost():
				t.Errorf("%s: %s moves from %s to %s", name, names[i], before[i], cost)
			default:
				moved++
			}
		}
		if moved > test.atMost || moved == 0 && test.atMost > 0 {
			t.Errorf("%s: %d names of %d have another cost, want at most %d", name, moved, len(names), test.atMost)
		}
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// The cost of a name follows from the name and the key. All spellings of one name that
// are compared as equal have one cost, and other names have costs of their own.
func TestDecoyKey(t *testing.T) {
	t.Parallel()
	users := []Account{
		{Username: "a", Hash: passwordtest.Bcrypt(t, "a")}, {Username: "b", Hash: passwordtest.Argon2id("b")},
	}
	with := func(secret string) *Set { return New(slices.Clone(users), NewDecoyKey([]byte(secret)), time.Now) }
	names := strangers(64)
	want := costs(t, with("secret"), names)
	if got := costs(t, with("secret"), names); !slices.Equal(got, want) {
		t.Error("one key gives two costs")
	}
	if got := costs(t, with("another"), names); slices.Equal(got, want) {
		t.Error("two keys give the same costs")
	}
	for i := range names {
		composed, decomposed := fmt.Sprintf("Jos\u00e9-%d", i), fmt.Sprintf("Jose\u0301-%d", i)
		if got := costs(t, with("secret"), []string{composed, decomposed}); got[0] != got[1] {
			t.Fatalf("%q costs %s, %q %s", composed, got[0], decomposed, got[1])
		}
	}
	for name, account := range map[string]string{"a": passwordtest.BcryptCost, "b": passwordtest.Argon2idCost} {
		if _, hash := with("another").Target(name); hash.Cost() != account {
			t.Errorf("the account %s costs %s", name, hash.Cost())
		}
	}
}

// Instances agree on the key of the first, which is also the key after a restart.
func TestShareDecoyKey(t *testing.T) {
	t.Parallel()
	s := store.NewMemory(time.Now)
	t.Cleanup(func() { s.Close() })
	share := func(secret string, s store.Store) (*DecoyKey, error) {
		k := NewDecoyKey([]byte(secret))
		return k, k.Share(t.Context(), s)
	}
	equal := func(a, b *DecoyKey) bool { return *a.key.Load() == *b.key.Load() }
	first := must.Get(share("first", s))(t)
	if !equal(first, NewDecoyKey([]byte("first"))) {
		t.Error("the first key is replaced")
	}
	second := must.Get(share("second", s))(t)
	if !equal(second, first) {
		t.Error("the second instance keeps its own key")
	}
	must.Do(t, s.Delete(t.Context(), decoyKeyRecord)) // lost
	must.Do(t, second.Share(t.Context(), s))
	if third := must.Get(share("third", s))(t); !equal(third, first) {
		t.Error("the key is not kept again after it was lost")
	}
	must.Do(t, s.Delete(t.Context(), decoyKeyRecord))
	if late := must.Get(share("late", racingStore{s, first}))(t); !equal(late, first) {
		t.Error("the key of the instance that was first at the same moment is not taken")
	}
	errBroken := errors.New("broken")
	must.Do(t, s.Delete(t.Context(), decoyKeyRecord))
	for _, broken := range []failingStore{{s, errBroken, nil}, {s, nil, errBroken}} {
		if k, err := share("own", broken); !errors.Is(err, errBroken) || !equal(k, NewDecoyKey([]byte("own"))) {
			t.Errorf("a store that fails: got %v, want its error and the own key", err)
		}
	}
	must.Do(t, s.Put(t.Context(), decoyKeyRecord, []byte("damaged"), time.Time{}))
	if k, err := share("own", s); err == nil || !equal(k, NewDecoyKey([]byte("own"))) {
		t.Errorf("a damaged record: got %v, want an error and the own key", err)
	}
}

// racingStore is a store in which another instance keeps its key first.
type racingStore struct {
	store.Store
	other *DecoyKey
}

func (s racingStore) Swap(ctx context.Context, key string, _, _ []byte, _ time.Time) error {
	return errors.Join(s.Put(ctx, key, s.other.key.Load()[:], time.Time{}), store.ErrConflict)
}
